// Package editors knows how clients of MCP (editors, agents, command-line
// tools) are told of a server: in which file, in which shape, with which of
// their variables, and with which timeout.
//
//	editors.Print(os.Stdout, "zed", editors.Paths{Program: "/usr/bin/dshx-mcp", Workspace: "/home/me/app"})
//
// prints what goes into Zed's settings, and Explain where to put it. The text
// depends on nothing but its arguments: no file is read, no environment, no
// clock. Every text in it is quoted for its syntax, and what a client's file
// could not carry unchanged is refused, not mangled: control characters,
// invalid UTF-8, and whatever this client would take for a variable of its
// own.
//
// A client is one entry of the table in clients.go; docs/editors has a page
// for each, whose first part is generated from that table. The package starts
// nothing: internal/editorclient, for tests, reads what is printed here as the
// clients do.
package editors
