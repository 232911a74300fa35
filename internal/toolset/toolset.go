// Package toolset joins what the front doors of tool calls need: policies in
// force, the pipeline with every tool and the policies that belong to it, the
// registry of jobs, and the private places for output that is too long. It is
// the one package that knows all of them.
//
// A front door has one Host, and a Session for each connection:
//
//	host := toolset.NewHost(request, toolset.Options{})
//	defer host.Close()
//	session, err := host.Session("main")
//	session.Scope.Tools()        // at once
//	session.Opened(ctx)          // for those who are to refuse at their start
//	session.Scope.Call(ctx, …)   // waits for the policy
//
// What one session does is out of another's reach: each has a sandbox of its own,
// with its TMPDIR and its long results, its jobs and its observations (ADR 0016).
package toolset

import (
	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/sandboxpolicy"
)

// Definitions are all tools, without a policy in force: to list, not to call.
func Definitions() ([]*pipeline.Tool, error) {
	h := NewHost(sandboxpolicy.Request{}, Options{})
	if err := h.define(); err != nil {
		return nil, err
	}
	return h.root.Tools(), nil
}

// Described is a tool as `dshx tools --json` prints it.
type Described struct {
	Name         string           `json:"name"`
	Title        string           `json:"title"`
	Description  string           `json:"description"`
	InputSchema  *pipeline.Schema `json:"inputSchema"`
	OutputSchema *pipeline.Schema `json:"outputSchema"`
	Annotations  Annotations      `json:"annotations"`
	Parallel     string           `json:"parallel"` // always, never or by-arguments
}

// Annotations are a tool's hints in MCP's names.
type Annotations struct {
	ReadOnlyHint    bool `json:"readOnlyHint"`
	DestructiveHint bool `json:"destructiveHint"`
	IdempotentHint  bool `json:"idempotentHint"`
	OpenWorldHint   bool `json:"openWorldHint"`
}

// Describe is what programs are told of tools.
func Describe(tools []*pipeline.Tool) any {
	list := make([]Described, len(tools))
	for i, t := range tools {
		h := t.Hints()
		list[i] = Described{t.Name(), t.Title(), t.Description(), t.Parameters(), t.Output(),
			Annotations{h.ReadOnly, h.Destructive, h.Idempotent, h.OpenWorld}, t.Parallel()}
	}
	return struct {
		Tools []Described `json:"tools"`
	}{list}
}
