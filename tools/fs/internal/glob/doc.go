// Package glob matches slash-separated paths against patterns.
//
//   - any run of characters within a component
//     ?       one character
//     [a-z]   one character of a set; [!…] and [^…] one that is not in it
//     **      as a whole component: any number of components, also none;
//     at the end of a pattern at least one
//     {a,b}   either; may be nested and hold slashes
//     \x      x itself
//
// A character is a code point; a byte that is not UTF-8 counts as one.
// Matching looks at bytes and code points alone: no case folding, no locale.
//
// Two rules go beyond matching. Hidden: where hidden names are not wanted, a
// component matches a name that begins with a dot only when it spells the dot
// (".github/**" and "{.a,b}" do, "*", "?x", "[.]x" and "**" don't). Outright:
// a name that is reached by literal components only is named by the pattern as
// if it were a path, so that a walk can show it though it is ignored.
//
// Patterns are matched component by component (State), so that a walk carries
// the state down the tree and does not enter directories below which nothing
// can match. That, and the two rules, is why it is not bmatcuk/doublestar,
// which matches whole paths.
//
// For the packages below tools/fs only. It does no I/O.
package glob
