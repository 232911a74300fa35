// Package landlock turns a resolved policy into a Landlock ruleset.
//
// Landlock only allows: a hierarchy is granted by a rule on its top, and an
// exception inside it (a key below a readable home) is made by granting, at
// policy time, every sibling on the way instead. What appears later beside an
// exception is then refused, which is safe. Rules hold for inodes, so a path
// can be reached by any name and is judged the same.
//
// Not covered by Landlock, and left to package seccomp and its supervisor:
// mode, owner, times and extended attributes, Unix sockets by path (before
// ABI 9), UDP (before ABI 10), and the names in a directory: they may be
// listed everywhere.
//
// Only package sandbox may import it.
package landlock
