package controller

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
)

// lastBeat is when the leader last heard the broker.
func (b *bench) lastBeat(br *broker) node.Time {
	o := b.needLeader().c.seen[memberKey{Key{"c", "g"}, br.id}]
	if o == nil {
		b.t.Fatalf("broker %d was never heard", br.id)
	}
	return o.at
}

// TestElection: three controllers initialise, brokers get ids, register, one is
// elected, the set fills, every broker is told.
func TestElection(t *testing.T) {
	b := newBench(t, 3, nil).startAll()
	b.group()
	r := b.record()
	if r.Epoch != 1 || !r.Set.Equal(ha.NewIDs(1, 2, 3)) || r.Master != 1 || r.MinInSync != 2 {
		t.Fatalf("record %+v", r)
	}
	b.until("everyone plays its role", 10*time.Second, func() bool {
		return !slices.ContainsFunc(b.brokers, func(br *broker) bool { return br.epoch != 1 })
	})
	if b.count(event.Elected, "first") != 3 { // once on each controller
		t.Errorf("first election seen %d times", b.count(event.Elected, "first"))
	}
}

// TestFailover: a master that stops is replaced after its time-out and not before, by
// the member with the most, in a new epoch with a set of its own; the old one comes
// back as a slave.
func TestFailover(t *testing.T) {
	b := newBench(t, 3, nil).startAll()
	brs := b.group()
	b.run(3 * time.Second)
	old := b.master()
	brs[1].life.Durable, brs[2].life.Durable = 100, 200
	b.run(2 * time.Second)
	old.crash()
	last := b.lastBeat(old)
	b.until("new master", 25*time.Second, func() bool { return b.record().Epoch == 2 })
	if took := b.now.Sub(last); took < 10*time.Second || took > 18*time.Second {
		t.Errorf("elected %v after the last heartbeat, want 10 s to 18 s", took)
	}
	r := b.record()
	if r.Master != 3 || !r.Set.Equal(ha.NewIDs(3)) || !r.Retained.Equal(ha.NewIDs(1, 2)) || r.Unclean {
		t.Fatalf("record %+v", r)
	}
	b.until("notice", 5*time.Second, func() bool { return brs[2].epoch == 2 && brs[1].epoch == 2 })
	old.boot(ha.ClaimHolds)
	b.until("old master follows", 10*time.Second, func() bool { return old.epoch == 2 })
	if b.record().Epoch != 2 {
		t.Errorf("the return of the old master caused epoch %d", b.record().Epoch)
	}
}

// TestBlipIsNoFailure: the closing of the master's sessions alone elects nobody.
func TestBlipIsNoFailure(t *testing.T) {
	b := newBench(t, 3, nil).startAll()
	b.group()
	for range 10 {
		for _, n := range b.names {
			b.master().hangUp(n)
		}
		b.run(1500 * time.Millisecond)
	}
	if e := b.record().Epoch; e != 1 {
		t.Fatalf("epoch %d after closed connections", e)
	}
}

// TestRestartIsFailure: a master that restarts within its time-out gets no old epoch
// back: an election follows at registration, in which it may win (P4).
func TestRestartIsFailure(t *testing.T) {
	b := newBench(t, 3, func(o *Options) { o.WriteLease = LeaseOff }).startAll()
	b.group()
	b.run(3 * time.Second)
	m := b.master()
	m.life.Durable = 500
	m.crash()
	m.boot(ha.ClaimHolds)
	b.until("election", 5*time.Second, func() bool { return b.record().Epoch == 2 })
	r := b.record()
	if r.Master != m.id || r.MasterAt.Boot != 2 || !r.Retained.Equal(ha.NewIDs(2, 3)) {
		t.Fatalf("record %+v", r)
	}
}

// TestRestartWaitsForLease: under a lease the same restart elects nobody before the
// old life's lease has ended; a clone of the store may still be writing.
func TestRestartWaitsForLease(t *testing.T) {
	b := newBench(t, 3, nil).startAll()
	b.group()
	b.run(15 * time.Second)
	m := b.master()
	if len(m.grants) == 0 {
		t.Fatal("no lease was granted")
	}
	m.crash()
	last := b.lastBeat(m)
	m.boot(ha.ClaimHolds)
	b.until("election", 20*time.Second, func() bool { return b.record().Epoch == 2 })
	if took := b.now.Sub(last); took < 10*time.Second {
		t.Errorf("elected %v after the newest grant of a 10 s lease", took)
	}
}

