package controller

import (
	"time"

	"lockstep/internal/ha"
	"lockstep/node"
	"lockstep/node/wire"
)

// leadership is everything that belongs to one term of leading and ends with it.
// None of it is replicated: a new leader starts from "everybody is alive until
// proven silent" and from "the old leader may have granted a lease until my term
// began".
type leadership struct {
	term         uint64
	since        node.Time // the term began, on this node's clock
	nextScan     node.Time
	watches      map[Key]*watch
	grants       uint64    // lease grants given, for generations
	transferring bool      // a stop hands leadership on
	changeAt     node.Time // next proposal of a membership change not before
}

func newLeadership(term uint64, now node.Time) *leadership {
	return &leadership{term: term, since: now, nextScan: now, watches: map[Key]*watch{}}
}

// watch is the leader's view of one group.
type watch struct {
	silent   bool      // the scan found the master silent
	unready  bool      // the master has said for a time-out that its store may not be promoted
	blocked  string    // why a needed election does not happen, "" when none is needed
	electing uint64    // sequence of an election command without result, 0 none
	firstAt  node.Time // when the group was first seen with a registered member; 0 not yet

	// Lease of the authority below, as granted in this term.
	granted ha.Authority
	until   node.Time // it has surely ended then

	fenced   ha.Authority // authority whose holder confirmed to have stopped
	fencedAt node.Time    // when that became known

	notices []*notice // ascending by broker id
}

func (l *leadership) watch(k Key) *watch {
	w := l.watches[k]
	if w == nil {
		w = &watch{}
		l.watches[k] = w
	}
	return w
}

// endLeadership forgets a term. Requests that wait for a barrier are answered "not
// leader"; proposals stay, because they may still commit and be answered.
func (c *Controller) endLeadership() {
	for i := range c.state.Groups {
		for _, n := range c.lead.watch(c.state.Groups[i].Key).notices {
			if n.session != 0 {
				c.hangUp(n.session)
			}
		}
	}
	c.lead = nil
	for _, r := range c.reads {
		c.notLeader(r.session, r.frame)
	}
	c.reads, c.rounds = nil, nil
}

// settleLeader does the leader's duties on the applied state and reports whether
// that gave raft something to do.
func (c *Controller) settleLeader(now node.Now) bool {
	if c.lead == nil || c.rn == nil || c.exit != nil {
		return false
	}
	acted := c.settleReads(now)
	if !c.ready() || c.stopping {
		return acted
	}
	acted = c.settleElections(now) || acted
	acted = c.settleControllers(now) || acted
	c.settleNotices(now)
	return acted
}

// memberKey names a member of a group.
type memberKey struct {
	Key
	id ha.BrokerID
}

// observation is the newest sign of life of a member, kept by every controller so
// that a new leader knows what was reported to it before.
type observation struct {
	life      ha.Incarnation
	at        node.Time // it arrived
	notBefore node.Time // it was sent at or after this
	session   node.SessionID
	closedAt  node.Time // the session ended; 0 while it stands
	timeout   time.Duration
	report    report
	priority  int32
	epoch     ha.MasterEpoch // of the role it plays
	fenced    ha.MasterEpoch // authority it has given up for good
	handOver  bool           // it asks for a successor
	unready   node.Time      // since when its store may not be promoted; 0 while it may
	sequence  uint64         // of the heartbeat, in its life; 0 from a registration or Java
}

// Bounds of the time-out a heartbeat may ask for.
const (
	minHeartbeatTimeout = 20 * time.Millisecond
	maxHeartbeatTimeout = 10 * time.Minute
)

// registeredLife returns the newest observation of the registered life of m, or nil.
func (c *Controller) registeredLife(k Key, m *Member) *observation {
	o := c.seen[memberKey{k, m.ID}]
	if o == nil || o.life != m.Incarnation() {
		return nil
	}
	return o
}

// silent reports whether m is proven silent: no sign of life for its time-out, on
// this leader's clock, counted from the beginning of the term or the end of a pause
// at the earliest. A session that closed shortens that to a grace.
func (c *Controller) silent(now node.Time, k Key, m *Member) bool {
	if c.lead == nil || !m.Registered {
		return !m.Registered
	}
	base := max(c.lead.since, c.awake)
	o := c.registeredLife(k, m)
	if o == nil {
		return now > base.Add(c.o.HeartbeatTimeout)
	}
	if o.closedAt > 0 && now > max(base, o.closedAt).Add(c.o.SessionCloseGrace) {
		return true
	}
	return now > max(base, o.at).Add(o.timeout)
}

// aliveIDs are the members not proven silent.
func (c *Controller) aliveIDs(now node.Time, rec *Record) ha.IDs {
	var out ha.IDs
	for i := range rec.Members {
		if m := &rec.Members[i]; m.Registered && !c.silent(now, rec.Key, m) {
			out = append(out, m.ID)
		}
	}
	return out
}

// brokerSessionDown marks the observations that came on a session.
func (c *Controller) brokerSessionDown(now node.Now, id node.SessionID) {
	for i := range c.state.Groups {
		rec := &c.state.Groups[i]
		for j := range rec.Members {
			if o := c.seen[memberKey{rec.Key, rec.Members[j].ID}]; o != nil && o.session == id {
				o.closedAt = max(now.Mono, 1)
			}
		}
	}
}

