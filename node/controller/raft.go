package controller

import (
	"fmt"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/internal/invariant"
	"lockstep/node"
	"lockstep/storage/raftstore"
)

// Bounds of raft traffic, so that one append always fits the store's and the
// frame's limits.
const (
	maxRaftMessage  = 256 << 10
	maxRaftInflight = 16
	maxUncommitted  = 4 << 20
)

// startRaft makes the raft member from what the store holds.
func (c *Controller) startRaft(rec raftstore.Recovered) error {
	c.log = raft.NewMemoryStorage()
	c.conf = &pb.ConfState{}
	if s := rec.Snapshot; s != nil {
		if err := c.restore(snapshotToRaft(s)); err != nil {
			return err
		}
		c.snapped = s.Index
	}
	if err := c.log.SetHardState(hardToRaft(rec.Hard)); err != nil {
		return fmt.Errorf("controller log: %w", err)
	}
	if err := c.log.Append(entriesToRaft(rec.Entries)); err != nil {
		return fmt.Errorf("controller log: %w", err)
	}
	c.replayed = rec.Hard.Commit
	c.store.durable = rec.Hard
	rn, err := raft.NewRawNode(&raft.Config{
		ID: c.raftID, ElectionTick: c.o.ElectionTicks, HeartbeatTick: c.o.HeartbeatTicks,
		Storage: c.log, Applied: c.applied, AsyncStorageWrites: true,
		MaxSizePerMsg: maxRaftMessage, MaxInflightMsgs: maxRaftInflight, MaxUncommittedEntriesSize: maxUncommitted,
		CheckQuorum: true, PreVote: true, ReadOnlyOption: raft.ReadOnlySafe, Logger: raftLogger{},
		DisableProposalForwarding: true, StepDownOnRemoval: true,
	})
	if err != nil {
		return fmt.Errorf("controller raft: %w", err)
	}
	c.rn, c.phase, c.why = rn, phaseMember, ""
	c.term = rec.Hard.Term
	return nil
}

// restore replaces state and log by a snapshot.
func (c *Controller) restore(s *pb.Snapshot) error {
	state, err := decodeState(s.GetData())
	if err != nil {
		return fmt.Errorf("controller snapshot at %d: %w", s.GetMetadata().GetIndex(), err)
	}
	if err := c.log.ApplySnapshot(s); err != nil {
		return fmt.Errorf("controller snapshot at %d: %w", s.GetMetadata().GetIndex(), err)
	}
	c.state = state
	c.applied, c.appTerm = s.GetMetadata().GetIndex(), s.GetMetadata().GetTerm()
	c.conf = s.GetMetadata().GetConfState()
	return nil
}

// drainRaft performs everything raft wants and reports whether there was anything.
func (c *Controller) drainRaft(now node.Now) bool {
	if c.rn == nil || c.exit != nil || !c.rn.HasReady() {
		return false
	}
	for c.rn.HasReady() && c.exit == nil {
		rd := c.rn.Ready()
		c.followRole(now)
		for _, rs := range rd.ReadStates {
			c.barrierReached(rs)
		}
		for _, m := range rd.Messages {
			c.route(now, m)
		}
	}
	return true
}

// route delivers a message of raft: to the store, to the state, or to a peer.
func (c *Controller) route(now node.Now, m *pb.Message) {
	switch m.GetTo() {
	case raft.LocalAppendThread:
		c.storeAppend(m)
	case raft.LocalApplyThread:
		for _, e := range m.GetEntries() {
			c.applyEntry(now, e)
		}
		c.respond(m.GetResponses())
	default:
		c.sendRaft(m)
	}
}

// respond delivers the messages that waited for a local write or an apply.
func (c *Controller) respond(ms []*pb.Message) {
	for _, m := range ms {
		if m.GetTo() == c.raftID {
			c.stepLocal(m)
		} else {
			c.sendRaft(m)
		}
	}
}