// TestHandOver: a master that stops and has given up its authority is replaced at
// once, without waiting for its lease or for silence (P20).
func TestHandOver(t *testing.T) {
	b := newBench(t, 3, nil).startAll()
	b.group()
	b.run(15 * time.Second)
	m := b.master()
	m.stop, m.fenced = true, m.epoch
	at := b.now
	b.until("successor", 10*time.Second, func() bool { return b.record().Epoch == 2 })
	if r := b.record(); r.Master == m.id {
		t.Fatal("the stopping master was elected again")
	}
	if took := b.now.Sub(at); took > 4*time.Second {
		t.Errorf("the hand-over took %v", took)
	}
}

// TestFollowersRefuse: requests that need the leader are refused elsewhere with 2007,
// the metadata request is answered everywhere and names the leader.
func TestFollowersRefuse(t *testing.T) {
	b := newBench(t, 3, nil).startAll()
	brs := b.group()
	lead := b.leader()
	for _, n := range b.names {
		f, ok := brs[0].askAt(n, wire.ReqGetControllerMetadata, nil, nil, time.Second)
		var m wire.ControllerMetadata
		if !ok || wire.DecodeExt(f.Head.Ext, &m) != nil || m.LeaderID != lead.name || m.LeaderAddress != lead.o.self().Addr || m.IsLeader != (n == lead.name) {
			t.Fatalf("%s: metadata %+v", n, m)
		}
		f, ok = brs[0].askAt(n, wire.ReqGetReplicaInfo, wire.ReplicaInfoRequest{BrokerName: "g"}, nil, time.Second)
		want := wire.CodeNotLeader
		if n == lead.name {
			want = wire.CodeSuccess
		}
		if !ok || f.Head.Code != want || want == wire.CodeNotLeader && !strings.Contains(f.Head.Remark, lead.name) {
			t.Errorf("%s: code %d %q, want %d", n, f.Head.Code, f.Head.Remark, want)
		}
	}
}

// TestLeaderCrash: the leading controller dies; nobody is demoted, no epoch changes, no
// lease runs out (A7, under required).
func TestLeaderCrash(t *testing.T) {
	b := newBench(t, 3, nil).startAll()
	b.group()
	b.run(5 * time.Second)
	m := b.master()
	lead := b.leader()
	lead.crash()
	for range 3000 {
		b.run(10 * time.Millisecond)
		if b.now >= m.lease {
			t.Fatalf("the lease ran out %v after the leading controller's end\n%s", b.now.Sub(m.lease), b.tail(20))
		}
	}
	if r := b.record(); r.Epoch != 1 || !r.Set.Equal(ha.NewIDs(1, 2, 3)) {
		t.Fatalf("record %+v", r)
	}
	lead.start()
	b.run(5 * time.Second)
	b.leader().crash()
	b.run(20 * time.Second)
	if r := b.record(); r.Epoch != 1 || b.now >= m.lease {
		t.Fatalf("after a second crash: epoch %d, lease %v", r.Epoch, m.lease.Sub(b.now))
	}
}

// TestSlowDisksElect: five controllers whose disks take half an election for each
// operation find a leader after each crash of one. While they ask each other again and
// again, answers with nothing to write must not queue up before the disks: each would
// come after its term is over, and no election would ever end.
func TestSlowDisksElect(t *testing.T) {
	b := newBench(t, 5, nil).startAll()
	b.run(5 * time.Second)
	for i, name := range b.names {
		b.nodes[name].slow, b.nodes[name].queued = time.Duration(500+20*i)*time.Millisecond, true
	}
	for round := range 12 {
		l := b.leader()
		l.crash()
		l.start()
		b.run(12 * time.Second)
		led := 0
		for _, name := range b.names {
			c := b.nodes[name].c
			if c.ready() {
				led++
			}
			if n := len(c.store.inFlight); n > 4 {
				t.Errorf("round %d: %d operations wait for the disk of %s", round, n, name)
			}
		}
		if led != 1 {
			t.Fatalf("round %d: %d leaders 12 s after the crash of one\n%s", round, led, b.tail(20))
		}
	}
}

