// Package seccomp makes and installs dshx's system call filter.
//
// One table (table.go) names every system call of Linux on amd64 and arm64 with
// a decision and its reason; rules.go has the decisions that look at arguments;
// compile.go makes a classic BPF program of both for given Options. What the
// table doesn't name is ENOSYS, so a call that a later kernel brings looks
// unavailable until someone has decided about it, and programs take the path
// that they have for older kernels. Entries by another calling convention (int
// 0x80, x32) are ENOSYS too.
//
// What it does not protect against: a filter sees registers, never memory. It
// can't judge a path, an address or a structure; calls that hang on these are
// sent to the supervisor (package supervise), and without a Listener they are
// allowed. It doesn't protect files (Landlock does), signals and ptrace (Landlock's
// scope does; by number, ptrace, process_vm_readv and pidfd_getfd are allowed),
// System V and POSIX IPC of the same user (only an IPC namespace would), or
// against faults of the kernel in what is allowed. ioctl is judged by the
// requests that are known to get past Landlock, not by a list of what is fine:
// device drivers have thousands, and Landlock decides which device is opened.
// Descriptors that the caller passed in are used as they are.
//
// A filter binds to an OS thread and what it forks, for good:
//
//	runtime.LockOSThread() // and never unlock
//	prog, err := seccomp.Build(seccomp.Options{Network: seccomp.NetNone, Listener: true})
//	…
//	fd, err := seccomp.Install(prog, true, seccomp.Probe().WaitKillable)
//
// That thread is then subject to its own filter. It must never make a
// supervised call where the Go scheduler can't see it wait (RawSyscall): a
// garbage collection would wait for the thread, and the supervisor for the
// garbage collection.
//
// Only package sandbox and its internal packages import this one.
package seccomp
