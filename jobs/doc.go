// Package jobs keeps a registry of work that goes on after the call that
// started it has answered: its identity, how it ends, and its output.
//
// Work belongs to an Owner, in dshx the client of a connection. Other owners
// do not exist for it: a job of theirs and one that never was are the same
// error. What is done is up to the starter, which returns a Producer, the
// only view that the registry has of it: it can be signalled, given input
// and waited for.
//
//	reg, err := jobs.New(jobs.Options{Dir: dir})
//	owner := reg.Owner("connection 1")
//	job, err := owner.Start(ctx, jobs.Spec{Kind: "bash", Label: "make", Start: start})
//	chunk, err := owner.Follow(ctx, job.ID, jobs.ReadOptions{})
//	err = owner.Close(context.Background())
//
// # A job's life
//
// Start checks first, and only then calls the starter; when it returns an
// error, nothing is left: no process, no id, no file. From the moment the job
// has its id the context of the call no longer reaches it. It ends by itself,
// by Kill, by its owner's Close, by the registry's Close, or by a limit; the
// first of them is told by EndedBy. An end that is asked for is a signal,
// and KILL after the grace. A job has ended when its Producer's Wait has
// returned, which is when nothing of it lives; there is one terminal record,
// waiters are released with it, and observers are told it once.
//
// # Output
//
// Both streams of a job are kept in one file of at most BytesPerJob bytes.
// When that is full, the bytes whose part of the file was written to least
// recently make room, whichever stream they are of. Reading consumes nothing:
// a Cursor says where a reader is in both streams, and each Chunk says how
// many bytes between the cursor and its first byte are gone. Writing blocks
// while the disk works and never for its failures: a full disk costs output,
// which is counted as missed, and never the job.
//
// # What it does not do
//
// It knows no processes: that a signal reaches a whole tree, that Wait waits
// for all of it, and that a number is never taken for another process are
// promises of the Producer. It does not protect the output from others who
// may read Options.Dir: the directory is private to the user, and keeping
// confined commands out of it is up to the policy. It keeps nothing across
// a restart; what a killed program leaves in the directory is the caller's
// to remove, who had better give a directory that is removed as a whole.
//
// Any package of this module may import it; it imports none of them.
package jobs
