package integration

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// F1-22: descriptors of the caller are not the command's.
func TestF1_22_InheritedDescriptors(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		secret := e.Write(filepath.Join(e.H, "secret"), "MARKER-secret")
		e.Write(filepath.Join(e.O, "f"), "f")
		tcp := Listen(t, "tcp", "127.0.0.1:0")
		sock := Listen(t, "unix", filepath.Join(e.O, "s.sock"))
		untidy := func() []string {
			return []string{probeBin, "withfds", "3=r:" + secret, "4=path:" + e.O, "5=tcp:" + tcp.Addr, "6=dir:" + e.O, "7=rw:" + secret,
				"8=unix:" + sock.Addr, "200=listen", "--"}
		}
		attempts := []string{"fdlist", "read-fd 3", "openat-fd 4 f", "createat-fd 4 pwned", "fchdir-fd 4", "write-fd 5 attack", "fchdir-fd 6",
			"createat-fd 6 pwned", "read-fd 7", "write-fd 8 attack", "listen-fd 200", "read /proc/self/fd/3"}
		outside := parseAttempts(t, e.Outside(append(untidy(), ProbeArgv(attempts...)...)...))
		for _, n := range []string{"read-fd 3", "openat-fd 4 f", "fchdir-fd 4", "write-fd 5 attack", "fchdir-fd 6", "write-fd 8 attack", "listen-fd 200"} {
			if got := outside.Get(n); got.Result != "ok" {
				t.Errorf("control: outside %s: %s", n, got.Result)
			}
		}
		os.Remove(filepath.Join(e.O, "pwned"))
		time.Sleep(50 * time.Millisecond)
		sent := tcp.Bytes() + sock.Bytes()

		check := Unchanged(t, e.O, e.H)
		// The status descriptor is dshx's own, not the command's.
		a := e.Probe(Opts{Prefix: untidy(), StatusFD: 150}, attempts...)
		if got := a.Get("fdlist").Detail; got != "0 1 2" {
			t.Errorf("open inside: %s, want 0 1 2", got)
		}
		assertDenied(t, a, attempts[1:], "EBADF")
		check()
		time.Sleep(50 * time.Millisecond)
		if n := tcp.Bytes() + sock.Bytes(); n != sent {
			t.Errorf("%d bytes came out through inherited sockets", n-sent)
		}
		assertRan(t, a.Run)

		// Other ways to run: with --json, and with closed standard streams.
		a = e.Probe(Opts{Prefix: untidy(), JSON: true}, attempts...)
		if got := a.Get("fdlist").Detail; got != "0 1 2" {
			t.Errorf("--json: open inside: %s, want 0 1 2", got)
		}
		if dshxBin != "" {
			out := filepath.Join(e.W, "out")
			argv := e.DshxArgv(Opts{StatusFD: -1}, "sh", "-c", `"$1" -json do fdlist > out`, "sh", probeBin)
			e.Outside(append([]string{"sh", "-c", `exec "$@" <&- >&- 2>&-`, "sh"}, argv...)...)
			if data, _ := os.ReadFile(out); strings.Contains(string(data), "3") {
				t.Errorf("with closed streams, open inside: %s", data)
			}
		}

		// Named ones are passed.
		a = e.Probe(Opts{Prefix: untidy(), StatusFD: 150, Flags: []string{"--pass-fd", "3"}}, "fdlist", "read-fd 3")
		assertAllowed(t, a, []string{"read-fd 3"})
		if got := a.Get("fdlist").Detail; got != "0 1 2 3" {
			t.Errorf("--pass-fd 3: open inside: %s", got)
		}

		// A wrong program is a failure to start, with an untidy caller too.
		for _, o := range []Opts{{}, {Prefix: untidy(), StatusFD: 150}} {
			r := e.Run(o, "no-such-program-"+e.Mark)
			ev := r.Event("error")
			if r.Exit != 127 || ev == nil || ev.Error == nil || ev.Error.Code != "COMMAND_NOT_FOUND" || r.Event("exited") != nil {
				t.Errorf("want COMMAND_NOT_FOUND and 127: %s", r)
			}
		}
	})
}

