package sessionlog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dshx/dshx/jobs"
	"github.com/dshx/dshx/pipeline"
	"golang.org/x/sys/unix"
)

// Every stage of a call is written down, whatever becomes of it, with what its
// card is made from and without its value.
func TestRecorder_WritesWhatHappens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l := openT(t, path, Options{})
	s := sayScope(t)
	rec := l.Scope("main")
	rec.Start("v1", "workspace-write", "/ws", map[string]string{"level": "full"})
	detach := rec.Attach(s)
	say(s, "1", "hi")
	say(s, "1", "fail at once") // the same id again
	s.Call(t.Context(), pipeline.Request{ID: "2", Name: "none"})
	s.Call(t.Context(), pipeline.Request{ID: "3", Name: "say", Args: []byte(`{`)})
	asks := s.Child("asks")
	asks.PreExecute("ask", func(context.Context, *pipeline.Call, func() pipeline.Decision) pipeline.Decision {
		return pipeline.Ask{Reason: "why", DisplayReason: "shown", Grants: map[string]string{"network": "full"}}
	})
	say(asks, "4", "hi")
	rec.Preset("workspace-write", "read-only", "a person", nil)
	rec.JobEnded(jobs.End{Job: jobs.Job{ID: "bash-1", Kind: "bash", Status: jobs.Killed, PIDs: []int{}}, Reason: "enough", Duration: time.Second})
	rec.Note("roots", "a root elsewhere")
	detach()
	say(s, "5", "not written down")
	rec.End("done")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	text := readT(t, path)
	stamp := regexp.MustCompile(`"time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"`)
	text = stamp.ReplaceAllString(text, `"time":"TIME"`)
	text = strings.ReplaceAll(text, `"session":"`+l.Session()+`"`, `"session":"S"`)
	text = regexp.MustCompile(`"durationMs":[\d.]+`).ReplaceAllString(text, `"durationMs":7`)
	want := []string{
		`{"v":1,"type":"start","time":"TIME","session":"S","scope":"main","version":"v1","preset":"workspace-write","workspace":"/ws","enforcement":{"level":"full"}}`,
		`{"v":1,"type":"call","time":"TIME","session":"S","scope":"main","call":1,"id":"1","tool":"say","arguments":{"text":"hi"}}`,
		`{"v":1,"type":"result","time":"TIME","session":"S","scope":"main","call":1,"id":"1","tool":"say","ok":true,"durationMs":7,"content":[{"type":"text","text":"said hi"},{"type":"image","mimeType":"image/png","bytes":2,"fnv1a128":"08809533c6ab1be95aa0733055ac561a"}],"meta":{"hi":"hi"}}`,
		`{"v":1,"type":"call","time":"TIME","session":"S","scope":"main","call":2,"id":"1","tool":"say","arguments":{"text":"fail at once"}}`,
		`{"v":1,"type":"result","time":"TIME","session":"S","scope":"main","call":2,"id":"1","tool":"say","ok":false,"durationMs":7,"error":{"code":"SAY_FAILED","message":"fail at once","details":{"fail at once":"fail at once"}},"content":[{"type":"text","text":"fail at once"}]}`,
		`{"v":1,"type":"call","time":"TIME","session":"S","scope":"main","call":3,"id":"2","tool":"none","arguments":{}}`,
		`{"v":1,"type":"result","time":"TIME","session":"S","scope":"main","call":3,"id":"2","tool":"none","ok":false,"durationMs":7,"error":{"code":"UNKNOWN_TOOL","message":"there is no tool \"none\"; there are say","details":{"nearest":[]}},"content":[{"type":"text","text":"there is no tool \"none\"; there are say"}]}`,
		`{"v":1,"type":"call","time":"TIME","session":"S","scope":"main","call":4,"id":"3","tool":"say"}`,
		`{"v":1,"type":"result","time":"TIME","session":"S","scope":"main","call":4,"id":"3","tool":"say","ok":false,`,
		`{"v":1,"type":"call","time":"TIME","session":"S","scope":"main","call":5,"id":"4","tool":"say","arguments":{"text":"hi"}}`,
		`{"v":1,"type":"question","time":"TIME","session":"S","scope":"main","call":5,"reason":"why","displayReason":"shown","grants":{"network":"full"}}`,
		`{"v":1,"type":"outcome","time":"TIME","session":"S","scope":"main","call":5,"outcome":"unavailable"}`,
		`{"v":1,"type":"result","time":"TIME","session":"S","scope":"main","call":5,"id":"4","tool":"say","ok":false,`,
		`{"v":1,"type":"preset","time":"TIME","session":"S","scope":"main","from":"workspace-write","to":"read-only","by":"a person"}`,
		`{"v":1,"type":"job","time":"TIME","session":"S","scope":"main","job":{"jobId":"bash-1",`,
		`{"v":1,"type":"note","time":"TIME","session":"S","scope":"main","kind":"roots","text":"a root elsewhere"}`,
		`{"v":1,"type":"end","time":"TIME","session":"S","scope":"main","reason":"done"}`,
	}
	got := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(got), len(want), text)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("line %d\n%s\nwant\n%s", i+1, got[i], want[i])
		}
	}
	// The calls' values are nowhere.
	if strings.Contains(text, `"said":`) {
		t.Error("a value is in the log")
	}
	// The replay has it all together.
	p := NewReplay(s.Lookup)
	var questions, cards int
	for _, line := range linesT(t, path) {
		e := p.Event(line.Record)
		if _, ok := line.Record.(*Outcome); ok && (e.Call == nil || e.Call.ID != "4" || e.Question == nil || e.Question.Display != "shown") {
			t.Errorf("%+v", e)
		} else if ok {
			questions++
		}
		if e.Card != nil {
			cards++
		}
	}
	if questions != 1 || cards != 10 || len(p.Unfinished()) != 0 {
		t.Errorf("%d outcomes, %d cards, unfinished %v", questions, cards, p.Unfinished())
	}
}

