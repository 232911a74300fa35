//go:build unix

package sandboxpolicy

import "syscall"

const openNonblock = syscall.O_NONBLOCK
