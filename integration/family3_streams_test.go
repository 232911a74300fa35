package integration

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// F3-1: the end of the command is the end of the run, whoever still holds its
// output; what it left behind is ended and counted.
func TestF3_1_LeftBehind(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		e.Write(filepath.Join(e.H, ".profile"), "(setsid sleep 300 &)\n")
		for _, tc := range []struct {
			name string
			argv []string
			out  string
			left int
		}{
			{"background child", []string{"sh", "-c", "sleep 60 & echo done"}, "done\n", 1},
			{"three of them", []string{"sh", "-c", "sleep 60 & sleep 60 & sleep 60 & echo done"}, "done\n", 3},
			{"login profile with an agent", []string{"sh", "-l", "-c", "echo done"}, "done\n", 1},
			{"session of its own, twice forked", []string{"sh", "-c", "setsid sh -c 'sleep 60 & sleep 60 & exit' & wait; echo done"}, "done\n", 2},
			{"stopped", []string{"sh", "-c", "sleep 60 & kill -STOP $!; echo done"}, "done\n", 1},
			{"nothing", []string{"sh", "-c", "sleep 0.01 & wait; echo done"}, "done\n", 0},
		} {
			t.Run(tc.name, func(t *testing.T) {
				r := e.Run(Opts{}, tc.argv...)
				if r.Exit != 0 || r.Stdout != tc.out || r.Stderr != "" {
					t.Errorf("streaming: %s", r)
				}
				if r.Duration > 2*time.Second && tc.name != "stopped" {
					t.Errorf("took %v, want 2s", r.Duration)
				}
				if s := r.Event("exited"); s == nil || s.LeftBehind == nil || *s.LeftBehind != tc.left {
					t.Errorf("want leftBehind %d: %s", tc.left, mustJSON(r.Status))
				}
				e.f3Ended()
				j := e.Run(Opts{JSON: true}, tc.argv...)
				if j.Exit != 0 || j.JSON.Stdout != tc.out {
					t.Errorf("--json: %s", j)
				}
				switch lb := j.JSON.LeftBehind; {
				case tc.left == 0 && lb != nil, tc.left > 0 && (lb == nil || len(lb.PIDs) != tc.left || lb.JobID != nil):
					t.Errorf("--json: want %d left behind: %s", tc.left, mustJSON(j.JSON))
				}
				e.f3Ended()
			})
		}
	})
}

// F3-1: a leftover that ignores TERM doesn't outlive the run either.
func TestF3_1_LeftBehindIgnoresTerm(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		r := e.Sh(Opts{Flags: []string{"--kill-after", "1s"}}, "sh -c 'trap \"\" TERM HUP INT; : > deaf; while :; do sleep 60; done' & while [ ! -e deaf ]; do sleep 0.01; done; echo done")
		if r.Exit != 0 || r.Stdout != "done\n" || r.Duration < time.Second || r.Duration > 10*time.Second {
			t.Errorf("%s", r)
		}
		e.f3Ended()
	})
}

// F3-1: output written just before the exit is never lost.
func TestF3_1_OutputBeforeExit(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		for i := range 20 {
			r := e.Run(Opts{}, probeBin, "f3-write", "200000").OK(t)
			if len(r.Stdout) != 200000 {
				t.Fatalf("run %d: %d bytes", i, len(r.Stdout))
			}
			j := e.Run(Opts{JSON: true}, "sh", "-c", "printf x; printf y >&2; exit 5")
			if j.Exit != 5 || j.JSON.Stdout != "x" || j.JSON.Stderr != "y" {
				t.Fatalf("run %d: %s", i, j)
			}
			j = e.Run(Opts{JSON: true}, "seq", "1", "20000")
			if j.JSON.StdoutBytes != 108894 || !strings.HasSuffix(j.JSON.Stdout, "\n19999\n20000\n") {
				t.Fatalf("run %d: %s", i, j)
			}
		}
	})
}

