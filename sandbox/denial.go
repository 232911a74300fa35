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

	times int // how often the supervisor refused it
}

// maxDenials bounds how many distinct denials are kept of one command.
const maxDenials = 64

// recorder keeps what was refused, each thing once.
type recorder struct {
	mu   sync.Mutex
	seen map[denialKey]int // index in list
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
	if i, ok := r.seen[k]; ok {
		r.list[i].times++
		return
	}
	if len(r.list) >= maxDenials {
		return
	}
	if r.seen == nil {
		r.seen = map[denialKey]int{}
	}
	d.times = 1
	r.seen[k] = len(r.list)
	r.list = append(r.list, d)
}

func (r *recorder) all() []Denial {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Denial{}, r.list...)
}
