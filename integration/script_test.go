package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScript runs the scripts of testdata/script, which pin what the command
// line promises: flags, statuses, and the shapes that programs read. Every
// script runs once for each account that the harness offers.
//
// Beside testscript's own commands there are
//
//	run STATUS COMMAND [ARG...]   run as the account; the status has to be exactly that
//	refused COMMAND [ARG...]      as run, for a refusal before anything ran: status 2 or 125,
//	                              one line "dshx: …" on standard error, nothing on standard output
//	json FILE PATH [JSON]         FILE (or stdout, stderr) is one JSON value; at PATH there is
//	                              this one, or any; ! json: there is none, or another
//	jsonmatch FILE PATH REGEXP    at PATH there is a string that matches
//	line FILE N OUT               copy line N (from 1, or from the end when negative) to OUT
//	lines FILE N                  FILE has exactly N lines, the last one ended by a newline
//
// "dshx" and "probe" are on the PATH. A script begins in an empty workspace,
// $WORK/ws; HOME is $WORK/home, and $WORK/out is a directory of the same
// account that no policy lets it write.
func TestScript(t *testing.T) {
	needDshx(t)
	for _, account := range f3Accounts() {
		t.Run(account.name, func(t *testing.T) {
			testscript.Run(t, testscript.Params{
				Dir:                 filepath.Join("testdata", "script"),
				WorkdirRoot:         f3SharedDir(t),
				RequireExplicitExec: true,
				RequireUniqueNames:  true,
				ContinueOnError:     true,
				Setup: func(env *testscript.Env) error {
					return setupScript(env, account)
				},
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"run":       scriptRun,
					"refused":   scriptRefused,
					"json":      scriptJSON,
					"jsonmatch": scriptJSONMatch,
					"line":      scriptLine,
					"lines":     scriptLines,
				},
				Condition: func(cond string) (bool, error) {
					switch cond {
					case "root":
						return account.uid == 0, nil
					}
					return false, errors.New("unknown condition " + cond)
				},
			})
		})
	}
}

// scriptAccount is the key of the account among a script's values.
type scriptAccount struct{}

func setupScript(env *testscript.Env, account f3Account) error {
	for _, dir := range []string{"ws", "home", "out"} {
		if err := os.MkdirAll(filepath.Join(env.WorkDir, dir), 0o755); err != nil {
			return err
		}
	}
	err := filepath.WalkDir(env.WorkDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || os.Getuid() != 0 {
			return err
		}
		return os.Lchown(path, account.uid, account.gid)
	})
	if err != nil {
		return err
	}
	env.Cd = filepath.Join(env.WorkDir, "ws")
	env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
	env.Setenv("PATH", filepath.Dir(dshxBin)+string(os.PathListSeparator)+env.Getenv("PATH"))
	env.Values[scriptAccount{}] = account
	return nil
}

// scriptExec runs a command as the script's account and returns its status,
// 128+n where a signal ended it.
func scriptExec(ts *testscript.TestScript, args []string) int {
	account := ts.Value(scriptAccount{}).(f3Account)
	err := ts.Exec(probeBin, append(account.launch(), args...)...)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return f3Status(exit.ProcessState)
	}
	ts.Fatalf("run: %v", err)
	return -1
}

func scriptRun(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: run STATUS COMMAND [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if got := scriptExec(ts, args[1:]); got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

func scriptRefused(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: refused COMMAND [ARG...]")
	}
	if got := scriptExec(ts, args); got != 2 && got != 125 {
		ts.Fatalf("exit status %d, want 2 or 125", got)
	}
	if out := ts.ReadFile("stdout"); out != "" {
		ts.Fatalf("standard output of a refusal: %q", out)
	}
	first, _, _ := strings.Cut(ts.ReadFile("stderr"), "\n")
	if !strings.HasPrefix(first, "dshx: ") {
		ts.Fatalf("standard error begins with %q, want a line of dshx", first)
	}
}

func scriptJSON(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: [!] json FILE PATH [JSON]")
	}
	value, found := scriptLookup(ts, args[0], args[1])
	if len(args) == 2 {
		if found == neg {
			ts.Fatalf("%s: %s: present %v", args[0], args[1], found)
		}
		return
	}
	got, err := json.Marshal(value)
	ts.Check(err)
	var wanted any
	if err := json.Unmarshal([]byte(args[2]), &wanted); err != nil {
		ts.Fatalf("the script's own %q: %v", args[2], err)
	}
	want, err := json.Marshal(wanted)
	ts.Check(err)
	switch same := found && bytes.Equal(got, want); {
	case !found && !neg:
		ts.Fatalf("%s: no %s", args[0], args[1])
	case same == neg:
		ts.Fatalf("%s: %s is %s, want %s (negated: %v)", args[0], args[1], got, want, neg)
	}
}

func scriptJSONMatch(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: [!] jsonmatch FILE PATH REGEXP")
	}
	value, found := scriptLookup(ts, args[0], args[1])
	text, isString := value.(string)
	if !found || !isString {
		ts.Fatalf("%s: no string at %s but %v", args[0], args[1], value)
	}
	re, err := regexp.Compile(args[2])
	ts.Check(err)
	if re.MatchString(text) == neg {
		ts.Fatalf("%s: %s is %q, want a match of %s (negated: %v)", args[0], args[1], text, args[2], neg)
	}
}

// scriptLookup demands that the file hold exactly one JSON value and returns
// what stands at the dotted path: names of keys, or numbers in arrays, from
// the end where they are negative.
func scriptLookup(ts *testscript.TestScript, file, path string) (any, bool) {
	dec := json.NewDecoder(strings.NewReader(ts.ReadFile(file)))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		ts.Fatalf("%s: %v", file, err)
	}
	if dec.More() {
		ts.Fatalf("%s: more than one JSON value", file)
	}
	for _, step := range strings.Split(path, ".") {
		switch v := value.(type) {
		case map[string]any:
			next, ok := v[step]
			if !ok {
				return nil, false
			}
			value = next
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil {
				return nil, false
			}
			if i < 0 {
				i += len(v)
			}
			if i < 0 || i >= len(v) {
				return nil, false
			}
			value = v[i]
		default:
			return nil, false
		}
	}
	return value, true
}

func scriptLine(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: line FILE N OUT")
	}
	lines := strings.SplitAfter(strings.TrimSuffix(ts.ReadFile(args[0]), "\n"), "\n")
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	if n < 0 {
		n += len(lines) + 1
	}
	if n < 1 || n > len(lines) {
		ts.Fatalf("%s has %d lines", args[0], len(lines))
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(lines[n-1]), 0o644))
}

func scriptLines(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: lines FILE N")
	}
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	text := ts.ReadFile(args[0])
	if got := strings.Count(text, "\n"); got != want || (text != "" && !strings.HasSuffix(text, "\n")) {
		ts.Fatalf("%s has %d lines, want %d:\n%s", args[0], got, want, text)
	}
}
