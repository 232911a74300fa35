package sandboxpolicy

import (
	"errors"
	"strings"
	"testing"
)

func FuzzDecodeConfig(f *testing.F) {
	f.Add([]byte(InitFile()))
	f.Add([]byte(uncomment(InitFile())))
	f.Add([]byte("[policy]\ndeny_read = ['**/.env', '{a,b}/[x]']\n[[commands]]\nrule='deny'\nprefix=['rm']\n"))
	f.Add([]byte("a.b=1\n[a]\nc=2\n[[a.d]]\n[a.d.e]\n"))
	f.Add([]byte("[limits]\ncpu_time = 0x7fffffffffffffff\nmemory = 1_0\n"))
	f.Add([]byte("[[commands]]\n[commands.x]\n[[commands]]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := decodeConfig("f", "user-config", data)
		if err != nil {
			var ce *ConfigError
			if !errors.As(err, &ce) || ce.Problem == "" || c != nil {
				t.Fatalf("%q: %v", data, err)
			}
			return
		}
		// What decodes must resolve, or be refused with a place.
		fake := newFake(map[string]string{userFile: string(data)})
		p, _, err := tryResolve(fake, Request{})
		if err != nil {
			var ce *ConfigError
			var ue *UsageError
			if !errors.As(err, &ce) && !errors.As(err, &ue) {
				t.Fatalf("%q: %v", data, err)
			}
			return
		}
		// As the workspace's own it never widens.
		plain, _, err := tryResolve(newFake(nil), Request{})
		if err != nil {
			t.Fatal(err)
		}
		space, _, err := tryResolve(newFake(map[string]string{spaceFile: string(data)}), Request{})
		if err != nil {
			return
		}
		for _, path := range []string{"/home/u/w/x", "/home/u/w/.git/config", "/home/u/.ssh/id", "/etc/x", "/tmp/x", "/home/v/x"} {
			for _, op := range []Op{OpRead, OpWrite, OpConnect} {
				p.Verdict(op, path)
				if space.Verdict(op, path).Allow && !plain.Verdict(op, path).Allow {
					t.Fatalf("%q in the workspace allows %s %s", data, op, path)
				}
			}
		}
		if space.Network().rank() > plain.Network().rank() {
			t.Fatalf("%q in the workspace widens the network", data)
		}
	})
}

func FuzzGlob(f *testing.F) {
	for _, s := range []string{"**/.env", "a/*/key", "[!a-z]?", "{a,b{c,d}}", "\\*", "a**b", "**/**/x/**", "[]]", "[a-]"} {
		f.Add(s, "/w/a/b/.env")
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		pats, err := expandBraces(pattern)
		if err != nil {
			return
		}
		for _, p := range pats {
			g, err := compileGlob("/w", p)
			if err != nil {
				continue
			}
			if g.match(path) && !g.match(path+"/below") {
				t.Fatalf("%q matches %q but not what is below", p, path)
			}
			if lit, ok := g.literal(); ok && !g.match(lit) {
				t.Fatalf("%q is literal but does not match itself", p)
			}
			// The printed form means the same.
			h, err := compileGlob("/", g.String())
			if err != nil || h.match(path) != g.match(path) {
				t.Fatalf("%q printed as %q means something else (%v)", p, g.String(), err)
			}
		}
	})
}

func FuzzResolvePath(f *testing.F) {
	for _, s := range []string{"/home/u/w/l/../x", "/a//b/./c/", "/home/u/w/loop", "/..", "relative", "/home/u/w/a/up/w"} {
		f.Add(s, "target")
	}
	f.Fuzz(func(t *testing.T, path, target string) {
		if target == "" || strings.IndexByte(target, 0) >= 0 {
			return
		}
		fake := newFake(map[string]string{"/home/u/w/l": "link:" + target, "/home/u/w/loop": "link:loop", "/home/u/w/a/up": "link:../.."})
		got, _, err := newResolver(fake).real(path)
		if err != nil {
			return
		}
		if !isClean(got) {
			t.Fatalf("%q with a link to %q resolves to %q", path, target, got)
		}
		again, _, err := newResolver(fake).real(got)
		if err != nil || again != got {
			t.Fatalf("%q resolves to %q, which resolves to %q, %v", path, got, again, err)
		}
	})
}
