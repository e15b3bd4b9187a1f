package controller

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage/raftstore"
)

// condition returns the named condition of a node.
func (l *life) condition(name string) node.Condition {
	for _, c := range l.c.Conditions() {
		if c.Name == name {
			return c
		}
	}
	return node.Condition{}
}

// TestInitialiseOrders: in every order of starting three controllers the cluster
// begins once, and only when all are there (C4).
func TestInitialiseOrders(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		b := newBench(t, 3, nil)
		for i, n := range order {
			if b.leader() != nil {
				t.Fatalf("order %v: a leader with %d of 3 controllers", order, i)
			}
			b.nodes[b.names[n]].start()
			b.run(3 * time.Second)
		}
		b.needLeader()
		b.until("one cluster", 5*time.Second, func() bool {
			id := b.nodes["n0"].c.cluster()
			return id != "" && !slices.ContainsFunc(b.names, func(n string) bool { return b.nodes[n].c.state.Cluster != id })
		})
	}
}

// TestInitialiseNeedsOptIn: several controllers wait for an explicit word, and say so;
// one alone does not.
func TestInitialiseNeedsOptIn(t *testing.T) {
	b := newBench(t, 3, func(o *Options) { o.Initialise = false }).startAll()
	b.run(10 * time.Second)
	if b.leader() != nil {
		t.Fatal("initialised without opt-in")
	}
	if c := b.nodes["n0"].condition("initialised"); c.OK || !strings.Contains(c.Detail, "initialiseControllers=true") {
		t.Errorf("condition %+v", c)
	}
	one := newBench(t, 1, func(o *Options) { o.Initialise = false }).startAll()
	one.until("single", time.Second, func() bool { return one.leader() != nil })
}

// TestOnlyLowestInitialises: the word given to another controller than the lowest is
// not acted on.
func TestOnlyLowestInitialises(t *testing.T) {
	b := newBench(t, 3, func(o *Options) { o.Initialise = o.SelfID == "n2" }).startAll()
	b.run(10 * time.Second)
	if b.leader() != nil {
		t.Fatal("initialised by another than the lowest id")
	}
}

// TestListsDiffer: controllers configured with other lists do not begin together.
func TestListsDiffer(t *testing.T) {
	b := newBench(t, 3, func(o *Options) {
		if o.SelfID == "n2" {
			o.Peers = append(slices.Clone(o.Peers), Peer{"n7", "10.0.0.7:9880", "10.0.0.7:9770"})
			o.AllowEvenPeers = true
		}
	}).startAll()
	b.run(10 * time.Second)
	if b.leader() != nil {
		t.Fatal("two configurations initialised together")
	}
	if c := b.nodes["n0"].condition("initialised"); !strings.Contains(c.Detail, "other controllers") {
		t.Errorf("condition %+v", c)
	}
}

// TestRestartNeverReinitialises: all controllers restart, with the opt-in still
// configured: the record is there and the cluster is the same.
func TestRestartNeverReinitialises(t *testing.T) {
	b := newBench(t, 3, nil).startAll()
	b.group()
	id := b.leader().c.state.Cluster
	for range 2 {
		for _, n := range b.names {
			b.nodes[n].crash()
		}
		for _, n := range b.names {
			b.nodes[n].start()
		}
		b.needLeader()
		if r := b.record(); r.Epoch != 1 || len(r.Set) != 3 || b.leader().c.state.Cluster != id {
			t.Fatalf("after a restart: cluster %s, was %s, record %+v", b.leader().c.state.Cluster, id, r)
		}
	}
}

