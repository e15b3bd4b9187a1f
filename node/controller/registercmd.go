package controller

import (
	"fmt"

	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/node/wire"
)

// register records a life of a broker (code 1003): address, incarnation and what
// it says of its log. In the same command a life that broke with the one before
// stops being electable, and a new life of the master ends its authority (P1, P4).
type register struct {
	key      Key
	id       ha.BrokerID
	addr     string
	haAddr   string
	priority int32
	report   report
	// alive: the leader still hears the life that is registered now. Then only a higher
	// boot of the same store may take its place (P18).
	alive bool
	// heard is the durable end that the leader last heard from an earlier boot of the
	// same store, 0 none. A store that ends below it is an older copy of itself, or on a
	// disk that lost what it had synced: its own marks cannot tell (P1).
	heard ha.LogOffset
	// unknownClaim: a claim that says neither holds nor broken (Java) counts as holding.
	unknownClaim bool
}

// report is what a broker says of its own log: wire.ReplicaReport as it stands in
// commands.
type report struct {
	store     ha.StoreID
	boot      ha.Boot
	nonce     uint64
	claim     ha.Claim
	class     ha.AckClass
	ready     wire.Readiness
	learner   bool
	lastEpoch ha.MasterEpoch
	end       ha.LogOffset // durable end
	highest   ha.MasterEpoch
	minInSync int32
	replicas  int32
}

func reportOf(r *wire.ReplicaReport) report {
	return report{
		store: r.Store, boot: r.Boot, nonce: r.Nonce, claim: r.Claim, class: r.Class, ready: r.Ready, learner: r.Learner,
		lastEpoch: r.LastEpoch, end: r.Durable, highest: r.HighestEpoch, minInSync: r.MinInSync, replicas: r.TotalReplicas,
	}
}

func (w *writer) report(r *report) {
	w.text(string(r.store))
	w.uint(uint64(r.boot))
	w.fixed(r.nonce)
	w.byte(byte(r.claim))
	w.byte(byte(r.class))
	w.byte(byte(r.ready))
	w.bool(r.learner)
	w.int(int64(r.lastEpoch))
	w.int(int64(r.end))
	w.int(int64(r.highest))
	w.int(int64(r.minInSync))
	w.int(int64(r.replicas))
}

func (r *reader) report() report {
	return report{
		store: ha.StoreID(r.text()), boot: ha.Boot(r.uint32()), nonce: r.fixed(), claim: ha.Claim(r.enum(byte(ha.ClaimBroken))),
		class: ha.AckClass(r.enum(byte(ha.ClassDurable))), ready: wire.Readiness(r.enum(byte(wire.ReadyNo))), learner: r.bool(),
		lastEpoch: ha.MasterEpoch(r.int32()), end: ha.LogOffset(r.Int()), highest: ha.MasterEpoch(r.int32()),
		minInSync: r.int32(), replicas: r.int32(),
	}
}

// priorityOf reads an election priority: 0 is one that was not given, which is
// RocketMQ's default, the last.
func priorityOf(p int32) int32 {
	if p == 0 {
		return 1<<31 - 1
	}
	return p
}

func (c *register) kind() commandKind { return kindRegister }

func (c *register) put(w *writer) {
	w.key(c.key)
	w.int(int64(c.id))
	w.text(c.addr)
	w.text(c.haAddr)
	w.int(int64(c.priority))
	w.report(&c.report)
	w.bool(c.alive)
	w.bool(c.unknownClaim)
	w.int(int64(c.heard))
}

func readRegister(r *reader) *register {
	return &register{
		key: r.key(), id: ha.BrokerID(r.Int()), addr: r.text(), haAddr: r.text(), priority: r.int32(),
		report: r.report(), alive: r.bool(), unknownClaim: r.bool(), heard: ha.LogOffset(r.Int()),
	}
}

func (c *register) apply(s *State) outcome {
	if out := c.admit(s); !out.ok() {
		return out
	}
	rec := s.group(c.key)
	m := rec.member(c.id)
	if why := c.refusal(rec, m); why != "" {
		return outcome{code: wire.CodeBrokerIDInvalid, remark: why}.with(event.Event{
			Kind: event.RegisterRefused, Group: c.key.Group, Broker: c.id, Text: why,
		})
	}
	c.record(rec, m)
	return outcome{}.with(event.Event{
		Kind: event.BrokerRegistered, Group: c.key.Group, Broker: c.id, Text: m.Incarnation().String(),
	})
}

