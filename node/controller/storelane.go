package controller

import (
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"lockstep/internal/event"
	"lockstep/internal/invariant"
	"lockstep/node"
	"lockstep/storage"
	"lockstep/storage/raftstore"
)

// storeLane is the machine's side of the raft lane: operations are issued in order
// and end in order, so the oldest is always the one that ends.
type storeLane struct {
	nextID   uint64
	inFlight []storeOp
	durable  raftstore.HardState // as last issued to the store
	// commit is a commit index that raft wants kept but nothing waits for; it travels
	// with the next write instead of costing an fsync of its own.
	commit uint64
}

// storeOp is one operation under way.
type storeOp struct {
	id      uint64
	request *raftstore.Request
	message *pb.Message   // of an append: what to do when it is durable
	after   []*pb.Message // of later appends with nothing to write: leave behind it
}

// issue queues a request to the store.
func (c *Controller) issue(r *raftstore.Request, m *pb.Message) {
	c.store.nextID++
	c.store.inFlight = append(c.store.inFlight, storeOp{id: c.store.nextID, request: r, message: m})
	c.out.Disk = append(c.out.Disk, storage.Op{ID: c.store.nextID, Lane: storage.LaneRaft, Kind: storage.OpRaft, Raft: r})
}

// storeAppend turns raft's append message into one store operation; its responses
// leave when the operation is durable. A message with nothing to write costs none: its
// responses leave behind what is under way.
func (c *Controller) storeAppend(m *pb.Message) {
	r := &raftstore.Request{Kind: raftstore.KindAppend, Entries: entriesFromRaft(m.GetEntries())}
	hard := c.store.durable
	if m.GetTerm() != 0 || m.GetVote() != 0 || m.GetCommit() != 0 {
		hard = raftstore.HardState{Term: m.GetTerm(), Vote: m.GetVote(), Commit: m.GetCommit()}
	}
	hard.Commit = max(hard.Commit, c.store.commit)
	c.store.commit = hard.Commit
	if s := m.GetSnapshot(); !raft.IsEmptySnap(s) {
		r.Snapshot = snapshotFromRaft(s)
	}
	onlyCommit := len(r.Entries) == 0 && r.Snapshot == nil && hard.Term == c.store.durable.Term && hard.Vote == c.store.durable.Vote
	if onlyCommit && len(m.GetResponses()) == 0 {
		return
	}
	if onlyCommit {
		// Nothing to write, only words that may not overtake what is being written. An
		// operation for each would, on a slow disk, queue up faster than it is worked off
		// while an election is under way: then every answer comes after its term is over,
		// and nobody is ever elected.
		if n := len(c.store.inFlight); n > 0 {
			last := &c.store.inFlight[n-1]
			last.after = append(last.after, m.GetResponses()...)
			return
		}
		c.respond(m.GetResponses())
		return
	}
	if hard != c.store.durable {
		r.Hard = &hard
		c.store.durable = hard
	}
	c.issue(r, m)
}

// storeDone handles the end of the oldest operation.
func (c *Controller) storeDone(res storage.Result) {
	invariant.That(len(c.store.inFlight) > 0 && c.store.inFlight[0].id == res.Op.ID, "store operation %d ended out of order", res.Op.ID)
	op := c.store.inFlight[0]
	c.store.inFlight = slices.Delete(c.store.inFlight, 0, 1)
	c.stored(op)
	if c.exit == nil {
		c.respond(op.after)
	}
}

// stored does what waited for one operation.
func (c *Controller) stored(op storeOp) {
	switch {
	case op.request.Kind == raftstore.KindSave:
		c.snapshotSaved(op.request)
	case op.request.Kind == raftstore.KindJoin:
		c.identity.Cluster, c.identity.RaftID = op.request.Identity.Cluster, op.request.Identity.RaftID
		c.joined(raftstore.Recovered{Identity: c.identity})
	case op.message == nil:
		c.joined(raftstore.Recovered{Identity: c.identity, Hard: *op.request.Hard, Snapshot: op.request.Snapshot})
	default:
		c.appended(op)
	}
}

