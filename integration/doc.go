// Package integration holds black-box tests: they build dshx, run it as a
// person would, and judge what the machine looks like afterwards. It has no
// code of its own beyond its tests; probe/ is the program that the tests run
// inside and outside of the sandbox to make raw system calls.
//
// The tests attack. As root they therefore run in mount, PID, IPC and network
// namespaces of their own (see main_test.go), never in the machine's.
//
// Environment:
//
//	DSHX_BIN             use this dshx, and dshx-mcp beside it, instead of building them; "none" runs only what needs no dshx
//	DSHX_IT_BASE         directory for workspaces and homes (default: a fresh one, see pickBase)
//	DSHX_REQUIRE_KERNEL  1: a skip for want of a kernel feature is a failure
package integration
