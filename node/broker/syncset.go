package broker

import (
	"time"

	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/internal/invariant"
	"lockstep/node"
	"lockstep/node/wire"
)

// syncSet is the SyncStateSet as its master knows it.
//
// What counts is the effective set: the committed one and every proposal made at
// its set epoch whose own refusal has not arrived. A proposal without an answer
// may still commit, whatever a read of the same set epoch says, so only a higher
// set epoch ends it (P3).
type syncSet struct {
	committed ha.IDs
	epoch     ha.SetEpoch
	// proven names the incarnation of each committed member that passed the join
	// test here, in this epoch. Acks count from exactly these (P2).
	proven    wire.Members
	proposals []proposal
	clocks    []memberClock
	nextCheck node.Time
	retry     node.Time // no new proposal before, after a refusal
	frozen    bool      // confirm does not move: the committed set is below the floor
	thaws     int64     // how often that has ended in this epoch
	// named are the members of the proposal whose success is being taken in: then it
	// is known which proposal made the set.
	named wire.Members

	// Derived, and rebuilt only when dirty.
	dirty     bool
	effective ha.IDs // union: all of it must agree, and bounds confirm
	certain   ha.IDs // intersection: may be counted under any outcome
	acks      []Ack
}

// proposal is one asked-for set at the current base.
type proposal struct {
	set     ha.IDs
	members wire.Members
	open    int // sends whose own refusal has not arrived
	call    call
}

// maxProposals bounds the distinct unresolved proposals of one base; the last of them
// is the master alone.
const maxProposals = 8

// refusedProposalPause is the time before another proposal after a refusal.
const refusedProposalPause = time.Second

// memberClock is when a member was last known to have all of the log.
type memberClock struct {
	id       ha.BrokerID
	caughtUp node.Time
	lagging  bool // by the last periodic check
	gone     bool // its session closed and none has come back
}

// progress measures a slave's lag in time: the instant at which it had everything
// that existed then. Stamping "now" whenever nothing is left to send would call a
// slave caught up that acknowledges nothing (HA contracts weakness 9).
type progress struct {
	markEnd  ha.LogOffset
	markAt   node.Time
	caughtUp node.Time
}

func (p *progress) begin(end ha.LogOffset, now node.Time) { p.markEnd, p.markAt = end, now }

// joining is a slave on its way into the set (P14).
type joining struct {
	active bool      // it bounds confirm and acknowledgements already
	passed bool      // it passes the join test now; a proposal made now names it
	since  node.Time // when active began
	pause  node.Time // not again before
}

// clear forgets the set: the authority ended.
func (s *syncSet) clear() {
	*s = syncSet{effective: s.effective[:0], certain: s.certain[:0], acks: s.acks[:0]}
}

// startSet takes the set the election gave: the master alone, usually.
func (b *Broker) startSet() {
	s := &b.set
	s.clear()
	s.committed, s.epoch, s.dirty = b.view.set, b.view.setEpoch, true
	if !s.committed.Has(b.id.Broker) {
		// A record that came without its set: only oneself is certain.
		s.committed = ha.NewIDs(b.id.Broker)
	}
	s.proven = wire.Members{b.self()}
	s.nextCheck = b.now.Mono.Add(b.o.CheckSyncStateSetPeriod)
	b.resetClocks()
	b.emit(event.Event{Kind: event.SetAdopted, Broker: b.id.Broker, Epoch: b.role.epoch, SetEpoch: s.epoch, Set: s.committed})
}

// resetClocks gives every member a full period: at the start of an epoch, and when
// this broker itself stood still (P15).
func (b *Broker) resetClocks() {
	s := &b.set
	s.clocks = s.clocks[:0]
	for _, id := range s.committed {
		if id != b.id.Broker {
			s.clocks = append(s.clocks, memberClock{id: id, caughtUp: b.now.Mono})
		}
	}
}

func (s *syncSet) clock(id ha.BrokerID) *memberClock {
	for i := range s.clocks {
		if s.clocks[i].id == id {
			return &s.clocks[i]
		}
	}
	return nil
}

