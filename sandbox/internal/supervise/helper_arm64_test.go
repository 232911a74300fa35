//go:build linux

package supervise

import "golang.org/x/sys/unix"

func legacyChmod(path string, mode uint32) error { return unix.Fchmodat(unix.AT_FDCWD, path, mode, 0) }

func legacyUtimes(path string) error {
	return unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{{Sec: 1000, Nsec: 1000}, {Sec: 2000, Nsec: 2000}}, 0)
}
