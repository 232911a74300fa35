package sandboxpolicy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The world of the properties: a few names, so that rules and questions
// meet often.
var propFiles = map[string]string{
	"/e/a/b": "x", "/e/a/.env": "x", "/home/u/w/a/b": "x", "/home/u/w/l": "link:/e", "/home/u/w/a/up": "link:../..", "/home/u/.ssh/id": "k",
	"/home/u/w/.git/HEAD": "x", "/home/u/w/m/.git/config": "x", "/home/v/a/b": "x",
}

var (
	genName = rapid.SampledFrom([]string{"a", "b", ".env", "l", "up", ".git", "config", "hooks", ".ssh", "m", ".vscode", "..", "."})
	genRoot = rapid.SampledFrom([]string{"", "/", "/e/", "/home/u/", "/home/u/w/", "/home/v/", "/home/", "/dev/", "/var/tmp/dshx-1000/", fakeTmp + "/", "~/", "/etc/"})
	genPath = rapid.Custom(func(t *rapid.T) string {
		p := genRoot.Draw(t, "root") + strings.Join(rapid.SliceOfN(genName, 0, 4).Draw(t, "names"), "/")
		if p == "" {
			return "."
		}
		return p
	})
	genDeny = rapid.Custom(func(t *rapid.T) string {
		if rapid.Bool().Draw(t, "literal") {
			return genPath.Draw(t, "path")
		}
		return rapid.SampledFrom([]string{"", "/e/", "~/", "/"}).Draw(t, "root") +
			strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"**", "*", "a", "?", ".e*", "[ab]", "{a,b}", ".env"}), 1, 4).Draw(t, "pattern"), "/")
	})
	genOp      = rapid.SampledFrom(Ops())
	genRequest = rapid.Custom(func(t *rapid.T) Request {
		return Request{
			Preset:    rapid.SampledFrom([]string{"read-only", "workspace-write"}).Draw(t, "preset"),
			Write:     rapid.SliceOfN(genPath, 0, 2).Draw(t, "write"),
			Read:      rapid.SliceOfN(genPath, 0, 2).Draw(t, "read"),
			DenyRead:  rapid.SliceOfN(genDeny, 0, 2).Draw(t, "denyRead"),
			DenyWrite: rapid.SliceOfN(genDeny, 0, 2).Draw(t, "denyWrite"),
			Network:   rapid.SampledFrom([]Network{"", "none", "loopback", "full"}).Draw(t, "network"),
		}
	})
	// What is asked is clean and absolute, or anything at all.
	genAsked = rapid.Custom(func(t *rapid.T) string {
		if rapid.IntRange(0, 9).Draw(t, "odd") == 0 {
			return rapid.String().Draw(t, "any")
		}
		p := genPath.Draw(t, "asked")
		return filepath.Clean("/" + strings.TrimPrefix(p, "~/"))
	})
)

func questions(t *rapid.T) []string { return rapid.SliceOfN(genAsked, 1, 12).Draw(t, "questions") }

// expectNarrower fails where b allows what a does not.
func expectNarrower(t *rapid.T, a, b *Policy) {
	for _, q := range questions(t) {
		for _, op := range Ops() {
			if va, vb := a.Verdict(op, q), b.Verdict(op, q); vb.Allow && !va.Allow {
				t.Fatalf("%s %s: %+v became %+v", op, q, va, vb)
			}
		}
	}
	for _, addr := range []string{"127.0.0.1:1", "1.1.1.1:1", "[::]:1"} {
		for _, op := range []Op{OpConnect, OpBind, OpSend} {
			if b.VerdictNet(op, "inet", addr).Allow && !a.VerdictNet(op, "inet", addr).Allow {
				t.Fatalf("%s %s became allowed", op, addr)
			}
		}
	}
}

func TestProperty_AddedDenyNeverWidens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFake(propFiles)
		req := genRequest.Draw(t, "request")
		a, _, err := tryResolve(f, req)
		if err != nil {
			t.Skip()
		}
		more := req
		deny := genDeny.Draw(t, "added")
		if rapid.Bool().Draw(t, "read") {
			more.DenyRead = append(slices.Clone(req.DenyRead), deny)
		} else {
			more.DenyWrite = append(slices.Clone(req.DenyWrite), deny)
		}
		b, _, err := tryResolve(f, more)
		if err != nil {
			t.Skip()
		}
		expectNarrower(t, a, b)
	})
}

