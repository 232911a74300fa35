/* itimer DIR ROUNDS: file work in DIR under a 1 ms interval timer whose
 * handler has no SA_RESTART. None of these calls may report EINTR on a local
 * file system (signal(7) lists the calls that can), so a supervisor that
 * hands an interruption on to its client is found out here. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

static volatile sig_atomic_t ticks;
static void tick(int sig) { (void)sig; ticks++; }

#define MUST(call)                                                            \
    do {                                                                      \
        if ((call) < 0) {                                                     \
            fprintf(stderr, "round %d: %s: %s\n", r, #call, strerror(errno)); \
            return 1;                                                         \
        }                                                                     \
    } while (0)

int main(int argc, char **argv) {
    if (argc != 3 || chdir(argv[1]) < 0)
        return 2;
    int rounds = atoi(argv[2]);
    struct sigaction sa;
    memset(&sa, 0, sizeof sa);
    sa.sa_handler = tick;
    sigaction(SIGALRM, &sa, NULL);
    struct itimerval it = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_REAL, &it, NULL);

    char buf[4096];
    memset(buf, 'x', sizeof buf);
    for (int r = 0; r < rounds; r++) {
        int fd;
        struct stat st;
        struct timespec ts[2] = {{1000, 0}, {2000 + r, 0}};
        MUST(fd = open("t-new", O_CREAT | O_RDWR | O_TRUNC, 0600));
        MUST(write(fd, buf, sizeof buf));
        MUST(fchmod(fd, 0640));
        MUST(chmod("t-new", 0600));
        MUST(utimensat(AT_FDCWD, "t-new", ts, 0));
        MUST(futimens(fd, ts));
        MUST(chown("t-new", -1, getegid()));
        if (fsetxattr(fd, "user.f2", "v", 1, 0) < 0 && errno != EOPNOTSUPP && errno != ENOTSUP) {
            fprintf(stderr, "round %d: fsetxattr: %s\n", r, strerror(errno));
            return 1;
        }
        MUST(close(fd));
        MUST(rename("t-new", "t-old"));
        MUST(stat("t-old", &st));
        if (st.st_size != (off_t)sizeof buf || st.st_mtime != 2000 + r || (st.st_mode & 07777) != 0600) {
            fprintf(stderr, "round %d: size %ld mtime %ld mode %o\n", r, (long)st.st_size, (long)st.st_mtime, st.st_mode);
            return 1;
        }
        MUST(unlink("t-old"));

        int s, c;
        struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "t-sock"};
        MUST(s = socket(AF_UNIX, SOCK_STREAM, 0));
        MUST(bind(s, (struct sockaddr *)&a, sizeof a));
        MUST(listen(s, 4));
        MUST(c = socket(AF_UNIX, SOCK_STREAM, 0));
        MUST(connect(c, (struct sockaddr *)&a, sizeof a));
        MUST(close(c));
        MUST(close(s));
        MUST(unlink("t-sock"));
    }
    if (ticks == 0) {
        fprintf(stderr, "the timer never fired\n");
        return 1;
    }
    puts("ok");
    return 0;
}