// F3-11: bytes arrive as they were sent.
func TestF3_11_PipedBytes(t *testing.T) {
	data := make([]byte, 10<<20)
	for i := 0; i < len(data); i += 8 {
		binary.LittleEndian.PutUint64(data[i:], uint64(i)*0x9E3779B97F4A7C15) // has NULs and every byte
	}
	sum := sha256.Sum256(data)
	want := hex.EncodeToString(sum[:])
	forEachUser(t, func(t *testing.T, e *Env) {
		e.Tool("sha256sum")
		for _, o := range []Opts{{}, {JSON: true}} {
			o.Stdin = bytes.NewReader(data)
			r := e.Run(o, "sha256sum")
			out := r.Stdout
			if r.JSON != nil {
				out = r.JSON.Stdout
			}
			if r.Exit != 0 || !strings.HasPrefix(out, want) {
				t.Errorf("want %s: %s", want, r)
			}
		}
		// There and back.
		h := sha256.New()
		r := e.Run(Opts{Stdin: bytes.NewReader(data), Stdout: h}, "cat")
		if got := hex.EncodeToString(h.Sum(nil)); r.Exit != 0 || got != want {
			t.Errorf("cat: %s, want %s: %s", got, want, r)
		}
		// A file as standard input, and one as output.
		in := e.Write(filepath.Join(e.O, "in"), string(data))
		out := e.Write(filepath.Join(e.O, "out"), "")
		f, err := os.Open(in)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		g, err := os.OpenFile(out, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		e.Run(Opts{Stdin: f, Stdout: g}, "cat").OK(t)
		if got := sha256.Sum256([]byte(e.Read(out))); got != sum {
			t.Error("from file to file: changed")
		}
	})
}

// F3-11: a command that doesn't read ends as it would anyway, and one that has
// no input sees the end of it.
func TestF3_11_UnreadAndEmpty(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		for _, json := range []bool{false, true} {
			r := e.Run(Opts{Stdin: bytes.NewReader(make([]byte, 10<<20)), JSON: json}, "sh", "-c", "exit 4")
			if r.Exit != 4 || r.Duration > 10*time.Second {
				t.Errorf("json=%v: unread input: %s", json, r)
			}
			for _, argv := range [][]string{{"cat"}, {"sh", "-c", "read x; echo $?"}} {
				r := e.Run(Opts{JSON: json}, argv...)
				out := r.Stdout
				if json {
					out = r.JSON.Stdout
				}
				if want := map[string]string{"cat": "", "sh": "1\n"}[argv[0]]; r.Exit != 0 || out != want {
					t.Errorf("json=%v: empty input: %s", json, r)
				}
			}
			// An input that stays open is no reason to wait once the command has ended.
			pr, pw, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			if r := e.Run(Opts{Stdin: pr, JSON: json}, "true"); r.Exit != 0 || r.Duration > 10*time.Second {
				t.Errorf("json=%v: open input: %s", json, r)
			}
			pr.Close()
			pw.Close()
		}
		// dshx takes no byte that the command did not take.
		f := e.Write(filepath.Join(e.O, "lines"), "one\ntwo\nthree\n")
		argv := e.DshxArgv(Opts{StatusFD: -1}, "sh", "-c", "read a; echo got $a")
		r := e.Outside(append([]string{"sh", "-c", `f=$1; shift; { "$@"; cat; } <"$f"`, "sh", f}, argv...)...)
		if r.Stdout != "got one\ntwo\nthree\n" {
			t.Errorf("shared input: %s", r)
		}
	})
}

// F3-11: closed standard streams end up closed or as /dev/null, never as a
// descriptor of dshx's, and nothing hangs.
func TestF3_11_ClosedStreams(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		for _, closed := range []string{"0", "1", "2", "0,1", "1,2", "0,1,2"} {
			for _, status := range []int{-1, 3} {
				list := filepath.Join(e.W, "list")
				os.Remove(list)
				r := e.Run(Opts{Prefix: f3Launch("-close", closed), StatusFD: status, Flags: []string{"--env", "F3_FDS_OUT=" + list}},
					probeBin, "f3-fds")
				if r.Exit != 0 || !Exists(list) {
					t.Errorf("closed %s: %s", closed, r)
					continue
				}
				open := map[string]string{}
				for _, line := range strings.Split(strings.TrimSpace(e.Read(list)), "\n") {
					f := strings.Fields(line)
					open[f[0]] = f[len(f)-1]
				}
				for fd, target := range open {
					switch {
					case fd != "0" && fd != "1" && fd != "2":
						t.Errorf("closed %s: %s is open: %s", closed, fd, target)
					case strings.Contains(closed, fd) && target != "/dev/null":
						t.Errorf("closed %s: %s is %s", closed, fd, target)
					}
				}
			}
		}
		r := e.Run(Opts{Prefix: f3Launch("-close", "0")}, "cat")
		if r.Duration > 10*time.Second || r.Stdout != "" || r.Exit > 1 {
			t.Errorf("cat without input: %s", r)
		}
		// An error is one even where nobody can be told.
		r = e.Run(Opts{Prefix: f3Launch("-close", "0,1,2")}, "dshx-no-such-command")
		if r.Exit != 127 || r.Event("error") == nil {
			t.Errorf("error with closed streams: %s", r)
		}
	})
}