// Calls nested in others name them.
func TestRecorder_Parents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l := openT(t, path, Options{})
	s := sayScope(t)
	outer, err := pipeline.Define(pipeline.Spec[struct{}, sayValue]{
		Name: "outer", Description: "calls say",
		Execute: func(ctx context.Context, _ struct{}, c *pipeline.Call) (sayValue, error) {
			c.Scope().Call(ctx, pipeline.Request{Name: "say", Args: []byte(`{"text":"x"}`), Parent: c.Token()})
			return sayValue{}, nil
		},
		Render: func(struct{}, sayValue) []pipeline.Content { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Register(outer); err != nil {
		t.Fatal(err)
	}
	l.Scope("main").Attach(s)
	say(s, "1", "first")
	s.Call(t.Context(), pipeline.Request{ID: "7", Name: "outer"})
	_ = l.Close()
	lines := linesT(t, path)
	c, ok := lines[3].Record.(*Call)
	if !ok || c.Parent != 2 || c.Number != 3 || c.ID != "7:code:1" {
		t.Errorf("%s: %+v", kinds(lines), lines[3].Record)
	}
}

// What commands may write is no place for a log, nor what others may have put in
// its way; what is beside that is.
func TestOpen_Places(t *testing.T) {
	policy := policyT(t, "")
	dir := realT(t, t.TempDir())
	open := func(path string) error {
		l, err := Open(path, policy, Options{})
		if err == nil {
			err = l.Close()
		}
		return err
	}
	in := func(name string) string { return dir + "/" + name }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(in("mine"), []byte("my notes\n"), 0o644))
	must(os.WriteFile(in("empty"), nil, 0o644))
	must(os.Symlink(in("mine"), in("link")))
	must(os.Symlink(in("nowhere"), in("dangling")))
	must(os.Symlink(dir, in("mylink")))
	must(os.Symlink(in("loop"), in("loop")))
	must(os.WriteFile(in("twice"), nil, 0o600))
	must(os.Link(in("twice"), in("second")))
	must(unix.Mkfifo(in("fifo"), 0o600))
	must(os.Mkdir(in("dir"), 0o755))
	for path, why := range map[string]string{
		policy.Workspace() + "/log":          "commands may write",
		policy.Workspace() + "/../log/../no": "no directory",
		in("link"):                           "symbolic link",
		in("dangling"):                       "symbolic link",
		in("loop/log"):                       "never end",
		in("mine"):                           "no session log",
		in("mine/log"):                       "no directory",
		in("none/log"):                       "no directory",
		in("second"):                         "another name",
		in("fifo"):                           "no regular file",
		in("dir"):                            "directory",
		in("dir") + "/":                      "name of a file",
		"":                                   "name of a file",
		"..":                                 "name of a file",
		"/dev/null":                          "",
	} {
		err := open(path)
		var e *PlaceError
		if !errors.As(err, &e) || !strings.Contains(err.Error(), why) || strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("%s: %v, want %q", path, err, why)
		}
	}
	for name, want := range map[string]string{"mine": "my notes\n", "twice": ""} {
		if got := readT(t, in(name)); got != want {
			t.Errorf("%s was changed: %q", name, got)
		}
	}
	if _, err := os.Lstat(in("nowhere")); err == nil {
		t.Error("a link was followed")
	}
	// Controls: a new file, an empty one that is made private, a link of one's own.
	for _, path := range []string{in("new"), in("empty"), in("mylink") + "/../" + filepath.Base(dir) + "/via", in("mylink/own")} {
		if err := open(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, name := range []string{"new", "empty", "via", "own"} {
		if st, err := os.Stat(in(name)); err != nil || st.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", name, st, err)
		}
	}
	if os.Geteuid() == 0 { // somebody else's link, and file
		must(os.Symlink(dir, in("theirs")))
		must(os.Lchown(in("theirs"), 65534, 65534))
		if err := open(in("theirs/log")); err == nil || !strings.Contains(err.Error(), "another user") {
			t.Errorf("another's link: %v", err)
		}
		must(os.WriteFile(in("planted"), nil, 0o666))
		must(os.Chown(in("planted"), 65534, 65534))
		if err := open(in("planted")); err == nil || !strings.Contains(err.Error(), "another user") {
			t.Errorf("another's file: %v", err)
		}
	}
	// Under a policy that confines nothing there is no safe place: that is said.
	l, err := Open(in("full"), policyT(t, "danger-full-access"), Options{})
	must(err)
	if l.Warning() == "" || l.Check(policy) != nil || l.Check(policyT(t, "danger-full-access")) != nil {
		t.Errorf("warning %q", l.Warning())
	}
	must(l.Close())
	if l := openT(t, in("guarded"), Options{}); l.Warning() != "" {
		t.Errorf("warning %q", l.Warning())
	}
}

// One dshx writes a log; another one is refused in a sentence, and may have it
// afterwards.
func TestOpen_OneWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l := openT(t, path, Options{})
	_, err := Open(path, policyT(t, ""), Options{})
	if err == nil || !strings.Contains(err.Error(), "another dshx") {
		t.Fatalf("a second writer: %v", err)
	}
	l.Scope("a").Note("n", "first")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = openT(t, path, Options{})
	l.Scope("a").Note("n", "second")
	_ = l.Close()
	if got := kinds(linesT(t, path)); got != "first second" {
		t.Error(got)
	}
}

