package scenarios

import (
	"fmt"

	"lockstep/checker"
	"lockstep/internal/ha"
	"lockstep/internal/prng"
	"lockstep/node/broker"
)

var _ = register(decideReplication)

// The clauses of C3; a finding carries the name of the clause it breaks.
const (
	clauseOracle     = "agrees with the oracle"
	clauseAuthority  = "authority comes first"
	clauseDuplicate  = "one vote a replica"
	clauseSelf       = "the leader's own id counts for nothing"
	clauseStranger   = "non-members, learners and removed count for nothing"
	clauseBeyond     = "proves exactly what was required"
	clauseImpossible = "a count above the set is never proven"
	clauseExample    = "the document's example"
)

// decideReplication compares the product's decision with a brute-force oracle.
var decideReplication = &Drill{
	ID: "C3", Name: "decide-replication",
	Story: "The pure function that acknowledges writes, against an oracle that tries every subset of the replicas, on drawn observations full of stale authorities, duplicates, strangers and offsets at the boundary; and the worked example of the authority document.",
	Assertions: []Assertion{
		{Name: clauseOracle, Text: "outcome, offset and durability are those of a search over all subsets of replicas"},
		{Name: clauseAuthority, Text: "a stale, future or foreign authority, a lease that is over or a set below the floor is rejected whatever the replicas say"},
		{Name: clauseDuplicate, Text: "repeating an acknowledgement changes nothing"},
		{Name: clauseSelf, Text: "an acknowledgement that names the leader changes nothing"},
		{Name: clauseStranger, Text: "acknowledgements of brokers outside the set change nothing"},
		{Name: clauseBeyond, Text: "acknowledgements beyond the record prove the record and no more"},
		{Name: clauseImpossible, Text: "a count larger than the electorate waits for ever"},
		{Name: clauseExample, Text: "A, B, C: two of three are enough for a count of two and not for all in sync; a lagging replica is none"},
	},
	Pure: func(rnd *prng.Source) (int, []checker.Finding) {
		c := &decideCheck{rnd: rnd}
		c.example()
		for range 4000 {
			c.one()
		}
		return c.checked, c.found
	},
}

// decideCheck is one run of C3.
type decideCheck struct {
	rnd     *prng.Source
	checked int
	found   []checker.Finding
}

func (c *decideCheck) fail(name, format string, args ...any) {
	if len(c.found) < 20 {
		c.found = append(c.found, checker.Finding{Judge: "decide", Name: name, Text: fmt.Sprintf(format, args...)})
	}
}

// draw makes an observation whose numbers meet at boundaries.
func (c *decideCheck) draw() broker.Observation {
	rnd := c.rnd
	authority := func() ha.Authority {
		return ha.Authority{Broker: ha.BrokerID(rnd.Between(1, 3)), Epoch: ha.MasterEpoch(rnd.Between(0, 3))}
	}
	o := broker.Observation{
		Current:   ha.Authority{Broker: ha.BrokerID(rnd.Between(1, 3)), Epoch: ha.MasterEpoch(rnd.Between(1, 3))},
		LeaseHeld: rnd.Chance(9, 10), Required: ha.LogOffset(rnd.Between(1, 4)), Local: ha.LogOffset(rnd.Between(0, 5)),
		LocalClass: pick(rnd, ha.ClassReceived, ha.ClassDurable), Committed: int(rnd.Between(1, 4)), MinInSync: int(rnd.Between(1, 3)),
	}
	o.Least = int(rnd.Between(1, int64(o.Committed)))
	o.Requested = o.Current
	if rnd.Chance(1, 4) {
		o.Requested = authority()
	}
	if rnd.Chance(1, 20) {
		o.Current = authority()
	}
	o.Policy = broker.AckPolicy{Kind: pick(rnd, broker.LocalDurable, broker.ReplicaCount, broker.AllInSyncSet), Count: int(rnd.Between(2, 6))}
	o.Set, o.Counted = c.ids(o.Current.Broker), c.ids(o.Current.Broker)
	for range rnd.Between(0, 6) {
		o.Acks = append(o.Acks, broker.Ack{Broker: ha.BrokerID(rnd.Between(1, 6)), Offset: ha.LogOffset(rnd.Between(0, 6)), Class: pick(rnd, ha.ClassReceived, ha.ClassDurable)})
	}
	return o
}

// ids draws a set that usually has its leader.
func (c *decideCheck) ids(leader ha.BrokerID) ha.IDs {
	out := ha.NewIDs()
	for id := ha.BrokerID(1); id <= 5; id++ {
		if c.rnd.Chance(1, 2) {
			out = out.With(id)
		}
	}
	if c.rnd.Chance(9, 10) {
		out = out.With(leader)
	}
	return out
}

// verdict is what the oracle says.
type oracleSays struct {
	outcome    broker.Outcome
	durability broker.Durability
}

// oracle decides by search: an acknowledgement needs a set of witnesses, so every
// subset of the brokers is tried.
func oracle(o *broker.Observation) oracleSays {
	if o.Current.Broker < 0 || o.Current.Epoch <= 0 || o.Requested != o.Current || !o.LeaseHeld || o.Committed < o.MinInSync {
		return oracleSays{outcome: broker.Reject}
	}
	best := oracleSays{outcome: broker.Wait}
	if o.Local < o.Required || o.Least < o.MinInSync {
		return best
	}
	for subset := 0; subset < 1<<6; subset++ {
		d, ok := witnessed(o, subset)
		if ok && (best.outcome == broker.Wait || d > best.durability) {
			best = oracleSays{broker.Acknowledge, d}
		}
	}
	return best
}

