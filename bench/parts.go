package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

func header(ready []contender, missing []string, s *stage) {
	cpu := "unknown processor"
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, ok := strings.CutPrefix(line, "model name"); ok {
				cpu = strings.TrimSpace(strings.TrimLeft(name, "\t :"))
				break
			}
		}
	}
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Printf("Measured on %s, Linux %s, %s, %d cores, %s, load at the start %s, as uid %d.\n\n",
		time.Now().UTC().Format(time.DateOnly), firstLine("uname", "-r"), cpu, runtime.NumCPU(), runtime.Version(),
		strings.Join(strings.Fields(string(load))[:1], ""), os.Getuid())
	fmt.Println("Policy of all: read everything, write only the workspace and a place for temporary files, no network.")
	fmt.Println("Each was checked for a read, a write inside, a refused write outside and a refused TCP connection before it was timed.")
	fmt.Printf("\n| | version | enforces | command line before the command |\n|---|---|---|---|\n")
	for _, c := range ready {
		argv := append([]string(nil), c.prefix...)
		if len(argv) > 0 {
			argv[0] = filepath.Base(argv[0])
		}
		fmt.Printf("| %s | %s | %s | `%s` |\n", c.name, c.version, c.promise, s.hide(strings.Join(argv, " ")))
	}
	for _, m := range missing {
		fmt.Printf("\nNot measured: %s.\n", s.hide(m))
	}
}

// starts: whole processes of /bin/true.
func starts(ctx context.Context, o options, s *stage, cs []contender) error {
	progress("starts: %d rounds", o.rounds)
	all, err := interleave(ctx, o.rounds, cs, func(c contender) (sample, error) {
		return once(s, c.argv("/bin/true"))
	})
	if err != nil {
		return err
	}
	return table(os.Stdout, "Start to end of one `/bin/true`, whole process", all)
}

// quick leaves out who cannot be expected in hundreds of rounds of long jobs.
func quick(cs []contender) []contender {
	var out []contender
	for _, c := range cs {
		if c.every == 1 {
			out = append(out, c)
		}
	}
	return out
}

// timedInside runs command by the inner timer under c: the sample is the command's own
// time, without the start of the sandbox, which the first table has.
func timedInside(s *stage, c contender, args ...string) (sample, error) {
	argv := c.argv(append([]string{s.self, "inner"}, args...)...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = s.workspace, s.environ()
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return sample{}, fmt.Errorf("%s: %w: %s", c.name, err, lastLine(errs.Bytes()))
	}
	ns, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err != nil {
		return sample{}, fmt.Errorf("%s: inner timer said %q", c.name, out)
	}
	return sample{wall: time.Duration(ns)}, nil
}

const treeFiles = 20000

// trees: reading many small files.
func trees(ctx context.Context, o options, s *stage, cs []contender) error {
	progress("trees: making %d files", treeFiles)
	tree := filepath.Join(s.workspace, "tree")
	if err := makeTree(tree); err != nil {
		return err
	}
	rounds := max(o.rounds/10, 5)
	for _, job := range []struct {
		title   string
		command []string
	}{
		{"git status", []string{"git", "-C", tree, "status", "--porcelain"}},
		{"grep -r", []string{"grep", "-r", "no such text", tree}},
	} {
		path, err := exec.LookPath(job.command[0])
		if err != nil {
			fmt.Printf("\nNot measured: %s, which is not installed.\n", job.title)
			continue
		}
		progress("%s: %d rounds", job.title, rounds)
		args := append([]string{"time", path}, job.command[1:]...)
		all, err := interleave(ctx, rounds, quick(cs), func(c contender) (sample, error) { return timedInside(s, c, args...) })
		if err != nil {
			return err
		}
		title := fmt.Sprintf("`%s` over %d small files, timed inside, without the sandbox's start", job.title, treeFiles)
		if err := table(os.Stdout, title, all); err != nil {
			return err
		}
	}
	return os.RemoveAll(tree)
}

