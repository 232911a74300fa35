package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// homeOnly fails the test if anything in H changed but the area that dshx
// documents as its own. It returns the check, to be called afterwards.
func (d *day) homeOnly(t *testing.T) func() {
	t.Helper()
	if d.plain {
		return func() {}
	}
	// The directories on the way to the area are dshx's to make, and their
	// times change.
	own := filepath.Join(d.H, ".cache", "dshx")
	passing := map[string]bool{d.H: true, filepath.Join(d.H, ".cache"): true}
	snap := func() Snapshot {
		all := Snapshot{}
		for path, line := range Snap(t, d.H) {
			if path != own && !strings.HasPrefix(path, own+"/") && !passing[path] {
				all[path] = line
			}
		}
		return all
	}
	before := snap()
	return func() { t.Helper(); before.Same(t, snap()) }
}

// freeze makes what is in H read-only, as an image's or an administrator's
// cache is, all but the area that is dshx's own.
func (d *day) freeze() {
	d.t.Helper()
	if d.plain { // without dshx nothing says where else to write
		return
	}
	d.outside(`shopt -s nullglob dotglob
for p in "$H"/* "$H"/.cache/*; do case "$p" in "$H/.gitconfig"|"$H/.cache"|"$H/.cache/dshx") ;; *) chmod -R a-w "$p";; esac; done`)
}

// toolchain is one build tool's day: fresh home, then again, then with a
// read-only cache in the home.
type toolchain struct {
	opts    Opts
	setup   string // outside, in W, before everything
	work    string // inside; must succeed each time
	args    []string
	cache   string // outside: fills the home's own cache, which then is read-only
	offline string // inside, beside work, what only that cache makes possible
	slow    bool   // a cold run takes long: leave the home without any cache out
}

func (d *day) toolchain(t *testing.T, c toolchain) {
	t.Helper()
	if c.setup != "" {
		d.outside(c.setup, c.args...)
	}
	c.opts.Timeout = 3 * time.Minute
	run := func(name, script string) {
		t.Run(name, func(t *testing.T) {
			check := d.at(t).homeOnly(t)
			if r := d.bash(c.opts, script, c.args...); r.Exit != 0 {
				t.Errorf("want exit 0: %s", r)
			}
			check()
		})
	}
	run("fresh home", c.work)
	run("second run", c.work)
	r := d.OutsideOpts(Opts{Env: c.opts.Env, Timeout: 3 * time.Minute}, append(d.script(c.cache), c.args...)...)
	if r.Exit != 0 {
		t.Fatalf("outside of the sandbox: %s", r)
	}
	d.freeze()
	run("read-only cache", c.work)
	if c.offline != "" {
		run("from the read-only cache", c.offline)
	}
	if c.slow || d.plain || d.UID == 0 {
		return
	}
	// Not even the own area can be made, and there is none.
	d.outside(`rm -rf "$H"/.cache "$H"/.npm "$H"/.cargo "$H"/go 2> /dev/null || chmod -R u+w "$H"; rm -rf "$H"/.cache "$H"/.npm "$H"/.cargo "$H"/go; chmod a-w "$H"`)
	defer d.outside(`chmod u+w "$H"`)
	run("read-only home", c.work)
}

