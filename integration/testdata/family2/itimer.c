/* itimer DIR ROUNDS: file work in DIR under a 1 ms interval timer whose
 * handler has no SA_RESTART. On a local file system none of these calls may
 * report EINTR (signal(7) lists the calls that can).
 *
 * Calls that a supervisor performs are counted apart. A signal that comes
 * between the call and the moment when the supervisor takes the notification
 * up ends the call with EINTR, whatever the filter's flags say
 * (SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV in seccomp(2) begins to hold only
 * then). The call has not happened then, so that the program may repeat it.
 * Prints "ok", the number of such calls, and how many were interrupted. */
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
static long supervised, interrupted;
static void tick(int sig) { (void)sig; ticks++; }

static int fail(int r, const char *call) {
    fprintf(stderr, "round %d: %s: %s\n", r, call, strerror(errno));
    return 1;
}

#define MUST(call)                    \
    do {                              \
        if ((call) < 0)               \
            return fail(r, #call);    \
    } while (0)

#define REPEAT(call)                          \
    do {                                      \
        supervised++;                         \
        while ((call) < 0) {                  \
            if (errno != EINTR)               \
                return fail(r, #call);        \
            interrupted++;                    \
        }                                     \
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
        REPEAT(fchmod(fd, 0640));
        REPEAT(chmod("t-new", 0600));
        REPEAT(utimensat(AT_FDCWD, "t-new", ts, 0));
        REPEAT(futimens(fd, ts));
        REPEAT(chown("t-new", -1, getegid()));
        supervised++;
        int x;
        while ((x = fsetxattr(fd, "user.f2", "v", 1, 0)) < 0 && errno == EINTR)
            interrupted++;
        if (x < 0 && errno != EOPNOTSUPP && errno != ENOTSUP) {
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
        REPEAT(bind(s, (struct sockaddr *)&a, sizeof a));
        MUST(listen(s, 4));
        MUST(c = socket(AF_UNIX, SOCK_STREAM, 0));
        REPEAT(connect(c, (struct sockaddr *)&a, sizeof a));
        MUST(close(c));
        MUST(close(s));
        MUST(unlink("t-sock"));
    }
    if (ticks == 0) {
        fprintf(stderr, "the timer never fired\n");
        return 1;
    }
    printf("ok %ld %ld\n", supervised, interrupted);
    return 0;
}
