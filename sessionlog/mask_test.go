package sessionlog

import (
	"bytes"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/dshx/dshx/jobs"
	"github.com/dshx/dshx/pipeline"
	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

// texts are all strings of a line, decoded, names and numbers included.
func texts(t interface{ Fatal(...any) }, line []byte) []string {
	var out []string
	for dec := jsontext.NewDecoder(bytes.NewReader(line), jsontext.AllowDuplicateNames(true)); ; {
		tok, err := dec.ReadToken()
		if err != nil {
			return out
		}
		if k := tok.Kind(); k == '"' || k == '0' {
			out = append(out, tok.String())
		}
	}
}

// escaped is s in JSON with all characters as \u escapes, in lower or upper case.
func escaped(s, format string) string {
	var b strings.Builder
	for _, u := range utf16.Encode([]rune(s)) {
		fmt.Fprintf(&b, format, u)
	}
	return `"` + b.String() + `"`
}

// No secret gets into a line, wherever it stands in a record, however it is
// escaped, and whatever it is next to; what is no secret stays.
func TestProperty_NoSecretIsWritten(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		secret := rapid.OneOf(
			rapid.StringMatching(`[a-c*"\\]{4,8}`), rapid.StringMatching(`[0-9]{6,12}`), rapid.StringMatching(`[ -~äß😀]{4,30}`),
			rapid.StringMatching(`[a-z]{20}\n[a-z]{20}\n`), rapid.Just(`{"a":1}`), rapid.Just(`","text":"`), rapid.Just("a***"), rapid.Just("********"))
		secrets := rapid.SliceOfN(secret, 1, 4).Draw(rt, "secrets")
		m := newMasker(secrets)
		piece := rapid.OneOf(rapid.SampledFrom(secrets), rapid.StringMatching(`[a-c*"\\x]{0,4}`))
		text := func(label string) string { return strings.Join(rapid.SliceOfN(piece, 0, 5).Draw(rt, label), "") }
		value := func(label string) pipeline.JSON {
			s := text(label)
			plain, err := pipeline.MarshalValue(s)
			if err != nil {
				rt.Fatal(err)
			}
			number := ""
			if n := strings.TrimLeft(s, "0"); n != "" && strings.Trim(n, "0123456789") == "" {
				number = `,"n":[` + n + `]`
			}
			j, err := pipeline.ParseJSON([]byte(`{"plain":` + plain.String() + `,"lower":` + escaped(s, `\u%04x`) + `,"upper":[` + escaped(s, `\u%04X`) + `],` + escaped(s+"name", `\u%04x`) + `:1` + number + `}`))
			if err != nil {
				rt.Fatal(err)
			}
			return j
		}
		by, signal := jobs.EndedBy("x"), text("signal")
		records := []Record{
			&Start{Version: text("version"), Preset: text("preset"), Workspace: text("workspace"), Enforcement: value("enforcement")},
			&Call{ID: text("id"), Tool: text("tool"), Arguments: value("arguments")},
			&Question{Reason: text("reason"), Display: text("display"), Grants: value("grants")},
			&Result{ID: text("id"), Tool: text("tool"), Failure: pipeline.Fail(text("code"), text("message"), value("details")), Meta: value("meta"),
				raw: []pipeline.Content{pipeline.Text(text("content")), pipeline.Image([]byte(text("image")), text("mime"))}},
			&Preset{From: text("from"), To: text("to"), By: text("by"), Enforcement: value("enforcement")},
			&JobEnd{Job: jobs.Job{ID: text("id"), Label: text("label"), Signal: &signal, EndedBy: &by, ParentCallID: text("parent")}, Reason: text("reason"), Limit: text("limit"), Error: text("error")},
			&Note{Kind: text("kind"), Text: text("text")}, &Missing{Reason: text("reason")}, &End{Reason: text("reason")},
		}
		for _, r := range records {
			line := encode(r, m)
			if bytes.Count(line, []byte("\n")) != 1 || line[len(line)-1] != '\n' {
				rt.Fatalf("no line: %q", line)
			}
			back, err := decode(line)
			if err != nil {
				rt.Fatalf("%v: %s", err, line)
			}
			if n, ok := back.(*Note); ok && n.Kind == "withheld" {
				continue
			}
			for _, secret := range m.secrets {
				for i, s := range texts(rt, line) {
					if strings.Contains(s, secret) && !ownWord(i, s) {
						rt.Fatalf("%q in %q of %s", secret, s, line)
					}
				}
				if strings.ContainsAny(secret, `"{}`) && bytes.Contains(line, []byte(secret)) {
					rt.Fatalf("%q in %s", secret, line)
				}
			}
		}
	})
}

