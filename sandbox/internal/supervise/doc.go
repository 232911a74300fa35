// Package supervise answers the system calls that a seccomp filter hands over
// by user notification: those whose verdict depends on memory that a filter
// can't read (paths, socket addresses, messages) or on who another process is.
//
// A thread of this process installs the filter and starts the confined
// commands; the Server's workers are other threads, under no filter. For each
// notification a worker copies the arguments out of the caller once, checks
// that the notification still stands, resolves what the arguments name to a
// descriptor of its own, asks the Judge about the path that this descriptor
// has, and then performs the call itself, on that descriptor and with its own
// copy. The kernel never reads again what was judged, so a second thread that
// changes the buffer in between gains nothing. The exact result of the real
// call goes back.
//
// SECCOMP_USER_NOTIF_FLAG_CONTINUE, which lets the kernel read the arguments
// again (seccomp_unotify(2) says it is no security boundary), is used for the
// scheduling and signal families, where the verdict depends on the integers in
// the registers (but for the caller's own process group, which a thread can
// change meanwhile: there each member is served by itself), and for making, opening, renaming and removing files, which
// Landlock judges in any case.
//
// Of these it performs a few that Landlock would refuse: those on the names of
// Options.Places, in directories whose other names stay out of reach. See
// names_linux.go.
//
// # What it does not protect against
//
// It sees only what the filter sends it, and judges by name: an object that
// had a second name inside a writable place before the run (a hard link) may
// be changed through it, exactly as its contents may. Between the check of a
// process number and a continued signal the number could, in theory, pass to
// another process; with Landlock's signal scope (ABI 6) these calls are not
// notified at all. A Landlock domain that a program inside makes for itself,
// without a seccomp filter, doesn't hold for the names of Options.Places and of
// sockets.
//
// # Differences that a program can see
//
//   - A signal that comes in the microseconds before a worker has taken the
//     notification interrupts even a call that never waits, such as chmod: it is
//     restarted under a handler with SA_RESTART and is EINTR under one without
//     (the kernel's choice; from then on WAIT_KILLABLE_RECV keeps it whole).
//   - SO_PEERCRED and SCM_CREDENTIALS name this process, not the caller, as
//     the one who connected or sent, and so does siginfo of
//     pidfd_send_signal and of kill(0); user and group are the same.
//   - A caller blocked in connect or sendmsg answers a signal within a tenth of
//     a second, not at once. A blocking stream socket has O_NONBLOCK set for the
//     microseconds of its connect.
//   - The names of Options.Places are made for the calls that git uses. openat2,
//     a symbolic link elsewhere that leads to such a name, and processes under
//     a seccomp filter of their own get what Landlock says: EACCES.
//   - Messages that wait to be sent carry at most a quarter of this process's
//     limit on descriptors, and 4096, all together; ETOOMANYREFS beyond.
//   - MSG_ZEROCOPY fails with ENOBUFS, after which programs send copies.
//   - Where only the loopback is allowed, an internet socket without a port that
//     listens or sends is bound to the loopback, not to all addresses, and the
//     interface and the flow in an IPv6 address are ignored.
//   - On a kernel without Landlock a socket bound to a path has only the last
//     component as its name. On a file system without birth times (statx(2)) a
//     socket that was bound inside can't be told from the host's: it can't be
//     connected to.
//
// # Use
//
//	s := supervise.New(fd, supervise.Options{Judge: judge, OnDenial: record})
//	go s.Serve()
//	…
//	s.Close()
//
// Only package sandbox imports it. Linux 5.0 has the listener; 5.6 makes it
// fast (openat2, pidfd_getfd).
package supervise