// Streams of any kind are passed on: a directory as input, a full device as output.
func TestF3_11_OddStreams(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		dir, err := os.Open(e.O)
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		e.Run(Opts{Stdin: dir}, "true").OK(t)
		if r, c := e.Run(Opts{Stdin: dir}, "cat"), e.OutsideOpts(Opts{Stdin: dir}, "cat"); r.Exit != c.Exit || r.Exit == 0 {
			t.Errorf("cat of a directory: %s\noutside: %s", r, c)
		}
		full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer full.Close()
		if r, c := e.Run(Opts{Stdout: full}, "echo", "x"), e.OutsideOpts(Opts{Stdout: full}, "echo", "x"); r.Exit != c.Exit || r.Exit == 0 {
			t.Errorf("echo to a full device: %s\noutside: %s", r, c)
		}
		// The object can't be written, but the command ran: the status is its own.
		for want, argv := range map[int][]string{0: {"touch", "ran"}, 3: {"sh", "-c", "exit 3"}, 127: {"dshx-no-such-command"}} {
			r := e.OutsideOpts(Opts{Stdout: full}, append([]string{dshxBin, "exec", "--json", "--"}, argv...)...)
			if r.Exit != want || !strings.Contains(r.Stderr, "dshx: the result can't be written: ") {
				t.Errorf("--json to a full device, %s: %s", argv, r)
			}
		}
		if !Exists(filepath.Join(e.W, "ran")) {
			t.Error("the command did not run")
		}
	})
}

// Streams untouched: the command has the very descriptors of the caller, with
// the same open file descriptions, flags and offsets.
func TestF3_12_SameDescriptors(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		in, err := os.Open(e.Write(filepath.Join(e.O, "in"), "0123456789"))
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		out := e.Write(filepath.Join(e.O, "out"), "")
		f, err := os.OpenFile(out, os.O_RDWR|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		e.Run(Opts{Stdin: in, Stdout: f}, probeBin, "f3-fds").OK(t)
		for fd, want := range map[string]*os.File{"0": in, "1": f} {
			var st unix.Stat_t
			if err := unix.Fstat(int(want.Fd()), &st); err != nil {
				t.Fatal(err)
			}
			flags, err := unix.FcntlInt(want.Fd(), unix.F_GETFL, 0)
			if err != nil {
				t.Fatal(err)
			}
			prefix := fmt.Sprintf("%s %o %d %d %o ", fd, st.Mode&unix.S_IFMT, st.Dev, st.Ino, flags)
			if !strings.Contains("\n"+e.Read(out), "\n"+prefix) {
				t.Errorf("descriptor %s: want %q in\n%s", fd, prefix, e.Read(out))
			}
		}
		// The offset is shared: what the command read is gone for the caller.
		e.Run(Opts{Stdin: in}, "dd", "bs=4", "count=1", "status=none").OK(t)
		if at, err := in.Seek(0, io.SeekCurrent); err != nil || at != 4 {
			t.Errorf("offset %d, %v; want 4", at, err)
		}
		// Pipes keep their flags, during and after.
		pr, pw, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer pr.Close()
		before, err := unix.FcntlInt(pw.Fd(), unix.F_GETFL, 0) // Fd makes it blocking
		if err != nil {
			t.Fatal(err)
		}
		var st unix.Stat_t
		if err := unix.Fstat(int(pw.Fd()), &st); err != nil {
			t.Fatal(err)
		}
		e.Run(Opts{Stdout: pw}, "sh", "-c", "stat -L -c %i /proc/self/fd/1").OK(t)
		after, err := unix.FcntlInt(pw.Fd(), unix.F_GETFL, 0)
		if err != nil || after != before {
			t.Errorf("flags of the pipe: %o, were %o (%v)", after, before, err)
		}
		pw.Close()
		text, err := io.ReadAll(pr)
		if err != nil || strings.TrimSpace(string(text)) != fmt.Sprint(st.Ino) {
			t.Errorf("inode inside %q, outside %d (%v)", text, st.Ino, err)
		}
	})
}

