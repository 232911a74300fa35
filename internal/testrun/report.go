package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// event is a line of go test -json: go doc test2json.
type event struct {
	Action      string
	Package     string
	ImportPath  string // build-output and build-fail only
	Test        string // empty: the package itself
	Elapsed     float64
	Output      string
	FailedBuild string
}

// A testID names a test; the zero Test is its package.
type testID struct{ Package, Test string }

// A report reads events, prints failures as they happen, and keeps what the summary needs.
type report struct {
	w       io.Writer
	output  map[testID]*strings.Builder // of what has not ended yet
	tests   map[string]int              // ended tests of each package
	skips   map[string][]testID         // by reason
	slow    []slowTest
	passed  int
	failed  int
	skipped int
}

// A slowTest is a top-level test that took long enough to be worth a look.
type slowTest struct {
	testID
	seconds float64
}

const (
	slowSeconds = 10
	slowShown   = 8
)

func newReport(w io.Writer) *report {
	return &report{
		w:      w,
		output: map[testID]*strings.Builder{},
		tests:  map[string]int{},
		skips:  map[string][]testID{},
	}
}

// read handles events until the end of in. Lines that are no events (go test prints
// some errors as plain text even with -json) are printed as they are.
func (r *report) read(in io.Reader) error {
	br := bufio.NewReader(in)
	for {
		line, err := br.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			var e event
			if json.Unmarshal(line, &e) == nil && e.Action != "" {
				r.handle(e)
			} else {
				fmt.Fprintf(r.w, "%s\n", bytes.TrimRight(line, "\n"))
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *report) handle(e event) {
	id := testID{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		io.WriteString(r.w, e.Output)
	case "output":
		b := r.output[id]
		if b == nil {
			b = new(strings.Builder)
			r.output[id] = b
		}
		b.WriteString(e.Output)
	case "pass", "fail", "skip":
		out := r.take(id)
		if e.Test == "" {
			r.endPackage(e, out)
			return
		}
		r.tests[e.Package]++
		if e.Elapsed >= slowSeconds && !strings.Contains(e.Test, "/") {
			r.slow = append(r.slow, slowTest{id, e.Elapsed})
		}
		switch e.Action {
		case "pass":
			r.passed++
		case "skip":
			r.skipped++
			reason := skipReason(out)
			r.skips[reason] = append(r.skips[reason], id)
		case "fail":
			r.failed++
			io.WriteString(r.w, out)
		}
	}
}

func (r *report) take(id testID) string {
	b := r.output[id]
	delete(r.output, id)
	if b == nil {
		return ""
	}
	return b.String()
}

func (r *report) endPackage(e event, out string) {
	switch e.Action {
	case "skip": // no test files
	case "pass":
		fmt.Fprintf(r.w, "ok    %s (%d tests, %.1f s)\n", e.Package, r.tests[e.Package], e.Elapsed)
	case "fail":
		// What had not ended when the package did: a panic, a timeout, os.Exit.
		unended := slices.SortedFunc(maps.Keys(r.output), func(a, b testID) int { return strings.Compare(a.Test, b.Test) })
		for _, id := range unended {
			if id.Package == e.Package {
				fmt.Fprintf(r.w, "did not end: %s\n%s", id.Test, r.take(id))
				r.failed++
			}
		}
		io.WriteString(r.w, out)
		if e.FailedBuild != "" {
			fmt.Fprintf(r.w, "FAIL  %s (it does not build)\n", e.Package)
			r.failed++
			return
		}
		if r.failed == 0 {
			r.failed++ // TestMain or an init function failed: no test is to blame
		}
		fmt.Fprintf(r.w, "FAIL  %s (%d tests, %.1f s)\n", e.Package, r.tests[e.Package], e.Elapsed)
	}
}

// skipReason returns the message of t.Skip from a test's output: what is indented under
// its file and line, or after SKIP and its name. The message comes last, after whatever the test logged before.
func skipReason(out string) string {
	var reason string
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, "\n")
		text := strings.TrimSpace(line)
		switch {
		case text == "", strings.HasPrefix(text, "=== "), strings.HasPrefix(text, "--- "):
		default:
			if _, message, ok := cutPosition(text); ok {
				reason = message
			} else if name, message, ok := strings.Cut(text, ": "); ok && strings.HasPrefix(name, "SKIP ") {
				reason = message // the integration tests print it so, to be seen without -v
			} else if reason != "" && strings.HasPrefix(line, "        ") {
				reason += " " + text // further lines of a message of several
			}
		}
	}
	if reason == "" {
		return "no reason given"
	}
	return reason
}

// cutPosition splits "file_test.go:12: message".
func cutPosition(text string) (position, message string, ok bool) {
	i := strings.Index(text, ".go:")
	if i < 0 {
		return "", "", false
	}
	rest := text[i+len(".go:"):]
	j := strings.Index(rest, ": ")
	if j <= 0 || strings.Trim(rest[:j], "0123456789") != "" {
		return "", "", false
	}
	return text[:i+len(".go:")+j], rest[j+2:], true
}

// summary prints the slowest tests, the skips by reason and the counts. Its last line is the one that
// scripts look for: "LABEL: N passed, N failed, N skipped".
func (r *report) summary(name string) {
	if len(r.slow) > 0 {
		slices.SortFunc(r.slow, func(a, b slowTest) int { return cmp.Compare(b.seconds, a.seconds) })
		fmt.Fprintf(r.w, "\n%s: slowest tests:\n", name)
		for _, t := range r.slow[:min(slowShown, len(r.slow))] {
			fmt.Fprintf(r.w, "  %6.1f s  %s %s\n", t.seconds, t.Package, t.Test)
		}
	}
	if r.skipped > 0 {
		fmt.Fprintf(r.w, "\n%s: skipped, and why:\n", name)
		for _, reason := range slices.Sorted(maps.Keys(r.skips)) {
			ids := r.skips[reason]
			fmt.Fprintf(r.w, "  %s\n", reason)
			for _, id := range ids {
				fmt.Fprintf(r.w, "      %s %s\n", id.Package, id.Test)
			}
		}
	}
	if r.passed+r.failed+r.skipped == 0 {
		fmt.Fprintf(r.w, "%s: no test ran\n", name)
	}
	fmt.Fprintf(r.w, "%s: %d passed, %d failed, %d skipped\n", name, r.passed, r.failed, r.skipped)
}
