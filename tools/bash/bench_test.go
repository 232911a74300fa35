package bash

import "testing"

// One call of the whole pipeline, with the shortest of commands.
func BenchmarkCall(b *testing.B) {
	w := newWorld(b)
	for b.Loop() {
		w.bash("true")
	}
}
