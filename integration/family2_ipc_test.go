package integration

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// privateShm gives the tests a /dev/shm of their own where they have a mount
// namespace to do it in, so that a listing is theirs alone.
func privateShm(t *testing.T) bool {
	t.Helper()
	if !isRoot || !isPrivate {
		return false
	}
	if err := unix.Mount("tmpfs", "/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount("/dev/shm", unix.MNT_DETACH) })
	return true
}

func TestF2_6_SharedMemory(t *testing.T) {
	daily(t, func(t *testing.T, d *day) {
		own := privateShm(t)
		marker := filepath.Join("/dev/shm", fmt.Sprintf("outside-marker-%s", d.Mark))
		t.Cleanup(func() { os.Remove(marker) })
		d.Write(marker, "from outside")
		list := func() string {
			entries, err := os.ReadDir("/dev/shm")
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, e := range entries {
				names = append(names, e.Name())
			}
			return strings.Join(names, " ")
		}
		before := list()
		t.Run("python", func(t *testing.T) {
			d := d.at(t)
			r := d.run(Opts{}, d.python(), d.program("shm.py")).OK(t)
			if want := "[1, 4, 9]\n0 42\n"; r.Stdout != want {
				t.Errorf("printed %q, want %q", r.Stdout, want)
			}
		})
		t.Run("c", func(t *testing.T) {
			d := d.at(t)
			r := d.run(Opts{}, d.compile("shm"), "f2-"+d.Mark).OK(t)
			if want := "posix sysv 0\n"; r.Stdout != want {
				t.Errorf("printed %q, want %q", r.Stdout, want)
			}
		})
		if now := list(); own && now != before {
			t.Errorf("left in /dev/shm: %s, before: %s", now, before)
		}
		if d.plain {
			return
		}
		for what, script := range map[string]string{
			"read":   `cat "$1"`,
			"write":  `echo inside > "$1"`,
			"remove": `rm -f "$1"`,
		} {
			d.Write(marker, "from outside")
			r := d.bash(Opts{}, script, marker)
			intact := Exists(marker) && d.Read(marker) == "from outside" && !strings.Contains(r.Stdout, "from outside")
			d.refusedOrGap(t, r, intact, "shm", what+" the marker in /dev/shm")
		}
	})
}

// networkFlags are the network modes under which sockets of one's own must work.
var networkFlags = []string{"none", "loopback", "full"}

func TestF2_8_OwnLoopback(t *testing.T) {
	daily(t, func(t *testing.T, d *day) {
		t.Run("loopback", func(t *testing.T) {
			r := d.run(Opts{Flags: []string{"--network", "loopback"}}, probeBin, "f2-net").OK(t)
			for _, want := range []string{"tcp: ping", "udp: ping", "http: a page"} {
				if n := strings.Count(r.Stdout, want); n < 2 {
					t.Errorf("%q %d times, want it from a child and a grandchild: %s", want, n, r)
				}
			}
		})
		t.Run("loopback with python", func(t *testing.T) {
			py := d.at(t).python()
			d.Write(filepath.Join(d.W, "page.txt"), "a page")
			r := d.bash(Opts{Flags: []string{"--network", "loopback"}}, `
py=$1
: > log
"$py" -u -m http.server --bind 127.0.0.1 0 > log 2>&1 &
for i in $(seq 200); do port=$(sed -n 's/.*port \([0-9]*\).*/\1/p' log); test -n "$port" && break; sleep 0.05; done
"$py" -c 'import sys, urllib.request; print(urllib.request.urlopen("http://127.0.0.1:%s/page.txt" % sys.argv[1]).read().decode())' "$port"
kill %1`, py)
			if r.Exit != 0 || r.Stdout != "a page\n" {
				t.Errorf("want the page: %s", r)
			}
		})
		if d.plain {
			return
		}
		t.Run("none", func(t *testing.T) {
			r := d.run(Opts{}, probeBin, "f2-net")
			if r.Enforcement().Has("own-loopback") {
				// Refused, and said so up front.
				if r.Exit == 0 {
					t.Errorf("own-loopback is a gap, yet internet sockets work: %s", r)
				}
				return
			}
			r.OK(t)
		})
		t.Run("the machine's services", func(t *testing.T) {
			for _, network := range []string{"tcp4", "udp4", "tcp6", "udp6"} {
				host := "127.0.0.1"
				if strings.HasSuffix(network, "6") {
					host = "::1"
				}
				l, err := TryListen(t, network, net.JoinHostPort(host, "0"))
				if err != nil {
					t.Logf("%s: %v", network, err)
					continue
				}
				// The listener lives: the control.
				if r := d.Outside(probeBin, "f2-dial", network, l.Addr); r.Exit != 0 {
					t.Fatalf("control: %s", r)
				}
				was := l.Conns()
				r := d.run(Opts{}, probeBin, "f2-dial", network, l.Addr)
				if r.Exit == 0 {
					t.Errorf("%s reached: %s", l.Addr, r)
				}
				l.Silent(t, was)
			}
		})
		t.Run("all addresses", func(t *testing.T) {
			// A server on 0.0.0.0 would be open to the network. Either that is
			// refused, or it is not reachable from outside of the machine.
			r := d.run(Opts{Flags: []string{"--network", "loopback"}}, probeBin, "f2-wildcard")
			addr := strings.TrimSpace(r.Stdout)
			t.Logf("bind 0.0.0.0:0 with --network loopback: exit %d %q %q", r.Exit, addr, strings.TrimSpace(r.Stderr))
			if strings.Contains(addr, "reached") {
				t.Errorf("a server on 0.0.0.0 is reachable at an address that is not loopback: %s", r)
			}
		})
	})
}

func TestF2_9_OwnUnixSockets(t *testing.T) {
	daily(t, func(t *testing.T, d *day) {
		one := "unix: got hello with a file\nunixpacket: got hello with a file\nunix: got hello with a file\nunixgram: got sendto\nunixgram: got sendmsg\n"
		for _, network := range networkFlags {
			o := Opts{Flags: []string{"--network", network}}
			for place, dir := range map[string]string{"W": "$W", "T": "$TMPDIR"} {
				t.Run(network+" in "+place, func(t *testing.T) {
					d := d.at(t)
					r := d.bash(o, fmt.Sprintf(`mkdir "%s/s"; "$1" f2-unix "%[1]s/s"; ls "%[1]s/s"; rm -r "%[1]s/s"`, dir), probeBin).OK(t)
					if r.Stdout != one+one {
						t.Errorf("printed %q, want twice %q", r.Stdout, one)
					}
				})
			}
			t.Run(network+" relative and long names", func(t *testing.T) {
				d := d.at(t)
				// sun_path holds 108 bytes; who needs more goes there first.
				deep := strings.Repeat("deep/", 30)
				r := d.bash(o, `mkdir -p "$2"; cd "$2"; "$1" f2-unix .; cd "$W"; rm -r deep`, probeBin, deep).OK(t)
				if r.Stdout != one+one {
					t.Errorf("printed %q, want twice %q", r.Stdout, one)
				}
			})
			t.Run(network+" socketpair", func(t *testing.T) {
				if r := d.run(o, probeBin, "f2-socketpair").OK(t); r.Stdout != "there and back\n" {
					t.Errorf("printed %q", r.Stdout)
				}
			})
			t.Run(network+" tsx", func(t *testing.T) {
				d := d.at(t)
				tsx := d.working("tsx", "--version")
				d.Write(filepath.Join(d.W, "t.ts"), "const n: number = 6 * 7; console.log(n as number)\n")
				if r := d.run(o, tsx, "t.ts").OK(t); r.Stdout != "42\n" {
					t.Errorf("printed %q", r.Stdout)
				}
			})
		}
		t.Run("python multiprocessing", func(t *testing.T) {
			d := d.at(t)
			r := d.run(Opts{}, d.python(), d.program("mp.py")).OK(t)
			want := ""
			for _, method := range []string{"fork", "spawn", "forkserver"} {
				want += method + " (42, 21) 0 [0, 2, 4, 6] v\n"
			}
			if r.Stdout != want {
				t.Errorf("printed %q, want %q", r.Stdout, want)
			}
		})
		t.Run("node", func(t *testing.T) {
			d := d.at(t)
			node := d.working("node", "--version")
			r := d.bash(with(node), `"$1" "$2" "$TMPDIR"`, node, d.program("workers.js")).OK(t)
			if want := "workers 4\nipc 21\nexec a b\npipe piped\nsocket served\nwatch f\n"; r.Stdout != want {
				t.Errorf("printed %q, want %q", r.Stdout, want)
			}
		})
	})
}

// An agent that hides its memory from debuggers (PR_SET_DUMPABLE) binds and
// connects all the same.
func TestF2_9_SSHAgent(t *testing.T) {
	named(t, func(t *testing.T, d *day) {
		d.Tool("ssh-agent")
		r := d.bash(Opts{}, `
ssh-keygen -q -t ed25519 -N '' -f "$TMPDIR/k"
eval "$(ssh-agent -s -a "$TMPDIR/agent")" > /dev/null
ssh-add -q "$TMPDIR/k"
ssh-add -l | wc -l
ssh-agent -k > /dev/null`)
		if r.Exit != 0 || r.Stdout != "1\n" {
			t.Errorf("want one key in the agent: %s", r)
		}
	})
}

func TestF2_12_Interfaces(t *testing.T) {
	daily(t, func(t *testing.T, d *day) {
		t.Run("go", func(t *testing.T) { d.run(Opts{}, probeBin, "f2-ifaces").OK(t) })
		t.Run("python", func(t *testing.T) {
			d := d.at(t)
			d.run(Opts{}, d.python(), "-c", `
import socket
names = socket.if_nameindex()
assert isinstance(names, list)
found = socket.getaddrinfo("localhost", 80)
assert found, found
assert all(a[4][0] in ("127.0.0.1", "::1") for a in found), found
assert socket.gethostbyname("localhost") == "127.0.0.1"
assert socket.gethostname()
`).OK(t)
		})
		t.Run("node", func(t *testing.T) {
			d := d.at(t)
			d.run(Opts{}, d.working("node", "--version"), "-e", `
const os = require('os'), dns = require('dns');
if (typeof os.networkInterfaces() !== 'object') throw new Error('interfaces');
dns.lookup('localhost', (err, addr) => { if (err) throw err; if (addr !== '127.0.0.1' && addr !== '::1') throw new Error(addr); });
os.cpus(); os.userInfo; os.loadavg(); os.uptime(); os.hostname();
`).OK(t)
		})
		t.Run("getent", func(t *testing.T) {
			d := d.at(t)
			d.Tool("getent")
			d.works(`getent hosts localhost > /dev/null; getent passwd root > /dev/null; getent ahosts localhost > /dev/null`)
		})
	})
}

func TestF2_13_Terminals(t *testing.T) {
	daily(t, func(t *testing.T, d *day) {
		for _, tty := range []string{"never", "always"} {
			o := Opts{Flags: []string{"--tty", tty}}
			clean := func(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }
			t.Run(tty+" own pair", func(t *testing.T) {
				if r := d.run(o, probeBin, "f2-pty").OK(t); clean(r.Stdout) != "ok\n" {
					t.Errorf("printed %q", r.Stdout)
				}
			})
			t.Run(tty+" devices", func(t *testing.T) {
				if d.plain && tty == "always" {
					skip(t, "DSHX_IT_PLAIN=1: no terminal")
				}
				want := "tty ok\n"
				if tty == "never" {
					want = "tty ENXIO\n"
				}
				if r := d.run(o, "setsid", "-w", probeBin, "f2-sinks").OK(t); tty == "never" && clean(r.Stdout) != want {
					t.Errorf("printed %q, want %q", r.Stdout, want)
				}
				if d.plain {
					return
				}
				if r := d.run(o, probeBin, "f2-sinks").OK(t); clean(r.Stdout) != want {
					t.Errorf("printed %q, want %q", r.Stdout, want)
				}
			})
			t.Run(tty+" script", func(t *testing.T) {
				d := d.at(t)
				d.Tool("script")
				r := d.run(o, "script", "-qec", "tty; stty size > /dev/null; test -t 0", "/dev/null").OK(t)
				// At the end of its input script(1) types NUL, which echoes.
				if !strings.HasPrefix(strings.TrimPrefix(strings.TrimLeft(clean(r.Stdout), "\x00\n"), "^@"), "/dev/pts/") {
					t.Errorf("printed %q", r.Stdout)
				}
			})
			t.Run(tty+" python", func(t *testing.T) {
				d := d.at(t)
				r := d.run(o, d.python(), "-c", `
import os, pty, tty, termios
m, s = os.openpty()
was = termios.tcgetattr(s)
tty.setraw(s)
termios.tcsetattr(s, termios.TCSADRAIN, was)
def read(fd):
    data = os.read(fd, 1024)
    return data
assert pty.spawn(["sh", "-c", "test -t 1"], read) == 0
print("ok")
`).OK(t)
				if !strings.HasSuffix(clean(r.Stdout), "ok\n") {
					t.Errorf("printed %q", r.Stdout)
				}
			})
		}
		t.Run("line from the terminal", func(t *testing.T) {
			if d.plain {
				skip(t, "DSHX_IT_PLAIN=1: no terminal")
			}
			o := Opts{Flags: []string{"--tty", "always"}, Stdin: strings.NewReader("a line\n")}
			r := d.run(o, "sh", "-c", `IFS= read -r x < /dev/tty; echo "got $x" > /dev/tty; test -t 0; test -t 1; tty > /dev/null`).OK(t)
			if !strings.Contains(r.Stdout, "got a line") {
				t.Errorf("printed %q", r.Stdout)
			}
		})
		t.Run("another terminal", func(t *testing.T) {
			if d.plain {
				return
			}
			master, slave, err := pty.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer master.Close()
			defer slave.Close()
			d.own(slave.Name())
			got := make(chan string, 1)
			go func() {
				buf := make([]byte, 64)
				n, _ := master.Read(buf)
				got <- string(buf[:n])
			}()
			r := d.bash(Opts{}, `echo injected > "$1"`, slave.Name())
			refused := r.Exit != 0
			select {
			case text := <-got:
				refused = refused && !strings.Contains(text, "injected")
			case <-time.After(100 * time.Millisecond):
			}
			d.refusedOrGap(t, r, refused, "devices", "writing to a terminal of the user's that is not ours")
		})
	})
}

func TestF2_14_OwnProc(t *testing.T) {
	daily(t, func(t *testing.T, d *day) {
		for name, argv := range map[string][]string{
			"first process": {probeBin, "f2-self"},
			"child":         {"sh", "-c", `"$1" f2-self; exit $?`, "sh", probeBin},
			"grandchild":    {"sh", "-c", `sh -c '"$1" f2-self; exit $?' sh "$1"; exit $?`, "sh", probeBin},
			"orphan":        {"sh", "-c", `f=$TMPDIR/out; (setsid "$1" f2-self > "$f.part" 2>&1; mv "$f.part" "$f") & n=0; while ! test -e "$f"; do sleep 0.05; n=$((n+1)); test $n -lt 100 || exit 9; done; cat "$f"`, "sh", probeBin},
		} {
			t.Run(name, func(t *testing.T) {
				if r := d.run(Opts{}, argv...).OK(t); r.Stdout != "ok\n" {
					t.Errorf("printed %q: %s", r.Stdout, r)
				}
			})
		}
		d.steps(t, Opts{}, []step{
			{"process substitution", `wc -l < <(seq 3); diff <(seq 3) <(seq 3); seq 5 | tee >(wc -l > "$TMPDIR/n") > /dev/null; until test -s "$TMPDIR/n"; do sleep 0.01; done; cat "$TMPDIR/n"`, "3\n5\n"},
			{"descriptors as files", `seq 3 | wc -l /dev/fd/0; seq 3 | wc -l /proc/self/fd/0 | cut -d' ' -f1; echo x | cat /dev/stdin; (echo y > /dev/stdout) | cat; (echo e > /dev/stderr) 2>&1 | cat; cat /dev/fd/3 3< <(echo z)`, "3 /dev/fd/0\n3\nx\ny\ne\nz\n"},
			{"here strings", `cat <<< here; read -r a b < <(echo 1 2); echo $b`, "here\n2\n"},
			{"coprocess", `coproc cat; echo through >&"${COPROC[1]}"; exec {COPROC[1]}>&-; cat <&"${COPROC[0]}"`, "through\n"},
			{"ps and friends", `ps -o pid= -p $$ | tr -d ' ' | grep -x $$ > /dev/null; pgrep -P $$ > /dev/null || true; ls -l /proc/self/exe /proc/$$/cwd > /dev/null; nproc > /dev/null; cat /proc/loadavg > /dev/null`, ""},
		})
	})
}
