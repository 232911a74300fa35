// Package fs has the tools that work with files: read, write, edit, list, glob
// and grep.
//
//	undo, err := fs.Register(scope, fs.Options{
//		Domains:  fs.InScopes(&permission.Scopes{Base: box, Request: request}),
//		Observer: observer, // an *fsobserve.Observer
//	})
//
// Each tool is one file with its description beside it: read.go and read.md,
// and so on. What they share:
//
//	path.go     what a path means, and what the policy says about it
//	open.go     opening what may be swapped for something that blocks
//	replace.go  the one way in which a file changes; metadata.go: what it keeps
//	search.go   walking and searching in the domain
//	errors.go   codes; content.go: what a model reads
//	internal/   the engines: text, edits, diffs, images, patterns, walks
//
// All work on files happens in the sandbox's domain (Domain), where the kernel
// judges it as it judges a command. The policy is asked first, by resolved path:
// it knows what the kernel can't leave out of a writable tree, such as
// protected paths and a file that a person denies, and it can name its reason.
//
// What it does not protect against: a command that runs beside a tool can
// change names between the policy's answer and the operation. No link is
// followed then, and the kernel still holds what it can.
package fs