func makeTree(root string) error {
	for i := range treeFiles {
		dir := filepath.Join(root, fmt.Sprintf("pkg%02d", i%20), fmt.Sprintf("dir%02d", i/20%50))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		text := strings.Repeat(fmt.Sprintf("line of file %d\n", i), 12)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("file%d.txt", i)), []byte(text), 0o644); err != nil {
			return err
		}
	}
	for _, args := range [][]string{
		{"init", "--quiet"}, {"add", "."},
		{"-c", "user.name=bench", "-c", "user.email=bench@example.com", "commit", "--quiet", "-m", "tree"},
	} {
		cmd := exec.Command("git", append([]string{"-C", root}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil && !errors.Is(err, exec.ErrNotFound) {
			return fmt.Errorf("git %s: %w: %s", args[0], err, lastLine(out))
		}
	}
	return nil
}

// storm: making, renaming and removing many files.
func storm(ctx context.Context, o options, s *stage, cs []contender) error {
	rounds := max(o.rounds/30, 5)
	progress("storm: %d rounds", rounds)
	dir := filepath.Join(s.workspace, "storm")
	all, err := interleave(ctx, rounds, quick(cs), func(c contender) (sample, error) {
		return timedInside(s, c, "storm", dir, strconv.Itoa(treeFiles))
	})
	if err != nil {
		return err
	}
	return table(os.Stdout, fmt.Sprintf("%d creates, renames and unlinks, timed inside", treeFiles), all)
}

// pipe: reading from a pipe that the caller fills.
func pipe(ctx context.Context, o options, s *stage, cs []contender) error {
	const size = 512 << 20
	rounds := max(o.rounds/20, 5)
	progress("pipe: %d rounds", rounds)
	all, err := interleave(ctx, rounds, quick(cs), func(c contender) (sample, error) {
		argv := c.argv(s.self, "inner", "drain")
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir, cmd.Env = s.workspace, s.environ()
		r, w, err := os.Pipe()
		if err != nil {
			return sample{}, err
		}
		var out, errs bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = r, &out, &errs
		err = cmd.Start()
		r.Close()
		if err != nil {
			w.Close()
			return sample{}, err
		}
		buf := make([]byte, 64<<10)
		var writeErr error
		for sent := 0; sent < size && writeErr == nil; sent += len(buf) {
			_, writeErr = w.Write(buf)
		}
		w.Close()
		if err := errors.Join(writeErr, cmd.Wait()); err != nil {
			return sample{}, fmt.Errorf("%s: %w: %s", c.name, err, lastLine(errs.Bytes()))
		}
		ns, err := strconv.ParseInt(strings.TrimSpace(out.String()), 10, 64)
		return sample{wall: time.Duration(ns)}, err
	})
	if err != nil {
		return err
	}
	return table(os.Stdout, fmt.Sprintf("%d MiB read from a pipe, first byte to last", size>>20), all)
}

// inner is what runs under a contender.
func inner(args []string) error {
	if len(args) < 1 {
		return errors.New("no arguments")
	}
	switch name, args := args[0], args[1:]; {
	case name == "read" && len(args) == 1:
		_, err := os.ReadFile(args[0])
		return err
	case name == "write" && len(args) == 1:
		return os.WriteFile(args[0], []byte("x"), 0o644)
	case name == "connect" && len(args) == 1:
		c, err := net.DialTimeout("tcp", args[0], 5*time.Second)
		if err != nil {
			return err
		}
		return c.Close()
	case name == "time" && len(args) > 0:
		cmd := exec.Command(args[0], args[1:]...)
		began := time.Now()
		err := cmd.Run()
		took := time.Since(began)
		// grep exits 1 when it finds nothing, which is what it is asked for.
		if exit := (*exec.ExitError)(nil); err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) {
			return err
		}
		_, err = fmt.Println(took.Nanoseconds())
		return err
	case name == "storm" && len(args) == 2:
		n, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		took, err := stormIn(args[0], n)
		if err != nil {
			return err
		}
		_, err = fmt.Println(took.Nanoseconds())
		return err
	case name == "drain" && len(args) == 0:
		took, err := drain(os.Stdin)
		if err != nil {
			return err
		}
		_, err = fmt.Println(took.Nanoseconds())
		return err
	}
	return fmt.Errorf("no such thing: %q", args)
}

func stormIn(dir string, n int) (time.Duration, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return 0, err
	}
	// Folders of moderate size, as trees have: some file systems are slow in huge ones.
	const perDir = 200
	for i := range (n + perDir - 1) / perDir {
		if err := os.Mkdir(filepath.Join(dir, strconv.Itoa(i)), 0o755); err != nil {
			return 0, err
		}
	}
	name := func(i int) string { return filepath.Join(dir, strconv.Itoa(i/perDir), strconv.Itoa(i)) }
	began := time.Now()
	for i := range n {
		name := name(i)
		f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return 0, err
		}
		if err := f.Close(); err != nil {
			return 0, err
		}
		if err := os.Rename(name, name+".new"); err != nil {
			return 0, err
		}
	}
	for i := range n {
		if err := os.Remove(name(i) + ".new"); err != nil {
			return 0, err
		}
	}
	took := time.Since(began)
	return took, os.RemoveAll(dir)
}

func drain(r io.Reader) (time.Duration, error) {
	buf := make([]byte, 64<<10)
	if _, err := r.Read(buf); err != nil {
		return 0, err
	}
	began := time.Now()
	for {
		if _, err := r.Read(buf); err == io.EOF {
			return time.Since(began), nil
		} else if err != nil {
			return 0, err
		}
	}
}