// stepLocal steps a message that this node made itself; raft accepts those.
func (c *Controller) stepLocal(m *pb.Message) {
	err := c.rn.Step(m)
	invariant.That(err == nil, "raft refused its own %s: %v", m.GetType(), err)
}

// applyEntry applies one committed entry.
func (c *Controller) applyEntry(now node.Now, e *pb.Entry) {
	invariant.That(e.GetIndex() == c.applied+1, "entry %d applied after %d", e.GetIndex(), c.applied)
	c.applied, c.appTerm = e.GetIndex(), e.GetTerm()
	if e.GetType() != pb.EntryNormal {
		c.applyMembership(e)
		return
	}
	if len(e.GetData()) == 0 {
		return // a new leader's first entry
	}
	o, cmd, err := decodeCommand(e.GetData())
	if err != nil {
		// Every controller meets the same bytes; going on would let them differ.
		c.leave(node.ExitRefused, fmt.Sprintf("log entry %d: %v", e.GetIndex(), err))
		return
	}
	out := c.state.apply(cmd)
	if e.GetIndex() > c.replayed {
		for _, ev := range out.events {
			ev.Count = int64(e.GetIndex())
			c.emit(ev)
		}
	}
	c.recordApplied(now, cmd, out)
	c.resolve(now, o, out)
}

// applyMembership follows a committed change of the voters.
func (c *Controller) applyMembership(e *pb.Entry) {
	var cc pb.ConfChangeI
	if e.GetType() == pb.EntryConfChange {
		cc = &pb.ConfChange{}
	} else {
		cc = &pb.ConfChangeV2{}
	}
	if err := proto.Unmarshal(e.GetData(), cc.(proto.Message)); err != nil {
		c.leave(node.ExitRefused, fmt.Sprintf("log entry %d: membership change: %v", e.GetIndex(), err))
		return
	}
	if err := c.state.admitController(cc.AsV2().GetContext()); err != nil {
		c.leave(node.ExitRefused, fmt.Sprintf("log entry %d: membership change: %v", e.GetIndex(), err))
		return
	}
	c.conf, c.changed = c.rn.ApplyConfChange(cc), e.GetIndex()
	if c.lead != nil {
		c.lead.changeAt = 0
	}
	c.emit(event.Event{Kind: event.MembersChanged, Set: c.voterNumbers(), Count: int64(e.GetIndex())})
}

func (c *Controller) voterNumbers() ha.IDs {
	ids := make([]ha.BrokerID, 0, len(c.conf.GetVoters()))
	for _, v := range c.conf.GetVoters() {
		ids = append(ids, numberOf(v))
	}
	return ha.NewIDs(ids...)
}

// followRole compares raft's role with the machine's and starts or ends a term of
// leadership.
func (c *Controller) followRole(now node.Now) {
	st := c.rn.BasicStatus()
	leads := st.RaftState == raft.StateLeader
	if c.lead != nil && (!leads || c.lead.term != st.HardState.GetTerm()) {
		c.endLeadership()
	}
	if leads && c.lead == nil {
		c.lead = newLeadership(st.HardState.GetTerm(), now.Mono)
	}
	if st.Lead != c.leader || st.HardState.GetTerm() != c.term && st.Lead != 0 {
		c.emit(event.Event{Kind: event.LeaderChanged, Broker: numberOf(st.Lead), Count: int64(st.HardState.GetTerm())})
	}
	c.leader, c.term = st.Lead, st.HardState.GetTerm()
}

// ready reports whether this node may act and answer as the leader: everything
// committed before its term is applied.
func (c *Controller) ready() bool {
	return c.lead != nil && c.exit == nil && c.appTerm == c.lead.term
}