func TestF2_7_Go(t *testing.T) {
	daily(t, func(t *testing.T, d *day) {
		goTool := d.working("go", "version")
		for name, text := range map[string]string{
			"m/go.mod":       "module example.com/m\n\ngo 1.21\n",
			"m/m.go":         "package main\n\nfunc add(a, b int) int { return a + b }\n\nfunc main() { println(add(1, 2)) }\n",
			"m/m_test.go":    "package main\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif add(1, 2) != 3 {\n\t\tt.Fatal()\n\t}\n\tt.TempDir()\n}\n",
			"dep/go.mod":     "module example.com/dep\n\ngo 1.21\n",
			"dep/dep.go":     "package dep\n\nfunc Three() int { return 3 }\n",
			"user/go.mod":    "module example.com/user\n\ngo 1.21\n\nrequire example.com/dep v1.0.0\n",
			"user/main.go":   "package main\n\nimport \"example.com/dep\"\n\nfunc main() { println(dep.Three()) }\n",
			"late/go.mod":    "module example.com/main\n\ngo 1.21\n\nrequire example.com/late v1.0.0\n",
			"late/main.go":   "package main\n\nimport \"example.com/late\"\n\nfunc main() { println(late.Four()) }\n",
			"later/go.mod":   "module example.com/late\n\ngo 1.21\n",
			"later/late.go":  "package late\n\nfunc Four() int { return 4 }\n",
			"vendored/x.txt": "",
		} {
			d.Write(filepath.Join(d.W, name), text)
		}
		d.toolchain(t, toolchain{
			opts: with(goTool),
			slow: true,
			work: `cd m; go build -o m .; ./m 2>&1 | grep -x 3; go test -count=1 ./...; go vet ./...; go run . 2> /dev/null; gofmt -l . 2> /dev/null || true; go list -deps . > /dev/null; rm m`,
			// A module proxy made of files, and from it a module cache in the home.
			cache: `
mkdir -p "$O/zip"
cat > "$O/zip/z.go" << 'E'
package main

import (
	"archive/zip"
	"os"
)

func main() {
	out, _ := os.Create(os.Args[1])
	z := zip.NewWriter(out)
	for _, name := range os.Args[2:] {
		data, _ := os.ReadFile(name)
		w, _ := z.Create(name)
		w.Write(data)
	}
	z.Close()
	out.Close()
}
E
export GOCACHE="$O/gocache" GONOSUMDB='*' GOFLAGS='-mod=mod -modcacherw' GOPROXY="file://$O/proxy"
publish() { # DIR MODULE
	proxy="$O/proxy/$2/@v"; mkdir -p "$proxy" "$O/zip/$2@v1.0.0"
	cp "$1"/* "$O/zip/$2@v1.0.0/"
	cp "$1/go.mod" "$proxy/v1.0.0.mod"; echo '{"Version":"v1.0.0"}' > "$proxy/v1.0.0.info"; echo v1.0.0 > "$proxy/list"
	(cd "$O/zip"; go run z.go "$proxy/v1.0.0.zip" "$2@v1.0.0"/*)
}
publish dep example.com/dep; publish later example.com/late
cd user; go mod download example.com/dep; go mod tidy; test -d "$H/go/pkg/mod/example.com/dep@v1.0.0"`,
			offline: `cd user; go build -o user .; ./user 2>&1 | grep -x 3; go vet ./...; go mod vendor; go build -mod=vendor -o user .; rm -r user vendor; go mod verify`,
		})
		if d.plain {
			return
		}
		// What is fetched once with the network is there without it.
		if r := d.bash(with(goTool), `cd late; GOFLAGS=-mod=mod go build -o late .`); r.Exit == 0 {
			t.Errorf("built without what it needs: %s", r)
		}
		fetch := with(goTool)
		fetch.Flags = []string{"--network", "full", "--env", "GOPROXY=file://" + d.O + "/proxy", "--env", "GONOSUMDB=*", "--env", "GOFLAGS=-mod=mod"}
		d.bash(fetch, `cd late; go build -o late .; rm late`).OK(t)
		d.bash(with(goTool), `cd late; go build -o late .; ./late 2>&1 | grep -x 4; cd ../user; go build -o user .; ./user 2>&1 | grep -x 3`).OK(t)
	})
}

func TestF2_7_Cargo(t *testing.T) {
	daily(t, func(t *testing.T, d *day) {
		cargo := d.working("cargo", "--version")
		for name, text := range map[string]string{
			"c/Cargo.toml":       "[package]\nname = \"c\"\nversion = \"0.1.0\"\nedition = \"2018\"\n\n[dependencies]\ndep = { path = \"../dep\" }\n",
			"c/src/main.rs":      "fn main() { println!(\"{}\", dep::three()); }\n\n#[test]\nfn works() { assert_eq!(dep::three(), 3); }\n",
			"dep/Cargo.toml":     "[package]\nname = \"dep\"\nversion = \"0.1.0\"\nedition = \"2018\"\nbuild = \"build.rs\"\n",
			"dep/src/lib.rs":     "pub fn three() -> u32 { include!(concat!(env!(\"OUT_DIR\"), \"/three.rs\")) }\n",
			"dep/build.rs":       "fn main() { std::fs::write(std::path::Path::new(&std::env::var(\"OUT_DIR\").unwrap()).join(\"three.rs\"), \"3\").unwrap(); }\n",
			"v/Cargo.toml":       "[package]\nname = \"v\"\nversion = \"0.1.0\"\nedition = \"2018\"\n\n[dependencies]\nvdep = \"1\"\n",
			"v/src/main.rs":      "fn main() { println!(\"{}\", vdep::four()); }\n",
			"v/.cargo/config":    "[source.crates-io]\nreplace-with = \"vendored\"\n[source.vendored]\ndirectory = \"vendor\"\n",
			"v/vendor/vdep/x.rs": "",
		} {
			d.Write(filepath.Join(d.W, name), text)
		}
		d.Write(filepath.Join(d.W, "v/vendor/vdep/Cargo.toml"), "[package]\nname = \"vdep\"\nversion = \"1.0.0\"\nedition = \"2018\"\n")
		d.Write(filepath.Join(d.W, "v/vendor/vdep/src/lib.rs"), "pub fn four() -> u32 { 4 }\n")
		d.Write(filepath.Join(d.W, "v/vendor/vdep/.cargo-checksum.json"), `{"files":{},"package":null}`)
		d.toolchain(t, toolchain{
			opts:  with(cargo),
			work:  `cd c; cargo build -q --offline; ./target/debug/c | grep -x 3; cargo test -q --offline > /dev/null; cargo clean -q; cd ../v; cargo run -q --offline | grep -x 4; cargo clean -q`,
			cache: `mkdir -p "$H/.cargo/registry/cache"; (cd c; cargo metadata --offline --format-version 1 > /dev/null); touch "$H/.cargo/.package-cache" "$H/.cargo/registry/cache/x"`,
		})
	})
}

