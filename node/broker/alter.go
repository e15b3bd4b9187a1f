package broker

import (
	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/node"
	"lockstep/node/wire"
)

// desired is the set this master wants now, with the incarnation of each member.
// A member whose session closed goes at once only while the rest still reaches the
// floor; below it the usual grace applies, or a short reset would empty the set
// (P6, P15).
func (b *Broker) desired() (ha.IDs, wire.Members) {
	s := &b.set
	want, members := ha.NewIDs(b.id.Broker), wire.Members{b.self()}
	stay := len(s.committed)
	for i := range s.clocks {
		if s.clocks[i].lagging {
			stay--
		}
	}
	for _, id := range s.committed {
		c := s.clock(id)
		if id == b.id.Broker || c == nil || c.lagging {
			continue
		}
		m, ok := s.proven.Find(id)
		if !ok {
			continue // named by somebody else; it has to pass the join test first
		}
		if c.gone && stay-1 >= b.floor() {
			stay--
			continue
		}
		want, members = want.With(id), append(members, m)
	}
	for _, r := range b.replicas {
		if r.joining.passed {
			want, members = want.With(r.self.Broker), replaceMember(members, r.self)
		}
	}
	return want, members
}

// replaceMember names m as its broker's incarnation.
func replaceMember(list wire.Members, m ha.Incarnation) wire.Members {
	for i := range list {
		if list[i].Broker == m.Broker {
			list[i] = m
			return list
		}
	}
	return append(list, m)
}

// settleProposals asks for the desired set. One request is under way at most; an
// unanswered one stays in the union for good, and is overcome by proposing again
// at the same base: whatever commits first raises the set epoch and so refuses
// the others (P3).
func (b *Broker) settleProposals() {
	s := &b.set
	for i := range s.proposals {
		if c := &s.proposals[i].call; c.open && (c.expired(b.now.Mono, b.o.ControllerRequestTimeout) || c.session != b.reg.leaderSession()) {
			c.open = false // unknown outcome: it stays in the union
			b.reg.suspectLeader()
		}
		if s.proposals[i].call.open {
			return
		}
	}
	if b.now.Mono < s.retry || b.reg.leaderSession() == 0 || b.stop.stage >= stopHandover {
		return
	}
	if len(s.proposals) == 0 && !b.setChanges() {
		return
	}
	want, members := b.desired()
	p := b.proposalFor(want, members)
	p.open++
	p.call.begin(b.nextOpaque(), b.reg.leaderSession(), b.now.Mono)
	s.dirty = true
	b.request(p.call.session, p.call.opaque, wire.ReqAlterSyncStateSet, wire.AlterSyncStateSetRequest{
		BrokerName: b.o.BrokerName, ClusterName: b.o.BrokerClusterName, MasterBrokerID: b.id.Broker, MasterEpoch: b.role.epoch,
		InvokeTime: b.now.Wall, Identity: b.identity(), Members: p.members, Floor: b.confirm, MinInSync: int32(b.o.MinInSync()),
	}, wire.MarshalBody(wire.SyncStateSetBody{SyncStateSet: p.set, SyncStateSetEpoch: s.epoch}))
	b.emit(event.Event{Kind: event.AlterProposed, Broker: b.id.Broker, Epoch: b.role.epoch, SetEpoch: s.epoch, Set: p.set})
}

// setChanges reports, without allocating, whether the desired set differs from the
// committed one.
func (b *Broker) setChanges() bool {
	s := &b.set
	for i := range s.clocks {
		if c := &s.clocks[i]; c.lagging || c.gone {
			return b.wantsOther()
		}
	}
	for _, r := range b.replicas {
		if r.joining.passed {
			return b.wantsOther()
		}
	}
	return len(s.proven) != len(s.committed) && b.wantsOther()
}

func (b *Broker) wantsOther() bool {
	want, members := b.desired()
	if !want.Equal(b.set.committed) {
		return true
	}
	for _, m := range members {
		if !b.set.provenAs(m) {
			return true // a member's new incarnation passed the test
		}
	}
	return false
}

// proposalFor returns the entry of exactly this proposal, or makes one. The last place
// is kept for the master alone: the others may name lives that have ended since, which
// the controllers refuse for ever, and only what they can accept resolves the base.
func (b *Broker) proposalFor(want ha.IDs, members wire.Members) *proposal {
	s := &b.set
	if p := s.proposal(want, members); p != nil {
		return p
	}
	if len(s.proposals) >= maxProposals-1 {
		want, members = ha.NewIDs(b.id.Broker), wire.Members{b.self()}
		if p := s.proposal(want, members); p != nil {
			return p
		}
	}
	s.proposals = append(s.proposals, proposal{set: want, members: members})
	return &s.proposals[len(s.proposals)-1]
}

// proposal returns the unresolved entry of exactly this proposal, or nil.
func (s *syncSet) proposal(want ha.IDs, members wire.Members) *proposal {
	for i := range s.proposals {
		if p := &s.proposals[i]; p.set.Equal(want) && sameMembers(p.members, members) {
			return p
		}
	}
	return nil
}

func sameMembers(a, c wire.Members) bool {
	for _, m := range a {
		if x, ok := c.Find(m.Broker); !ok || x != m {
			return false
		}
	}
	return len(a) == len(c)
}

