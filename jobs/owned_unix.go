//go:build unix

package jobs

import (
	"io/fs"
	"os"
	"syscall"
)

func ownedByUser(fi fs.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && int64(st.Uid) == int64(os.Geteuid())
}
