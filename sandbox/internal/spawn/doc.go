// Package spawn starts processes from a restricted thread.
//
// A confined command must not be started through os/exec: between clone and
// exec the child has to enter its own Landlock domain, and the parent must be
// the one thread that carries the seccomp filter. The child therefore runs a
// precomputed list of system calls on a stack of its own, sharing memory with
// the parent until it executes the command (CLONE_VM|CLONE_VFORK), and reports
// the step and the errno of a failure through that shared memory: whether the
// sandbox failed or the command did is a fact here, never a text.
//
// Two helpers that outlive the clone are made the same way: the guard, which
// ends the processes of a domain when its parent is gone (SIGKILL included),
// and the monitor, which leads the session of a command that has a terminal.
// They share the memory of their parent but no descriptors and no signal
// handlers, and never call into the Go runtime.
//
// Everything marked nosplit here runs without a goroutine: no allocation, no
// growing of stacks, no write barriers, no panics.
//
// The package protects against nothing by itself. Only package sandbox may
// import it.
package spawn
