package sandboxpolicy_test

import (
	"fmt"
	"log"
	"os"

	"github.com/dshx/dshx/sandboxpolicy"
)

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	p, _, err := sandboxpolicy.Resolve(sandboxpolicy.Request{
		Workspace: dir,
		Cwd:       dir,
		NoConfig:  true,
		Environ:   []string{"HOME=/home/me", "PATH=/bin", "GITHUB_TOKEN=x"},
	}, sandboxpolicy.OSFacts{})
	if err != nil {
		log.Fatal(err)
	}
	for _, path := range []string{p.Workspace() + "/main.go", p.Workspace() + "/.git/hooks/pre-commit", "/etc/hosts", "/home/me/.ssh/config"} {
		v := p.Verdict(sandboxpolicy.OpWrite, path)
		fmt.Printf("%t %q\n", v.Allow, v.Remedy)
	}
	// Output:
	// true ""
	// false "unprotect = [\".git/hooks/\"] under [policy] in your own configuration"
	// false "--write /etc/hosts"
	// false "not possible by a flag: secrets stay unreadable; only --preset danger-full-access reads them"
}

func ExampleParseSize() {
	n, _ := sandboxpolicy.ParseSize("2GiB")
	_, err := sandboxpolicy.ParseSize("2GB")
	fmt.Println(n, err != nil)
	// Output: 2147483648 true
}

func ExamplePolicy_VerdictNet() {
	p, _, err := sandboxpolicy.Resolve(sandboxpolicy.Request{
		Workspace: os.TempDir(),
		Cwd:       os.TempDir(),
		NoConfig:  true,
		Network:   sandboxpolicy.NetworkLoopback,
	}, sandboxpolicy.OSFacts{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.VerdictNet(sandboxpolicy.OpConnect, "inet6", "[::ffff:127.0.0.1]:80").Allow)
	fmt.Println(p.VerdictNet(sandboxpolicy.OpConnect, "inet", "192.0.2.1:80").Remedy)
	// Output:
	// true
	// --network full
}
