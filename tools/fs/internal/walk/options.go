package walk

import (
	"time"

	"github.com/dshx/dshx/tools/fs/internal/glob"
	"github.com/dshx/dshx/tools/fs/internal/ignore"
	"github.com/dshx/dshx/tools/fs/internal/rawfs"
)

// A Run calls f(0) to f(n-1), each on a thread of its own that may read what
// the caller may, and returns when all have returned. The calls should run
// side by side; one after the other works too, and takes longer.
type Run func(n int, f func(i int))

// Here runs the calls on plain goroutines, with the rights of the process.
func Here(n int, f func(i int)) {
	done := make(chan struct{})
	for i := range n {
		go func() {
			defer func() { done <- struct{}{} }()
			f(i)
		}()
	}
	for range n {
		<-done
	}
}

// Type is the type of an entry.
type Type = rawfs.Type

// The types of entries.
const (
	File      = rawfs.File
	Directory = rawfs.Directory
	Symlink   = rawfs.Symlink
	Other     = rawfs.Other
)

// Types is a set of types.
type Types uint8

// Sets of types, to be joined by |.
const (
	Files       Types = 1 << File
	Directories Types = 1 << Directory
	Symlinks    Types = 1 << Symlink
	Others      Types = 1 << Other
	All               = Files | Directories | Symlinks | Others
)

// Options say what a walk finds. The zero value of each but Root is usable.
type Options struct {
	// Root is the directory to walk, an absolute path. Symbolic links in it
	// are followed, since it was named.
	Root string
	// Workers is how many threads read, from 1 up; 0 stands for one for each CPU.
	Workers int
	// Depth is how many levels are read: 1 is Root's own entries. 0 is all.
	Depth int
	// Hidden finds names that begin with a dot, though no pattern spells it.
	Hidden bool
	// Ignored finds what git ignores, and ".git" itself, which otherwise is no
	// part of the tree and isn't counted.
	Ignored bool
	// Types is what is found; 0 stands for All. Directories are entered all the same.
	Types Types
	// Include is what paths must match; nil is everything. What it spells in
	// full is found though hidden or ignored, with all below it that matches.
	Include *glob.Pattern
	// Exclude is what is left out, directories with all below them. Nothing
	// counts it.
	Exclude *glob.Pattern
	// Refuse, unless nil, is asked about each directory before it is entered and
	// about everything else that would be found, by its path below Root. What
	// it refuses is counted in Omitted.Denied and left out; a directory is only
	// not entered. It is called from every worker, and must be pure.
	Refuse func(path string, dir bool) bool
	// Stat fills in size, mode, time and target of each entry, at the cost of a
	// system call for each.
	Stat bool
	// Global is what git takes from outside of repositories.
	Global ignore.Global
}

// Omitted counts what a walk left out although the patterns wanted it.
type Omitted struct {
	Ignored int // files that git ignores, and directories with all below them
	Denied  int // directories and entries that could not be read, whatever the reason
}

// An Entry is something found. Its path is handed over beside it.
type Entry struct {
	Type Type
	*Info
}

// Info is what Options.Stat adds to an entry; nil without it. All but the
// type is zero where the entry could not be examined.
type Info struct {
	Size    int64  // bytes
	Mode    uint32 // as in stat(2), with the type
	ModTime time.Time
	Target  string // of a symbolic link, as it says
}
