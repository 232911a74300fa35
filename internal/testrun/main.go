package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

func main() {
	name := flag.String("name", "tests", "what the run is called in the summary")
	as := flag.String("as", "", "run the tests as this `user` (root only)")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ok, err := run(ctx, *name, *as, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
	}
	if err != nil || !ok {
		stop()
		os.Exit(1)
	}
}

// run runs the tests and reports whether they all passed; an error means that they
// could not be run to the end.
func run(ctx context.Context, name, as string, args []string) (ok bool, err error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, args...)...)
	// Interrupted at the terminal, go test ends its children and prints what it knows.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Stderr = os.Stderr
	if as != "" {
		u, e := newOrdinary(ctx, as)
		if e != nil {
			return false, e
		}
		defer func() { err = errors.Join(err, u.remove()) }() // the result's err
		u.prepare(cmd)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	r := newReport(os.Stdout)
	if err := r.read(out); err != nil {
		return false, errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	waitErr := cmd.Wait()
	r.summary(name)
	if exit := (*exec.ExitError)(nil); waitErr != nil && !errors.As(waitErr, &exit) {
		return false, waitErr
	}
	return waitErr == nil && r.failed == 0 && r.passed > 0, nil
}