func TestProperty_WorkspaceConfigNeverWidens(t *testing.T) {
	genList := rapid.Custom(func(t *rapid.T) string {
		var s []string
		for _, p := range rapid.SliceOfN(genDeny, 0, 2).Draw(t, "list") {
			s = append(s, fmt.Sprintf("%q", p))
		}
		return "[" + strings.Join(s, ",") + "]"
	})
	rapid.Check(t, func(t *rapid.T) {
		user := "[policy]\ndeny_read = [\"b\"]\nwrite = [\"/e\"]\nnetwork = \"" + rapid.SampledFrom([]string{"none", "loopback", "full"}).Draw(t, "usernet") + "\"\n"
		f := newFake(propFiles)
		f.put(userFile, user)
		req := genRequest.Draw(t, "request")
		if rapid.Bool().Draw(t, "from the configuration") {
			f.put(userFile, "preset = \""+rapid.SampledFrom(PresetNames()).Draw(t, "userpreset")+"\"\n"+user)
			req.Preset, req.Network, req.DenyRead, req.DenyWrite = "", "", nil, nil
		}
		a, _, err := tryResolve(f, req)
		if err != nil {
			t.Skip()
		}
		var c strings.Builder
		if rapid.Bool().Draw(t, "p") {
			fmt.Fprintf(&c, "preset = %q\n", rapid.SampledFrom(PresetNames()).Draw(t, "preset"))
		}
		fmt.Fprintf(&c, "[policy]\n")
		for _, k := range []string{"read", "write", "deny_read", "deny_write"} {
			if rapid.Bool().Draw(t, k) {
				fmt.Fprintf(&c, "%s = %s\n", k, genList.Draw(t, "values"))
			}
		}
		if rapid.Bool().Draw(t, "n") {
			fmt.Fprintf(&c, "network = %q\n", rapid.SampledFrom([]string{"none", "loopback", "full"}).Draw(t, "net"))
		}
		if rapid.Bool().Draw(t, "u") {
			fmt.Fprintf(&c, "unprotect = [\".git/config\", \".vscode/\"]\n")
		}
		f.put(spaceFile, c.String())
		b, _, err := tryResolve(f, req)
		if err != nil {
			t.Skip()
		}
		expectNarrower(t, a, b)
	})
}

func TestProperty_OrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFake(propFiles)
		req := genRequest.Draw(t, "request")
		a, _, err := tryResolve(f, req)
		if err != nil {
			t.Skip()
		}
		for _, l := range []*[]string{&req.Write, &req.Read, &req.DenyRead, &req.DenyWrite} {
			*l = rapid.Permutation(*l).Draw(t, "order")
		}
		b, _, err := tryResolve(f, req)
		if err != nil {
			t.Fatalf("another order fails: %v", err)
		}
		for _, q := range questions(t) {
			for _, op := range Ops() {
				if a.Verdict(op, q).Allow != b.Verdict(op, q).Allow {
					t.Fatalf("%s %s depends on the order", op, q)
				}
			}
		}
	})
}

func TestProperty_BracesMeanTheirAlternatives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFake(propFiles)
		req := genRequest.Draw(t, "request")
		alts := rapid.SliceOfN(genDeny, 2, 3).Draw(t, "alternatives")
		one, each := req, req
		one.DenyRead = append(slices.Clone(req.DenyRead), "{"+strings.Join(alts, ",")+"}")
		each.DenyRead = append(slices.Clone(req.DenyRead), alts...)
		a, _, erra := tryResolve(f, one)
		b, _, errb := tryResolve(f, each)
		if (erra == nil) != (errb == nil) {
			t.Fatalf("%q: %v; each alone: %v", one.DenyRead, erra, errb)
		}
		if erra != nil {
			t.Skip()
		}
		for _, q := range questions(t) {
			for _, op := range Ops() {
				if a.Verdict(op, q).Allow != b.Verdict(op, q).Allow {
					t.Fatalf("%s %s: %+v; each alone: %+v", op, q, a.Verdict(op, q), b.Verdict(op, q))
				}
			}
		}
	})
}

func TestProperty_VerdictIsTotal(t *testing.T) {
	f := newFake(propFiles)
	var all []*Policy
	for _, preset := range PresetNames() {
		p, _, err := tryResolve(f, Request{Preset: preset})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom(all).Draw(t, "policy")
		op := genOp.Draw(t, "op")
		if rapid.IntRange(0, 9).Draw(t, "odd") == 0 {
			op = Op(rapid.String().Draw(t, "op"))
		}
		q := genAsked.Draw(t, "path")
		v := p.Verdict(op, q)
		if v.Rule.Text == "" || v.Rule.Origin == "" || v.Allow != (v.Remedy == "") {
			t.Fatalf("%s %q: %+v", op, q, v)
		}
		n := p.VerdictNet(op, rapid.SampledFrom([]string{"inet", "inet6", "unix", "netlink", "x", ""}).Draw(t, "family"), rapid.String().Draw(t, "addr"))
		if n.Rule.Text == "" || n.Allow != (n.Remedy == "") {
			t.Fatalf("%+v", n)
		}
	})
}