// TestWipedController: one controller loses its store. It has no vote, is refused by
// both others, starts nothing of its own although the opt-in is set, and says what to
// do; the others go on (C8, P-controller-amnesia).
func TestWipedController(t *testing.T) {
	for _, victim := range []string{"n0", "n1"} {
		b := newBench(t, 3, nil).startAll()
		b.group()
		id := b.leader().c.state.Cluster
		v := b.nodes[victim]
		v.crash()
		v.wipe()
		v.start()
		b.run(10 * time.Second)
		if v.c.rn != nil {
			t.Fatalf("%s takes part in raft without its store", victim)
		}
		if c := v.condition("initialised"); c.OK || !strings.Contains(c.Detail, "re-add") || !strings.Contains(c.Detail, id) {
			t.Errorf("%s: condition %+v", victim, c)
		}
		if n := b.count(event.HandshakeRefused, victim); n < 2 {
			t.Errorf("%s was refused %d times", victim, n)
		}
		if r := b.record(); r.Epoch != 1 {
			t.Errorf("record %+v", r)
		}
		// Now one more dies: the amnesiac must not complete the quorum.
		for _, n := range b.names {
			if n != victim {
				b.nodes[n].crash()
				break
			}
		}
		b.run(15 * time.Second)
		if b.leader() != nil {
			t.Fatalf("a leader by the vote of %s, which lost its store", victim)
		}
	}
}

// TestRejoin: a controller that lost its store is taken in again when its operator says
// so, one after the other until every store was replaced; it learns first, votes then,
// and the quorum is real again each time.
func TestRejoin(t *testing.T) {
	b := newBench(t, 3, func(o *Options) { o.SnapshotEvery, o.KeepEntries = 10, 2 }).startAll()
	b.group()
	for round, victim := range []string{"n1", "n0", "n2", "n1"} {
		v := b.nodes[victim]
		v.crash()
		v.wipe()
		v.o.Rejoin, v.o.Initialise = true, false
		v.start()
		b.until(victim+" votes again", 30*time.Second, func() bool {
			l := b.leader()
			return l != nil && len(l.c.conf.GetVoters()) == 3 && len(l.c.conf.GetVotersOutgoing()) == 0 && v.c.raftID > lifeStep && v.c.applied >= l.c.applied
		})
		if r, ok := v.c.Record("g"); !ok || r.Epoch != 1 {
			t.Fatalf("round %d: %s has record %+v", round, victim, r)
		}
		// The restart of a re-added controller needs no further word.
		v.crash()
		v.o.Rejoin = false
		v.start()
		// With one other gone the re-added one completes the quorum.
		other := b.nodes[map[string]string{"n0": "n1", "n1": "n2", "n2": "n0"}[victim]]
		other.crash()
		b.until("leader with "+victim, 20*time.Second, func() bool { return b.leader() != nil })
		if code, remark := b.master().alter(b.record().SetEpoch, 0, 1, 2, 3); code != wire.CodeSuccess {
			t.Fatalf("round %d: alter %d %s", round, code, remark)
		}
		other.start()
		b.run(3 * time.Second)
	}
	if r := b.record(); r.Epoch != 1 || len(r.Set) != 3 {
		t.Fatalf("record %+v", r)
	}
}

// TestRejoinOfTheLiving: an empty store that asks for the place of a controller that is
// there does not get it.
func TestRejoinOfTheLiving(t *testing.T) {
	b := newBench(t, 3, nil).startAll()
	lead := b.needLeader()
	p := lead.c.peers[0]
	b.run(2 * time.Second)
	for range 50 {
		p.rejoin = "impostor"
		b.run(100 * time.Millisecond)
	}
	if v, _ := lead.c.state.voterOf(p.Node); v.Store == "impostor" || len(lead.c.conf.GetVoters()) != 3 {
		t.Fatalf("a living controller was replaced: %+v", lead.c.state.Voters)
	}
}

// TestSameRun: the same story gives the same events to the letter.
func TestSameRun(t *testing.T) {
	run := func() string {
		b := newBench(t, 3, func(o *Options) { o.SnapshotEvery = 5 }).startAll()
		b.group()
		b.run(7 * time.Second)
		b.leader().crash()
		b.run(5 * time.Second)
		b.master().crash()
		b.run(25 * time.Second)
		return b.tail(1000)
	}
	if a, z := run(), run(); a != z {
		t.Fatalf("two runs differ:\n%s\n---\n%s", a, z)
	}
}