// TestLeaderAndMasterCrash: both die in one moment: the new leader has never
// seen the edge and must find the silent master by itself.
func TestLeaderAndMasterCrash(t *testing.T) {
	b := newBench(t, 3, nil).startAll()
	b.group()
	b.run(5 * time.Second)
	b.master().crash()
	b.leader().crash()
	at := b.now
	b.until("new master", 40*time.Second, func() bool { l := b.leader(); return l != nil && b.record().Epoch == 2 })
	if took := b.now.Sub(at); took < 10*time.Second || took > 20*time.Second {
		t.Errorf("elected after %v", took)
	}
}

// TestAlterUnderLeaderCrash: the leader dies with a set change in flight. The change
// either took effect or did not; asking again at the same base tells which, and never
// both.
func TestAlterUnderLeaderCrash(t *testing.T) {
	took := map[string]int{}
	for wait := time.Duration(0); wait <= 12*time.Millisecond; wait += time.Millisecond {
		b := newBench(t, 3, nil).startAll()
		b.group()
		m := b.master()
		base := b.record().SetEpoch
		lead := b.leader()
		var answered *wire.Frame
		h, body := m.alterRequest(base, 0, 1, 2)
		m.send(lead.name, wire.ReqAlterSyncStateSet, h, body, func(f *wire.Frame) { answered = f })
		b.run(wait)
		lead.crash()
		next := b.needLeader()
		r, _ := next.c.Record("g")
		committed := r.SetEpoch == base+1
		if answered != nil && answered.Head.Code == wire.CodeSuccess && !committed {
			t.Fatalf("crash after %v: the change was confirmed and is gone", wait)
		}
		code, _ := m.alter(base, 0, 1, 2)
		if want := map[bool]int32{true: wire.CodeFencedSetEpoch, false: wire.CodeSuccess}[committed]; code != want {
			t.Fatalf("crash after %v: committed %v, asking again got %d, want %d", wait, committed, code, want)
		}
		if r := b.record(); r.SetEpoch != base+1 || !r.Set.Equal(ha.NewIDs(1, 2)) {
			t.Fatalf("crash after %v: record %+v", wait, r)
		}
		took[fmt.Sprint(committed)]++
	}
	if took["true"] == 0 || took["false"] == 0 {
		t.Errorf("one side of the crash was never reached: %v", took)
	}
}

// TestUnknownOutcome: a change that finds no quorum is answered "unknown" after five
// seconds; leadership is lost meanwhile and the change may commit later.
func TestUnknownOutcome(t *testing.T) {
	b := newBench(t, 3, func(o *Options) { o.ElectionTicks, o.LeaseDuration = 100, 30*time.Second }).startAll()
	b.group()
	m := b.master()
	base := b.record().SetEpoch
	lead := b.leader()
	b.isolate(lead.name)
	h, body := m.alterRequest(base, 0, 1, 2)
	f, ok := m.askAt(lead.name, wire.ReqAlterSyncStateSet, h, body, 7*time.Second)
	if !ok || f.Head.Code != wire.CodeSystemError || !strings.Contains(f.Head.Remark, "unknown") {
		t.Fatalf("got %+v", f)
	}
	if f, ok = m.askAt(lead.name, wire.ReqGetReplicaInfo, wire.ReplicaInfoRequest{BrokerName: "g"}, nil, 7*time.Second); ok && f.Head.Code == wire.CodeSuccess {
		t.Fatal("a leader without quorum answered a read")
	}
	b.heal()
	b.until("the change committed late", 30*time.Second, func() bool { return b.record().SetEpoch == base+1 })
}

