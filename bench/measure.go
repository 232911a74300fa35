package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A sample is one run of one command.
type sample struct {
	wall   time.Duration
	faults int64 // minor page faults of the process and of what it waited for
}

// once runs argv to its end, standard streams to nowhere.
func once(s *stage, argv []string) (sample, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return sample{}, err
	}
	defer null.Close()
	began := time.Now()
	p, err := os.StartProcess(argv[0], argv, &os.ProcAttr{Dir: s.workspace, Env: s.environ(), Files: []*os.File{null, null, null}})
	if err != nil {
		return sample{}, err
	}
	state, err := p.Wait()
	wall := time.Since(began)
	if err != nil {
		return sample{}, err
	}
	if !state.Success() {
		return sample{}, fmt.Errorf("%s: %s", strings.Join(argv, " "), state)
	}
	return sample{wall, state.SysUsage().(*syscall.Rusage).Minflt}, nil
}

// A series is what rounds of one contender gave.
type series struct {
	name    string
	ratios  []float64 // to the base of the same round
	wallMs  []float64
	faults  []float64
	skipped string // why it has no figures
}

// interleave runs rounds of all contenders in random order; the first is the base. Runs
// before the first counted round warm the caches.
func interleave(ctx context.Context, rounds int, cs []contender, run func(contender) (sample, error)) ([]series, error) {
	const warmUp = 3
	out := make([]series, len(cs))
	for i, c := range cs {
		out[i].name = c.name
	}
	for round := -warmUp; round < rounds; round++ {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		got := map[int]sample{}
		for _, i := range rand.Perm(len(cs)) {
			if round%max(cs[i].every, 1) != 0 || out[i].skipped != "" {
				continue
			}
			m, err := run(cs[i])
			if err != nil {
				if i < 2 { // the base and dshx: without them there is nothing to report
					return nil, err
				}
				out[i].skipped = err.Error()
				continue
			}
			got[i] = m
		}
		if round < 0 {
			continue
		}
		for i, m := range got {
			out[i].ratios = append(out[i].ratios, float64(m.wall)/float64(got[0].wall))
			out[i].wallMs = append(out[i].wallMs, float64(m.wall)/float64(time.Millisecond))
			out[i].faults = append(out[i].faults, float64(m.faults))
		}
	}
	return out, nil
}

// quantile returns the q-quantile of v, 0 to 1, by the nearest rank between its neighbours.
func quantile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	at := q * float64(len(s)-1)
	lower := int(at)
	if lower+1 >= len(s) {
		return s[len(s)-1]
	}
	return s[lower] + (at-float64(lower))*(s[lower+1]-s[lower])
}

func median(v []float64) float64 { return quantile(v, 0.5) }

func table(w *os.File, title string, all []series) error {
	var errs []error
	p := func(format string, args ...any) {
		_, err := fmt.Fprintf(w, format, args...)
		errs = append(errs, err)
	}
	p("\n## %s\n\n| | x bare (median) | quarter to three quarters | ms (median) | ms (best decile) | minor faults | rounds |\n|---|---|---|---|---|---|---|\n", title)
	for _, s := range all {
		if s.skipped != "" {
			p("| %s | – | – | – | – | – | %s |\n", s.name, s.skipped)
			continue
		}
		p("| %s | %.2f | %.2f–%.2f | %.2f | %.2f | %.0f | %d |\n", s.name, median(s.ratios),
			quantile(s.ratios, 0.25), quantile(s.ratios, 0.75), median(s.wallMs), quantile(s.wallMs, 0.1), median(s.faults), len(s.ratios))
	}
	return errors.Join(errs...)
}
