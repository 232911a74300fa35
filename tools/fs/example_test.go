package fs_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/dshx/dshx/fsobserve"
	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/sandbox"
	"github.com/dshx/dshx/sandboxpolicy"
	"github.com/dshx/dshx/tools/fs"
	"github.com/dshx/dshx/tools/permission"
)

// The tools in a workspace, as a front door has them.
func ExampleRegister() {
	work, err := os.MkdirTemp("", "work")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(work)
	request := sandboxpolicy.Request{Workspace: work, Cwd: work, Environ: os.Environ(), NoConfig: true}
	box, err := sandbox.Open(request)
	if err != nil {
		log.Fatal(err)
	}
	defer box.Close()
	observer, err := fsobserve.New(fsobserve.Options{})
	if err != nil {
		log.Fatal(err)
	}
	scope := pipeline.New(pipeline.Options{})
	scope.PreExecute("permissions", permission.Listener(box.Policy(), request))
	undo, err := fs.Register(scope, fs.Options{
		Domains:  fs.InScopes(&permission.Scopes{Base: box, Request: request}),
		Observer: observer,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer undo()

	call := func(tool, args string) {
		r := scope.Call(context.Background(), pipeline.Request{ID: "1", Name: tool, Args: []byte(args)})
		fmt.Println(r.Content()[0].Text())
	}
	call("write", `{"file_path":"hello.txt","content":"hello\n"}`)
	call("edit", `{"file_path":"hello.txt","old_string":"hello","new_string":"hi"}`)
	if err := os.WriteFile(work+"/hello.txt", []byte("hello again\n"), 0o600); err != nil {
		log.Fatal(err)
	}
	call("edit", `{"file_path":"hello.txt","old_string":"hi","new_string":"ho"}`)
	call("read", `{"file_path":"hello.txt"}`)
	call("write", `{"file_path":".git/config","content":""}`)
	// Output:
	// created hello.txt (6 bytes)
	// edited hello.txt: 1 replacement
	// --- a/hello.txt
	// +++ b/hello.txt
	// @@ -1 +1 @@
	// -hello
	// +hi
	// "hello.txt" has changed since you read it; read it again before you change it
	// 1	hello again
	// the policy doesn't let ".git/config" be made (protected .git/config); unprotect = [".git/config"] under [policy] in your own configuration
}
