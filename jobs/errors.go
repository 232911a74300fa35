package jobs

// A codeError is an error with the code that clients see.
type codeError struct{ code, text string }

func (e *codeError) Error() string { return e.text }
func (e *codeError) Code() string  { return e.code }

// What the methods of Owner fail with, mostly wrapped: compare with errors.Is,
// or find Code() string with errors.As.
var (
	// ErrNotFound is for an id that is unknown, forgotten, or another
	// owner's; nothing tells which. Code JOB_NOT_FOUND.
	ErrNotFound error = &codeError{"JOB_NOT_FOUND", "no such job"}
	// ErrLimit refuses a start: the owner has MaxLive live jobs. Code JOB_LIMIT.
	ErrLimit error = &codeError{"JOB_LIMIT", "too many live jobs; end one first"}
	// ErrEnded refuses input to a job that has ended. Code JOB_ENDED.
	ErrEnded error = &codeError{"JOB_ENDED", "the job has ended"}
	// ErrCancelled refuses a start whose context was done before the starter
	// was called. Code CANCELLED.
	ErrCancelled error = &codeError{"CANCELLED", "cancelled before the job was started"}
	// ErrAborted is for a start whose context ended while the starter ran;
	// what it had started has been ended. Code ABORTED.
	ErrAborted error = &codeError{"ABORTED", "cancelled while the job was being started"}
	// ErrOwnerEnded refuses a start after, or undoes one during, the owner's
	// or the registry's Close. Code ABORTED.
	ErrOwnerEnded error = &codeError{"ABORTED", "the owner of the jobs has ended"}
	// ErrInvalid is for arguments that mean nothing: a kind, signal, cursor
	// or limit. Code INVALID_ARGS.
	ErrInvalid error = &codeError{"INVALID_ARGS", "invalid argument"}
	// ErrNoInput is for a Producer to return from Input when the job takes
	// none, or no more. Code INVALID_ARGS.
	ErrNoInput error = &codeError{"INVALID_ARGS", "the job takes no input"}
)