// observe records a sign of life of a registered member. report r is the newest word
// of this life on its own log: the last value wins, also when it is lower.
func (c *Controller) observe(now node.Now, id node.SessionID, k memberKey, o observation) {
	o.at, o.session = now.Mono, id
	if o.timeout <= 0 {
		o.timeout = c.o.HeartbeatTimeout
	}
	o.timeout = min(max(o.timeout, minHeartbeatTimeout), maxHeartbeatTimeout)
	if old := c.seen[k]; old != nil && old.life == o.life {
		if o.sequence < old.sequence {
			return // it was overtaken on another session
		}
		o.notBefore, o.unready = max(o.notBefore, old.notBefore), old.unready
	}
	switch {
	case o.report.ready != wire.ReadyNo:
		o.unready = 0
	case o.unready == 0:
		o.unready = max(now.Mono, 1)
	}
	c.seen[k] = &o
}

// heartbeat handles code 904. Every controller records it; the leader also answers
// with a lease where one is due.
func (c *Controller) heartbeat(now node.Now, id node.SessionID, f *wire.Frame) {
	var h wire.BrokerHeartbeat
	if !c.decode(id, f, &h) {
		return
	}
	if h.BrokerID == ha.NoBroker {
		c.reply(id, f, answer{code: wire.CodeInvalidRequest, remark: "Heart beat with empty brokerId"})
		return
	}
	k := memberKey{Key{h.ClusterName, h.BrokerName}, h.BrokerID}
	rec := c.state.group(k.Key)
	var m *Member
	if rec != nil {
		m = rec.member(h.BrokerID)
	}
	if m == nil || !m.Registered || m.Incarnation() != h.Of(h.BrokerID) || m.Nonce != h.Nonce {
		c.strangeHeartbeat(id, f, &h, m)
		return
	}
	o := observation{
		life: h.Of(h.BrokerID), report: reportOf(&h.ReplicaReport), priority: priorityOf(h.ElectionPriority), epoch: h.Epoch,
		fenced: h.Fenced, handOver: h.HandOver, timeout: time.Duration(h.HeartbeatTimeoutMillis) * time.Millisecond,
		notBefore: c.sentAfter(now.Mono, &h), sequence: h.Sequence,
	}
	if !h.Known() { // Java: its own fields
		o.report.lastEpoch, o.report.end, o.report.highest = h.Epoch, h.MaxOffset, h.Epoch
	}
	c.observe(now, id, k, o)
	c.noteFence(now, rec, &o)
	if c.ready() && h.LeaseWanted && c.o.leaseOf(k.Group) != LeaseOff && rec.Master == k.id {
		c.queueRead(now, &read{session: id, frame: f, kind: wire.ReqBrokerHeartbeat, key: k.Key, heartbeat: &h})
		return
	}
	c.answerHeartbeat(now, id, f, &h, wire.LeaseGrant{})
}

// strangeHeartbeat answers a life that is not registered. A follower may merely be
// behind, so only the leader tells the broker to register.
func (c *Controller) strangeHeartbeat(id node.SessionID, f *wire.Frame, h *wire.BrokerHeartbeat, m *Member) {
	if !c.ready() {
		c.reply(id, f, answer{ext: wire.EncodeExt(wire.HeartbeatResponse{Sequence: h.Sequence, Term: c.term}), remark: "Heart beat success"})
		return
	}
	a := answer{code: wire.CodeBrokerNeedsRegister, remark: "this life of the broker is not registered: register first"}
	if m != nil && m.Registered {
		a.remark = "the registered life of broker " + m.Incarnation().String() + " is another one: register first"
	}
	c.reply(id, f, a)
}

// sentAfter is the latest instant before which the heartbeat cannot have been sent.
// With an echo that is when the echoed answer was given; a broker that echoes
// nothing (Java) is believed to send within one heartbeat interval.
func (c *Controller) sentAfter(now node.Time, h *wire.BrokerHeartbeat) node.Time {
	if t := node.Time(h.Echo); h.Echo != 0 && t <= now && t >= c.started {
		return t
	}
	return now.Add(-c.o.BrokerHeartbeatInterval)
}

func (c *Controller) answerHeartbeat(now node.Now, id node.SessionID, f *wire.Frame, h *wire.BrokerHeartbeat, g wire.LeaseGrant) {
	r := wire.HeartbeatResponse{LeaseGrant: g, Sequence: h.Sequence, Term: c.term, Stamp: uint64(now.Mono)}
	c.reply(id, f, answer{ext: wire.EncodeExt(r), remark: "Heart beat success"})
}

// noteFence records that the present authority has stopped for good, as its own
// holder says: nobody need wait for its lease (P12, P20).
func (c *Controller) noteFence(now node.Now, rec *Record, o *observation) {
	if c.lead == nil || rec.MasterAt != o.life || o.fenced < rec.Epoch || rec.Epoch == 0 {
		return
	}
	w := c.lead.watch(rec.Key)
	if a := (ha.Authority{Broker: rec.Master, Epoch: rec.Epoch}); w.fenced != a {
		w.fenced, w.fencedAt = a, now.Mono
	}
}

// recordApplied keeps the leader's view in step with a command that was applied.
func (c *Controller) recordApplied(now node.Now, cmd command, out outcome) {
	e, ok := cmd.(*elect)
	if !ok || !out.ok() || c.lead == nil {
		return
	}
	w := c.lead.watch(e.key)
	w.silent, w.blocked = false, ""
	for _, n := range w.notices {
		n.at, n.pause = 0, 0
	}
}
