package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Family 6 as far as it is about JSON lines, against the built program. What
// needs no process is in serve/jsonl.

// linesFrom runs dshx with a file as standard input, and returns the lines.
func (e *Env) linesFrom(in string, flags ...string) (lines []string, errs string, code int) {
	e.t.Helper()
	path := e.Write(filepath.Join(e.O, "calls"), in)
	f, err := os.Open(path)
	if err != nil {
		e.t.Fatal(err)
	}
	defer f.Close()
	r := e.Dshx(Opts{Stdin: f}, append([]string{"exec", "--no-config", "--env", "IT_MARK=" + e.Mark}, flags...)...)
	return strings.Split(strings.TrimSuffix(r.Stdout, "\n"), "\n"), r.Stderr, r.Exit
}

func TestLines_F6_2_InputThatIsAtItsEnd(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		e.Write(filepath.Join(e.W, "f"), "text\n")
		in := `{"id":1,"tool":"bash","arguments":{"command":"sleep 1; echo a"}}` + "\n" +
			`{"id":2,"tool":"read","arguments":{"file_path":"f"}}` + "\n" +
			`{"id":3,"tool":"bash","arguments":{"command":"echo b"}}`
		lines, errs, code := e.linesFrom(in)
		if len(lines) != 3 || code != 0 || errs != "" {
			t.Fatalf("status %d, %q, %q", code, errs, lines)
		}
		for i, want := range []string{`"stdout":"a\n"`, `"text":"text"`, `"stdout":"b\n"`} {
			if !strings.HasPrefix(lines[i], fmt.Sprintf(`{"id":%d,"ok":true`, i+1)) || !strings.Contains(lines[i], want) {
				t.Errorf("line %d: %s", i+1, clip(lines[i]))
			}
		}
		e.NothingLeft(0)
	})
}

func TestLines_F6_4_Cancel(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		c := e.lines(Opts{})
		c.send(`{"id":1,"tool":"bash","stream":true,"arguments":{"command":"echo begun; sh -c 'sleep 100 & sleep 100'"}}`)
		if r := c.next(); r.Event != "output" || r.Text != "begun\n" {
			t.Fatalf("%+v", r)
		}
		began := time.Now()
		c.send(`{"cancel":1,"reason":"user"}`)
		if r := c.next(); string(r.Cancelled) != "1" || !*r.Known {
			t.Errorf("%+v", r)
		}
		r := c.next()
		if string(r.ID) != "1" || r.OK == nil || *r.OK || r.Error.Code != "ABORTED" || !strings.Contains(r.Error.Message, "user") ||
			!strings.Contains(string(r.Error.Details), `"partial":{"kind":"foreground"`) || !strings.Contains(string(r.Error.Details), `"stdout":"begun\n"`) || !strings.HasPrefix(r.Content[0].Text, "begun\n") {
			t.Errorf("%+v", r)
		}
		c.nothingInside(0) // a result means that the tree is gone
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("took %v", took)
		}
		for _, late := range []string{"1", `"nosuch"`} {
			c.send(`{"cancel":%s}`, late)
			if r := c.next(); string(r.Cancelled) != late || *r.Known {
				t.Errorf("%+v", r)
			}
		}
		c.bash(1, "echo again")
		if r := c.next(); string(r.ID) != "1" || r.field(t, "stdout") != "again\n" {
			t.Errorf("%+v", r)
		}
		if code := c.end(); code != 0 {
			t.Errorf("status %d", code)
		}
		for line := range c.out {
			t.Errorf("one line more: %s", line)
		}
	})
}

