package controller

import (
	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/internal/invariant"
	"lockstep/node"
	"lockstep/node/wire"
)

// Leases (P12, HA contracts 6.7). A grant is not a log entry. The leader answers a
// heartbeat only after a read-index round that began after the heartbeat arrived, so
// every grant of an older leader counts from a moment before the present term began,
// and "term start plus duration" bounds them all. What is replicated is the
// authority: an election commits only when the old one's lease has surely ended,
// hence the committed authority may be granted at once, also by a new leader.

// grant answers a master's heartbeat after its barrier.
func (c *Controller) grant(now node.Now, r *read) wire.LeaseGrant {
	rec := c.state.group(r.key)
	if rec == nil || !c.mayHold(rec, r.heartbeat) {
		return wire.LeaseGrant{}
	}
	w := c.lead.watch(r.key)
	a := ha.Authority{Broker: rec.Master, Epoch: rec.Epoch}
	if w.electing != 0 || w.fenced == a || !c.gateOpen(now.Mono, rec, w, a) {
		return wire.LeaseGrant{}
	}
	first := w.granted != a
	// The broker counts from when it sent the heartbeat, which is before it arrived
	// here; its margin covers the drift of both clocks.
	until := r.at.Add(c.o.LeaseDuration)
	invariant.That(first || until >= w.until, "%s: a lease would end before an earlier one of the same authority", r.key)
	w.granted, w.until = a, max(w.until, until)
	c.lead.grants++
	generation := c.lead.term<<32 + c.lead.grants
	if first {
		c.emit(event.Event{Kind: event.LeaseGranted, Group: r.key.Group, Broker: a.Broker, Epoch: a.Epoch, Count: int64(generation)})
	}
	return wire.LeaseGrant{
		Broker: a.Broker, Boot: rec.MasterAt.Boot, Epoch: a.Epoch, Generation: generation,
		DurationMillis: c.o.LeaseDuration.Milliseconds(), MarginMillis: c.o.LeaseMargin.Milliseconds(),
	}
}

// mayHold reports whether the heartbeat comes from the committed authority and
// wants to keep it.
func (c *Controller) mayHold(rec *Record, h *wire.BrokerHeartbeat) bool {
	ready := h.Ready == wire.ReadyYes || h.Ready == wire.ReadyUnknown && c.o.ElectUnknownReadiness
	return rec.Master == h.BrokerID && !rec.Lost && rec.MasterAt == h.Of(h.BrokerID) &&
		h.Epoch == rec.Epoch && ready && h.Fenced < rec.Epoch && !h.HandOver
}

// gateOpen reports whether nobody else can still hold a lease of the group: the
// authority was granted before, its election waited for the old lease, or the
// longest possible lease of anybody has run out.
func (c *Controller) gateOpen(now node.Time, rec *Record, w *watch, a ha.Authority) bool {
	return w.granted == a || rec.Gated || now >= c.lead.since.Add(c.o.LeaseDuration) && now >= w.until
}

// leaseOver reports whether the present authority's lease has surely ended, and
// since when: only then may a successor be elected, and reports of candidates sent
// after that moment say all that was acknowledged under it.
func (c *Controller) leaseOver(now node.Time, rec *Record, w *watch) (over bool, since node.Time) {
	if !rec.Elected() || c.o.leaseOf(rec.Group) == LeaseOff {
		return true, -node.Never
	}
	if w.fenced == (ha.Authority{Broker: rec.Master, Epoch: rec.Epoch}) {
		return true, w.fencedAt
	}
	end := max(c.lead.since.Add(c.o.LeaseDuration), w.until)
	return now >= end, end
}
