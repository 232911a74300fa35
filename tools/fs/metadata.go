package fs

import (
	"bytes"
	"strings"

	"github.com/dshx/dshx/sandboxpolicy"
	"golang.org/x/sys/unix"
)

// attributes are what a file keeps when its content is replaced, beside its mode
// and owner: extended attributes, ACLs among them.
type attributes map[string][]byte

const accessACL = "system.posix_acl_access"

// keptAttr reports an attribute that is to be kept. Labels of security modules
// are given by the kernel; capabilities are taken away by any write; trusted.*
// is seen by nobody in a domain, xattr(7).
func keptAttr(name string) bool {
	return strings.HasPrefix(name, "user.") || name == accessACL
}

// readAttributes reads what a file has.
func readAttributes(fd int) (attributes, error) {
	var kept attributes
	names, err := attrNames(fd)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if !keptAttr(name) {
			continue
		}
		value, err := attr(fd, name)
		if err == unix.ENODATA {
			continue
		}
		if err != nil {
			return nil, err
		}
		if kept == nil {
			kept = attributes{}
		}
		kept[name] = value
	}
	return kept, nil
}

// attrNames lists the attributes of a file; none where there can't be any.
func attrNames(fd int) ([]string, error) {
	data, err := grow(func(buf []byte) (int, error) { return unix.Flistxattr(fd, buf) })
	if err == unix.ENOTSUP || err == unix.ENOSYS || len(data) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00"), nil
}

func attr(fd int, name string) ([]byte, error) {
	return grow(func(buf []byte) (int, error) { return unix.Fgetxattr(fd, name, buf) })
}

// grow calls f with a larger buffer until the answer fits.
func grow(f func(buf []byte) (int, error)) ([]byte, error) {
	for size := 512; ; size *= 4 {
		buf := make([]byte, size)
		n, err := f(buf)
		if err == nil {
			return buf[:n], nil
		}
		// Over 64 KiB, xattr(7), no buffer helps.
		if err != unix.ERANGE || size > 64<<10 {
			return nil, err
		}
	}
}

// keep gives the new file what the old one has. Landlock doesn't judge such
// changes, so the policy is asked.
func (w *work) keep(fd int, was *found) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return w.failed(sandboxpolicy.OpChmod, err)
	}
	// The owner first: giving a file away takes bits of its mode.
	if st.Uid != was.st.Uid || st.Gid != was.st.Gid {
		if err := w.judge(sandboxpolicy.OpChown, w.at.real); err != nil {
			return err
		}
		if err := unix.Fchown(fd, int(was.st.Uid), int(was.st.Gid)); err != nil {
			return fail("FS_PERMISSION_DENIED", nil,
				"%q belongs to another user or group (%d:%d), which its replacement could not be given; change it with a command that writes in place", w.at.name(), was.st.Uid, was.st.Gid)
		}
	}
	if err := w.keepAttrs(fd, was.attrs); err != nil {
		return err
	}
	if err := w.judge(sandboxpolicy.OpChmod, w.at.real); err != nil {
		return err
	}
	if err := unix.Fchmod(fd, was.st.Mode&0o7777); err != nil {
		return w.failed(sandboxpolicy.OpChmod, err)
	}
	return nil
}

func (w *work) keepAttrs(fd int, kept attributes) error {
	names, err := attrNames(fd)
	if err != nil {
		return w.failed(sandboxpolicy.OpXattr, err)
	}
	// What the directory's default ACL has given it, and the old file hasn't.
	for _, name := range names {
		if _, has := kept[name]; name != accessACL || has {
			continue
		}
		if err := w.judge(sandboxpolicy.OpXattr, w.at.real); err != nil {
			return err
		}
		if err := unix.Fremovexattr(fd, name); err != nil && err != unix.ENODATA {
			return w.failed(sandboxpolicy.OpXattr, err)
		}
	}
	for name, value := range kept {
		if have, err := attr(fd, name); err == nil && bytes.Equal(have, value) {
			continue
		}
		if err := w.judge(sandboxpolicy.OpXattr, w.at.real); err != nil {
			return err
		}
		if err := unix.Fsetxattr(fd, name, value, 0); err != nil {
			return w.failed(sandboxpolicy.OpXattr, err)
		}
	}
	return nil
}
