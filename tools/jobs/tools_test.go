package jobtools

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dshx/dshx/jobs"
	"github.com/dshx/dshx/pipeline"
)

var update = flag.Bool("update", false, "write the golden files")

// A work is a job's without processes.
type work struct {
	out   jobs.Output
	input chan []byte

	mu      sync.Mutex
	signals []string
	ended   chan jobs.Outcome
	deaf    bool
}

func (p *work) Signal(name string) error {
	p.mu.Lock()
	p.signals = append(p.signals, name)
	p.mu.Unlock()
	if !p.deaf || name == "KILL" {
		p.end(jobs.Outcome{Signal: name})
	}
	return nil
}

func (p *work) end(o jobs.Outcome) {
	select {
	case p.ended <- o:
	default:
	}
}
func (p *work) PIDs() []int        { return []int{12, 7} }
func (p *work) Wait() jobs.Outcome { return <-p.ended }
func (p *work) Input(ctx context.Context, b []byte, _ bool) (int, error) {
	if p.input == nil {
		return 0, jobs.ErrNoInput
	}
	select {
	case p.input <- b:
		return len(b), nil
	case <-ctx.Done():
		return 1, context.Cause(ctx)
	}
}

type world struct {
	t     testing.TB
	reg   *jobs.Registry
	owner *jobs.Owner
	root  *pipeline.Scope
}

func newWorld(t testing.TB) *world {
	t.Helper()
	reg, err := jobs.New(jobs.Options{Dir: t.TempDir() + "/jobs", Grace: 300 * time.Millisecond, BytesPerJob: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, reg: reg, owner: reg.Owner("test"), root: pipeline.New(pipeline.Options{})}
	if _, err := Register(w.root, Options{Jobs: func(*pipeline.Call) *jobs.Owner { return w.owner }}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = reg.Close(context.Background()) })
	return w
}

