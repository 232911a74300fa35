package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Names that change on disk between the judge's look and the act.
func TestAttack_FlippedDirectory(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		target := e.Mkdir(filepath.Join(e.O, "target"))
		e.Write(filepath.Join(target, "f"), "outer", 0o640)
		e.Write(filepath.Join(target, "f2"), "outer")
		e.Write(filepath.Join(target, "keep"), "outer")
		sock := Listen(t, "unix", filepath.Join(target, "host.sock"))
		check := Unchanged(t, e.O)
		r := e.Run(Opts{Flags: []string{"--timeout", "50s"}}, probeBin, "flipdir", e.W, target, itoa(scale(20000, 3000)))
		check()
		sock.Silent(t, 0)
		var did int
		if _, err := fmt.Sscanf(lastLine(r.Stdout), "did %d", &did); err != nil || did == 0 {
			t.Errorf("control: nothing was done in the real directory: %v %s", err, r)
		}
		// The control: outside the flips do reach it.
		deadline := time.Now().Add(20 * time.Second)
		for same := true; same; {
			before := Snap(t, target)
			e.Outside(probeBin, "flipdir", e.Mkdir(filepath.Join(e.Root, "control")), target, "300")
			now := Snap(t, target)
			same = len(now) == len(before) && now[target+"/f"] == before[target+"/f"]
			if same && time.Now().After(deadline) {
				t.Error("control: outside, too, nothing reached the target")
				break
			}
		}
	})
}

// Whatever leads to a secret or to what may not be written, by way of /proc,
// of descriptors, of other processes, does not.
func TestAttack_WaysToFiles(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		key := e.Write(filepath.Join(e.H, ".ssh/key"), "MARKER-key", 0o600)
		f := e.Write(filepath.Join(e.O, "f"), "content", 0o640)
		outside := e.Background("sh", "-c", `cd "$1" && exec sleep 1000 9< "$2" 8<> "$3"`, "sh", filepath.Dir(key), key, f)
		pid := itoa(outside.Process.Pid)
		eventually(t, 5*time.Second, "it has its descriptors", func() bool { return Exists("/proc/"+pid+"/fd/8") && comm(pid) == "sleep" })
		reads := []string{"read /proc/" + pid + "/cwd/key", "read /proc/" + pid + "/root" + key, "read /proc/" + pid + "/fd/9", "read /proc/" + pid + "/task/" + pid + "/cwd/key",
			"openat-path " + filepath.Dir(key) + " key", "openat2-r " + key, "mmap " + key, "in " + filepath.Dir(key) + " read key", "fd " + key + " read @",
			"read /proc/self/root" + key, "read /proc/thread-self/root" + key, "read /proc/self/cwd/../H/.ssh/key", "read /dev/fd/../root" + key, "exec " + key,
			"read /proc/" + pid + "/environ", "read /proc/1/environ"}
		writes := []string{"open-w /proc/" + pid + "/fd/8", "overwrite /proc/" + pid + "/fd/8 x", "chmod /proc/" + pid + "/fd/8", "chmod /proc/" + pid + "/cwd/key",
			"utimensat /proc/" + pid + "/root" + f, "setxattr /proc/" + pid + "/fd/9", "chown /proc/" + pid + "/fd/8", "truncate /proc/" + pid + "/fd/8 0",
			"fd " + f + " chmod @", "fd " + f + " setxattr @", "fd " + e.O + " chmod @/f", "fd " + e.O + " create @/new", "fd " + f + " link-fd @ " + e.W + "/alias-x",
			"unix-bind stream /proc/" + pid + "/cwd/s", "unix-bind stream /proc/self/root" + e.O + "/s", "unix-bind stream /proc/self/cwd/../O/s"}
		system := []string{"open-w /proc/sys/kernel/core_pattern", "open-w /proc/sysrq-trigger", "open-w /proc/self/oom_score_adj", "open-w /proc/self/attr/current",
			"open-w /proc/self/mem-not-there", "open-w /sys/power/state", "open-w /sys/kernel/uevent_helper", "open-rw /dev/mem", "open-rw /dev/kmsg", "open-rw /dev/fuse",
			"open-rw /dev/kvm", "open-rw /dev/loop-control", "open-rw /dev/uinput", "open-rw /dev/net/tun", "read /proc/kcore", "read /proc/kmsg", "open-w /proc/self/uid_map"}
		check := Unchanged(t, e.O, e.H)
		all := append(append(slices.Clone(reads), writes...), system...)
		for _, preset := range []string{"workspace-write", "read-only"} {
			a := e.Probe(Opts{Preset: preset}, all...)
			assertDenied(t, a, all, "EXDEV", "ENXIO", "ENODEV", "EROFS", "EINVAL")
			for _, one := range a.List {
				if strings.Contains(one.Detail, "MARKER") {
					t.Errorf("%s: %s read it: %s", preset, one.Name, one.Detail)
				}
			}
			check()
		}
		// The control: outside they do lead there.
		control := append(slices.Clone(reads[:8]), "open-w /proc/"+pid+"/fd/8", "chmod /proc/"+pid+"/fd/8", "fd "+f+" chmod @", "fd "+e.O+" create @/new")
		assertAllowed(t, e.ProbeOutside(control...), control)
		own := []string{"create " + e.W + "/own", "chmod /proc/self/cwd/own", "fd " + e.W + "/own chmod @", "fd " + e.W + " utimensat @/own", "utimensat /proc/self/root" + e.W + "/own",
			"unix-bind stream /proc/self/cwd/s", "openat-path " + e.W + " own"}
		assertAllowed(t, e.Probe(Opts{}, own...), own)
	})
}

