package sessionlog

import (
	"fmt"
	"hash/fnv"
	"time"

	"github.com/dshx/dshx/jobs"
	"github.com/dshx/dshx/pipeline"
	"github.com/go-json-experiment/json"
)

// Version is of the records that this package writes. It reads those of this
// version alone.
const Version = 1

// Record is one line of a log: a Start, Continued, Call, Question, Outcome,
// Result, Preset, JobEnd, Note, Missing or End.
type Record interface {
	// Header is what all records begin with.
	Header() *Head
	// mask takes secrets out of whatever is not of this package's own making.
	mask(m *masker)
	kind() string
}

// Head is what all records begin with.
type Head struct {
	V    int    `json:"v"`
	Type string `json:"type"`
	// Time is when it happened, in UTC.
	Time    time.Time `json:"time"`
	Session string    `json:"session"`        // one run of dshx
	Scope   string    `json:"scope,omitzero"` // one connection in it; "" for the log itself
}

// Header is the head itself.
func (h *Head) Header() *Head { return h }

// Start is the beginning of a connection.
type Start struct {
	Head
	Version     string        `json:"version"`
	Preset      string        `json:"preset"`
	Workspace   string        `json:"workspace"`
	Enforcement pipeline.JSON `json:"enforcement,omitzero"`
}

// Continued is the first record of a file that goes on where another one, the
// next older part of the log, has ended.
type Continued struct {
	Head
}

// Call is a call whose turn has come. Number is counted in a session, and what
// the other records of the call name it by: ID is the caller's, which may use it
// again.
type Call struct {
	Head
	Number    int64         `json:"call"`
	ID        string        `json:"id"`
	Parent    int64         `json:"parent,omitzero"` // the Number of the call that it is nested in
	Tool      string        `json:"tool"`
	Arguments pipeline.JSON `json:"arguments,omitzero"` // none where they were no lossless JSON
}

// Question is what somebody is asked about a call.
type Question struct {
	Head
	Number  int64         `json:"call"`
	Reason  string        `json:"reason"`
	Display string        `json:"displayReason"`
	Grants  pipeline.JSON `json:"grants,omitzero"`
}

// Outcome is the answer to the question about a call: allowed-once, rejected,
// cancelled or unavailable. Every Question has one.
type Outcome struct {
	Head
	Number  int64  `json:"call"`
	Outcome string `json:"outcome"`
}

// Result is how a call ended.
type Result struct {
	Head
	Number     int64           `json:"call"`
	ID         string          `json:"id"`
	Tool       string          `json:"tool"`
	OK         bool            `json:"ok"`
	DurationMs float64         `json:"durationMs"` // since the Call
	Failure    *pipeline.Error `json:"error,omitzero"`
	Content    []Block         `json:"content"`
	Meta       pipeline.JSON   `json:"meta,omitzero"`

	raw []pipeline.Content // Content is made of it when the record is written
}

// Block is a block of content. Of an image there is its type, how many bytes it
// had, and their FNV-1a hash of 128 bits in hex, which tells it from others.
type Block struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitzero"`
	MIMEType string `json:"mimeType,omitzero"`
	Bytes    int    `json:"bytes,omitzero"`
	FNV      string `json:"fnv1a128,omitzero"`
}

// blocks are content as the log has it.
func blocks(content []pipeline.Content) []Block {
	out := make([]Block, len(content))
	for i, c := range content {
		if out[i] = (Block{Type: c.Type(), Text: c.Text(), MIMEType: c.MIMEType()}); c.Type() == "image" {
			data := c.Data()
			hash := fnv.New128a()
			_, _ = hash.Write(data)
			out[i].Bytes, out[i].FNV = len(data), fmt.Sprintf("%x", hash.Sum(nil))
		}
	}
	return out
}

