package walk

import "iter"

// A Tree is what a walk found, in the order of path bytes.
type Tree struct {
	top     *dir
	count   int
	omitted Omitted
}

// Len is the number of entries.
func (t *Tree) Len() int { return t.count }

// Omitted counts what was left out.
func (t *Tree) Omitted() Omitted { return t.omitted }

// All yields the entries with their paths relative to the root.
func (t *Tree) All() iter.Seq2[string, Entry] {
	return func(yield func(string, Entry) bool) {
		t.each(func(d *dir, it *item) bool {
			return yield(d.path+it.name, Entry{it.kind, it.info})
		})
	}
}

// Groups yields the entries as runs of names in one directory, whose path is
// empty or ends in a slash: paths that follow each other share their
// directory, so that it need be opened once for each run.
func (t *Tree) Groups() iter.Seq2[string, []string] {
	return func(yield func(string, []string) bool) {
		var names []string
		var last *dir
		ok := true
		t.each(func(d *dir, it *item) bool {
			if d != last && len(names) > 0 {
				ok = yield(last.path, names)
				names = nil
			}
			last = d
			names = append(names, it.name)
			return ok
		})
		if ok && len(names) > 0 {
			yield(last.path, names)
		}
	}
}

// each calls f for each entry, in order, until it returns false.
func (t *Tree) each(f func(d *dir, it *item) bool) {
	type place struct {
		d *dir
		i int
	}
	if t.top == nil {
		return
	}
	// Not recursive: the depth of a tree is up to whoever made it.
	stack := []place{{d: t.top}}
	for len(stack) > 0 {
		p := &stack[len(stack)-1]
		if p.i == len(p.d.items) {
			stack = stack[:len(stack)-1]
			continue
		}
		d, it := p.d, &p.d.items[p.i]
		p.i++
		if it.sub != nil {
			stack = append(stack, place{d: it.sub})
		} else if !f(d, it) {
			return
		}
	}
}

// A dir is a directory that is read or shall be.
type dir struct {
	path  string // from the root: "" or "a/b/"
	items []item // sorted by name
	work  *work  // nil once it is read
}

// An item is an entry, or stands for what is found below a directory: then sub
// is set and name ends in a slash. That gives it its place in the order of
// path bytes: "a" and "a.c" come before "a/b", which comes before "ab".
type item struct {
	name string
	kind Type
	sub  *dir
	info *Info
}