// appended makes a durable append visible to raft's reads and sends what waited for
// it.
func (c *Controller) appended(op storeOp) {
	if s := op.message.GetSnapshot(); !raft.IsEmptySnap(s) {
		if err := c.restore(s); err != nil {
			c.leave(node.ExitFailed, err.Error())
			return
		}
		c.snapped = s.GetMetadata().GetIndex()
		c.replayed = max(c.replayed, c.snapped)
		c.emit(event.Event{Kind: event.SnapshotInstalled, Count: int64(c.snapped)})
	}
	err := c.log.Append(op.message.GetEntries())
	invariant.That(err == nil, "log append: %v", err)
	c.respond(op.message.GetResponses())
}

// settleSnapshot takes a snapshot when enough was applied since the last one, or the
// membership has changed: a snapshot that does not know a new member cannot bring it
// in.
func (c *Controller) settleSnapshot() {
	due := c.applied >= c.snapped+uint64(c.o.SnapshotEvery) || c.changed > c.snapped
	if c.rn == nil || c.exit != nil || c.saving || !due {
		return
	}
	data := c.state.encode()
	invariant.That(len(data) <= raftstore.MaxSnapshotBytes, "a state of %d bytes within the limits of groups and brokers", len(data))
	s, err := c.log.CreateSnapshot(c.applied, c.conf, data)
	invariant.That(err == nil, "snapshot at %d: %v", c.applied, err)
	c.saving = true
	keep := uint64(c.o.KeepEntries)
	c.issue(&raftstore.Request{Kind: raftstore.KindSave, Snapshot: snapshotFromRaft(s), CompactTo: c.applied - min(keep, c.applied)}, nil)
}

// snapshotSaved drops the entries that the durable snapshot replaces.
func (c *Controller) snapshotSaved(r *raftstore.Request) {
	c.saving = false
	c.snapped = max(c.snapped, r.Snapshot.Index)
	first, err := c.log.FirstIndex()
	invariant.That(err == nil, "log begin: %v", err)
	if r.CompactTo >= first {
		err = c.log.Compact(r.CompactTo)
		invariant.That(err == nil, "log compaction to %d: %v", r.CompactTo, err)
	}
	c.emit(event.Event{Kind: event.SnapshotTaken, Count: int64(r.Snapshot.Index)})
}

// Translations between the store's types and raft's. Optional fields of raft's are
// pointers; an entry without data has none.

func entriesToRaft(es []raftstore.Entry) []*pb.Entry {
	out := make([]*pb.Entry, len(es))
	for i, e := range es {
		out[i] = &pb.Entry{Index: new(e.Index), Term: new(e.Term), Type: pb.EntryType(e.Type).Enum(), Data: e.Data}
	}
	return out
}

func entriesFromRaft(es []*pb.Entry) []raftstore.Entry {
	out := make([]raftstore.Entry, len(es))
	for i, e := range es {
		out[i] = raftstore.Entry{Index: e.GetIndex(), Term: e.GetTerm(), Type: uint8(e.GetType()), Data: e.GetData()}
	}
	return out
}

func hardToRaft(h raftstore.HardState) *pb.HardState {
	return &pb.HardState{Term: new(h.Term), Vote: new(h.Vote), Commit: new(h.Commit)}
}

func snapshotToRaft(s *raftstore.Snapshot) *pb.Snapshot {
	return &pb.Snapshot{Data: s.Data, Metadata: &pb.SnapshotMetadata{
		Index: new(s.Index), Term: new(s.Term),
		ConfState: &pb.ConfState{
			Voters: s.Conf.Voters, Learners: s.Conf.Learners, VotersOutgoing: s.Conf.VotersOutgoing,
			LearnersNext: s.Conf.LearnersNext, AutoLeave: new(s.Conf.AutoLeave),
		},
	}}
}

func snapshotFromRaft(s *pb.Snapshot) *raftstore.Snapshot {
	m := s.GetMetadata()
	cs := m.GetConfState()
	return &raftstore.Snapshot{Index: m.GetIndex(), Term: m.GetTerm(), Data: s.GetData(), Conf: raftstore.ConfState{
		Voters: cs.GetVoters(), Learners: cs.GetLearners(), VotersOutgoing: cs.GetVotersOutgoing(),
		LearnersNext: cs.GetLearnersNext(), AutoLeave: cs.GetAutoLeave(),
	}}
}
