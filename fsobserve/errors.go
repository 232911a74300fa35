package fsobserve

import "fmt"

// A NotObservedError says that the caller hasn't seen the file
// (FS_NOT_OBSERVED).
type NotObservedError struct{ Path string }

func (e *NotObservedError) Error() string { return fmt.Sprintf("%q was not read before", e.Path) }

// Code returns FS_NOT_OBSERVED.
func (e *NotObservedError) Code() string { return "FS_NOT_OBSERVED" }

// A StaleError says that a file is not as the caller has seen it (FS_STALE).
type StaleError struct {
	Path string
	Gone bool // it isn't there any more
	// Before is what the caller has seen, if Known; nothing for a file that
	// wasn't there. It is not to be changed.
	Before []byte
	Known  bool
}

func (e *StaleError) Error() string {
	if e.Gone {
		return fmt.Sprintf("%q is gone since it was read", e.Path)
	}
	return fmt.Sprintf("%q has changed since it was read", e.Path)
}

// Code returns FS_STALE.
func (e *StaleError) Code() string { return "FS_STALE" }