// A record that was cut off is told, and swallows nothing that comes after it.
func TestOpen_EndsATornLine(t *testing.T) {
	for _, cut := range []int{1, 20, 40, -1} {
		path := filepath.Join(t.TempDir(), "log")
		l := openT(t, path, Options{})
		l.Scope("a").Note("n", "first")
		l.Scope("a").Note("n", "second")
		_ = l.Close()
		text := readT(t, path)
		at := strings.Index(text, "\n") + 1
		if cut < 0 {
			cut = len(text) - at - 1 // all but the line's end
		}
		if err := os.WriteFile(path, []byte(text[:at+cut]), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := kinds(linesT(t, path)); got != "first (a record that is cut off: dshx was killed while it wrote it)" {
			t.Errorf("cut at %d: %s", cut, got)
		}
		l = openT(t, path, Options{})
		l.Scope("a").Note("n", "third")
		_ = l.Close()
		want := "first (no record of a session log) third"
		if at+cut == len(text)-1 {
			want = "first second third" // only its end was missing
		}
		if got := kinds(linesT(t, path)); got != want {
			t.Errorf("cut at %d: %s", cut, got)
		}
	}
}

// A log is divided by size, between records, and read as one.
func TestRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l := openT(t, path, Options{MaxBytes: 1000, Keep: 2})
	rec := l.Scope("a")
	text := strings.Repeat("x", 300)
	for i := range 9 {
		rec.Note("n", fmt.Sprint(i, text))
	}
	rec.Note("n", "big"+strings.Repeat("y", 5000)) // longer than a file: it has one
	rec.Note("n", "last")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	entries, _ := os.ReadDir(filepath.Dir(path))
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
		if st, _ := e.Info(); st.Mode() != 0o600 || st.Size() > 1000 && !strings.Contains(readT(t, filepath.Join(filepath.Dir(path), e.Name())), "big") {
			t.Errorf("%s: %v, %d bytes", e.Name(), st.Mode(), st.Size())
		}
		for line := range strings.Lines(readT(t, filepath.Join(filepath.Dir(path), e.Name()))) {
			if r, err := decode([]byte(line)); r == nil || err != nil || !strings.HasSuffix(line, "\n") {
				t.Errorf("%s: %v in %.80s", e.Name(), err, line)
			}
		}
	}
	if strings.Join(names, " ") != "log log.1 log.2" {
		t.Errorf("files %v", names)
	}
	got := kinds(linesT(t, path))
	got = strings.NewReplacer(text, "", strings.Repeat("y", 5000), "").Replace(got)
	if want := "(the records before are gone, with the parts of the log that had them) continued 8 continued big continued last"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	// Without older parts there is one file.
	alone := filepath.Join(t.TempDir(), "log")
	l = openT(t, alone, Options{MaxBytes: 1000, Keep: -1})
	for i := range 9 {
		l.Scope("a").Note("n", fmt.Sprint(i, text))
	}
	_ = l.Close()
	if entries, _ := os.ReadDir(filepath.Dir(alone)); len(entries) != 1 {
		t.Errorf("%v", entries)
	}
	// The new file is locked as the old one was.
	l = openT(t, path, Options{MaxBytes: 1000})
	for i := range 9 {
		l.Scope("a").Note("n", fmt.Sprint(i, text))
	}
	for i := 0; i < 100; i++ {
		if _, err := Open(path, policyT(t, ""), Options{}); err == nil || !strings.Contains(err.Error(), "another dshx") {
			t.Fatalf("a second writer: %v", err)
		}
	}
}