// witnessed reports whether the brokers 1–6 in the subset, and nobody else, satisfy
// the policy beside the leader, and how well.
func witnessed(o *broker.Observation, subset int) (broker.Durability, bool) {
	n, durable := 0, o.LocalClass == ha.ClassDurable
	for id := ha.BrokerID(1); id <= 6; id++ {
		if subset&(1<<(id-1)) == 0 {
			continue
		}
		electorate := o.Counted
		if o.Policy.Kind == broker.AllInSyncSet {
			electorate = o.Set
		}
		class, holds := ha.ClassUnknown, false
		for _, a := range o.Acks {
			if a.Broker == id && a.Offset >= o.Required {
				holds, class = true, max(class, a.Class)
			}
		}
		if id == o.Current.Broker || !electorate.Has(id) || !holds {
			return 0, false
		}
		n++
		durable = durable && class == ha.ClassDurable
	}
	switch o.Policy.Kind {
	case broker.LocalDurable:
		return broker.Local, n == 0
	case broker.ReplicaCount:
		if n != o.Policy.Count-1 {
			return 0, false
		}
	case broker.AllInSyncSet:
		if n != len(o.Set.Without(o.Current.Broker)) {
			return 0, false
		}
	}
	switch {
	case n == 0:
		return broker.Local, true
	case durable:
		return broker.Replicated, true
	}
	return broker.ReplicatedReceived, true
}

// one checks a drawn observation and its variations.
func (c *decideCheck) one() {
	o := c.draw()
	want, got := oracle(&o), broker.DecideReplication(o)
	c.checked++
	if got.Outcome != want.outcome || got.Outcome == broker.Acknowledge && got.Ack.Durability() != want.durability {
		c.fail(clauseOracle, "%+v: %v %v, the oracle says %v %v", o, got.Outcome, got.Ack.Durability(), want.outcome, want.durability)
	}
	if got.Outcome == broker.Acknowledge && got.Ack.Offset() != o.Required {
		c.fail(clauseBeyond, "%+v proves %d", o, got.Ack.Offset())
	}
	if (o.Requested != o.Current || !o.LeaseHeld || o.Committed < o.MinInSync) && got.Outcome != broker.Reject {
		c.fail(clauseAuthority, "%+v: %v", o, got.Outcome)
	}
	if o.Policy.Kind == broker.ReplicaCount && o.Policy.Count-1 > len(o.Counted.Without(o.Current.Broker)) && got.Outcome == broker.Acknowledge {
		c.fail(clauseImpossible, "%+v is acknowledged", o)
	}
	c.vary(clauseDuplicate, o, got, append(append([]broker.Ack{}, o.Acks...), o.Acks...))
	self := broker.Ack{Broker: o.Current.Broker, Offset: 1 << 40, Class: ha.ClassDurable}
	c.vary(clauseSelf, o, got, append(append([]broker.Ack{}, o.Acks...), self))
	stranger := append([]broker.Ack{}, o.Acks...)
	for id := ha.BrokerID(1); id <= 9; id++ {
		if !o.Set.Has(id) && !o.Counted.Has(id) {
			stranger = append(stranger, broker.Ack{Broker: id, Offset: 1 << 40, Class: ha.ClassDurable})
		}
	}
	c.vary(clauseStranger, o, got, stranger)
}

// vary decides again with other acknowledgements: nothing may change.
func (c *decideCheck) vary(name string, o broker.Observation, want broker.Decision, acks []broker.Ack) {
	o.Acks = acks
	c.checked++
	if got := broker.DecideReplication(o); got != want {
		c.fail(name, "%+v: %+v, without them %+v", o, got, want)
	}
}

// example is the document's: members A, B, C; A leads and is durable, B has
// acknowledged the record, C lags.
func (c *decideCheck) example() {
	const a, b, lagging = 1, 2, 3
	lead := ha.Authority{Broker: a, Epoch: 7}
	o := broker.Observation{Current: lead, Requested: lead, LeaseHeld: true, Required: 200, Local: 200, LocalClass: ha.ClassDurable,
		Set: ha.NewIDs(a, b, lagging), Counted: ha.NewIDs(a, b, lagging), Committed: 3, Least: 3, MinInSync: 2,
		Acks: []broker.Ack{{Broker: b, Offset: 200, Class: ha.ClassDurable}, {Broker: lagging, Offset: 199, Class: ha.ClassDurable}}}
	expect := func(what string, p broker.AckPolicy, out broker.Outcome, d broker.Durability) {
		o.Policy = p
		c.checked++
		if got := broker.DecideReplication(o); got.Outcome != out || out == broker.Acknowledge && got.Ack.Durability() != d {
			c.fail(clauseExample, "%s: %v %v, want %v %v", what, got.Outcome, got.Ack.Durability(), out, d)
		}
	}
	count, all := broker.AckPolicy{Kind: broker.ReplicaCount, Count: 2}, broker.AckPolicy{Kind: broker.AllInSyncSet}
	expect("a count of two with A and B", count, broker.Acknowledge, broker.Replicated)
	expect("all in sync while C lags", all, broker.Wait, 0)
	expect("the leader alone", broker.AckPolicy{Kind: broker.LocalDurable}, broker.Acknowledge, broker.Local)
	o.Acks[1].Offset = 200
	expect("all in sync once C covers the record", all, broker.Acknowledge, broker.Replicated)
	o.Least = 1
	expect("all in sync, and the leader alone may be the set by now", all, broker.Wait, 0)
	o.Least = 3
	o.Acks[1].Class = ha.ClassReceived
	expect("all in sync, C from its cache", all, broker.Acknowledge, broker.ReplicatedReceived)
	o.Local = 199
	expect("replicas cannot make up for the leader's own disk", all, broker.Wait, 0)
}