// TestMajorityWiped: two of three lose their stores, the lowest among them with the
// opt-in set, and the one that remembers cannot be reached: nothing begins anew; when
// it is back it refuses.
func TestMajorityWiped(t *testing.T) {
	b := newBench(t, 3, nil).startAll()
	b.group()
	id := b.leader().c.state.Cluster
	for _, n := range b.names {
		b.nodes[n].crash()
	}
	b.nodes["n0"].wipe()
	b.nodes["n1"].wipe()
	b.nodes["n0"].start()
	b.nodes["n1"].start()
	b.run(10 * time.Second)
	if b.leader() != nil {
		t.Fatal("a new cluster began while the one with the state was away")
	}
	b.nodes["n2"].start()
	b.run(10 * time.Second)
	if b.leader() != nil {
		t.Fatal("a new cluster began beside committed state")
	}
	if c := b.nodes["n0"].condition("initialised"); !strings.Contains(c.Detail, id) {
		t.Errorf("condition %+v", c)
	}
	if r, ok := b.nodes["n2"].c.Record("g"); !ok || r.Epoch != 1 {
		t.Errorf("the surviving record: %+v", r)
	}
}

// TestAllWiped: every controller loses its store, the brokers keep theirs: a new
// cluster begins and never grants an epoch at or below what the brokers have seen; it
// waits for all of them and takes the best log (P17).
func TestAllWiped(t *testing.T) {
	b := newBench(t, 3, nil).startAll()
	brs := b.group()
	for i, br := range brs {
		br.life.Durable, br.life.LastEpoch, br.life.HighestEpoch = ha.LogOffset(1000+i), 7, 7
	}
	brs[2].life.HighestEpoch, brs[1].life.Durable = 9, 5000
	brs[0].crash()
	for _, n := range b.names {
		b.nodes[n].crash()
		b.nodes[n].wipe()
	}
	for _, n := range b.names {
		b.nodes[n].start()
	}
	b.needLeader()
	for _, br := range brs[1:] {
		br.crash()
		br.boot(ha.ClaimHolds)
		br.applied = false
	}
	b.run(20 * time.Second)
	if r := b.record(); r.Elected() {
		t.Fatalf("elected without the third replica: %+v", r)
	}
	if d := b.leader().condition("group-g").Detail; !strings.Contains(d, "all 3 replicas") {
		t.Errorf("the reason is %q", d)
	}
	brs[0].boot(ha.ClaimHolds)
	brs[0].applied = false
	b.until("rebuilt record", 20*time.Second, func() bool { r := b.record(); return r.Elected() })
	if r := b.record(); r.Epoch != 10 || r.Master != 2 {
		t.Fatalf("record %+v", r)
	}
}

// TestLaggingFollower: a controller that was away while the log was compacted gets a
// snapshot and then the rest.
func TestLaggingFollower(t *testing.T) {
	b := newBench(t, 3, func(o *Options) { o.SnapshotEvery, o.KeepEntries = 10, 2 }).startAll()
	b.group()
	var away *life
	for _, n := range b.names {
		if b.nodes[n] != b.leader() {
			away = b.nodes[n]
		}
	}
	away.crash()
	m := b.master()
	for range 40 {
		if code, remark := m.alter(b.record().SetEpoch, 0, 1, 2, 3); code != wire.CodeSuccess {
			t.Fatalf("alter: %d %s", code, remark)
		}
	}
	before := b.count(event.SnapshotInstalled, "")
	away.start()
	b.until("caught up", 10*time.Second, func() bool {
		r, ok := away.c.Record("g")
		return ok && r.SetEpoch == b.record().SetEpoch
	})
	if b.count(event.SnapshotInstalled, "") == before {
		t.Error("no snapshot was installed")
	}
	// And what it holds now survives its own restart.
	want := b.record().SetEpoch
	away.crash()
	away.start()
	if r, ok := away.c.Record("g"); !ok || r.SetEpoch > want || r.Epoch != 1 {
		t.Errorf("after a restart: %+v", r)
	}
	b.until("caught up again", 10*time.Second, func() bool { r, _ := away.c.Record("g"); return r.SetEpoch == want })
	if first, _ := b.leader().c.log.FirstIndex(); first < 20 {
		t.Errorf("the log still begins at %d", first)
	}
}

