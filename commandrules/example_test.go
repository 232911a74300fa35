package commandrules_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/dshx/dshx/commandrules"
	"github.com/dshx/dshx/sandboxpolicy"
)

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "config.toml")
	config := "[[commands]]\nrule = \"deny\"\nprefix = [\"git\", \"push\"]\n"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		panic(err)
	}
	policy, _, err := sandboxpolicy.Resolve(sandboxpolicy.Request{Workspace: dir, ConfigFile: file}, sandboxpolicy.OSFacts{})
	if err != nil {
		panic(err)
	}
	for _, script := range []string{"git status && echo 'git push'", "cd sub; timeout 9 git -C . push", "git \"$what\""} {
		v := commandrules.Script(policy, script, nil)
		fmt.Printf("%s %q\n", v.Decision, v.Command)
	}
	// Output:
	// allow ""
	// deny "timeout 9 git -C . push"
	// ask "git \"$what\""
}
