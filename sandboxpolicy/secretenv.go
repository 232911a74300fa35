package sandboxpolicy

import (
	"slices"
	"strings"
)

// SecretMin is how long a secret is at least, in bytes.
const SecretMin = 4

// IsSecret reports a value that is enough to be a secret, where its name says that
// it is one.
func IsSecret(value string) bool { return len(value) >= SecretMin && !isSwitch(value) }

// secrets are Policy.Secrets of lists of NAME=VALUE, each once, in no
// particular order.
func secrets(environs ...[]string) []string {
	var out []string
	add := func(s string) {
		if IsSecret(s) {
			out = append(out, s)
		}
	}
	for _, environ := range environs {
		for _, kv := range environ {
			name, v, ok := strings.Cut(kv, "=")
			if ok && secretVariable(name, v) {
				add(v)
				secretParts(v, add)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// secretParts are what makes a value one of a secret: tokens, passwords in URLs,
// and what options set.
func secretParts(v string, add func(string)) {
	for _, f := range tokenForms {
		for at := 0; ; {
			i := strings.Index(v[at:], f.prefix)
			if i < 0 {
				break
			}
			begin := at + i
			end := begin + len(f.prefix)
			for end < len(v) && (isTokenByte(v[end]) || v[end] == '.') {
				end++
			}
			at = begin + len(f.prefix)
			if end-at >= f.min && (begin == 0 || !isTokenByte(v[begin-1])) {
				add(v[begin:end])
			}
		}
	}
	for rest := v; ; {
		_, after, ok := strings.Cut(rest, "://")
		if !ok {
			break
		}
		rest = after
		auth := after
		if i := strings.IndexAny(auth, "/?# \t\n"); i >= 0 {
			auth = auth[:i]
		}
		if at := strings.LastIndexByte(auth, '@'); at >= 0 {
			if _, pass, ok := strings.Cut(auth[:at], ":"); ok {
				add(pass)
			} else {
				add(auth[:at]) // a lone name is a token: hasUserinfo
			}
		}
	}
	for word := range strings.FieldsSeq(v) {
		for set := strings.TrimLeft(strings.Trim(word, "\"'"), "-"); ; {
			name, value, ok := strings.Cut(set, "=")
			if !ok {
				break
			}
			if SecretName(name) || len(name) > 1 && SecretName(name[1:]) {
				add(strings.Trim(value, "\"'"))
			}
			set = value
		}
	}
}
