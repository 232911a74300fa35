package seccomp

import (
	"bytes"
	"flag"
	"fmt"
	"go/format"
	"os"
	"slices"
	"testing"
)

var update = flag.Bool("update", false, "write the generated programs anew")

// source renders all programs for a as Go. Equal ones are written once.
func source(t *testing.T, a *arch) []byte {
	t.Helper()
	var out, list bytes.Buffer
	out.WriteString("// Code generated from table.go by go generate; DO NOT EDIT.\n\npackage seccomp\n\n")
	fmt.Fprintf(&list, "// programs has the filter for each Options, by index.\nvar programs = [optionSets][]Insn{\n")
	var seen [][]Insn
	for i := range optionSets {
		o := optionsAt(i)
		prog, err := a.compile(o)
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(seen, func(p []Insn) bool { return slices.Equal(p, prog) })
		if at < 0 {
			at = len(seen)
			seen = append(seen, prog)
			fmt.Fprintf(&out, "// %d instructions.\nvar program%d = [...]Insn{", len(prog), at)
			for j, in := range prog {
				if j%6 == 0 {
					out.WriteString("\n\t")
				}
				fmt.Fprintf(&out, "{%#x, %d, %d, %#x}, ", in.Code, in.Jt, in.Jf, in.K)
			}
			out.WriteString("\n}\n\n")
		}
		fmt.Fprintf(&list, "\tprogram%d[:], // network %d, listener %t, signals %t, truncate %t, names %t\n",
			at, o.Network, o.Listener, o.Signals, o.Truncate, o.Names)
	}
	list.WriteString("}\n")
	out.Write(list.Bytes())
	src, err := format.Source(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// The committed programs are what the table says, for both architectures.
func TestPrograms_AreCurrent(t *testing.T) {
	for _, a := range []*arch{amd64, arm64} {
		name, want := "programs_"+a.name+".go", source(t, a)
		if again := source(t, a); !bytes.Equal(want, again) {
			t.Fatalf("%s: two runs of the compiler differ", a.name)
		}
		if *update {
			if err := os.WriteFile(name, want, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what table.go and rules.go say: run go generate and review the change", name)
		}
	}
}

func TestBuild_GivesTheProgramOfItsOptions(t *testing.T) {
	for i := range optionSets {
		o := optionsAt(i)
		if o.index() != i {
			t.Fatalf("index of %+v is %d, not %d", o, o.index(), i)
		}
		got, err := Build(o)
		if err != nil {
			t.Fatal(err)
		}
		want, err := native.compile(o)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v: another program than the table's", o)
		}
		got[0] = Insn{}
		if again, _ := Build(o); again[0] == (Insn{}) {
			t.Fatal("the caller of Build can change the next caller's program")
		}
	}
	if _, err := Build(Options{Network: netEnd}); err == nil {
		t.Error("a network mode that doesn't exist was accepted")
	}
}

func BenchmarkBuild(b *testing.B) {
	for b.Loop() {
		if _, err := Build(Options{Listener: true}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		if _, err := native.compile(Options{Listener: true}); err != nil {
			b.Fatal(err)
		}
	}
}
