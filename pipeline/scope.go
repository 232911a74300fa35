package pipeline

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
)

// Options are a pipeline's.
type Options struct {
	// Faults is told what failed in a stage and was contained. It must not
	// block.
	Faults func(Fault)
}

// Scope is where tools and policy are: a tree, whose inner scopes see what the
// outer ones have, but for what a restriction takes away. Everything that is
// added to a scope returns a function that takes it away again; calls that are
// under way keep what they began with. A Scope may be used from any goroutine.
type Scope struct {
	parent *Scope
	name   string
	tree   *tree

	// Guarded by tree.mu.
	children     []*Scope
	closed       bool
	tools        map[string]*Tool
	restrictions []*Restriction
	admit        []*named[Admission]
	pre          []*named[PreExecute]
	guards       []*named[Guard]
	wrappers     []*named[Wrapper]
	post         []*named[PostExecute]
	observers    []*named[Observer]
	calls        []*named[CallObserver]
	questions    []*named[QuestionObserver]
	asks         []*named[AskPolicy]
	approver     Approver
	changed      []*func()
}

// tree is what the scopes of one pipeline share.
type tree struct {
	mu     sync.RWMutex
	root   *Scope
	faults func(Fault)
}

// New makes a pipeline: its outermost scope.
func New(o Options) *Scope {
	t := &tree{faults: o.Faults}
	t.root = &Scope{tree: t, tools: map[string]*Tool{}}
	return t.root
}

// Child makes a scope inside s. Close it when it has served.
func (s *Scope) Child(name string) *Scope {
	c := &Scope{parent: s, name: name, tree: s.tree, tools: map[string]*Tool{}}
	s.tree.mu.Lock()
	c.closed = s.closed
	if !c.closed {
		s.children = append(s.children, c)
	}
	s.tree.mu.Unlock()
	return c
}

// Name is the scope's, "" for the outermost.
func (s *Scope) Name() string { return s.name }

// Parent is the scope around s, nil for the outermost.
func (s *Scope) Parent() *Scope { return s.parent }

func (s *Scope) root() *Scope { return s.tree.root }

// ErrScopeClosed is the error of a scope that was closed.
var ErrScopeClosed = errors.New("the scope is closed")

// Close ends the scope and those inside it: calls made there from now on fail,
// with CANCELLED. It waits for nothing.
func (s *Scope) Close() {
	s.tree.mu.Lock()
	defer s.tree.mu.Unlock()
	s.close()
	if p := s.parent; p != nil {
		if i := slices.Index(p.children, s); i >= 0 {
			p.children = slices.Delete(p.children, i, i+1)
		}
	}
}

func (s *Scope) close() {
	s.closed = true
	for _, c := range s.children {
		c.close()
	}
	s.children = nil
}

// Restriction takes inherited tools away from a scope. It leaves alone what
// the scope registers itself; several of them hold all together.
type Restriction struct {
	Allow []string // nil: all that are not denied
	Deny  []string
}

func (r *Restriction) hides(name string) bool {
	return r.Allow != nil && !slices.Contains(r.Allow, name) || slices.Contains(r.Deny, name)
}

// Register adds tools, all or none. One that an outer scope has is shadowed;
// one that this scope has is an error.
func (s *Scope) Register(tools ...*Tool) (undo func(), err error) {
	s.tree.mu.Lock()
	if s.closed {
		s.tree.mu.Unlock()
		return nil, ErrScopeClosed
	}
	for i, t := range tools {
		if t == nil {
			s.tree.mu.Unlock()
			return nil, errors.New("a nil tool can't be registered")
		}
		if s.tools[t.name] != nil || slices.ContainsFunc(tools[:i], func(o *Tool) bool { return o.name == t.name }) {
			s.tree.mu.Unlock()
			return nil, fmt.Errorf("tool %s is registered in this scope already", t.name)
		}
	}
	for _, t := range tools {
		s.tools[t.name] = t
	}
	s.tree.mu.Unlock()
	s.notify()
	var once sync.Once
	return func() {
		once.Do(func() {
			s.tree.mu.Lock()
			for _, t := range tools {
				if s.tools[t.name] == t {
					delete(s.tools, t.name)
				}
			}
			s.tree.mu.Unlock()
			s.notify()
		})
	}, nil
}

// Restrict adds a restriction.
func (s *Scope) Restrict(r Restriction) (undo func()) {
	own := &Restriction{slices.Clone(r.Allow), slices.Clone(r.Deny)}
	return add(s, &s.restrictions, own, true)
}

// Admit adds an admission after those that the scope has. Outer scopes' come
// before inner ones'.
func (s *Scope) Admit(name string, f Admission) (undo func()) {
	return add(s, &s.admit, &named[Admission]{name, f}, false)
}

// PreExecute adds a listener after those that the scope has. Outer scopes'
// listeners come before inner ones'.
func (s *Scope) PreExecute(name string, f PreExecute) (undo func()) {
	return add(s, &s.pre, &named[PreExecute]{name, f}, false)
}

// Guard adds a guard.
func (s *Scope) Guard(name string, f Guard) (undo func()) {
	return add(s, &s.guards, &named[Guard]{name, f}, false)
}

