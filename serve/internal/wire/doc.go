// Package wire is what the front doors that speak over standard streams share:
// lines of bounded length, an output whose reader may be slow, stuck or gone,
// and ids that come back as they were written. It knows no protocol.
package wire