func TestF2_7_Npm(t *testing.T) {
	daily(t, func(t *testing.T, d *day) {
		npm := d.working("npm", "--version")
		for name, text := range map[string]string{
			"app/package.json": `{"name":"app","version":"1.0.0","scripts":{"build":"node build.js","test":"node --test","postinstall":"node -e 0"}}`,
			"app/build.js":     "const fs = require('fs'); fs.mkdirSync('dist', {recursive: true}); fs.writeFileSync('dist/out.js', String(require('dep')));\n",
			"app/a.test.js":    "const test = require('node:test'); test('three', () => { if (require('dep') !== 3) throw new Error('not three'); });\n",
			"dep/package.json": `{"name":"dep","version":"1.0.0","main":"i.js","bin":{"dep":"cli.js"}}`,
			"dep/i.js":         "module.exports = 3;\n",
			"dep/cli.js":       "#!/usr/bin/env node\nconsole.log(3);\n",
		} {
			d.Write(filepath.Join(d.W, name), text)
		}
		d.toolchain(t, toolchain{
			opts: with(npm),
			// Audit and funding ask the network; without one npm says so and goes on.
			work:  `cd app; npm install ../dep > /dev/null; npm run -s build; cat dist/out.js | grep -x 3; npm test > /dev/null; npx --no-install dep | grep -x 3; npm pack --silent ../dep; npm ci > /dev/null; npm ls > /dev/null; rm -r node_modules dist dep-1.0.0.tgz`,
			cache: `cd dep; npm cache ls > /dev/null; npm pack --silent; npm cache add "$PWD/dep-1.0.0.tgz"; rm dep-1.0.0.tgz; test -d "$H/.npm"`,
		})
	})
}

// wheel makes a wheel by hand, so that no build backend is needed.
const wheel = `
import base64, hashlib, sys, zipfile
files = {
    "localpkg/__init__.py": "THREE = 3\n",
    "localpkg/__main__.py": "from . import THREE\nprint(THREE)\n",
    "localpkg-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: localpkg\nVersion: 1.0\n",
    "localpkg-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}
record = ""
with zipfile.ZipFile(sys.argv[1], "w") as z:
    for name, text in files.items():
        z.writestr(name, text)
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += "%s,sha256=%s,%d\n" % (name, digest, len(text))
    record += "localpkg-1.0.dist-info/RECORD,,\n"
    z.writestr("localpkg-1.0.dist-info/RECORD", record)
`

