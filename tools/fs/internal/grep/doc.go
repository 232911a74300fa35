// Package grep searches the files of a tree for a regular expression.
//
//	m, err := grep.Compile(grep.Pattern{Text: `func \w+\(`})
//	result, err := grep.Search(ctx, run, m, grep.Options{Walk: walk.Options{Root: dir}, Limit: 250})
//
// What a match is:
//
//   - Files are searched line by line, and an entry is a line that matches, as
//     for grep and ripgrep. With Multiline an entry is a match and the lines it
//     lies on; matches that share a line are one entry.
//   - A line's end is no part of it, be it LF or CRLF, so that "$" means the end
//     in both. A pattern that spells "\r" sees carriage returns.
//   - Columns count bytes of UTF-8 from 1, as ripgrep, compilers and most
//     editors do: it is exact for text that is not valid UTF-8 too.
//   - A byte order mark is skipped. UTF-16 with one is searched as UTF-8.
//   - A file with a NUL byte is left out, and counted, unless it was named.
//   - Word wants no letter, digit, mark or underscore of any script on either
//     side. In patterns \w and \b are RE2's: ASCII.
//
// Results are in the order of path bytes and the same however many workers
// search. Totals are exact, whatever the limit.
//
// How it is fast: literals that every match must hold are looked for first, in
// the whole file at once; where there is one, its line is given to an
// automaton that reads bytes (dfa.go), and regexp is asked only for the column
// of what will be shown. The literals are a filter: they never decide that
// something matches unless the pattern is a plain text.
//
// All access to files happens in calls of walk.Run. Memory is bounded, but for
// the names of the tree: a worker holds at most 64 MiB of a file, and results
// that wait for their turn a few MiB.
//
// What it does not protect against: what may be read is for the kernel's rules
// on Run's threads to say.
//
// For the packages below tools/fs only.
package grep