// Shown is what the card of the result is made from.
func (r *Result) Shown() pipeline.Shown {
	s := pipeline.Shown{Failure: r.Failure, Meta: r.Meta}
	for _, b := range r.Content {
		switch b.Type {
		case "text":
			s.Content = append(s.Content, pipeline.Text(b.Text))
		case "image":
			s.Content = append(s.Content, pipeline.Image(nil, b.MIMEType))
		}
	}
	return s
}

// Preset is a change of the preset.
type Preset struct {
	Head
	From        string        `json:"from"`
	To          string        `json:"to"`
	By          string        `json:"by"` // who wanted it
	Enforcement pipeline.JSON `json:"enforcement,omitzero"`
}

// JobEnd is a job that has ended.
type JobEnd struct {
	Head
	Job         jobs.Job `json:"job"`
	Reason      string   `json:"reason,omitzero"` // that job_kill gave
	Limit       string   `json:"limit,omitzero"`  // that ended it
	Error       string   `json:"error,omitzero"`  // why it could not be followed
	DurationMs  float64  `json:"durationMs"`
	MissedBytes int64    `json:"missedBytes,omitzero"` // of its output
}

// Note is anything else that a reader of the log should know.
type Note struct {
	Head
	Kind string `json:"kind"` // such as "roots"
	Text string `json:"text"`
}

// Missing counts records that could not be written before this one.
type Missing struct {
	Head
	Records int64  `json:"records"`
	Reason  string `json:"reason"`
}

// End is the end of a connection. One without it was killed, or goes on.
type End struct {
	Head
	Reason string `json:"reason"`
}

func (*Start) kind() string     { return "start" }
func (*Continued) kind() string { return "continued" }
func (*Call) kind() string      { return "call" }
func (*Question) kind() string  { return "question" }
func (*Outcome) kind() string   { return "outcome" }
func (*Result) kind() string    { return "result" }
func (*Preset) kind() string    { return "preset" }
func (*JobEnd) kind() string    { return "job" }
func (*Note) kind() string      { return "note" }
func (*Missing) kind() string   { return "missing" }
func (*End) kind() string       { return "end" }

// blank is an empty record of a type, nil for an unknown one.
func blank(kind string) Record {
	for _, r := range [...]Record{&Start{}, &Continued{}, &Call{}, &Question{}, &Outcome{}, &Result{}, &Preset{}, &JobEnd{}, &Note{}, &Missing{}, &End{}} {
		if r.kind() == kind {
			return r
		}
	}
	return nil
}

// encode is a record as a line, without secrets. It doesn't fail: whatever
// can't be written takes the place of a note about that.
func encode(r Record, m *masker) []byte {
	h := *r.Header()
	if c, ok := r.(*Call); ok {
		m.learn(c.Arguments)
	}
	r.mask(m)
	r.Header().V, r.Header().Type = Version, r.kind()
	line, err := pipeline.MarshalValue(r)
	if err == nil && !m.shows(line.String()) {
		return append([]byte(line.String()), '\n')
	}
	why := "a record " + r.kind() + " is withheld: it holds a secret in a way that can't be masked"
	if err != nil {
		why = m.text("a record " + r.kind() + " can't be written as JSON: " + err.Error())
	}
	h.V, h.Type = Version, "note"
	line, _ = pipeline.MarshalValue(&Note{Head: h, Kind: "withheld", Text: why})
	return append([]byte(line.String()), '\n')
}

// decode is the record of a line, or why it is none.
func decode(line []byte) (Record, error) {
	var h Head
	if err := json.Unmarshal(line, &h); err != nil {
		return nil, errNoRecord
	}
	switch {
	case h.V > Version:
		return nil, fmt.Errorf("a record of version %d, which this dshx does not know", h.V)
	case h.V != Version:
		return nil, errNoRecord
	}
	r := blank(h.Type)
	if r == nil {
		return nil, fmt.Errorf("a record of the unknown type %q", clip(h.Type))
	}
	if err := json.Unmarshal(line, r); err != nil {
		return nil, fmt.Errorf("a record %s that can't be read", h.Type)
	}
	return r, nil
}

// clip is the beginning of a text that may be of any length.
func clip(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}
