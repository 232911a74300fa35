package edit_test

import (
	"errors"
	"fmt"

	"github.com/dshx/dshx/tools/fs/internal/edit"
)

func ExampleApply() {
	file := []byte("red\r\ngreen\r\nblue\r\n")
	res, err := edit.Apply(file, []edit.Edit{{Old: "red\ngreen", New: "RED\nGREEN"}})
	fmt.Printf("%q %+v %v\n", res.Bytes, res.Edits, err)

	_, err = edit.Apply(file, []edit.Edit{{Old: "gren", New: ""}})
	var missing *edit.NotFoundError
	if errors.As(err, &missing) {
		fmt.Println(missing.Code(), "nearest is line", missing.Line)
	}
	// Output:
	// "RED\r\nGREEN\r\nblue\r\n" [{Line:1 Count:1}] <nil>
	// EDIT_NOT_FOUND nearest is line 2
}
