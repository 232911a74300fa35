package sandbox_test

import (
	"fmt"
	"log"
	"os"

	"github.com/dshx/dshx/sandbox"
	"github.com/dshx/dshx/sandboxpolicy"
)

// A command writes in its workspace and nowhere else.
func ExampleCommand() {
	work, err := os.MkdirTemp("", "work")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(work)
	policy, _, err := sandboxpolicy.Resolve(sandboxpolicy.Request{
		Workspace: work, Cwd: work, Environ: os.Environ(), NoConfig: true,
	}, sandboxpolicy.OSFacts{})
	if err != nil {
		log.Fatal(err)
	}
	cmd := sandbox.Command(policy, "sh", "-c", "echo inside > file && cat file; echo outside > /etc/file || echo refused")
	cmd.Stdout = os.Stdout
	if err := cmd.Run(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// inside
	// refused
}

// A scope has a private TMPDIR, and ends with everything in it.
func ExampleOpen() {
	work, err := os.MkdirTemp("", "work")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(work)
	scope, err := sandbox.Open(sandboxpolicy.Request{
		Preset: "read-only", Workspace: work, Cwd: work, Environ: os.Environ(), NoConfig: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer scope.Close()
	out, err := scope.Command("sh", "-c", `echo temporary > "$TMPDIR/file"; cat "$TMPDIR/file"; touch file || echo refused`).Output()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(string(out))
	// Output:
	// temporary
	// refused
}

// Work of this process can be held to the same rules.
func ExampleScope_Do() {
	work, err := os.MkdirTemp("", "work")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(work)
	scope, err := sandbox.Open(sandboxpolicy.Request{Workspace: work, Cwd: work, Environ: os.Environ(), NoConfig: true})
	if err != nil {
		log.Fatal(err)
	}
	defer scope.Close()
	err = scope.Do(func() error { return os.WriteFile(work+"/file", []byte("inside"), 0o600) })
	fmt.Println("inside:", err)
	err = scope.Do(func() error { return os.WriteFile("/etc/file", []byte("outside"), 0o600) })
	fmt.Println("outside:", err)
	// Output:
	// inside: <nil>
	// outside: open /etc/file: permission denied
}
