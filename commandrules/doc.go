// Package commandrules says what the command rules of a policy mean for a
// script or a list of arguments: it finds every simple command in it, at any
// depth, and takes the strictest of what the rules say of each.
//
//	v := commandrules.Script(policy, "git status && git push --force", nil)
//	if v.Decision == commandrules.Deny { … v.Reason … }
//
// It is no boundary, and grants nothing. What a script does is known when it
// runs: a program can start any other, a file that is sourced can hold anything,
// and this package reads neither. What it can't see it says so: such a part is
// a command of which nothing is known, which an allow rule never covers and
// which makes an ask of a deny rule. What a command may do is for the kernel to
// bound, whatever its rule.
package commandrules
