package editorclient

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// MissingError says that a configuration is a program in a language that
// nothing here runs.
type MissingError struct {
	Programs []string // any of them would do
}

func (e *MissingError) Error() string {
	return "none of " + strings.Join(e.Programs, ", ") + " is in PATH"
}

// luaDriver runs a configuration of CodeCompanion with as much of Neovim as it
// uses: it prints the timeout and the words of the command, each with a NUL
// behind it.
const luaDriver = `
local file, cwd = arg[1], arg[2]
vim = { fn = { getcwd = function() return cwd end } }
package.loaded["codecompanion"] = {
  setup = function(options)
    local server = options.mcp.servers.dshx
    io.write(string.format("%d", server.tool_overrides.bash.timeout), "\0")
    for _, word in ipairs(server.cmd) do io.write(word, "\0") end
  end,
}
dofile(file)
`

func fromLua(text string, w World) (any, error) {
	return interpret([]string{"lua", "lua5.4", "lua5.3", "lua5.1", "luajit"}, text, func(dir, config string) ([]string, error) {
		driver := filepath.Join(dir, "driver.lua")
		return []string{driver, config, w.Project}, os.WriteFile(driver, []byte(luaDriver), 0o600)
	})
}

// elispDriver does the same for mcp.el.
const elispDriver = `
(setq mcp-hub-servers nil)
(provide 'mcp-hub)
(load (nth 0 command-line-args-left) nil t t)
(let* ((server (cdr (assoc "dshx" mcp-hub-servers)))
       (words (cons (plist-get server :command) (plist-get server :args)))
       (coding-system-for-write 'utf-8-unix))
  (write-region (mapconcat (lambda (word) (concat word "\0"))
                           (cons (number-to-string (plist-get server :timeout)) words) "")
                nil (nth 1 command-line-args-left) nil 'quiet))
(kill-emacs 0)
`

func fromElisp(text string, w World) (any, error) {
	return interpret([]string{"emacs"}, text, func(dir, config string) ([]string, error) {
		driver := filepath.Join(dir, "driver.el")
		return []string{"-Q", "--batch", "-l", driver, config, "/dev/stdout"}, os.WriteFile(driver, []byte(elispDriver), 0o600)
	})
}

// interpret runs the first of the programs that there is and returns what it
// printed.
func interpret(programs []string, text string, args func(dir, config string) ([]string, error)) (any, error) {
	program := ""
	for _, p := range programs {
		if found, err := exec.LookPath(p); err == nil {
			program = found
			break
		}
	}
	if program == "" {
		return nil, &MissingError{Programs: programs}
	}
	dir, err := os.MkdirTemp("", "editorclient-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	config := filepath.Join(dir, "config")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	argv, err := args(dir, config)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, argv...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LANG=C.UTF-8", "TERM=dumb"}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", filepath.Base(program), err, bytes.TrimSpace(errs.Bytes()))
	}
	return string(out), nil
}

// printed reads what a driver wrote.
func printed(unit time.Duration) func(any) (entry, error) {
	return func(doc any) (entry, error) {
		words := strings.Split(doc.(string), "\x00")
		if len(words) < 3 || words[len(words)-1] != "" {
			return entry{}, fmt.Errorf("the interpreter printed %q", doc)
		}
		n, err := strconv.Atoi(words[0])
		return entry{argv: words[1 : len(words)-1], timeout: time.Duration(n) * unit}, err
	}
}

// fromYAML reads block collections of double-quoted texts, numbers and
// nothing else of YAML.
func fromYAML(text string, _ World) (any, error) {
	var lines []yamlLine
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		rest := strings.TrimLeft(line, " ")
		indent := len(line) - len(rest)
		// A dash is a level of its own, whatever follows it on its line.
		for strings.HasPrefix(rest, "- ") {
			lines = append(lines, yamlLine{number: i + 1, indent: indent, text: "-"})
			rest, indent = rest[2:], indent+2
		}
		lines = append(lines, yamlLine{number: i + 1, indent: indent, text: rest})
	}
	v, rest, err := yamlBlock(lines)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("line %d: not of the block above", rest[0].number)
	}
	return v, err
}

type yamlLine struct {
	number, indent int
	text           string
}

func yamlBlock(lines []yamlLine) (any, []yamlLine, error) {
	if len(lines) == 0 {
		return nil, nil, errors.New("nothing where a value should be")
	}
	first := lines[0]
	if first.text != "-" && !yamlKey(first.text) {
		v, err := yamlScalar(first)
		return v, lines[1:], err
	}
	var items []any
	fields := map[string]any{}
	for len(lines) > 0 && lines[0].indent == first.indent {
		line := lines[0]
		lines = lines[1:]
		if (line.text == "-") != (first.text == "-") {
			return nil, nil, fmt.Errorf("line %d: items and keys in one block", line.number)
		}
		key, value, _ := strings.Cut(line.text, ":")
		if value != "" {
			v, err := yamlScalar(yamlLine{line.number, line.indent, strings.TrimPrefix(value, " ")})
			if err != nil {
				return nil, nil, err
			}
			fields[key] = v
			continue
		}
		if len(lines) == 0 || lines[0].indent <= line.indent {
			return nil, nil, fmt.Errorf("line %d: nothing below it", line.number)
		}
		v, rest, err := yamlBlock(lines)
		if err != nil {
			return nil, nil, err
		}
		lines = rest
		items, fields[key] = append(items, v), v
	}
	if first.text == "-" {
		return items, lines, nil
	}
	return fields, lines, nil
}

func yamlKey(s string) bool {
	key, rest, ok := strings.Cut(s, ":")
	return ok && !strings.HasPrefix(s, `"`) && key != "" && (rest == "" || rest[0] == ' ')
}

func yamlScalar(line yamlLine) (any, error) {
	if n, err := strconv.ParseInt(line.text, 10, 64); err == nil {
		return n, nil
	}
	s, err := strconv.Unquote(line.text)
	if err != nil || line.text[0] != '"' {
		return nil, fmt.Errorf("line %d: neither a number nor double-quoted: %s", line.number, line.text)
	}
	return s, nil
}
