package fs

import (
	"errors"

	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/sandboxpolicy"
	"github.com/dshx/dshx/tools/fs/internal/imagefile"
)

// readImage reads a file that is an image, whatever its name says, and reports
// whether it is one. Its bytes reach a client as content alone: a value is text.
func (w *work) readImage(f *reading, v *ReadValue) (bool, error) {
	// Not by f: what isn't an image must be hashed from its beginning.
	head := &reading{ctx: w.ctx, fd: f.fd, hash: f.hash, size: f.size, read: f.size}
	first, err := head.all(min(f.size, 16))
	if err != nil {
		return false, w.failed(sandboxpolicy.OpRead, err)
	}
	if imagefile.Type(first) == "" || f.size > imagefile.MaxBytes {
		return false, nil
	}
	data, err := f.all(f.size)
	if err != nil {
		return false, w.failed(sandboxpolicy.OpRead, err)
	}
	info, err := imagefile.Decode(data)
	if errors.Is(err, imagefile.ErrFormat) {
		// Something else that begins like one: text, perhaps.
		f.hash.Reset()
		f.read = 0
		return false, nil
	}
	if err != nil {
		return false, w.coded(err)
	}
	size := int64(len(data))
	v.Kind, v.MIMEType, v.Width, v.Height, v.Bytes = "image", info.MIME, info.Width, info.Height, &size
	w.putBeside(w.call, pipeline.Image(data, info.MIME))
	return true, nil
}
