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
// scheduling and signal families only: there the verdict depends on the
// integers in the registers.
//
// # What it does not protect against
//
// It sees only what the filter sends it, and judges by name: an object that
// had a second name inside a writable place before the run (a hard link) may
// be changed through it, exactly as its contents may. Between the check of a
// process number and a continued signal the number could, in theory, pass to
// another process; with Landlock's signal scope (ABI 6) these calls are not
// notified at all.
//
// # Differences that a program can see
//
//   - SO_PEERCRED and SCM_CREDENTIALS name this process, not the caller, as
//     the one who connected or sent; user and group are the same.
//   - A socket message is copied once more. A caller blocked in connect or
//     sendmsg answers a signal within a tenth of a second, not at once.
//   - MSG_ZEROCOPY fails with ENOBUFS, for which programs fall back to a copy.
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
