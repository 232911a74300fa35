// Command testrun runs go test and says afterwards what was skipped and why.
//
//	go run ./internal/testrun [-name LABEL] [-as USER] -- GO-TEST-ARGUMENTS
//
// A skip is easy to miss in the output of go test, and a kernel test that was skipped
// proves nothing; so each one is printed at the end with its reason, before the counts.
// It fails when a test or a build failed, and when no test ran at all.
//
// With -as (root only) the tests run as an ordinary user, in a copy of the tree that the
// user owns, with a home, a build cache and modules of its own, since the clone may lie
// where that user may not look. The copy is removed at the end.
package main
