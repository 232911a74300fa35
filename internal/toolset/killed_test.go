package toolset

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/sandboxpolicy"
)

// Whoever kills the process ends what every session has running, what runs on
// under a policy that was switched included.
func TestSessions_Killed(t *testing.T) {
	if ws := os.Getenv("DSHX_TEST_KILLED"); ws != "" {
		toBeKilled(t, ws)
		return
	}
	openT(t) // or skip
	_, ws := request(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestSessions_Killed$")
	cmd.Env = append(os.Environ(), "DSHX_TEST_KILLED="+ws)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	lines := bufio.NewScanner(out)
	var pids []int
	for lines.Scan() && lines.Text() != "ready" {
		var pid int
		if _, err := fmt.Sscan(lines.Text(), &pid); err != nil {
			t.Fatal(lines.Text())
		}
		pids = append(pids, pid)
	}
	if len(pids) != 6 {
		t.Fatalf("%d processes", len(pids))
	}
	for _, pid := range pids {
		if !lives(pid) {
			t.Errorf("control: process %d doesn't live", pid)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		left := 0
		for _, pid := range pids {
			if lives(pid) {
				left++
			}
		}
		if left == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d processes live on", left, len(pids))
		}
	}
}

// lives reports whether the process is there and no zombie.
func lives(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z") && !strings.HasPrefix(after, "X")
}

// toBeKilled has three sessions, each with a job under a policy that was switched
// and one under the new one, prints their processes, and waits.
func toBeKilled(t *testing.T, ws string) {
	h := NewHost(sandboxpolicy.Request{Workspace: ws, Cwd: ws, NoConfig: true, Environ: []string{"HOME=" + ws + "/..", "PATH=" + os.Getenv("PATH")}}, Options{})
	for range 3 {
		s, err := h.Session("test")
		if err != nil {
			t.Fatal(err)
		}
		for _, preset := range []string{"workspace-write", "read-only"} {
			if err := s.SwitchPreset(t.Context(), preset, "test"); err != nil {
				t.Fatal(err)
			}
			if r := s.Scope.Call(t.Context(), pipeline.Request{ID: "1", Name: "bash", Args: []byte(`{"command":"exec sleep 300","run_in_background":true}`)}); !r.OK() {
				t.Fatal(r.Failure())
			}
		}
		for _, j := range s.owner.List() {
			for _, pid := range j.PIDs {
				fmt.Println(pid)
			}
		}
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(1) // nothing is cleaned up
}
