package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestF2_15_ManyProcesses(t *testing.T) {
	daily(t, func(t *testing.T, d *day) {
		check := func(t *testing.T, r *Result, want string) {
			t.Helper()
			if r.Exit != 0 || r.Signal != 0 || r.Stdout != want {
				t.Errorf("want %q and exit 0: %s", want, r)
			}
			if strings.Contains(r.Stderr, "annot fork") || r.Duration > time.Minute {
				t.Errorf("want no failing fork, within a minute: %s", r)
			}
		}
		t.Run("pipelines", func(t *testing.T) {
			d := d.at(t)
			shell := "dash"
			if d.HasTool(shell) == "" {
				shell = "sh"
			}
			n := stress(300)
			r := d.run(Opts{}, shell, "-c", fmt.Sprintf(`i=0; while [ $i -lt %d ]; do seq 5 | sort | wc -l; i=$((i+1)); done`, n))
			check(t, r, strings.Repeat("5\n", n))
		})
		t.Run("posix_spawn from threads", func(t *testing.T) {
			d := d.at(t)
			n := stress(50)
			check(t, d.run(Opts{}, d.compile("spawn"), "32", itoa(n)), fmt.Sprintf("%d\n", 32*n))
		})
		t.Run("make -j16", func(t *testing.T) {
			d := d.at(t)
			d.Tool("make")
			n := stress(500)
			d.Write(filepath.Join(d.W, "Makefile"), fmt.Sprintf("ALL := $(shell seq %d)\nall: $(addprefix t,$(ALL))\nt%%:\n\t@echo $* > $@\n", n))
			check(t, d.bash(Opts{}, `make -s -j16 all; ls t* | wc -l; rm t*`), fmt.Sprintf("%d\n", n))
		})
		t.Run("interval timer", func(t *testing.T) {
			d := d.at(t)
			r := d.run(Opts{}, d.compile("itimer"), d.Mkdir(filepath.Join(d.W, "timer")), itoa(stress(1000)))
			var supervised, interrupted int
			if n, _ := fmt.Sscanf(r.Stdout, "ok %d %d", &supervised, &interrupted); n != 2 {
				t.Fatalf("want ok: %s", r)
			}
			check(t, r, r.Stdout)
			// See itimer.c: the kernel leaves a window, which must stay small.
			t.Logf("%d of %d supervised calls were interrupted", interrupted, supervised)
			if interrupted*20 > supervised {
				t.Errorf("%d of %d supervised calls were interrupted, want at most one in 20", interrupted, supervised)
			}
		})
		d.NothingLeft(2 * time.Second)
	})
}

func TestF2_22_Identity(t *testing.T) {
	check := func(t *testing.T, d *day) {
		d.Write(filepath.Join(d.W, "f"), "f")
		script := `
id -u; id -ru; id -g; id -G; id -gn 2>&1 || true; whoami 2>&1 || true; logname 2>/dev/null || true
stat -c '%u %g %U %G' "$W/f" /etc/passwd / "$W" "$H"
ls -ld "$W/f" | cut -d' ' -f3,4; echo ~; echo "$USER $LOGNAME $HOME"; umask; hostname; uname -a; date +%Z; pwd; tty || true`
		in, out := d.bash(Opts{}, script).OK(t), d.OutsideOpts(Opts{}, d.script(script)...)
		if in.Stdout != out.Stdout {
			t.Errorf("inside:\n%s\noutside:\n%s", in.Stdout, out.Stdout)
		}
		if d.HasTool("git") != "" {
			d.outside(`git init -q .; git add f; git commit -qm f`)
			if r := d.bash(Opts{}, `git status --porcelain; git log -1 --format='%an %ae'`).OK(t); r.Stdout != "A Person person@example.com\n" || r.Stderr != "" {
				t.Errorf("git: %s", r)
			}
		}
		d.works(`umask 027; echo x > made; mkdir made.d`)
		r := d.Outside("stat", "-c", "%u %g %a", "made", "made.d")
		if want := fmt.Sprintf("%d %d 640\n%[1]d %[2]d 750\n", d.UID, d.GID); r.Stdout != want {
			t.Errorf("made inside: %q, want %q", r.Stdout, want)
		}
		// The caller's own umask is inherited.
		r = d.run(Opts{Prefix: []string{"sh", "-c", `umask 027; exec "$@"`, "sh"}}, "sh", "-c", "umask; : > inherited").OK(t)
		if r.Stdout != "0027\n" {
			t.Errorf("umask inside is %q", r.Stdout)
		}
	}
	daily(t, check)
	named(t, func(t *testing.T, d *day) {
		check(t, d)
		t.Run("ssh-keygen", func(t *testing.T) {
			d := d.at(t)
			d.Tool("ssh-keygen")
			r := d.bash(Opts{}, `ssh-keygen -q -t ed25519 -N '' -f k; ssh-keygen -lf k.pub | wc -l; stat -c %a k`).OK(t)
			if r.Stdout != "1\n600\n" {
				t.Errorf("printed %q", r.Stdout)
			}
		})
	})
}

