package edit

import "fmt"

// An ArgsError says that an edit is malformed (INVALID_ARGS).
type ArgsError struct {
	Edit     int    // which, from 0; -1 if it is about the list
	Field    string // "old_string", "new_string" or "edits"
	Expected string // what would be right: "at least one character"
}

func (e *ArgsError) Error() string {
	if e.Edit < 0 {
		return fmt.Sprintf("%s must have %s", e.Field, e.Expected)
	}
	return fmt.Sprintf("%s of edit %d must have %s", e.Field, e.Edit, e.Expected)
}

// Code returns INVALID_ARGS.
func (e *ArgsError) Code() string { return "INVALID_ARGS" }

// A NotFoundError says that an edit's old text is not in the file (EDIT_NOT_FOUND).
type NotFoundError struct {
	Edit    int    // which, from 0
	Line    int    // of Nearest, from 1; 0 if there is none
	Nearest string // the most similar place as diff.Nearest shows it; empty if nothing is similar
}

func (e *NotFoundError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("old_string of edit %d is not in the file; the most similar text is at line %d", e.Edit, e.Line)
	}
	return fmt.Sprintf("old_string of edit %d is not in the file, nor anything similar", e.Edit)
}

// Code returns EDIT_NOT_FOUND.
func (e *NotFoundError) Code() string { return "EDIT_NOT_FOUND" }

// MaxLines bounds AmbiguousError.Lines.
const MaxLines = 1000

// An AmbiguousError says that an edit's old text occurs several times, and that it
// was not asked to replace them all (EDIT_AMBIGUOUS).
type AmbiguousError struct {
	Edit  int   // which, from 0
	Count int   // of all matches
	Lines []int // where each match begins, from 1; the first MaxLines of them
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("old_string of edit %d occurs %d times; give more of the text around it, or set replace_all", e.Edit, e.Count)
}

// Code returns EDIT_AMBIGUOUS.
func (e *AmbiguousError) Code() string { return "EDIT_AMBIGUOUS" }

// A NoChangeError says that the file would have the same bytes as before
// (EDIT_NO_CHANGE).
type NoChangeError struct{}

func (e *NoChangeError) Error() string {
	return "the edits leave the file as it is"
}

// Code returns EDIT_NO_CHANGE.
func (e *NoChangeError) Code() string { return "EDIT_NO_CHANGE" }

// A TooLargeError says that the file would grow beyond MaxBytes (FS_TOO_LARGE).
type TooLargeError struct {
	Edit  int   // which, from 0
	Bytes int64 // what it would make of the file, about
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("edit %d would make the file about %d bytes long, more than %d", e.Edit, e.Bytes, int64(MaxBytes))
}

// Code returns FS_TOO_LARGE.
func (e *TooLargeError) Code() string { return "FS_TOO_LARGE" }
