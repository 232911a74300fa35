// Command sdkecho is what dshx serve is measured against: a server of the
// official SDK and nothing else, with one tool that says what it was told.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	s := mcp.NewServer(&mcp.Implementation{Name: "echo", Version: "1"}, nil)
	schema := func() json.RawMessage {
		return json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}`)
	}
	// As raw JSON in and out: what the SDK makes of Go types by itself comes on top.
	s.AddTool(&mcp.Tool{Name: "echo", Description: "says it again", InputSchema: schema(), OutputSchema: schema()},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var args struct {
				Text string `json:"text"`
			}
			if err := json.Unmarshal(r.Params.Arguments, &args); err != nil {
				return nil, err
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: args.Text}}, StructuredContent: r.Params.Arguments}, nil
		})
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, "sdkecho:", err)
		os.Exit(1)
	}
}
