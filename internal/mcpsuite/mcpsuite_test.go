package mcpsuite

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
)

func TestProxy_AddsTheTokenAndNothingElse(t *testing.T) {
	flushed := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, want := range []struct{ got, want string }{
			{r.Host, "evil.example"}, {r.Header.Get("Origin"), "https://evil.example"}, {r.Header.Get("Authorization"), "Bearer secret"},
			{r.URL.Path, "/mcp"}, {r.Header.Get("X-Forwarded-For"), ""}, {r.Header.Get("Mcp-Session-Id"), "s"},
		} {
			if want.got != want.want {
				t.Errorf("got %q, want %q", want.got, want.want)
			}
		}
		io.WriteString(w, "first")
		w.(http.Flusher).Flush()
		<-flushed // the first event must come through before the reply ends
		io.WriteString(w, "second")
	}))
	defer server.Close()
	target, _ := url.Parse(server.URL)
	proxy := httptest.NewServer(Proxy(target, "secret"))
	defer proxy.Close()
	req, _ := http.NewRequest("POST", proxy.URL+"/mcp", strings.NewReader("{}"))
	req.Host = "evil.example"
	req.Header.Set("Origin", "https://evil.example")
	req.Header.Set("Mcp-Session-Id", "s")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	first := make([]byte, 5)
	if _, err := io.ReadFull(res.Body, first); err != nil || string(first) != "first" {
		t.Fatalf("%q %v", first, err)
	}
	close(flushed)
	if rest, err := io.ReadAll(res.Body); err != nil || string(rest) != "second" {
		t.Errorf("%q %v", rest, err)
	}
}

func TestSummary(t *testing.T) {
	got := Summary("=== SUMMARY ===\n✓ ping: 1 passed, 0 failed\n✗ dns-rebinding-protection: 1 passed, 2 failed\n\nTotal: 2 passed, 2 failed\n")
	want := map[string]Scenario{"ping": {1, 0}, "dns-rebinding-protection": {1, 2}}
	if !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if got := Summary("Error: connect\n"); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

func TestNewEnough(t *testing.T) {
	for printed, want := range map[string]bool{"v22.23.3\n": true, "v100.0.0\n": true, "v20.20.2\n": false, "": false, "22.1\n": false, "v99999999999999999999.1": false} {
		if NewEnough(printed) != want {
			t.Errorf("%q: not %v", printed, want)
		}
	}
}

func TestDir(t *testing.T) {
	t.Setenv("DSHX_MCP_CLIENTS", "/c")
	lock := "../../integration/testdata/mcp-clients/package-lock.json"
	dir, err := Dir(lock)
	if err != nil || filepath.Dir(dir) != "/c" || len(filepath.Base(dir)) != 16 {
		t.Errorf("%q %v", dir, err)
	}
	if _, err := Dir(lock + ".none"); err == nil {
		t.Error("no lock file, no error")
	}
}