// F3-12, streaming: 500 MB through a reader that pauses arrive exactly.
func TestF3_12_SlowReader(t *testing.T) {
	e := newEnv(t, f3Accounts()[0].uid, f3Accounts()[0].gid)
	const total = 500 << 20
	pr, pw, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer pr.Close()
	p := e.f3Start(Opts{Stdout: pw}, e.DshxArgv(Opts{StatusFD: -1}, probeBin, "f3-write", itoa(total))...)
	pw.Close()
	buf := make([]byte, 64<<10)
	var off, pauses int
	for {
		n, err := io.ReadFull(pr, buf)
		for i := 0; i+8 <= n; i += 8 {
			if got := binary.LittleEndian.Uint64(buf[i:]); got != uint64((off+i)/8) {
				t.Fatalf("at %d: %d", off+i, got)
			}
		}
		off += n
		if err != nil {
			break
		}
		if off/(25<<20) > pauses { // slow, not as synchronisation
			pauses++
			time.Sleep(20 * time.Millisecond)
		}
	}
	if code := p.Wait(10 * time.Second); off != total || code != 0 {
		t.Errorf("%d bytes of %d, exit %d", off, total, code)
	}
}

// F3-12: a reader that goes away ends the run with SIGPIPE's status.
func TestF3_12_ReaderGone(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		for _, flags := range [][]string{nil, {"--tty", "always"}} {
			pr, pw, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			p := e.f3Start(Opts{Stdout: pw}, e.DshxArgv(Opts{StatusFD: -1, Flags: flags}, "yes")...)
			pw.Close()
			if _, err := io.ReadFull(pr, make([]byte, 1000)); err != nil {
				t.Fatal(err)
			}
			pr.Close()
			code := p.Wait(10 * time.Second)
			// On a PTY it's dshx that sees the pipe break, and the command that loses its terminal.
			if flags == nil && code != 141 || code == 0 {
				t.Errorf("%v: exit %d, output %q", flags, code, p.Output())
			}
			if s := p.Output(); strings.Contains(s, "panic") || strings.Contains(s, "goroutine") {
				t.Errorf("%v: %q", flags, s)
			}
			e.NothingLeft(time.Second)
		}
	})
}