// provenAs reports whether m is the incarnation of a committed member that passed
// the join test.
func (s *syncSet) provenAs(m ha.Incarnation) bool {
	p, ok := s.proven.Find(m.Broker)
	return ok && p == m && s.committed.Has(m.Broker)
}

// counts reports whether the incarnation is a committed member.
func (s *syncSet) counts(m ha.Incarnation) bool { return s.provenAs(m) }

// least is the size of the smallest set that may be the committed one: an unresolved
// proposal may have committed (P3). It is asked for between two settles too, so it is
// not kept.
func (s *syncSet) least() int {
	n := len(s.committed)
	for i := range s.proposals {
		n = min(n, len(s.proposals[i].set))
	}
	return n
}

// left records that a member's session ended.
func (s *syncSet) left(m ha.Incarnation) {
	if c := s.clock(m.Broker); c != nil && s.provenAs(m) {
		c.gone = true
	}
}

// returned records that a member's incarnation transfers again.
func (s *syncSet) returned(m ha.Incarnation) {
	if c := s.clock(m.Broker); c != nil && s.provenAs(m) {
		c.gone = false
	}
}

// noteProgress updates a slave's clock after it acknowledged something.
func (b *Broker) noteProgress(r *replica) {
	p := &r.progress
	if r.acked >= p.markEnd {
		p.caughtUp = p.markAt
		p.begin(b.log.end, b.now.Mono)
	}
	if r.acked == b.log.end {
		p.caughtUp = b.now.Mono
	}
	if c := b.set.clock(r.self.Broker); c != nil && b.set.provenAs(r.self) {
		c.caughtUp = max(c.caughtUp, p.caughtUp)
		if b.now.Mono < c.caughtUp.Add(b.o.HAMaxTimeSlaveNotCatchup) {
			c.lagging = false
		}
	}
}

// settleSet keeps the committed set true: members that lag leave it, slaves that
// have everything join it. Each step is a proposal to the controllers; nothing
// here changes the committed set.
func (b *Broker) settleSet() {
	if !b.role.serving() {
		return
	}
	b.checkLag()
	b.settleJoins()
	b.refreshSet()
	b.settleProposals()
	b.refreshSet()
	if b.handoverMoves() {
		b.changed()
	}
}

// checkLag marks members that have not been caught up for too long, at each
// period.
func (b *Broker) checkLag() {
	s := &b.set
	if b.now.Mono < s.nextCheck {
		return
	}
	s.nextCheck = b.now.Mono.Add(b.o.CheckSyncStateSetPeriod)
	for i := range s.clocks {
		c := &s.clocks[i]
		c.lagging = b.now.Mono >= c.caughtUp.Add(b.o.HAMaxTimeSlaveNotCatchup)
	}
}

// settleJoins moves slaves towards the set. One within reach first bounds confirm
// and acknowledgements, always safe because it only asks for more; so the others
// cannot run away from it, and it passes the test under any load (P14). A slave
// that then stands still is let go, so that it holds up nobody for long.
//
// The test counts at the moment a proposal is made: a count or local policy goes on
// acknowledging without the slave while no controller leads or a refusal is waited
// out, and what was acknowledged before the proposal must be there.
func (b *Broker) settleJoins() {
	for _, r := range b.replicas {
		j := &r.joining
		if r.phase != replicaStarted || r.learner || b.set.provenAs(r.self) {
			b.stopJoining(r)
			continue
		}
		if !j.active && b.now.Mono >= j.pause && b.keepsUp(r) && int64(b.log.end-r.acked) <= b.o.HAJoinLag {
			*j = joining{active: true, since: b.now.Mono}
			b.set.dirty = true
		}
		if !j.active {
			continue
		}
		j.passed = r.acked >= max(b.confirm, b.waiters.acknowledged, b.role.barrierEnd)
		if r.acked < b.log.end && b.now.Mono >= b.joinLimit(r) && !b.proposes(r.self.Broker) {
			b.stopJoining(r)
			j.pause = b.now.Mono.Add(b.o.HAJoinTimeout)
		}
	}
}