func comm(pid string) string {
	data, _ := os.ReadFile("/proc/" + pid + "/comm")
	return strings.TrimSpace(string(data))
}

// A directory that was passed in gives no more than its files' own names do.
func TestAttack_PassedDirectory(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		e.Write(filepath.Join(e.O, "f"), "content", 0o640)
		e.Write(filepath.Join(e.O, "g"), "content", 0o640)
		e.Write(filepath.Join(e.H, ".ssh/key"), "MARKER", 0o600)
		attempts := []string{"createat-fd 4 new", "fchmodat-fd 4 f", "utimensat-fd 4 f", "unlinkat-fd 4 g", "linkat-fd 4 f " + e.W + "/alias", "fchmod-fd 4", "futimens-fd 4",
			"chmod /proc/self/fd/4/f", "create /proc/self/fd/4/new", "openat-fd 5 key", "read /proc/self/fd/5/key", "fsetxattr-fd 4", "createat-fd 6 new", "openat-fd 7 key"}
		argv := []string{probeBin, "withfds", "4=dir:" + e.O, "5=dir:" + filepath.Join(e.H, ".ssh"), "6=path:" + e.O, "7=path:" + filepath.Join(e.H, ".ssh"), "--"}
		check := Unchanged(t, e.O, e.H)
		a := e.Probe(Opts{Prefix: argv, StatusFD: 150, Flags: []string{"--pass-fd", "4", "--pass-fd", "5", "--pass-fd", "6", "--pass-fd", "7"}}, append(attempts, "openat-fd 4 f")...)
		assertDenied(t, a, attempts, "EXDEV", "EBADF")
		assertAllowed(t, a, []string{"openat-fd 4 f"})
		check()
		outside := parseAttempts(t, e.Outside(append(argv, ProbeArgv("fchmodat-fd 4 f", "openat-fd 5 key", "linkat-fd 4 f "+e.W+"/alias", "createat-fd 6 new")...)...))
		assertAllowed(t, outside, []string{"fchmodat-fd 4 f", "openat-fd 5 key", "linkat-fd 4 f " + e.W + "/alias", "createat-fd 6 new"})
	})
}

// The other end of a pipe that was passed in is not the command's. A shell
// that reads its script from a pipe would execute what is written there.
func TestAttack_OtherEndOfAPipe(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		needDshx(t)
		pwned := filepath.Join(e.O, "pwned")
		attack := `echo "touch ` + pwned + `" > /proc/self/fd/0`
		// The pipes must be the user's own, as they are in his shell.
		pipeline := func(argv []string) *Result {
			quoted := make([]string, len(argv))
			for i, a := range argv {
				quoted[i] = "'" + a + "'"
			}
			script := e.Write(filepath.Join(e.Root, "script"), strings.Join(quoted, " ")+"\necho the script ends\n")
			return e.Outside("sh", "-c", `cat "$1" | sh; { echo neighbour; sh "$2"; } | { sleep 0.3; cat; }`, "sh", script,
				e.Write(filepath.Join(e.Root, "script2"), strings.ReplaceAll(strings.Join(quoted, " "), attack, `echo "stole $(timeout 1 head -n 1 /proc/self/fd/4)" >&2 4>&1`)))
		}
		r := pipeline(e.DshxArgv(Opts{StatusFD: -1}, "sh", "-c", attack))
		plain := pipeline(e.DshxArgv(Opts{StatusFD: -1}, "sh", "-c", `cat /dev/stdin; echo works > /dev/stdout`))
		control := pipeline([]string{"sh", "-c", strings.ReplaceAll(attack, pwned, pwned+"-control")})
		if !Exists(pwned+"-control") || !strings.Contains(control.Stdout, "the script ends") {
			t.Errorf("control: outside, too, nothing was executed: %s", control)
		}
		if e.UID == 0 {
			// CAP_DAC_OVERRIDE opens every pipe, and Landlock judges none.
			fmt.Printf("NOTE %s: uid 0 opens the other end of passed pipes: pwned %v\n", t.Name(), Exists(pwned))
			return
		}
		if Exists(pwned) {
			t.Errorf("the caller's shell executed what the command wrote into its script: %s", r)
		}
		if !strings.Contains(plain.Stdout, "works\n") || strings.Contains(plain.Stderr, "/dev/stdin") {
			t.Errorf("control: /dev/stdin and /dev/stdout no longer work: %s", plain)
		}
		// Elsewhere the caller's pipelines are left alone.
		quoted := "'" + strings.Join(e.DshxArgv(Opts{StatusFD: -1}, "cat"), "' '") + "'"
		for _, script := range []string{
			`sh -c 'sleep 0.2; echo through > /dev/stdout' | ` + quoted,
			`echo through | ` + quoted + ` | sh -c 'sleep 0.2; cat /dev/stdin'`,
		} {
			if r := e.Outside("sh", "-c", script); r.Stdout != "through\n" {
				t.Errorf("%s: %s", script, r)
			}
		}
		a := e.Probe(Opts{}, "fchmod-fd 1", "fchown-fd 1", "reopen-r-fd 1")
		assertDenied(t, a, []string{"fchmod-fd 1", "fchown-fd 1"})
	})
}

