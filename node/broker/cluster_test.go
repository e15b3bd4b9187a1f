package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
)

// TestGroupStarts: three brokers register, elect, join, and serve writes that all
// three hold.
func TestGroupStarts(t *testing.T) {
	w := started(t, 3, nil)
	m := w.master()
	c := w.client(m)
	for i := range 20 {
		c.send(string(rune('a'+i)) + "-message")
	}
	w.until("answers", 5*time.Second, func() bool { return len(m.answers) == 20 })
	for body, a := range m.answers {
		if a.code != 0 {
			t.Errorf("%s: code %d %s", body, a.code, a.remark)
		}
	}
	w.until("convergence", 5*time.Second, w.converged)
	w.checkEqual()
	if w.ns.masters[m.o.Address] != 0 {
		t.Errorf("the name server has the master under id %d", w.ns.masters[m.o.Address])
	}
}

// TestPromotionSteps: the order of a promotion is its safety: tail durable, barrier
// appended, barrier durable and epoch file saved, then serving (P7).
func TestPromotionSteps(t *testing.T) {
	w := newWorld(t, 1, nil)
	m := w.nodes[0]
	held := map[storage.OpKind]bool{}
	w.diskTime = func(op storage.Op) time.Duration {
		if held[op.Kind] {
			return time.Hour
		}
		return time.Millisecond
	}
	held[storage.OpSave] = true
	w.ctl.min = 1
	m.store.files[storage.NameIdentity] = storage.EncodeIdentity("c", "g", 1)
	w.ctl.nextID = 2
	m.start()
	w.run(3 * time.Second)
	if m.happened(event.BarrierAppended) != 1 || m.b.role.serving() {
		t.Fatalf("barrier appended %d times, serving %v while the epoch file is not durable", m.happened(event.BarrierAppended), m.b.role.serving())
	}
	if m.b.log.durable != m.b.log.end {
		t.Fatalf("barrier not durable: %d of %d", m.b.log.durable, m.b.log.end)
	}
	if r := m.b.admit(w.clock()); r == nil || r.code != wire.CodeServiceNotAvailable {
		t.Fatalf("a broker in promotion admits: %+v", r)
	}
	held[storage.OpSave] = false
	m.lanes[storage.LaneMeta] = 0
	for s := range m.b.saves.slots { // what the held lane swallowed comes now
		if x := &m.b.saves.slots[s]; x.op != 0 {
			m.b.DiskDone(w.clock(), storage.Result{Op: storage.Op{ID: x.op, Kind: storage.OpSave}})
		}
	}
	m.settle()
	w.until("serving", time.Second, func() bool { return m.b.role.serving() })
	order := []event.Kind{event.PromotionBegun, event.BarrierAppended, event.RoleApplied, event.Serving}
	i := 0
	for _, e := range m.events {
		if i < len(order) && e.Kind == order[i] {
			i++
		}
	}
	if i != len(order) {
		t.Errorf("promotion stopped at step %d of %v", i, order)
	}
}

// TestEpochFileFollowsLog: the epoch file names an epoch only when a record of it is
// durable, because recovery takes a list beside an empty log for a lost log; and a
// list that waits for a record holds up no stop.
func TestEpochFileFollowsLog(t *testing.T) {
	w := newWorld(t, 1, nil)
	m := w.nodes[0]
	w.ctl.min = 1
	m.store.drop[storage.OpSync] = struct{}{}
	m.start()
	w.run(5 * time.Second)
	if m.happened(event.BarrierAppended) != 1 || m.b.role.serving() {
		t.Fatalf("barrier appended %d times, serving %v", m.happened(event.BarrierAppended), m.b.role.serving())
	}
	if f, ok := m.store.files[storage.NameEpochFile]; ok {
		t.Errorf("the epoch file is ahead of its log: %q", f)
	}
	if !m.b.savesIdle() {
		t.Error("a stop would wait for it")
	}
	m.crash(true)
	delete(m.store.drop, storage.OpSync)
	m.start()
	w.until("serving", 20*time.Second, func() bool { return m.b.role.serving() })
	if _, ok := m.store.files[storage.NameEpochFile]; !ok {
		t.Error("served without an epoch file")
	}
}

// TestPromotionWaitsForDisk: the barrier is not appended before the whole tail is
// durable, and nothing is served before the barrier is.
func TestPromotionWaitsForDisk(t *testing.T) {
	w := started(t, 3, nil)
	old := w.master()
	stop, _ := w.load(old, "x", 8)
	w.run(300 * time.Millisecond)
	slow := w.slaves()[0]
	slow.store.drop[storage.OpSync] = struct{}{} // its device never answers a sync again
	w.run(20 * time.Millisecond)
	stop()
	end := slow.b.log.end
	b := slow.b
	v := b.view
	v.epoch, v.master, v.masterAddr, v.store, v.boot, v.setEpoch = v.epoch+1, b.id.Broker, b.o.Address, b.id.Store, b.id.Boot, v.setEpoch+1
	slow.fact(slow.life, func(now node.Now) { b.believe(v) })
	w.run(time.Second)
	if b.log.durable == end {
		t.Fatal("the slave had everything durable already: nothing is tested")
	}
	if slow.happened(event.BarrierAppended) != 0 {
		t.Error("the barrier was appended onto a tail that is not durable")
	}
}

// TestMasterCrash: nothing acknowledged is lost, the old master comes back, cuts
// what nobody else has, and catches up.
func TestMasterCrash(t *testing.T) {
	for _, power := range []bool{false, true} {
		t.Run(fmt.Sprintf("power=%v", power), func(t *testing.T) {
			w := started(t, 3, nil)
			old := w.master()
			stop, _ := w.load(old, "before", 16)
			w.run(700 * time.Millisecond)
			epoch := old.b.role.epoch
			old.crash(power)
			stop()
			w.until("another master", 20*time.Second, func() bool { m := w.writable(); return m != nil && m != old })
			m := w.master()
			if m.b.role.epoch <= epoch {
				t.Fatalf("epoch %d after %d", m.b.role.epoch, epoch)
			}
			w.checkVisible(m)
			stop, _ = w.load(m, "after", 8)
			w.run(300 * time.Millisecond)
			old.start()
			w.until("the old master back in the set", 20*time.Second, func() bool { return len(w.ctl.set) == 3 })
			stop()
			w.until("convergence", 10*time.Second, w.converged)
			w.checkEqual()
			if len(w.promised) < 100 {
				t.Errorf("only %d messages were acknowledged", len(w.promised))
			}
		})
	}
}

