/* spawn THREADS COUNT: THREADS threads start `true` COUNT times each with
 * posix_spawn (vfork-like clone under glibc) and wait for every one of them.
 * Prints the number of children that exited 0. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ;
static int count;

static void *work(void *unused) {
    long ok = 0;
    (void)unused;
    for (int i = 0; i < count; i++) {
        char *argv[] = {"true", NULL};
        pid_t pid;
        int status, err = posix_spawnp(&pid, "true", NULL, NULL, argv, environ);
        if (err != 0) {
            fprintf(stderr, "posix_spawn: %s\n", strerror(err));
            break;
        }
        while (waitpid(pid, &status, 0) < 0) {
            if (errno != EINTR) {
                perror("waitpid");
                return (void *)ok;
            }
        }
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
            ok++;
    }
    return (void *)ok;
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    int threads = atoi(argv[1]);
    count = atoi(argv[2]);
    pthread_t ids[256];
    long total = 0;
    if (threads < 1 || threads > 256)
        return 2;
    for (int i = 0; i < threads; i++) {
        int err = pthread_create(&ids[i], NULL, work, NULL);
        if (err != 0) {
            fprintf(stderr, "pthread_create: %s\n", strerror(err));
            return 1;
        }
    }
    for (int i = 0; i < threads; i++) {
        void *ok;
        pthread_join(ids[i], &ok);
        total += (long)ok;
    }
    printf("%ld\n", total);
    return 0;
}
