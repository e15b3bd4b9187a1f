package broker

import "lockstep/internal/ha"

// PolicyKind names an acknowledgement policy.
type PolicyKind uint8

// The policies (HA contracts 6.1).
const (
	LocalDurable PolicyKind = iota // the master's own watermark
	ReplicaCount                   // that many distinct members, the master counted; ≥ 2
	AllInSyncSet                   // each member of the SyncStateSet
)

// AckPolicy says what an acknowledged write proves.
type AckPolicy struct {
	Kind  PolicyKind
	Count int // ReplicaCount: how many members, the master counted
}

// Ack is what one replica's session has acknowledged: the exclusive end, in the
// class the replica promised.
type Ack struct {
	Broker ha.BrokerID
	Offset ha.LogOffset
	Class  ha.AckClass
}

// Observation is all that DecideReplication may look at.
type Observation struct {
	Current   ha.Authority // who may write now; the zero value: nobody
	Requested ha.Authority // under which the record was appended
	LeaseHeld bool         // a live lease, or none needed
	Policy    AckPolicy
	Required  ha.LogOffset // exclusive end of the record

	Local      ha.LogOffset // the master's own watermark, of class LocalClass
	LocalClass ha.AckClass

	// Set is every broker that has to agree under AllInSyncSet, the master among
	// them: the union of the committed set and all unresolved proposals (P3).
	Set ha.IDs
	// Counted is who may be counted under ReplicaCount: members of the committed set
	// and of all unresolved proposals alike.
	Counted ha.IDs
	Acks    []Ack

	Committed int // size of the committed set
	Least     int // size of the smallest set that may be the committed one, given unresolved proposals
	MinInSync int // its floor (P6)
}

// Outcome is the answer to "is this write acknowledged?".
type Outcome uint8

// The outcomes.
const (
	Wait        Outcome = iota // not proven yet
	Reject                     // never to be proven under this authority
	Acknowledge                // proven
)

// String names the outcome.
func (o Outcome) String() string { return [...]string{"wait", "reject", "acknowledge"}[o%3] }

// Reason says why a write waits or is rejected.
type Reason uint8

// The reasons. Their texts are stable: operators and tests match on them.
const (
	NoReason          Reason = iota
	StaleAuthority           // appended in an earlier epoch
	AuthorityMismatch        // appended under an authority this broker does not have
	LeaseOver                // no live lease
	BelowFloor               // the committed set is, or may be, smaller than minInSyncReplicas
	LocalBehind              // the master's own watermark is below
	ReplicasBehind           // the policy is not satisfied by the replicas
)

// String is the stable text.
func (r Reason) String() string {
	return [...]string{"", "stale-authority", "authority-mismatch", "lease-over", "below-floor", "local-behind", "replicas-behind"}[r%7]
}

// Durability is what an acknowledgement proves.
type Durability uint8

// The durabilities, weakest first.
const (
	Local              Durability = iota + 1 // the master's watermark alone
	ReplicatedReceived                       // replicas counted, not all of them durable
	Replicated                               // every counted acknowledgement durable
)

// String names the durability.
func (d Durability) String() string {
	return [...]string{"none", "local", "replicated-received", "replicated"}[d%4]
}

// Acknowledgement is the proof that a write satisfied its policy. Only
// DecideReplication makes one.
type Acknowledgement struct {
	offset     ha.LogOffset
	durability Durability
}

// Offset is the exclusive end that is proven: exactly what was required.
func (a Acknowledgement) Offset() ha.LogOffset { return a.offset }

// Durability is what the proof rests on.
func (a Acknowledgement) Durability() Durability { return a.durability }

// Decision is the outcome; Ack is set for Acknowledge alone.
type Decision struct {
	Outcome Outcome
	Reason  Reason
	Ack     Acknowledgement
}

// DecideReplication is the one place where a write becomes acknowledged. It is
// pure: no I/O, no retry, no downgrade of the policy. The order of its questions
// is fixed (HA contracts 6.2): authority, lease, floor, the local watermark, the
// policy. A set that only may be below the floor proves nothing and rules nothing out:
// its proposal can still be refused, so the write waits. Replicas cannot make up for
// the local watermark; the master's own id among the acks, non-members and repeated
// acks count for nothing.
func DecideReplication(o Observation) Decision {
	if why := o.authority(); why != NoReason {
		return Decision{Outcome: Reject, Reason: why}
	}
	if o.Least < o.MinInSync {
		return Decision{Outcome: Wait, Reason: BelowFloor}
	}
	if o.Local < o.Required {
		return Decision{Outcome: Wait, Reason: LocalBehind}
	}
	remote, durable := 0, 0
	among := o.Counted
	if o.Policy.Kind == AllInSyncSet {
		among = o.Set
	}
	for _, id := range among {
		if id == o.Current.Broker {
			continue
		}
		r, d := o.covered(id)
		remote, durable = remote+r, durable+d
	}
	need := o.need()
	switch {
	case need == 0:
		return o.proven(Local)
	case durable >= need && o.LocalClass == ha.ClassDurable:
		return o.proven(Replicated)
	case remote >= need:
		return o.proven(ReplicatedReceived)
	}
	return Decision{Outcome: Wait, Reason: ReplicasBehind}
}

// authority is why the record can never be acknowledged, or NoReason.
func (o *Observation) authority() Reason {
	switch {
	case !o.Current.Valid() || !o.Requested.Valid():
		return AuthorityMismatch
	case o.Requested.Epoch < o.Current.Epoch:
		return StaleAuthority
	case o.Requested != o.Current:
		return AuthorityMismatch
	case !o.LeaseHeld:
		return LeaseOver
	case o.Committed < o.MinInSync:
		return BelowFloor
	}
	return NoReason
}

// need is how many other members have to cover the record.
func (o *Observation) need() int {
	switch o.Policy.Kind {
	case ReplicaCount:
		return o.Policy.Count - 1
	case AllInSyncSet:
		n := len(o.Set)
		if o.Set.Has(o.Current.Broker) {
			n--
		}
		return n // a set of one proves Local and says so
	}
	return 0
}

// covered reports (1 or 0) whether some ack of the member reaches the record, and
// whether a durable one does.
func (o *Observation) covered(id ha.BrokerID) (received, durable int) {
	for i := range o.Acks {
		a := &o.Acks[i]
		if a.Broker != id || a.Offset < o.Required {
			continue
		}
		received = 1
		if a.Class == ha.ClassDurable {
			durable = 1
		}
	}
	return received, durable
}

func (o *Observation) proven(d Durability) Decision {
	return Decision{Outcome: Acknowledge, Ack: Acknowledgement{o.Required, d}}
}