// TestRestartedMaster: a master that comes back before anybody noticed never
// continues its old epoch (P4).
func TestRestartedMaster(t *testing.T) {
	w := started(t, 3, nil)
	m := w.master()
	epoch := m.b.role.epoch
	m.crash(true)
	m.start()
	w.until("a writable master", 20*time.Second, func() bool { return w.writable() != nil })
	if got := w.master().b.role.epoch; got != epoch+1 {
		t.Errorf("epoch %d, want %d", got, epoch+1)
	}
	w.until("convergence", 20*time.Second, func() bool { return len(w.ctl.set) == 3 && w.converged() })
	w.checkEqual()
}

// TestSlaveCrash: sends under way time out as unknown, the set shrinks, writes go
// on, the slave comes back (A1's three phases).
func TestSlaveCrash(t *testing.T) {
	w := started(t, 3, nil)
	m := w.master()
	slave := w.slaves()[0]
	stop, _ := w.load(m, "x", 4)
	w.run(200 * time.Millisecond)
	before := len(w.promised)
	slave.crash(false)
	w.until("a smaller set", time.Second, func() bool { return len(w.ctl.set) == 2 }) // the session closed: at once, 2 is enough
	w.run(200 * time.Millisecond)
	if len(w.promised) <= before {
		t.Error("writes did not go on with two of three")
	}
	slave.start()
	w.until("the slave back", 20*time.Second, func() bool { return len(w.ctl.set) == 3 })
	stop()
	w.until("convergence", 10*time.Second, w.converged)
	w.checkEqual()
	if m.b.role.epoch != w.ctl.epoch || m.happened(event.Demoted) != 0 {
		t.Error("a slave's crash moved the epoch")
	}
}

// TestOldLife: "you are master" said to an earlier life of the store is not obeyed,
// whoever says it (P4).
func TestOldLife(t *testing.T) {
	w := started(t, 3, nil)
	m := w.master()
	w.ctl.ignore[wire.ReqRegisterToController] = true
	w.ctl.ignore[wire.ReqBrokerHeartbeat] = true
	m.crash(false)
	m.start()
	w.run(500 * time.Millisecond)
	w.ctl.notify()
	w.run(time.Second)
	if m.b.role.master() || m.happened(event.PromotionBegun) != 1 {
		t.Fatalf("role %s of epoch %d", m.b.role.String(), m.b.role.epoch)
	}
}

// TestNewIncarnation: the acks of a member's new incarnation count only once a set
// that names it is committed, and no proposal names it before it passed the join
// test (P2).
func TestNewIncarnation(t *testing.T) {
	w := started(t, 3, nil)
	m, a, b := w.master(), w.slaves()[0], w.slaves()[1]
	w.ctl.ignore[wire.ReqAlterSyncStateSet] = true
	a.crash(false)
	a.start()
	w.until("the new incarnation transfers", 5*time.Second, func() bool { return a.b.up.phase == upStarted && len(m.b.replicas) == 2 })
	c := w.client(m)
	c.send("not by a stranger")
	w.until("an answer", 5*time.Second, func() bool { return len(m.answers) > 0 })
	if x := m.answers["not by a stranger"]; x.code != wire.CodeFlushSlaveTimeout {
		t.Errorf("code %d: an incarnation that no committed set names was counted", x.code)
	}
	delete(w.ctl.ignore, wire.ReqAlterSyncStateSet)
	w.until("the set as it is", 20*time.Second, func() bool { return len(w.ctl.set) == 3 && m.b.set.provenAs(a.b.self()) })

	// Again, but the new life cannot reach the master: an unrelated shrink must not
	// carry it along.
	id := a.b.id.Broker
	a.vanish() // the master takes its session for alive
	w.cut = func(x, y string) bool { return x == a.host && y == m.host || x == m.host && y == a.host }
	a.start()
	w.ctl.named = nil
	w.until("registered", 5*time.Second, func() bool { return a.b.reg.registered })
	b.crash(false)
	w.run(25 * time.Second)
	for _, members := range w.ctl.named {
		if x, ok := members.Find(id); ok && x == a.b.self() {
			t.Fatalf("a proposal names %v, which proved nothing", x)
		}
	}
	if len(w.ctl.named) == 0 {
		t.Error("no set was proposed at all")
	}
}

// TestJoinNeedsProof: a slave near the end that acknowledges nothing is never
// proposed (P14).
func TestJoinNeedsProof(t *testing.T) {
	w := started(t, 3, nil)
	m, s := w.master(), w.slaves()[0]
	c := w.client(m)
	c.send("something to acknowledge")
	w.until("an answer", 5*time.Second, func() bool { return len(m.answers) == 1 })
	h := hello(w, m, s)
	h.Epochs, h.Offset, h.Min = nil, 0, 0 // an empty log of the same incarnation
	s.crash(false)
	w.until("a smaller set", 5*time.Second, func() bool { return len(w.ctl.set) == 2 })
	x := w.fakeSlave(m)
	x.say(h, nil)
	w.until("welcome", time.Second, func() bool { return len(x.got) > 0 })
	old := m.b.log.end
	x.say(wire.Replica{Kind: wire.ReplicaStart, Term: h.Term, Epoch: h.Term}, nil)
	c.send("and more, which the others confirm")
	w.until("an answer", 5*time.Second, func() bool { return len(m.answers) == 2 })
	x.say(wire.Replica{Kind: wire.ReplicaAck, Term: h.Term, Offset: old, Class: ha.ClassDurable}, nil)
	w.ctl.named = nil
	w.run(10 * time.Second)
	if len(w.ctl.named) > 0 {
		t.Errorf("proposed %v", w.ctl.named[0])
	}
}

