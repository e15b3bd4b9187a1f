// Package controller is the controller machine: a replicated record of every
// broker group (who is master in which epoch, which replicas are in sync), kept by
// three or five controllers under raft, and the leader's duties around it:
// answering brokers, noticing silent masters, electing successors, granting write
// leases, and telling brokers of their roles.
//
// The replicated state (state.go) is a pure function of the commands in the log,
// one file a command. Everything that depends on a clock lives with the leader and
// dies with its term. No goroutine, no lock, no clock; the only randomness is the
// election jitter that the raft library draws from crypto/rand.Reader.
//
// Facts come in through the Machine methods, which record; Settle derives all
// effects in the order raft, reads, elections, notices, and repeats until nothing
// changes.
package controller

import (
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"lockstep/internal/event"
	"lockstep/internal/invariant"
	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
	"lockstep/storage/raftstore"
)

// phase is how far a controller is on its way into a cluster.
type phase uint8

const (
	phaseEmpty  phase = iota // knows no cluster: initialises one, or waits to be taken into one
	phaseSaving              // the decision is being made durable
	phaseMember              // takes part in raft
)

// Controller is one controller. See node.Machine for who calls what.
type Controller struct {
	o    Options
	self Peer

	identity raftstore.Identity
	phase    phase
	why      string // what an empty controller waits for, or why it is refused

	state    State
	applied  uint64 // log index the state covers
	appTerm  uint64 // term of that entry
	replayed uint64 // entries up to here were applied in an earlier life: no events again

	rn      *raft.RawNode
	log     *raft.MemoryStorage
	conf    *pb.ConfState
	raftID  uint64
	leader  uint64 // raft id of the leader, 0 unknown
	term    uint64
	lead    *leadership // nil unless this node leads
	store   storeLane
	saving  bool   // a snapshot of this node is being written
	snapped uint64 // index of its newest durable snapshot
	changed uint64 // index of the newest membership change applied

	peers    []*peer // configured others, ascending by raft id
	list     uint64  // hash of the configured ids
	sessions map[node.SessionID]*session
	dials    uint64 // of this life, for session ids

	seen     map[memberKey]*observation
	pending  []*proposal // in order of proposal
	sequence uint64
	reads    []*read // waiting for a read barrier, in order of arrival
	rounds   []round // read barriers under way
	roundSeq uint64

	first    bool      // Settle has run once
	started  node.Time // first Settle
	settled  node.Time // newest Settle
	awake    node.Time // the loop was not running just before; silence is counted from here (P15)
	nextTick node.Time

	stopping bool
	stopBy   node.Time
	exit     *node.Exit
	exited   bool

	out node.Effects // collected by facts, handed over by Settle
}

var _ node.Machine = (*Controller)(nil)

// New returns the controller that the store's content describes. It refuses options
// that cannot work and stores it cannot read.
func New(o Options, rec raftstore.Recovered) (*Controller, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	c := &Controller{
		o: o, self: o.self(), identity: rec.Identity,
		sessions: map[node.SessionID]*session{}, seen: map[memberKey]*observation{},
	}
	if rec.Identity.Node != o.SelfID {
		return nil, fmt.Errorf("controller store belongs to %q, this is %q", rec.Identity.Node, o.SelfID)
	}
	c.addPeers()
	c.list = c.listHash()
	if rec.Empty() {
		return c, nil
	}
	if err := c.load(rec); err != nil {
		return nil, err
	}
	return c, nil
}

// load restores a member from its store.
func (c *Controller) load(rec raftstore.Recovered) error {
	id := rec.Identity.RaftID
	if rec.Snapshot != nil {
		state, err := decodeState(rec.Snapshot.Data)
		if err != nil {
			return fmt.Errorf("controller store: snapshot at %d: %w", rec.Snapshot.Index, err)
		}
		v, ok := state.voterOf(c.o.SelfID)
		if !ok || v.Store != rec.Identity.Store {
			return fmt.Errorf("controller store: the cluster knows %s with another store than this one (%s): it was replaced; start empty and re-add it", c.o.SelfID, rec.Identity.Store)
		}
		if err := c.sameNodes(&state); err != nil {
			return err
		}
		id = v.RaftID
	}
	if id == 0 {
		return fmt.Errorf("controller store: it holds a log but no membership: move it away, start empty and re-add this controller")
	}
	c.raftID = id
	return c.startRaft(rec)
}

