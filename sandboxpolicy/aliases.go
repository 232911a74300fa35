package sandboxpolicy

// A file system can be shown at several places: bind mounts, /run/host in
// containers, /sysroot. What is denied at one is denied at all of them, since
// an enforcer that grants files, whatever their path (Landlock), would grant it
// everywhere with the first of its places.

// addAliases adds the denies' other places. It comes after all denies.
func (b *builder) addAliases() error {
	mounts, err := b.r.facts.Mounts()
	if err != nil {
		return &UsageError{Msg: "it can't be told whether secrets are mounted at a second place: " + reason(err) + "; mount /proc"}
	}
	if mounts = overlapping(mounts); mounts == nil {
		return nil
	}
	known := b.p.deny
	for i := range known {
		r := known[i]
		at := r.Path
		if r.Glob {
			at = r.Dir
		}
		home := mountOf(mounts, at)
		if home == nil {
			continue
		}
		for j := range mounts {
			if m := &mounts[j]; m != home && m.Device == home.Device {
				b.denyAlias(r, home.inside(at), home, m)
			}
		}
	}
	return nil
}

// denyAlias denies what m shows of r, which home shows too; inside is r's path
// in their file system.
func (b *builder) denyAlias(r PathRule, inside string, home, m *Mount) {
	q := r
	q.Except = nil
	switch {
	case within(inside, m.Root):
		q.Path = m.shows(inside)
	case !r.Glob && below(m.Root, inside):
		// A part of what is denied, unless it's one of the exceptions.
		q.Path = m.Point
		for _, e := range r.Except {
			if within(home.shows(m.Root), e) {
				return
			}
		}
	default:
		return
	}
	for _, e := range r.Except {
		if x := home.inside(e); within(x, m.Root) {
			q.Except = append(q.Except, m.shows(x))
		}
	}
	if r.Glob {
		b.denyPattern(r.pat, q.Path, PathRule{Access: r.Access, why: r.why, System: r.System, Rule: r.Rule})
		return
	}
	b.deny(q)
}

// overlapping are the mounts that show something that another one shows, too.
func overlapping(mounts []Mount) []Mount {
	var out []Mount
	for i := range mounts {
		for j := range mounts {
			if i != j && mounts[i].Device == mounts[j].Device &&
				(within(mounts[i].Root, mounts[j].Root) || within(mounts[j].Root, mounts[i].Root)) {
				out = append(out, mounts[i])
				break
			}
		}
	}
	return out
}

// mountOf is the mount that shows path, or nil: of the innermost points the
// one that was mounted last.
func mountOf(mounts []Mount, path string) *Mount {
	var found *Mount
	for i := range mounts {
		if m := &mounts[i]; within(path, m.Point) && (found == nil || len(m.Point) >= len(found.Point)) {
			found = m
		}
	}
	return found
}

// inside is the path, in the file system, of what m shows at path.
func (m *Mount) inside(path string) string { return moved(path, m.Point, m.Root) }

// shows is where m shows what has a path in the file system.
func (m *Mount) shows(inside string) string { return moved(inside, m.Root, m.Point) }

// moved is path, which is in the directory from, as a path in the directory to.
func moved(path, from, to string) string {
	if path == from {
		return to
	}
	if from != "/" {
		path = path[len(from):]
	}
	if to == "/" {
		return path
	}
	return to + path
}
