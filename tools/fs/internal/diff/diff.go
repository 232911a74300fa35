package diff

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Options bound a Diff. The zero value is 3 lines of context in 32 KiB.
type Options struct {
	Context  int // lines around each change; 0 means 3, negative none
	MaxBytes int // of all lines in Hunks; 0 means 32 KiB
}

const (
	defaultContext  = 3
	defaultMaxBytes = 32 << 10

	// A line longer than this is shown in part, around what differs.
	maxLineChars = 1000

	noNewline = `\ No newline at end of file`
)

// A Hunk is a stretch of changed lines with the lines around them. Lines count
// from 1; of a side that has none, Start is the line before them, as in a unified diff.
type Hunk struct {
	OldStart int `json:"oldStart"`
	OldLines int `json:"oldLines"`
	NewStart int `json:"newStart"`
	NewLines int `json:"newLines"`

	// Each begins with ' ', '-' or '+', and has no LF at its end. After the last line
	// of a text that doesn't end with LF stands `\ No newline at end of file`.
	Lines []string `json:"lines"`
}

// A Diff is the difference of two texts.
type Diff struct {
	Hunks          []Hunk
	Added, Removed int // lines, those left out included

	LeftOut int  // changed lines that are in no hunk, since they exceed Options.MaxBytes
	Cut     int  // lines in Hunks that are shown in part; they cannot be patched with
	Coarse  bool // some lines that are alike are shown as changed: finding them took too long
}

// Compare returns the difference of before and after.
func Compare(before, after string, o Options) *Diff {
	switch {
	case o.Context == 0:
		o.Context = defaultContext
	case o.Context < 0:
		o.Context = 0
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultMaxBytes
	}
	d := &Diff{}
	if before == after {
		return d
	}
	head, tail := common(before, after)

	// The lines that differ, and as many around them as the context needs.
	from := lineBack(before, head, o.Context)
	skipped := strings.Count(before[:from], "\n")
	shown := lineForward(before, len(before)-tail, o.Context) - (len(before) - tail)
	a := strings.SplitAfter(before[from:len(before)-tail+shown], "\n")
	b := strings.SplitAfter(after[from:len(after)-tail+shown], "\n")
	a, b = dropEmpty(a), dropEmpty(b)

	changes, coarse := script(a, b)
	d.Coarse = coarse
	for _, c := range changes {
		d.Removed += c.a1 - c.a0
		d.Added += c.b1 - c.b0
	}
	d.fill(a, b, skipped, changes, o)
	return d
}

// dropEmpty drops what SplitAfter returns after a final LF.
func dropEmpty(lines []string) []string {
	if n := len(lines); n > 0 && lines[n-1] == "" {
		return lines[:n-1]
	}
	return lines
}

// common returns the lengths of what the texts have in common, in whole lines, at
// their start and at their end.
func common(a, b string) (head, tail int) {
	n := min(len(a), len(b))
	for n-head >= 64 && a[head:head+64] == b[head:head+64] {
		head += 64
	}
	for head < n && a[head] == b[head] {
		head++
	}
	head = strings.LastIndexByte(a[:head], '\n') + 1

	n -= head
	for n-tail >= 64 && a[len(a)-tail-64:len(a)-tail] == b[len(b)-tail-64:len(b)-tail] {
		tail += 64
	}
	for tail < n && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	starts := func(s string, at int) bool { return at == 0 || s[at-1] == '\n' }
	if i, j := len(a)-tail, len(b)-tail; !starts(a, i) || !starts(b, j) {
		if lf := strings.IndexByte(a[i:], '\n'); lf >= 0 {
			tail -= lf + 1
		} else {
			tail = 0
		}
	}
	return head, tail
}

// lineBack returns the start of the n-th line before the one that starts at.
func lineBack(s string, at, n int) int {
	for ; n > 0 && at > 0; n-- {
		at = strings.LastIndexByte(s[:at-1], '\n') + 1
	}
	return at
}

// lineForward returns the end of the n-th line from the one that starts at.
func lineForward(s string, at, n int) int {
	for ; n > 0 && at < len(s); n-- {
		lf := strings.IndexByte(s[at:], '\n')
		if lf < 0 {
			return len(s)
		}
		at += lf + 1
	}
	return at
}

