// Package mcp is the front door for editors and agents: the Model Context
// Protocol, by its official SDK. It decodes requests into calls of a pipeline,
// brings results, progress, ends of jobs and questions back, and decides
// nothing itself.
//
// The SDK negotiates versions, knows the methods and keeps the session. The
// transport is this package's own, since the SDK's ends the session with a line
// that is no message, rounds ids, answers calls that were cancelled, and drops
// those in flight at the end of input. Arguments and results go round the SDK:
// a request reaches it without its arguments, with the number of its entry in a
// table, and where its empty result comes back to be written, the entry has the
// bytes. Both are therefore exactly what was sent and what the tool returned.
//
// Memory is bounded by the longest line that is taken (64 MiB), not by what is
// sent: a longer line is skipped as it comes, a reader that doesn't read stops
// the writers, past some MiB of results that wait for it no call begins, and
// past a thousand requests in flight more are refused.
//
// Over HTTP (ServeHTTP) each client that initializes has such a session, and
// each of its requests a stream of its own: who doesn't read one holds up no
// other. Who has no business there is refused before anything is read.
//
// What is in force, and which tools there are, comes through Session.
package mcp