// keepsUp reports whether a slave had everything within the time that a member is
// allowed to lag. One that was removed for its silence, and whose session is still
// open, would pass the join test by what it acknowledged before: confirm stood still
// for its sake.
func (b *Broker) keepsUp(r *replica) bool {
	return r.progress.caughtUp != 0 && b.now.Mono < r.progress.caughtUp.Add(b.o.HAMaxTimeSlaveNotCatchup)
}

// joinLimit is when a join that has not had everything since is given up.
func (b *Broker) joinLimit(r *replica) node.Time {
	return max(r.joining.since, r.progress.caughtUp).Add(b.o.HAJoinTimeout)
}

// stopJoining ends a join that is over or given up.
func (b *Broker) stopJoining(r *replica) {
	if r.joining.active {
		r.joining = joining{pause: r.joining.pause}
		b.set.dirty = true
	}
}

// proposes reports whether an unresolved proposal names the broker.
func (b *Broker) proposes(id ha.BrokerID) bool {
	for i := range b.set.proposals {
		if b.set.proposals[i].set.Has(id) {
			return true
		}
	}
	return false
}

// refreshSet derives the effective set, and the acknowledgements that count.
func (b *Broker) refreshSet() {
	s := &b.set
	if s.dirty {
		s.dirty = false
		s.effective, s.certain = s.committed, s.committed
		for i := range s.proposals {
			s.effective = s.effective.Union(s.proposals[i].set)
			s.certain = intersect(s.certain, s.proposals[i].set)
		}
		for _, r := range b.replicas {
			if r.joining.active {
				s.effective = s.effective.With(r.self.Broker)
			}
		}
	}
	s.acks = s.acks[:0]
	for _, r := range b.replicas {
		if r.phase == replicaStarted && b.votes(r) {
			s.acks = append(s.acks, Ack{Broker: r.self.Broker, Offset: r.acked, Class: r.class})
		}
	}
}

// votes reports whether a session's acknowledgements count: the proven incarnation
// of a committed member, or an incarnation that is on its way in and whose id has
// no committed member.
func (b *Broker) votes(r *replica) bool {
	if b.set.committed.Has(r.self.Broker) {
		return b.set.provenAs(r.self)
	}
	return !r.learner && b.set.effective.Has(r.self.Broker)
}

func intersect(a, c ha.IDs) ha.IDs {
	out := make(ha.IDs, 0, len(a))
	for _, id := range a {
		if c.Has(id) {
			out = append(out, id)
		}
	}
	return out
}

// setDeadline is when the set needs a look without a further fact.
func (b *Broker) setDeadline() node.Time {
	s := &b.set
	if !b.role.serving() {
		return node.Never
	}
	d := s.nextCheck
	for i := range s.proposals {
		d = min(d, s.proposals[i].call.deadline(b.o.ControllerRequestTimeout))
	}
	if s.retry > b.now.Mono {
		d = min(d, s.retry)
	}
	for _, r := range b.replicas {
		switch j := &r.joining; {
		case r.phase != replicaStarted || r.learner:
		case j.active:
			if t := b.joinLimit(r); t > b.now.Mono && r.acked < b.log.end {
				d = min(d, t)
			}
		case j.pause > b.now.Mono:
			d = min(d, j.pause)
		}
	}
	return d
}

// checkSet asserts the relations of the sets.
func (b *Broker) checkSet() {
	s := &b.set
	if !b.role.serving() {
		invariant.That(len(s.proposals) == 0 && len(s.committed) == 0, "a set without authority")
		return
	}
	invariant.That(s.committed.Has(b.id.Broker), "the committed set %v lacks its master %d", s.committed, b.id.Broker)
	for _, id := range s.committed {
		invariant.That(s.dirty || s.effective.Has(id), "committed member %d is not in the effective set", id)
	}
	invariant.That(len(s.proposals) <= maxProposals, "%d unresolved proposals", len(s.proposals))
}
