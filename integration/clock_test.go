package integration

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// wallClock is the wall clock of one process, which the machine's own is not
// to be set for: what the process calls to read it is replaced in its copy of
// the vDSO, vdso(7).
type wallClock struct {
	mem *os.File
	at  int64 // of the offset, in seconds
}

// stepCode is clock_gettime(2) by the system call, with the eight bytes behind
// it added to the seconds of CLOCK_REALTIME.
var stepCode = []byte{
	0xb8, 0xe4, 0, 0, 0, // mov eax, 228
	0x0f, 0x05, // syscall
	0x85, 0xff, // test edi, edi
	0x75, 0x0a, // jne ret
	0x48, 0x8b, 0x0d, 6, 0, 0, 0, // mov rcx, [offset]
	0x48, 0x01, 0x0e, // add [rsi], rcx
	0xc3,       // ret
	0x90, 0x90, // offset:
	0, 0, 0, 0, 0, 0, 0, 0,
}

func newWallClock(t *testing.T, pid int) *wallClock {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("the code that replaces the clock is for amd64")
	}
	proc := "/proc/" + strconv.Itoa(pid)
	maps, err := os.ReadFile(proc + "/maps")
	if err != nil {
		t.Fatal(err)
	}
	var from, to int64
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, "[vdso]") {
			if _, err := fmt.Sscanf(line, "%x-%x", &from, &to); err != nil {
				t.Fatal(err)
			}
		}
	}
	mem, err := os.OpenFile(proc+"/mem", os.O_RDWR, 0)
	if err != nil || from == 0 {
		t.Skipf("the process's memory can't be written, or it has no vDSO: %v", err)
	}
	t.Cleanup(func() { _ = mem.Close() })
	image := make([]byte, to-from)
	if _, err := mem.ReadAt(image, from); err != nil {
		t.Fatal(err)
	}
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if s.Name != "__vdso_clock_gettime" || s.Size < uint64(len(stepCode)) {
			continue
		}
		at := from + int64(s.Value)
		stopOutside(t, pid, from, to)
		_, err := mem.WriteAt(stepCode, at)
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			t.Skipf("the process's memory can't be written: %v", err)
		}
		return &wallClock{mem, at + int64(len(stepCode)) - 8}
	}
	t.Skip("the vDSO has no clock that can be replaced")
	return nil
}

// stopOutside stops a process while none of its threads is in [from, to).
func stopOutside(t *testing.T, pid int, from, to int64) {
	t.Helper()
	for range 100 {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		eventually(t, 10*time.Second, "the process to stop", func() bool {
			b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
			return bytes.Contains(b, []byte(") T "))
		})
		inside := false
		tasks, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/syscall")
		for _, task := range tasks {
			b, _ := os.ReadFile(task)
			fields := strings.Fields(string(b))
			if len(fields) == 0 {
				continue
			}
			pc, _ := strconv.ParseInt(fields[len(fields)-1], 0, 64)
			inside = inside || string(b) == "running\n" || pc >= from && pc < to
		}
		if len(tasks) > 0 && !inside {
			return
		}
		_ = syscall.Kill(pid, syscall.SIGCONT)
		time.Sleep(time.Millisecond)
	}
	t.Skip("a thread is always reading the clock")
}

// step puts the clock ahead of the true one, or with 0 back.
func (c *wallClock) step(t *testing.T, by time.Duration) {
	t.Helper()
	if _, err := c.mem.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(by/time.Second)), c.at); err != nil {
		t.Fatal(err)
	}
}

// F5-17: timeouts and durations go by the monotonic clock.
func TestLines_F5_17_WallClockSteps(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		c := e.lines(Opts{})
		c.send(`{"ping":1}`)
		c.next()
		clock := newWallClock(t, c.cmd.Process.Pid)
		touch := func(name string) string { return "touch " + name + "; sleep 3" }
		begun := func(name string) {
			t.Helper()
			eventually(t, 10*time.Second, name, func() bool { _, err := os.Stat(filepath.Join(e.W, name)); return err == nil })
		}

		// Ahead, back, and behind: each while a command runs, and still at its end.
		for id, to := range []time.Duration{time.Hour, 0, -time.Hour} {
			name := "begun-" + strconv.Itoa(id)
			c.call(id, "bash", map[string]any{"command": touch(name), "timeout_ms": 60_000})
			begun(name)
			clock.step(t, to)
			r := c.result()
			ms, _ := strconv.ParseFloat(r.field(t, "durationMs"), 64)
			if r.field(t, "timedOut") != "false" || r.field(t, "exitCode") != "0" || ms < 2900 || ms > 30_000 {
				t.Errorf("the clock set to %v: %s", to, r.Value)
			}
		}

		// A job that begins while the clock is wrong says so, which shows that it
		// was; the wait for it doesn't mind.
		clock.step(t, time.Hour)
		c.call(3, "bash", map[string]any{"command": touch("begun-3"), "run_in_background": true})
		c.result()
		c.call(4, "job_wait", map[string]any{"timeout_ms": 60_000})
		begun("begun-3")
		clock.step(t, -time.Hour)
		r := c.result()
		if r.field(t, "timedOut") != "false" || !strings.Contains(string(r.Value), `"status":"exited"`) {
			t.Errorf("job_wait: %s", r.Value)
		}
		var v struct {
			Jobs []struct{ StartedAt time.Time }
		}
		if err := json.Unmarshal(r.Value, &v); err != nil || len(v.Jobs) != 1 || time.Until(v.Jobs[0].StartedAt) < 50*time.Minute {
			t.Errorf("the clock was not ahead: %s, %v", r.Value, err)
		}
		if code := c.end(); code != 0 {
			t.Errorf("status %d: %s", code, c.errs.String())
		}
		e.NothingLeft(2 * time.Second)
	})
}
