package mcp

import (
	"context"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Prompts are commands of the person at the client. A model can't call them: they
// are no tools.

// Presets is a Session whose preset can be switched.
type Presets interface {
	// Presets are the names that there are.
	Presets() []string
	// SwitchPreset puts another preset in force for the calls that begin from now
	// on, and says what is in force then.
	//
	// Errors: *sandboxpolicy.UsageError for a name that is none; what keeps the
	// policy from being in force, in which case the old one stays.
	SwitchPreset(ctx context.Context, name string) (status string, err error)
}

func (s *session) addPrompts() {
	s.server.AddPrompt(&sdk.Prompt{Name: "dshx-status", Title: "dshx: status", Description: "What dshx has in force: preset, workspace, what the kernel holds, jobs"},
		func(ctx context.Context, _ *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			if err := s.awaitOpen(ctx); err != nil {
				return nil, err
			}
			return prompt("What dshx has in force", s.tools.Status()), nil
		})
	if !s.o.Presets {
		return
	}
	s.server.AddPrompt(&sdk.Prompt{Name: "dshx-preset", Title: "dshx: switch the preset", Description: "Switch the preset that dshx's tools work under",
		Arguments: []*sdk.PromptArgument{{Name: "preset", Title: "Preset", Description: "read-only, workspace-write, danger-full-access, or one of your configuration", Required: true}}},
		func(ctx context.Context, req *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			if err := s.awaitOpen(ctx); err != nil {
				return nil, err
			}
			host, ok := s.tools.(Presets)
			name := req.Params.Arguments["preset"]
			if !ok || name == "" {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "dshx-preset needs the argument preset"}
			}
			status, err := host.SwitchPreset(ctx, name)
			if err != nil {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the preset stays as it is: " + err.Error() + "; there are " + strings.Join(host.Presets(), ", ")}
			}
			return prompt("dshx's preset is "+strconv.Quote(name), status), nil
		})
}

// awaitOpen waits for the policy to be in force.
func (s *session) awaitOpen(ctx context.Context) error {
	select {
	case <-s.opened:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.ctx.Done():
	}
	if !s.isOpen() {
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "no policy is in force"}
	}
	return nil
}

// prompt is a message that tells a person, and the model that they talk to.
func prompt(description, text string) *sdk.GetPromptResult {
	return &sdk.GetPromptResult{Description: description, Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: text}}}}
}
