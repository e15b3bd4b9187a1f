// Package invariant holds the always-on assertions of the product. A failed
// assertion is a programmer error: the process must not go on, because its
// state can no longer be trusted. Operating errors (a disk, a peer, a
// configuration) are values and never come through here.
package invariant

import (
	"fmt"
	"reflect"
	"unsafe"
)

// Violation is the value a failed assertion panics with, so that the simulator
// can tell a broken invariant from any other panic.
type Violation string

// Error makes a Violation printable as an error.
func (v Violation) Error() string { return "invariant violated: " + string(v) }

// That panics with a Violation unless cond holds. The text is formatted only on
// failure, and an assertion that holds allocates nothing: the arguments stay on
// the caller's stack because fail formats copies of them.
func That(cond bool, format string, args ...any) {
	if !cond {
		fail(format, args)
	}
}

// fail formats copies, made through reflection. The compiler must not see that
// the arguments reach fmt, or it would put every argument of every assertion on
// the heap; they are alive on the caller's stack until the copies are made.
func fail(format string, args []any) {
	hidden := header{uintptr(unsafe.Pointer(unsafe.SliceData(args))), len(args), cap(args)}
	// No call lies between the two lines, so the stack cannot move under the number.
	seen := *(*[]any)(unsafe.Pointer(&hidden))
	copies := make([]any, len(seen))
	for i := range seen {
		v := reflect.ValueOf(seen[i])
		if !v.IsValid() {
			continue
		}
		c := reflect.New(v.Type()).Elem()
		c.Set(v)
		copies[i] = c.Interface()
	}
	panic(Violation(fmt.Sprintf(format, copies...)))
}

// header is the layout of a slice, without a pointer that escape analysis follows.
type header struct {
	data     uintptr
	len, cap int
}
