package sessionlog

import (
	"maps"
	"slices"

	"github.com/dshx/dshx/pipeline"
)

// Event is a record with what others have to say of it.
type Event struct {
	Record Record
	// Call is the call that a Call, a Question, an Outcome or a Result is about;
	// nil where the log doesn't have it any more.
	Call *Call
	// Question is what an Outcome answers.
	Question *Question
	// Card is of a Call that has no result yet, or of a Result: what an interface
	// got to show when it happened.
	Card pipeline.Card
	// Pending is the card that the Call of a Result had; nil without the Call.
	Pending pipeline.Card
}

// Replay makes events of records, in their order.
type Replay struct {
	tools func(name string) *pipeline.Tool
	open  map[key]*pending // calls that have no result
	begun int
}

type key struct {
	session string
	number  int64
}

type pending struct {
	call     *Call
	card     pipeline.Card
	question *Question
	order    int
}

// NewReplay makes a replay. tools finds a tool by its name, nil where there is
// none; cards need nothing of it but its definition.
func NewReplay(tools func(name string) *pipeline.Tool) *Replay {
	return &Replay{tools: tools, open: map[key]*pending{}}
}

// Event is the event of the next record.
func (p *Replay) Event(r Record) Event {
	e := Event{Record: r}
	of := func(number int64) *pending {
		at := p.open[key{r.Header().Session, number}]
		if at == nil {
			at = &pending{} // its beginning is in a part that is gone
		}
		e.Call, e.Question = at.call, at.question
		return at
	}
	switch r := r.(type) {
	case *Call:
		p.begun++
		at := &pending{call: r, order: p.begun}
		p.open[key{r.Session, r.Number}] = at
		e.Call = r
		if t := p.tools(r.Tool); t != nil {
			at.card = t.PresentCall(r.Arguments)
		} else {
			at.card = pipeline.Present(nil, r.Tool, r.Arguments, pipeline.Shown{})
		}
		e.Card = at.card
	case *Question:
		of(r.Number).question = r
		e.Question = r
	case *Outcome:
		of(r.Number)
	case *Result:
		e.Pending = of(r.Number).card
		var args pipeline.JSON
		if e.Call != nil {
			args = e.Call.Arguments
		}
		e.Card = pipeline.Present(p.tools(r.Tool), r.Tool, args, r.Shown())
		delete(p.open, key{r.Session, r.Number})
	}
	return e
}

// Unfinished are the calls that have no result, in their order: they run, or dshx
// was killed.
func (p *Replay) Unfinished() []*Call {
	list := slices.SortedFunc(maps.Values(p.open), func(a, b *pending) int { return a.order - b.order })
	out := make([]*Call, len(list))
	for i, at := range list {
		out[i] = at.call
	}
	return out
}