// What a rotation left that was cut off keeps nobody from writing.
func TestRotation_CutOff(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "log")
	l := openT(t, path, Options{})
	l.Scope("a").Note("n", "first")
	_ = l.Close()
	if err := errors.Join(os.Link(path, path+".1"), os.WriteFile(path+".new", []byte("{"), 0o600)); err != nil {
		t.Fatal(err)
	}
	l = openT(t, path, Options{MaxBytes: 100})
	l.Scope("a").Note("n", "second")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got := kinds(linesT(t, path)); got != "first continued second" {
		t.Error(got)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("%v", entries)
	}
	// Again, where there is an older part: it can be read as it is, and afterwards.
	if err := errors.Join(os.Rename(path+".1", path+".2"), os.Link(path, path+".1")); err != nil {
		t.Fatal(err)
	}
	if got := kinds(linesT(t, path)); got != "first continued second" {
		t.Error(got)
	}
	for i, want := range []string{" third", " third continued fourth", " third continued fourth continued fifth"} {
		l = openT(t, path, Options{MaxBytes: []int64{1000, 100, 100}[i]})
		l.Scope("a").Note("n", []string{"third", "fourth", "fifth"}[i])
		_ = l.Close()
		if got := kinds(linesT(t, path)); got != "first continued second"+want {
			t.Errorf("%d: %s", i, got)
		}
	}
}

