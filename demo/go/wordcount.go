// Package wordcount counts words: a small real module for the demonstration to build.
package wordcount

import (
	"bufio"
	"io"
	"sort"
)

// A Count is a word and how often it came.
type Count struct {
	Word string
	N    int
}

// Top returns the n most frequent words of r, ties in alphabetical order.
func Top(r io.Reader, n int) ([]Count, error) {
	counts := map[string]int{}
	s := bufio.NewScanner(r)
	s.Split(bufio.ScanWords)
	for s.Scan() {
		counts[s.Text()]++
	}
	if err := s.Err(); err != nil {
		return nil, err
	}
	top := make([]Count, 0, len(counts))
	for word, n := range counts {
		top = append(top, Count{word, n})
	}
	sort.Slice(top, func(i, j int) bool {
		if top[i].N != top[j].N {
			return top[i].N > top[j].N
		}
		return top[i].Word < top[j].Word
	})
	if len(top) > n {
		top = top[:n]
	}
	return top, nil
}