// Shells, job control, signals among one's own, limits and priorities.
func TestF2_Daily_Processes(t *testing.T) {
	daily(t, func(t *testing.T, d *day) {
		list := []step{
			{"signals among one's own", `sleep 60 & p=$!; kill -0 $p; kill -STOP $p; kill -CONT $p; kill $p; wait $p || echo $?`, "143\n"},
			{"traps", `trap 'echo int' INT; kill -INT $$; trap 'echo usr' USR1; (kill -USR1 $$); sleep 0.05; trap 'echo exit' EXIT`, "int\nusr\nexit\n"},
			{"job control", `set -m; sleep 60 & sleep 61 & jobs | wc -l; kill %1 %2; wait || true; (exit 3) & wait $! || echo $?`, "2\n3\n"},
			{"timeout, nohup, setsid, nice", `timeout 0.2 sleep 5 || echo $?; timeout -k 0.1 0.1 sh -c 'trap "" TERM; sleep 5' || echo $?; nohup sh -c 'echo hup' 2> /dev/null; setsid -w echo sid; nice -n 5 nice; nice -n 3 sh -c 'nice'`, "124\n137\nhup\nsid\n5\n3\n"},
			{"pkill of one's own group", `sleep 77 & until test "$(cat /proc/$!/comm)" = sleep; do sleep 0.01; done; pkill -P $$ sleep; wait || true; echo done`, "done\n"},
			{"a group of one's own", `set -m; (sleep 60 & sleep 60) & sleep 0.1; kill -- -$!; wait $! || echo $?`, "143\n"},
			{"limits", `ulimit -c 0; ulimit -n 256; ulimit -n; ulimit -s 4096; ulimit -s; ulimit -t 100; ulimit -a > /dev/null; (ulimit -f 1; head -c 100000 /dev/zero > big 2> /dev/null || echo limited); rm -f big`, "256\n4096\nlimited\n"},
			{"priorities", `renice -n 7 -p $$ > /dev/null; nice; taskset -c 0 true 2> /dev/null || true; taskset -p $$ > /dev/null; chrt -o -p 0 $$; ionice -c 3 true`, "7\n"},
			{"wait -n and pipes", `(exit 4) & (sleep 5) & wait -n || echo $?; kill %2 2> /dev/null || true; yes | head -n1; echo ${PIPESTATUS[0]} > /dev/null`, ""},
			{"memory", `if command -v free > /dev/null; then free > /dev/null; fi; df . > /dev/null; du -s . > /dev/null; sync -f . ; getconf PAGESIZE`, ""},
			{"a core dump of one's own", `ulimit -c 0; sh -c 'kill -ABRT $$' 2> /dev/null || echo $?; sh -c 'kill -SEGV $$' 2> /dev/null || echo $?`, "134\n139\n"},
			{"locale, time zone, random", `TZ=Asia/Tokyo date -d @0 +%H; LC_ALL=C sort < /dev/null; head -c 8 /dev/urandom | wc -c; cat /proc/sys/kernel/random/uuid | wc -c; printf '%(%Y)T\n' 0`, "09\n8\n37\n1970\n"},
		}
		// yes ends by SIGPIPE, which pipefail reports.
		list[8].script = strings.Replace(list[8].script, "yes | head", "set +o pipefail; yes | head", 1)
		list[8].want = "4\ny\n"
		for _, shell := range []string{"dash", "zsh", "fish", "ksh", "busybox"} {
			if d.HasTool(shell) == "" {
				continue
			}
			run := shell + " -c"
			if shell == "busybox" {
				run = "busybox sh -c"
			}
			list = append(list, step{shell, run + ` 'echo a | cat; sleep 0.01 & wait; ls / > /dev/null; echo b > "$TMPDIR/b"; cat "$TMPDIR/b"'`, "a\nb\n"})
		}
		d.steps(t, Opts{}, list)
		d.NothingLeft(2 * time.Second)
	})
}