// TestProperty_DeniedAgreesWithVerdict: nothing is allowed below what is
// denied, and nothing is denied below what has no deny in it.
func TestProperty_DeniedAgreesWithVerdict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, _, err := tryResolve(newFake(propFiles), genRequest.Draw(t, "request"))
		if err != nil || slices.ContainsFunc(p.Deny(), func(r PathRule) bool { return r.Glob && !r.OneLevel() }) {
			t.Skip()
		}
		top := filepath.Clean("/" + strings.TrimPrefix(genPath.Draw(t, "top"), "~/"))
		for _, q := range append(questions(t), "x", "a/b", ".env", "b/.env") {
			at := filepath.Clean(top + "/" + q)
			if !within(at, top) {
				continue
			}
			for _, c := range []struct {
				a  Access
				op Op
			}{{Read, OpRead}, {Write, OpWrite}} {
				v := p.Verdict(c.op, at)
				switch {
				case p.Denied(top, c.a) && v.Allow:
					t.Fatalf("%s is denied, but %s %s: %+v", top, c.op, at, v)
				case !p.Denied(top, c.a) && !p.denyBelow(top, c.a) && p.Denied(at, c.a):
					t.Fatalf("nothing is denied below %s, but %s %s: %+v", top, c.op, at, v)
				}
			}
		}
	})
}

// naiveGlob is the pattern's meaning, spelled out by recursion.
func naiveGlob(segs []string, names []string) bool {
	if len(segs) == 0 {
		return true // matched, and everything below
	}
	if segs[0] == "**" {
		if naiveGlob(segs[1:], names) {
			return true
		}
		return len(names) > 0 && naiveGlob(segs, names[1:])
	}
	return len(names) > 0 && naiveSeg(segs[0], names[0]) && naiveGlob(segs[1:], names[1:])
}

func naiveSeg(pat, name string) bool {
	ok, err := filepath.Match(pat, name)
	return err == nil && ok
}

func TestProperty_GlobMeansWhatItSays(t *testing.T) {
	seg := rapid.SampledFrom([]string{"**", "*", "a", "b*", "*b", "?", "[ab]", "[^a]", "a?c", "*.x", "\\*", "a*b*c"})
	name := rapid.SampledFrom([]string{"a", "b", "ab", "abc", ".x", "y.x", "*", "é", "aXbYc", "\xff"})
	rapid.Check(t, func(t *rapid.T) {
		segs := rapid.SliceOfN(seg, 1, 6).Draw(t, "segs")
		if segs[len(segs)-1] == "**" {
			segs = append(segs, "a")
		}
		names := rapid.SliceOfN(name, 0, 8).Draw(t, "names")
		g, err := compileGlob("/", strings.Join(segs, "/"))
		if err != nil {
			t.Fatal(err)
		}
		path := "/" + strings.Join(names, "/")
		if got, want := g.match(path), naiveGlob(segs, names); got != want {
			t.Fatalf("%s on %s: %t, want %t", g, path, got, want)
		}
	})
}

// TestProperty_ResolveAgreesWithTheSystem holds the resolver against
// filepath.EvalSymlinks on a real tree of links.
func TestProperty_ResolveAgreesWithTheSystem(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"a/b/c", "d", "a/e"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "a/f"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"a/l": "../d", "d/up": "..", "a/b/abs": root + "/a/e", "d/loop": "loop", "a/x": "l/up/a/b", "d/dangling": "nothing/here", "a/g": "f"} {
		if err := os.Symlink(to, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	names := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g", "l", "up", "abs", "loop", "x", "dangling", "..", ".", ""})
	rapid.Check(t, func(t *rapid.T) {
		rel := strings.Join(rapid.SliceOfN(names, 0, 7).Draw(t, "names"), "/")
		path := root + "/" + rel
		// EvalSymlinks takes ".." after a link as the system does.
		want, err := filepath.EvalSymlinks(path)
		got, kind, rerr := newResolver(OSFacts{}).real(path)
		if err == nil {
			if rerr != nil || got != want || kind == entryMissing {
				t.Fatalf("%s: %q, %v, want %q", rel, got, rerr, want)
			}
			return
		}
		if rerr == nil && kind != entryMissing && errors.Is(err, fs.ErrNotExist) && !strings.Contains(rel, "..") {
			t.Fatalf("%s: found %q, the system says %v", rel, got, err)
		}
		if rerr == nil && !isClean(got) {
			t.Fatalf("%s: %q is not clean", rel, got)
		}
	})
}
