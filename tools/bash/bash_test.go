package bash

import (
	"testing"
)

func TestSmoke(t *testing.T) {
	w := newWorld(t)
	t.Logf("%+v", w.bash("echo hi; echo err >&2; exit 3").Ended)
	t.Logf("%+v", w.bash("(while :; do echo x; sleep 0.1; done) & echo hi").Ended)
	t.Logf("%+v", w.ok(object{"command": "stty size; tty; cat; echo end", "pty": true, "stdin": "ab\ncd"}).Ended)
	t.Logf("%+v", w.ok(object{"command": "sleep 9", "timeout_ms": 200}).Ended)
	t.Logf("%+v", w.owner.List())
}