// A disk that is full costs records and nothing else: it is said once, half a
// record is taken back, and what is missing is counted as soon as it can be.
func TestFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	var c complaints
	full := make(chan bool, 1)
	full <- false
	wrote := make(chan struct{}, 100)
	l := openT(t, path, Options{Complain: c.add, write: func(f *os.File, line []byte) (int, error) {
		defer func() { wrote <- struct{}{} }()
		is := <-full
		full <- is
		if is {
			n, _ := f.Write(line[:10])
			return n, &os.PathError{Op: "write", Path: path, Err: unix.ENOSPC}
		}
		return f.Write(line)
	}})
	s := sayScope(t)
	l.Scope("a").Attach(s)
	if r := say(s, "1", "kept"); !r.OK() {
		t.Fatal(r.Failure())
	}
	<-wrote
	<-wrote
	<-full
	full <- true
	for range 5 {
		if r := say(s, "2", "lost"); !r.OK() {
			t.Fatal(r.Failure())
		}
	}
	for range 10 {
		<-wrote
	}
	<-full
	full <- false
	say(s, "3", "kept again")
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if got := kinds(linesT(t, path)); got != "call result missing 10 call result" {
		t.Errorf("%s\n%s", got, readT(t, path))
	}
	if len(c.said) != 1 || !strings.Contains(c.said[0], "no space left on device") {
		t.Errorf("said %q", c.said)
	}
}

// A disk that takes nothing, and says nothing, holds up no call.
func TestSlowDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	release := make(chan struct{})
	l := openT(t, path, Options{queued: 1 << 20, write: func(f *os.File, line []byte) (int, error) { <-release; return f.Write(line) }})
	s := sayScope(t)
	l.Scope("a").Attach(s)
	big := strings.Repeat("x", 100<<10)
	for range 20 { // more than may wait
		if r := say(s, "1", big); !r.OK() {
			t.Fatal(r.Failure())
		}
	}
	l.mu.Lock()
	lost, waiting := l.lost, l.bytes
	l.mu.Unlock()
	if lost == 0 || waiting > 1<<20 {
		t.Errorf("%d records lost, %d bytes wait", lost, waiting)
	}
	close(release)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	lines := linesT(t, path)
	n := 0
	for _, line := range lines {
		if m, ok := line.Record.(*Missing); ok {
			n += int(m.Records)
		} else if _, ok := line.Record.(*Continued); !ok {
			n++
		}
	}
	if n != 40 {
		t.Errorf("%d records, with those that are missing, want 40: %s", n, kinds(lines))
	}
}

// Killed at any moment, a writer leaves whole records and at most one that is
// torn, and the next writer goes on.
func TestKilledWriter(t *testing.T) {
	if path := os.Getenv("SESSIONLOG_TEST_WRITER"); path != "" {
		l := openT(t, path, Options{MaxBytes: 20000, Keep: 50})
		l.Scope("a").Note("n", "first")
		waitFor(t, path)
		fmt.Println("ready")
		for i := 0; ; i++ {
			l.Scope("a").Note("n", strings.Repeat("x", i%997))
			if i%100 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "log")
	for range 10 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledWriter$")
		cmd.Env = append(os.Environ(), "SESSIONLOG_TEST_WRITER="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 5)
		if _, err := out.Read(buf); err != nil || string(buf) != "ready" {
			t.Errorf("%q, %v", buf, err)
		}
		time.Sleep(rand.N(10 * time.Millisecond)) // any moment will do
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		torn, records := 0, 0
		for _, line := range linesT(t, path) {
			if line.Record != nil {
				records++
			} else if !strings.Contains(line.Problem, "gone") {
				torn++
			}
		}
		if torn > 10 || records == 0 {
			t.Errorf("%d records, %d torn", records, torn)
		}
	}
	l := openT(t, path, Options{})
	l.Scope("a").Note("n", "after")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	lines := linesT(t, path)
	if n, ok := lines[len(lines)-1].Record.(*Note); !ok || n.Text != "after" {
		t.Errorf("%+v", lines[len(lines)-1])
	}
}
