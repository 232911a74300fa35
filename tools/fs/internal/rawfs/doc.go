// Package rawfs holds the few system calls that the search engines make for
// every file and directory: opening below a directory descriptor without an
// allocation, reading directories, and reading small files that may turn out
// to be something else.
//
// No function of it starts a goroutine, so all of them act with the rights of
// the thread that calls: a caller that runs on a confined thread stays
// confined. None follows a symbolic link in what it opens below a directory,
// and none blocks on a FIFO, socket or device: everything is opened with
// O_NONBLOCK.
//
// It does not protect against anything by itself: what may be opened is for
// the kernel's rules on the calling thread to say.
//
// For the packages below tools/fs only.
package rawfs
