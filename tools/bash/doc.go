// Package bash is the tool bash: one command line, run by a fresh shell in the
// domain of the call, with its output within bounds, and as a job where it is
// to go on after the call or leaves processes that do.
//
//	undo, err := bash.Register(scope, bash.Options{Domains: domains, Jobs: jobsOf})
//
// A command that fails, is ended by a signal or by its timeout is a value.
// Errors are what kept it from running, with the codes of the contract. What
// the command may do is for the domain to say, which Domains gives for each
// call: nothing is judged by the command's text here.
//
// # The life of a call
//
// The call answers when the shell has exited, whoever still holds its output.
// What was printed until then is its output; both ends of each stream are kept
// in memory, and the whole goes to files once it is too long. Processes that
// live on get a moment, 100 ms, to end. If they don't, they become a job together with
// the other ends of their pipes, and what they print from then on is the job's
// output. Where no job can be had, they are ended, and the result says so.
//
// A timeout and a cancelled call end the whole tree, what left its session
// included: SIGTERM, and SIGKILL after five seconds. No process, descriptor or
// goroutine of a call is left when it has answered, but for those of its job.
//
// Standard input is /dev/null, or the text of the call and then its end. On a
// terminal it is that text, echoed as typed text is, and one end-of-file
// character; both streams are one there. Without a terminal of its own the
// command has none at all: the caller's is in another session.
//
// # What it does not do
//
// It decides no permissions and asks nobody: see package tools/permission. A
// caller that does not read what is reported to it holds the command up, but
// neither its timeout nor its cancellation.
//
// Front doors and the program import it.
package bash