// admit makes sure that the id exists. A broker whose store carries an identity was
// given its id once: when the controllers do not know it, they lost their data, and
// it is taken in again (P17). Anybody else applies for an id first.
func (c *register) admit(s *State) outcome {
	if rec := s.group(c.key); rec != nil && rec.member(c.id) != nil {
		return outcome{}
	}
	if c.report.store == "" || c.refusal(&Record{}, &Member{}) != "" {
		return refused(wire.CodeBrokerNeedsRegister, "broker %d of %s is unknown: apply for an id first", c.id, c.key)
	}
	again := applyID{c.key, c.id, c.addr + ";" + string(c.report.store)}
	if len(again.checkCode) > maxText { // a snapshot that holds it would not read
		return refused(wire.CodeBrokerNeedsRegister, "address and store id of broker %d of %s are too long together: %d bytes, at most %d", c.id, c.key, len(again.checkCode), maxText)
	}
	return again.apply(s)
}

// same reports whether the registration is a repetition by the registered life.
func (c *register) same(m *Member) bool {
	return m.Registered && m.Store == c.report.store && m.Boot == c.report.boot && m.Nonce == c.report.nonce
}

// refusal says why the registration changes nothing, or "".
func (c *register) refusal(rec *Record, m *Member) string {
	r := &c.report
	switch {
	case !rec.believable(r.highest) || !rec.believable(r.lastEpoch):
		return fmt.Sprintf("broker %d reports epoch %d, more than %d above the committed %d: not believed", c.id, max(r.highest, r.lastEpoch), maxEpochJump, rec.Epoch)
	case r.end < 0 || r.lastEpoch < 0 || r.highest < 0:
		return fmt.Sprintf("broker %d reports a negative epoch or end", c.id)
	case m.Registered && c.alive && !c.same(m) && (m.Store != r.store || r.boot <= m.Boot):
		return fmt.Sprintf("broker id %d belongs to %s, which is alive; this is %s: stop one of the two, or give this one a new id", c.id, m.Incarnation(), ha.Incarnation{Broker: c.id, Store: r.store, Boot: r.boot})
	}
	return ""
}

// breach says why this life may not inherit the electability of the one before
// (P1), or "".
func (c *register) breach(m *Member) string {
	r := &c.report
	switch {
	case m.Registered && m.Store != r.store:
		return fmt.Sprintf("its store is another one than %s", m.Incarnation())
	case c.reused(m):
		return fmt.Sprintf("boot %d of its store was used before (up to %d): an older copy of the store", r.boot, m.BootFloor)
	case m.Registered && !c.same(m) && r.end < c.heard:
		return fmt.Sprintf("its log ends at %d, an earlier boot of its store had %d durable: an older copy of the store, or a disk that lost what it had synced", r.end, c.heard)
	case r.claim == ha.ClaimBroken:
		return "it may have lost what it acknowledged"
	case r.claim == ha.ClaimUnknown && !c.unknownClaim:
		return "it does not say whether it still holds what it acknowledged"
	}
	return ""
}

// reused reports a second life under a (store, boot) name that was used.
func (c *register) reused(m *Member) bool {
	return m.Registered && !c.same(m) && m.Store == c.report.store && m.Store != "" && c.report.boot <= m.BootFloor
}

// record writes the registration into the member and its group.
func (c *register) record(rec *Record, m *Member) {
	r := &c.report
	same := c.same(m)
	if why := c.breach(m); why != "" {
		m.Electable, m.Why = false, why
	}
	if !same {
		if m.ID == rec.Master && (m.Store != "" || r.store != "") {
			rec.Lost = true // a restarted master never goes on in its old epoch (P4)
		}
		m.Reused = c.reused(m)
		if m.Store != r.store {
			m.BootFloor = 0
		}
		m.BootFloor = max(m.BootFloor, r.boot)
	}
	m.Registered, m.Store, m.Boot, m.Nonce = true, r.store, r.boot, r.nonce
	m.Addr, m.HAAddr, m.Priority = c.addr, c.haAddr, priorityOf(c.priority)
	m.Claim, m.Class, m.Learner = r.claim, r.class, r.learner
	m.Replicas, m.MinInSync = r.replicas, r.minInSync
	m.LastEpoch, m.End, m.Highest = r.lastEpoch, r.end, max(r.highest, r.lastEpoch)
	rec.Highest = max(rec.Highest, m.Highest)
	if !rec.Elected() {
		// Before the first election the strictest of the members' floors counts; later
		// only the master's alter changes it.
		rec.MinInSync = max(rec.MinInSync, r.minInSync, 1)
	}
}
