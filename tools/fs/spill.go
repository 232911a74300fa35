package fs

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"path/filepath"

	"github.com/dshx/dshx/tools/fs/internal/text"
	"golang.org/x/sys/unix"
)

// maxSpill bounds a file of results, in bytes.
const maxSpill = 256 << 20

// Spill is where all of a result is that its value has a part of.
type Spill struct {
	Path     string `json:"path" doc:"a file that read and grep can read"`
	Bytes    int64  `json:"bytes"`
	Complete bool   `json:"complete" doc:"false where all would be too much for a file, too"`
}

// spilling is a spill in the making. A search goes on whatever becomes of it.
type spilling struct {
	w      *work
	suffix string // of the file's name
	file   *bufio.Writer
	fd     int
	Spill
	broken bool
}

func (w *work) spilling(suffix string) *spilling {
	return &spilling{w: w, suffix: suffix, fd: -1, Spill: Spill{Complete: true}}
}

// Write adds to the file, which is made for the first bytes. It returns no error:
// what has no room is missing, and Complete says so.
func (s *spilling) Write(p []byte) (int, error) {
	if s.fd < 0 && !s.broken {
		s.open()
	}
	if s.broken || s.Bytes+int64(len(p)) > maxSpill {
		s.Complete = false
		return len(p), nil
	}
	n, err := s.file.Write(p)
	s.Bytes += int64(n)
	if err != nil {
		s.broken, s.Complete = true, false
	}
	return len(p), nil
}

// randomName is 16 digits that nobody outside can foresee: the generator is
// seeded by the kernel.
func randomName() string { return fmt.Sprintf("%016x", rand.Uint64()) }

func (s *spilling) open() {
	name := "result-" + randomName() + s.suffix
	open := func(dir string) {
		path := filepath.Join(dir, name)
		fd, err := retry(func() (int, error) {
			return unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		})
		if err != nil {
			s.broken = true
			return
		}
		s.fd, s.Path, s.file = fd, text.Valid(path), bufio.NewWriterSize(file(fd), 64<<10)
	}
	if s.w.spills == nil {
		// Writable for commands, so it is made in the domain, where they are.
		if dir := s.w.in.Policy().TmpDir(); dir != "" {
			open(dir)
		} else {
			s.broken = true
		}
		return
	}
	// Outside of the domain that this thread is in.
	done := make(chan struct{})
	go func() {
		defer close(done)
		dir, err := s.w.spills.Dir(s.w.call)
		if err != nil {
			s.broken = true
			return
		}
		open(dir)
	}()
	<-done
}

// close ends the file; nil where there is none.
func (s *spilling) close() *Spill {
	if s.fd < 0 {
		return nil
	}
	if err := s.file.Flush(); err != nil {
		s.Complete = false
	}
	_ = unix.Close(s.fd)
	done := s.Spill
	return &done
}

// file writes to a descriptor.
type file int

func (f file) Write(p []byte) (done int, err error) {
	for done < len(p) {
		n, err := retry(func() (int, error) { return unix.Write(int(f), p[done:]) })
		if err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

// spillFact tells a model where the rest is.
func spillFact(p *page, s *Spill) {
	if s == nil {
		return
	}
	all := "all of it is"
	if !s.Complete {
		all = "the first part of it is"
	}
	p.fact("%s in %s (%d bytes); read or grep that file", all, plain(s.Path), s.Bytes)
}
