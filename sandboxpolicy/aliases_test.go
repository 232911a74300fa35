package sandboxpolicy

import (
	"reflect"
	"testing"
)

func TestAliases_WhatIsDeniedIsDeniedEverywhere(t *testing.T) {
	files := map[string]string{"/home/u/.ssh/id": "k", "/home/u/w/f": "x", "/home/u/.cargo/credentials": "k", "/data/home/u/.ssh/id": "k",
		"/srv/keys/id": "k", "/host/home/u/.ssh/id": "k", "/srv/w/f": "x", "/srv/v/x": "x"}
	for _, tt := range []struct {
		name           string
		mounts         []Mount
		denied, others []string // paths that can't be read, and that can
	}{
		{"none", []Mount{{"1:1", "/", "/"}, {"1:2", "/", "/home"}},
			[]string{"/home/u/.ssh/id"}, []string{"/data/home/u/.ssh/id", "/srv/keys/id"}},
		{"a home from elsewhere", []Mount{{"1:1", "/", "/"}, {"1:1", "/data/home", "/home"}},
			[]string{"/home/u/.ssh/id", "/data/home/u/.ssh/id", "/data/home/u/.ssh/new", "/data/home/v/x", "/data/home/u/.cargo/credentials.toml"},
			[]string{"/data/home/u/w/f", "/data/home/u/other", "/home/u/w/f"}},
		{"the whole once more", []Mount{{"1:1", "/", "/"}, {"1:1", "/", "/host"}},
			[]string{"/host/home/u/.ssh/id", "/host/home/v/x", "/host/etc/shadow"}, []string{"/host/home/u/w/f", "/host/etc/hosts", "/host/usr/x"}},
		{"a part of a secret", []Mount{{"1:1", "/", "/"}, {"1:1", "/home/u/.ssh", "/srv/keys"}},
			[]string{"/srv/keys/id", "/srv/keys"}, []string{"/srv/other"}},
		{"a part that is an exception", []Mount{{"1:1", "/", "/"}, {"1:1", "/home/u/w", "/srv/w"}, {"1:1", "/home/v", "/srv/v"}},
			[]string{"/srv/v/x"}, []string{"/srv/w/f"}},
		{"other file systems", []Mount{{"1:1", "/", "/"}, {"1:2", "/data/home", "/home"}, {"1:3", "/", "/host"}},
			nil, []string{"/data/home/u/.ssh/id", "/host/home/u/.ssh/id"}},
		{"one over the other", []Mount{{"1:1", "/", "/"}, {"1:2", "/", "/home"}, {"1:1", "/data/home", "/home"}},
			[]string{"/home/u/.ssh/id", "/data/home/u/.ssh/id"}, nil},
		{"the root by two steps", []Mount{{"1:1", "/@", "/"}, {"1:1", "/@home", "/home"}, {"1:1", "/", "/host"}},
			[]string{"/host/@home/u/.ssh/id", "/host/@/etc/shadow"}, []string{"/host/@home/u/w/f", "/host/home/u/.ssh/id"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(files)
			f.mounts = tt.mounts
			p, _ := resolve(t, f, Request{})
			for _, path := range tt.denied {
				if p.Verdict(OpRead, path).Allow {
					t.Errorf("%s can be read", path)
				}
			}
			for _, path := range tt.others {
				if v := p.Verdict(OpRead, path); !v.Allow {
					t.Errorf("%s can't be read: %+v", path, v.Rule)
				}
			}
		})
	}
}

func TestParseMounts(t *testing.T) {
	got := parseMounts("22 27 0:21 / /proc rw,relatime - proc proc rw\n" +
		`40 27 254:0 /a\040b /mnt/c\011d\134e rw shared:1 - ext4 /dev/vda rw` + "\n" +
		"41 27 0:4 net:[4026531840] /run/netns/x rw - nsfs nsfs rw\n" +
		"garbage\n\n42 27 254:0 /x /y rw - ext4 /dev/vda rw")
	want := []Mount{{"0:21", "/", "/proc"}, {"254:0", "/a b", "/mnt/c\td\\e"}, {"254:0", "/x", "/y"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q", got)
	}
	own, err := OSFacts{}.Mounts()
	if err != nil || mountOf(own, "/") == nil {
		t.Errorf("this process's own: %v, %v", own, err)
	}
}

// A command can put a link where the next run's grant is looked for.
func TestGrant_NotByALinkInTheWorkspace(t *testing.T) {
	f := newFake(map[string]string{"/home/u/w/build": "link:/home/u/victim", "/home/u/victim/f": "x", "/home/u/w/in": "link:out", "/home/u/w/out/f": "x",
		"/home/u/w/deep/l": "link:../../victim", "/home/u/v2": "link:/home/u/victim", "/home/u/other/f": "x"})
	f.put(userFile, "[policy]\nwrite = [\"build\"]\n")
	p, notices := resolve(t, f, Request{Write: []string{"build", "deep/l", "build/f", "in", "~/v2", "../other"}})
	for path, want := range map[string]bool{
		"/home/u/w/out/f": true, "/home/u/other/f": true,
		"/home/u/victim/f": true, // by ~/v2, a link outside of the workspace
	} {
		wantVerdict(t, p, OpWrite, path, want, "")
	}
	for _, link := range []string{"write = \"build\"", "--write build", "--write deep/l", "--write build/f"} {
		if !hasNotice(notices, NoticeConfigIgnored, link+" (") {
			t.Errorf("%s is not said to be ignored: %v", link, notices)
		}
	}
	p, _ = resolve(t, f, Request{Write: []string{"build", "deep/l", "build/f", "in"}, Read: []string{"build"}})
	wantVerdict(t, p, OpWrite, "/home/u/victim/f", false, "outside")
}

func TestWorkspaceConfig_InTheWorkspace(t *testing.T) {
	f := newFake(map[string]string{"/home/u/w/x": "y", "/home/u/.netrc": "machine h login u password p"})
	f.put(spaceFile, "link:/home/u/.netrc")
	_, _, err := tryResolve(f, Request{})
	wantConfigError(t, err)
	f.put(spaceFile, "link:../conf.toml")
	f.put("/home/u/w/conf.toml", "[policy]\nnetwork = \"none\"\n")
	resolve(t, f, Request{})
}

func wantConfigError(t *testing.T, err error) {
	t.Helper()
	if e, ok := err.(*ConfigError); !ok || e.File == "" {
		t.Errorf("got %v, want a *ConfigError", err)
	}
}
