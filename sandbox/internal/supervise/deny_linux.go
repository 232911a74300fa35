package supervise

import (
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/dshx/dshx/sandboxpolicy"
)

type denialKey struct {
	op     sandboxpolicy.Op
	target string
	pid    int
}

// report passes d on unless the same was reported before, or enough others were.
func (s *Server) report(d Denial) {
	k := denialKey{d.Op, d.Target, d.PID}
	s.denyMu.Lock()
	_, seen := s.denied[k]
	full := len(s.denied) >= maxDenials
	if !seen && !full {
		s.denied[k] = struct{}{}
	}
	s.denyMu.Unlock()
	if !seen && !full && s.o.OnDenial != nil {
		s.o.OnDenial(d)
	}
}

// deny reports a denial by verdict v and answers e.
func (w *worker) deny(op sandboxpolicy.Op, target, resolved string, v sandboxpolicy.Verdict, e unix.Errno) answer {
	w.s.report(Denial{Op: op, Target: target, Resolved: resolved, Rule: v.Rule, Remedy: v.Remedy, PID: w.process()})
	return failed(e)
}

// refuse reports a denial that no rule of the policy made.
func (w *worker) refuse(op sandboxpolicy.Op, target, remedy string, e unix.Errno) answer {
	rule := sandboxpolicy.Rule{Text: "what can't be judged is refused", Origin: "preset"}
	if op == sandboxpolicy.OpKernel || op == sandboxpolicy.OpMount {
		v := w.s.o.Judge.Verdict(op, "/")
		rule = v.Rule
		if remedy == "" {
			remedy = v.Remedy
		}
	}
	return w.deny(op, target, "", sandboxpolicy.Verdict{Rule: rule, Remedy: remedy}, e)
}

// permit judges op on o. The caller's arguments are all read by now: permit
// checks that it still waits, so nothing is judged, reported or done for a
// process that is gone.
func (w *worker) permit(op sandboxpolicy.Op, o object) unix.Errno {
	l, e := w.locate(o)
	if e != 0 {
		return e
	}
	if !w.valid() {
		return unix.ESRCH
	}
	switch {
	case l.own && (op == sandboxpolicy.OpChmod || op == sandboxpolicy.OpChown) && strings.HasPrefix(l.path, "pipe:["):
		// The mode of a pipe that was passed in is what keeps it from being
		// opened anew, through /proc, for the other direction.
		return unix.EPERM
	case l.own && w.s.held(o.fd):
		return unix.EPERM
	case l.own:
		return 0
	case l.lost:
		return w.refuse(op, o.given, "the object has no path that the policy could judge", unix.EACCES).err
	}
	v := w.s.o.Judge.Verdict(op, l.path)
	if v.Allow {
		return 0
	}
	return w.deny(op, o.given, l.path, v, unix.EACCES).err
}

// held reports whether fd is one of Options.Held.
func (s *Server) held(fd int) bool {
	var st unix.Stat_t
	return len(s.o.Held) > 0 && (unix.Fstat(fd, &st) != nil || slices.Contains(s.o.Held, File{st.Dev, st.Ino}))
}

func describe(fd int32) string { return "descriptor " + strconv.Itoa(int(fd)) }
