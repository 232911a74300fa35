// Package caps cuts the capabilities of a thread to those with which root can
// work on files of several owners, and no others.
package caps

import (
	"golang.org/x/sys/unix"
)

// kept lets `tar x`, `chown` and `npm ci` of root work on a workspace of other
// owners; Landlock and the supervisor bound where.
const kept = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID

// Drop cuts the calling thread's capabilities to the kept ones, in the
// effective, permitted, inheritable, ambient and bounding sets. It can't be
// undone. The goroutine must be locked to its thread for good.
//
// Errors: those of capset(2) and prctl(2).
func Drop() error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return err
	}
	if none(data) && unix.Geteuid() != 0 {
		return nil // an ordinary user has nothing to lose
	}
	for c := uintptr(0); ; c++ {
		if c < 32 && kept&(1<<c) != 0 {
			continue
		}
		// EINVAL: past the last capability that the kernel knows. EPERM:
		// without CAP_SETPCAP the bounding set stays, but no_new_privs keeps
		// exec from gaining anything out of it (prctl(2)).
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			if err != unix.EINVAL && err != unix.EPERM {
				return err
			}
			break
		}
	}
	return Reduce()
}

// Reduce is Drop for a thread that will execute nothing: the bounding set
// stays.
func Reduce() error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return err
	}
	if none(data) {
		return nil
	}
	// EINVAL: no ambient set before Linux 4.3.
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil && err != unix.EINVAL {
		return err
	}
	data[0].Permitted &= kept
	data[0].Effective = data[0].Permitted
	data[0].Inheritable = 0
	data[1] = unix.CapUserData{}
	return unix.Capset(&hdr, &data[0])
}

// none reports that a thread has no capability and passes none on. The
// inheritable ones outlast the others: a user that a manager has taken them
// from may still have them there.
func none(data [2]unix.CapUserData) bool {
	return data[0].Permitted|data[1].Permitted|data[0].Inheritable|data[1].Inheritable == 0
}