// alterAnswer takes the controllers' answer to a proposal. It counts only for the
// proposal it answers, at the base that proposal was made at: a new base or epoch
// has cleared the list, so a late answer finds nothing.
func (b *Broker) alterAnswer(s node.SessionID, f *wire.Frame) bool {
	var p *proposal
	for i := range b.set.proposals {
		if b.set.proposals[i].call.answers(s, f) {
			p = &b.set.proposals[i]
		}
	}
	if p == nil {
		return false
	}
	p.call.open = false
	code := f.Head.Code
	if code == wire.CodeSuccess {
		b.set.named = p.members
		b.alterDone(f)
		b.set.named = nil
		return true
	}
	b.emit(event.Event{Kind: event.AlterRefused, Broker: b.id.Broker, Epoch: b.role.epoch, SetEpoch: b.set.epoch, Code: code, Text: f.Head.Remark})
	if definiteRefusal(code) {
		b.alterRefused(p)
	}
	b.set.retry = b.now.Mono.Add(refusedProposalPause)
	if code == wire.CodeNotLeader {
		b.reg.leaderDenies()
	} else {
		b.reg.pollNow()
	}
	return true
}

// alterDone adopts the set as committed. An answer that does not read leaves the
// outcome unknown: the union stays, and the next poll tells.
func (b *Broker) alterDone(f *wire.Frame) {
	var h wire.AlterSyncStateSetResponse
	var body wire.SyncStateSetBody
	if f.Header(&h) != nil || wire.UnmarshalBody(f.Body, &body) != nil {
		b.set.retry = b.now.Mono.Add(refusedProposalPause)
		b.reg.pollNow()
		return
	}
	v := b.view
	v.set, v.setEpoch = ha.NewIDs(body.SyncStateSet...), max(h.NewSyncStateSetEpoch, body.SyncStateSetEpoch)
	if h.MinInSync > 0 {
		v.minInSync, v.floor, v.retained = h.MinInSync, h.Floor, h.Retained
	}
	if len(h.Members) > 0 {
		v.members = h.Members
	}
	b.believe(v)
}

// alterRefused drops a proposal when each of its sends was refused: then it can
// never commit. Slaves it would have let in wait a while.
func (b *Broker) alterRefused(p *proposal) {
	p.open--
	for _, r := range b.replicas {
		if r.joining.active && p.set.Has(r.self.Broker) {
			b.stopJoining(r)
			r.joining.pause = b.now.Mono.Add(refusedProposalPause)
		}
	}
	if p.open > 0 {
		return
	}
	s := &b.set
	for i := range s.proposals {
		if &s.proposals[i] == p {
			s.proposals = append(s.proposals[:i], s.proposals[i+1:]...)
			break
		}
	}
	s.dirty = true
}

// definiteRefusal reports whether the code is an evaluation of the proposal itself,
// after which it cannot commit. Everything else, a leader's change of mind
// included, leaves it possible.
func definiteRefusal(code int32) bool {
	switch code {
	case wire.CodeFencedMasterEpoch, wire.CodeFencedSetEpoch, wire.CodeInvalidMaster, wire.CodeInvalidReplicas,
		wire.CodeBrokerNotAlive, wire.CodeAlterSetFailed:
		return true
	}
	return false
}

// adoptSet takes a committed set of this epoch with a higher set epoch, however it
// was heard of. It ends every proposal at the old base.
func (b *Broker) adoptSet(set ha.IDs, epoch ha.SetEpoch) {
	s := &b.set
	if epoch <= s.epoch || !set.Has(b.id.Broker) {
		return
	}
	proven := wire.Members{b.self()}
	for _, id := range set {
		if id == b.id.Broker {
			continue
		}
		if m, ok := b.adoptedAs(id, set, epoch); ok {
			proven = append(proven, m)
		}
	}
	old := s.committed
	s.committed, s.epoch, s.proven, s.proposals, s.dirty = set, epoch, proven, nil, true
	b.changed()
	clocks := s.clocks
	s.clocks = nil
	b.resetClocks()
	for _, c := range clocks {
		if n := s.clock(c.id); n != nil && old.Has(c.id) {
			*n = c
		}
	}
	for i := range s.clocks {
		// A member that came in just now has a session, or it is gone already.
		c := &s.clocks[i]
		c.gone = c.gone || !b.transfersTo(c.id)
		if !old.Has(c.id) {
			c.lagging = false
		}
	}
	b.emit(event.Event{Kind: event.SetAdopted, Broker: b.id.Broker, Epoch: b.role.epoch, SetEpoch: epoch, Set: set})
}

// adoptedAs is the incarnation under which a member of the adopted set is proven:
// the one named by the proposal that made the set. Heard of by a poll, that may be
// any of several; each incarnation they name has passed the join test here, so the
// one that has a session now speaks for the member. Without a proposal it is the
// one that was proven before.
func (b *Broker) adoptedAs(id ha.BrokerID, set ha.IDs, epoch ha.SetEpoch) (ha.Incarnation, bool) {
	s := &b.set
	if m, ok := s.named.Find(id); ok {
		return m, true
	}
	named, found := ha.Incarnation{}, false
	for i := range s.proposals {
		p := &s.proposals[i]
		if m, ok := p.members.Find(id); ok && p.set.Equal(set) && epoch == s.epoch+1 && (!found || !b.hasSession(named)) {
			named, found = m, true
		}
	}
	if found {
		return named, true
	}
	if m, ok := s.proven.Find(id); ok && s.committed.Has(id) {
		return m, true
	}
	return ha.Incarnation{}, false
}

// hasSession reports whether exactly this incarnation transfers.
func (b *Broker) hasSession(m ha.Incarnation) bool {
	for _, r := range b.replicas {
		if r.phase == replicaStarted && r.self == m {
			return true
		}
	}
	return false
}

// transfersTo reports whether the proven incarnation of a member has a session.
func (b *Broker) transfersTo(id ha.BrokerID) bool {
	m, ok := b.set.proven.Find(id)
	return ok && b.hasSession(m)
}
