// Package diff compares two texts line by line, within bounds of time and output,
// and shows where a text that was not found nearly is.
//
// The same input gives the same output on every machine: work is bounded by
// counting it, not by a clock. Where it runs out, or where lines are too long or too
// many to show, the result says what it leaves out or lumps together.
//
//	d := diff.Compare(before, after, diff.Options{})
//	d.Unified("a/main.go", "b/main.go")
//
// Lines end with LF here, as patch(1) has it: a CR before it belongs to the line.
// Texts are any bytes; they come out as they went in.
//
// Only the file tools may import it. It alone imports go-diff, for the shortest
// script of a stretch of lines that is short enough (see myers).
package diff
