/* san: threads and a heap, for builds with sanitizers. LeakSanitizer attaches
 * to the process with ptrace from a task of its own at exit, ThreadSanitizer
 * may start itself again with another personality. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static int sum;

static void *add(void *n) {
    int *one = malloc(sizeof *one);
    *one = *(int *)n;
    pthread_mutex_lock(&mu);
    sum += *one;
    pthread_mutex_unlock(&mu);
    free(one);
    return NULL;
}

int main(void) {
    pthread_t ids[8];
    int n = 5;
    for (int i = 0; i < 8; i++)
        pthread_create(&ids[i], NULL, add, &n);
    for (int i = 0; i < 8; i++)
        pthread_join(ids[i], NULL);
    printf("%d\n", sum);
    return 0;
}