// TestJoinProvenAgain: under a count policy the log is acknowledged without a slave
// that passed the join test while its proposal was under way; the next proposal names
// it only if it passes again (P14).
func TestJoinProvenAgain(t *testing.T) {
	w := started(t, 3, func(n int, o *Options) { o.AllAckInSyncStateSet, o.InSyncReplicas = false, 2 })
	m, s := w.master(), w.slaves()[0]
	s.crash(false)
	w.until("a smaller set", 20*time.Second, func() bool { return len(m.b.set.committed) == 2 })
	w.ctl.ignore[wire.ReqAlterSyncStateSet] = true
	s.start()
	last := func() (n int, set ha.IDs) {
		for _, e := range m.events {
			if e.Kind == event.AlterProposed {
				n, set = n+1, e.Set
			}
		}
		return n, set
	}
	n, set := 0, ha.IDs(nil)
	w.until("a proposal that names it", 10*time.Second, func() bool { n, set = last(); return set.Has(s.b.id.Broker) })
	s.paused = true
	c := w.client(m)
	c.send("acknowledged without it")
	w.until("an answer", 2*time.Second, func() bool { return len(m.answers) == 1 })
	if a := m.answers["acknowledged without it"]; a.code != 0 {
		t.Fatalf("code %d %s", a.code, a.remark)
	}
	w.until("the next proposal", 20*time.Second, func() bool { k, _ := last(); return k > n })
	if _, set := last(); set.Has(s.b.id.Broker) {
		t.Errorf("%v is proposed: it lacks what was acknowledged before", set)
	}
	s.resume()
	delete(w.ctl.ignore, wire.ReqAlterSyncStateSet)
	w.until("a full set", 20*time.Second, func() bool { return len(m.b.set.committed) == 3 })
}

// TestSilentSlave: a slave that hangs leaves the set after
// haMaxTimeSlaveNotCatchup, not before; until then all-ack writes are unknown.
func TestSilentSlave(t *testing.T) {
	w := started(t, 3, nil)
	m := w.master()
	slave := w.slaves()[0]
	c := w.client(m)
	slave.paused = true
	at := w.now
	c.send("hangs")
	w.until("an answer", 10*time.Second, func() bool { return len(m.answers) == 1 })
	if a := m.answers["hangs"]; a.code != wire.CodeFlushSlaveTimeout {
		t.Errorf("code %d %s, want FLUSH_SLAVE_TIMEOUT", a.code, a.remark)
	}
	w.until("a smaller set", 30*time.Second, func() bool { return len(w.ctl.set) == 2 })
	if took := w.now.Sub(at); took < 14*time.Second || took > 21*time.Second {
		t.Errorf("the set shrank after %v", took)
	}
	slave.resume()
	w.until("the slave back", 30*time.Second, func() bool { return len(w.ctl.set) == 3 })
}

// TestIdleRejoin: on an idle group a slave rejoins by what the handshake verified;
// otherwise writes would stay refused for ever (P8).
func TestIdleRejoin(t *testing.T) {
	w := started(t, 2, nil)
	m := w.master()
	slave := w.slaves()[0]
	w.run(time.Second)
	slave.crash(true)
	w.until("refused writes", 40*time.Second, func() bool { return len(w.ctl.set) == 1 })
	w.run(100 * time.Millisecond)
	if r := m.b.admit(w.clock()); r == nil || r.remark != wire.RemarkNotEnoughReplicas || r.code != wire.CodeSystemError {
		t.Fatalf("below the floor: %+v", r)
	}
	end := m.b.log.end
	slave.start()
	w.until("writable again", 10*time.Second, func() bool { return w.writable() == m })
	if m.b.log.end != end {
		t.Errorf("the log grew from %d to %d on an idle group", end, m.b.log.end)
	}
}

// TestFrozenConfirm: below the floor nothing becomes visible, and who was removed
// below it may still lead (P6).
func TestFrozenConfirm(t *testing.T) {
	w := started(t, 3, nil)
	m := w.master()
	s := w.slaves()
	c := w.client(m)
	c.send("first")
	w.until("an answer", 5*time.Second, func() bool { return m.answers["first"].code == 0 && len(m.answers) == 1 })
	s[0].crash(false)
	s[1].crash(false)
	c.send("second") // in flight: admitted at three, acknowledged by nobody
	w.run(100 * time.Millisecond)
	confirm := m.b.confirm
	w.until("a set of one", 60*time.Second, func() bool { return len(w.ctl.set) == 1 })
	w.run(time.Second)
	if m.b.confirm != confirm {
		t.Errorf("confirm moved from %d to %d with a set of one", confirm, m.b.confirm)
	}
	if a, ok := m.answers["second"]; ok && a.code == 0 {
		t.Error("acknowledged by one copy")
	}
	var thaws []int64 // of each freeze
	for _, e := range m.events {
		if e.Kind == event.ConfirmFrozen {
			thaws = append(thaws, e.Count)
		}
	}
	if !slices.Equal(thaws, []int64{0, 1}) {
		t.Errorf("freezes after %d thaws, want one at the epoch's start and one when the set shrank", thaws)
	}
	if len(w.ctl.retained) != 1 {
		t.Fatalf("retained %v, want the one removed below the floor", w.ctl.retained)
	}
	id := w.ctl.retained[0]
	m.crash(true)
	w.nodes[id-1].start()
	w.until("the retained member leads", 30*time.Second, func() bool { x := w.master(); return x != nil && x.b.id.Broker == id })
	m.start()
	w.until("convergence", 30*time.Second, func() bool { return len(w.ctl.set) >= 2 && w.writable() != nil })
}

// TestUnionRule: while a proposal has no answer, both the old and the proposed set
// must agree, whatever a read of the same set epoch says (P3).
func TestUnionRule(t *testing.T) {
	w := started(t, 3, nil)
	m := w.master()
	slave := w.slaves()[0]
	slave.crash(false)
	w.until("a smaller set", 5*time.Second, func() bool { return len(m.b.set.committed) == 2 })
	w.ctl.ignore[wire.ReqAlterSyncStateSet] = true // the proposal is slow to commit
	slave.start()
	w.until("a proposal", 10*time.Second, func() bool { return len(m.b.set.proposals) > 0 })
	w.until("its time-out", 10*time.Second, func() bool { return m.b.set.proposals[0].open > 1 })
	w.run(6 * time.Second) // polls read the same set epoch over and over
	if len(m.b.set.proposals) == 0 {
		t.Fatal("a read of the same set epoch ended the union")
	}
	if len(m.b.set.effective) != 3 || len(m.b.set.committed) != 2 {
		t.Fatalf("effective %v of committed %v", m.b.set.effective, m.b.set.committed)
	}
	// The joining slave dies: nothing may be acknowledged without it, because the
	// proposal may still commit.
	slave.crash(false)
	w.run(10 * time.Millisecond)
	c := w.client(m)
	c.send("needs all three")
	w.run(5 * time.Second)
	if a := m.answers["needs all three"]; a.code != wire.CodeFlushSlaveTimeout {
		t.Fatalf("acknowledged by the old set alone: %+v", a)
	}
	// A proposal that commits, whichever, ends the union.
	w.ctl.ignore = map[int32]bool{}
	w.until("an end of the union", 20*time.Second, func() bool { return len(m.b.set.proposals) == 0 && len(m.b.set.effective) == 2 })
	c.send("two again")
	w.until("an answer", 5*time.Second, func() bool { _, ok := m.answers["two again"]; return ok })
	if a := m.answers["two again"]; a.code != 0 {
		t.Errorf("code %d %s", a.code, a.remark)
	}
}

