package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	for _, tc := range []struct {
		name    string
		events  string
		want    []string // in the printed report
		not     []string
		passed  int
		failed  int
		skipped int
	}{
		{"a skip is printed with its reason",
			`{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:7: no user namespaces: needs root\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- SKIP: TestA (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p"}`,
			[]string{"  no user namespaces: needs root\n      p TestA\n", "x: 0 passed, 0 failed, 1 skipped"}, nil, 0, 0, 1},
		{"a skip that was printed has its reason too",
			`{"Action":"output","Package":"p","Test":"TestA","Output":"SKIP TestA: no uv here\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- SKIP: TestA (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p"}`,
			[]string{"  no uv here\n      p TestA\n"}, nil, 0, 0, 1},
		{"a passing test's output is not shown",
			`{"Action":"output","Package":"p","Test":"TestA","Output":"chatter\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Elapsed":1}`,
			[]string{"ok    p (1 tests, 1.0 s)"}, []string{"chatter"}, 1, 0, 0},
		{"a failing test's output is shown",
			`{"Action":"output","Package":"p","Test":"TestA","Output":"a_test.go:3: got 1\n"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p"}`,
			[]string{"got 1", "FAIL  p"}, nil, 0, 1, 0},
		{"a build failure is a failure",
			`{"Action":"build-output","ImportPath":"p","Output":"undefined: x\n"}
{"Action":"fail","Package":"p","FailedBuild":"p"}`,
			[]string{"undefined: x", "does not build"}, nil, 0, 1, 0},
		{"a test that never ended is a failure",
			`{"Action":"output","Package":"p","Test":"TestA","Output":"panic: test timed out\n"}
{"Action":"fail","Package":"p"}`,
			[]string{"did not end: TestA", "panic: test timed out"}, nil, 0, 1, 0},
		{"a package that fails without a failing test is a failure",
			`{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"exit status 3\n"}
{"Action":"fail","Package":"p"}`,
			[]string{"exit status 3"}, nil, 1, 1, 0},
		{"a slow test is named, its subtests are not",
			`{"Action":"pass","Package":"p","Test":"TestA/sub","Elapsed":20}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":20}
{"Action":"pass","Package":"p","Test":"TestB","Elapsed":9}`,
			[]string{"slowest tests:\n    20.0 s  p TestA\n"}, []string{"TestB", "sub"}, 3, 0, 0},
		{"text between the events is passed on", "no required module provides package q", []string{"no required module", "no test ran"}, nil, 0, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out strings.Builder
			r := newReport(&out)
			if err := r.read(strings.NewReader(tc.events)); err != nil {
				t.Fatal(err)
			}
			r.summary("x")
			for _, want := range tc.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("report lacks %q:\n%s", want, out.String())
				}
			}
			for _, not := range tc.not {
				if strings.Contains(out.String(), not) {
					t.Errorf("report has %q:\n%s", not, out.String())
				}
			}
			if r.passed != tc.passed || r.failed != tc.failed || r.skipped != tc.skipped {
				t.Errorf("counted %d passed, %d failed, %d skipped", r.passed, r.failed, r.skipped)
			}
		})
	}
}

// The real go test is the oracle for the shape of its events.
func TestRun_RealGoTest(t *testing.T) {
	module := func(t *testing.T, body string) {
		dir := t.TempDir()
		files := map[string]string{
			"go.mod":    "module m\n\ngo 1.26\n",
			"m_test.go": "package m\n\nimport \"testing\"\n\n" + body,
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		t.Chdir(dir)
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command in PATH")
	}
	for _, tc := range []struct {
		name, body string
		want       bool
	}{
		{"passing", "func TestA(t *testing.T) {}", true},
		{"skipping beside a pass", "func TestA(t *testing.T) {}\nfunc TestB(t *testing.T) { t.Skip(\"why\") }", true},
		{"failing", "func TestA(t *testing.T) { t.Fail() }", false},
		{"panicking", "func TestA(t *testing.T) { panic(1) }", false},
		{"not building", "func TestA(t *testing.T) { undefined() }", false},
		{"no tests", "var _ = testing.Short", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			module(t, tc.body)
			ok, err := run(t.Context(), tc.name, "", []string{"./..."})
			if err != nil {
				t.Fatal(err)
			}
			if ok != tc.want {
				t.Errorf("ok = %v, want %v", ok, tc.want)
			}
		})
	}
}