// sameNodes refuses a configuration that names other controllers than the cluster
// has. Their names never change, only their stores do; a controller that looked for
// the wrong ones would wait for a quorum for ever.
func (c *Controller) sameNodes(s *State) error {
	var members, configured []string
	for _, v := range s.Voters {
		members = append(members, v.Node)
	}
	for _, p := range c.o.Peers {
		configured = append(configured, p.Node)
	}
	slices.Sort(members)
	slices.Sort(configured)
	if slices.Equal(members, configured) {
		return nil
	}
	return fmt.Errorf("controllerDLegerPeers names %s, the cluster of this controller's store has %s: name exactly those",
		strings.Join(configured, ", "), strings.Join(members, ", "))
}

// Listeners are the raft port and the port for brokers and tools.
func (c *Controller) Listeners() []node.Listener {
	return []node.Listener{{Link: wire.Remoting, Addr: c.self.Addr}, {Link: wire.Raft, Addr: c.self.Raft}}
}

// Stop hands leadership on, if it is held, and then exits.
func (c *Controller) Stop(now node.Now) {
	if !c.stopping {
		c.stopping, c.stopBy = true, now.Mono.Add(2*c.o.electionTimeout())
	}
}

// DiskDone records the end of a store operation.
func (c *Controller) DiskDone(now node.Now, r storage.Result) {
	if c.exit != nil {
		return
	}
	if r.Err != nil {
		c.emit(event.Event{Kind: event.DiskFailed, Text: r.Err.Error()})
		c.leave(node.ExitSuspect, "the controller store failed: "+r.Err.Error())
		return
	}
	c.storeDone(r)
}

// Settle derives every effect; see the package comment for the order.
func (c *Controller) Settle(now node.Now, fx *node.Effects) {
	if c.exit == nil {
		c.beginSettle(now)
		c.settleMembership(now)
		c.settlePeers(now)
		for c.settleLeader(now) || c.drainRaft(now) {
		}
		c.expire(now)
		c.settleSnapshot()
		c.settleStop(now)
	}
	c.flush(fx)
}

// beginSettle advances raft time by at most one tick: ticks that a pause swallowed
// are gone, because a controller that did not run has no evidence of silence.
func (c *Controller) beginSettle(now node.Now) {
	if !c.first {
		c.first, c.started, c.awake, c.settled = true, now.Mono, now.Mono, now.Mono
		c.nextTick = now.Mono.Add(c.o.Tick)
		c.announceStart()
	}
	if gap := now.Mono.Sub(c.settled); gap > max(c.o.HeartbeatTimeout/2, 2*c.o.Tick) {
		c.awake = now.Mono
	}
	c.settled = now.Mono
	if now.Mono < c.nextTick {
		return
	}
	c.nextTick = c.nextTick.Add(c.o.Tick)
	if c.nextTick <= now.Mono {
		c.nextTick = now.Mono.Add(c.o.Tick)
	}
	if c.rn != nil {
		c.rn.Tick()
	}
}

// announceStart stands for election at once when nobody else could: a cluster of
// one need not wait for a silence.
func (c *Controller) announceStart() {
	if c.rn != nil && len(c.conf.GetVoters()) == 1 && c.conf.GetVoters()[0] == c.raftID {
		c.campaign()
	}
}

func (c *Controller) campaign() {
	err := c.rn.Campaign()
	invariant.That(err == nil, "raft refused to campaign: %v", err)
}

// Deadline is the next tick: every wait of a controller is checked there.
func (c *Controller) Deadline() node.Time {
	if c.exited {
		return node.Never
	}
	if !c.first {
		return 0
	}
	return c.nextTick
}