// TestLateAlterAnswer: an answer to a proposal that arrives after the authority
// ended changes nothing.
func TestLateAlterAnswer(t *testing.T) {
	w := started(t, 3, nil)
	m := w.master()
	w.ctl.noAnswer[wire.ReqAlterSyncStateSet] = true
	w.slaves()[0].crash(false)
	w.until("a proposal", 5*time.Second, func() bool { return len(m.b.set.proposals) > 0 })
	w.run(10 * time.Millisecond)
	call := m.b.set.proposals[0].call
	m.fact(m.life, func(now node.Now) { m.b.loseRole("test") })
	f := wire.NewResponse(&wire.Head{Opaque: call.opaque}, 0, wire.AlterSyncStateSetResponse{NewSyncStateSetEpoch: 99},
		wire.MarshalBody(wire.SyncStateSetBody{SyncStateSet: ha.NewIDs(1, 2, 3), SyncStateSetEpoch: 99}))
	m.fact(m.life, func(now node.Now) { m.b.Receive(now, call.session, &f) })
	if m.b.set.epoch == 99 || m.b.view.setEpoch == 99 {
		t.Error("a late answer was adopted")
	}
}

// TestJoinUnderLoad: a slave joins while the log runs away from it (P14): the
// others are one round trip faster.
func TestJoinUnderLoad(t *testing.T) {
	w := started(t, 3, nil)
	m := w.master()
	slave := w.slaves()[1]
	stop, _ := w.load(m, "x", 16)
	w.run(200 * time.Millisecond)
	slave.crash(false)
	w.run(300 * time.Millisecond)
	w.slow = map[string]time.Duration{slave.host: 2 * time.Millisecond}
	slave.start()
	w.until("the slave in the set, under load", 20*time.Second, func() bool { return len(w.ctl.set) == 3 })
	stop()
	w.until("convergence", 10*time.Second, w.converged)
	w.checkEqual()
}

// TestRoleChangeDropsSessions: a re-election of the same node closes all sessions
// and voids all acks (P13); producers of the old epoch get "unknown".
func TestRoleChangeDropsSessions(t *testing.T) {
	w := started(t, 3, nil)
	m := w.master()
	for _, s := range w.slaves() {
		s.paused = true
	}
	c := w.client(m)
	c.send("of the old epoch")
	w.run(50 * time.Millisecond)
	w.ctl.elect(m.b.id.Broker)
	w.until("the new epoch", 5*time.Second, func() bool { return m.b.role.serving() && m.b.role.epoch == w.ctl.epoch })
	if a := m.answers["of the old epoch"]; a.code != wire.CodeFlushSlaveTimeout {
		t.Errorf("code %d, want unknown (12)", a.code)
	}
	if len(m.b.replicas) != 0 || len(m.b.set.acks) != 0 {
		t.Errorf("%d sessions and %d acks outlived the epoch", len(m.b.replicas), len(m.b.set.acks))
	}
	for _, s := range w.slaves() {
		s.resume()
	}
	w.until("convergence", 20*time.Second, func() bool { return len(w.ctl.set) == 3 && w.converged() })
	w.checkEqual()
}

// TestDemotionInFlight: what was appended under the lost authority is settled on
// the own disk first and cut afterwards, never mixed with the new master's bytes.
func TestDemotionInFlight(t *testing.T) {
	w := started(t, 3, nil)
	old := w.master()
	stop, _ := w.load(old, "x", 32)
	w.run(150 * time.Millisecond)
	// Cut the replication of the old master, so that its tail is its own.
	w.cut = func(a, b string) bool { return a == old.host && strings.HasPrefix(b, "b") }
	w.run(50 * time.Millisecond)
	stop()
	w.ctl.elect(w.slaves()[0].b.id.Broker)
	w.run(2 * time.Second)
	w.cut = func(string, string) bool { return false }
	w.until("convergence", 40*time.Second, func() bool { return len(w.ctl.set) == 3 && w.converged() })
	w.checkEqual()
	if old.happened(event.Truncated) == 0 || old.happened(event.Demoted) == 0 {
		t.Errorf("truncated %d, demoted %d times", old.happened(event.Truncated), old.happened(event.Demoted))
	}
}

// TestLeaseExpiry: without grants, admission and acknowledgement both stop at the
// deadline; the first lost heartbeat does nothing (HA contracts 6.7).
func TestLeaseExpiry(t *testing.T) {
	w := started(t, 3, nil)
	m := w.master()
	w.ctl.leases = false
	at := w.now
	w.run(5 * time.Second)
	if m.b.unwritable(w.now) != nil {
		t.Fatal("fenced before the deadline")
	}
	w.until("the fence", 20*time.Second, func() bool { return m.b.unwritable(w.now) != nil })
	w.run(time.Millisecond)
	if took := w.now.Sub(at); took < 7*time.Second || took > 10*time.Second {
		t.Errorf("fenced after %v, the grant was worth 9 s", took)
	}
	if m.happened(event.LeaseExpired) != 1 {
		t.Errorf("LeaseExpired reported %d times", m.happened(event.LeaseExpired))
	}
	c := w.client(m)
	c.send("late")
	w.until("an answer", time.Second, func() bool { return len(m.answers) > 0 })
	if a := m.answers["late"]; a.code != wire.CodeServiceNotAvailable {
		t.Errorf("code %d %s", a.code, a.remark)
	}
	w.ctl.leases = true
	w.until("writable again", 5*time.Second, func() bool { return m.b.unwritable(w.now) == nil })
}