func TestF2_7_Pip(t *testing.T) {
	daily(t, func(t *testing.T, d *day) {
		py := d.real(d.working("python3", "-c", "import venv, pip, sqlite3"))
		d.Write(filepath.Join(d.O, "wheel.py"), wheel)
		d.Write(filepath.Join(d.W, "src/setup.py"), "from setuptools import setup\nsetup(name='srcpkg', version='1.0', py_modules=['srcpkg'])\n")
		d.Write(filepath.Join(d.W, "src/srcpkg.py"), "FOUR = 4\n")
		d.toolchain(t, toolchain{
			opts:  with(py),
			args:  []string{py},
			setup: `"$1" "$O/wheel.py" localpkg-1.0-py3-none-any.whl`,
			work: `
"$1" -m venv --system-site-packages --without-pip env
. env/bin/activate
python -m pip install -q --disable-pip-version-check --no-index ./localpkg-1.0-py3-none-any.whl
python -m localpkg | grep -x 3
python -m pip list --disable-pip-version-check | grep -c localpkg > /dev/null
if python -c 'import setuptools, wheel' 2> /dev/null; then
	python -m pip install -q --disable-pip-version-check --no-index --no-build-isolation ./src
	python -c 'import srcpkg; assert srcpkg.FOUR == 4'
fi
python -m pip uninstall -q -y localpkg
python -m compileall -q src; python -c 'import tempfile, ssl, sqlite3, ctypes, multiprocessing'
deactivate; rm -r env`,
			cache: `mkdir -p "$H/.cache/pip/http" "$H/.local/lib"; touch "$H/.cache/pip/http/x"`,
		})
		d.at(t).works(`"$1" -m pip install -q --no-index --target pkgs ./localpkg-1.0-py3-none-any.whl; PYTHONPATH=pkgs "$1" -m localpkg | grep -x 3; rm -r pkgs`, py)
		t.Run("with ensurepip", func(t *testing.T) {
			d := d.at(t)
			if testing.Short() || d.UID == 0 {
				skip(t, "unpacks a thousand files, which the ordinary user does without -short")
			}
			if r := d.Outside(py, "-c", "import ensurepip"); r.Exit != 0 {
				skip(t, "no ensurepip")
			}
			d.bash(Opts{Timeout: 2 * time.Minute}, `"$1" -m venv full; full/bin/pip install -q --disable-pip-version-check --no-index ./localpkg-1.0-py3-none-any.whl; full/bin/python -m localpkg | grep -x 3`, py).OK(t)
		})
	})
}

func TestF2_7_Uv(t *testing.T) {
	daily(t, func(t *testing.T, d *day) {
		uv := d.working("uv", "--version")
		py := d.python()
		d.Write(filepath.Join(d.O, "wheel.py"), wheel)
		d.toolchain(t, toolchain{
			opts:  with(uv),
			args:  []string{py},
			setup: `"$1" "$O/wheel.py" localpkg-1.0-py3-none-any.whl`,
			work:  `uv venv -q --offline -p "$1" env; VIRTUAL_ENV=$PWD/env uv pip install -q --offline --no-index ./localpkg-1.0-py3-none-any.whl; env/bin/python -m localpkg | grep -x 3; rm -r env`,
			cache: `mkdir -p "$H/.cache/uv"; touch "$H/.cache/uv/x"`,
		})
	})
}

// Accounts of services and containers often have no home that could be used.
func TestF2_7_NoHome(t *testing.T) {
	daily(t, func(t *testing.T, d *day) {
		if d.plain {
			skip(t, "DSHX_IT_PLAIN=1: nothing makes a cache")
		}
		closed := d.Mkdir(filepath.Join(d.O, "closed"))
		if err := os.Chmod(closed, 0o555); err != nil {
			t.Fatal(err)
		}
		missing := filepath.Join(d.O, "missing")
		for name, home := range map[string]string{"missing": "HOME=" + missing, "unset": "HOME", "not writable": "HOME=" + closed, "a file": "HOME=/dev/null"} {
			t.Run(name, func(t *testing.T) {
				r := d.bash(Opts{Env: []string{home}}, `
for v in "$XDG_CACHE_HOME" "$GOCACHE" "$npm_config_cache" "$PIP_CACHE_DIR"; do mkdir -p "$v/x"; echo y > "$v/x/y"; cat "$v/x/y" > /dev/null; done`)
				if r.Exit != 0 {
					t.Errorf("want exit 0: %s", r)
				}
				if len(lines(r.Stderr)) > 1 {
					t.Errorf("want at most one warning: %s", r)
				}
			})
		}
		if Exists(missing) {
			t.Errorf("a home that was not there was made")
		}
	})
}

