package broker

import (
	"testing"

	"lockstep/internal/ha"
	"pgregory.net/rapid"
)

// TestDecideGolden: three brokers A=1 (master), B=2, C=3 under each policy, as the
// document on write authority walks through it.
func TestDecideGolden(t *testing.T) {
	me := ha.Authority{Broker: 1, Epoch: 7}
	base := func() Observation {
		return Observation{Current: me, Requested: me, LeaseHeld: true, Policy: AckPolicy{Kind: AllInSyncSet}, Required: 100, Local: 100,
			LocalClass: ha.ClassDurable, Set: ha.NewIDs(1, 2, 3), Counted: ha.NewIDs(1, 2, 3), Committed: 3, Least: 3, MinInSync: 2}
	}
	ack := func(id ha.BrokerID, off ha.LogOffset) Ack {
		return Ack{Broker: id, Offset: off, Class: ha.ClassDurable}
	}
	cases := []struct {
		name string
		tune func(o *Observation)
		want Outcome
		why  Reason
		dur  Durability
	}{
		{"B has it, C is behind", func(o *Observation) { o.Acks = []Ack{ack(2, 100), ack(3, 99)} }, Wait, ReplicasBehind, 0},
		{"both have it", func(o *Observation) { o.Acks = []Ack{ack(3, 100), ack(2, 150)} }, Acknowledge, NoReason, Replicated},
		{"C was removed: A and B are the set", func(o *Observation) { o.Set, o.Committed, o.Acks = ha.NewIDs(1, 2), 2, []Ack{ack(2, 100)} }, Acknowledge, NoReason, Replicated},
		{"C is proposed: it has to agree", func(o *Observation) { o.Committed, o.Acks = 2, []Ack{ack(2, 100)} }, Wait, ReplicasBehind, 0},
		{"replicas cannot make up for the own disk", func(o *Observation) { o.Local, o.Acks = 99, []Ack{ack(2, 100), ack(3, 100)} }, Wait, LocalBehind, 0},
		{"appended in an earlier epoch", func(o *Observation) { o.Requested.Epoch, o.Acks = 6, []Ack{ack(2, 100), ack(3, 100)} }, Reject, StaleAuthority, 0},
		{"a newer epoch than the current", func(o *Observation) { o.Requested.Epoch = 8 }, Reject, AuthorityMismatch, 0},
		{"another broker of the same epoch", func(o *Observation) { o.Requested.Broker = 2 }, Reject, AuthorityMismatch, 0},
		{"nobody may write", func(o *Observation) { o.Current = ha.Authority{} }, Reject, AuthorityMismatch, 0},
		{"no lease", func(o *Observation) { o.LeaseHeld, o.Acks = false, []Ack{ack(2, 100), ack(3, 100)} }, Reject, LeaseOver, 0},
		{"below the floor at the acknowledgement", func(o *Observation) { o.Set, o.Committed = ha.NewIDs(1), 1 }, Reject, BelowFloor, 0},
		{"a shrink below the floor may have committed", func(o *Observation) { o.Least, o.Acks = 1, []Ack{ack(2, 100), ack(3, 100)} }, Wait, BelowFloor, 0},
		{"a shrink to the floor may have committed", func(o *Observation) { o.Least, o.Acks = 2, []Ack{ack(2, 100), ack(3, 100)} }, Acknowledge, NoReason, Replicated},
		{"a set of one proves Local", func(o *Observation) { o.Set, o.Committed, o.Least, o.MinInSync = ha.NewIDs(1), 1, 1, 1 }, Acknowledge, NoReason, Local},
		{"local policy", func(o *Observation) { o.Policy.Kind = LocalDurable }, Acknowledge, NoReason, Local},
		{"count 2", func(o *Observation) { o.Policy, o.Acks = AckPolicy{ReplicaCount, 2}, []Ack{ack(3, 100)} }, Acknowledge, NoReason, Replicated},
		{"one vote a replica", func(o *Observation) { o.Policy, o.Acks = AckPolicy{ReplicaCount, 3}, []Ack{ack(3, 100), ack(3, 100)} }, Wait, ReplicasBehind, 0},
		{"the own id counts for nothing", func(o *Observation) { o.Policy, o.Acks = AckPolicy{ReplicaCount, 2}, []Ack{ack(1, 100)} }, Wait, ReplicasBehind, 0},
		{"a learner counts for nothing", func(o *Observation) { o.Policy, o.Acks = AckPolicy{ReplicaCount, 2}, []Ack{ack(9, 100)} }, Wait, ReplicasBehind, 0},
		{"on its way out: not counted", func(o *Observation) {
			o.Policy, o.Counted, o.Acks = AckPolicy{ReplicaCount, 2}, ha.NewIDs(1, 2), []Ack{ack(3, 100)}
		}, Wait, ReplicasBehind, 0},
		{"n above the set waits for ever", func(o *Observation) { o.Policy, o.Acks = AckPolicy{ReplicaCount, 4}, []Ack{ack(2, 100), ack(3, 100)} }, Wait, ReplicasBehind, 0},
		{"received is not durable", func(o *Observation) { o.Acks = []Ack{ack(2, 100), {3, 100, ha.ClassReceived}} }, Acknowledge, NoReason, ReplicatedReceived},
		{"the own flush decides the class too", func(o *Observation) { o.LocalClass, o.Acks = ha.ClassReceived, []Ack{ack(2, 100), ack(3, 100)} }, Acknowledge, NoReason, ReplicatedReceived},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			o := base()
			c.tune(&o)
			d := DecideReplication(o)
			if d.Outcome != c.want || d.Reason != c.why {
				t.Fatalf("%v (%v), want %v (%v)", d.Outcome, d.Reason, c.want, c.why)
			}
			if d.Outcome == Acknowledge && (d.Ack.Offset() != o.Required || d.Ack.Durability() != c.dur) {
				t.Errorf("proves %v up to %d, want %v up to %d", d.Ack.Durability(), d.Ack.Offset(), c.dur, o.Required)
			}
			if d.Outcome != Acknowledge && d.Ack != (Acknowledgement{}) {
				t.Error("an acknowledgement without the outcome")
			}
		})
	}
}