// F1-23: secrets in the caller's environment stay there.
func TestF1_23_Environment(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		marker := "MARKER" + e.Mark
		secrets := []string{"AWS_SECRET_ACCESS_KEY=" + marker, "GITHUB_TOKEN=" + marker, "X_API_KEY=" + marker,
			"SSH_AUTH_SOCK=/" + marker, "DBUS_SESSION_BUS_ADDRESS=unix:path=/" + marker, "DB_PASSWORD=" + marker, "NPM_TOKEN=" + marker,
			"HARMLESS_NAME=ghp_" + marker + "AAAAAAAAAAAAAAAAAAAAAAAAAAAA", "SOME_URL=https://user:" + marker + "@host.example/"}
		// A neighbour of the same user has them, too.
		neighbour := e.Command(Opts{Env: append(slices.Clone(secrets), "IT_MARK")}, "sleep", "1000")
		if err := neighbour.Start(); err != nil {
			t.Fatal(err)
		}
		defer neighbour.Wait()
		defer neighbour.Process.Kill()
		look := `env; for f in /proc/[0-9]*/environ /proc/[0-9]*/cmdline /proc/[0-9]*/task/*/environ /proc/self/environ; do tr '\0' '\n' < $f; done 2>/dev/null
for f in /proc/[0-9]*/maps /proc/[0-9]*/auxv; do cat $f >/dev/null; done 2>/dev/null
command -v ps >/dev/null && ps auxe; cat /proc/$PPID/environ 2>/dev/null; true`
		if r := e.OutsideOpts(Opts{Env: secrets}, "sh", "-c", look); strings.Count(r.Stdout, marker) < 12 {
			t.Errorf("control: the markers are not found outside: %s", r)
		}
		for _, preset := range []string{"workspace-write", "read-only"} {
			r := e.Sh(Opts{Preset: preset, Env: secrets}, look).OK(t)
			if strings.Contains(r.Stdout+r.Stderr, marker) {
				t.Errorf("%s: found a marker: %s", preset, grepLines(r.Stdout+r.Stderr, marker))
			}
		}
		// --keep-env passes everything but what looks like a secret.
		r := e.Sh(Opts{Env: append(slices.Clone(secrets), "PLAIN=plain"), Flags: []string{"--keep-env"}}, "env").OK(t)
		// The address of a bus is none: its socket is out of reach.
		kept := strings.ReplaceAll(r.Stdout, "DBUS_SESSION_BUS_ADDRESS=unix:path=/"+marker, "")
		if strings.Contains(kept, marker) {
			t.Errorf("--keep-env: %s", grepLines(kept, marker))
		}
		if !strings.Contains(r.Stdout, "PLAIN=plain\n") {
			t.Errorf("control: --keep-env does not pass PLAIN: %s", r.Stdout)
		}
		// danger-full-access keeps nothing back but dshx's own.
		if r := e.Sh(Opts{Preset: "danger-full-access", Env: secrets}, "env"); !strings.Contains(r.Stdout, "GITHUB_TOKEN="+marker) {
			t.Errorf("control: danger-full-access: %s", r.Stdout)
		}

		r = e.Sh(Opts{Env: append(slices.Clone(secrets), "FOR_CHILD=from-caller", "NOT_PASSED=x"),
			Flags: []string{"--env", "GIVEN=on purpose", "--env", "FOR_CHILD", "--env", "GITHUB_TOKEN"}},
			`env; [ -d "$TMPDIR" ] && stat -c '%a %u' "$TMPDIR"`).OK(t)
		for _, want := range []string{"PATH=" + os.Getenv("PATH"), "HOME=" + e.H, "LANG=C.UTF-8", "TERM=xterm", "USER=", "GIVEN=on purpose", "FOR_CHILD=from-caller",
			"GITHUB_TOKEN=" + marker, "TMPDIR=/"} {
			if !strings.Contains("\n"+r.Stdout, "\n"+want) {
				t.Errorf("control: no %s in %s", want, r.Stdout)
			}
		}
		if strings.Contains(r.Stdout, "NOT_PASSED") {
			t.Errorf("a variable that nobody named came through")
		}
		if want := fmt.Sprintf("\n700 %d\n", e.UID); !strings.HasSuffix(r.Stdout, want) {
			t.Errorf("TMPDIR is not private: %s", r.Stdout)
		}
	})
}

