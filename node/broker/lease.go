package broker

import (
	"time"

	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/internal/invariant"
	"lockstep/node"
	"lockstep/node/wire"
)

// lease is the right to write until a local, monotonic deadline (HA contracts 6.7).
// It buys exclusive authority in time; durability never depends on it (P12). A
// missing grant does nothing, the deadline does; a grant of a lower or equal
// generation never re-opens it.
type lease struct {
	mode       WriteLease
	authority  ha.Authority
	generation uint64
	deadline   node.Time // 0: none
	open       bool      // the last LeaseInstalled was not yet followed by LeaseExpired
}

// held reports whether writing is allowed as far as leases go.
func (l *lease) held(now node.Time) bool {
	return l.mode == LeaseOff || l.deadline != 0 && now < l.deadline
}

// end is the instant from which nothing may be acknowledged any more, 0 when no lease is
// needed. The host holds answers against it once more as they leave.
func (l *lease) end() node.Time {
	if l.mode == LeaseOff {
		return 0
	}
	return l.deadline
}

// remaining is what a grant is worth to the receiver: its duration, less the
// margin for the time from this check to the acknowledgement leaving, less all
// the time since the request was sent. It holds no wall clock and no foreign one.
func remaining(g wire.LeaseGrant, elapsed time.Duration) time.Duration {
	return time.Duration(g.DurationMillis-g.MarginMillis)*time.Millisecond - elapsed
}

// install takes a grant for authority a that answers a heartbeat sent at sent, and
// reports whether it was taken. Only the exact authority and a newer generation
// count; an extension never shortens.
func (l *lease) install(g wire.LeaseGrant, a ha.Authority, sent, now node.Time) bool {
	invariant.That(now >= sent, "a grant answers a heartbeat of the future: %d after %d", sent, now)
	if g.Broker != a.Broker || g.Epoch != a.Epoch || !a.Valid() {
		return false
	}
	left := remaining(g, now.Sub(sent))
	if left <= 0 || l.authority == a && g.Generation <= l.generation {
		return false
	}
	l.authority, l.generation = a, g.Generation
	l.deadline = max(l.deadline, now.Add(left))
	return true
}

// fence ends the lease; the generation stays, so that a delayed grant of the same
// authority cannot bring it back.
func (l *lease) fence() { l.deadline = 0 }

// grant handles a lease in the answer to a heartbeat sent at sent.
func (b *Broker) grant(g wire.LeaseGrant, sent node.Time) {
	if !g.Granted() || b.lease.mode == LeaseOff {
		return
	}
	margin := time.Duration(g.MarginMillis) * time.Millisecond
	if margin < b.o.LeaseMargin || g.Boot != b.id.Boot {
		b.emit(event.Event{Kind: event.RequestRefused, Epoch: g.Epoch, Count: int64(g.Generation),
			Text: "lease refused: margin below writeLeaseMarginMillis, or for another boot"})
		return
	}
	if b.lease.install(g, b.role.authorityOf(b.id.Broker), sent, b.now.Mono) {
		if !b.lease.open {
			b.lease.open = true
			b.emit(event.Event{Kind: event.LeaseInstalled, Broker: b.id.Broker, Epoch: g.Epoch, Count: int64(g.Generation)})
		}
	}
}

// authorityOf is the authority this role will have once it serves: leases may be
// asked for and installed during promotion.
func (r *role) authorityOf(self ha.BrokerID) ha.Authority {
	if !r.master() {
		return ha.Authority{}
	}
	return ha.Authority{Broker: self, Epoch: r.epoch}
}

// settleLease says once when the lease is over. Waiting producers are rejected by
// DecideReplication in the same Settle.
func (b *Broker) settleLease() {
	l := &b.lease
	if l.open && !l.held(b.now.Mono) {
		l.open = false
		b.emit(event.Event{Kind: event.LeaseExpired, Broker: b.id.Broker, Epoch: l.authority.Epoch, Count: int64(l.generation)})
	}
}

// leaseDeadline is when the lease ends.
func (b *Broker) leaseDeadline() node.Time {
	if !b.lease.open || b.lease.deadline == 0 {
		return node.Never
	}
	return b.lease.deadline
}
