// Package ignore says what git ignores.
//
// The oracle is git ls-files -co --exclude-standard: a file is found when git
// tracks it or does not ignore it. So .gitignore files of every level count,
// those above the directory that a search starts in up to the repository's
// root too, and .git/info/exclude, and the file that core.excludesFile names;
// and the index is read, once, when something that is ignored could be tracked
// all the same.
//
//	rules := ignore.At("/home/me/repo/src", ignore.LoadGlobal(home, xdg, nil))
//	switch rules.Check(&buf, "main.o", false) { … }
//
// Where git leaves room this package decides:
//
//   - Outside of a repository nothing is ignored, as for ripgrep: a .gitignore
//     means something to git only.
//   - A repository inside another has its own rules, and is entered unless the
//     outer one ignores it; git ls-files prints its name and leaves it to
//     itself. So the oracle for a path is git in the innermost repository.
//   - A directory that is ignored, and named as the start of a search, is
//     searched whole.
//   - Of the configuration, core.excludesFile, core.ignoreCase and plain
//     include.path are read; conditional includes, GIT_DIR and its like aren't.
//   - A split index counts as tracked what either half names.
//
// Rule files are read without blocking, up to a size, and one that cannot be
// read counts as empty. All is done on the calling goroutine, with the rights
// of its thread.
//
// What it does not protect against: ignoring is no secret keeping. A
// repository's rules are whatever its author wrote.
//
// Neither sabhiram/go-gitignore nor go-git's gitignore package is used. Of 400
// random trees with random rules the former (v0.0.0-20210923224102) judged a
// file otherwise than git 2.39 in 109, the latter (v5.19) in 71. This package
// is held against git the same way by a test of package walk.
//
// For the packages below tools/fs only.
package ignore
