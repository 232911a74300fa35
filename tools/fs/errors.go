package fs

import (
	"context"
	"errors"
	"fmt"

	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/sandboxpolicy"
	"github.com/dshx/dshx/tools/fs/internal/rawfs"
	"github.com/dshx/dshx/tools/fs/internal/text"
	"golang.org/x/sys/unix"
)

func fail(code string, details any, format string, args ...any) *pipeline.Error {
	return pipeline.Fail(code, fmt.Sprintf(format, args...), details)
}

// invalid is INVALID_ARGS for what a schema can't say, in the shape that a
// schema's violations have.
func invalid(path, expected, got string) *pipeline.Error {
	v := &pipeline.Violation{Path: path, Expected: expected, Got: got}
	return pipeline.Fail(pipeline.CodeInvalidArgs, v.Error(), v)
}

// coded is an engine's error under its own code, with the file's name.
func (w *work) coded(err error) error {
	var c interface{ Code() string }
	if !errors.As(err, &c) {
		return w.failed(sandboxpolicy.OpRead, err)
	}
	var binary *text.NotTextError
	if errors.As(err, &binary) {
		details := struct {
			Type  string `json:"type"`
			Bytes int64  `json:"bytes"`
		}{binary.Type, binary.Size}
		return fail(c.Code(), details, "%q is not text (%s, %d bytes); use a command that knows the format", w.at.name(), binary.Type, binary.Size)
	}
	return fail(c.Code(), nil, "%q: %s", w.at.name(), err)
}

// failed makes an error of an operation on w's path one that clients know. op
// is what was tried, for a refusal that the policy explains.
func (w *work) failed(op sandboxpolicy.Op, err error) error {
	var done *pipeline.Error
	if errors.As(err, &done) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	name := w.at.name()
	if errors.Is(err, rawfs.ErrNotRegular) {
		return notRegular(name)
	}
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return err
	}
	switch errno {
	case unix.ENOENT:
		return fail("FS_NOT_FOUND", nil, "there is no %q; list its directory to see what there is", name)
	case unix.EISDIR:
		return isDirectory(name)
	case unix.ENOTDIR:
		return fail("FS_NOT_DIRECTORY", nil, "%q is not a directory, or leads through a file as if it were one", name)
	case unix.EACCES, unix.EPERM, unix.EROFS:
		if denied := w.judge(op, w.at.real); denied != nil {
			return denied
		}
		return fail("FS_PERMISSION_DENIED", nil, "%q: %s; its mode, or that of a directory above it, doesn't allow it", name, errno.Error())
	case unix.ELOOP:
		return fail("FS_SYMLINK_LOOP", nil, "%q leads through too many symbolic links", name)
	case unix.ENAMETOOLONG, unix.EINVAL, unix.EILSEQ:
		return fail("FS_INVALID_PATH", nil, "%q: %s; the file system doesn't take this name", clipped(name), errno.Error())
	case unix.ENOSPC, unix.EDQUOT:
		return fail("FS_NO_SPACE", nil, "there is no room to write %q: %s; nothing was changed", name, errno.Error())
	case unix.EFBIG:
		return fail("FS_TOO_LARGE", nil, "%q would be larger than files may be here; nothing was changed", name)
	case unix.ENXIO, unix.ENODEV:
		return notRegular(name)
	}
	return fail("FS_IO_ERROR", nil, "%q: %s", name, errno.Error())
}

func notRegular(name string) error {
	return fail("FS_NOT_REGULAR_FILE", nil, "%q is a FIFO, a socket or a device; file tools work with regular files only", name)
}

func isDirectory(name string) error {
	return fail("FS_IS_DIRECTORY", nil, "%q is a directory; name a file in it", name)
}

// clipped is a name that may be absurdly long.
func clipped(name string) string {
	const most = 200
	if len(name) <= most {
		return name
	}
	return text.Valid(name[:most]) + "…"
}