// ownWord reports a text that is not a record's: a number of its own, such as
// the hash of an image.
func ownWord(_ int, s string) bool { return len(s) == 32 && strings.Trim(s, "0123456789abcdef") == "" }

// Every string of every record is masked, those that are added later, too.
func TestMask_ForgetsNoField(t *testing.T) {
	const secret = "hunter22"
	m := newMasker([]string{secret})
	own := map[string]bool{"Head.Type": true, "Head.Session": true, "Head.Scope": true, "Outcome.Outcome": true}
	for _, kind := range strings.Fields("start continued call question outcome result preset job note missing end") {
		r := blank(kind)
		var fill func(v reflect.Value, name string)
		fill = func(v reflect.Value, name string) {
			switch {
			case own[name] || !v.CanSet():
			case v.Type() == reflect.TypeOf(pipeline.JSON{}):
				j, _ := pipeline.MarshalValue([]string{secret})
				v.Set(reflect.ValueOf(j))
			case v.Type() == reflect.TypeOf(time.Time{}):
			case v.Type() == reflect.TypeOf([]Block(nil)):
				v.Set(reflect.ValueOf([]Block{{Text: secret, MIMEType: secret}}))
			case v.Kind() == reflect.String:
				v.SetString(secret)
			case v.Kind() == reflect.Pointer:
				v.Set(reflect.New(v.Type().Elem()))
				fill(v.Elem(), name)
			case v.Kind() == reflect.Struct:
				for i := range v.NumField() {
					fill(v.Field(i), v.Type().Name()+"."+v.Type().Field(i).Name)
				}
			}
		}
		fill(reflect.ValueOf(r).Elem(), "")
		if line := encode(r, m); bytes.Contains(line, []byte(secret)) {
			t.Errorf("in %s", line)
		}
		if kind != "continued" && kind != "outcome" && kind != "missing" {
			if line := encode(r, &masker{}); bytes.Contains(line, []byte(secret)) == false && kind != "start" {
				// The control: without masking it would be there, had encode not masked r before.
				if !bytes.Contains(line, []byte(masked)) {
					t.Errorf("nothing was filled in: %s", line)
				}
			}
		}
	}
}

// The policy's secrets are the log's, in the whole way from a call to the disk.
func TestLog_MasksThePolicysSecrets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	secret := "s3cr3t \"quoted\"\nand more than that"
	l, err := Open(path, policyT(t, "", "GITHUB_TOKEN="+secret, "EDITOR=visible"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := sayScope(t)
	l.Scope("a").Attach(s)
	say(s, "1", "before "+secret+" visible")
	say(s, "2", "fail "+secret)
	s.Call(t.Context(), pipeline.Request{ID: secret, Name: secret, Args: []byte(`{"text":` + escaped(secret, `\u%04x`) + `}`)})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	text := readT(t, path)
	for _, part := range []string{"s3cr3t", "quoted", "more than that", `\u0073\u0033`} {
		if strings.Contains(text, part) {
			t.Errorf("%q in %s", part, text)
		}
	}
	if !strings.Contains(text, "before *** visible") {
		t.Error(text)
	}
}

// A secret that a call hands to a command is one from then on.
func TestLog_MasksWhatCallsNameSecret(t *testing.T) {
	m := newMasker(nil)
	args, err := pipeline.ParseJSON([]byte(`{"command":"env","env":{"GITHUB_TOKEN":"tok-en\u0021","WITH_AUTH":"true","EDITOR":"visible","n":{"PASSWORD":7}},"list":["MY_PIN","shown"]}`))
	if err != nil {
		t.Fatal(err)
	}
	before := string(encode(&Note{Text: "tok-en!"}, m))
	line := string(encode(&Call{Arguments: args}, m))
	after := string(encode(&Note{Text: "tok-en! true visible shown"}, m))
	if !strings.Contains(before, "tok-en!") || strings.Contains(line, "tok-en") || !strings.Contains(line, `"GITHUB_TOKEN":"***","WITH_AUTH":"true","EDITOR":"visible"`) ||
		!strings.Contains(after, `"*** true visible shown"`) {
		t.Errorf("%s%s%s", before, line, after)
	}
	for i := range 3 * maxLearnt {
		args, _ := pipeline.ParseJSON(fmt.Appendf(nil, `{"A_TOKEN":"\"%d quoted"}`, i))
		encode(&Call{Arguments: args}, m)
	}
	if n := len(m.secrets); n > 2*maxLearnt+2 {
		t.Errorf("%d secrets are looked for", n)
	}
}
