// Package version has what the build says of itself. It imports nothing, since
// what runs before the rest of the program is initialised needs it.
package version

// Stamp is set by the build: see the Makefile. "" where it wasn't; program.Version
// knows more then.
var Stamp string
