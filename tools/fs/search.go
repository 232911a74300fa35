package fs

import (
	"errors"
	"runtime"
	"strings"

	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/sandboxpolicy"
	"github.com/dshx/dshx/tools/fs/internal/ignore"
	"github.com/dshx/dshx/tools/fs/internal/walk"
)

// maxWorkers is how many threads one search takes of the domain's 16.
const maxWorkers = 8

// searchArgs are what list, glob and grep have in common.
type searchArgs struct {
	path            string
	hidden, ignored bool
}

// walking is the walk below w's path, and the way to run it.
type walking struct {
	walk.Options
	run walk.Run
	// failed is why the domain didn't run it.
	failed error
}

// walking prepares a walk. files says that the content of what is found will
// be read; of the others only names come out, which may be listed anywhere.
func (w *work) walking(a searchArgs, files bool) (*walking, error) {
	if err := w.judge(sandboxpolicy.OpRead, w.at.real); err != nil {
		return nil, err
	}
	k := &walking{}
	k.Options = walk.Options{
		Root: w.at.real, Workers: min(runtime.GOMAXPROCS(0), maxWorkers),
		Hidden: a.hidden, Ignored: a.ignored, Refuse: w.refuse(files),
	}
	k.run = func(n int, f func(int)) {
		if err := w.in.DoN(n, f); err != nil {
			k.failed = err
		}
	}
	p := w.in.Policy()
	if !a.ignored {
		// The user's own rules, read with the rights of a call.
		err := w.in.Do(func() error {
			k.Global = ignore.LoadGlobal(p.Home(), environ(p, "XDG_CONFIG_HOME"), nil)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return k, nil
}

// done is the error of a walk or search.
func (w *work) done(k *walking, err error) error {
	if k.failed != nil {
		return k.failed
	}
	if err == nil {
		return nil
	}
	if w.ctx.Err() != nil {
		return w.ctx.Err()
	}
	return w.failed(sandboxpolicy.OpRead, err)
}

// refuse asks the policy about what the walk meets; nil where it has nothing to
// say about anything below w's path, which is nearly always so.
func (w *work) refuse(files bool) func(path string, dir bool) bool {
	p, root := w.in.Policy(), w.at.real
	if p.Full() || w.at.spill {
		return nil
	}
	relevant := false
	for _, d := range p.Deny() {
		at := d.Path
		if d.Glob {
			at = d.Dir
		}
		relevant = relevant || d.Access == sandboxpolicy.Read && (within(at, root) || within(root, at))
	}
	if !relevant {
		return nil
	}
	prefix := strings.TrimSuffix(root, "/") + "/"
	return func(path string, dir bool) bool {
		return (dir || files) && !p.Verdict(sandboxpolicy.OpRead, prefix+path).Allow
	}
}

// within reports that path is dir or below it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// environ is a variable as commands see it.
func environ(p *sandboxpolicy.Policy, name string) string {
	for _, kv := range p.Environ() {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// patternError is INVALID_ARGS for a pattern that can't be compiled.
func patternError(name, expected string, err error) error {
	var e *pipeline.Error
	if errors.As(err, &e) {
		return e
	}
	v := &pipeline.Violation{Path: name, Expected: expected, Got: err.Error()}
	message := err.Error()
	if !strings.HasPrefix(message, name+" ") {
		message = name + ": " + message
	}
	return pipeline.Fail(pipeline.CodeInvalidArgs, message, v)
}
