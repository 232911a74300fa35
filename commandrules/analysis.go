package commandrules

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/dshx/dshx/sandboxpolicy"
	"mvdan.cc/sh/v3/syntax"
)

// Bounds of one analysis. What is beyond them can't be seen.
const (
	maxScript = 128 << 10 // bytes of one script: what one argument can hold
	maxTotal  = 1 << 20   // bytes of all scripts within each other
	maxDepth  = 8         // scripts within each other
	maxWraps  = 16        // commands that run commands, within each other
	// maxNested is how many characters that begin a nested construct one script
	// may have. The parser is recursive: 16,000 open parentheses take some 100 MB
	// of stack and 0.3 s.
	maxNested = 16 << 10
)

type kind uint8

const (
	simple  kind = iota // a simple command
	wrapper             // a simple command that only runs another, which is a part too
	writes              // a redirection that writes a file
	hidden              // something of which nothing is known
)

// part is something that a script does, and that rules have a say in.
type part struct {
	kind kind
	argv []sandboxpolicy.Word
	text string // as it is written
	why  string // of hidden: what it is
	// carrier is what gives the command other code to run than its own: a
	// variable, or an option. loose is what else an allow rule does not cover.
	carrier, loose string
}

// analysis collects the parts of a script and of the scripts within it.
type analysis struct {
	parts     []part
	functions map[string]bool // that the script declares
	shadowed  bool            // names may mean anything from somewhere on
	carrier   string          // as of a part, for all of them
	total     int             // bytes that were parsed
}

func newAnalysis() *analysis { return &analysis{functions: map[string]bool{}} }

// context is where a command stands.
type context struct {
	text           string
	carrier, loose string // given to it from outside
	depth, wraps   int
	input          *syntax.Redirect // its here-document or here-string
}

func (a *analysis) add(p part) { a.parts = append(a.parts, p) }

var anything = []sandboxpolicy.Word{{Many: true}}

func (a *analysis) hide(c context, why string) {
	a.add(part{kind: hidden, argv: anything, text: c.text, why: why})
}

// shell is a way to read a script.
type shell uint8

const (
	shellBash shell = iota
	shellSh         // whatever is installed as sh, dash …
)

func (s shell) variants() []syntax.LangVariant {
	if s == shellBash {
		return []syntax.LangVariant{syntax.LangBash}
	}
	// sh is bash on some systems. What either makes of it counts.
	return []syntax.LangVariant{syntax.LangPOSIX, syntax.LangBash}
}

// script finds the parts of a script. One that can't be parsed may have run in
// part when the shell finds out, and it may be the parser that is mistaken: what
// stands before and behind the mistake counts.
func (a *analysis) script(text string, s shell, c context) {
	if c.text == "" {
		c.text = text
	}
	a.total += len(text)
	switch {
	case c.depth >= maxDepth:
		a.hide(c, "scripts within scripts, too deep")
		return
	case len(text) > maxScript || a.total > maxTotal || nested(text) > maxNested:
		a.hide(c, "a script that is too long, or too deeply nested")
		return
	}
	c.depth++
	var mistake error
	understood := false
	for _, lang := range s.variants() {
		if err := a.read(text, lang, c); err == nil {
			understood = true
		} else if mistake == nil {
			mistake = err
		}
	}
	if !understood {
		a.hide(c, "a script that can't be parsed: "+mistake.Error())
	}
}

func nested(text string) (n int) {
	for i := range len(text) {
		switch text[i] {
		case '(', '{', '[', '`':
			n++
		}
	}
	return n
}

// read parses a text and finds its parts. After a mistake it goes on with the
// next line, as often as the bounds allow; the first mistake is returned.
func (a *analysis) read(text string, lang syntax.LangVariant, c context) (mistake error) {
	for {
		stmts, err := parse(text, lang)
		for _, st := range stmts {
			a.walk(st, text, c)
		}
		if err == nil {
			return mistake
		}
		if mistake == nil {
			mistake = err
		}
		line := uint(1)
		if e, ok := err.(syntax.ParseError); ok {
			line = max(1, e.Pos.Line())
		}
		for ; line > 0 && text != ""; line-- {
			_, text, _ = strings.Cut(text, "\n")
		}
		if a.total += len(text); text == "" || a.total > maxTotal {
			return mistake
		}
	}
}

// parse returns the statements up to a mistake.
func parse(text string, lang syntax.LangVariant) (stmts []*syntax.Stmt, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	for s, err := range syntax.NewParser(syntax.Variant(lang)).StmtsSeq(strings.NewReader(text)) {
		if err != nil {
			return stmts, err
		}
		stmts = append(stmts, s)
	}
	return stmts, nil
}