// TestLeaseEndsWait: a producer that waits when the lease ends is never told OK.
func TestLeaseEndsWait(t *testing.T) {
	w := started(t, 3, func(n int, o *Options) { o.SlaveTimeout = time.Hour })
	m := w.master()
	w.ctl.leases = false
	w.run(6 * time.Second)
	for _, s := range w.slaves() {
		s.paused = true
	}
	c := w.client(m)
	c.send("waits")
	w.until("an answer", 10*time.Second, func() bool { return len(m.answers) > 0 })
	if a := m.answers["waits"]; a.code != wire.CodeFlushSlaveTimeout {
		t.Errorf("code %d, want unknown", a.code)
	}
}

// TestLeaseOff: without leases a healthy master goes on when the controllers are
// gone.
func TestLeaseOff(t *testing.T) {
	w := started(t, 3, func(n int, o *Options) { o.WriteLease = LeaseOff })
	m := w.master()
	w.ctl.up = false
	w.run(60 * time.Second)
	c := w.client(m)
	c.send("on its own")
	w.until("an answer", 5*time.Second, func() bool { return len(m.answers) > 0 })
	if a := m.answers["on its own"]; a.code != 0 {
		t.Errorf("code %d %s", a.code, a.remark)
	}
}

// TestSupersededByNotice and by poll alone: either converges (C6).
func TestNoticeOrPollAlone(t *testing.T) {
	for _, notices := range []bool{true, false} {
		t.Run(fmt.Sprintf("notices=%v", notices), func(t *testing.T) {
			w := started(t, 3, nil)
			old := w.master()
			w.ctl.noNotice = !notices
			w.ctl.ignore[wire.ReqGetReplicaInfo] = notices
			next := w.slaves()[0]
			at := w.now
			w.ctl.elect(next.b.id.Broker)
			w.until("the new master", 15*time.Second, func() bool { return w.master() == next && !old.b.role.master() })
			if took := w.now.Sub(at); notices && took > time.Second || took > 6*time.Second {
				t.Errorf("took %v", took)
			}
			w.ctl.ignore = map[int32]bool{}
			w.until("convergence", 30*time.Second, func() bool { return len(w.ctl.set) == 3 && w.converged() })
		})
	}
}

// TestRoleNotices: lower epochs, repeated ones and another master of the same epoch
// change nothing (C6).
func TestRoleNotices(t *testing.T) {
	w := started(t, 3, nil)
	m := w.master()
	b := m.b
	tell := func(master ha.BrokerID, epoch ha.MasterEpoch, setEpoch ha.SetEpoch, set ...ha.BrokerID) {
		f := wire.NewRequest(wire.ReqRoleChanged, 0, wire.RoleChanged{MasterAddress: "b9:1", MasterEpoch: epoch, SyncStateSetEpoch: setEpoch, MasterBrokerID: master},
			wire.MarshalBody(wire.SyncStateSetBody{SyncStateSet: ha.NewIDs(set...), SyncStateSetEpoch: setEpoch}))
		w.notice(m.o.Address, f)
		w.run(10 * time.Millisecond)
	}
	epoch, set, self := b.role.epoch, b.set.epoch, b.id.Broker
	refused := m.happened(event.RequestRefused)
	tell(self+1, epoch, set+1, self, self+1)
	if m.happened(event.RequestRefused) != refused+1 {
		t.Error("two masters of one epoch went unreported")
	}
	tell(self+1, epoch-1, set+5, self+1)
	tell(self, epoch, set-1, self)
	tell(self, epoch, set, self)
	if b.role.epoch != epoch || !b.role.serving() || b.set.epoch != set || len(b.set.committed) != 3 {
		t.Errorf("epoch %d role %s set %v@%d", b.role.epoch, b.role.String(), b.set.committed, b.set.epoch)
	}
	tell(self+1, epoch+1, 0, self+1)
	if b.role.master() {
		t.Error("a higher epoch did not end the authority")
	}
}

// TestTruncationGuard: a replica stops, loudly, rather than cut what it promised
// (P10); an unclean epoch above the point permits it.
func TestTruncationGuard(t *testing.T) {
	for _, unclean := range []bool{false, true} {
		t.Run(fmt.Sprintf("unclean=%v", unclean), func(t *testing.T) {
			w := started(t, 3, nil)
			m := w.master()
			stop, _ := w.load(m, "x", 8)
			w.run(2 * time.Second)
			stop()
			w.until("convergence", 10*time.Second, w.converged)
			w.run(2 * time.Second) // confirm is persisted
			s := w.slaves()[0]
			b := s.b
			epochs := b.epochs.Append(ha.EpochStart{Epoch: b.role.epoch + 1, Start: b.checkpoint.confirm - 100, Unclean: unclean})
			why := b.guardCut(b.checkpoint.confirm-100, epochs)
			if (why == "") != unclean {
				t.Errorf("guard says %q", why)
			}
			if why := b.guardCut(b.up.promised-1, b.epochs); why == "" {
				t.Error("may cut below what it acknowledged in this epoch")
			}
		})
	}
}

// TestUncleanElection: an allowed unclean election loses what it must, cuts the
// better log, and says so.
func TestUncleanElection(t *testing.T) {
	w := started(t, 3, nil)
	old := w.master()
	stop, _ := w.load(old, "x", 8)
	w.run(300 * time.Millisecond)
	late := w.slaves()[1]
	late.crash(false)
	w.run(2 * time.Second)
	stop()
	w.until("quiet", 5*time.Second, func() bool { return old.b.waiters.queue.len() == 0 })
	w.run(2 * time.Second)
	for _, m := range w.nodes {
		m.crash(false)
	}
	w.ctl.allowUnclean, w.lostOK = true, true
	late.start()
	w.until("the late one leads", 40*time.Second, func() bool { return w.master() == late })
	// It restarts, cleanly elected: the mark of the unclean epoch has to outlive that,
	// or the others could never cut their logs.
	late.crash(true)
	late.start()
	w.until("the late one leads again", 40*time.Second, func() bool { return w.master() == late })
	for _, m := range w.nodes {
		if m != late {
			m.start()
		}
	}
	w.until("convergence", 40*time.Second, func() bool { return len(w.ctl.set) == 3 && w.converged() })
	w.checkEqual()
	if old.happened(event.Truncated) == 0 {
		t.Error("the longer log was not cut")
	}
}

