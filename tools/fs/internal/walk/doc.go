// Package walk reads a tree of directories in parallel.
//
// It follows no symbolic link, opens nothing but directories and rule files,
// and waits for nothing: a FIFO, a socket or a device is an entry like any
// other. What git ignores is left out, and counted, as the options say. The
// tree comes out in the order of path bytes, and is the same however many
// workers read it.
//
// All access to files happens in functions that are handed to a Run, which
// calls them on threads that the kernel confines. The package starts no
// goroutine of its own that touches a file.
//
//	tree, err := walk.Walk(ctx, run, walk.Options{Root: dir, Types: walk.Files})
//	for path, entry := range tree.All() { … }
//
// What it does not protect against: what may be read is for the kernel's
// rules on Run's threads to say. A tree that changes during the walk is seen
// partly before and partly after; what vanished meanwhile is left out.
//
// Everything that is found is held in memory, some 60 bytes and the name for
// each entry that passes the filters.
//
// For the packages below tools/fs only.
package walk
