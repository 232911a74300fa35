//go:build race

package text

// raceEnabled makes tests of size smaller: the detector looks at every byte.
const raceEnabled = true