// TestQuorumLoss: with two of three controllers gone there is no election, no set
// change and no lease; the minority says why, and all recovers by itself (A8).
func TestQuorumLoss(t *testing.T) {
	b := newBench(t, 3, nil).startAll()
	b.group()
	b.run(12 * time.Second)
	m := b.master()
	var rest *life
	for _, n := range b.names {
		if l := b.nodes[n]; l == b.leader() {
			rest = l
		}
	}
	for _, n := range b.names {
		if b.nodes[n] != rest {
			b.nodes[n].crash()
		}
	}
	grants := len(m.grants)
	at := b.now
	b.run(3 * time.Second)
	if n := len(m.grants) - grants; n > 1 {
		t.Errorf("%d leases granted without a quorum", n)
	}
	if m.lease.Sub(at) > 8*time.Second {
		t.Errorf("the lease lasts %v", m.lease.Sub(at))
	}
	m.crash()
	b.run(30 * time.Second)
	f, ok := b.brokers[1].askAt(rest.name, wire.ReqElectMaster, wire.ElectMasterRequest{ClusterName: "c", BrokerName: "g", BrokerID: 2, DesignateElect: true}, nil, 7*time.Second)
	if !ok || f.Head.Code != wire.CodeNotLeader || !strings.Contains(f.Head.Remark, "quorum") {
		t.Fatalf("the minority answered %+v", f)
	}
	if r, _ := rest.c.Record("g"); r.Epoch != 1 {
		t.Fatalf("elected without a quorum: %+v", r)
	}
	for _, n := range b.names {
		if l := b.nodes[n]; !l.up {
			l.start()
		}
	}
	b.until("election after the quorum is back", 40*time.Second, func() bool { return b.record().Epoch == 2 })
}

// TestLeaseGate: at no instant of a partitioned master's lease does anybody else hold
// one, with the master cut from all controllers, and with its clock right.
func TestLeaseGate(t *testing.T) {
	b := newBench(t, 3, nil).startAll()
	b.group()
	b.run(12 * time.Second)
	m := b.master()
	for _, n := range b.names {
		m.unseen[n] = true
	}
	cut := b.now
	for b.record().Epoch == 1 && b.now < cut.Add(30*time.Second) {
		if b.now < m.lease && b.count(event.Elected, "") > 3 {
			t.Fatalf("elected while the old lease still runs for %v", m.lease.Sub(b.now))
		}
		b.run(5 * time.Millisecond)
	}
	if b.record().Epoch != 2 {
		t.Fatal("nobody was elected")
	}
	if b.now < m.lease {
		t.Fatalf("the new authority was committed %v before the old lease ended", m.lease.Sub(b.now))
	}
	next := b.master()
	b.until("lease of the new authority", 4*time.Second, func() bool { return next.lease > b.now })
	for _, x := range b.brokers {
		if x != next && x.lease > b.now {
			t.Errorf("broker %d holds a lease as well", x.id)
		}
	}
}

// TestLeaseGenerationsRise: generations order the grants of an authority, also across a
// change of the leading controller.
func TestLeaseGenerationsRise(t *testing.T) {
	b := newBench(t, 3, nil).startAll()
	b.group()
	b.run(10 * time.Second)
	m := b.master()
	b.leader().crash()
	b.run(10 * time.Second)
	if len(m.grants) < 10 {
		t.Fatalf("%d grants in 20 s", len(m.grants))
	}
	for i := 1; i < len(m.grants); i++ {
		if m.grants[i].Generation <= m.grants[i-1].Generation {
			t.Fatalf("generation %d after %d", m.grants[i].Generation, m.grants[i-1].Generation)
		}
	}
}

// TestFreshReports: candidates are compared by what they say after the old lease
// ended: acknowledgements given until then are in it (P12).
func TestFreshReports(t *testing.T) {
	for _, javaish := range []bool{false, true} {
		b := newBench(t, 3, nil).startAll()
		brs := b.group()
		b.run(12 * time.Second)
		m := b.master()
		brs[1].life.Durable, brs[2].life.Durable = 100, 50
		for _, br := range brs {
			br.javaish = javaish
			if javaish {
				clear(br.echo)
			}
		}
		// Its reports arrive late: the one on the way when the lease ends is out of date.
		brs[2].nextHB = brs[2].nextHB.Add(600 * time.Millisecond)
		brs[2].delay = map[bool]time.Duration{true: 900 * time.Millisecond, false: 1500 * time.Millisecond}[javaish]
		b.run(2 * time.Second)
		for _, n := range b.names {
			m.unseen[n] = true
		}
		end := b.leader().c.lead.watch(gKey).until
		b.run(end.Sub(b.now) - 50*time.Millisecond)
		brs[2].life.Durable = 300 // acknowledged to the old master in the last moment of its lease
		b.until("election", 20*time.Second, func() bool { return b.record().Epoch == 2 })
		if r := b.record(); r.Master != 3 {
			t.Fatalf("javaish %v: broker %d won by an old report", javaish, r.Master)
		}
	}
}