// walk finds the parts of a node and of all below it.
func (a *analysis) walk(n syntax.Node, src string, c context) {
	snippet := func(n syntax.Node) string {
		from, to := int(n.Pos().Offset()), int(n.End().Offset())
		if from < 0 || to > len(src) || from > to {
			return src
		}
		return src[from:to]
	}
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			here := c
			here.text = snippet(n)
			for _, r := range n.Redirs {
				switch r.Op {
				case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
					here.input = r
				default:
					a.redirect(r, snippet(r))
				}
			}
			if call, ok := n.Cmd.(*syntax.CallExpr); ok {
				// Without its here-document, which is nothing to quote.
				if here.input != nil {
					here.text = snippet(call)
				}
				a.call(call, here)
			}
		case *syntax.DeclClause:
			here := c
			here.text = snippet(n)
			a.declare(n, here)
		case *syntax.FuncDecl:
			if n.Name != nil {
				a.functions[n.Name.Value] = true
			}
			for _, name := range n.Names {
				a.functions[name.Value] = true
			}
		case *syntax.WordIter:
			if n.Name != nil {
				a.standing(n.Name.Value, nil, c)
			}
		case *syntax.ParamExp:
			here := c
			here.text = snippet(n)
			a.expansion(n, here)
		case *syntax.UnaryTest:
			a.tested(c, n.X)
		case *syntax.BinaryTest:
			a.tested(c, n.X, n.Y)
		case *syntax.LetClause:
			here := c
			here.text = snippet(n)
			a.add(part{argv: sandboxpolicy.Fixed("let"), text: here.text})
		}
		return true
	})
}

// redirect notes a redirection that writes.
func (a *analysis) redirect(r *syntax.Redirect, text string) {
	w := word(r.Word)
	switch r.Op {
	case syntax.RdrIn, syntax.DplIn:
		return
	case syntax.DplOut:
		if w.Fixed && strings.Trim(w.Text, "0123456789-") == "" {
			return // another descriptor
		}
	}
	if w.Fixed {
		switch w.Text {
		case "/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty":
			return
		}
	}
	a.add(part{kind: writes, text: text})
}

// expansion notes an expansion that does more than expand.
func (a *analysis) expansion(n *syntax.ParamExp, c context) {
	if n.Exp == nil {
		return
	}
	switch n.Exp.Op {
	case syntax.AssignUnset, syntax.AssignUnsetOrNull:
		if n.Param != nil {
			a.standing(n.Param.Value, n.Exp.Word, c)
		}
	case syntax.OtherParamOps:
		if n.Exp.Word == nil || word(n.Exp.Word).Text == "P" { // expands as a prompt: $(…) in the value runs
			a.hide(c, "an expansion that runs what a variable holds")
		}
	}
}

// declare is export, declare, local and so on.
func (a *analysis) declare(n *syntax.DeclClause, c context) {
	argv := []sandboxpolicy.Word{{Text: n.Variant.Value, Fixed: true}}
	for _, as := range n.Args {
		switch {
		case as.Name != nil:
			a.standing(as.Name.Value, as.Value, c)
			argv = append(argv, sandboxpolicy.Word{Text: as.Name.Value + "=", Fixed: as.Naked})
		case as.Value != nil:
			w := word(as.Value)
			switch {
			case !w.Fixed:
				a.carry("a variable that " + quote(c.text) + " names only when it runs")
			case len(w.Text) > 1 && w.Text[0] == '-' && strings.IndexByte(w.Text, 'n') > 0:
				a.carry("the reference of " + quote(c.text) + " to another variable")
			default:
				a.evaluated(w, c)
			}
			argv = append(argv, w)
		}
	}
	a.add(part{argv: argv, text: c.text})
}

// carry notes that from somewhere on every command may get code to run.
func (a *analysis) carry(what string) {
	if a.carrier == "" {
		a.carrier = what
	}
}

// environment is what a call adds to the variables of its script.
func (a *analysis) environment(env map[string]string) {
	names := make([]string, 0, len(env))
	for name := range env {
		names = append(names, name)
	}
	slices.Sort(names) // so that the same call has the same reason
	for _, name := range names {
		a.variable(name, sandboxpolicy.Word{Text: env[name], Fixed: true}, true, context{})
	}
}

// standing is an assignment that later commands see.
func (a *analysis) standing(name string, value *syntax.Word, c context) {
	w := sandboxpolicy.Word{Fixed: true}
	if value != nil {
		w = word(value)
	}
	a.variable(name, w, false, c)
}

