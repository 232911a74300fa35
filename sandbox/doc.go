// Package sandbox runs commands and functions under a policy that the kernel
// enforces: Landlock, a seccomp filter and its supervisor, for one resolved
// sandboxpolicy.Policy.
//
// A Domain stands for a policy in force. Its commands are started by an OS
// thread of its own that carries the filter; each enters a Landlock domain
// between clone and exec, below the thread's, so that it can neither signal
// nor trace the thread. Its Do runs functions of this process in an equal
// Landlock domain. Command and Run read like os/exec:
//
//	cmd := sandbox.Command(policy, "go", "test", "./...")
//	cmd.Stdout = os.Stdout
//	err := cmd.Run()
//
// What isn't enforced on this host is reported by name (Enforcement), and
// nothing falls back silently: without Landlock or seccomp nothing runs.
//
// What it does not protect against: faults of the kernel; what the policy
// allows (a command that may write the workspace may write nonsense there);
// resource exhaustion beyond the limits; covert channels (names of files,
// timing, load); and everything under danger-full-access.
package sandbox