// A memory file that is passed in for reading is not opened for writing, nor is
// the mode that keeps it from that changed, by any name.
func TestAttack_MemoryFileForReading(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		for _, mode := range []uint32{0o777, 0o400} {
			memory := func() *os.File {
				fd, err := unix.MemfdCreate("script", unix.MFD_CLOEXEC)
				if err != nil {
					t.Fatal(err)
				}
				defer unix.Close(fd)
				if _, err := unix.Write(fd, []byte("content")); err != nil {
					t.Fatal(err)
				}
				f, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { f.Close() })
				if err := errors.Join(unix.Fchmod(fd, mode), unix.Fchown(fd, e.UID, e.GID)); err != nil {
					t.Fatal(err)
				}
				return f
			}
			attempts := []string{"chmod /proc/self/fd/0", "fchmod-fd 0", "fchown-fd 0", "chown /proc/self/fd/0", "futimens-fd 0", "utimensat /proc/self/fd/0"}
			write := attempts
			if e.UID != 0 { // whom no mode holds
				write = append(slices.Clone(attempts), "reopen-w-fd 0")
			}
			f := memory()
			assertDenied(t, e.Probe(Opts{Stdin: f}, write...), write)
			g := memory()
			passed := parseAttempts(t, e.Run(Opts{Files: map[int]*os.File{4: g}, Flags: []string{"--pass-fd", "4"}}, ProbeArgv("fchmod-fd 4", "chmod /proc/self/fd/4", "read-fd 4")...))
			assertDenied(t, passed, []string{"fchmod-fd 4", "chmod /proc/self/fd/4"})
			assertAllowed(t, passed, []string{"read-fd 4"})
			for _, f := range []*os.File{f, g} {
				var st unix.Stat_t
				if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Mode&0o222 != 0 {
					t.Errorf("the mode is %o afterwards, %v", st.Mode, err)
				}
			}
			control := []string{"fchmod-fd 0", "reopen-w-fd 0"}
			assertWorksOutside(t, parseAttempts(t, e.OutsideOpts(Opts{Stdin: memory()}, ProbeArgv(control...)...)), control)
		}
		// One of the command's own is its own.
		own := []string{"memfd-chmod"}
		assertAllowed(t, e.Probe(Opts{}, own...), own)
	})
}