func grepLines(text, what string) string {
	var hits []string
	for _, line := range strings.Split(text, "\n") {
		if strings.Contains(line, what) {
			hits = append(hits, line)
		}
	}
	return clip(strings.Join(hits, "\n"))
}

// scale is how often a case repeats: its full number when DSHX_IT_FULL=1, else
// a part of it that an ordinary run has time for.
func scale(full, usual int) int {
	if os.Getenv("DSHX_IT_FULL") == "1" {
		return full
	}
	if testing.Short() {
		return max(usual/10, 1)
	}
	return usual
}

// F1-25: what is judged is what is done, however fast the memory changes.
func TestF1_25_Races(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		// Two names that differ in the last byte: a is a link to what is
		// allowed, b to what is not.
		names := func(legal, forbidden string) (string, string) {
			dir := e.Mkdir(filepath.Join(e.W, "n-"+filepath.Base(legal)))
			a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
			e.Symlink(legal, a)
			e.Symlink(forbidden, b)
			return a, b
		}
		okFile := e.Write(filepath.Join(e.W, "ok"), "legal")
		key := e.Write(filepath.Join(e.H, ".ssh/key"), "forbidden", 0o600)
		of := e.Write(filepath.Join(e.O, "f"), "forbidden", 0o600)
		prog := e.Write(filepath.Join(e.W, "prog"), "#!/bin/sh\nexit 42\n", 0o755)
		evil := e.Write(filepath.Join(e.H, ".ssh/evil"), "#!/bin/sh\nexit 66\n", 0o755)
		outer := Listen(t, "unixgram", filepath.Join(e.O, "b.sock"))
		old := time.Unix(500000000, 0)
		os.Chtimes(of, old, old)

		openA, openB := names(okFile, key)
		execA, execB := names(prog, evil)
		metaDir := e.Mkdir(filepath.Join(e.W, "meta"))
		metaA, metaB := filepath.Join(metaDir, "a"), filepath.Join(metaDir, "b")
		e.Write(metaA, "legal")
		e.Symlink(of, metaB)
		// The sockets: the legal one is made inside, so its directory is W.
		sockDir := e.Mkdir(filepath.Join(e.W, "sock"))
		sockA, sockB := filepath.Join(sockDir, "a"), filepath.Join(sockDir, "b")
		e.Symlink(outer.Addr, sockB)

		for _, c := range []struct {
			kind         string
			full, usual  int
			legal, other string
			serve        bool
		}{
			{"open", 200000, 100000, openA, openB, false},
			{"openat2", 200000, 50000, openA, openB, false},
			{"openat2-how", 200000, 50000, e.Write(filepath.Join(e.O, "roa"), "legal", 0o644), e.Write(filepath.Join(e.O, "rob"), "legal", 0o644), false},
			{"execve", 20000, 300, execA, execB, false},
			{"connect", 200000, 10000, sockA, sockB, true},
			{"sendto", 200000, 10000, sockA, sockB, true},
			{"chmod", 200000, 10000, metaA, metaB, false},
			{"utimes", 200000, 5000, metaA, metaB, false},
			{"setxattr", 200000, 5000, metaA, metaB, false},
		} {
			t.Run(c.kind, func(t *testing.T) {
				e := e.With(t)
				argv := []string{probeBin, "race", c.kind, itoa(scale(c.full, c.usual)), c.legal, c.other}
				count := func(r *Result) (legal, forbidden int) {
					t.Helper()
					if _, err := fmt.Sscanf(lastLine(r.Stdout), "legal=%d forbidden=%d", &legal, &forbidden); err != nil {
						t.Fatalf("%v: %s", err, r)
					}
					return legal, forbidden
				}
				if c.serve {
					argv = []string{probeBin, "serve-dgram", c.legal, "--"}
					argv = append(argv, probeBin, "race", c.kind, itoa(scale(c.full, c.usual)), c.legal, c.other)
				}
				touched := func(forbidden int) bool {
					switch c.kind {
					case "open", "openat2", "openat2-how", "execve", "connect":
						return forbidden > 0
					case "sendto":
						return outer.Conns() > 0
					}
					line, _ := describe(of)
					was := !strings.Contains(line, "mode=100600") || strings.Contains(line, "mtime=1000000000") || strings.Contains(line, "user.probe")
					os.Chmod(of, 0o600)
					os.Chtimes(of, old, old)
					return was
				}
				// The control outside: the race is one, both objects are had. On a
				// busy machine the two threads may need a while to meet.
				var outside *Result
				both := false
				for n := 2000; !both && n < 1000000; n *= 5 {
					few := slices.Clone(argv)
					few[slices.Index(few, c.kind)+1] = itoa(n)
					if c.kind == "execve" {
						few[slices.Index(few, c.kind)+1] = itoa(n / 20)
					}
					outside = e.Outside(few...)
					legal, forbidden := count(outside)
					both = legal > 0 && touched(forbidden)
				}
				if !both {
					t.Errorf("control: the race has but one outcome outside: %s", outside)
				}
				unix.Removexattr(of, "user.probe")
				time.Sleep(20 * time.Millisecond)
				heard := outer.Conns()
				check := Unchanged(t, e.O, e.H)

				r := e.Run(Opts{Timeout: 120 * time.Second}, argv...)
				legal, forbidden := count(r)
				if forbidden != 0 {
					t.Errorf("the forbidden object was had %d times", forbidden)
				}
				if legal == 0 {
					t.Errorf("control: the legal object was never had: %s", r)
				}
				outer.Silent(t, heard)
				check()
			})
		}
	})
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return lines[len(lines)-1]
}

