package sandbox

import (
	"sync"

	"github.com/dshx/dshx/sandboxpolicy"
)

// Denial is one operation that the policy refused.
type Denial struct {
	Operation sandboxpolicy.Op   `json:"operation"`
	Target    string             `json:"target"`
	Resolved  string             `json:"resolved"`
	Rule      sandboxpolicy.Rule `json:"rule"`
	// Evidence is "supervisor" where dshx refused it itself, "errno+path"
	// where it follows from the command's own error message, a path in it,
	// and the policy's verdict on that path.
	Evidence string `json:"evidence"`
	Remedy   string `json:"remedy"`
}

// maxDenials bounds how many distinct denials are kept of one command.
const maxDenials = 64

// recorder keeps what was refused, each thing once.
type recorder struct {
	mu   sync.Mutex
	seen map[denialKey]bool
	list []Denial
}

type denialKey struct {
	op     sandboxpolicy.Op
	target string
}

func (r *recorder) add(d Denial) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := denialKey{d.Operation, d.Target}
	if r.seen[k] || len(r.list) >= maxDenials {
		return
	}
	if r.seen == nil {
		r.seen = map[denialKey]bool{}
	}
	r.seen[k] = true
	r.list = append(r.list, d)
}

func (r *recorder) all() []Denial {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Denial{}, r.list...)
}
