package checker

import (
	"encoding/binary"
	"testing"

	"lockstep/internal/ha"
)

// TestJoined: a replica that enters the set must hold what was acknowledged.
func TestJoined(t *testing.T) {
	rec := record("a", 0, 0)
	one := Policy{Count: 1, Min: 1, Class: ha.ClassDurable}
	cases := []struct {
		name   string
		policy Policy
		put    func(w *world)
		before int // acknowledged before the proposal; -1: a fault after it
		want   string
	}{
		{"robbed after the proposal", one, func(*world) {}, -1, ""},
		{"holds it", one, func(w *world) { w.put(3, rec, true) }, 1, ""},
		{"lacks it", one, func(*world) {}, 1, "joined-lacking"},
		{"holds it in the cache alone", one, func(w *world) { w.put(3, rec, false) }, 1, "joined-lacking"},
		{"received is what is promised", Policy{Count: 1, Min: 1, Class: ha.ClassReceived}, func(w *world) { w.put(3, rec, false) }, 1, ""},
		{"acknowledged after the proposal", one, func(*world) {}, 0, ""},
		{"acknowledged after the proposal, by all", Policy{All: true, Min: 1, Class: ha.ClassDurable}, func(*world) {}, 0, "joined-lacking"},
		{"begins behind it", one, func(w *world) { w.min = 1 << 20 }, 1, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			w.sets[1] = ha.NewIDs(1)
			w.put(1, rec, true)
			l := NewLedger(w)
			l.SetPolicy("g", c.policy)
			l.Acknowledged(ackOf("a"))
			c.put(w)
			l.StoreLost("g", 3, "an old story")
			l.Proposed("g", 3)
			if c.before < 0 {
				l.StoreLost("g", 3, "wipe")
			}
			l.Joined("g", 3, c.before, 3e9)
			if got := names(l.Findings()); got != c.want {
				t.Errorf("findings %q, want %q: %v", got, c.want, l.Findings())
			}
		})
	}
}

// TestCut: a member throws no acknowledged message away.
func TestCut(t *testing.T) {
	rec := record("a", 0, 0)
	for _, c := range []struct {
		name   string
		broker ha.BrokerID
		off    ha.LogOffset
		fault  bool
		want   string
	}{
		{"above it", 2, ha.LogOffset(len(rec)), false, ""},
		{"into it", 2, ha.LogOffset(len(rec)) - 1, false, "cut-acknowledged"},
		{"a replica that never held it", 3, 0, false, ""},
		{"a copy that a fault had taken", 2, 0, true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			w.put(1, rec, true)
			w.put(2, rec, true)
			l := NewLedger(w)
			l.SetPolicy("g", all)
			l.Acknowledged(ackOf("a"))
			if c.fault {
				l.StoreLost("g", c.broker, "wipe")
			}
			l.Cut("g", c.broker, c.off, 2e9)
			if got := names(l.Findings()); got != c.want {
				t.Errorf("findings %q, want %q: %v", got, c.want, l.Findings())
			}
		})
	}
}

// TestShrinkUnheard: a set that shrank a moment ago leaves the promise to the set
// before it, of which the master knows.
func TestShrinkUnheard(t *testing.T) {
	one := Policy{Count: 1, Min: 2, Class: ha.ClassDurable}
	two := Policy{Count: 2, Min: 1, Class: ha.ClassDurable}
	for _, c := range []struct {
		name   string
		policy Policy
		copied bool // broker 2 holds the second message
		before bool // something was acknowledged with the set of two
		want   string
	}{
		{"the member that left holds it", all, true, true, ""},
		{"the member that left lacks it", all, false, true, "below-min"},
		{"one copy is promised", one, false, true, ""},
		{"two are promised and there", two, true, true, ""},
		{"two are promised, one is there", two, false, true, "too-few-copies"},
		{"there never was a set of two", one, true, false, "below-min"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			first, second := record("a", 0, 0), record("b", 0, 1)
			binary.BigEndian.PutUint64(second[28:], uint64(len(first)))
			w.put(1, append(first, second...), true)
			w.put(2, first, true)
			l := NewLedger(w)
			l.SetPolicy("g", c.policy)
			if c.before {
				l.Acknowledged(ackOf("a"))
			}
			if c.copied {
				w.put(2, second, true)
			}
			w.sets[1] = ha.NewIDs(1)
			l.Acknowledged(Ack{Key: "b", Group: "g", Master: 1, Epoch: 1, Log: ha.LogOffset(len(first)), QueueOffset: 1, At: 2e9})
			if got := names(l.Findings()); got != c.want {
				t.Errorf("findings %q, want %q: %v", got, c.want, l.Findings())
			}
		})
	}
}

// TestJoinedWithLatentRot: a rotten byte that nobody has read is no lack of the
// product's, until the disk is replaced.
func TestJoinedWithLatentRot(t *testing.T) {
	rec := record("a", 0, 0)
	w := newWorld()
	w.sets[1] = ha.NewIDs(1)
	w.put(1, rec, true)
	l := NewLedger(w)
	l.SetPolicy("g", Policy{Count: 1, Min: 1, Class: ha.ClassDurable})
	l.Acknowledged(ackOf("a"))
	bad := append([]byte(nil), rec...)
	bad[60] ^= 0x10
	w.put(3, bad, true)
	l.Rotted("g", 3)
	l.Proposed("g", 3)
	if l.Joined("g", 3, 1, 3e9); len(l.Findings()) != 0 {
		t.Fatalf("rot was taken for a lack: %v", l.Findings())
	}
	l.StoreLost("g", 3, "replaced")
	l.Proposed("g", 3)
	if l.Joined("g", 3, 1, 5e9); names(l.Findings()) != "joined-lacking" {
		t.Errorf("a replaced disk excuses nothing: %v", l.Findings())
	}
}

// TestRotUnderWay: a byte that changes between a member's acknowledgement and the
// master's is the disk's fault; a copy that never was complete is the product's.
func TestRotUnderWay(t *testing.T) {
	rec := record("a", 0, 0)
	few, many := append([]byte(nil), rec...), append([]byte(nil), rec...)
	few[60] ^= 0x10
	for i := 60; i < 70; i++ {
		many[i] ^= 0x10
	}
	for _, c := range []struct {
		name   string
		copied []byte
		rotted bool
		want   string
	}{
		{"rot", few, true, ""},
		{"a wrong byte without rot", few, false, "member-lacks-it"},
		{"more than rot changes", many, true, "member-lacks-it"},
		{"nothing there", nil, true, "member-lacks-it"},
	} {
		w := newWorld()
		w.sets[1] = ha.NewIDs(1, 2)
		w.put(1, rec, true)
		w.put(2, c.copied, true)
		l := NewLedger(w)
		l.SetPolicy("g", all)
		if c.rotted {
			l.Rotted("g", 2)
		}
		if l.Acknowledged(ackOf("a")); names(l.Findings()) != c.want {
			t.Errorf("%s: %v", c.name, l.Findings())
		}
		if c.want == "" && l.byPlace[promise{"a", "g", 0}].copyOf(2).died != "rot" {
			t.Errorf("%s: the copy counts as whole", c.name)
		}
	}
}
