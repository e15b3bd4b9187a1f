package controller

import (
	"strings"
	"testing"

	"lockstep/internal/ha"
)

// A store that comes back shorter than the leader knew it is an older copy of itself,
// whatever its own marks say: it may not inherit the electability of its earlier boot.
func TestShorterThanHeard(t *testing.T) {
	for _, x := range []struct {
		name      string
		end       ha.LogOffset
		heard     ha.LogOffset
		electable bool
	}{
		{"nothing was heard", 100, 0, true},
		{"all that was heard is there", 200, 200, true},
		{"an older copy", 199, 200, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			b := led(t, 2)
			b.must(b.reg(2, "s", 2, ha.ClaimHolds, func(r *register) { r.report.end, r.heard = x.end, x.heard }))
			m := b.rec().member(2)
			if m.Electable != x.electable || !x.electable && !strings.Contains(m.Why, "older copy") {
				t.Errorf("electable %v (%s), want %v", m.Electable, m.Why, x.electable)
			}
			b.must(b.reg(2, "s", 2, ha.ClaimHolds, func(r *register) { r.report.end, r.heard = x.end, x.heard }))
			if m := b.rec().member(2); m.Electable != x.electable {
				t.Error("repeating the registration changed it")
			}
			b.must(b.alter(1, 2, 3))
			if m := b.rec().member(2); !m.Electable {
				t.Error("it joined again and is not electable")
			}
		})
	}
}
