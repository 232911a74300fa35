/* shm NAME: a POSIX shared memory block and a named semaphore that parent and
 * child share, and a System V segment; everything is removed again. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    char name[128];
    snprintf(name, sizeof name, "/%s", argv[1]);
    int fd = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
    if (fd < 0 || ftruncate(fd, 4096) < 0) {
        perror("shm_open");
        return 1;
    }
    char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    sem_t *sem = sem_open(name, O_CREAT | O_EXCL, 0600, 0);
    int id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
    if (p == MAP_FAILED || sem == SEM_FAILED || id < 0) {
        perror("mmap, sem_open or shmget");
        return 1;
    }
    char *v = shmat(id, NULL, 0);
    if (v == (void *)-1) {
        perror("shmat");
        return 1;
    }
    shmctl(id, IPC_RMID, NULL);
    pid_t child = fork();
    if (child == 0) {
        int other = shm_open(name, O_RDWR, 0);
        char *q = other < 0 ? MAP_FAILED : mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, other, 0);
        if (q == MAP_FAILED)
            _exit(1);
        strcpy(q, "posix");
        strcpy(v, "sysv");
        sem_post(sem);
        _exit(0);
    }
    sem_wait(sem);
    int status = 0;
    waitpid(child, &status, 0);
    printf("%s %s %d\n", p, v, status);
    sem_unlink(name);
    shm_unlink(name);
    return status != 0;
}