// F1-26: every start is confined, under load too.
func TestF1_26_StartsUnderLoad(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		if dshxBin == "" {
			needDshx(t)
		}
		stop := make(chan struct{})
		var load sync.WaitGroup
		for range runtime.NumCPU() {
			cmd := exec.Command("sh", "-c", "while :; do :; done")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			load.Add(1)
			go func() {
				defer load.Done()
				<-stop
				cmd.Process.Kill()
				cmd.Wait()
			}()
		}
		defer load.Wait()
		defer close(stop)

		n := scale(1000, 300)
		jobs := make(chan int)
		var workers sync.WaitGroup
		var mu sync.Mutex
		bad := map[string]int{}
		for range 16 {
			workers.Add(1)
			go func() {
				defer workers.Done()
				for i := range jobs {
					cmd := e.Command(Opts{Env: []string{"GOMAXPROCS=2"}}, e.DshxArgv(Opts{StatusFD: -1}, probeBin, "claim",
						filepath.Join(e.O, "pwn-"+itoa(i)), filepath.Join(e.W, "ok-"+itoa(i)))...)
					out, err := cmd.CombinedOutput()
					line := string(out)
					want := "forbidden=EACCES allowed=ok"
					problem := ""
					switch {
					case err != nil:
						problem = fmt.Sprintf("%v: %s", err, line)
					case !strings.HasPrefix(line, want):
						problem = line
					case !strings.Contains(line, " NoNewPrivs=1 ") || !strings.Contains(line, " Seccomp=2"):
						problem = line
					}
					if problem != "" {
						mu.Lock()
						bad[problem]++
						mu.Unlock()
					}
				}
			}()
		}
		began := time.Now()
		for i := range n {
			jobs <- i
		}
		close(jobs)
		workers.Wait()
		t.Logf("%d starts in %v", n, time.Since(began).Round(time.Millisecond))
		for problem, count := range bad {
			t.Errorf("%d times: %s", count, problem)
		}
		if pwned, _ := filepath.Glob(filepath.Join(e.O, "pwn-*")); len(pwned) > 0 {
			t.Errorf("created outside: %v", pwned)
		}
		if ok, _ := filepath.Glob(filepath.Join(e.W, "ok-*")); len(ok) != n {
			t.Errorf("control: %d of %d created inside", len(ok), n)
		}
		e.NothingLeft(5 * time.Second)
	})
}

