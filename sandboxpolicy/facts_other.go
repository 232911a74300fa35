//go:build !unix

package sandboxpolicy

const openNonblock = 0
