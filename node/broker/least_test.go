package broker

import (
	"testing"
	"time"
)

// TestFloorOfUnresolvedShrink: while a proposal that would leave less than the floor is
// unresolved, it may have committed: what all members hold is not acknowledged (P3, P6).
func TestFloorOfUnresolvedShrink(t *testing.T) {
	w := started(t, 2, func(_ int, o *Options) { o.WriteLease = LeaseOff })
	m := w.writable()
	slave := w.slaves()[0]
	w.cut = func(from, to string) bool { return from == "c1" } // what it proposes is applied, no answer comes
	w.ctl.noNotice = true
	slave.paused = true
	w.until("a shrink that is not resolved", 60*time.Second, func() bool { return len(m.b.set.proposals) > 0 && len(w.ctl.set) == 1 })
	if m.b.floor() != 2 || len(m.b.set.committed) != 2 {
		t.Fatalf("floor %d, committed set as the master knows it %v", m.b.floor(), m.b.set.committed)
	}
	slave.resume()
	before := len(w.promised)
	c := w.client(m)
	c.send("late")
	w.run(2 * time.Second)
	if n := len(w.promised) - before; n != 0 {
		t.Errorf("%d messages are acknowledged below the floor", n)
	}
}
