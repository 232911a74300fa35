package jobs_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/dshx/dshx/jobs"
)

// counter is work without processes: it counts until it is told to stop.
type counter struct {
	out  io.Writer
	stop chan string
	done chan jobs.Outcome
}

func (c *counter) run() {
	for n := range 3 {
		fmt.Fprintln(c.out, "step", n+1)
	}
	c.done <- jobs.Outcome{Signal: <-c.stop}
}

func (c *counter) Signal(name string) error {
	select {
	case c.stop <- name:
	default: // it stops already
	}
	return nil
}

func (c *counter) PIDs() []int                                      { return nil }
func (c *counter) Input(context.Context, []byte, bool) (int, error) { return 0, jobs.ErrNoInput }
func (c *counter) Wait() jobs.Outcome                               { return <-c.done }

func Example() {
	base, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(base)
	ctx := context.Background()

	reg, err := jobs.New(jobs.Options{
		Dir: filepath.Join(base, "jobs"),
		Log: func(e jobs.End) { fmt.Println("log:", e.Job.ID, e.Job.Status, "by", *e.Job.EndedBy) },
	})
	if err != nil {
		log.Fatal(err)
	}
	owner := reg.Owner("connection 1")
	job, err := owner.Start(ctx, jobs.Spec{
		Kind: "count",
		Start: func(_ context.Context, out jobs.Output) (jobs.Producer, error) {
			c := &counter{out: out.Stdout, stop: make(chan string, 1), done: make(chan jobs.Outcome)}
			go c.run()
			return c, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(job.ID, job.Status)

	var at jobs.Cursor
	for read := 0; read < len("step 1\nstep 2\nstep 3\n"); {
		chunk, err := owner.Follow(ctx, job.ID, jobs.ReadOptions{Since: at})
		if err != nil {
			log.Fatal(err)
		}
		os.Stdout.Write(chunk.Stdout)
		at, read = chunk.Next, read+len(chunk.Stdout)
	}
	if _, requested, err := owner.Kill(job.ID, "TERM", "no longer needed"); err != nil || !requested {
		log.Fatal(requested, err)
	}
	list, err := owner.Wait(ctx, []string{job.ID}, false)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(list[0].ID, list[0].Status, *list[0].Signal)
	if err := reg.Close(ctx); err != nil {
		log.Fatal(err)
	}
	// Unordered output:
	// count-1 running
	// step 1
	// step 2
	// step 3
	// count-1 killed SIGTERM
	// log: count-1 killed by job_kill
}

// command is one process as a Producer: enough for a program that starts no
// others.
type command struct{ *exec.Cmd }

func (c command) Signal(name string) error {
	if name == "KILL" {
		return c.Process.Kill()
	}
	return c.Process.Signal(os.Interrupt)
}

func (c command) PIDs() []int                                      { return []int{c.Process.Pid} }
func (c command) Input(context.Context, []byte, bool) (int, error) { return 0, jobs.ErrNoInput }

func (c command) Wait() jobs.Outcome {
	_ = c.Cmd.Wait()
	code := c.ProcessState.ExitCode()
	if code < 0 {
		return jobs.Outcome{Err: fmt.Errorf("%s", c.ProcessState)}
	}
	return jobs.Outcome{ExitCode: &code}
}

func ExampleOwner_Start() {
	base, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(base)
	ctx := context.Background()
	reg, err := jobs.New(jobs.Options{Dir: filepath.Join(base, "jobs")})
	if err != nil {
		log.Fatal(err)
	}
	defer reg.Close(ctx)

	owner := reg.Owner("connection 1")
	job, err := owner.Start(ctx, jobs.Spec{Kind: "bash", Label: "greet", Start: func(_ context.Context, out jobs.Output) (jobs.Producer, error) {
		cmd := exec.Command("sh", "-c", "echo hello; echo oops >&2; exit 3")
		cmd.Stdout, cmd.Stderr = out.Stdout, out.Stderr
		return command{cmd}, cmd.Start()
	}})
	if err != nil {
		log.Fatal(err)
	}
	list, err := owner.Wait(ctx, []string{job.ID}, false)
	if err != nil {
		log.Fatal(err)
	}
	chunk, err := owner.Read(job.ID, jobs.ReadOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s %s %d %q %q\n", list[0].ID, list[0].Status, *list[0].ExitCode, chunk.Stdout, chunk.Stderr)
	// Output: bash-1 exited 3 "hello\n" "oops\n"
}
