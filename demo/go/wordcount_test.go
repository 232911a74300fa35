package wordcount

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestTop(t *testing.T) {
	for _, tc := range []struct {
		text string
		n    int
		want []Count
	}{
		{"", 3, []Count{}},
		{"b a b", 1, []Count{{"b", 2}}},
		{"b a", 5, []Count{{"a", 1}, {"b", 1}}},
	} {
		got, err := Top(strings.NewReader(tc.text), tc.n)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, tc.want) {
			t.Errorf("Top(%q, %d) = %v, want %v", tc.text, tc.n, got, tc.want)
		}
	}
}

// A test that writes, renames and changes a mode, as tests do, must not notice the sandbox.
func TestTop_File(t *testing.T) {
	dir := t.TempDir()
	draft, final := filepath.Join(dir, "draft"), filepath.Join(dir, "text")
	if err := os.WriteFile(draft, []byte("one two two"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(draft, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(draft, final); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(final)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, err := Top(f, 1)
	if err != nil || got[0] != (Count{"two", 2}) {
		t.Errorf("Top = %v, %v", got, err)
	}
}