// Root keeps but four capabilities, and an ordinary user none.
func TestF1_26_Capabilities(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		r := e.Run(Opts{}, probeBin, "claim", filepath.Join(e.O, "x"), filepath.Join(e.W, "x")).OK(t)
		caps := map[string]uint64{}
		sc := bufio.NewScanner(strings.NewReader(r.Stdout))
		sc.Split(bufio.ScanWords)
		for sc.Scan() {
			if k, v, ok := strings.Cut(sc.Text(), "="); ok && strings.HasPrefix(k, "Cap") {
				caps[k], _ = strconv.ParseUint(v, 16, 64)
			}
		}
		allowed := uint64(1<<0 | 1<<1 | 1<<3 | 1<<4) // CHOWN, DAC_OVERRIDE, FOWNER, FSETID
		want := allowed
		if e.UID != 0 {
			want = 0
		}
		for _, set := range []string{"CapEff", "CapPrm"} {
			if got, ok := caps[set]; !ok || got != want {
				t.Errorf("%s is %x, want %x", set, got, want)
			}
		}
		if e.UID == 0 && caps["CapBnd"] != allowed {
			t.Errorf("CapBnd is %x, want %x", caps["CapBnd"], allowed)
		}
		if caps["CapInh"] != 0 || caps["CapAmb"] != 0 {
			t.Errorf("inheritable %x, ambient %x, want none", caps["CapInh"], caps["CapAmb"])
		}
	})
}

// secretStores are the files that no command may read, with design's names.
var secretStores = []string{".ssh/id_x", ".ssh/config", ".gnupg/private-keys-v1.d/k", ".aws/credentials", ".aws/config", ".azure/accessTokens.json", ".kube/config",
	".config/gcloud/credentials.db", ".config/gh/hosts.yml", ".docker/config.json", ".netrc", ".npmrc", ".pypirc", ".git-credentials",
	".config/git/credentials", ".cargo/credentials", ".cargo/credentials.toml", ".m2/settings.xml", ".gradle/gradle.properties", ".password-store/site.gpg",
	".local/share/keyrings/login.keyring", ".bash_history", ".zsh_history", ".python_history",
	".mozilla/firefox/p.default/logins.json", ".config/google-chrome/Default/Login Data", ".config/chromium/Default/Cookies"}

