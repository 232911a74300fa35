package landlock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/dshx/dshx/sandboxpolicy"
	"golang.org/x/sys/unix"
)

func abi(t *testing.T) int {
	t.Helper()
	v, err := ABI()
	if err != nil {
		if os.Getenv("DSHX_REQUIRE_KERNEL") == "1" {
			t.Fatal(Why(err))
		}
		t.Skip(Why(err))
	}
	return min(v, Known)
}

func tree(t *testing.T) (home, work string) {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home, work = base+"/home", base+"/home/work"
	for _, d := range []string{work, home + "/.ssh", home + "/.config/gh", home + "/.config/app", home + "/docs"} {
		os.MkdirAll(d, 0o755)
		os.WriteFile(d+"/f", []byte("text"), 0o644)
	}
	return home, work
}

func policy(t *testing.T, home string, req sandboxpolicy.Request) *sandboxpolicy.Policy {
	t.Helper()
	req.NoConfig = true
	req.Environ = append(req.Environ, "HOME="+home, "PATH=/bin:/usr/bin")
	req.Cwd = req.Workspace
	p, _, err := sandboxpolicy.Resolve(req, sandboxpolicy.OSFacts{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// inside runs f on a thread of its own, in the ruleset.
func inside(t *testing.T, p *sandboxpolicy.Policy, abi int, f func()) *Ruleset {
	t.Helper()
	b, err := Start(p, abi)
	if err != nil {
		t.Fatal(err)
	}
	b.Share()
	r, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var run func()
	run = func() {
		runtime.LockOSThread() // for good
		if unix.Gettid() == unix.Getpid() {
			go run()
			<-done // keeps the main thread
			runtime.UnlockOSThread()
			return
		}
		defer close(done)
		err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		if err == nil {
			err = Restrict(r.FD)
		}
		if err != nil {
			t.Error(err)
			return
		}
		f()
	}
	go run()
	<-done
	r.Close()
	return r
}

func TestBuild_GrantsAroundSecrets(t *testing.T) {
	top := abi(t)
	for v := 1; v <= top; v++ {
		t.Run(fmt.Sprint("ABI ", v), func(t *testing.T) {
			home, work := tree(t)
			p := policy(t, home, sandboxpolicy.Request{Workspace: work})
			inside(t, p, v, func() {
				for _, tt := range []struct {
					path  string
					flags int
					ok    bool
				}{
					{home + "/docs/f", os.O_RDONLY, true},
					{home + "/.config/app/f", os.O_RDONLY, true},
					{home + "/.ssh/f", os.O_RDONLY, false},
					{home + "/.config/gh/f", os.O_RDONLY, false},
					{home + "/docs/f", os.O_WRONLY, false},
					{work + "/f", os.O_RDWR, true},
					{work + "/new", os.O_WRONLY | os.O_CREATE, true},
					{home + "/docs/new", os.O_WRONLY | os.O_CREATE, false},
					{"/dev/null", os.O_RDWR, true},
					{"/dev/zero", os.O_RDONLY, true},
					{"/dev/kmsg", os.O_RDONLY, false},
					{"/proc/self/status", os.O_RDONLY, true},
					{"/etc/passwd", os.O_RDONLY, true},
					{"/etc/shadow", os.O_RDONLY, false},
				} {
					f, err := os.OpenFile(tt.path, tt.flags, 0o600)
					if err == nil {
						f.Close()
					}
					if (err == nil) != tt.ok && !os.IsNotExist(err) {
						t.Errorf("open %s with %#x: %v, want allowed %v", tt.path, tt.flags, err, tt.ok)
					}
				}
			})
		})
	}
}

// TestBuild_WhatAppearsLater: beside an exception nothing new is readable, and
// so a store that is made later is not, either.
func TestBuild_WhatAppearsLater(t *testing.T) {
	v := abi(t)
	home, work := tree(t)
	os.RemoveAll(home + "/.ssh")
	p := policy(t, home, sandboxpolicy.Request{Workspace: work})
	inside(t, p, v, func() {
		done := make(chan struct{})
		go func() { // elsewhere, unrestricted
			defer close(done)
			os.MkdirAll(home+"/.ssh", 0o700)
			os.WriteFile(home+"/.ssh/key", []byte("secret"), 0o600)
			os.WriteFile(home+"/docs/later", []byte("text"), 0o600)
		}()
		<-done
		if _, err := os.ReadFile(home + "/.ssh/key"); !errors.Is(err, unix.EACCES) {
			t.Errorf("a key made later: %v", err)
		}
		if _, err := os.ReadFile(home + "/docs/later"); err != nil {
			t.Errorf("control: %v", err)
		}
	})
}

// TestBuild_WritableHomeKeepsItsSecrets: --write on a home is granted entry by
// entry.
func TestBuild_WritableHomeKeepsItsSecrets(t *testing.T) {
	v := abi(t)
	home, work := tree(t)
	p := policy(t, home, sandboxpolicy.Request{Workspace: work, Write: []string{home}})
	r := inside(t, p, v, func() {
		if _, err := os.ReadFile(home + "/.ssh/f"); !errors.Is(err, unix.EACCES) {
			t.Errorf("a key: %v", err)
		}
		if err := os.WriteFile(home+"/docs/new", nil, 0o600); err != nil {
			t.Errorf("control: %v", err)
		}
	})
	if strings.Join(r.Split, " ") != home {
		t.Errorf("split is %v", r.Split)
	}
}

func TestBuild_MissingIsListed(t *testing.T) {
	v := abi(t)
	home, work := tree(t)
	extra := t.TempDir()
	p := policy(t, home, sandboxpolicy.Request{Workspace: work, Write: []string{extra}})
	os.RemoveAll(extra)
	b, err := Start(p, v)
	if err != nil {
		t.Fatal(err)
	}
	r, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	found := false
	for _, m := range r.Missing {
		found = found || strings.HasSuffix(m, filepath.Base(extra))
	}
	if !found || r.Rules == 0 {
		t.Errorf("missing %v, %d rules", r.Missing, r.Rules)
	}
}

func BenchmarkBuild(b *testing.B) {
	v, err := ABI()
	if err != nil {
		b.Skip(Why(err))
	}
	p, _, err := sandboxpolicy.Resolve(sandboxpolicy.Request{Workspace: b.TempDir(), NoConfig: true, Environ: os.Environ()}, sandboxpolicy.OSFacts{})
	if err != nil {
		b.Fatal(err)
	}
	rules := 0
	for b.Loop() {
		j, err := Start(p, min(v, Known))
		if err != nil {
			b.Fatal(err)
		}
		r, err := j.Finish()
		if err != nil {
			b.Fatal(err)
		}
		rules = r.Rules
		r.Close()
	}
	b.ReportMetric(float64(rules), "rules")
}