// TestDiskFull: refused with its own code, resumed by itself, nothing lost.
func TestDiskFull(t *testing.T) {
	w := started(t, 3, nil)
	m := w.master()
	stop, _ := w.load(m, "x", 8)
	w.run(100 * time.Millisecond)
	m.store.full = true
	w.until("refusals", 5*time.Second, func() bool { return m.b.log.full })
	stop()
	c := w.client(m)
	c.send("no room")
	w.run(10 * time.Millisecond)
	if a := m.answers["no room"]; a.code != wire.CodeServiceNotAvailable || !strings.Contains(a.remark, "full") {
		t.Errorf("code %d %q", a.code, a.remark)
	}
	if m.happened(event.DiskFull) != 1 {
		t.Errorf("DiskFull reported %d times", m.happened(event.DiskFull))
	}
	m.store.full = false
	w.until("room", 5*time.Second, func() bool { return m.b.unwritable(w.now) == nil })
	if m.b.role.epoch != w.ctl.epoch || m.happened(event.Demoted) != 0 {
		t.Error("a full disk moved the role")
	}
	w.until("convergence", 10*time.Second, w.converged)
	w.checkEqual()
}

// TestDiskFailure: a failed write or fsync ends the claim at once: fenced, marked,
// the controllers told, exit 70; another replica leads and nothing is lost.
func TestDiskFailure(t *testing.T) {
	for _, kind := range []storage.OpKind{storage.OpAppend, storage.OpSync, storage.OpCheckpoint} {
		t.Run(opName(kind), func(t *testing.T) {
			w := started(t, 3, nil)
			m := w.master()
			stop, _ := w.load(m, "x", 8)
			w.run(100 * time.Millisecond)
			m.store.fail[kind] = errDisk
			w.until("the exit", 5*time.Second, func() bool { return m.exit != nil })
			stop()
			if m.exit.Code != node.ExitSuspect || m.store.suspect == "" {
				t.Errorf("exit %+v, mark %q", m.exit, m.store.suspect)
			}
			if m.happened(event.DiskFailed) != 1 || m.happened(event.StoreSuspect) != 1 {
				t.Error("the failure was not reported once")
			}
			at := w.now
			w.until("another master", 20*time.Second, func() bool { x := w.writable(); return x != nil && x != m })
			if took := w.now.Sub(at); took > 3*time.Second {
				t.Errorf("took %v although the controllers were told", took)
			}
			w.checkVisible(w.master())
			m.start()
			w.run(5 * time.Second)
			if m.b.promotable() || m.b.role.master() {
				t.Error("a suspect store is promotable")
			}
		})
	}
}

// TestDamagedStoreLeaves: a store that recovery found damaged follows its master up to
// the first write, is never promotable, and then ends with the code that asks for an
// operator; nothing of it is cut or emptied (P5).
func TestDamagedStoreLeaves(t *testing.T) {
	w := started(t, 3, nil)
	s := w.slaves()[0]
	s.crash(false)
	s.store.suspect = "segment at byte 17: checksum (move the store directory away)"
	s.store.fail[storage.OpAppend] = storage.ErrReadOnly
	id, size := s.store.id.Store, len(s.store.cache)
	s.store.ops = nil
	s.start()
	w.until("it follows", 20*time.Second, func() bool { return s.b.role.following() && s.b.up.phase == upStarted })
	if s.b.promotable() || w.ctl.alive(s.b.id.Broker) {
		t.Error("a damaged store may be promoted")
	}
	w.client(w.master()).send("a write")
	w.until("the exit", 20*time.Second, func() bool { return s.exit != nil })
	if s.exit.Code != node.ExitSuspect || s.store.id.Store != id || len(s.store.cache) != size {
		t.Errorf("exit %+v, store %s, %d of %d bytes", s.exit, s.store.id.Store, len(s.store.cache), size)
	}
	if slices.Contains(s.store.ops, storage.OpReset) || slices.Contains(s.store.ops, storage.OpTruncate) {
		t.Errorf("operations %v", s.store.ops)
	}
}

// TestHandover: SIGTERM on a master moves the group without a time-out (P20), and
// the stop is clean. A second one is at once.
func TestHandover(t *testing.T) {
	w := started(t, 3, nil)
	m := w.master()
	stop, _ := w.load(m, "x", 8)
	w.run(200 * time.Millisecond)
	at := w.now
	m.fact(m.life, func(now node.Now) { m.b.Stop(now) })
	w.until("another master", 10*time.Second, func() bool { x := w.writable(); return x != nil && x != m })
	stop()
	if took := w.now.Sub(at); took > 2*time.Second {
		t.Errorf("the hand-over took %v", took)
	}
	w.until("the exit", 5*time.Second, func() bool { return m.exit != nil })
	if m.exit.Code != node.ExitClean || !m.store.clean {
		t.Errorf("exit %+v, clean %v", m.exit, m.store.clean)
	}
	if w.ns.left == 0 {
		t.Error("did not unregister from the name server")
	}
	if m.happened(event.HandedOver) != 1 {
		t.Error("no hand-over was reported")
	}
	w.checkVisible(w.master())

	x := w.master()
	for _, s := range w.slaves() {
		s.paused = true // nobody can take over: the first stop waits
	}
	x.fact(x.life, func(now node.Now) { x.b.Stop(now) })
	x.fact(x.life, func(now node.Now) { x.b.Stop(now) })
	if x.exit == nil || x.exit.Code != node.ExitFailed {
		t.Errorf("the second stop: %+v", x.exit)
	}
}

// TestStopTogether: when the brokers of a group are stopped together, the master goes
// as soon as nobody is left to take over, at whichever step that is.
func TestStopTogether(t *testing.T) {
	for _, lead := range []time.Duration{0, 300 * time.Microsecond, time.Millisecond, 20 * time.Millisecond} {
		t.Run(lead.String(), func(t *testing.T) {
			w := started(t, 3, nil)
			m, s := w.master(), w.slaves()
			stop := func(x *machine) { x.fact(x.life, func(now node.Now) { x.b.Stop(now) }) }
			_, c := w.load(m, "x", 4)
			w.run(50 * time.Millisecond)
			at, id, epoch := w.now, m.b.id.Broker, m.b.role.epoch
			w.ctl.ignore[wire.ReqElectMaster] = lead == 20*time.Millisecond // the designation is lost
			stop(m)
			w.run(lead)
			stop(s[0])
			stop(s[1])
			c.after = nil
			w.until("all exits", 30*time.Second, func() bool { return m.exit != nil && s[0].exit != nil && s[1].exit != nil })
			if took := w.now.Sub(at); took > m.o.ControllerRequestTimeout+100*time.Millisecond {
				t.Errorf("the stop took %v", took)
			}
			w.run(time.Millisecond)
			if w.ctl.members[id].fenced != epoch {
				t.Errorf("fenced %d: its lease holds up the next election", w.ctl.members[id].fenced)
			}
			for _, x := range w.nodes {
				if x.exit.Code != node.ExitClean {
					t.Errorf("b%d: %+v", x.n, x.exit)
				}
			}
		})
	}
}