// F1-27: credentials in the home are unreadable by every way to them.
func TestF1_27_SecretStores(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		marker := "MARKER" + e.Mark
		for _, s := range secretStores {
			e.Write(filepath.Join(e.H, s), marker+" "+s+"\n")
		}
		e.Write(filepath.Join(e.H, "plain"), "plain\n")
		e.Write(filepath.Join(e.H, ".config/other/file"), "plain\n")
		e.Symlink(e.H, filepath.Join(e.W, "home"))
		ops := []string{"read {}", "mmap {}", "openat2-r {}", "open-rw {}", "read /proc/self/root{}", "fd {} read @", "read " + e.W + "/home/{s}", "read " + e.W + "/../H/{s}",
			"in " + e.H + " read {s}", "in {d} read {b}", "exec {}"}
		var attempts []string
		for _, s := range secretStores {
			if strings.Contains(s, " ") {
				continue // the probe splits at spaces; the shell below takes it
			}
			p := filepath.Join(e.H, s)
			for _, op := range ops {
				attempts = append(attempts, strings.NewReplacer("{}", p, "{s}", s, "{d}", filepath.Dir(p), "{b}", filepath.Base(p)).Replace(op))
			}
		}
		shell := `cd "$1" || exit 1; find . -type f | while IFS= read -r f; do cat "$f"; head -c 100 "$f"; cp "$f" "$TMPDIR/copy" && cat "$TMPDIR/copy"; dd if="$f"
. "./$f"; done; tar cf - . ; grep -r MARKER . ; tar cf - -C "$1" .ssh .aws; cat < .netrc; cat .ssh/* .aws/*; ln .netrc "$TMPDIR/l" && cat "$TMPDIR/l"
cd .ssh && cat id_x; cat "$HOME/.netrc" ~/.npmrc; HOME=/ cat "$1/.netrc"; env HOME="$2" cat "$1/.ssh/id_x"; true`
		if r := e.Outside("sh", "-c", shell, "sh", e.H, e.O); strings.Count(r.Stdout, marker) < len(secretStores)*4 {
			t.Errorf("control: markers are not read outside: %s", r)
		}
		for _, preset := range []string{"workspace-write", "read-only"} {
			a := e.Probe(Opts{Preset: preset}, attempts...)
			assertDenied(t, a, attempts)
			for _, one := range a.List {
				if strings.Contains(one.Detail, "MARKER") {
					t.Errorf("%s: %s", one.Name, one.Detail)
				}
			}
			r := e.Sh(Opts{Preset: preset}, shell, e.H, e.O)
			if strings.Contains(r.Stdout+r.Stderr, marker) {
				t.Errorf("%s: %s", preset, grepLines(r.Stdout+r.Stderr, marker))
			}
			if !strings.Contains(r.Stdout, "plain") {
				t.Errorf("control: what is no secret is not read: %s", r)
			}
			// A store that comes into being only when the command runs already.
			late := filepath.Join(e.H, ".azure/late-"+preset)
			ready := filepath.Join(e.O, "ready-"+preset)
			go func() {
				time.Sleep(300 * time.Millisecond)
				os.WriteFile(late, []byte(marker), 0o644)
				os.Chown(late, e.UID, e.GID)
				os.WriteFile(ready, nil, 0o644)
			}()
			r = e.Sh(Opts{Preset: preset}, `i=0; while [ ! -e "$2" ] && [ $i -lt 200 ]; do sleep 0.05; i=$((i+1)); done; [ -e "$2" ] && echo ready; cat "$1"`, late, ready)
			if !strings.Contains(r.Stdout, "ready") || strings.Contains(r.Stdout, marker) {
				t.Errorf("late store: %s", r)
			}
		}
		if r := e.Run(Opts{Preset: "danger-full-access"}, "cat", filepath.Join(e.H, ".netrc")); !strings.Contains(r.Stdout, marker) {
			t.Errorf("control: %s", r)
		}
	})
}

// F1-27: a store whose directory does not exist when the command starts.
func TestF1_27_StoreBornLater(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		marker := "MARKER" + e.Mark
		e.Write(filepath.Join(e.H, ".config/other/file"), "plain\n")
		ready := filepath.Join(e.O, "ready")
		stores := []string{".ssh/id_x", ".netrc", ".config/gh/hosts.yml", ".cargo/credentials.toml", ".docker/config.json"}
		go func() {
			time.Sleep(300 * time.Millisecond)
			for _, s := range stores {
				os.MkdirAll(filepath.Dir(filepath.Join(e.H, s)), 0o755)
				os.WriteFile(filepath.Join(e.H, s), []byte(marker), 0o644)
			}
			os.WriteFile(ready, nil, 0o644)
		}()
		r := e.Sh(Opts{}, `i=0; while [ ! -e "$1" ] && [ $i -lt 200 ]; do sleep 0.05; i=$((i+1)); done; [ -e "$1" ] && echo ready; shift
for f; do cat "$HOME/$f"; done; cat "$HOME/.config/other/file"`, append([]string{ready}, stores...)...)
		if !strings.Contains(r.Stdout, "ready") || !strings.Contains(r.Stdout, "plain") {
			t.Errorf("control: %s", r)
		}
		if strings.Contains(r.Stdout, marker) {
			t.Errorf("read: %s", r)
		}
		// Inside can't make one either, to be read by a tool outside.
		a := e.Probe(Opts{}, "create "+e.H+"/.pypirc", "mkdir "+e.H+"/.aws", "overwrite "+e.H+"/.netrc x")
		assertDenied(t, a, []string{"create " + e.H + "/.pypirc", "mkdir " + e.H + "/.aws", "overwrite " + e.H + "/.netrc x"})
	})
}

