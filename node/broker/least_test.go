package broker

import (
	"testing"
	"time"

	"lockstep/node/wire"
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

// TestSendDuringUnresolvedShrink: while a shrink below the floor is unresolved, a send
// is refused before it is stored. Stored, it could not be acknowledged, and a client
// that asks again would fill the log with copies. What was stored before waits: the
// shrink may yet be refused.
func TestSendDuringUnresolvedShrink(t *testing.T) {
	w := started(t, 2, func(_ int, o *Options) { o.SlaveTimeout = 20 * time.Second })
	m := w.writable()
	slave := w.slaves()[0]
	c := w.client(m)
	w.ctl.ignore[wire.ReqAlterSyncStateSet] = true
	slave.paused = true
	w.until("a time just before the shrink", 60*time.Second, func() bool {
		k := m.b.set.clock(slave.b.id.Broker)
		return w.now >= k.caughtUp.Add(m.o.HAMaxTimeSlaveNotCatchup-time.Second)
	})
	c.send("under way")
	w.until("a shrink that is not resolved", 10*time.Second, func() bool { return len(m.b.set.proposals) > 0 })
	w.run(100 * time.Millisecond)
	if a, ok := m.answers["under way"]; ok {
		t.Fatalf("answered with code %d %s before anything is known", a.code, a.remark)
	}
	end := m.b.log.end
	c.send("late")
	w.run(100 * time.Millisecond)
	if a := m.answers["late"]; a.code != wire.CodeSystemError || a.remark != wire.RemarkNotEnoughReplicas {
		t.Errorf("code %d %s, want a refusal for the floor", a.code, a.remark)
	}
	if m.b.log.end != end {
		t.Errorf("a send that could not be acknowledged was stored: the log grew from %d to %d", end, m.b.log.end)
	}
	for _, x := range m.b.Conditions() {
		if x.Name == "minInSyncReplicas" && x.OK {
			t.Errorf("the condition holds: %s", x.Detail)
		}
	}
	slave.resume()
	delete(w.ctl.ignore, wire.ReqAlterSyncStateSet)
	w.until("the answer", 20*time.Second, func() bool { _, ok := m.answers["under way"]; return ok })
	if a := m.answers["under way"]; a.code != wire.CodeSuccess {
		t.Errorf("code %d %s after the set was committed again", a.code, a.remark)
	}
	w.until("writable again", 20*time.Second, func() bool { return w.writable() == m })
}
