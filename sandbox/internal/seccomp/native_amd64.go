package seccomp

var native = amd64
