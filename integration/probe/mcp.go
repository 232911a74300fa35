package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

func init() { registerProgram("mcp", mcpServer) }

// mcpServer is as much of an MCP server over standard input and output as the
// test of editors' configurations needs of one while dshx has none of its own:
// it answers initialize, ping, tools/list and calls of list, a tool that names
// what is in the workspace.
//
//	probe mcp --workspace DIR
func mcpServer(args []string) int {
	if len(args) != 2 || args[0] != "--workspace" {
		fmt.Fprintln(os.Stderr, "usage: probe mcp --workspace DIR")
		return 2
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	out := json.NewEncoder(os.Stdout)
	for in.Scan() {
		var request struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				ProtocolVersion string `json:"protocolVersion"`
				Name            string `json:"name"`
			} `json:"params"`
		}
		if err := json.Unmarshal(in.Bytes(), &request); err != nil {
			fmt.Fprintln(os.Stderr, "probe mcp:", err)
			return 1
		}
		if request.ID == nil {
			continue
		}
		reply := map[string]any{"jsonrpc": "2.0", "id": request.ID}
		switch {
		case request.Method == "initialize":
			reply["result"] = map[string]any{"protocolVersion": request.Params.ProtocolVersion,
				"capabilities": map[string]any{"tools": map[string]any{}}, "serverInfo": map[string]any{"name": "probe", "version": "1"}}
		case request.Method == "ping":
			reply["result"] = map[string]any{}
		case request.Method == "tools/list":
			reply["result"] = map[string]any{"tools": []any{map[string]any{"name": "list", "inputSchema": map[string]any{"type": "object"}}}}
		case request.Method == "tools/call" && request.Params.Name == "list":
			reply["result"] = mcpList(args[1])
		default:
			reply["error"] = map[string]any{"code": -32601, "message": "no method " + request.Method}
		}
		if err := out.Encode(reply); err != nil {
			return 1
		}
	}
	return 0
}

func mcpList(dir string) map[string]any {
	names, err := os.ReadDir(dir)
	if err != nil {
		return map[string]any{"isError": true, "content": []any{map[string]any{"type": "text", "text": err.Error()}}}
	}
	entries := []any{}
	for _, n := range names {
		entries = append(entries, map[string]any{"name": n.Name()})
	}
	return map[string]any{"content": []any{}, "structuredContent": map[string]any{"entries": entries}}
}
