module github.com/dshx/dshx

go 1.26
