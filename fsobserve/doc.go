// Package fsobserve is read-before-edit: a file is changed only by a caller
// that has seen what is in it, and only as long as that is still there.
//
// It is policy beside the file tools, which tell an Observer what they saw and
// ask it before they change anything:
//
//	o, err := fsobserve.New(fsobserve.Options{})
//	unlock, err := o.Lock(ctx, file) // one at a time, among all processes of the user
//	defer unlock()
//	if err := o.Check(call, fsobserve.Edit, path, &state); err != nil { … }
//	… replace the file …
//	o.Observed(call, path, newState, content)
//
// What was seen belongs to the pipeline scope of the call and ends with it.
// A file is its resolved path; under another hard link it is known by device
// and inode. Whether it is unchanged is for its content to say: equal content
// counts as unchanged whatever its times and its inode say, and a change that
// put size and times back is still seen.
//
// What it does not protect against: programs that write without asking, in the
// moment between the last look at a file and its replacement. Hashes are made
// to tell accidents, not attacks.
//
// It imports the pipeline alone, and touches no file but its own lock file.
package fsobserve
