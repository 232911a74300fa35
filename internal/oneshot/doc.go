// Package oneshot runs one confined command the way `dshx exec -- ARGV`
// promises: the caller's own streams, signals passed on, a terminal of the
// command's own, statuses, and nothing left behind.
//
// It decides nothing about confinement; package sandbox does.
package oneshot