// TestNoGrantDuringElection: while an election is in the log without a result, the old
// authority gets no lease although it is still the committed one: a quorum confirms
// the leader by heartbeats long before slow disks commit the election.
func TestNoGrantDuringElection(t *testing.T) {
	b := newBench(t, 3, nil).startAll()
	b.group()
	b.run(12 * time.Second)
	m := b.master()
	lead := b.leader()
	m.silent = true
	b.run(9 * time.Second)
	for _, l := range b.nodes {
		l.slow = 4 * time.Second
	}
	b.until("an election is proposed", 30*time.Second, func() bool { return lead.c.lead.watch(gKey).electing != 0 })
	m.silent, m.nextHB = false, b.now
	grants := len(m.grants)
	b.run(3 * time.Second)
	if r, _ := lead.c.Record("g"); r.Epoch != 1 {
		t.Fatal("the election committed although the disks are slow")
	}
	if len(m.grants) > grants {
		t.Fatalf("%d leases granted to the old authority while its successor is in the log", len(m.grants)-grants)
	}
	b.until("the election commits", 20*time.Second, func() bool { r, _ := lead.c.Record("g"); return r.Epoch == 2 })
}

// TestGateAfterUngatedElection: an authority that was elected without leases gets its
// first lease only when no lease of anybody can still run.
func TestGateAfterUngatedElection(t *testing.T) {
	b := newBench(t, 3, func(o *Options) { o.WriteLease = LeaseOff }).startAll()
	b.group()
	b.master().crash() // a first election is gated in any case: nobody wrote before
	b.until("second election", 30*time.Second, func() bool { return b.record().Epoch == 2 })
	for _, n := range b.names {
		b.nodes[n].crash()
		b.nodes[n].o.WriteLease = LeaseRequired
		b.nodes[n].start()
	}
	lead := b.needLeader()
	m := b.master()
	b.until("first lease", 30*time.Second, func() bool { return len(m.grants) > 0 })
	if took := b.now.Sub(lead.c.lead.since); took < 10*time.Second {
		t.Fatalf("leased %v after the term began", took)
	}
}

// TestPausedLeader: a leader that was stopped for longer than the heartbeat time-out
// takes nobody for silent because of its own pause (P15).
func TestPausedLeader(t *testing.T) {
	for _, mode := range []LeaseMode{LeaseOff, LeaseRequired} {
		b := newBench(t, 1, func(o *Options) { o.WriteLease = mode }).startAll()
		b.group()
		lead := b.leader()
		b.run(2 * time.Second)
		lead.up = false // nothing runs, nothing arrives
		b.run(20 * time.Second)
		lead.up = true
		lead.settle()
		for _, br := range b.brokers {
			br.nextHB = b.now
		}
		b.master().nextHB = b.now.Add(700 * time.Millisecond) // the others are heard first
		b.run(10 * time.Second)
		if e := b.record().Epoch; e != 1 {
			t.Fatalf("lease %v: epoch %d after the controller's own pause", mode, e)
		}
	}
}

// TestStop: a stopping leader hands leadership on and exits cleanly.
func TestStop(t *testing.T) {
	b := newBench(t, 3, nil).startAll()
	b.group()
	lead := b.leader()
	lead.c.Stop(b.clock())
	lead.settle()
	b.until("exit", 5*time.Second, func() bool { return lead.exit != nil })
	if lead.exit.Code != node.ExitClean {
		t.Fatalf("exit %+v", lead.exit)
	}
	at := b.now
	b.needLeader()
	if b.now.Sub(at) > 500*time.Millisecond {
		t.Errorf("a new leader only after %v", b.now.Sub(at))
	}
}