// C builds, with everything that uses temporary files, pipes and many jobs.
func TestF2_Daily_CBuild(t *testing.T) {
	daily(t, func(t *testing.T, d *day) {
		d.Tool("gcc")
		d.Write(filepath.Join(d.W, "m.c"), "#include <stdio.h>\n#include \"l.h\"\nint main(void) { printf(\"%d\\n\", three()); return 0; }\n")
		d.Write(filepath.Join(d.W, "l.c"), "#include \"l.h\"\nint three(void) { return 3; }\n")
		d.Write(filepath.Join(d.W, "l.h"), "int three(void);\n")
		d.Write(filepath.Join(d.W, "Makefile"), "all: m\nm: m.o libl.a\n\t$(CC) -o $@ m.o -L. -ll\nlibl.a: l.o\n\tar rcs $@ $^\nclean:\n\trm -f m *.o *.a\nsub:\n\t+$(MAKE) -s clean && $(MAKE) -s -j4 all\n")
		list := []step{
			{"gcc with and without pipes", `gcc -pipe -O2 -o m m.c l.c; ./m; gcc -save-temps=obj -c l.c; gcc -fPIC -shared -o libl.so l.c; gcc -o m m.c ./libl.so; ./m; gcc -flto -O2 -o m m.c l.c; ./m; strip m; ./m; rm libl.so`, "3\n3\n3\n3\n"},
			{"preprocessor, assembler, debugger symbols", `gcc -E m.c > /dev/null; gcc -S l.c; as -o l2.o l.s; gcc -g -o m m.c l2.o; objdump -d m > /dev/null; ./m`, "3\n"},
		}
		if d.HasTool("make") != "" {
			list = append(list, step{"make", `make -s -j4; ./m; make -s sub; ./m; make -s clean; touch -d @100 m.c; make -s; make -q; make -s clean`, "3\n3\n"})
		}
		if d.HasTool("g++") != "" {
			list = append(list, step{"g++", `printf '#include <iostream>\n#include <thread>\nint main() { std::thread([] { std::cout << 3 << std::endl; }).join(); }\n' > t.cc; g++ -pthread -o t t.cc; ./t`, "3\n"})
		}
		if d.HasTool("cmake") != "" && d.HasTool("make") != "" {
			d.Write(filepath.Join(d.W, "CMakeLists.txt"), "cmake_minimum_required(VERSION 3.10)\nproject(m C)\nadd_library(l l.c)\nadd_executable(cm m.c)\ntarget_link_libraries(cm l)\nenable_testing()\nadd_test(NAME runs COMMAND cm)\n")
			list = append(list, step{"cmake", `cmake -S . -B build > /dev/null; cmake --build build -j 4 > /dev/null; ./build/cm; cd build; ctest > /dev/null`, "3\n"})
			if d.HasTool("ninja") != "" {
				list = append(list, step{"ninja", `cmake -G Ninja -S . -B nbuild > /dev/null; cmake --build nbuild > /dev/null; ./nbuild/cm`, "3\n"})
			}
		} else {
			fmt.Printf("SKIP %s: no cmake and make that this user can run\n", t.Name())
		}
		d.steps(t, Opts{}, list)
	})
}

// The race detector maps memory at fixed places and needs cgo.
func TestF2_Daily_GoRace(t *testing.T) {
	if testing.Short() {
		skip(t, "-short: builds the standard library twice")
	}
	build := func(t *testing.T, d *day) {
		goTool := d.working("go", "version")
		d.Tool("gcc")
		d.Write(filepath.Join(d.W, "go.mod"), "module example.com/race\n\ngo 1.21\n")
		d.Write(filepath.Join(d.W, "c.go"), "package race\n\n// static int twice(int n) { return 2 * n; }\nimport \"C\"\n\nfunc Twice(n int) int { return int(C.twice(C.int(n))) }\n")
		d.Write(filepath.Join(d.W, "c_test.go"), `package race

import (
	"os/exec"
	"sync"
	"testing"
)

func TestTwice(t *testing.T) {
	var wg sync.WaitGroup
	for i := 0; i < 50; i++ {
		wg.Add(1)
		go func(i int) {
			defer wg.Done()
			if Twice(i) != 2*i {
				t.Error(i)
			}
			if i%10 == 0 {
				if err := exec.Command("true").Run(); err != nil {
					t.Error(err)
				}
			}
		}(i)
	}
	wg.Wait()
}
`)
		o := with(goTool)
		o.Timeout = 3 * time.Minute
		r := d.bash(o, `go test -race -count=1 ./...`)
		if r.Exit != 0 {
			t.Errorf("want exit 0: %s", r)
		}
	}
	// Once is enough: a cold build of the standard library takes 20 s.
	t.Run("user", func(t *testing.T) {
		uid, gid := os.Getuid(), os.Getgid()
		if isRoot {
			uid, gid = ordinaryUID, ordinaryGID
		}
		build(t, newDay(t, newEnv(t, uid, gid)))
	})
}
