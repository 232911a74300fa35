package tsdecl

import (
	"context"
	"testing"

	"github.com/dshx/dshx/pipeline"
)

type args struct {
	Path  string         `json:"file_path" doc:"the file, */ relative"`
	Mode  string         `json:"mode,omitzero" schema:"enum=a|b|\a\U000E0001"`
	Sub   *struct{}      `json:"sub"`
	Names map[string]int `json:"names,omitzero"`
	Edits []struct {
		Old string `json:"old-text"`
	} `json:"edits,omitzero"`
}

type value struct {
	Code  *int      `json:"exitCode"`
	Lines []*string `json:"lines"`
	Any   any       `json:"any"`
}

func TestDeclarations(t *testing.T) {
	tool, err := pipeline.Define(pipeline.Spec[args, value]{
		Name: "job_list", Title: "List", Description: "d",
		Execute: func(context.Context, args, *pipeline.Call) (value, error) { return value{}, nil },
		Render:  func(args, value) []pipeline.Content { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `// The arguments and values of dshx's tools.

/** List */
export interface JobListArgs {
  /** the file, *\/ relative */
  file_path: string;
  mode?: "a" | "b" | "\u0007` + "\U000E0001" + `";
  sub?: {};
  names?: { [name: string]: number };
  edits?: {
    "old-text": string;
  }[];
}

export interface JobListOutput {
  exitCode: number | null;
  lines: (string | null)[];
  any: unknown;
}

export interface ToolArgsMap {
  job_list: JobListArgs;
}

export interface ToolOutputMap {
  job_list: JobListOutput;
}
`
	if got := Declarations([]*pipeline.Tool{tool}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
