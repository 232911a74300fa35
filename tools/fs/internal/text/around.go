package text

import "unicode/utf8"

// leadChars are shown before what a long line is cut around.
const leadChars = MaxLineChars / 10

// Around cuts a line, given without its end, to MaxLineChars characters that begin
// a little before the byte start, so that what was found there is in sight. cut is
// the number of characters missing on both sides. Invalid bytes become U+FFFD each.
func Around(line []byte, start int) (text string, cut int) {
	if len(line) <= MaxLineChars {
		return Valid(string(line)), 0
	}
	total := runeCount(line)
	if total <= MaxLineChars {
		return Valid(string(line)), 0
	}
	from, to := start, start
	back := func(n int) {
		for ; n > 0 && from > 0; n-- {
			_, size := utf8.DecodeLastRune(line[:from])
			from -= size
		}
	}
	back(leadChars)
	chars := 0
	for to = from; chars < MaxLineChars && to < len(line); chars++ {
		_, size := utf8.DecodeRune(line[to:])
		to += size
	}
	// Near the end of the line there is room before.
	back(MaxLineChars - chars)
	kept := line[from:to]
	return Valid(string(kept)), total - runeCount(kept)
}