// Debuggers and tracers look at children of their own.
func TestF2_Daily_Debuggers(t *testing.T) {
	daily(t, func(t *testing.T, d *day) {
		t.Run("strace", func(t *testing.T) {
			d := d.at(t)
			d.Tool("strace")
			d.works(`strace -f -o trace sh -c 'cat /dev/null; true' && grep -q execve trace; strace -c -o counts true
				sleep 60 & p=$!; timeout 1 strace -o attached -p $p 2> /dev/null || true; kill $p; test -s attached`)
		})
		t.Run("gdb", func(t *testing.T) {
			d := d.at(t)
			d.Tool("gdb")
			prog := d.compile("san", "-g")
			r := d.bash(Opts{}, `gdb -nx -batch -ex 'break add' -ex run -ex 'bt 1' -ex 'info threads' -ex kill "$1" 2>&1 || true; gdb -nx -batch -ex run "$1" 2>&1 | grep -c 'exited normally'`, prog).OK(t)
			if !strings.Contains(r.Stdout, "hit Breakpoint 1, add") || !strings.HasSuffix(r.Stdout, "1\n") {
				t.Errorf("printed %q", r.Stdout)
			}
			r = d.bash(Opts{}, `sleep 60 & p=$!; gdb -nx -batch -p $p -ex 'info proc' -ex detach 2>&1 | grep -c "process $p"; kill $p`)
			if r.Exit != 0 {
				t.Errorf("attach to a child: %s", r)
			}
		})
		t.Run("sanitizers", func(t *testing.T) {
			for _, kind := range []string{"address", "thread", "undefined"} {
				d := d.at(t)
				d.Tool("gcc")
				src := d.program("san.c")
				out := filepath.Join(d.O, "programs", "san-"+kind)
				if r := d.Outside("gcc", "-g", "-fsanitize="+kind, "-o", out, src, "-pthread"); r.Exit != 0 {
					fmt.Printf("SKIP %s %s: gcc has no such sanitizer here\n", t.Name(), kind)
					continue
				}
				if r := d.Outside(out); r.Exit != 0 {
					fmt.Printf("SKIP %s %s: does not run outside: %s\n", t.Name(), kind, strings.TrimSpace(r.Stderr))
					continue
				}
				if r := d.run(Opts{}, out); r.Exit != 0 || r.Stdout != "40\n" {
					t.Errorf("-fsanitize=%s: %s", kind, r)
				}
			}
		})
		t.Run("valgrind", func(t *testing.T) {
			d := d.at(t)
			d.Tool("valgrind")
			prog := d.compile("san", "-g")
			if r := d.Outside("valgrind", "-q", "--error-exitcode=9", prog); r.Exit != 0 {
				skip(t, "does not run outside: %s", r)
			}
			if r := d.run(Opts{}, "valgrind", "-q", "--error-exitcode=9", prog).OK(t); r.Stdout != "40\n" {
				t.Errorf("printed %q", r.Stdout)
			}
		})
		t.Run("looking at a child", func(t *testing.T) {
			d := d.at(t)
			d.works(`sleep 60 & p=$!; cat /proc/$p/maps > maps; ls -l /proc/$p/fd /proc/$p/task > /dev/null; cat /proc/$p/environ | grep -z -c '^TMPDIR=' > /dev/null
				test "$(readlink /proc/$p/cwd)" = "$PWD"; readlink /proc/$p/exe > /dev/null; kill $p; wait $p || true; test -s maps`)
			if d.HasTool("lsof") != "" {
				d.works(`sleep 60 > held & p=$!; until test "$(readlink /proc/$p/fd/1)" = "$PWD/held"; do sleep 0.01; done; lsof -a -p $p -d 1 2> /dev/null | grep -c held; kill $p`)
			}
		})
	})
}

// A database server for tests: System V and POSIX shared memory, semaphores,
// many processes, a socket file, signals among them.
func TestF2_Daily_Postgres(t *testing.T) {
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(dirs) == 0 {
		skipTool(t, "postgres")
	}
	named(t, func(t *testing.T, d *day) {
		if d.UID == 0 {
			skip(t, "postgres refuses root")
		}
		bin := dirs[len(dirs)-1]
		r := d.bash(Opts{Timeout: 2 * time.Minute, Env: []string{"PATH=" + first(bin)}}, `
initdb -D pg -A trust -N > init.log 2>&1 || { cat init.log >&2; exit 1; }
mkdir run
pg_ctl -D pg -w -l pg.log -o "-c listen_addresses= -c unix_socket_directories=$W/run" start > /dev/null || { cat pg.log >&2; exit 1; }
psql -h "$W/run" -d postgres -qtA -c 'create table t(i int); insert into t select generate_series(1, 1000); select sum(i) from t;'
pg_ctl -D pg -w -m fast stop > /dev/null`)
		if r.Exit != 0 || r.Stdout != "500500\n" {
			t.Errorf("want the sum: %s", r)
		}
		d.NothingLeft(5 * time.Second)
		os.RemoveAll(filepath.Join(d.W, "pg"))
	})
}