// variable notes a variable for all commands. exported is false for one that
// commands get only if it is in their environment already.
func (a *analysis) variable(name string, value sandboxpolicy.Word, exported bool, c context) {
	if carries(name) {
		a.carry("the variable " + name)
		a.code(name, value, c)
	} else if exported && !harmless(name) && a.carrier == "" {
		a.shadowed = a.shadowed || strings.HasPrefix(name, "BASH_FUNC_")
	}
}

// code is the command that a variable, or a setting, gives a program to run.
// Others only say where code is to be found: that is as much to be seen as in
// any file of code.
func (a *analysis) code(name string, value sandboxpolicy.Word, c context) {
	prompt := len(name) == 3 && strings.HasPrefix(name, "PS") // expanded whenever it is shown
	if !holdsCommand(name) && !prompt {
		return
	}
	c.text = name + "=" + value.Text
	c.input = nil
	switch {
	case prompt && value.Fixed && !strings.Contains(value.Text, "$(") && !strings.Contains(value.Text, "`"):
		return
	case prompt || !value.Fixed:
		a.hide(c, "the command that "+name+" gives other programs to run")
		return
	}
	a.script(strings.TrimPrefix(value.Text, "!"), shellSh, c)
}

// call is a simple command with its assignments.
func (a *analysis) call(call *syntax.CallExpr, c context) {
	if len(call.Args) == 0 {
		for _, as := range call.Assigns {
			if as.Name != nil {
				a.standing(as.Name.Value, as.Value, c)
			}
		}
		return
	}
	for _, as := range call.Assigns {
		if as.Name != nil {
			w := sandboxpolicy.Word{Fixed: true}
			if as.Value != nil {
				w = word(as.Value)
			}
			a.assigned(as.Name.Value, w, &c)
		}
	}
	argv := make([]sandboxpolicy.Word, len(call.Args))
	for i, w := range call.Args {
		argv[i] = word(w)
	}
	a.command(argv, c)
}

// assigned is an assignment for one command.
func (a *analysis) assigned(name string, value sandboxpolicy.Word, c *context) {
	switch {
	case carries(name):
		if c.carrier == "" {
			c.carrier = "the variable " + name
		}
		a.code(name, value, *c)
	case !harmless(name) && c.loose == "":
		c.loose = "the variable " + name
	}
}

// command is a simple command, and what it runs.
func (a *analysis) command(argv []sandboxpolicy.Word, c context) {
	p := part{argv: argv, text: c.text, carrier: c.carrier, loose: c.loose}
	if len(argv) == 0 {
		return
	}
	if !argv[0].Fixed {
		a.add(p) // any rule may name it
		return
	}
	base := path.Base(argv[0].Text)
	if p.carrier == "" {
		p.carrier = a.option(base, argv, c)
	}
	switch {
	case base == "eval":
		p.kind = wrapper
		a.add(p)
		a.eval(argv[1:], c)
		return
	case base == "source" || base == ".":
		a.shadowed = true
		if len(argv) > 1 && (!argv[1].Fixed || codeFile(argv[1])) {
			a.hide(c, "a file that only shows when it runs")
		}
	case base == "trap":
		a.trap(argv[1:], c)
	case base == "alias" && len(argv) > 1:
		a.shadowed = true
		a.hide(c, "an alias")
	case base == "hash" && hasOption(argv, 'p') || base == "enable" && hasOption(argv, 'f') ||
		(base == "mapfile" || base == "readarray") && hasOption(argv, 'C') || base == "compgen" || base == "jobs" && hasOption(argv, 'x'):
		a.shadowed = true
		a.hide(c, "what "+base+" runs, or puts in another's place")
	case base == "find":
		a.find(argv, c)
	case isShell(base):
		if a.shell(base, argv, c) {
			p.kind = wrapper
		}
	case runsOthers(base):
		a.hide(c, base+" runs what its arguments say")
	default:
		if w, ok := wrapperOf(base); ok && c.wraps >= maxWraps {
			a.hide(c, "commands that run commands, too deep")
		} else if ok && a.through(base, w, argv, c) && !w.own {
			p.kind = wrapper
		}
	}
	if assigns(base) {
		for _, w := range argv[1:] {
			if w.Fixed {
				a.standing(strings.TrimPrefix(w.Text, "-v"), nil, c)
				a.evaluated(w, c)
			}
		}
	}
	a.add(p)
}

// evaluated hides a word that bash evaluates as the place in an array, with
// what is to be substituted in it.
func (a *analysis) evaluated(w sandboxpolicy.Word, c context) {
	if strings.IndexByte(w.Text, '[') >= 0 && (strings.Contains(w.Text, "$(") || strings.IndexByte(w.Text, '`') >= 0) {
		a.hide(c, "a substitution in the index of an array")
	}
}