// TestSlaveStops: a slave leaves cleanly.
func TestSlaveStops(t *testing.T) {
	w := started(t, 3, nil)
	s := w.slaves()[0]
	w.run(time.Second)
	s.fact(s.life, func(now node.Now) { s.b.Stop(now) })
	w.until("the exit", 5*time.Second, func() bool { return s.exit != nil })
	if s.exit.Code != node.ExitClean || !s.store.clean {
		t.Errorf("exit %+v", s.exit)
	}
}

// TestStopWhileOpening: a stop at whichever step of a start or of an election is a
// clean one. Nothing follows the clean-stop mark onto the disk.
func TestStopWhileOpening(t *testing.T) {
	// The mark is under way 3 to 5 ms after the stop: some answers arrive just then.
	for delay := time.Millisecond; delay <= 6*time.Millisecond; delay += time.Millisecond {
		for steps, over := 0, false; !over; steps++ {
			w := newWorld(t, 2, nil)
			w.netDelay = func() time.Duration { return delay }
			w.diskTime = func(storage.Op) time.Duration { return time.Millisecond }
			for _, m := range w.nodes {
				m.start()
			}
			for range steps {
				w.step()
			}
			over = w.writable() != nil && w.converged()
			for _, m := range w.nodes {
				m.fact(m.life, func(now node.Now) { m.b.Stop(now) })
			}
			w.until("the exits", 30*time.Second, func() bool { return w.nodes[0].exit != nil && w.nodes[1].exit != nil })
			for _, m := range w.nodes {
				if m.exit.Code != node.ExitClean || !m.store.clean || m.happened(event.DiskFailed) != 0 {
					t.Fatalf("b%d after %d steps: exit %+v, clean %v, %q", m.n, steps, m.exit, m.store.clean, lastEvent(m, event.DiskFailed))
				}
			}
		}
	}
}

// TestSessionFlaps: broken sessions are replaced, the newest speaks, and the set
// survives short flaps below the floor (P15).
func TestSessionFlaps(t *testing.T) {
	w := started(t, 2, nil)
	m := w.master()
	stop, _ := w.load(m, "x", 8)
	for range 20 {
		w.run(300 * time.Millisecond)
		for _, s := range w.streams {
			if s.link == wire.Replication {
				s.down("reset")
			}
		}
	}
	if len(w.ctl.set) != 2 {
		t.Errorf("a flap emptied the set: %v", w.ctl.set)
	}
	stop()
	w.until("convergence", 10*time.Second, w.converged)
	w.checkEqual()
}

// TestMasterStalls: a master that stood still does not throw out its members (P15).
func TestMasterStalls(t *testing.T) {
	w := started(t, 3, func(n int, o *Options) { o.WriteLease = LeaseOff })
	m := w.master()
	w.ctl.heartbeats = node.Time(time.Hour)
	w.run(time.Second)
	m.paused = true
	w.run(18 * time.Second)
	m.resume()
	w.run(8 * time.Second)
	if w.ctl.alters != 2 {
		t.Errorf("%d set changes, want the two of the start", w.ctl.alters)
	}
}

// TestPolicies: count and local policies acknowledge as they say, and a set of one
// with floor 1 proves Local.
func TestPolicies(t *testing.T) {
	cases := []struct {
		name  string
		tune  func(n int, o *Options)
		pause int // slaves that hang
		code  int32
	}{
		{"count 2, one hangs", func(n int, o *Options) { o.AllAckInSyncStateSet, o.InSyncReplicas = false, 2 }, 1, 0},
		{"count 2, both hang", func(n int, o *Options) { o.AllAckInSyncStateSet, o.InSyncReplicas = false, 2 }, 2, wire.CodeFlushSlaveTimeout},
		{"local, both hang", func(n int, o *Options) { o.AllAckInSyncStateSet = false }, 2, 0},
		{"async master, both hang", func(n int, o *Options) { o.AllAckInSyncStateSet, o.BrokerRole = false, AsyncMaster }, 2, 0},
		{"all, one hangs", nil, 1, wire.CodeFlushSlaveTimeout},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := started(t, 3, c.tune)
			m := w.master()
			for i, s := range w.slaves() {
				s.paused = i < c.pause
			}
			p := w.client(m)
			p.send("one")
			w.until("an answer", 10*time.Second, func() bool { return len(m.answers) > 0 })
			if a := m.answers["one"]; a.code != c.code {
				t.Errorf("code %d %s, want %d", a.code, a.remark, c.code)
			}
		})
	}
}

// TestFlushTimeout: only the disk is missing: FLUSH_DISK_TIMEOUT; the flush and the
// replicas are waited for beside each other (B12).
func TestFlushTimeout(t *testing.T) {
	w := started(t, 3, nil)
	m := w.master()
	m.store.drop[storage.OpSync] = struct{}{}
	c := w.client(m)
	c.send("not synced")
	w.until("an answer", 10*time.Second, func() bool { return len(m.answers) > 0 })
	if a := m.answers["not synced"]; a.code != wire.CodeFlushDiskTimeout {
		t.Errorf("code %d %s, want FLUSH_DISK_TIMEOUT", a.code, a.remark)
	}
	c.send("busy")
	w.run(10 * time.Millisecond)
	if a := m.answers["busy"]; a.code != wire.CodeSystemBusy {
		t.Errorf("code %d %s while the disk is stuck, want SYSTEM_BUSY", a.code, a.remark)
	}
}

