// Package invariant holds the always-on assertions of the product. A failed
// assertion is a programmer error: the process must not go on, because its
// state can no longer be trusted. Operating errors (a disk, a peer, a
// configuration) are values and never come through here.
package invariant

import "fmt"

// Violation is the value a failed assertion panics with, so that the simulator
// can tell a broken invariant from any other panic.
type Violation string

// Error makes a Violation printable as an error.
func (v Violation) Error() string { return "invariant violated: " + string(v) }

// That panics with a Violation unless cond holds. The text is formatted only
// on failure. Do not build arguments that allocate on a hot path: pass numbers.
func That(cond bool, format string, args ...any) {
	if !cond {
		fail(format, args)
	}
}

func fail(format string, args []any) {
	panic(Violation(fmt.Sprintf(format, args...)))
}
