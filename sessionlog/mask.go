package sessionlog

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dshx/dshx/jobs"
	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/sandboxpolicy"
	"github.com/go-json-experiment/json/jsontext"
)

// masked stands where a secret was. It is shorter than any secret, so none
// holds it, and masking again comes to an end.
const masked = "***"

// minLine is how long a line of a secret of several lines must be to be one by
// itself.
const minLine = 16

// masker takes secrets out of texts. The zero value knows none. It is for one
// goroutine.
type masker struct {
	given    []string
	secrets  []string // what is looked for, long ones first
	replacer *strings.Replacer
	learnt   int
}

// newMasker knows secrets, of those that are long enough. Of one that has several
// lines each is a secret, too: results have lines one by one. So are the ways in
// which messages and programs quote one.
func newMasker(secrets []string) *masker {
	m := &masker{given: secrets}
	for _, s := range secrets {
		s = strings.ToValidUTF8(s, "\uFFFD") // as texts are
		quoted, escaped := strconv.Quote(s), encodedString(s)
		m.secrets = append(m.secrets, s, quoted[1:len(quoted)-1], escaped[1:len(escaped)-1])
		if strings.Contains(s, "\n") {
			for line := range strings.Lines(s) {
				if line = strings.TrimRight(line, "\r\n"); len(line) >= minLine && !strings.HasPrefix(line, "-----") {
					m.secrets = append(m.secrets, line)
				}
			}
		}
	}
	m.secrets = slices.DeleteFunc(m.secrets, func(s string) bool { return len(s) < sandboxpolicy.SecretMin })
	slices.SortFunc(m.secrets, func(a, b string) int {
		if d := len(b) - len(a); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	m.secrets = slices.Compact(m.secrets)
	pairs := make([]string, 0, 2*len(m.secrets))
	for _, s := range m.secrets {
		pairs = append(pairs, s, masked)
	}
	m.replacer = strings.NewReplacer(pairs...)
	return m
}

// encodedString is s as JSON.
func encodedString(s string) string {
	b, _ := jsontext.AppendQuote(nil, s) // of valid UTF-8 it doesn't fail
	return string(b)
}

// holds reports a secret in s.
func (m *masker) holds(s string) bool {
	return slices.ContainsFunc(m.secrets, func(secret string) bool { return strings.Contains(s, secret) })
}

// text is s, valid UTF-8, without secrets.
func (m *masker) text(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	for m.holds(s) { // again, since what is left may join to one
		s = m.replacer.Replace(s)
	}
	return s
}

// json is j with every string, name and number in it as text gives them,
// whichever way they were escaped.
func (m *masker) json(j pipeline.JSON) pipeline.JSON {
	if j.IsZero() || len(m.secrets) == 0 {
		return j
	}
	var out strings.Builder
	dec := jsontext.NewDecoder(strings.NewReader(j.String()), jsontext.AllowDuplicateNames(true))
	// Two names may be one when masked.
	enc := jsontext.NewEncoder(&out, jsontext.AllowDuplicateNames(true), jsontext.PreserveRawStrings(true))
	changed := false
	for {
		if k := dec.PeekKind(); k != '"' && k != '0' {
			tok, err := dec.ReadToken()
			if err != nil {
				break // the end; j was materialised
			}
			_ = enc.WriteToken(tok)
			continue
		}
		raw, err := dec.ReadValue()
		if err != nil {
			break
		}
		said := string(raw)
		if raw.Kind() == '"' {
			b, _ := jsontext.AppendUnquote(nil, raw)
			said = string(b)
		}
		if !m.holds(said) {
			_ = enc.WriteValue(raw)
			continue
		}
		changed = true
		_ = enc.WriteToken(jsontext.String(m.text(said)))
	}
	if !changed {
		return j
	}
	// Names that became one make no value that anybody can read in one way.
	clean, err := pipeline.ParseJSON([]byte(out.String()))
	if err != nil {
		clean, _ = pipeline.MarshalValue(masked)
	}
	return clean
}

// failure is e without secrets.
func (m *masker) failure(e *pipeline.Error) *pipeline.Error {
	if e == nil {
		return nil
	}
	return &pipeline.Error{Code: m.text(e.Code), Message: m.text(e.Message), Details: m.json(e.Details)}
}

// shows reports a secret in a line whose strings are all masked: one that is
// itself written like JSON may be made up by what stands between them.
func (m *masker) shows(line string) bool {
	return slices.ContainsFunc(m.secrets, func(s string) bool {
		return strings.ContainsAny(s, `"[]{}`) && strings.Contains(line, s)
	})
}

// maxLearnt bounds the secrets that a masker learns.
const maxLearnt = 250

// learn makes secrets of what arguments give to names that the policy calls those
// of secrets: variables for a command, from here on.
func (m *masker) learn(args pipeline.JSON) {
	dec := jsontext.NewDecoder(strings.NewReader(args.String()))
	for {
		tok, err := dec.ReadToken()
		if err != nil {
			return
		}
		kind, length := dec.StackIndex(dec.StackDepth())
		if kind != '{' || length%2 == 0 || !sandboxpolicy.SecretName(tok.String()) || dec.PeekKind() != '"' {
			continue
		}
		value, err := dec.ReadToken()
		if err != nil {
			return
		}
		if v := value.String(); m.learnt < maxLearnt && sandboxpolicy.IsSecret(v) && !slices.Contains(m.given, v) {
			learnt := m.learnt + 1
			*m = *newMasker(append(slices.Clip(m.given), v))
			m.learnt = learnt
		}
	}
}

func (r *Start) mask(m *masker) {
	r.Version, r.Preset, r.Workspace = m.text(r.Version), m.text(r.Preset), m.text(r.Workspace)
	r.Enforcement = m.json(r.Enforcement)
}

func (*Continued) mask(*masker) {}

func (r *Call) mask(m *masker) {
	r.ID, r.Tool, r.Arguments = m.text(r.ID), m.text(r.Tool), m.json(r.Arguments)
}

func (r *Question) mask(m *masker) {
	r.Reason, r.Display, r.Grants = m.text(r.Reason), m.text(r.Display), m.json(r.Grants)
}

func (*Outcome) mask(*masker) {} // it has words of the pipeline's alone

func (r *Result) mask(m *masker) {
	if r.raw != nil {
		r.Content, r.raw = blocks(r.raw), nil
	}
	r.ID, r.Tool = m.text(r.ID), m.text(r.Tool)
	r.Failure, r.Meta = m.failure(r.Failure), m.json(r.Meta)
	for i := range r.Content {
		r.Content[i].Text, r.Content[i].MIMEType = m.text(r.Content[i].Text), m.text(r.Content[i].MIMEType)
	}
}

func (r *Preset) mask(m *masker) {
	r.From, r.To, r.By, r.Enforcement = m.text(r.From), m.text(r.To), m.text(r.By), m.json(r.Enforcement)
}

func (r *JobEnd) mask(m *masker) {
	j := &r.Job
	j.ID, j.Kind, j.Label, j.ParentCallID = m.text(j.ID), m.text(j.Kind), m.text(j.Label), m.text(j.ParentCallID)
	j.Status = jobs.Status(m.text(string(j.Status)))
	if j.Signal != nil {
		s := m.text(*j.Signal)
		j.Signal = &s
	}
	if j.EndedBy != nil {
		by := jobs.EndedBy(m.text(string(*j.EndedBy)))
		j.EndedBy = &by
	}
	r.Reason, r.Limit, r.Error = m.text(r.Reason), m.text(r.Limit), m.text(r.Error)
}

func (r *Note) mask(m *masker) { r.Kind, r.Text = m.text(r.Kind), m.text(r.Text) }

func (r *Missing) mask(m *masker) { r.Reason = m.text(r.Reason) }

func (r *End) mask(m *masker) { r.Reason = m.text(r.Reason) }
