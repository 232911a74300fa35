package sandbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/dshx/dshx/sandboxpolicy"
)

// BenchmarkStart is a confined start, run and end from a running process, beside a plain one by
// os/exec: the two alternate, and what counts is x-plain, the median of the
// ratios within a pair, which load on the machine hits alike. ns/op is of both together.
//
//	go test -run '^$' -bench Start -benchtime 1000x ./sandbox
func BenchmarkStart(b *testing.B) {
	tiny := tinyTrue(b)
	for _, program := range []struct{ name, path string }{{"bin-true", "/bin/true"}, {"tiny-static-true", tiny}} {
		b.Run(program.name+"/handed-over", func(b *testing.B) {
			s := open(b, sandboxpolicy.Request{})
			if err := pairs(b, plain(program.path), func() error { return s.Command(program.path).Run() }); err != nil {
				b.Fatal(err)
			}
		})
		// The caller is on the domain's thread: what a program that runs one command does.
		b.Run(program.name+"/on-the-thread", func(b *testing.B) {
			s := open(b, sandboxpolicy.Request{}) // for the private directory
			done := make(chan struct{})
			go func() {
				defer close(done)
				runtime.LockOSThread() // never unlocked: the thread is restricted for good
				d, err := NewDomainHere(s.Policy(), -1, nil)
				if err != nil {
					b.Error(err)
					return
				}
				err = pairs(b, plain(program.path), func() error { return d.Command(program.path).Run() })
				if err := errors.Join(err, d.Close()); err != nil {
					b.Error(err)
				}
			}()
			<-done
		})
	}
}

// BenchmarkDo is an empty function in the domain: two hand-overs between threads.
func BenchmarkDo(b *testing.B) {
	s := open(b, sandboxpolicy.Request{})
	for b.Loop() {
		if err := s.Do(func() error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

func plain(path string) func() error {
	return func() error { return exec.Command(path).Run() }
}

func pairs(b *testing.B, plain, confined func() error) error {
	var ratios, plainNs, confinedNs []float64
	runs := [2]func() error{plain, confined}
	const warmUp = 5
	for i := -warmUp; i < b.N; i++ {
		if i == 0 {
			b.ResetTimer()
		}
		var ns [2]float64
		for k := range runs {
			which := (k + i&1) & 1 // neither is always the first
			began := time.Now()
			if err := runs[which](); err != nil {
				return err
			}
			ns[which] = float64(time.Since(began))
		}
		if i >= 0 {
			plainNs, confinedNs, ratios = append(plainNs, ns[0]), append(confinedNs, ns[1]), append(ratios, ns[1]/ns[0])
		}
	}
	median := func(v []float64) float64 { slices.Sort(v); return v[len(v)/2] }
	b.ReportMetric(median(ratios), "x-plain")
	b.ReportMetric(median(plainNs), "ns/plain")
	b.ReportMetric(median(confinedNs), "ns/confined")
	return nil
}

// tinyTrue writes a static program of a few instructions that exits with 0: what remains
// of a start when the program itself costs nothing.
func tinyTrue(b *testing.B) string {
	b.Helper()
	var machine uint16
	var code []byte
	switch runtime.GOARCH {
	case "amd64":
		machine = 62                                             // EM_X86_64
		code = []byte{0xb8, 60, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05} // mov $60,%eax; xor %edi,%edi; syscall
	case "arm64":
		machine = 183                                                          // EM_AARCH64
		code = []byte{0, 0, 0x80, 0xd2, 0xa8, 0x0b, 0x80, 0xd2, 1, 0, 0, 0xd4} // mov x0,#0; mov x8,#93; svc #0
	default:
		b.Skipf("no tiny program for %s", runtime.GOARCH)
	}
	const base, headers = 0x400000, 64 + 56 // elf(5): one Elf64_Ehdr, one Elf64_Phdr
	size := uint64(headers + len(code))
	var elf bytes.Buffer
	elf.Write([]byte{0x7f, 'E', 'L', 'F', 2, 1, 1, 15: 0})
	for _, v := range []any{
		uint16(2), machine, uint32(1), uint64(base + headers), uint64(64), uint64(0), uint32(0),
		uint16(64), uint16(56), uint16(1), uint16(0), uint16(0), uint16(0),
		uint32(1), uint32(5), uint64(0), uint64(base), uint64(base), size, size, uint64(0x1000), // PT_LOAD, R+X
	} {
		_ = binary.Write(&elf, binary.LittleEndian, v) // never fails: fixed sizes into memory
	}
	elf.Write(code)
	path := filepath.Join(b.TempDir(), "true")
	if err := os.WriteFile(path, elf.Bytes(), 0o755); err != nil {
		b.Fatal(err)
	}
	return path
}
