// Package sessionlog keeps what happened in a session: calls, questions and
// their outcomes, results, changes of preset, ends of jobs, one JSON object a
// line. It is enough to make the card of each call again (Replay), and has
// neither canonical values nor secrets of the environment.
//
//	log, err := sessionlog.Open("session.log", policy, sessionlog.Options{})
//	rec := log.Scope("main")
//	detach := rec.Attach(scope) // a *pipeline.Scope
//	…
//	rec.End("end of input")
//	err = log.Close()
//
// Writing never holds up a call and never fails one: records wait in memory,
// within a bound, for one goroutine that writes them. What could not be written
// is counted, said once, and has a record of its own as soon as writing works
// again.
//
// What it does not protect against: a process of the same user outside of any
// policy can change the file. A log tells what dshx saw; it is no evidence against
// its owner.
package sessionlog
