package pipeline

// A Card is what an interface for people shows of a call: before its result is
// there (PresentCall) and after (Present). Making one does no I/O and reads no
// clock and no state, and is given nothing that a log doesn't keep, so that a
// log replays to the same cards.
//
// The kinds are GenericCard, TerminalCard, DiffCard, ReadCard, SearchCard and
// WebCard. The last three come only after a result.
type Card interface{ card() string }

// Kinds of what a call does, for an icon.
const (
	KindRead    = "read"
	KindEdit    = "edit"
	KindDelete  = "delete"
	KindMove    = "move"
	KindSearch  = "search"
	KindExecute = "execute"
	KindFetch   = "fetch"
	KindOther   = "other"
)

// Location is a file that a call is about, for an editor to follow; Line is
// from 1, 0 for none.
type Location struct {
	Path string `json:"path"`
	Line int    `json:"line,omitzero"`
}

// GenericCard is a title and an icon.
type GenericCard struct {
	Title     string     `json:"title"`
	Kind      string     `json:"kind"`
	Locations []Location `json:"locations"`
}

// TerminalCard is a command and what it printed. ExitCode and Signal are nil
// before the end.
type TerminalCard struct {
	Title    string  `json:"title"`
	Cwd      string  `json:"cwd"`
	Output   string  `json:"output"`
	ExitCode *int    `json:"exitCode"`
	Signal   *string `json:"signal"`
}

// Hunk is a changed region; a line begins with " ", "-" or "+".
type Hunk struct {
	OldStart int      `json:"oldStart"`
	OldLines int      `json:"oldLines"`
	NewStart int      `json:"newStart"`
	NewLines int      `json:"newLines"`
	Lines    []string `json:"lines"`
}

// FileDiff is one file's change; OldText is nil for a new file, and Hunks is
// empty before the result.
type FileDiff struct {
	Path    string  `json:"path"`
	OldText *string `json:"oldText"`
	NewText string  `json:"newText"`
	Hunks   []Hunk  `json:"hunks"`
}

// DiffCard is a change of files.
type DiffCard struct {
	Title     string     `json:"title"`
	Diffs     []FileDiff `json:"diffs"`
	Locations []Location `json:"locations"`
}

// ReadCard is a window of a file.
type ReadCard struct {
	Path       string   `json:"path"`
	Offset     int      `json:"offset"`
	Lines      []string `json:"lines"`
	TotalLines int      `json:"totalLines"`
	Lang       string   `json:"lang"`
}

// SearchCard is what a search found: lines by file ("matches") or a list of
// paths ("paths").
type SearchCard struct {
	Shape     string       `json:"shape"`
	Truncated bool         `json:"truncated"`
	Total     int          `json:"total"`
	Files     []SearchFile `json:"files"`
}

// SearchFile is a file that a search found, with its matches if they count.
type SearchFile struct {
	Path    string        `json:"path"`
	Matches []SearchMatch `json:"matches"`
}

// SearchMatch is a line of a file.
type SearchMatch struct {
	Line int    `json:"line"`
	Text string `json:"text"`
}

// WebCard is something fetched from or found in the web.
type WebCard struct {
	Kind  string `json:"kind"` // "search" or "fetch"
	Title string `json:"title"`
	URL   string `json:"url"`
}

func (GenericCard) card() string  { return "generic" }
func (TerminalCard) card() string { return "terminal" }
func (DiffCard) card() string     { return "diff" }
func (ReadCard) card() string     { return "read" }
func (SearchCard) card() string   { return "search" }
func (WebCard) card() string      { return "web" }

// MarshalCard is a card as JSON, its kind in the member "card"; null for nil.
func MarshalCard(c Card) JSON {
	if c == nil {
		return JSON{"null"}
	}
	j, err := MarshalValue(c)
	if err != nil {
		// A text that is no UTF-8, of a tool that didn't take care.
		j, _ = MarshalValue(GenericCard{Title: "", Kind: KindOther})
		return JSON{`{"card":"generic",` + j.text[1:]}
	}
	return JSON{`{"card":"` + c.card() + `",` + j.text[1:]}
}

// Shown is how a call ended, as far as presentation knows and a log keeps: no
// value, whole or partial. A call's own result gives one (Result.Shown), and so
// does what was written down of it.
type Shown struct {
	Failure *Error    `json:"error,omitzero"` // nil for a success; its details have no member "partial"
	Content []Content `json:"content"`        // what a model read
	Meta    JSON      `json:"meta,omitzero"`  // of the tool's Spec.Meta
}

// OK reports success.
func (s Shown) OK() bool { return s.Failure == nil }

// Decode stores the meta in what into points to. It reports false where there
// is none, or one of another shape: an older version's.
func (s Shown) Decode(into any) bool {
	return !s.Meta.IsZero() && s.Meta.text != "null" && s.Meta.Decode(into) == nil
}

// Present is the card of a call that has ended, live and from a log. tool is
// the one of that name, or nil where there is none any more. It is total.
func Present(tool *Tool, name string, args JSON, s Shown) Card {
	// A call that reached no tool shows none, though one of this name may be
	// there for others.
	if tool == nil || s.Failure != nil && s.Failure.Code == CodeUnknownTool {
		return genericCard(name)
	}
	s.Failure = s.Failure.kept()
	return tool.presentEnd(args, s)
}

// genericCard is the card of a tool that gives none, or whose function failed.
func genericCard(name string) Card {
	return GenericCard{Title: cutText(name, 200), Kind: KindOther, Locations: []Location{}}
}
