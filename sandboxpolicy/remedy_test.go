package sandboxpolicy

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestRemedy_IsTheNarrowestThatWorks(t *testing.T) {
	f := newFake(map[string]string{"/home/u/.ssh/id": "k", "/home/u/note": "x", "/home/u/out/f": "x", "/srv/a/f": "x", "/etc/hosts": "x", "/etc/shadow": "x", "/tmp/f": "x"})
	p, _ := resolve(t, f, Request{})
	exists := func(path string) bool { _, err := f.Lstat(path); return err == nil }
	for _, r := range []struct {
		op         Op
		path, want string
	}{
		// What a file holds or is like needs the file alone.
		{OpWrite, "/srv/a/f", "--write /srv/a/f"},
		{OpTruncate, "/home/u/note", "--write /home/u/note"},
		{OpChmod, "/home/u/out", "--write /home/u/out"},
		{OpChmod, "/home/u/out/f", "--write /home/u/out/f"},
		{OpWrite, "/etc/hosts", "--write /etc/hosts"},
		// Names need the directory.
		{OpCreate, "/srv/a/new", "--write /srv/a"},
		{OpWrite, "/srv/a/new", "--write /srv/a"},
		{OpDelete, "/srv/a/f", "--write /srv/a"},
		{OpRename, "/home/u/out/f", "--write /home/u/out"},
		{OpCreate, "/tmp/x", "--write /tmp"},
		// --write names what is there.
		{OpWrite, "/srv/a/b/c/new", "--write /srv/a"},
		{OpCreate, "/home/u/out/b/c", "--write /home/u/out"},
		// Beside secrets nothing can be made.
		{OpWrite, "/home/u/new", "not possible by a flag: /home/u "},
		{OpCreate, "/home/u/new/er", "not possible by a flag: /home/u "},
		{OpDelete, "/home/u/note", "not possible by a flag: /home/u "},
		{OpCreate, "/etc/x", "not possible by a flag: /etc "},
		{OpCreate, "/x", "not possible by a flag: / "},
		// A grant doesn't help everywhere.
		{OpWrite, "/proc/sys/kernel/x", "not possible: the kernel"},
		{OpWrite, "/home/u/.ssh/new", "not possible by a flag: secrets"},
	} {
		v := p.Verdict(r.op, r.path)
		got := p.RemedyOnDisk([]Op{r.op}, r.path, v, exists)
		if v.Allow || got != r.want && (strings.HasPrefix(r.want, "--") || !strings.HasPrefix(got, r.want)) {
			t.Errorf("%s %s: %q, want %q", r.op, r.path, got, r.want)
		}
	}
	// The operation isn't always known.
	either := []Op{OpWrite, OpDelete}
	for path, want := range map[string]string{
		"/srv/a/f":    "--write /srv/a",
		"/etc/hosts":  "--write /etc/hosts lets it be changed, not renamed or removed: /etc ",
		"/home/u/new": "not possible by a flag: /home/u ",
	} {
		got := p.RemedyOnDisk(either, path, p.Verdict(OpWrite, path), exists)
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// TestProperty_RemedyWorks gives the flag that a remedy names.
func TestProperty_RemedyWorks(t *testing.T) {
	tried := 0
	rapid.Check(t, func(t *rapid.T) {
		f := newFake(propFiles)
		req := genRequest.Draw(t, "request")
		p, _, err := tryResolve(f, req)
		if err != nil {
			t.Skip()
		}
		exists := func(path string) bool { _, err := f.Lstat(path); return err == nil }
		for _, q := range questions(t) {
			for _, op := range Ops() {
				v := p.Verdict(op, q)
				dir, ok := strings.CutPrefix(p.RemedyOnDisk([]Op{op}, q, v, exists), "--write ")
				if !ok {
					continue
				}
				tried++
				more := req
				more.Write = append([]string{dir}, req.Write...)
				b, notices, err := tryResolve(f, more)
				if err != nil {
					t.Fatalf("%s %s: --write %s: %v", op, q, dir, err)
				}
				if len(notices) > 0 && hasNotice(notices, NoticeConfigIgnored, "--write "+dir+" (") {
					t.Fatalf("%s %s: --write %s is ignored: %v", op, q, dir, notices)
				}
				if !exists(q) {
					op = OpCreate
				}
				// A protected name is the next question where its directory is
				// still to be made.
				if v := b.Verdict(op, q); !v.Allow && (exists(parentOf(q)) || !strings.HasPrefix(v.Rule.Text, "protected")) {
					t.Fatalf("%s %s: still refused with --write %s: %+v", op, q, dir, v)
				}
				if at := parentOf(q); op == OpCreate && exists(at) && (b.Denied(at, Write) || b.denyBelow(at, Write)) {
					t.Fatalf("%s %s: --write %s grants only some of %s", op, q, dir, at)
				}
			}
		}
	})
	if tried == 0 {
		t.Error("no remedy was tried")
	}
}

// TestProperty_GrantWorks gives a policy what GrantFor names for what it refuses.
func TestProperty_GrantWorks(t *testing.T) {
	kinds := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		f := newFake(propFiles)
		req := genRequest.Draw(t, "request")
		p, _, err := tryResolve(f, req)
		if err != nil {
			t.Skip()
		}
		exists := func(path string) bool { _, err := f.Lstat(path); return err == nil }
		with := func(g Grant) *Policy {
			more := req
			if g.Preset != "" {
				more.Preset = g.Preset
				kinds["preset"]++
			}
			if g.Network != "" {
				more.Network = g.Network
				kinds["network"]++
			}
			if g.Write != "" {
				more.Write = append([]string{g.Write}, req.Write...)
				kinds["write"]++
			}
			if g.Read != "" {
				more.Read = append([]string{g.Read}, req.Read...)
				kinds["read"]++
			}
			b, _, err := tryResolve(f, more)
			if err != nil {
				t.Fatalf("%+v: %v", g, err)
			}
			return b
		}
		for _, q := range questions(t) {
			for _, op := range Ops() {
				v := p.Verdict(op, q)
				g := p.GrantFor([]Op{op}, q, q, v.Rule, exists)
				if g == (Grant{}) {
					continue
				}
				if v.Allow {
					t.Fatalf("%s %s is allowed, and %+v would be granted", op, q, g)
				}
				if !exists(q) && g.Write != "" {
					op = OpCreate
				}
				b := with(g)
				if v := b.Verdict(op, q); !v.Allow && (exists(parentOf(q)) || !strings.HasPrefix(v.Rule.Text, "protected")) {
					t.Fatalf("%s %s: still refused with %+v: %+v", op, q, g, v)
				}
			}
		}
		for _, addr := range []string{"", "127.0.0.1:80", "[::1]:1", "1.1.1.1:80", "localhost:1"} {
			for _, op := range []Op{OpConnect, OpBind, OpSend} {
				v := p.VerdictNet(op, "inet", addr)
				g := p.GrantFor([]Op{op}, "", addr, v.Rule, exists)
				if v.Allow {
					continue
				}
				if g.Network == "" {
					t.Fatalf("%s %s is refused, and nothing would be granted", op, addr)
				}
				if v := with(g).VerdictNet(op, "inet", addr); !v.Allow {
					t.Fatalf("%s %s: still refused with %+v", op, addr, g)
				}
			}
		}
		if g := p.GrantFor([]Op{OpConnect}, "", "@x", p.VerdictNet(OpConnect, "unix", "@x").Rule, exists); g != (Grant{}) {
			t.Fatalf("for a socket of the host: %+v", g)
		}
	})
	for _, kind := range []string{"preset", "network", "write"} {
		if kinds[kind] == 0 {
			t.Errorf("no grant of a %s was tried", kind)
		}
	}
}