// settleStop exits once leadership is somebody else's, or after a bound.
func (c *Controller) settleStop(now node.Now) {
	if !c.stopping || c.exit != nil {
		return
	}
	if c.lead != nil && now.Mono < c.stopBy {
		if to := c.transferee(); to != 0 {
			if !c.lead.transferring {
				c.lead.transferring = true
				c.rn.TransferLeader(to)
				for c.drainRaft(now) {
				}
			}
			return
		}
	}
	c.leave(node.ExitClean, "stopped")
}

// transferee is the voter best suited to lead next, or 0.
func (c *Controller) transferee() uint64 {
	st := c.rn.Status()
	best, match := uint64(0), uint64(0)
	for _, id := range c.conf.GetVoters() {
		pr, ok := st.Progress[id]
		if id != c.raftID && ok && pr.RecentActive && pr.Match >= match {
			best, match = id, pr.Match
		}
	}
	return best
}

// leave ends the node's life at the end of this batch.
func (c *Controller) leave(code int, reason string) {
	if c.exit == nil {
		c.exit = &node.Exit{Code: code, Reason: reason}
	}
}

func (c *Controller) emit(e event.Event) { c.out.Emit(e) }

// flush hands the collected effects over.
func (c *Controller) flush(fx *node.Effects) {
	fx.Sends = append(fx.Sends, c.out.Sends...)
	fx.Disk = append(fx.Disk, c.out.Disk...)
	fx.Dials = append(fx.Dials, c.out.Dials...)
	fx.Closes = append(fx.Closes, c.out.Closes...)
	fx.Events = append(fx.Events, c.out.Events...)
	c.out.Reset()
	if c.exit != nil && !c.exited {
		c.exited = true
		fx.Exit = c.exit
	}
}

// Record returns a copy of the locally applied record of the only group with that
// name; ok is false when there is none, or several.
func (c *Controller) Record(group string) (rec Record, ok bool) {
	k, err := c.state.resolve(Key{Group: group})
	if err != nil {
		return Record{}, false
	}
	return c.RecordOf(k)
}

// RecordOf returns a copy of the locally applied record of k.
func (c *Controller) RecordOf(k Key) (rec Record, ok bool) {
	r := c.state.group(k)
	if r == nil {
		return Record{}, false
	}
	return r.clone(), true
}

// State returns a copy of the locally applied state and the log index it covers.
func (c *Controller) State() (State, uint64) {
	s := c.state
	s.Voters, s.Tombs = slices.Clone(s.Voters), slices.Clone(s.Tombs)
	s.Registers = slices.Clone(s.Registers)
	s.Groups = slices.Clone(s.Groups)
	for i := range s.Groups {
		s.Groups[i] = s.Groups[i].clone()
	}
	return s, c.applied
}

// Applied is the log index that the state covers.
func (c *Controller) Applied() uint64 { return c.applied }

// Leading reports whether this node leads and has applied everything committed
// before its term, and the raft term it is in.
func (c *Controller) Leading() (leads bool, term uint64) { return c.ready(), c.term }

// Leader is the configured id of the leading controller as this one knows it, ""
// when it knows none.
func (c *Controller) Leader() string { return c.leaderNode() }

// CheckInvariants asserts what must hold between batches.
func (c *Controller) CheckInvariants() {
	for i := range c.state.Groups {
		c.state.Groups[i].check()
		invariant.That(i == 0 || compareKeys(c.state.Groups[i-1].Key, c.state.Groups[i].Key) < 0, "groups out of order")
	}
	invariant.That(len(c.pending) <= maxPending+maxGroups, "%d proposals pending", len(c.pending))
	invariant.That(len(c.reads) <= maxReads, "%d reads waiting", len(c.reads))
	if c.rn != nil {
		st := c.rn.BasicStatus()
		invariant.That(c.applied <= st.HardState.GetCommit(), "applied %d beyond committed %d", c.applied, st.HardState.GetCommit())
		invariant.That((c.lead != nil) == (st.RaftState == raft.StateLeader), "leadership does not follow raft")
	}
	for _, p := range c.pending {
		invariant.That(p.origin.sequence <= c.sequence, "proposal from the future")
	}
}
