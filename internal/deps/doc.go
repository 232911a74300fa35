// Package deps holds no code: its test keeps imports going one way and the modules in the
// program listed in docs/deps.golden.
//
// The table in deps_test.go is the architecture in rows. It is not relaxed to get a build
// through: a row goes, or gets an exception, only with a reason that a reviewer accepts.
package deps