// F1-27: the account's home is protected when HOME says something else, and
// other users' homes and the system's own secrets are, too.
func TestF1_27_AccountAndSystem(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		needPrivateRoot(t)
		marker := "MARKER" + e.Mark
		other, elsewhere := e.Mkdir(filepath.Join(e.Root, "other")), e.Mkdir(filepath.Join(e.Root, "elsewhere"))
		for _, home := range []string{e.H, elsewhere} {
			e.Write(filepath.Join(home, ".ssh/id_x"), marker)
			e.Write(filepath.Join(home, ".netrc"), marker)
		}
		e.Write(filepath.Join(other, "notes.txt"), marker)
		os.Chown(other, 12399, 12399)
		passwd := fmt.Sprintf("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\nother:x:12399:12399::%s:/bin/sh\n", other)
		if e.UID == 0 {
			passwd = strings.Replace(passwd, ":/root:", ":"+e.H+":", 1)
		} else {
			passwd += fmt.Sprintf("tester:x:%d:%d::%s:/bin/sh\n", e.UID, e.GID, e.H)
		}
		e.bindOver("/etc/passwd", passwd)
		e.bindOver("/etc/shadow", "root:"+marker+":1::::::\n")
		key := filepath.Join("/etc/ssh", "ssh_host_test_key")
		if Exists("/etc/ssh") {
			e.tmpfsOver("/etc/ssh")
			e.Write(key, marker)
		}
		attempts := []string{"read " + e.H + "/.ssh/id_x", "read " + e.H + "/.netrc", "read " + elsewhere + "/.ssh/id_x", "read " + elsewhere + "/.netrc",
			"read " + other + "/notes.txt", "read /etc/shadow"}
		if Exists(key) {
			attempts = append(attempts, "read "+key)
		}
		for _, home := range []string{e.H, elsewhere} {
			a := e.Probe(Opts{Env: []string{"HOME=" + home}}, attempts...)
			names := attempts
			if home == e.H { // elsewhere is a directory like any other then
				names = slices.DeleteFunc(slices.Clone(names), func(s string) bool { return strings.Contains(s, elsewhere) })
			}
			assertDenied(t, a, names)
		}
		a := e.Probe(Opts{Env: []string{"HOME"}}, attempts...)
		assertDenied(t, a, slices.DeleteFunc(slices.Clone(attempts), func(s string) bool { return strings.Contains(s, elsewhere) }))
		if r := e.Outside("cat", other+"/notes.txt", e.H+"/.netrc"); r.Stdout != marker+marker {
			t.Errorf("control: %s", r)
		}
		if r := e.Run(Opts{}, "cat", "/etc/passwd"); r.Stdout != passwd {
			t.Errorf("control: %s", r)
		}
	})
}

// F1-27, control: git's configuration in the home is no secret.
func TestF1_27_GitConfiguration(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		git := e.Tool("git")
		e.gitConfig()
		e.Write(filepath.Join(e.H, ".config/git/config"), "[alias]\n\tst = status --porcelain\n")
		e.Write(filepath.Join(e.H, ".config/git/ignore"), "*.ignored\n")
		e.Write(filepath.Join(e.H, ".config/git/credentials"), "https://u:MARKER@host\n")
		for _, s := range secretStores {
			if !Exists(filepath.Join(e.H, s)) {
				e.Write(filepath.Join(e.H, s), "MARKER")
			}
		}
		e.Outside(git, "init", "-q", "-b", "main", ".").OK(t)
		e.Write(filepath.Join(e.W, "a.ignored"), "")
		e.Write(filepath.Join(e.W, "seen"), "")
		for _, preset := range []string{"workspace-write", "read-only"} {
			r := e.Run(Opts{Preset: preset}, git, "st")
			if r.Exit != 0 || r.Stdout != "?? seen\n" || r.Stderr != "" {
				t.Errorf("%s: %s", preset, r)
			}
			if r := e.Run(Opts{Preset: preset}, git, "config", "user.name"); r.Stdout != "T\n" || r.Stderr != "" {
				t.Errorf("%s: %s", preset, r)
			}
		}
	})
}

