package fs

import (
	"bytes"
	"github.com/dshx/dshx/pipeline"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestF4_21_WhatAFileIs(t *testing.T) {
	var picture bytes.Buffer
	img := image.NewRGBA(image.Rect(0, 0, 3, 2))
	img.Set(1, 1, color.White)
	if err := png.Encode(&picture, img); err != nil {
		t.Fatal(err)
	}
	noise := "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + strings.Repeat("\x01\xfe\x00\x7f", 100)
	r := newRig(t, map[string]string{
		"a.png": `{"json":true}`, "b.jpeg": "", "c.png": noise,
		"d.pdf": "%PDF-1.7\n" + strings.Repeat("ascii text ", 182) + "\x00\x01\x02\xff", "e.dat": picture.String(),
	}, nil)
	g := r.read("a.png").ok().is("kind", "text")
	g.is("lines.0.text", `{"json":true}`)
	g = r.read("b.jpeg").ok().is("kind", "text").is("totalLines", 0).is("bytes", 0).is("lineEnding", "none")
	if len(g.at("lines").([]any)) != 0 {
		t.Error("lines of nothing")
	}
	g.says("empty")
	r.read("c.png").code("FS_NOT_TEXT").is("type", "image/png").is("bytes", len(noise))
	r.read("d.pdf").code("FS_NOT_TEXT").is("type", "application/pdf").says("application/pdf")
	g = r.read("e.dat").ok().is("kind", "image").is("mimeType", "image/png").is("width", 3).is("height", 2).is("bytes", picture.Len())
	content := g.r.Content()
	if len(content) != 2 || content[1].MIMEType() != "image/png" || !bytes.Equal(content[1].Data(), picture.Bytes()) {
		t.Errorf("content %d", len(content))
	}
	// It was seen, so it may be replaced.
	r.call("write", "file_path", "e.dat", "content", "text now\n").ok()
	// An edit is for text alone.
	r.put("x", "text")
	r.read("x").ok()
	r.edit("x", "text", "t\x00").ok()
	r.edit("x", "t", "u").code("FS_NOT_TEXT")
}

func TestF4_22_LargeFiles(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip("files of 2 GiB take minutes under the race detector, and too long for -short")
	}
	r := newRig(t, nil, nil)
	line := strings.Repeat("0123456789abcde", 68) + "abc\n" // 1,024 bytes
	big, err := os.Create(filepath.Join(r.ws, "big"))
	if err != nil {
		t.Fatal(err)
	}
	const size = 2 << 30
	if _, err := big.WriteString(strings.Repeat(line, 1024)); err != nil {
		t.Fatal(err)
	}
	block := bytes.Repeat([]byte(line), 4096)
	for n := int64(len(line) * 1024); n < size; n += int64(len(block)) {
		if _, err := big.Write(block[:min(int64(len(block)), size-n)]); err != nil {
			t.Skipf("no room for a large file: %v", err)
		}
	}
	if err := big.Close(); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(big.Name())
	wide := strings.Repeat("x", 300<<20)
	r.put("wide", wide)
	wide = ""
	runtime.GC()
	debug.FreeOSMemory()
	before := resident(t)
	g := r.call("read", "file_path", "big", "limit", 1).ok().is("totalLines", size/1024).is("truncated", true).is("bytes", size)
	g.is("lines.0.text", line[:len(line)-1])
	r.call("read", "file_path", "big", "offset", size/1024-1, "limit", 10).ok().is("lines.1.n", size/1024)
	r.call("read", "file_path", "big", "offset", size).ok().is("totalLines", size/1024).is("truncated", false).says("there is no line")
	g = r.read("wide").ok().is("totalLines", 1).is("lines.0.cut", 300<<20-2000)
	if n := len(g.at("lines.0.text").(string)); n != 2000 {
		t.Errorf("%d characters of a long line", n)
	}
	if grown := resident(t) - before; grown > 64<<20 {
		t.Errorf("memory grew by %d MiB", grown>>20)
	}
	r.raw("read", `{"file_path":"big","offset":0}`).code("INVALID_ARGS").is("path", "offset")
	r.raw("read", `{"file_path":"big","limit":-1}`).code("INVALID_ARGS").is("path", "limit")
	r.raw("read", `{"file_path":"big","limit":1e3}`).code("INVALID_ARGS").is("path", "limit")
	r.raw("read", `{"file_path":"big","limit":9007199254740993}`).ok()
}

