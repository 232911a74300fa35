// Package sandboxpolicy decides what a confined command may do. It joins
// preset, configuration files and flags into one immutable Policy, in which
// every rule knows where it came from, and answers questions about it:
//
//	p, notices, err := sandboxpolicy.Resolve(sandboxpolicy.Request{
//		Environ: os.Environ(),
//		TmpDir:  private,
//	}, sandboxpolicy.OSFacts{})
//	v := p.Verdict(sandboxpolicy.OpWrite, "/etc/hosts")
//	// v.Allow is false; v.Rule says why, v.Remedy what can be done about it
//
// # Rules
//
// Denies beat allows, whatever the order and the layer. The layers are the
// preset, the user's configuration, the workspace's own configuration (which
// may only tighten) and the flags (which may widen, since the user gave
// them). Secrets can't be allowed by any of them.
//
// Paths are resolved once, with the file system's semantics: "link/.." is
// the parent of where the link leads. A deny covers the name and what it
// leads to, and holds for what appears later; an allow covers what is there.
// In flags a relative path is relative to the current directory, in a
// configuration to the workspace; relative patterns are always matched in
// the workspace. A pattern covers everything below what it matches, and "*"
// matches names that begin with a dot.
//
// # What it does not protect against
//
// The package enforces nothing: it is data, and does no I/O but through
// Facts. Verdict judges paths that are already free of links; whoever asks
// must have resolved them in a way that can't be raced. It judges names: a
// second hard link to a denied file, made outside before the run, has a name
// of its own. A rename of a directory above a denied path is refused by
// Verdict, but one above a match of a pattern with "**" is not known. A
// workspace's own build files are code too; they are the command's to write,
// and running them outside is the person's decision. A git directory outside
// the workspace is granted only when it points back; one made with
// git init --separate-git-dir does not, and stays read-only.
//
// # Who may import it
//
// Everything. It imports the standard library without os/exec and net, and a
// TOML decoder, which runs only where a configuration file exists.
package sandboxpolicy
