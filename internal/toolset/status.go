package toolset

import (
	"fmt"
	"strings"
)

// Status is what is in force, and what goes on, for people.
func (s *Session) Status() string {
	p, e := s.Policy(), s.Enforcement()
	if p == nil {
		return "No policy is in force."
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Preset %s, workspace %s, network %s. ", p.Preset(), p.Workspace(), p.Network())
	switch e.Level {
	case "full":
		b.WriteString("The kernel holds all that the preset promises.")
	case "none":
		b.WriteString("Nothing is confined.")
	default:
		b.WriteString("The kernel holds what the preset promises, but for these gaps:")
		for _, g := range e.Gaps {
			fmt.Fprintf(&b, "\n- %s: %s", g.Promise, g.Reason)
		}
	}
	if p.Approvals() == "ask" {
		b.WriteString("\nWhat is beyond it is asked about, call by call.")
	} else {
		b.WriteString("\nWhat is beyond it is refused; nobody is asked.")
	}
	if live := s.LiveJobs(); len(live) > 0 {
		b.WriteString("\nRunning in the background: " + strings.Join(live, ", ") + ".")
	}
	return b.String()
}