// resident is the memory that the process has, in bytes. What the collector has
// freed stays for a while, so it is near the most that there was.
func resident(t *testing.T) int {
	t.Helper()
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n := 0
			for _, c := range rest {
				if c >= '0' && c <= '9' {
					n = 10*n + int(c-'0')
				}
			}
			return n << 10
		}
	}
	return 0
}

func TestRead_Window(t *testing.T) {
	r := newRig(t, map[string]string{"a": numbered(5000), "long": strings.Repeat(strings.Repeat("y", 1000)+"\n", 1000)}, nil)
	g := r.read("a").ok().is("truncated", true).is("offset", 1)
	if n := len(g.at("lines").([]any)); n != 2000 {
		t.Errorf("%d lines", n)
	}
	g.says("1\tline-001\n", "[lines 1 to 2000 of 5000; read on with offset 2001]")
	r.call("read", "file_path", "a", "offset", 4999).ok().is("truncated", false).says("5000\tline-5000")
	// The value has more than a model gets, which is told where to go on.
	g = r.read("long").ok().is("truncated", true)
	if n := len(g.at("lines").([]any)); n < 200 || len(g.text) > 48<<10 {
		t.Errorf("%d lines in the value, content of %d bytes", n, len(g.text))
	}
	g.says("read on with offset 4")
}

// F6-19: nothing is cut inside of a character.
func TestF6_19_CutsAreBetweenCharacters(t *testing.T) {
	for k := range 4 {
		line := strings.Repeat("a", k) + strings.Repeat("😀", 40000)
		r := newRig(t, map[string]string{"f": line + "\n" + strings.Repeat("é", 100000)}, nil)
		for _, g := range []got{r.read("f").ok(), r.call("grep", "pattern", "😀$").ok(), r.call("grep", "pattern", "😀", "after", 1).ok()} {
			for _, s := range []string{g.text, g.r.Value().String()} {
				if !utf8.ValidString(s) || strings.Contains(s, "\uFFFD") || strings.Contains(s, `\ud8`) {
					t.Errorf("k %d: cut inside of a character", k)
				}
			}
		}
		r.read("f").is("lines.0.cut", 40000+k-2000)
	}
}

// F6-12: whatever a result has none of is an empty list.
func TestF6_12_EmptyLists(t *testing.T) {
	r := newRig(t, map[string]string{"empty": "", "one": "x\n"}, nil)
	if err := os.Mkdir(filepath.Join(r.ws, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.read("one").ok()
	for name, g := range map[string]got{
		"lines": r.read("empty"), "entries": r.call("list", "path", "dir"), "paths": r.call("glob", "pattern", "none*"),
		"files": r.call("grep", "pattern", "none"), "edits": r.edit("one", "x", "y"),
	} {
		if _, isList := g.ok().at(name).([]any); !isList {
			t.Errorf("%s is %v", name, g.at(name))
		}
		if strings.Contains(g.r.Value().String(), "null,") && name != "paths" && name != "files" {
			t.Errorf("null in %s", g.r.Value())
		}
	}
	r.read("dir").ok().is("kind", "directory").is("total", 0).is("truncated", false)
	for _, card := range []struct{ tool, args string }{{"read", `{"file_path":"empty"}`}, {"glob", `{"pattern":"none*"}`}, {"grep", `{"pattern":"none"}`}, {"list", `{}`}} {
		tool := r.scope.Lookup(card.tool)
		g := r.raw(card.tool, card.args)
		if c := pipeline.Present(tool, card.tool, mustJSON(t, card.args), g.r.Shown()); strings.Contains(marshalCard(c), "null") {
			t.Errorf("card of %s: %s", card.tool, marshalCard(c))
		}
	}
}
