module github.com/dshx/dshx

go 1.26.0

require (
	github.com/creack/pty v1.1.24
	golang.org/x/sys v0.50.0
)

require (
	github.com/rogpeppe/go-internal v1.16.0 // indirect
	golang.org/x/tools v0.26.0 // indirect
)