// TestForeignFrames: what a stranger sends to the raft port closes its session and is
// counted; nothing else happens.
func TestForeignFrames(t *testing.T) {
	b := newBench(t, 3, nil).startAll()
	b.needLeader()
	l := b.nodes["n1"]
	good := l.c.peers[0] // n0
	hi := hello{group: l.o.ControllerGroup, list: l.c.listHash(), node: "n0", to: "n1", store: b.nodes["n0"].c.identity.Store, cluster: l.c.cluster(), raftID: 1}
	raft := func(m *pb.Message) wire.Frame {
		body, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return peerFrame(frameRaft, body)
	}
	beat := func(from, to, term uint64) *pb.Message {
		return &pb.Message{Type: pb.MsgHeartbeat.Enum(), From: new(from), To: new(to), Term: new(term)}
	}
	damaged := peerFrame(frameHello, hi.encode())
	damaged.Body[9] ^= 1
	cases := []struct {
		name   string
		hello  *hello
		frame  wire.Frame
		closed string // text of the FrameRejected event; "" when refused in words
		refuse string
	}{
		{"raft first", nil, raft(beat(1, 2, 9)), "before a hello", ""},
		{"empty", nil, wire.Frame{Link: wire.Raft}, "of 0 bytes", ""},
		{"damaged", nil, damaged, "wrong checksum", ""},
		{"welcome", nil, peerFrame(frameWelcome, hi.encode()), "does not belong here", ""},
		{"another sender", &hi, raft(beat(3, 2, 9)), "on the session of", ""},
		{"another receiver", &hi, raft(beat(1, 3, 9)), "on the session of", ""},
		{"local message", &hi, raft(&pb.Message{Type: pb.MsgHup.Enum(), From: new(uint64(1)), To: new(uint64(2))}), "may not come from a peer", ""},
		{"proposal", &hi, raft(&pb.Message{Type: pb.MsgProp.Enum(), From: new(uint64(1)), To: new(uint64(2))}), "may not come from a peer", ""},
		{"garbage", &hi, peerFrame(frameRaft, []byte{0xff, 1, 2}), "does not decode", ""},
		{"gap in entries", &hi, raft(&pb.Message{Type: pb.MsgApp.Enum(), From: new(uint64(1)), To: new(uint64(2)), Term: new(uint64(99)), Index: new(uint64(4)),
			Entries: []*pb.Entry{{Index: new(uint64(7)), Term: new(uint64(1))}}}), "does not follow", ""},
		{"bad snapshot", &hi, raft(&pb.Message{Type: pb.MsgSnap.Enum(), From: new(uint64(1)), To: new(uint64(2)), Term: new(uint64(99)),
			Snapshot: &pb.Snapshot{Data: []byte{9}, Metadata: &pb.SnapshotMetadata{Index: new(uint64(999)), Term: new(uint64(9))}}}), "version", ""},
		{"foreign cluster", &hello{group: hi.group, node: "n0", to: "n1", store: "x", cluster: "other", raftID: 1}, wire.Frame{}, "", "two clusters"},
		{"foreign group", &hello{group: "java", node: "n0", to: "n1", store: "x"}, wire.Frame{}, "", "controller group"},
		{"wrong port", &hello{group: hi.group, node: "n0", to: "n2", store: "x"}, wire.Frame{}, "", "check the raft addresses"},
		{"stranger", &hello{group: hi.group, node: "n8", to: "n1", store: "x"}, wire.Frame{}, "", "not in this controller's"},
		{"copied store", &hello{group: hi.group, node: "n0", to: "n1", store: l.c.identity.Store}, wire.Frame{}, "", "copy of"},
		{"amnesiac", &hello{group: hi.group, node: "n0", to: "n1", store: "fresh"}, wire.Frame{}, "", "lost its vote"},
		{"wrong number", &hello{group: hi.group, node: "n0", to: "n1", store: hi.store, cluster: hi.cluster, raftID: 3}, wire.Frame{}, "", "member number"},
	}
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			good.objects = ""
			id := node.SessionID(1000 + i)
			l.c.SessionUp(b.clock(), id, node.Peer{Link: wire.Raft, Addr: "x"})
			if c.hello != nil {
				f := peerFrame(frameHello, c.hello.encode())
				l.c.Receive(b.clock(), id, &f)
			}
			if c.frame.Link == wire.Raft && (c.hello == nil || len(c.frame.Body) > 0) {
				l.c.Receive(b.clock(), id, &c.frame)
			}
			term := l.c.term
			var fx node.Effects
			l.c.Settle(b.clock(), &fx)
			l.c.CheckInvariants()
			if c.closed != "" {
				if !slices.Contains(fx.Closes, id) || !slices.ContainsFunc(fx.Events, func(e event.Event) bool { return e.Kind == event.FrameRejected && strings.Contains(e.Text, c.closed) }) {
					t.Errorf("closes %v events %v", fx.Closes, fx.Events)
				}
			} else {
				i := slices.IndexFunc(fx.Sends, func(s node.Send) bool { return s.To == id })
				if i < 0 || fx.Sends[i].Frame.Body[0] != frameRefuse || !strings.Contains(string(fx.Sends[i].Frame.Body), c.refuse) {
					t.Errorf("sends %+v", fx.Sends)
				}
			}
			if l.c.term != term || l.c.exit != nil {
				t.Errorf("term %d, was %d; exit %v", l.c.term, term, l.c.exit)
			}
		})
	}
}