// oracle decides the slow way: it looks at every subset of brokers that may vouch
// for the record.
func oracle(o Observation) (Outcome, Durability) {
	if o.Current.Epoch <= 0 || o.Current.Broker < 0 || o.Requested != o.Current || !o.LeaseHeld || o.Committed < o.MinInSync {
		return Reject, 0
	}
	if o.Local < o.Required || o.Least < o.MinInSync {
		return Wait, 0
	}
	received, durable := map[ha.BrokerID]bool{}, map[ha.BrokerID]bool{}
	for _, a := range o.Acks {
		if a.Offset >= o.Required && a.Broker != o.Current.Broker {
			received[a.Broker] = true
			durable[a.Broker] = durable[a.Broker] || a.Class == ha.ClassDurable
		}
	}
	satisfied := func(has map[ha.BrokerID]bool) bool {
		switch o.Policy.Kind {
		case LocalDurable:
			return true
		case AllInSyncSet:
			for _, id := range o.Set {
				if id != o.Current.Broker && !has[id] {
					return false
				}
			}
			return true
		}
		n := 1
		for _, id := range o.Counted {
			if id != o.Current.Broker && has[id] {
				n++
			}
		}
		return n >= o.Policy.Count
	}
	if !satisfied(received) {
		return Wait, 0
	}
	alone := o.Policy.Kind == LocalDurable || o.Policy.Kind == AllInSyncSet && len(o.Set.Without(o.Current.Broker)) == 0
	switch {
	case alone:
		return Acknowledge, Local
	case satisfied(durable) && o.LocalClass == ha.ClassDurable:
		return Acknowledge, Replicated
	}
	return Acknowledge, ReplicatedReceived
}

// TestDecideOracle compares the decision with the slow one over drawn observations
// (C3), and its invariance under the order and repetition of acks.
func TestDecideOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.Int64Range(1, 5)
		ids := func(label string) ha.IDs {
			var out []ha.BrokerID
			for _, x := range rapid.SliceOfN(id, 0, 4).Draw(t, label) {
				out = append(out, ha.BrokerID(x))
			}
			return ha.NewIDs(append(out, 1)...)
		}
		auth := func(label string) ha.Authority {
			return ha.Authority{Broker: ha.BrokerID(rapid.Int64Range(1, 2).Draw(t, label)), Epoch: ha.MasterEpoch(rapid.Int32Range(0, 2).Draw(t, label))}
		}
		off := rapid.Int64Range(98, 102)
		o := Observation{Current: auth("current"), Requested: auth("requested"), LeaseHeld: rapid.IntRange(0, 4).Draw(t, "lease") > 0,
			Policy:   AckPolicy{PolicyKind(rapid.IntRange(0, 2).Draw(t, "policy")), rapid.IntRange(2, 4).Draw(t, "count")},
			Required: 100, Local: ha.LogOffset(off.Draw(t, "local")), LocalClass: ha.AckClass(rapid.IntRange(1, 2).Draw(t, "class")),
			Set: ids("set"), Counted: ids("counted"), Committed: rapid.IntRange(1, 4).Draw(t, "committed"), MinInSync: rapid.IntRange(1, 3).Draw(t, "min")}
		o.Least = rapid.IntRange(1, o.Committed).Draw(t, "least")
		if rapid.Bool().Draw(t, "same") {
			o.Requested = o.Current
		}
		for range rapid.IntRange(0, 6).Draw(t, "acks") {
			o.Acks = append(o.Acks, Ack{ha.BrokerID(id.Draw(t, "id")), ha.LogOffset(off.Draw(t, "off")), ha.AckClass(rapid.IntRange(0, 2).Draw(t, "c"))})
		}
		outcome, durability := oracle(o)
		d := DecideReplication(o)
		if d.Outcome != outcome || d.Ack.Durability() != durability {
			t.Fatalf("%v %v (%v), the oracle says %v %v: %+v", d.Outcome, d.Ack.Durability(), d.Reason, outcome, durability, o)
		}
		shuffled := o
		shuffled.Acks = rapid.Permutation(o.Acks).Draw(t, "order")
		shuffled.Acks = append(shuffled.Acks, o.Acks...)
		if e := DecideReplication(shuffled); e != d {
			t.Fatalf("order or repetition of acks changed %+v to %+v", d, e)
		}
	})
}

// TestDecideAllocates: the decision is on the path of every message.
func TestDecideAllocates(t *testing.T) {
	me := ha.Authority{Broker: 1, Epoch: 7}
	o := Observation{Current: me, Requested: me, LeaseHeld: true, Policy: AckPolicy{Kind: AllInSyncSet}, Required: 100, Local: 100,
		LocalClass: ha.ClassDurable, Set: ha.NewIDs(1, 2, 3), Committed: 3, Least: 3, MinInSync: 2, Acks: []Ack{{2, 100, ha.ClassDurable}, {3, 100, ha.ClassDurable}}}
	if n := testing.AllocsPerRun(100, func() { DecideReplication(o) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
