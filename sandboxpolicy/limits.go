package sandboxpolicy

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// Limits bound what a command may use. Zero means no limit.
type Limits struct {
	Memory   int64         // bytes, of the whole tree
	Pids     int64         // processes and threads at once
	CPUTime  time.Duration // of each process
	FileSize int64         // bytes, of each file written
	TmpSize  int64         // bytes in the private TMPDIR
}

const (
	limMemory = iota
	limPids
	limCPUTime
	limFileSize
	limTmpSize
	numLimits
)

var limitNames = [numLimits]string{"memory", "pids", "cpu-time", "file-size", "tmp-size"}

// get is limit i as a number: bytes, a count, or nanoseconds.
func (l *Limits) get(i int) int64 {
	switch i {
	case limMemory:
		return l.Memory
	case limPids:
		return l.Pids
	case limCPUTime:
		return int64(l.CPUTime)
	case limFileSize:
		return l.FileSize
	default:
		return l.TmpSize
	}
}

func (l *Limits) set(i int, v int64) {
	switch i {
	case limMemory:
		l.Memory = v
	case limPids:
		l.Pids = v
	case limCPUTime:
		l.CPUTime = time.Duration(v)
	case limFileSize:
		l.FileSize = v
	default:
		l.TmpSize = v
	}
}

// limitText is limit i's value for people.
func limitText(i int, v int64) string {
	switch i {
	case limPids:
		return strconv.FormatInt(v, 10)
	case limCPUTime:
		return time.Duration(v).String()
	}
	return FormatSize(v)
}

// parseLimit reads limit i as a flag or a string of the configuration gives
// it.
func parseLimit(i int, s string) (int64, error) {
	switch i {
	case limPids:
		return ParseCount(s)
	case limCPUTime:
		d, err := ParseDuration(s)
		return int64(d), err
	}
	return ParseSize(s)
}

var (
	errSize     = errors.New("not a size: give bytes, or a number with K, M, G (KiB, MiB, GiB), from 1 to 8388607T")
	errDuration = errors.New("not a duration: give seconds (90, 1.5) or a Go duration (1m30s), above zero")
	errCount    = errors.New("not a count: give a whole number from 1 to 4194304")
)

// ParseSize reads a size in bytes, such as "512", "64K", "2GiB": a whole
// decimal number without sign, and optionally K, M, G or T, with or without
// "iB", in powers of 1024. The result is at least 1.
func ParseSize(s string) (int64, error) {
	digits := s
	shift := 0
	t := strings.TrimSuffix(s, "iB")
	if n := len(t); n > 0 {
		switch t[n-1] {
		case 'K':
			shift = 10
		case 'M':
			shift = 20
		case 'G':
			shift = 30
		case 'T':
			shift = 40
		}
		if shift > 0 {
			digits = t[:n-1]
		}
	}
	n, ok := wholeNumber(digits)
	if !ok || n < 1 || n > math.MaxInt64>>shift {
		return 0, errSize
	}
	return n << shift, nil
}

// FormatSize is the shortest exact form that ParseSize reads.
func FormatSize(n int64) string {
	units := [...]string{"", "KiB", "MiB", "GiB", "TiB"}
	u := 0
	for u < len(units)-1 && n != 0 && n%1024 == 0 {
		n /= 1024
		u++
	}
	return strconv.FormatInt(n, 10) + units[u]
}

// ParseCount reads a number of processes, 1 to 4194304 (the kernel's own
// bound, PID_MAX_LIMIT).
func ParseCount(s string) (int64, error) {
	n, ok := wholeNumber(s)
	if !ok || n < 1 || n > 1<<22 {
		return 0, errCount
	}
	return n, nil
}

// ParseDuration reads seconds ("90", "0.5") or a Go duration ("1m30s"). The
// result is above zero.
func ParseDuration(s string) (time.Duration, error) {
	if s == "" || s[0] == '+' || s[0] == '-' {
		return 0, errDuration
	}
	u := s
	if last := s[len(s)-1]; last >= '0' && last <= '9' || last == '.' {
		u = s + "s"
	}
	d, err := time.ParseDuration(u)
	if err != nil || d <= 0 {
		return 0, errDuration
	}
	return d, nil
}

// wholeNumber reads decimal digits alone: no sign, space or underscore.
func wholeNumber(s string) (int64, bool) {
	if s == "" {
		return 0, false
	}
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}