// A TMPDIR of any shape is removed, within bounds.
func TestAttack_CleanUp(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		needDshx(t)
		e.Write(filepath.Join(e.O, "keep/a"), "keep")
		check := Unchanged(t, e.O, e.H)
		for name, script := range map[string]string{
			// Deeper than there are descriptors, with rights taken on the way.
			"deep": `mkdir a; ln -s "$1/keep" a/l; "$2" deepdir . 3000 && "$2" deepdir a 100`,
			"wide": `i=0; while [ $i -lt 300 ]; do mkdir $i; : > $i/$(printf '%0200d' $i); i=$((i+1)); done; chmod 0 *`,
			"top":  `mkdir sub; ln -s "$1/keep" sub/l; : > sub/f; chmod 0 sub; chmod 0 .`,
		} {
			// Few descriptors, as a cautious caller may have set.
			r := e.Run(Opts{Prefix: []string{"prlimit", "--nofile=200:200"}, Timeout: 50 * time.Second}, "sh", "-c", `cd "$TMPDIR"; pwd; `+script, "sh", e.O, probeBin)
			dir := strings.TrimSpace(r.Stdout)
			assertRan(t, r)
			if r.Exit != 0 || !filepath.IsAbs(dir) {
				t.Errorf("control: %s: %s", name, r)
			} else if Exists(dir) {
				t.Errorf("%s: %s is still there", name, dir)
				forceRemove(dir)
			}
			check()
		}
		// One whose rights were taken, of a dshx that was killed, goes with a later run.
		cmd := e.Command(Opts{}, e.DshxArgv(Opts{StatusFD: -1}, "sh", "-c", `chmod 0 "$TMPDIR"; echo "$TMPDIR" > where.new; mv where.new where; exec sleep 1000`)...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		where := filepath.Join(e.W, "where")
		eventually(t, 10*time.Second, "the command runs", func() bool { return Exists(where) })
		cmd.Process.Kill()
		cmd.Wait()
		e.NothingLeft(2 * time.Second)
		e.Sh(Opts{}, `: > "$TMPDIR/x"`).OK(t)
		dir := strings.TrimSpace(e.Read(where))
		eventually(t, 3*time.Second, dir+" is swept", func() bool {
			e.Sh(Opts{}, `: > "$TMPDIR/x"`)
			return !Exists(dir)
		})
	})
}

// What a command makes up is not passed on to the terminal by dshx's own
// messages: an answer to a sequence would be typed into the caller's shell.
func TestAttack_MessagesAreText(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		needDshx(t)
		name := "evil\x1b[6n\x9b\x07\u009b6n"
		sh := `"$1" do "unix-connect stream @$2" "chmod /$2" "utimensat /etc/../$2" >/dev/null; exit 1`
		for _, o := range []Opts{{}, {Flags: []string{"--tty", "always"}}} {
			r := e.Run(o, "sh", "-c", sh, "sh", probeBin, name)
			if !strings.Contains(r.Stderr, "denied") {
				t.Errorf("control: no message: %s", r)
			}
			for _, c := range r.Stderr + r.Stdout {
				if c == 0x1b || c == 0x07 || c == 0x9b || c == 0xfffd {
					t.Errorf("%q passed a control character", r.Stderr)
					break
				}
			}
		}
		r := e.Run(Opts{}, "no-such-\x1b[6n")
		if r.Exit != 127 || strings.Contains(r.Stderr, "\x1b") {
			t.Errorf("%q: %s", r.Stderr, r)
		}
	})
}

// Telling which denials an output speaks of takes no time to speak of.
func TestAttack_AttributionIsBounded(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		deep := e.W
		fd, err := unix.Open(e.W, unix.O_PATH, 0)
		if err != nil {
			t.Fatal(err)
		}
		for range 900 {
			deep += "/a"
			if err := unix.Mkdirat(fd, "a", 0o755); err != nil {
				t.Fatal(err)
			}
			next, err := unix.Openat(fd, "a", unix.O_PATH, 0)
			unix.Close(fd)
			if err != nil {
				t.Fatal(err)
			}
			fd = next
		}
		unix.Close(fd)
		text := e.Write(filepath.Join(e.O, "text"), strings.Repeat("cat: "+deep+strings.Repeat("/b", 900)+": Permission denied\n", 20)+"cat: "+e.H+"/.ssh/key: Permission denied\n")
		r := e.Run(Opts{JSON: true, Timeout: 30 * time.Second}, "sh", "-c", `cat "$1" >&2; exit 1`, "sh", text)
		if r.Duration > 5*time.Second {
			t.Errorf("took %v", r.Duration)
		}
		if len(r.Denials()) == 0 {
			t.Errorf("control: no denial was attributed: %s", r)
		}
	})
}

// A name for a socket can't speak for another socket in /proc/net/unix.
func TestAttack_SocketNames(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		host := "@host-" + e.Mark
		lines := []string{"unix-bind-line stream @x", "in " + e.W + " unix-bind-line stream x", "unix-bind-line dgram @x"}
		assertAllowed(t, e.ProbeOutside(lines...), lines)
		a := e.Probe(Opts{}, append(lines, "unix-bind stream "+host, "unix-bind stream "+e.W+"/ok")...)
		assertDenied(t, a, lines, "EINVAL")
		assertAllowed(t, a, []string{"unix-bind stream " + host, "unix-bind stream " + e.W + "/ok"})
		// A name that was the command's and is another's now is out of reach.
		l := Listen(t, "unix", host)
		a = e.Probe(Opts{}, "unix-connect stream "+host)
		assertDenied(t, a, []string{"unix-connect stream " + host})
		l.Silent(t, 0)
	})
}
