package diff_test

import (
	"fmt"

	"github.com/dshx/dshx/tools/fs/internal/diff"
)

func ExampleCompare() {
	d := diff.Compare("one\ntwo\nthree\n", "one\n2\nthree", diff.Options{Context: 1})
	fmt.Print(d.Unified("a/file", "b/file"))
	// Output:
	// --- a/file
	// +++ b/file
	// @@ -1,3 +1,3 @@
	//  one
	// -two
	// -three
	// +2
	// +three
	// \ No newline at end of file
}
