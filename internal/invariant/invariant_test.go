package invariant

import (
	"errors"
	"testing"
)

type offset int64

type role uint8

func (r role) String() string { return [...]string{"slave", "master"}[r%2] }

func TestViolationText(t *testing.T) {
	defer func() {
		v, ok := recover().(Violation)
		want := "invariant violated: end 5 of master b after [1 2]: broken, <nil>"
		if !ok || v.Error() != want {
			t.Errorf("got %q, want %q", v.Error(), want)
		}
	}()
	That(false, "end %d of %v %s after %v: %v, %v", offset(5), role(1), "b", []int{1, 2}, errors.New("broken"), nil)
}

// TestHoldingCostsNothing: assertions stand on hot paths.
func TestHoldingCostsNothing(t *testing.T) {
	x, s := offset(12345678), "text"
	n := testing.AllocsPerRun(1000, func() {
		x++
		That(x > 0, "end %d %s %v", x, s, role(1))
	})
	if n != 0 {
		t.Errorf("%v allocations for an assertion that holds", n)
	}
}
