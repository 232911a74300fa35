package main

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestQuantile(t *testing.T) {
	for _, tc := range []struct {
		v    []float64
		q    float64
		want float64
	}{
		{nil, 0.5, 0},
		{[]float64{3}, 0.5, 3},
		{[]float64{4, 1, 3, 2}, 0.5, 2.5},
		{[]float64{5, 1, 3}, 0.5, 3},
		{[]float64{1, 2, 3, 4, 5}, 0.25, 2},
		{[]float64{1, 2, 3}, 1, 3},
	} {
		if got := quantile(tc.v, tc.q); got != tc.want {
			t.Errorf("quantile(%v, %v) = %v, want %v", tc.v, tc.q, got, tc.want)
		}
	}
}

func TestInterleave_RatiosAreToTheBaseOfTheSameRound(t *testing.T) {
	const base = time.Millisecond
	cs := []contender{{name: "bare", every: 1}, {name: "dshx", every: 1}, {name: "slow", every: 5}, {name: "broken", every: 1}}
	got, err := interleave(t.Context(), 10, cs, func(c contender) (sample, error) {
		switch c.name {
		case "dshx":
			return sample{wall: 2 * base}, nil
		case "slow":
			return sample{wall: 10 * base}, nil
		case "broken":
			return sample{}, errors.New("no such file")
		}
		return sample{wall: base}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(got[1].ratios) != 10 || median(got[1].ratios) != 2 {
		t.Errorf("dshx: ratios %v", got[1].ratios)
	}
	if len(got[2].ratios) != 2 || median(got[2].ratios) != 10 {
		t.Errorf("slow: ratios %v, want two of 10", got[2].ratios)
	}
	if !strings.Contains(got[3].skipped, "no such file") {
		t.Errorf("a contender that fails must be named with its reason, got %q", got[3].skipped)
	}
}

func TestInterleave_FailureOfDshxIsAnError(t *testing.T) {
	cs := []contender{{name: "bare", every: 1}, {name: "dshx", every: 1}}
	_, err := interleave(t.Context(), 1, cs, func(c contender) (sample, error) {
		if c.name == "dshx" {
			return sample{}, errors.New("refused")
		}
		return sample{wall: 1}, nil
	})
	if err == nil {
		t.Error("a benchmark without dshx must not look like one")
	}
}

func TestStorm_LeavesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "storm")
	if _, err := stormIn(dir, 10); err != nil {
		t.Fatal(err)
	}
	if exists(dir) {
		t.Error("the folder is still there")
	}
}
