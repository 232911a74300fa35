package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dshx/dshx/jobs"
)

var update = flag.Bool("update", false, "write testdata/tools.golden")

// What clients are told of the tools, to the byte but for white space.
func TestToolsList_Golden(t *testing.T) {
	in := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"0"}}}` + "\n" +
		`{"jsonrpc":"2.0","id":2,"method":"tools/list"}` + "\n"
	var out, errs bytes.Buffer
	if status := serve([]string{"--no-config", "--workspace", t.TempDir()}, strings.NewReader(in), &out, &errs); status != 0 {
		t.Fatalf("status %d: %s", status, errs.String())
	}
	var got bytes.Buffer
	for line := range strings.Lines(out.String()) {
		if reply, ok := strings.CutPrefix(line, `{"jsonrpc":"2.0","id":2,"result":`); ok {
			if err := json.Indent(&got, []byte(strings.TrimSuffix(reply, "}\n")), "", " "); err != nil {
				t.Fatal(err)
			}
		}
	}
	got.WriteByte('\n')
	const golden = "testdata/tools.golden"
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("the list has changed; -update writes it\n%s", got.String())
	}
}

// blocked is a writer that takes nothing until it is let go.
type blocked struct {
	open chan struct{}
	b    bytes.Buffer
}

func (b *blocked) Write(p []byte) (int, error) {
	<-b.open
	return b.b.Write(p)
}

// What nobody reads blocks nobody, is dropped, and is counted.
func TestSayer_DropsAndCounts(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		w := &blocked{open: make(chan struct{})}
		s := newSayer(w, asJSON)
		log := s.logger("info")
		const n = 1000
		for range n {
			log.Info("said")
		}
		close(w.open)
		for end := time.Now().Add(10 * time.Second); len(s.lines) > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("nothing is written")
			}
		}
		log.Info("last")
		s.close()
		log.Info("too late")
		said := strings.Count(w.b.String(), "said")
		var dropped int
		for line := range strings.Lines(w.b.String()) {
			var m struct{ Dropped int }
			switch {
			case asJSON && json.Unmarshal([]byte(line), &m) != nil, !asJSON && !strings.HasPrefix(line, "dshx: "):
				t.Errorf("%q", line)
			case asJSON:
				dropped += m.Dropped
			case strings.Contains(line, "were dropped"):
				// It may be said more than once: the writer may begin late.
				k, err := strconv.Atoi(strings.Fields(line)[5])
				if err != nil {
					t.Errorf("%q: %v", line, err)
				}
				dropped += k
			}
		}
		if said+dropped != n || dropped == 0 || !strings.Contains(w.b.String(), "last") || strings.Contains(w.b.String(), "too late") {
			t.Errorf("JSON %v: %d said, %d dropped: %.300s", asJSON, said, dropped, w.b.String())
		}
	}
}

// The end doesn't wait for what nobody reads.
func TestSayer_EndsBesideAStuckReader(t *testing.T) {
	w := &blocked{open: make(chan struct{})}
	s := newSayer(w, false)
	s.logger("").Warn("unread")
	done := make(chan struct{})
	go func() { s.close(); close(done) }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Error("it waits")
	}
	close(w.open)
}

func TestTextHandler(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(&textHandler{w: &b, min: slog.LevelInfo})
	log.Debug("unheard")
	log.Info("one", "n", 1)
	log.Warn("two\nlines", "s", "a\x1b[m")
	log.With("who", "me").WithGroup("g").Error("three", "k", "v", slog.Attr{})
	want := "dshx: info: one n=1\ndshx: two\\nlines s=a\\x1b[m\ndshx: three who=me g.k=v\n"
	if b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

func TestDescribe(t *testing.T) {
	three, term, kill, exit := 3, "SIGTERM", jobs.ByKill, jobs.ByExit
	for want, j := range map[string]jobs.Job{
		"job bash-1 has exited with status 3: make":                {ID: "bash-1", Label: "make", Status: jobs.Exited, ExitCode: &three, EndedBy: &exit},
		"job bash-2 has ended with SIGTERM":                        {ID: "bash-2", Status: jobs.Exited, Signal: &term, EndedBy: &exit},
		"job bash-3 was ended by job_kill: a\\nb":                  {ID: "bash-3", Label: "a\nb", Status: jobs.Killed, Signal: &term, EndedBy: &kill},
		"job bash-4 has failed":                                    {ID: "bash-4", Status: jobs.Failed},
		"job bash-5 has failed: " + strings.Repeat("é", 100) + "…": {ID: "bash-5", Status: jobs.Failed, Label: strings.Repeat("é", 300)},
	} {
		if got := describe(j); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestServe_Usage(t *testing.T) {
	for _, tt := range []struct {
		args []string
		code int
		out  string
		errs string
	}{
		{[]string{"--help"}, 0, "dshx serve [flags]", ""},
		{[]string{"--nosuch"}, 2, "", "unknown flag"},
		{[]string{"serve"}, 2, "", "one too many"},
		{[]string{"--log-format", "xml"}, 2, "", "text, json"},
		{[]string{"--build", "another"}, 1, "", "of one build"},
	} {
		var out, errs bytes.Buffer
		code := serve(tt.args, io.MultiReader(), &out, &errs)
		if code != tt.code || !strings.Contains(out.String(), tt.out) || !strings.Contains(errs.String(), tt.errs) || (tt.out == "") != (out.Len() == 0) {
			t.Errorf("%v: %d, %q, %q", tt.args, code, out.String(), errs.String())
		}
	}
}
