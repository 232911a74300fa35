package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
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
		u, err := newOrdinary(ctx, as)
		if err != nil {
			return false, err
		}
		defer func() { err = errors.Join(err, u.remove()) }()
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
	if waitErr == nil && r.failed == 0 && r.passed > 0 {
		return true, nil
	}
	if as != "" || ctx.Err() != nil {
		return false, nil
	}
	return again(ctx, name, args, r.fails), nil
}

// mostAgain is how many failed tests may have been bad luck.
const mostAgain = 4

// again gives a few failed tests of ./integration a second try, one after the
// other: they drive shells and programs of others on terminals, where a key may
// come a moment too early whatever dshx does. What passes only then is named as
// flaky. Tests of other packages get no second try.
func again(ctx context.Context, name string, args []string, fails map[testID]bool) bool {
	if len(fails) == 0 || len(fails) > mostAgain {
		return false
	}
	for id := range fails {
		if !strings.HasSuffix(id.Package, "/integration") {
			return false
		}
	}
	for id := range fails {
		fmt.Printf("\n%s: %s again\n", name, id.Test)
		one := []string{"test", "-json"}
		for _, a := range args {
			if strings.HasPrefix(a, "-") || !strings.Contains(a, "/") && len(one) > 2 && strings.HasPrefix(one[len(one)-1], "-timeout") {
				one = append(one, a)
			}
		}
		cmd := exec.CommandContext(ctx, "go", append(one, "-run", "^"+id.Test+"$", id.Package)...)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil || cmd.Start() != nil {
			return false
		}
		r := newReport(os.Stdout)
		err = r.read(out)
		if errors.Join(err, cmd.Wait()) != nil || r.failed > 0 || r.passed == 0 {
			return false
		}
		fmt.Printf("%s: flaky: %s failed once and passed on the second try\n", name, id.Test)
	}
	return true
}
