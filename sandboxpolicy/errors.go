package sandboxpolicy

import "strconv"

// UsageError is a request that can't be meant: an unknown preset, a
// workspace that is a home directory, a flag's value out of range. The
// command line exits 2 for it.
type UsageError struct {
	Flag string // the flag at fault, with its dashes; may be empty
	Msg  string // one sentence, lower case, with the remedy
}

func (e *UsageError) Error() string {
	if e.Flag == "" {
		return e.Msg
	}
	return e.Flag + ": " + e.Msg
}

// Code is "INVALID_ARGS".
func (e *UsageError) Code() string { return "INVALID_ARGS" }

// ConfigError is a configuration file that does not say something a policy
// can be made of. Nothing of the file is used.
type ConfigError struct {
	File     string
	Line     int    // from 1; 0 when the whole file is at fault
	Column   int    // in bytes, from 1; 0 as for Line
	Key      string // dotted, as "policy.deny_read"; may be empty
	Expected string // what would have been right
	Problem  string // what is wrong
}

func (e *ConfigError) Error() string {
	s := e.File
	if e.Line > 0 {
		s += ":" + strconv.Itoa(e.Line)
		if e.Column > 0 {
			s += ":" + strconv.Itoa(e.Column)
		}
	}
	s += ": "
	if e.Key != "" {
		s += e.Key + ": "
	}
	s += e.Problem
	if e.Expected != "" {
		s += "; expected " + e.Expected
	}
	return s
}

// Code is "CONFIG_INVALID".
func (e *ConfigError) Code() string { return "CONFIG_INVALID" }

// DirectoryError is a directory that a command can't start in.
type DirectoryError struct {
	Msg string // one sentence, lower case, with the flag that named it
}

func (e *DirectoryError) Error() string { return e.Msg }

// Code is the stable code of the error.
func (e *DirectoryError) Code() string { return "START_FAILED" }