// F1-27: secrets inside of the workspace: unreadable, or a named gap.
func TestF1_27_HomeAsWorkspace(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		key := e.Write(filepath.Join(e.H, ".ssh/id_x"), "MARKER")
		r := e.Run(Opts{Dir: e.H}, "cat", key)
		assertUsageOrRefusal(t, r)
		e.Mkdir(filepath.Join(e.H, "project"))
		a := e.Probe(Opts{Dir: e.H, Flags: []string{"--allow-broad-workspace"}}, "read "+key, "create "+e.H+"/project/new", "create "+e.H+"/new")
		if a.Run.Enforcement().Has("secrets") {
			fmt.Printf("NOTE %s: secrets inside of a writable root are a named gap\n", t.Name())
			return
		}
		assertDenied(t, a, []string{"read " + key})
		assertAllowed(t, a, []string{"create " + e.H + "/project/new"})
		// Without namespaces the home itself can't get new names, which is said.
		if a.Get("create "+e.H+"/new").Result != "ok" && !strings.Contains(a.Run.Stderr, e.H) {
			t.Errorf("nothing new can be made in the home, and nobody says so: %s", a.Run)
		}
	})
}

// assertUsageOrRefusal: a home directory as workspace without
// --allow-broad-workspace does not run and says which flag would allow it.
func assertUsageOrRefusal(t *testing.T, r *Result) {
	t.Helper()
	if r.Exit != 2 && r.Exit != 125 || r.Event("started") != nil || !strings.Contains(r.Stderr, "--allow-broad-workspace") {
		t.Errorf("want a refusal that names --allow-broad-workspace: %s", r)
	}
}

// outOfReach are the parts of cases that need what this version has not got:
// namespaces, several calls of bash at a time in one process.
var outOfReach = []struct{ name, reason string }{
	{"F1-14, F1-16 (denials inside the workspace)", "need namespaces; tested instead: the gap is named and --require full refuses"},
	{"F1-18 (patch)", "there is no such tool; an edit of several places in one file is all or nothing: TestF4_10_SeveralEdits"},
	{"F1-19 (delete)", "there is no such tool"},
	{"F1-21 (markers, logs and sockets of a server)", "dshx keeps nothing but T, and what was too long for a result"},
	{"F1-26 (1000 starts from the server mode, 16 at a time)", "calls of bash run one after the other; package sandbox starts 64 at once"},
	{"F1-25 (flips to W/.git/hooks/x)", "protected paths need namespaces"},
	{"every case through the bash tool", "it starts commands as the command line does, in the file tools' domain: TestLines_CallsEndToEnd, and the tests of tools/bash"},
	{"F3-4 (b) (200 commands of a server, 20 at a time)", "as F1-26; package sandbox: TestCmd_ThreadsThatEndKillNobody"},
	{"F3-15 (an argument of 200 KB)", "execve(2) of dshx itself refuses it; tested instead: arguments and environment at the limit together"},
}

// What is tested in a part's place must be there.
func TestOutOfReach(t *testing.T) {
	declared := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(b, -1) {
			declared[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range outOfReach {
		fmt.Printf("OUT OF REACH %s: %s\n", c.name, c.reason)
		for _, name := range regexp.MustCompile(`\bTest\w+`).FindAllString(c.reason, -1) {
			if !declared[name] {
				t.Errorf("%s: there is no %s", c.name, name)
			}
		}
	}
}