// F3-12, captured: endless output is bounded and counted.
func TestF3_12_BoundedCapture(t *testing.T) {
	e := newEnv(t, f3Accounts()[0].uid, f3Accounts()[0].gid)
	const maxRSS = 200 << 10 // KiB
	for _, tc := range []struct {
		name  string
		flags []string
		argv  []string
		check func(t *testing.T, r *Result)
	}{
		{"yes with a deadline", []string{"--timeout", "3s"}, []string{"yes"}, func(t *testing.T, r *Result) {
			v := r.JSON
			if r.Exit != 124 || !v.TimedOut || v.StdoutBytes < 1<<20 || !strings.HasPrefix(v.Stdout, "y\ny\n") || !strings.HasSuffix(v.Stdout, "y\ny\n") {
				t.Errorf("%s", r)
			}
		}},
		{"3 GB of zeros", nil, []string{"head", "-c", "3000000000", "/dev/zero"}, func(t *testing.T, r *Result) {
			if r.Exit != 0 || r.JSON.StdoutBytes != 3_000_000_000 || r.JSON.StderrBytes != 0 || r.JSON.Encoding != "utf-8" {
				t.Errorf("%s", r)
			}
			if s := r.JSON.Spill; s != nil && (s.Complete || s.Bytes > 256<<20) {
				t.Errorf("spill %s", mustJSON(s))
			}
		}},
		{"2 million lines on standard error", nil, []string{"sh", "-c", "seq 2000000 >&2"}, func(t *testing.T, r *Result) {
			v := r.JSON
			if r.Exit != 0 || v.StderrBytes != 14_888_896 || v.StdoutBytes != 0 ||
				!strings.HasPrefix(v.Stderr, "1\n2\n3\n") || !strings.HasSuffix(v.Stderr, "\n1999999\n2000000\n") {
				t.Errorf("%s", r)
			}
			if s := v.Spill; s == nil || !s.Complete || s.Bytes != 14_888_896 {
				t.Errorf("spill %s", mustJSON(s))
			} else if data, err := os.ReadFile(s.Stderr); err != nil || len(data) != 14_888_896 || !bytes.HasSuffix(data, []byte("\n2000000\n")) {
				t.Errorf("spill file: %d bytes, %v", len(data), err)
			}
		}},
		{"a line without an end", nil, []string{"sh", "-c", "head -c 5000000 /dev/zero | tr '\\0' x"}, func(t *testing.T, r *Result) {
			if r.Exit != 0 || r.JSON.StdoutBytes != 5_000_000 || strings.Count(r.JSON.Stdout, "x") < 30000 {
				t.Errorf("%s", r)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cmd := e.Command(Opts{}, e.DshxArgv(Opts{JSON: true, Flags: tc.flags}, tc.argv...)...)
			var out bytes.Buffer
			cmd.Stdout = &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			peak := peakOf(cmd)
			_ = cmd.Wait() // the status is looked at below
			if kb := peak(); kb == 0 || kb > maxRSS {
				t.Errorf("dshx used %d KiB", kb)
			}
			r := f3JSONResult(t, cmd.ProcessState, out.Bytes())
			if !r.JSON.Truncated {
				t.Errorf("not marked as truncated: %s", r)
			}
			// 32 KiB a stream and a line that says what was left out.
			for _, s := range []string{r.JSON.Stdout, r.JSON.Stderr} {
				if len(s) > 33<<10 {
					t.Errorf("%d bytes were kept", len(s))
				}
			}
			tc.check(t, r)
			e.NothingLeft(time.Second)
		})
	}
}

// The copy on a PTY with pipes at both ends is complete as well.
func TestF3_10_TtyAlwaysWithPipes(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		o := Opts{Flags: []string{"--tty", "always"}}
		r := e.Run(o, "sh", "-c", "test -t 0 && test -t 1 && test -t 2 && exit 9")
		if r.Exit != 9 {
			t.Errorf("not a terminal: %s", r)
		}
		for i := range 10 {
			r := e.Run(o, "seq", "1", "100000").OK(t)
			if n := strings.Count(r.Stdout, "\n"); n != 100000 || !strings.HasSuffix(r.Stdout, "\n100000\r\n") || r.Stderr != "" {
				t.Fatalf("run %d: %d lines, end %q, stderr %q", i, n, r.Stdout[max(0, len(r.Stdout)-20):], r.Stderr)
			}
		}
		for i := range 50 {
			if r := e.Run(o, "printf", "x"); r.Exit != 0 || r.Stdout != "x" || r.Stderr != "" {
				t.Fatalf("run %d: %s", i, r)
			}
		}
		// Input is copied, and its end is the end.
		o.Stdin = strings.NewReader("one\ntwo\n")
		r = e.Run(o, "sh", "-c", "stty -echo 2>/dev/null; cat; echo end")
		if r.Exit != 0 || !strings.Contains(r.Stdout, "one\r\n") || !strings.HasSuffix(r.Stdout, "end\r\n") {
			t.Errorf("input: %s", r)
		}
		o.Stdin = nil
		if r := e.Run(o, "cat"); r.Exit != 0 {
			t.Errorf("empty input: %s", r)
		}
		// Input without a newline at the end reaches a program that asks for it.
		o.Stdin = strings.NewReader("tail")
		if r := e.Run(o, "sh", "-c", "stty -echo 2>/dev/null; cat"); r.Exit != 0 || !strings.Contains(r.Stdout, "tail") {
			t.Errorf("input without newline: %s", r)
		}
		o.Stdin = nil
		// The terminal has a size even when nobody has one to give.
		if r := e.Run(o, "stty", "size"); r.Exit != 0 || strings.HasPrefix(r.Stdout, "0 ") || strings.HasSuffix(r.Stdout, " 0\r\n") {
			t.Errorf("size: %s", r)
		}
	})
}
