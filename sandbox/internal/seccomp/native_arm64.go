package seccomp

var native = arm64