func (w *world) start(owner *jobs.Owner, p *work) jobs.Job {
	w.t.Helper()
	p.ended = make(chan jobs.Outcome, 1)
	j, err := owner.Start(context.Background(), jobs.Spec{Kind: "bash", Label: "make", ParentCallID: "c1", Start: func(_ context.Context, out jobs.Output) (jobs.Producer, error) {
		p.out = out
		return p, nil
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

func (w *world) call(ctx context.Context, name, args string) pipeline.Result {
	return w.root.Call(ctx, pipeline.Request{ID: "1", Name: name, Args: []byte(args)})
}

// ok is the value of a call, as far as V has it.
func ok[V any](w *world, name, args string) (v V, content string) {
	w.t.Helper()
	r := w.call(context.Background(), name, args)
	if !r.OK() {
		w.t.Fatalf("%s %s: %v", name, args, r.Failure())
	}
	if err := r.Value().Decode(&v); err != nil {
		w.t.Fatal(err)
	}
	return v, r.Content()[0].Text()
}

func (w *world) fails(name, args, code, part string) {
	w.t.Helper()
	r := w.call(context.Background(), name, args)
	if r.OK() || r.Failure().Code != code || !strings.Contains(r.Failure().Message, part) {
		w.t.Errorf("%s %s: %s %v, want %s", name, args, r.Value(), r.Failure(), code)
	}
}

var brackets = regexp.MustCompile(`([{\[]|[}\]],?|,)`)

func TestSchemas_AreTheContracts(t *testing.T) {
	w := newWorld(t)
	var b strings.Builder
	for _, tool := range w.root.Tools() {
		j, err := pipeline.MarshalValue(struct {
			Declaration pipeline.Declaration `json:"declaration"`
			Output      *pipeline.Schema     `json:"output"`
		}{tool.Declare(), tool.Output()})
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString(brackets.ReplaceAllString(j.String(), "$1\n") + "\n")
		args, _ := pipeline.ParseJSON([]byte(`{"job_id":"bash-1"}`))
		if tool.Name() == "job_list" || tool.Name() == "job_wait" {
			args, _ = pipeline.ParseJSON([]byte(`{}`))
		}
		if parallel := tool.ConcurrencySafe(args); parallel == (tool.Name() == "job_input") {
			t.Errorf("%s: parallel %v", tool.Name(), parallel)
		}
		if c, ok := tool.PresentCall(args).(pipeline.GenericCard); !ok || c.Title == "" {
			t.Errorf("%s: card %+v", tool.Name(), c)
		}
	}
	const golden = "testdata/schemas.json"
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || string(want) != b.String() {
		t.Errorf("the schemas have changed (%v); with -update they are written anew:\n%s", err, b.String())
	}
}

func TestList(t *testing.T) {
	w := newWorld(t)
	if v, c := ok[ListValue](w, "job_list", `{}`); v.Jobs == nil || len(v.Jobs) > 0 || c != "[no jobs]" {
		t.Errorf("%+v %q", v, c)
	}
	if r := w.call(context.Background(), "job_list", ""); r.Value().String() != `{"jobs":[]}` {
		t.Errorf("%s", r.Value())
	}
	p := &work{}
	w.start(w.owner, p)
	w.start(w.reg.Owner("other"), &work{})
	v, c := ok[ListValue](w, "job_list", `{}`)
	if len(v.Jobs) != 1 || v.Jobs[0].ID != "bash-1" || c != "bash-1 running, 2 processes, 0 bytes on stdout, 0 on stderr: make" {
		t.Errorf("%+v %q", v, c)
	}
	r := w.call(context.Background(), "job_list", "")
	for _, member := range []string{`"jobId":"bash-1"`, `"exitCode":null`, `"signal":null`, `"endedBy":null`, `"endedAt":null`, `"pids":[7,12]`, `"parentCallId":"c1"`, `Z"`} {
		if !strings.Contains(r.Value().String(), member) {
			t.Errorf("no %s in %s", member, r.Value())
		}
	}
	p.end(jobs.Outcome{ExitCode: new(3)})
	v2, c := ok[WaitValue](w, "job_wait", `{"job_ids":["bash-1"]}`)
	if len(v2.Jobs) != 1 || v2.TimedOut || !strings.HasPrefix(c, "bash-1 exited exit code 3, 0 bytes") {
		t.Errorf("%+v %q", v2, c)
	}
}

// F5-12: reading consumes nothing, and pieces joined are the whole.
func TestOutput_ReadersDoNotDisturbEachOther(t *testing.T) {
	w := newWorld(t)
	p := &work{}
	w.start(w.owner, p)
	var whole strings.Builder
	go func() {
		for i := range 20 {
			fmt.Fprintf(p.out.Stdout, "line %d ü\n", i)
			time.Sleep(2 * time.Millisecond)
		}
		fmt.Fprint(p.out.Stdout, "end")
		p.end(jobs.Outcome{ExitCode: new(3)})
	}()
	for i := range 20 {
		fmt.Fprintf(&whole, "line %d ü\n", i)
	}
	whole.WriteString("end")
	var readers sync.WaitGroup
	for n := range 2 {
		readers.Go(func() {
			var got strings.Builder
			since := ""
			for {
				args, _ := json.Marshal(map[string]any{"job_id": "bash-1", "since": since, "wait": true, "limit_bytes": 5 + n*100})
				v, _ := ok[OutputValue](w, "job_output", string(args))
				got.WriteString(v.Stdout)
				since = v.Next
				if v.Job.Status.Ended() && !v.More {
					break
				}
			}
			if got.String() != whole.String() {
				t.Errorf("reader %d got %q", n, got.String())
			}
		})
	}
	readers.Wait()
	for range 2 {
		v, c := ok[OutputValue](w, "job_output", `{"job_id":"bash-1"}`)
		if v.Stdout != whole.String() || v.Encoding != "utf-8" || v.More || v.MissedBytes != 0 || *v.Job.ExitCode != 3 {
			t.Errorf("%+v", v)
		}
		if !strings.HasPrefix(c, "line 0 ü\n") || !strings.Contains(c, "end\n[bash-1 exited exit code 3") || !strings.HasSuffix(c, "[next: "+v.Next+"]") {
			t.Errorf("%q", c)
		}
	}
	if v, _ := ok[OutputValue](w, "job_output", `{"job_id":"bash-1","tail":true,"limit_bytes":4}`); v.Stdout != "\nend" {
		t.Errorf("%q", v.Stdout)
	}
	if v, _ := ok[OutputValue](w, "job_output", `{"job_id":"bash-1","limit_bytes":9007199254740993}`); v.Stdout != whole.String() {
		t.Errorf("%q", v.Stdout)
	}
	w.fails("job_output", `{"job_id":"bash-1","since":"abc"}`, "INVALID_ARGS", "since must be next of an earlier answer")
	if d := w.call(context.Background(), "job_output", `{"job_id":"bash-1","since":"abc"}`).Failure().Details.String(); !strings.Contains(d, `"path":"since"`) {
		t.Errorf("details %s", d)
	}
	w.fails("job_output", `{"job_id":"bash-1","limit_bytes":0}`, "INVALID_ARGS", "limit_bytes")
	w.fails("job_output", `{"job_id":"bash-2"}`, "JOB_NOT_FOUND", "bash-2")
}

func TestOutput_EncodingBoundsAndLoss(t *testing.T) {
	w := newWorld(t)
	p := &work{}
	w.start(w.owner, p)
	fmt.Fprint(p.out.Stdout, "a\xff\n")
	fmt.Fprint(p.out.Stderr, "err\n")
	v, c := ok[OutputValue](w, "job_output", `{"job_id":"bash-1"}`)
	if v.Encoding != "base64" || v.Stdout != "Yf8K" || v.Stderr != "ZXJyCg==" || !strings.HasPrefix(c, "a\\xff\nerr\n[bash-1 running") {
		t.Errorf("%+v %q", v, c)
	}
	for i := range 20000 {
		fmt.Fprintf(p.out.Stdout, "line %d\n", i)
	}
	v, c = ok[OutputValue](w, "job_output", `{"job_id":"bash-1","limit_bytes":1048576}`)
	if v.MissedBytes == 0 || !strings.Contains(c, fmt.Sprintf("[%d bytes before are gone]", v.MissedBytes)) || len(c) > maxContent || !strings.Contains(c, "limit_bytes 16384") {
		t.Errorf("%d missed, %d bytes of content", v.MissedBytes, len(c))
	}
	// Nothing comes: that is an answer.
	start := time.Now()
	v, _ = ok[OutputValue](w, "job_output", `{"job_id":"bash-1","since":"`+v.Next+`","wait":true,"timeout_ms":50}`)
	if d := time.Since(start); v.Stdout != "" || d < 50*time.Millisecond {
		t.Errorf("%v %+v", d, v)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if r := w.call(ctx, "job_output", `{"job_id":"bash-1","since":"`+v.Next+`","wait":true}`); r.OK() || r.Failure().Code != pipeline.CodeAborted {
		t.Errorf("%v", r.Failure())
	}
}

// What is asked for, or 32 KiB, and 1 MiB whatever is asked for, of each stream.
func TestOutput_Limits(t *testing.T) {
	reg, err := jobs.New(jobs.Options{Dir: t.TempDir() + "/jobs"})
	if err != nil {
		t.Fatal(err)
	}
	defer reg.Close(context.Background())
	w := &world{t: t, reg: reg, owner: reg.Owner("test"), root: pipeline.New(pipeline.Options{})}
	if _, err := Register(w.root, Options{Jobs: func(*pipeline.Call) *jobs.Owner { return w.owner }}); err != nil {
		t.Fatal(err)
	}
	p := &work{}
	w.start(w.owner, p)
	for _, stream := range []io.Writer{p.out.Stdout, p.out.Stderr} {
		fmt.Fprint(stream, strings.Repeat("x", 3<<20))
	}
	for limit, want := range map[string]int{"": 32 << 10, `,"limit_bytes":1`: 1, `,"limit_bytes":1048576`: 1 << 20, `,"limit_bytes":2000000`: 1 << 20, `,"limit_bytes":9007199254740993`: 1 << 20} {
		for _, tail := range []string{"false", "true"} {
			v, c := ok[OutputValue](w, "job_output", `{"job_id":"bash-1","tail":`+tail+limit+`}`)
			if len(v.Stdout) != want || len(v.Stderr) != want || v.More == (tail == "true") || v.Job.StdoutBytes != 3<<20 || len(c) > pipeline.MaxContent {
				t.Errorf("%s, tail %s: %d and %d bytes, more %t", limit, tail, len(v.Stdout), len(v.Stderr), v.More)
			}
		}
	}
}

func TestWait(t *testing.T) {
	w := newWorld(t)
	if v, c := ok[WaitValue](w, "job_wait", `{}`); v.Jobs == nil || v.TimedOut || c != "[no live jobs]" {
		t.Errorf("%+v %q", v, c)
	}
	one, two := &work{}, &work{}
	w.start(w.owner, one)
	w.start(w.owner, two)
	v, c := ok[WaitValue](w, "job_wait", `{"timeout_ms":30}`)
	if len(v.Jobs) != 2 || !v.TimedOut || !strings.Contains(c, "the jobs go on") {
		t.Errorf("%+v %q", v, c)
	}
	// F5-19: to cancel a wait ends no job.
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(30*time.Millisecond, cancel)
	r := w.call(ctx, "job_wait", `{"job_ids":["bash-1"]}`)
	if r.OK() || r.Failure().Code != pipeline.CodeAborted || !strings.Contains(r.Failure().Details.String(), `"status":"running"`) {
		t.Errorf("%v", r.Failure())
	}
	two.end(jobs.Outcome{ExitCode: new(0)})
	v, _ = ok[WaitValue](w, "job_wait", `{"any":true,"job_ids":["bash-1","bash-2"]}`)
	if v.TimedOut || len(v.Jobs) != 2 || v.Jobs[0].Status != jobs.Running || v.Jobs[1].Status != jobs.Exited {
		t.Errorf("%+v", v)
	}
	w.fails("job_wait", `{"job_ids":["bash-1","bash-9"]}`, "JOB_NOT_FOUND", "bash-9")
	w.fails("job_wait", `{"timeout_ms":1e3}`, "INVALID_ARGS", "timeout_ms")
}

// F5-4.
func TestKill(t *testing.T) {
	w := newWorld(t)
	p := &work{deaf: true}
	w.start(w.owner, p)
	v, c := ok[KillValue](w, "job_kill", `{"job_id":"bash-1","reason":"enough"}`)
	if !v.Requested || v.Job.Status != jobs.Stopping || !strings.HasPrefix(c, "bash-1 stopping, 2 processes") {
		t.Errorf("%+v %q", v, c)
	}
	wait, c := ok[WaitValue](w, "job_wait", `{"job_ids":["bash-1"]}`)
	if j := wait.Jobs[0]; j.Status != jobs.Killed || *j.EndedBy != jobs.ByKill || *j.Signal != "SIGKILL" || !strings.HasPrefix(c, "bash-1 killed signal SIGKILL by job_kill") {
		t.Errorf("%+v %q", wait, c)
	}
	v, c = ok[KillValue](w, "job_kill", `{"job_id":"bash-1"}`)
	if v.Requested || !strings.Contains(c, "had ended already") {
		t.Errorf("%+v %q", v, c)
	}
	if p.mu.Lock(); fmt.Sprint(p.signals) != "[TERM KILL]" {
		t.Error(p.signals)
	}
	p.mu.Unlock()
	w.fails("job_kill", `{"job_id":"bash-1","signal":"STOP"}`, "INVALID_ARGS", "signal")
	w.fails("job_kill", `{"job_id":"bash-2"}`, "JOB_NOT_FOUND", "bash-2")
	// Another owner's job and none are the same.
	w.start(w.reg.Owner("other"), &work{})
	w.start(w.reg.Owner("other"), &work{})
	for _, tool := range []string{"job_kill", "job_output", "job_input"} {
		w.fails(tool, `{"job_id":"bash-7"}`, "JOB_NOT_FOUND", "")
	}
}

func TestInput(t *testing.T) {
	w := newWorld(t)
	p := &work{input: make(chan []byte, 1)}
	w.start(w.owner, p)
	v, c := ok[InputValue](w, "job_input", `{"job_id":"bash-1","text":"häh\n"}`)
	if v.Bytes != 5 || c != "[bash-1 took 5 bytes]" || string(<-p.input) != "häh\n" {
		t.Errorf("%+v %q", v, c)
	}
	p.input <- nil // it reads no more
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if r := w.call(ctx, "job_input", `{"job_id":"bash-1","text":"more"}`); r.OK() || r.Failure().Code != pipeline.CodeAborted || !strings.Contains(r.Failure().Details.String(), `"bytes":1`) {
		t.Errorf("%v", r.Failure())
	}
	if got := renderInput(InputArgs{Text: "more"}, InputValue{Job: jobs.Job{ID: "bash-1"}, Bytes: 1})[0].Text(); !strings.Contains(got, "1 of 4 bytes") {
		t.Error(got)
	}
	p.end(jobs.Outcome{ExitCode: new(0)})
	if _, err := w.owner.Wait(context.Background(), nil, false); err != nil {
		t.Fatal(err)
	}
	w.fails("job_input", `{"job_id":"bash-1","text":"x"}`, "JOB_ENDED", "bash-1")
	w.start(w.owner, &work{})
	w.fails("job_input", `{"job_id":"bash-2","text":"x"}`, "INVALID_ARGS", "takes no input")
	for args, path := range map[[2]string]string{
		{"job_input", `{"job_id":"bash-2","text":"x"}`}: "job_id", {"job_output", `{"job_id":"bash-2","since":"nonsense"}`}: "since",
	} {
		r := w.call(context.Background(), args[0], args[1])
		if d := r.Failure(); d == nil || d.Code != "INVALID_ARGS" || !strings.HasPrefix(d.Details.String(), `{"path":"`+path+`","expected":"`) {
			t.Errorf("%s: %v", args, d)
		}
	}
}

func TestFailure_KeepsWhatHasNoCode(t *testing.T) {
	plain := errors.New("disk")
	if failure(plain) != plain {
		t.Error("changed")
	}
	if _, err := New(Options{}); err == nil {
		t.Error("made without an owner")
	}
}

// What a model reads of many jobs with long names is bounded, and says how many
// it leaves out.
func TestDescribeAll_IsBounded(t *testing.T) {
	j := jobs.Job{ID: "bash-1", Status: jobs.Running, Label: strings.Repeat("\x01", 200)}
	for n, whole := range map[int]bool{1: true, 132: false, 5000: false} {
		s := describeAll(slices.Repeat([]jobs.Job{j}, n), "")
		shown := strings.Count(s, "bash-1 running")
		if len(s) > pipeline.MaxContent-100 || whole != (shown == n) || !whole && !strings.HasSuffix(s, fmt.Sprintf("[and %d more; job_wait with their job_ids shows them]", n-shown)) {
			t.Errorf("%d jobs: %d shown in %d bytes, … %q", n, shown, len(s), s[len(s)-60:])
		}
	}
}