// Wrap adds a wrapper inside those that the scope and its ancestors have.
func (s *Scope) Wrap(name string, f Wrapper) (undo func()) {
	return add(s, &s.wrappers, &named[Wrapper]{name, f}, false)
}

// PostExecute adds a listener after those that the scope has.
func (s *Scope) PostExecute(name string, f PostExecute) (undo func()) {
	return add(s, &s.post, &named[PostExecute]{name, f}, false)
}

// Observe adds an observer of results.
func (s *Scope) Observe(name string, f Observer) (undo func()) {
	return add(s, &s.observers, &named[Observer]{name, f}, false)
}

// ObserveCalls adds an observer of calls that begin.
func (s *Scope) ObserveCalls(name string, f CallObserver) (undo func()) {
	return add(s, &s.calls, &named[CallObserver]{name, f}, false)
}

// ObserveQuestions adds an observer of questions and their answers.
func (s *Scope) ObserveQuestions(name string, f QuestionObserver) (undo func()) {
	return add(s, &s.questions, &named[QuestionObserver]{name, f}, false)
}

// OnChange calls f after a change of what is visible in the scope, in no
// particular goroutine.
func (s *Scope) OnChange(f func()) (undo func()) {
	return add(s, &s.changed, &f, false)
}

// AskPolicy adds a policy of approval. All of the scope and its ancestors hold.
func (s *Scope) AskPolicy(name string, f AskPolicy) (undo func()) {
	return add(s, &s.asks, &named[AskPolicy]{name, f}, false)
}

// SetApprover says who is asked about calls in the scope and those inside it;
// nil leaves it to the outer scope's.
func (s *Scope) SetApprover(a Approver) {
	s.tree.mu.Lock()
	s.approver = a
	s.tree.mu.Unlock()
}

func add[T any](s *Scope, list *[]*T, item *T, visible bool) (undo func()) {
	s.tree.mu.Lock()
	*list = append(slices.Clip(*list), item)
	s.tree.mu.Unlock()
	if visible {
		s.notify()
	}
	return func() {
		s.tree.mu.Lock()
		i := slices.Index(*list, item)
		if i >= 0 {
			// A new slice: calls under way read the old one.
			*list = slices.Concat((*list)[:i], (*list)[i+1:])
		}
		s.tree.mu.Unlock()
		if visible && i >= 0 {
			s.notify()
		}
	}
}

// Tools are the tools visible in the scope, by name.
func (s *Scope) Tools() []*Tool {
	s.tree.mu.RLock()
	defer s.tree.mu.RUnlock()
	seen := map[string]bool{}
	var out []*Tool
	for at := s; at != nil; at = at.parent {
		for name := range at.tools {
			if !seen[name] {
				seen[name] = true
				if t := s.visible(name); t != nil {
					out = append(out, t)
				}
			}
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].name < out[j].name })
	return out
}

// Lookup is the tool that a call of name reaches, or nil.
func (s *Scope) Lookup(name string) *Tool {
	s.tree.mu.RLock()
	defer s.tree.mu.RUnlock()
	return s.visible(name)
}

// visible is the one answer to which tool a name means in a scope: the
// innermost one, unless a restriction on the way to it hides it. A hidden one
// uncovers nothing that it shadows. The caller holds tree.mu.
func (s *Scope) visible(name string) *Tool {
	hidden := false
	for at := s; at != nil; at = at.parent {
		if t := at.tools[name]; t != nil {
			if hidden {
				return nil
			}
			return t
		}
		for _, r := range at.restrictions {
			hidden = hidden || r.hides(name)
		}
	}
	return nil
}

// stages is the policy that a call in the scope begins with; closed reports a
// scope that takes none any more.
func (s *Scope) stages() (_ *stages, closed bool) {
	s.tree.mu.RLock()
	defer s.tree.mu.RUnlock()
	var st stages
	if s.tree.faults != nil {
		st.faults = append(st.faults, s.tree.faults)
	}
	var line []*Scope
	for at := s; at != nil; at = at.parent {
		line = append(line, at)
	}
	for _, at := range slices.Backward(line) {
		st.admit = gather(st.admit, at.admit)
		st.pre = gather(st.pre, at.pre)
		st.guards = gather(st.guards, at.guards)
		st.wrappers = gather(st.wrappers, at.wrappers)
		st.post = gather(st.post, at.post)
		st.observers = gather(st.observers, at.observers)
		st.calls = gather(st.calls, at.calls)
		st.questions = gather(st.questions, at.questions)
		st.asks = gather(st.asks, at.asks)
		if at.approver != nil {
			st.approver = at.approver
		}
	}
	return &st, s.closed
}

func gather[F any](to []named[F], from []*named[F]) []named[F] {
	for _, n := range from {
		to = append(to, *n)
	}
	return to
}

// notify tells the listeners of every scope that sees into s.
func (s *Scope) notify() {
	s.tree.mu.RLock()
	var list []*func()
	var walk func(*Scope)
	walk = func(at *Scope) {
		list = append(list, at.changed...)
		for _, c := range at.children {
			walk(c)
		}
	}
	walk(s)
	s.tree.mu.RUnlock()
	for _, f := range list {
		(*f)()
	}
}
