//go:build linux

package supervise

import "golang.org/x/sys/unix"

func legacyChmod(path string, mode uint32) error {
	p, err := unix.BytePtrFromString(path)
	if err != nil {
		return err
	}
	return rawErr(unix.SYS_CHMOD, ptr(p), uintptr(mode))
}

func legacyUtimes(path string) error {
	p, _ := unix.BytePtrFromString(path)
	t := [4]int64{1000, 1, 2000, 2}
	return rawErr(unix.SYS_UTIMES, ptr(p), ptr(&t[0]))
}
