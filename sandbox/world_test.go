package sandbox

import (
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dshx/dshx/sandboxpolicy"
)

// world is a home with secrets, a workspace in it, and a place outside.
type world struct{ home, work, outside string }

func newWorld(t *testing.T) world {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := world{base + "/home", base + "/home/src/work", base + "/outside"}
	for _, d := range []string{w.work + "/sub/deep", w.outside + "/sub", w.home + "/.ssh", w.home + "/.config/gh", w.home + "/.config/app",
		w.home + "/.aws", w.home + "/.cargo", w.home + "/docs"} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func (w world) request(preset string) sandboxpolicy.Request {
	return sandboxpolicy.Request{Preset: preset, Workspace: w.work, Cwd: w.work, NoConfig: true,
		Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.home}}
}

// TestExplain_AgreesWithTheKernel tries random operations on random paths for
// real and compares each with the policy's verdict.
func TestExplain_AgreesWithTheKernel(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, preset := range []string{"read-only", "workspace-write", "danger-full-access"} {
		t.Run(preset, func(t *testing.T) {
			w := newWorld(t)
			s, err := Open(w.request(preset))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			p := s.Policy()
			dirs := []string{w.work, w.work + "/sub", w.work + "/sub/deep", w.outside, w.outside + "/sub", w.home, w.home + "/docs",
				w.home + "/.ssh", w.home + "/.config/gh", w.home + "/.config/app", w.home + "/.aws", w.home + "/.cargo", s.tmp.Path}
			if c := p.CacheDir(); c != "" {
				dirs = append(dirs, c)
			}
			ops := []sandboxpolicy.Op{sandboxpolicy.OpRead, sandboxpolicy.OpWrite, sandboxpolicy.OpCreate, sandboxpolicy.OpDelete,
				sandboxpolicy.OpRename, sandboxpolicy.OpLink, sandboxpolicy.OpTruncate, sandboxpolicy.OpChmod, sandboxpolicy.OpChown,
				sandboxpolicy.OpUtime, sandboxpolicy.OpXattr, sandboxpolicy.OpExec}
			seed := rand.Int63()
			t.Logf("seed %d", seed)
			rnd := rand.New(rand.NewSource(seed))
			type try struct {
				op   sandboxpolicy.Op
				path string
				want bool
			}
			var tries []try
			var script strings.Builder
			for i := range 600 {
				dir := dirs[rnd.Intn(len(dirs))]
				name := fmt.Sprintf("f%d", i)
				if strings.HasSuffix(dir, ".cargo") && rnd.Intn(2) == 0 {
					name = fmt.Sprintf("credentials%d", i)
				}
				path := dir + "/" + name
				if err := os.WriteFile(path, []byte("#!/bin/sh\nexit 0\n"), 0o700); err != nil {
					t.Fatal(err)
				}
				op := ops[rnd.Intn(len(ops))]
				judged := path
				if op == sandboxpolicy.OpCreate {
					judged += ".new"
				}
				tries = append(tries, try{op, path, p.Verdict(op, judged).Allow})
				fmt.Fprintf(&script, "%s\t%s\n", op, path)
			}
			// What Landlock grants by the entries that were there when the
			// policy was put in force is refused to what appeared since: a
			// second domain sees the files, and is the one to compare.
			d, err := NewDomain(p)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			c := d.Command(self)
			c.Env = append([]string{"DSHX_SANDBOX_HELPER=1"}, p.Environ()...)
			c.Stdin = strings.NewReader(script.String())
			c.Stderr = os.Stderr
			out, err := c.Output()
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Split(strings.TrimSpace(string(out)), "\n")
			if len(got) != len(tries) {
				t.Fatalf("%d answers to %d attempts", len(got), len(tries))
			}
			allowed := 0
			for i, tr := range tries {
				if ok := got[i] == "ok"; ok != tr.want {
					t.Errorf("%s %s: the policy says allow=%v, the kernel %q", tr.op, tr.path, tr.want, got[i])
				}
				if tr.want {
					allowed++
				}
			}
			t.Logf("%d of %d allowed", allowed, len(tries))
		})
	}
}

func TestDo_IsHeldToTheSameRules(t *testing.T) {
	w := newWorld(t)
	s, err := Open(w.request("workspace-write"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, tt := range []struct {
		path string
		ok   bool
	}{
		{w.work + "/x", true}, {w.work + "/sub/x", true}, {s.tmp.Path + "/x", true},
		{w.outside + "/x", false}, {w.home + "/x", false}, {w.home + "/.ssh/x", false},
	} {
		err := s.Do(func() error { return os.WriteFile(tt.path, []byte("x"), 0o600) })
		if (err == nil) != tt.ok {
			t.Errorf("write %s: %v, want allowed %v", tt.path, err, tt.ok)
		}
		if _, err := os.Stat(tt.path); (err == nil) != tt.ok {
			t.Errorf("%s afterwards: %v", tt.path, err)
		}
	}
	if err := os.WriteFile(w.outside+"/control", nil, 0o600); err != nil {
		t.Errorf("outside of Do this process is not restricted: %v", err)
	}
}