// sendRaft sends m to its peer, or tells raft that it could not.
func (c *Controller) sendRaft(m *pb.Message) {
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	invariant.That(err == nil, "raft message does not encode: %v", err)
	snap := m.GetType() == pb.MsgSnap
	sent := c.sendPeer(m.GetTo(), body)
	if !sent {
		c.rn.ReportUnreachable(m.GetTo())
	}
	if snap {
		status := raft.SnapshotFinish
		if !sent {
			status = raft.SnapshotFailure
		}
		c.rn.ReportSnapshot(m.GetTo(), status)
	}
}

// receiveRaft steps a message of a verified peer. The message may still be
// anything: its end points must be the session's, and it may not claim that this
// node holds what it does not.
func (c *Controller) receiveRaft(s *session, body []byte) error {
	m := &pb.Message{}
	if err := proto.Unmarshal(body, m); err != nil {
		return fmt.Errorf("raft message does not decode: %w", err)
	}
	if m.GetFrom() != s.raftID || m.GetTo() != c.raftID {
		return fmt.Errorf("raft message from %d to %d on the session of %d to %d", m.GetFrom(), m.GetTo(), s.raftID, c.raftID)
	}
	if raft.IsLocalMsg(m.GetType()) || len(m.GetResponses()) > 0 || m.GetType() == pb.MsgProp {
		return fmt.Errorf("raft message %s may not come from a peer", m.GetType())
	}
	if err := checkEntries(m); err != nil {
		return err
	}
	st := c.rn.BasicStatus()
	last, err := c.log.LastIndex()
	invariant.That(err == nil, "log end: %v", err)
	if m.GetType() == pb.MsgHeartbeat && m.GetTerm() >= st.HardState.GetTerm() && m.GetCommit() > max(last, st.HardState.GetCommit()) {
		// The leader knows that this node acknowledged more than it holds: its disk lost
		// what it had confirmed. Going on could vote away committed entries.
		c.leave(node.ExitSuspect, fmt.Sprintf("the log ends at %d but entry %d was acknowledged: the disk lost confirmed writes; move the store away, start empty and re-add this controller", last, m.GetCommit()))
		return nil
	}
	// What raft does not want (a response from a removed peer) it ignores by an error.
	if err := c.rn.Step(m); err != nil {
		return nil
	}
	return nil
}

// checkEntries refuses entries that raft would panic on.
func checkEntries(m *pb.Message) error {
	for i, e := range m.GetEntries() {
		if m.GetType() == pb.MsgApp && e.GetIndex() != m.GetIndex()+1+uint64(i) || len(e.GetData()) > raftstore.MaxEntryBytes {
			return fmt.Errorf("raft message %s: entry %d does not follow", m.GetType(), e.GetIndex())
		}
	}
	if s := m.GetSnapshot(); m.GetType() == pb.MsgSnap && s != nil {
		if _, err := decodeState(s.GetData()); err != nil {
			return err
		}
	}
	return nil
}

// raftLogger drops raft's chatter; the machine emits its own events. A panic of raft
// is a broken invariant of this process.
type raftLogger struct{}

func (raftLogger) Debug(...any)            {}
func (raftLogger) Debugf(string, ...any)   {}
func (raftLogger) Error(...any)            {}
func (raftLogger) Errorf(string, ...any)   {}
func (raftLogger) Info(...any)             {}
func (raftLogger) Infof(string, ...any)    {}
func (raftLogger) Warning(...any)          {}
func (raftLogger) Warningf(string, ...any) {}
func (raftLogger) Fatal(v ...any)          { invariant.That(false, "raft: %s", fmt.Sprint(v...)) }
func (raftLogger) Fatalf(f string, v ...any) {
	invariant.That(false, "raft: %s", fmt.Sprintf(f, v...))
}
func (raftLogger) Panic(v ...any)            { invariant.That(false, "raft: %s", fmt.Sprint(v...)) }
func (raftLogger) Panicf(f string, v ...any) { invariant.That(false, "raft: %s", fmt.Sprintf(f, v...)) }

var _ raft.Logger = raftLogger{}