// tested are operands of [[: some operators evaluate theirs.
func (a *analysis) tested(c context, operands ...syntax.TestExpr) {
	for _, x := range operands {
		if w, ok := x.(*syntax.Word); ok {
			a.evaluated(word(w), c)
		}
	}
}

// eval joins its words to a script.
func (a *analysis) eval(argv []sandboxpolicy.Word, c context) {
	var words []string
	for _, w := range argv {
		if !w.Fixed {
			a.shadowed = true
			a.hide(c, "eval of what only shows when it runs")
			return
		}
		words = append(words, w.Text)
	}
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	a.script(strings.Join(words, " "), shellBash, inside(c))
}

// inside is the context of a script or command that another one runs.
func inside(c context) context {
	c.wraps++
	c.input = nil
	return c
}

// trap has a script as its first operand.
func (a *analysis) trap(argv []sandboxpolicy.Word, c context) {
	for len(argv) > 0 && argv[0].Fixed && (argv[0].Text == "-p" || argv[0].Text == "-l" || argv[0].Text == "--") {
		if argv[0].Text != "--" {
			return
		}
		argv = argv[1:]
	}
	switch {
	case len(argv) == 0:
	case !argv[0].Fixed:
		a.hide(c, "a trap that only shows when it runs")
	case len(argv) > 1 && argv[0].Text != "-":
		a.script(argv[0].Text, shellBash, inside(c))
	}
}

// find runs the commands of -exec and its like.
func (a *analysis) find(argv []sandboxpolicy.Word, c context) {
	for i := 1; i < len(argv); i++ {
		if !argv[i].Fixed {
			continue
		}
		switch argv[i].Text {
		case "-exec", "-execdir", "-ok", "-okdir":
		default:
			continue
		}
		end := i + 1
		for end < len(argv) && !(argv[end].Fixed && (argv[end].Text == ";" || argv[end].Text == "+")) {
			end++
		}
		run := slices.Clone(argv[i+1 : end])
		for k := range run {
			if strings.Contains(run[k].Text, "{}") {
				run[k] = sandboxpolicy.Word{}
			}
		}
		if c.wraps >= maxWraps {
			a.hide(c, "commands that run commands, too deep")
			return
		}
		a.command(run, inside(c))
		i = end
	}
}

// shell is a shell as a command. It reports whether all that it runs is seen.
func (a *analysis) shell(base string, argv []sandboxpolicy.Word, c context) bool {
	variant := shellSh
	if base == "bash" || base == "rbash" {
		variant = shellBash
	}
	run := false // -c
	input := false
	i := 1
options:
	for ; i < len(argv); i++ {
		w := argv[i]
		if !w.Fixed {
			if w.Many || run || codeFile(w) {
				a.hide(c, "a script that only shows when it runs")
			}
			return false // else the name of a file
		}
		t := w.Text
		switch {
		case t == "-" || t == "--":
			i++
			break options
		case t == "--rcfile" || t == "--init-file":
			i++
		case strings.HasPrefix(t, "--"):
			if t == "--version" || t == "--help" {
				return false
			}
		case len(t) > 1 && (t[0] == '-' || t[0] == '+'):
			for _, o := range t[1:] {
				switch o {
				case 'c':
					run = run || t[0] == '-'
				case 's':
					input = true
				case 'o', 'O':
					i++
				}
			}
		default:
			break options
		}
	}
	switch {
	case run && i >= len(argv):
		return false // a mistake: nothing runs
	case run && (!argv[i].Fixed || base == "fish"):
		a.hide(c, "a script that only shows when it runs")
		return false
	case run:
		a.script(argv[i].Text, variant, inside(c))
		return true
	case i < len(argv) && !input && !codeFile(argv[i]):
		return false // a file
	}
	// What it reads: the here-document, or whatever comes.
	if c.input != nil {
		w := c.input.Word
		if c.input.Hdoc != nil {
			w = c.input.Hdoc
		}
		if text, ok := inputText(c.input, w); ok {
			a.script(text, variant, inside(c))
			return true
		}
	}
	a.hide(c, "a script that "+base+" reads from its input")
	return false
}

// through is a command that runs another one. It reports whether that is seen.
func (a *analysis) through(base string, w *wrapping, argv []sandboxpolicy.Word, c context) bool {
	in := inside(c)
	run, seen := w.strip(argv, func(assign string) {
		name, value, _ := strings.Cut(assign, "=")
		a.assigned(name, sandboxpolicy.Word{Text: value, Fixed: true}, &in)
	})
	if !seen {
		a.hide(c, "what "+base+" runs")
	}
	if len(run) == 0 {
		return false
	}
	a.command(run, in)
	return seen
}
