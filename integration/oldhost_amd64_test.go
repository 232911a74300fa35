package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// oldHost is the prefix that makes dshx believe in an older Landlock.
func oldHost(abi int) []string { return []string{probeBin, "old-host", itoa(abi)} }

// quoteAll makes words of a shell of arguments.
func quoteAll(argv []string) string {
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	return strings.Join(words, " ")
}

// Kernels from 5.13 to 6.11 have no signal scope in Landlock: the supervisor
// judges signals there, dshx's own among them.
func TestOldHost_RunsAndEnds(t *testing.T) {
	for _, abi := range []int{1, 3, 5} {
		t.Run(fmt.Sprintf("ABI %d", abi), func(t *testing.T) {
			forEachUser(t, func(t *testing.T, e *Env) {
				old := func(flags ...string) Opts {
					return Opts{Prefix: oldHost(abi), Flags: flags, Timeout: 30 * time.Second}
				}
				r := e.Run(old(), "true").OK(t)
				if want := "landlock:" + itoa(abi); r.Enforcement() == nil || r.Enforcement().Mechanisms[0] != want {
					t.Fatalf("not on %s: %s", want, r)
				}
				if r := e.Sh(old(), "exit 7"); r.Exit != 7 {
					t.Errorf("status: %s", r)
				}
				if r := e.Run(old("--timeout", "300ms"), "sleep", "60"); r.Exit != 124 {
					t.Errorf("timeout: %s", r)
				}
				if r := e.Sh(old("--timeout", "300ms", "--kill-after", "300ms"), "trap '' TERM; setsid sleep 60 & while :; do sleep 1; done"); r.Exit != 124 {
					t.Errorf("timeout, ignored: %s", r)
				}
				if r := e.Sh(old(), "sleep 60 & setsid sleep 60 & exit 3"); r.Exit != 3 {
					t.Errorf("left behind: %s", r)
				}
				if r := e.Sh(old("--json"), "kill -9 $$"); r.Exit != 137 {
					t.Errorf("killed: %s", r)
				}
				if r := e.Sh(old("--tty", "always"), "touch f; chmod 644 f; kill -0 1; sleep 0.3; exit 3"); r.Exit != 3 {
					t.Errorf("terminal: %s", r)
				}
				if r := e.Sh(old("--tty", "always"), "sleep 60 & exit 4"); r.Exit != 4 {
					t.Errorf("terminal, left behind: %s", r)
				}
				// Jobs inside.
				e.Sh(old(), `sleep 60 & kill $! && wait $!; [ $? = 143 ] && sh -c 'trap "exit 5" TERM; kill 0; sleep 1'; [ $? = 5 ]`)
				e.NothingLeft(2 * time.Second)

				// What dshx is sent goes on.
				p := e.f3Start(Opts{}, append(oldHost(abi), e.DshxArgv(Opts{StatusFD: -1}, "sh", "-c", "trap 'echo got; exit 9' TERM; echo ready; while :; do sleep 0.05; done")...)...)
				p.Expect("ready", 1)
				p.Signal(syscall.SIGTERM)
				if code := p.Wait(10 * time.Second); code != 9 {
					t.Errorf("forwarded: status %d: %s", code, p.Output())
				}
				e.NothingLeft(2 * time.Second)
			})
		})
	}
}

// Signals reach nobody outside, whatever a thread does to the caller's group
// meanwhile; in the caller's own group, what is inside gets them.
func TestOldHost_SignalsStayInside(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		for _, abi := range []int{5, 99} { // 99: the kernel's own
			o := Opts{Timeout: 60 * time.Second}
			if abi < 99 {
				o.Prefix = oldHost(abi)
			}
			// The victim is in dshx's own process group, which is the command's.
			hit := filepath.Join(e.O, "hit"+itoa(abi))
			e.Write(hit, "")
			o.Stdout = nil
			script := fmt.Sprintf(`trap 'echo hit >> %s' USR1; %s & d=$!; wait $d; s=$?; sleep 0.2; exit $s`, hit,
				quoteAll(append(append([]string{}, o.Prefix...), e.DshxArgv(Opts{StatusFD: -1}, probeBin, "group-flip", "USR1")...)))
			r := e.OutsideOpts(Opts{Timeout: 60 * time.Second}, "sh", "-c", script)
			if b, err := os.ReadFile(hit); err != nil || len(b) > 0 {
				t.Errorf("ABI %d: a process outside was signalled (%v): %s", abi, err, r)
			}
			// Control: outside of dshx the same flipping hits.
			control := fmt.Sprintf(`trap 'echo hit >> %s' USR1; %s & d=$!; while kill -0 $d 2>/dev/null; do wait $d; done; sleep 0.2`, hit,
				quoteAll([]string{probeBin, "group-flip", "USR1"}))
			e.OutsideOpts(Opts{Timeout: 60 * time.Second}, "sh", "-c", control)
			if b, err := os.ReadFile(hit); err != nil || len(b) == 0 {
				t.Errorf("ABI %d: the control hits nothing (%v)", abi, err)
			}
		}
	})
}