// fill makes the hunks. skipped is the number of lines before a and b.
func (d *Diff) fill(a, b []string, skipped int, changes []change, o Options) {
	room := o.MaxBytes
	for i := 0; i < len(changes); {
		// Changes whose context meets are one hunk.
		j := i + 1
		for j < len(changes) && changes[j].a0-changes[j-1].a1 <= 2*o.Context {
			j++
		}
		if room <= 0 {
			for _, c := range changes[i:j] {
				d.LeftOut += c.a1 - c.a0 + c.b1 - c.b0
			}
			i = j
			continue
		}
		lead := min(o.Context, changes[i].a0)
		h := Hunk{OldStart: changes[i].a0 - lead, NewStart: changes[i].b0 - lead}
		put := func(mark byte, line string, focus int) bool {
			if room <= 0 {
				return false
			}
			content, ended := strings.CutSuffix(line, "\n")
			content, cut := clipTo(content, focus, maxLineChars)
			if cut {
				d.Cut++
			}
			h.Lines = append(h.Lines, string(mark)+content)
			room -= len(content) + 2
			if !ended {
				h.Lines = append(h.Lines, noNewline)
			}
			if mark != '+' {
				h.OldLines++
			}
			if mark != '-' {
				h.NewLines++
			}
			return true
		}
		for k, at := i, changes[i].a0-lead; ; k++ {
			end := len(a)
			switch {
			case k < j:
				end = changes[k].a0
			default:
				end = min(end, at+o.Context)
			}
			for ; at < end; at++ {
				put(' ', a[at], 0)
			}
			if k == j {
				break
			}
			c := changes[k]
			for x := c.a0; x < c.a1; x++ {
				focus := 0
				if y := c.b0 + x - c.a0; y < c.b1 {
					focus = firstDifference(a[x], b[y])
				}
				if !put('-', a[x], focus) {
					d.LeftOut++
				}
			}
			for y := c.b0; y < c.b1; y++ {
				focus := 0
				if x := c.a0 + y - c.b0; x < c.a1 {
					focus = firstDifference(a[x], b[y])
				}
				if !put('+', b[y], focus) {
					d.LeftOut++
				}
			}
			at = c.a1
		}
		h.OldStart += skipped
		h.NewStart += skipped
		if h.OldLines > 0 {
			h.OldStart++
		}
		if h.NewLines > 0 {
			h.NewStart++
		}
		d.Hunks = append(d.Hunks, h)
		i = j
	}
}

// firstDifference returns the length in bytes of what two lines have in common at
// their start.
func firstDifference(a, b string) int {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	return i
}

// clipTo cuts a line that is too long to most characters around the byte focus,
// a fifth of them before it, and says in it how many are missing.
func clipTo(line string, focus, most int) (string, bool) {
	if len(line) <= most || utf8.RuneCountInString(line) <= most {
		return line, false
	}
	start := min(focus, len(line))
	for n := 0; n < most/5 && start > 0; n++ {
		_, size := utf8.DecodeLastRuneInString(line[:start])
		start -= size
	}
	// The focus may be within a character: two that differ can begin alike.
	for n := 0; n < utf8.UTFMax-1 && start > 0 && start < len(line) && !utf8.RuneStart(line[start]); n++ {
		start--
	}
	end := start
	for n := 0; n < most && end < len(line); n++ {
		_, size := utf8.DecodeRuneInString(line[end:])
		end += size
	}
	out := line[start:end]
	if start > 0 {
		out = fmt.Sprintf("[%d characters left out]", utf8.RuneCountInString(line[:start])) + out
	}
	if end < len(line) {
		out += fmt.Sprintf("[%d characters left out]", utf8.RuneCountInString(line[end:]))
	}
	return out, true
}

// Unified returns the unified diff, empty if the texts are equal. A name with
// characters that could end the line is quoted as git does. What is left out stands
// in brackets at the end, where patch(1) skips it.
func (d *Diff) Unified(oldName, newName string) string {
	if len(d.Hunks) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "--- %s\n+++ %s\n", quote(oldName), quote(newName))
	for _, h := range d.Hunks {
		fmt.Fprintf(&b, "@@ -%s +%s @@\n", span(h.OldStart, h.OldLines), span(h.NewStart, h.NewLines))
		for _, l := range h.Lines {
			b.WriteString(l)
			b.WriteByte('\n')
		}
	}
	if d.LeftOut > 0 {
		fmt.Fprintf(&b, "[%d more changed lines left out]\n", d.LeftOut)
	}
	return b.String()
}

func span(start, lines int) string {
	if lines == 1 {
		return strconv.Itoa(start)
	}
	return fmt.Sprintf("%d,%d", start, lines)
}

// quote quotes a name that has a control character, a quote, a backslash or an
// invalid byte, in octal as git does.
func quote(name string) string {
	if utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return r < 0x20 || r == 0x7F || r == '"' || r == '\\' }) {
		return name
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(name); {
		r, n := utf8.DecodeRuneInString(name[i:])
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteByte(name[i])
		case r < 0x20 || r == 0x7F || r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\%03o`, name[i])
		default:
			b.WriteString(name[i : i+n])
		}
		i += n
	}
	b.WriteByte('"')
	return b.String()
}
