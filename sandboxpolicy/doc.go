// Package sandboxpolicy decides what a confined command may do: it joins
// configuration, preset and flags into one immutable Policy in which every
// rule knows where it came from, and answers questions about it.
package sandboxpolicy
