module github.com/dshx/dshx

go 1.26.0

require golang.org/x/sys v0.50.0

require pgregory.net/rapid v1.3.0

require github.com/seccomp/libseccomp-golang v0.11.1
