//lint:file-ignore SA1019 deprecated for protocols that are not spoken here; those that are have it

package mcp

import (
	"context"
	"slices"

	"github.com/dshx/dshx/pipeline"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// capabilities are what clients are told that there is.
func capabilities() *sdk.ServerCapabilities {
	return &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{ListChanged: true}, Prompts: &sdk.PromptCapabilities{}, Logging: &sdk.LoggingCapabilities{}}
}

// jobEnded tells the client that a job has ended, at once and with the next
// result.
func (s *session) jobEnded(end JobEnd) {
	s.mu.Lock()
	s.ended = append(s.ended, end.Job)
	if n := len(s.ended) - maxEnded; n > 0 {
		s.ended = slices.Delete(s.ended, 0, n)
	}
	s.mu.Unlock()
	if s.peer.InitializeParams() == nil {
		return
	}
	_ = s.peer.Log(context.Background(), &sdk.LoggingMessageParams{Level: "info", Logger: "dshx", Data: end.Text,
		Meta: sdk.Meta{"dshx/job": rawJSON(end.Job)}})
}

// takeEnded are the jobs that the next result tells of.
func (s *session) takeEnded() []pipeline.JSON {
	s.mu.Lock()
	defer s.mu.Unlock()
	jobs := s.ended
	s.ended = nil
	return jobs
}

func (s *session) untakeEnded(jobs []pipeline.JSON) {
	if len(jobs) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = append(slices.Clip(jobs), s.ended...)
}
