package sandbox

import (
	"context"
	"sync"
	"time"

	"github.com/dshx/dshx/sandboxpolicy"
)

// idle is how long the domain of a policy that nobody uses stays.
const idle = 5 * time.Second

// shared are the domains behind the package's own Command and Do, by policy.
var shared struct {
	sync.Mutex
	domains map[*sandboxpolicy.Policy]*sharedDomain
}

type sharedDomain struct {
	ready chan struct{} // closed once d and err are set
	d     *Domain
	err   error
	users int
	timer *time.Timer
}

// Command prepares argv to run under a policy. All commands of one policy
// share a domain, which starts with the first and ends, with whatever they
// left behind, a few seconds after the last. Use NewDomain or Open to say when.
//
// A policy without a TmpDir leaves the command without one: Open makes it.
func Command(p *sandboxpolicy.Policy, argv ...string) *Cmd {
	return CommandContext(context.Background(), p, argv...)
}

// CommandContext is Command with a context: see Domain.CommandContext.
func CommandContext(ctx context.Context, p *sandboxpolicy.Policy, argv ...string) *Cmd {
	c := (*Domain)(nil).CommandContext(ctx, argv...)
	c.policy = p
	return c
}

// Do runs f in the domain of a policy: see Domain.Do.
func Do(p *sandboxpolicy.Policy, f func() error) error {
	d, err := acquire(p)
	if err != nil {
		return err
	}
	defer release(p)
	return d.Do(f)
}

func acquire(p *sandboxpolicy.Policy) (*Domain, error) {
	shared.Lock()
	s := shared.domains[p]
	if s == nil {
		if shared.domains == nil {
			shared.domains = map[*sandboxpolicy.Policy]*sharedDomain{}
		}
		s = &sharedDomain{ready: make(chan struct{})}
		shared.domains[p] = s
		s.users = 1
		shared.Unlock()
		s.d, s.err = NewDomain(p)
		if s.err != nil {
			shared.Lock()
			delete(shared.domains, p)
			shared.Unlock()
		}
		close(s.ready)
		return s.d, s.err
	}
	s.users++
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	shared.Unlock()
	<-s.ready
	return s.d, s.err
}

func release(p *sandboxpolicy.Policy) {
	shared.Lock()
	defer shared.Unlock()
	s := shared.domains[p]
	if s == nil {
		return
	}
	if s.users--; s.users > 0 {
		return
	}
	s.timer = time.AfterFunc(idle, func() {
		shared.Lock()
		if shared.domains[p] != s || s.users > 0 {
			shared.Unlock()
			return
		}
		delete(shared.domains, p)
		shared.Unlock()
		_ = s.d.Close()
	})
}
