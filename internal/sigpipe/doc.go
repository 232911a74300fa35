// Package sigpipe turns signals into records on a pipe.
//
// It stands in for os/signal where dshx starts a command: os/signal hands
// each signal that is asked for back and forth between two threads, which
// costs more than everything else in a start, and doesn't say who sent a
// signal. A terminal sends its signals to the command as well as to dshx; only
// those that a process sent to dshx must be passed on.
//
// The handler is a few lines of assembly that write one record to the pipe
// and return. It runs on the runtime's signal stack and needs no goroutine.
// The runtime doesn't know of it: os/signal must not be used for the same
// signals.
package sigpipe
