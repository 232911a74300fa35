// Package jsonl is the front door for programs: JSON values, one a line, in
// and out. It decodes lines into calls of a pipeline, brings results, events
// and questions back, and decides nothing itself.
//
// Each line is a request:
//
//	{"id":1,"tool":"bash","arguments":{"command":"make test"},"stream":true}
//	{"cancel":1,"reason":"user"}
//	{"approve":"ap-1","outcome":"allowed-once"}
//	{"ping":7}
//
// and each call gets one result, in the order of the calls. A line that is no
// request is answered with PARSE_ERROR, and reading goes on. Memory is bounded
// by the longest line that is taken (64 MiB), not by what is sent: a longer
// line is skipped as it comes, a reader that doesn't read stops the writers,
// past some MiB of results that wait for it no call begins, and past some
// thousand calls nothing more is read until some have ended.
//
// It does not speak to people: nothing but protocol lines goes to the output.
package jsonl