// F6-5, F6-9, F6-20: whatever comes in, each request is answered by one process.
func TestLines_F6_5_WhatIsNoRequest(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		in := "\xef\xbb\xbf" + `{"id":null,"tool":"bash","arguments":{"command":"printf %s \"$PPID\""}}` + "\r\n" +
			"\n   \n" +
			"not json\n" + `{"id":5,"tool":"bash"` + "\n42\n[]\n{\"x\":1}\n" + `{"method":"tools/list"}` + "\n" +
			`{"id":[],"tool":"bash","arguments":{"command":"touch ran"}}` + "\n" + `{"id":true,"tool":"bash","arguments":{"command":"touch ran"}}` + "\n" + `{"id":{},"tool":"bash","arguments":{"command":"touch ran"}}` + "\n" +
			`{"tool":"bash","arguments":{"command":"printf %s \"a` + "\u2028" + `b\"; printf %s \"$PPID\""}}` + "\n" +
			`{"id":9007199254740993,"tool":"bash","arguments":{"command":"printf '\ud83d\ude00' | od -An -tx1"}}` + "\n" +
			`{"ping":1}`
		lines, errs, code := e.linesFrom(in, "--unordered")
		if code != 0 || errs != "" {
			t.Errorf("status %d, %q", code, errs)
		}
		all := strings.Join(lines, "\n")
		for n, id := range map[int]string{4: "null", 5: "5", 6: "null", 7: "null", 8: "null", 9: "null", 10: "null", 11: "null", 12: "null"} {
			found := false
			for _, l := range lines {
				found = found || strings.HasPrefix(l, `{"id":`+id+`,"ok":false,"error":{"code":"PARSE_ERROR"`) && strings.HasSuffix(l, fmt.Sprintf(`"details":{"line":%d}}}`, n))
			}
			if !found {
				t.Errorf("no answer for line %d", n)
			}
		}
		if n := strings.Count(all, `"id":null,"ok":true`); n != 2 || len(lines) != 13 || !strings.Contains(all, `{"pong":1}`) ||
			!strings.Contains(all, `"stdout":"a`+"\u2028") || !strings.Contains(all, `{"id":9007199254740993,"ok":true`) || !strings.Contains(all, `"stdout":" f0 9f 98 80\n"`) {
			t.Errorf("%d results without id, %d lines:\n%s", n, len(lines), clip(all))
		}
		if _, err := os.Stat(filepath.Join(e.W, "ran")); err == nil {
			t.Error("a request with no valid id ran")
		}
	})
}

// What a client may write for a number, and what becomes of it.
func TestLines_F6_10_Numbers(t *testing.T) {
	e := newEnv(t, os.Getuid(), os.Getgid())
	var in []string
	wants := []struct{ args, want string }{
		{`"timeout_ms":"5000"`, "timeout_ms"}, {`"timeout_ms":0.5`, "timeout_ms"}, {`"timeout_ms":-1`, "timeout_ms"}, {`"timeout_ms":true`, "timeout_ms"},
		{`"timeout_ms":null`, "timeout_ms"}, {`"timeout_ms":1e3`, "timeout_ms"}, {`"timeout":5`, "timeout"},
		{`"timeout_ms":9007199254740993`, ""}, {`"timeout_ms":700000`, ""},
	}
	for i, w := range wants {
		in = append(in, fmt.Sprintf(`{"id":%d,"tool":"bash","arguments":{"command":"echo ran >> ran",%s}}`, i, w.args))
	}
	in = append(in, `{"id":99,"tool":"edit","arguments":{"file_path":"f","old_string":"a","new_string":"b","replace_all":"true"}}`)
	wants = append(wants, struct{ args, want string }{"replace_all", "replace_all"})
	lines, _, _ := e.linesFrom(strings.Join(in, "\n"))
	for i, w := range wants {
		switch l := lines[i]; {
		case w.want == "" && !strings.Contains(l, `"timeoutMs":600000,`):
			t.Errorf("%s: %s", w.args, clip(l))
		case w.want != "" && (!strings.Contains(l, `"ok":false,"error":{"code":"INVALID_ARGS"`) || !strings.Contains(l, `"details":{"path":"`+w.want+`","expected":"`)):
			t.Errorf("%s: %s", w.args, clip(l))
		case w.want == "timeout" && !strings.Contains(l, "did you mean timeout_ms?"):
			t.Errorf("%s: %s", w.args, clip(l))
		}
	}
	if got := e.Read(filepath.Join(e.W, "ran")); got != "ran\nran\n" {
		t.Errorf("ran %q", got)
	}
}
