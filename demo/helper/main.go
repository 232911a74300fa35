// Command helper is what make demo attacks with: one plain system call or two for each
// subcommand, so that a refusal is the kernel's and nobody else's. It also listens outside
// the sandbox, reads dshx's JSON, and times pairs of commands, so that the demonstration
// needs no other program than the shell, git, make, a C compiler and Go.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("helper: which of write, read, chmod, kill, connect, listen, denials and pairs?")
	}
	name, args := args[0], args[1:]
	switch {
	case name == "write" && len(args) == 1:
		return write(args[0])
	case name == "read" && len(args) == 1:
		b, err := os.ReadFile(args[0])
		os.Stdout.Write(b)
		return err
	case name == "chmod" && len(args) == 2:
		mode, err := strconv.ParseUint(args[0], 8, 32)
		if err != nil {
			return err
		}
		return os.Chmod(args[1], os.FileMode(mode))
	case name == "kill" && len(args) == 1:
		pid, err := strconv.Atoi(args[0])
		if err != nil || pid <= 1 {
			return fmt.Errorf("kill: %q is no process id", args[0])
		}
		return os.NewSyscallError("kill "+args[0], syscall.Kill(pid, syscall.SIGTERM))
	case name == "connect" && len(args) == 2:
		c, err := net.DialTimeout(args[0], args[1], 5*time.Second)
		if err != nil {
			return err
		}
		return c.Close()
	case name == "listen" && len(args) == 3:
		return listen(args[0], args[1], args[2])
	case name == "denials" && len(args) == 0:
		return denials(os.Stdin)
	case name == "pairs" && len(args) > 3:
		return pairs(args[0], args[1:])
	}
	return fmt.Errorf("helper: no such thing: %s %q", name, args)
}

func write(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, "the attack was here\n")
	return errors.Join(err, f.Close())
}

// listen accepts connections for ever and notes each with a line in log. Once clients can
// connect, it writes its address to log.address.
func listen(network, addr, log string) error {
	l, err := net.Listen(network, addr)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	if err := os.WriteFile(log+".tmp", []byte(l.Addr().String()), 0o644); err != nil {
		return err
	}
	if err := os.Rename(log+".tmp", log+".address"); err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(f, "connection"); err != nil {
			return err
		}
		c.Close()
	}
}

// denials prints what dshx exec --json says was refused, and fails if that is nothing.
func denials(r io.Reader) error {
	var result struct {
		ExitCode *int `json:"exitCode"`
		Sandbox  struct {
			Denials []struct {
				Operation, Target, Evidence, Remedy string
				Rule                                struct{ Text, Origin string }
			}
		}
	}
	if err := json.NewDecoder(r).Decode(&result); err != nil {
		return fmt.Errorf("denials: %w", err)
	}
	if result.ExitCode == nil || len(result.Sandbox.Denials) == 0 {
		return errors.New("denials: the result names none")
	}
	fmt.Printf("exitCode %d, %d denial(s):\n", *result.ExitCode, len(result.Sandbox.Denials))
	for _, d := range result.Sandbox.Denials {
		fmt.Printf("  %s %s\n      rule:     %s (%s)\n      known by: %s\n      remedy:   %s\n",
			d.Operation, d.Target, d.Rule.Text, d.Rule.Origin, d.Evidence, d.Remedy)
	}
	return nil
}

// pairs runs two commands, separated by "--", n times in turn, and prints the median of
// each and the median of the ratios within a pair: load on the machine hits both alike.
func pairs(count string, args []string) error {
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 {
		return fmt.Errorf("pairs: %q is no count", count)
	}
	// The second command has a "--" of its own; the first one found separates the two.
	i := slices.Index(args, "--")
	if i <= 0 || i == len(args)-1 {
		return errors.New("pairs: two commands are needed, with -- between them")
	}
	a, b := args[:i], args[i+1:]
	var as, bs, ratios []float64
	for range n {
		ta, err := timed(a)
		if err != nil {
			return err
		}
		tb, err := timed(b)
		if err != nil {
			return err
		}
		as, bs, ratios = append(as, ta), append(bs, tb), append(ratios, tb/ta)
	}
	fmt.Printf("%7.2f ms  %s\n%7.2f ms  %s\n%7.2f x   median of %d pairs; confinement costs %.2f ms\n",
		median(as), strings.Join(a, " "), median(bs), strings.Join(b, " "), median(ratios), n, median(bs)-median(as))
	return nil
}

// timed returns the time of one run in milliseconds.
func timed(argv []string) (float64, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	began := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, out)
	}
	return float64(time.Since(began).Microseconds()) / 1000, nil
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	if len(s)%2 == 1 {
		return s[len(s)/2]
	}
	return (s[len(s)/2-1] + s[len(s)/2]) / 2
}
