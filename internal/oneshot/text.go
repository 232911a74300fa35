package oneshot

import "github.com/dshx/dshx/internal/ttyprompt"

// OneLine is text as a message may hold it: on one line, what can't be printed
// by its code.
func OneLine(s string) string { return ttyprompt.Line(s) }