// TestLyingDisk: a controller whose disk lost confirmed entries leaves instead of
// voting them away.
func TestLyingDisk(t *testing.T) {
	b := newBench(t, 3, nil).startAll()
	b.group()
	var v *life
	for _, n := range b.names {
		if b.nodes[n] != b.leader() {
			v = b.nodes[n]
		}
	}
	b.run(time.Second)
	v.crash()
	s, rec, err := raftstore.OpenMemory(v.mem, raftstore.Options{Node: v.name, UnsafeMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	// The same store with its newest entries gone.
	forged := raftstore.NewMemory()
	if s, _, err = raftstore.OpenMemory(forged, raftstore.Options{Node: v.name, NewStore: rec.Identity.Store, UnsafeMemory: true}); err != nil {
		t.Fatal(err)
	}
	keep := rec.Entries[:len(rec.Entries)-3]
	h := rec.Hard
	h.Commit = keep[len(keep)-1].Index
	if res := s.Do(raftOp(&raftstore.Request{Kind: raftstore.KindAppend, Snapshot: rec.Snapshot, Entries: keep, Hard: &h})); res.Err != nil {
		t.Fatal(res.Err)
	}
	v.mem = forged
	v.start()
	b.until("exit", 10*time.Second, func() bool { return v.exit != nil })
	if v.exit.Code != node.ExitSuspect || !strings.Contains(v.exit.Reason, "lost confirmed writes") {
		t.Fatalf("exit %+v", v.exit)
	}
}

// TestDiskFailure: a failed store operation ends the life with the code that forbids
// a restart.
func TestDiskFailure(t *testing.T) {
	b := newBench(t, 1, nil).startAll()
	b.needLeader()
	l := b.nodes["n0"]
	br := b.addBroker(1, 0)
	br.send("n0", wire.ReqApplyBrokerID, wire.ApplyBrokerIDRequest{ClusterName: "c", BrokerName: "g", AppliedBrokerID: 1, RegisterCheckCode: "a;1"}, nil, func(*wire.Frame) { t.Error("answered although the disk failed") })
	l.store = failingStore{}
	b.until("exit", 2*time.Second, func() bool { return l.exit != nil })
	if l.exit.Code != node.ExitSuspect || b.count(event.DiskFailed, "EIO") != 1 {
		t.Fatalf("exit %+v\n%s", l.exit, b.tail(5))
	}
}

// TestStoreOfAnother: a store whose voters name another life of this controller, or
// another controller, is refused at the start.
func TestStoreOfAnother(t *testing.T) {
	o := newBench(t, 1, nil).nodes["n0"].o
	s := State{Cluster: "c", Voters: []Voter{{1, "n0", "right"}}}
	snap := &raftstore.Snapshot{Index: 1, Term: 1, Conf: raftstore.ConfState{Voters: []uint64{1}}, Data: s.encode()}
	of := func(names ...string) *raftstore.Snapshot {
		s := State{Cluster: "c"}
		for i, n := range names {
			s.Voters = append(s.Voters, Voter{uint64(i + 1), n, "right"})
		}
		return &raftstore.Snapshot{Index: 1, Term: 1, Conf: raftstore.ConfState{Voters: []uint64{1, 2, 3}}, Data: s.encode()}
	}
	for _, c := range []struct {
		rec  raftstore.Recovered
		text string
	}{
		{raftstore.Recovered{Identity: raftstore.Identity{Node: "n0", Store: "wrong"}, Snapshot: snap}, "re-add"},
		{raftstore.Recovered{Identity: raftstore.Identity{Node: "n0", Store: "right"}, Snapshot: of("n0", "n1", "n2")}, "names n0, the cluster of this controller's store has n0, n1, n2"},
		{raftstore.Recovered{Identity: raftstore.Identity{Node: "n1", Store: "right"}, Snapshot: snap}, `belongs to "n1"`},
		{raftstore.Recovered{Identity: raftstore.Identity{Node: "n0", Store: "right"}, Hard: raftstore.HardState{Term: 3}}, "no membership"},
		{raftstore.Recovered{Identity: raftstore.Identity{Node: "n0", Store: "right"}, Snapshot: &raftstore.Snapshot{Index: 1, Term: 1, Data: []byte{77}}}, "version 77"},
	} {
		if _, err := New(o, c.rec); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("got %v, want an error about %q", err, c.text)
		}
	}
}

// TestOptions: each impossible configuration is refused with the property's name.
func TestOptions(t *testing.T) {
	peers := func(n int) (out []Peer) {
		for i := range n {
			out = append(out, Peer{fmt.Sprintf("n%d", i), fmt.Sprintf("h%d:1", i), fmt.Sprintf("h%d:2", i)})
		}
		return out
	}
	cases := []struct {
		text string
		set  func(*Options)
	}{
		{"even number survives no more failures than 3", func(o *Options) { o.Peers = peers(4) }},
		{"lists 0 controllers", func(o *Options) { o.Peers = nil }},
		{"listed twice", func(o *Options) { o.Peers[1].Node = "n0" }},
		{"not among the peers", func(o *Options) { o.SelfID = "n5" }},
		{"both the raft address of n0 and the broker-facing address of n2", func(o *Options) { o.Peers[2].Addr = o.Peers[0].Raft }},
		{"is not host:port", func(o *Options) { o.Peers[0].Addr = "h0" }},
		{`controller id "a"`, func(o *Options) { o.Peers[0].Node = "a" }},
		{"shorter than a controller election", func(o *Options) { o.LeaseDuration = 5 * time.Second }},
		{"writeLeaseMarginMillis", func(o *Options) { o.LeaseMargin = 0 }},
		{"one lost heartbeat would be a failover", func(o *Options) { o.HeartbeatTimeout = time.Second }},
		{"controllerElectionTicks", func(o *Options) { o.ElectionTicks = 3 }},
		{"scanNotActiveBrokerInterval", func(o *Options) { o.ScanNotActiveBrokerInterval = 0 }},
		{"controllerSnapshotEntries", func(o *Options) { o.SnapshotEvery = 0 }},
		{"controllerDLegerGroup", func(o *Options) { o.ControllerGroup = "" }},
	}
	for _, c := range cases {
		o := DefaultOptions()
		o.SelfID, o.Peers = "n0", peers(3)
		if err := o.Validate(); err != nil {
			t.Fatal(err)
		}
		c.set(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("got %v, want an error about %q", err, c.text)
		}
	}
	got, err := ParsePeers("n0-a:1;n1-b:1;n2-c:1", "a:2; b:2;c:2")
	if err != nil || len(got) != 3 || got[2] != (Peer{"n2", "c:1", "c:2"}) {
		t.Errorf("parsed %v, %v", got, err)
	}
	for _, bad := range [][2]string{{"n0:1", "a:2"}, {"n0-a:1;n1-b:1", "a:2"}, {"n0-a:1", "a:2;b:2"}} {
		if _, err := ParsePeers(bad[0], bad[1]); err == nil {
			t.Errorf("%v was accepted", bad)
		}
	}
}