// TestParallelWait: an answer takes about the longer of flush and replication,
// never their sum (B12).
func TestParallelWait(t *testing.T) {
	w := started(t, 3, nil)
	m := w.master()
	w.run(time.Second)
	w.diskTime = func(op storage.Op) time.Duration {
		if op.Kind == storage.OpSync {
			return 50 * time.Millisecond
		}
		return time.Microsecond
	}
	c := w.client(m)
	at := w.now
	c.send("timed")
	w.until("an answer", time.Second, func() bool { return len(m.answers) > 0 })
	if took := w.now.Sub(at); took > 60*time.Millisecond {
		t.Errorf("took %v with flushes of 50 ms on both sides", took)
	}
}

// TestAsyncFlush: under ASYNC_FLUSH an answer waits for the write, not the sync,
// and the flag of loose acknowledgements is durable first (P1, P11).
func TestAsyncFlush(t *testing.T) {
	w := started(t, 3, func(n int, o *Options) { o.FlushDiskType, o.AckClass = AsyncFlush, ha.ClassReceived })
	m := w.master()
	for _, x := range w.nodes {
		if _, ok := x.store.files[storage.NameReceivedAcks]; !ok {
			t.Errorf("b%d acknowledges loosely without the flag", x.n)
		}
	}
	w.diskTime = func(op storage.Op) time.Duration {
		if op.Kind == storage.OpSync {
			return 400 * time.Millisecond
		}
		return time.Microsecond
	}
	c := w.client(m)
	at := w.now
	c.send("written")
	w.until("an answer", time.Second, func() bool { return len(m.answers) > 0 })
	if took := w.now.Sub(at); took > 20*time.Millisecond || m.answers["written"].code != 0 {
		t.Errorf("took %v, code %d", took, m.answers["written"].code)
	}
	w.slaves()[0].crash(true)
	s := w.slaves()[0]
	s.start()
	if s.b.claim != ha.ClaimBroken {
		t.Error("an unclean stop with loose acknowledgements left the claim standing")
	}
	w.until("the slave proven again", 30*time.Second, func() bool { return len(w.ctl.set) == 3 && s.b.claim == ha.ClaimHolds })
	w.run(100 * time.Millisecond)
	if _, ok := s.store.files[storage.NameBrokenClaim]; ok {
		t.Error("the broken claim is still on disk")
	}
}

// TestOneBroker: a group of one with floor 1 serves.
func TestOneBroker(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.ctl.min = 1
	w.nodes[0].start()
	w.until("writable", 10*time.Second, func() bool { return w.writable() != nil })
	c := w.client(w.master())
	c.send("alone")
	w.until("an answer", 5*time.Second, func() bool { return len(w.nodes[0].answers) > 0 })
	if a := w.nodes[0].answers["alone"]; a.code != 0 {
		t.Errorf("code %d %s", a.code, a.remark)
	}
}

// TestExpiredPrefix: a new slave starts where the master's log begins, and a slave
// that was passed by retention rebuilds itself under a new store id (P19, M3).
func TestExpiredPrefix(t *testing.T) {
	w := started(t, 3, func(n int, o *Options) {
		o.FileReservedTime, o.RetentionWait, o.CleanResourceInterval = time.Second, 0, 500*time.Millisecond
	})
	m := w.master()
	late := w.slaves()[1]
	late.crash(false)
	stop, _ := w.load(m, "x", 4)
	w.until("expired segments", 120*time.Second, func() bool { return m.b.log.min > late.store.end() })
	store := late.store.id.Store
	late.start()
	w.until("the rebuild's exit", 30*time.Second, func() bool { return late.exit != nil })
	if late.store.id.Store == store || late.happened(event.RebuildNeeded) == 0 {
		t.Errorf("store %s after %s, asked for a rebuild %d times", late.store.id.Store, store, late.happened(event.RebuildNeeded))
	}
	late.start()
	w.until("the rebuilt slave in the set", 60*time.Second, func() bool { return len(w.ctl.set) == 3 })
	stop()
	w.until("convergence", 20*time.Second, w.converged)
	if late.store.base == 0 || late.b.log.min != late.store.base {
		t.Errorf("the rebuilt log begins at %d", late.b.log.min)
	}
	if _, ok := late.b.topic("T"); !ok {
		t.Error("the rebuilt slave does not know the topic")
	}
}

// TestRestoredBackup: a store restored from a backup has a boot that was used: it
// raises the boot and is not electable before it joined again (P1, P18).
func TestRestoredBackup(t *testing.T) {
	w := started(t, 3, nil)
	s := w.slaves()[0]
	id := s.b.id.Broker
	s.crash(false)
	w.run(time.Second)
	w.ctl.members[id].inc.Boot = 9
	s.start()
	w.until("a raised boot", 20*time.Second, func() bool {
		if s.b == nil {
			w.fail("the slave left: %+v", s.exit)
		}
		return s.store.id.Boot == 10 && s.b.reg.registered
	})
	if s.b.id.Boot != 10 {
		t.Errorf("boot %d", s.b.id.Boot)
	}
	w.until("the slave in the set", 30*time.Second, func() bool { return len(w.ctl.set) == 3 })
}

// TestClone: a process whose store runs elsewhere under a higher boot fences itself
// and leaves (P18).
func TestClone(t *testing.T) {
	w := started(t, 3, nil)
	m := w.master()
	w.ctl.members[m.b.id.Broker].inc.Boot = 77
	w.until("the exit", 20*time.Second, func() bool { return m.exit != nil })
	if m.exit.Code != node.ExitRefused || !strings.Contains(m.exit.Reason, "boot 77") {
		t.Errorf("exit %+v", m.exit)
	}
}

// TestThrottle: the transfer to a slave keeps to maxHaTransferByteInSecond.
func TestThrottle(t *testing.T) {
	w := started(t, 3, func(n int, o *Options) { o.MaxHATransferByteInSecond = 200 << 10 })
	m := w.master()
	s := w.slaves()[0]
	s.crash(false)
	w.until("a smaller set", 5*time.Second, func() bool { return len(w.ctl.set) == 2 })
	stop, _ := w.load(m, "x", 4)
	w.run(700 * time.Millisecond)
	stop()
	behind := m.b.log.end - s.store.end()
	s.start()
	w.until("following", 10*time.Second, func() bool { return s.b.up.phase == upStarted })
	at := w.now
	w.until("caught up", 120*time.Second, func() bool { return s.b.log.end == m.b.log.end })
	want := time.Duration(behind) * time.Second / (200 << 10)
	if took := w.now.Sub(at); took < want*7/10 || took > want*2 {
		t.Errorf("%d bytes took %v, at 200 KiB/s they need %v", behind, took, want)
	}
}
