package controller

import (
	crand "crypto/rand"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/internal/prng"
	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
	"lockstep/storage/raftstore"
)

// The harness runs controllers and scripted brokers in memory, single-threaded and
// deterministic: one clock, links with a fixed delay, frames of a link in order,
// loss by cutting links, crashes that keep the store. It is no simulator: it exists
// so that this package's promises are tested beside the code.

const (
	linkDelay = time.Millisecond
	diskDelay = 2 * time.Millisecond
	grain     = time.Millisecond
)

// due is something that happens at a time.
type due struct {
	at    node.Time
	order int
	do    func()
}

// bench is the little world.
type bench struct {
	t       *testing.T
	now     node.Time
	queue   []due
	order   int
	nodes   map[string]*life // by node name
	names   []string
	addrs   map[string]string // listener address → node name
	cut     map[string]bool   // "a>b": frames and dials from a to b are lost
	brokers []*broker
	events  []event.Event
	reader  io.Reader
}

// life is one controller process.
type life struct {
	b        *bench
	name     string
	o        Options
	mem      *raftstore.Memory
	boot     int
	store    raftstore.Store
	c        *Controller
	up       bool
	sessions map[node.SessionID]*wireEnd
	nextIn   node.SessionID
	exit     *node.Exit
	slow     time.Duration // each disk operation takes this much longer
	queued   bool          // and waits for the one before
	free     node.Time     // when the disk has done all it was given
}

// wireEnd is one end of a stream: who is at the other.
type wireEnd struct {
	far     string // node name, or broker address
	farID   node.SessionID
	broker  *broker
	nextDue node.Time
}

func newBench(t *testing.T, n int, adjust func(*Options)) *bench {
	t.Helper()
	b := &bench{t: t, nodes: map[string]*life{}, addrs: map[string]string{}, cut: map[string]bool{}, now: node.Time(time.Second)}
	old := crand.Reader
	crand.Reader = prng.New(7)
	t.Cleanup(func() { crand.Reader = old })
	var peers []Peer
	for i := range n {
		peers = append(peers, Peer{Node: fmt.Sprintf("n%d", i), Raft: fmt.Sprintf("10.0.0.%d:9880", i), Addr: fmt.Sprintf("10.0.0.%d:9770", i)})
	}
	for i, p := range peers {
		o := DefaultOptions()
		o.SelfID, o.Peers, o.Initialise = p.Node, peers, i == 0
		if adjust != nil {
			adjust(&o)
		}
		b.addrs[p.Raft], b.addrs[p.Addr] = p.Node, p.Node
		b.names = append(b.names, p.Node)
		b.nodes[p.Node] = &life{b: b, name: p.Node, o: o, mem: raftstore.NewMemory()}
	}
	return b
}

func (b *bench) startAll() *bench {
	for _, n := range b.names {
		b.nodes[n].start()
	}
	return b
}

func (l *life) start() {
	l.b.t.Helper()
	l.boot++
	store, rec, err := raftstore.OpenMemory(l.mem, raftstore.Options{
		Node: l.name, NewStore: ha.StoreID(fmt.Sprintf("%s-store-%d", l.name, l.boot)), UnsafeMemory: true,
	})
	if err != nil {
		l.b.t.Fatal(err)
	}
	c, err := New(l.o, rec)
	if err != nil {
		l.b.t.Fatal(err)
	}
	l.store, l.c, l.up, l.exit = store, c, true, nil
	l.sessions = map[node.SessionID]*wireEnd{}
	l.settle()
}

// crash ends the process; its sessions end at the other sides.
func (l *life) crash() {
	l.up = false
	for _, id := range sortedSessions(l.sessions) {
		l.dropFar(l.sessions[id])
	}
	l.sessions = nil
}

// wipe loses the store.
func (l *life) wipe() { l.mem = raftstore.NewMemory() }

func sortedSessions(m map[node.SessionID]*wireEnd) []node.SessionID {
	var ids []node.SessionID
	for id := range m {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (l *life) dropFar(e *wireEnd) {
	if e.broker != nil {
		e.broker.lost(l.name)
		return
	}
	far := l.b.nodes[e.far]
	if far == nil || !far.up {
		return
	}
	if _, ok := far.sessions[e.farID]; ok {
		delete(far.sessions, e.farID)
		far.c.SessionDown(l.b.clock(), e.farID, "peer gone")
	}
}

func (b *bench) clock() node.Now {
	return node.Now{Mono: b.now, Wall: 1_700_000_000_000 + int64(b.now)/1e6}
}

func (b *bench) after(d time.Duration, do func()) {
	b.order++
	b.queue = append(b.queue, due{b.now.Add(d), b.order, do})
}

// run advances the clock by d.
func (b *bench) run(d time.Duration) {
	b.t.Helper()
	for end := b.now.Add(d); b.now < end; {
		b.now = b.now.Add(grain)
		for {
			i := -1
			for j := range b.queue {
				if b.queue[j].at <= b.now && (i < 0 || b.queue[j].at < b.queue[i].at || b.queue[j].at == b.queue[i].at && b.queue[j].order < b.queue[i].order) {
					i = j
				}
			}
			if i < 0 {
				break
			}
			do := b.queue[i].do
			b.queue = slices.Delete(b.queue, i, i+1)
			do()
		}
		for _, n := range b.names {
			if l := b.nodes[n]; l.up && l.c.Deadline() <= b.now {
				l.settle()
			}
		}
		for _, br := range b.brokers {
			br.tick()
		}
	}
}

// until runs until ok holds and fails after limit.
func (b *bench) until(what string, limit time.Duration, ok func() bool) {
	b.t.Helper()
	for end := b.now.Add(limit); !ok(); {
		if b.now >= end {
			b.t.Fatalf("after %v: not %s\n%s", limit, what, b.tail(40))
		}
		b.run(10 * time.Millisecond)
	}
}

func (b *bench) tail(n int) string {
	var s strings.Builder
	for _, e := range b.events[max(0, len(b.events)-n):] {
		fmt.Fprintf(&s, "%v %s %v\n", time.Duration(e.At), e.Node, e)
	}
	return s.String()
}

// settle settles a controller and performs its effects. A second call at once must
// add nothing.
func (l *life) settle() {
	var fx node.Effects
	l.c.Settle(l.b.clock(), &fx)
	l.c.CheckInvariants()
	var again node.Effects
	l.c.Settle(l.b.clock(), &again)
	if n := len(again.Sends) + len(again.Disk) + len(again.Dials) + len(again.Closes) + len(again.Events); n > 0 {
		l.b.t.Fatalf("%s: a second Settle had %d more effects: %+v", l.name, n, again)
	}
	for _, e := range fx.Events {
		e.Node, e.At = l.name, int64(l.b.now)
		l.b.events = append(l.b.events, e)
	}
	for _, op := range fx.Disk {
		l.disk(op)
	}
	for _, d := range fx.Dials {
		l.dial(d)
	}
	for _, s := range fx.Sends {
		l.send(s)
	}
	for _, id := range fx.Closes {
		l.close(id)
	}
	if fx.Exit != nil {
		l.exit = fx.Exit
		l.crash()
	}
}

// in gives a fact to the controller if it is still this life.
func (l *life) in(boot int, fact func(c *Controller)) {
	if l.up && l.boot == boot {
		fact(l.c)
		l.settle()
	}
}

func (l *life) disk(op storage.Op) {
	boot, store := l.boot, l.store
	wait := diskDelay + l.slow
	if l.queued {
		wait += max(l.free.Sub(l.b.now), 0)
		l.free = l.b.now.Add(wait)
	}
	l.b.after(wait, func() {
		if l.up && l.boot == boot { // a crash before the write loses it
			res := store.Do(op)
			l.in(boot, func(c *Controller) { c.DiskDone(l.b.clock(), res) })
		}
	})
}

func (l *life) dial(d node.Dial) {
	boot := l.boot
	if br := l.b.brokerAt(d.Addr); br != nil && br.up {
		l.b.after(linkDelay, func() {
			l.in(boot, func(c *Controller) {
				l.sessions[d.Session] = &wireEnd{far: d.Addr, broker: br}
				c.SessionUp(l.b.clock(), d.Session, node.Peer{Link: d.Link, Addr: d.Addr})
			})
		})
		return
	}
	far := l.b.nodes[l.b.addrs[d.Addr]]
	if far == nil || !far.up || l.b.cut[l.name+">"+far.name] || l.b.cut[far.name+">"+l.name] {
		l.b.after(10*linkDelay, func() {
			l.in(boot, func(c *Controller) { c.SessionDown(l.b.clock(), d.Session, "connect refused") })
		})
		return
	}
	farBoot := far.boot
	l.b.after(linkDelay, func() {
		if !far.up || far.boot != farBoot || !l.up || l.boot != boot {
			l.in(boot, func(c *Controller) { c.SessionDown(l.b.clock(), d.Session, "gone") })
			return
		}
		far.nextIn++
		id := far.nextIn
		far.sessions[id] = &wireEnd{far: l.name, farID: d.Session}
		l.sessions[d.Session] = &wireEnd{far: far.name, farID: id}
		far.in(farBoot, func(c *Controller) {
			c.SessionUp(l.b.clock(), id, node.Peer{Link: d.Link, Addr: l.name, Local: d.Addr})
		})
		l.in(boot, func(c *Controller) { c.SessionUp(l.b.clock(), d.Session, node.Peer{Link: d.Link, Addr: d.Addr}) })
	})
}

func (l *life) send(s node.Send) {
	e := l.sessions[s.To]
	if e == nil {
		return
	}
	f := s.Frame
	f.Body = slices.Clone(f.Body)
	if e.broker != nil {
		if br := e.broker; br.reaches(l.name) {
			l.b.after(linkDelay, func() { br.receive(l.name, &f) })
		}
		return
	}
	if l.b.cut[l.name+">"+e.far] {
		return
	}
	far := l.b.nodes[e.far]
	boot := far.boot
	l.b.after(linkDelay, func() {
		if _, ok := far.sessions[e.farID]; ok {
			far.in(boot, func(c *Controller) { c.Receive(l.b.clock(), e.farID, &f) })
		}
	})
}

func (l *life) close(id node.SessionID) {
	e := l.sessions[id]
	if e == nil {
		return
	}
	delete(l.sessions, id)
	l.dropFar(e)
	l.c.SessionDown(l.b.clock(), id, "closed")
}

// isolate cuts a node from the others, both ways; heal undoes every cut.
func (b *bench) isolate(name string) {
	for _, n := range b.names {
		if n != name {
			b.cut[n+">"+name], b.cut[name+">"+n] = true, true
		}
	}
}

func (b *bench) heal() { b.cut = map[string]bool{} }

// leader returns the ready leader of the newest term, or nil.
func (b *bench) leader() *life {
	var best *life
	term := uint64(0)
	for _, n := range b.names {
		if l := b.nodes[n]; l.up {
			if ok, tm := l.c.Leading(); ok && tm > term {
				best, term = l, tm
			}
		}
	}
	return best
}

func (b *bench) needLeader() *life {
	b.t.Helper()
	b.until("a leader", 20*time.Second, func() bool { return b.leader() != nil })
	return b.leader()
}

func (b *bench) record() Record {
	b.t.Helper()
	r, _ := b.needLeader().c.Record("g")
	return r
}

func (b *bench) brokerAt(addr string) *broker {
	for _, br := range b.brokers {
		if br.addr() == addr {
			return br
		}
	}
	return nil
}

func (b *bench) count(kind event.Kind, text string) (n int) {
	for _, e := range b.events {
		if e.Kind == kind && strings.Contains(e.Text, text) {
			n++
		}
	}
	return n
}

// broker is a scripted broker: it applies for its id, registers, sends heartbeats to
// every controller, and remembers what it was told. The test writes its log.
type broker struct {
	b       *bench
	id      ha.BrokerID
	up      bool
	silent  bool            // sends nothing
	unseen  map[string]bool // controllers it cannot reach
	life    wire.ReplicaReport
	epoch   ha.MasterEpoch // role it plays
	applied bool
	joined  bool // registered
	nextHB  node.Time
	seq     uint64
	echo    map[string]uint64
	opaque  int32
	asked   map[int32]func(*wire.Frame)
	inbound map[string]node.SessionID
	lease   node.Time // its own view of the deadline
	grants  []wire.LeaseGrant
	sentAt  map[uint64]node.Time
	told    []wire.RoleChanged
	fenced  ha.MasterEpoch
	stop    bool          // hand over
	mute    bool          // does not learn its role
	javaish bool          // echoes nothing
	delay   time.Duration // of its requests, beyond the usual
}

func (b *bench) addBroker(id ha.BrokerID, end ha.LogOffset) *broker {
	br := &broker{
		b: b, id: id, up: true, unseen: map[string]bool{}, echo: map[string]uint64{}, asked: map[int32]func(*wire.Frame){},
		inbound: map[string]node.SessionID{}, sentAt: map[uint64]node.Time{},
		life: wire.ReplicaReport{
			Identity: wire.Identity{Store: ha.StoreID(fmt.Sprintf("store-of-%d", id)), Boot: 1, Nonce: uint64(id)},
			Claim:    ha.ClaimHolds, Ready: wire.ReadyYes, Durable: end, MinInSync: 2, TotalReplicas: 3, Class: ha.ClassDurable,
			HAAddress: fmt.Sprintf("10.1.0.%d:10912", id),
		},
	}
	b.brokers = append(b.brokers, br)
	return br
}

// group adds three empty brokers and waits for the first election and a full set.
func (b *bench) group() []*broker {
	b.t.Helper()
	brs := []*broker{b.addBroker(1, 0), b.addBroker(2, 0), b.addBroker(3, 0)}
	b.until("first election", 30*time.Second, func() bool { r := b.record(); return r.Elected() })
	b.fill()
	return brs
}

func (b *bench) master() *broker {
	b.t.Helper()
	r := b.record()
	for _, br := range b.brokers {
		if br.id == r.Master {
			return br
		}
	}
	return nil
}

// fill lets the master take every live broker into the set.
func (b *bench) fill() {
	b.t.Helper()
	b.until("full set", 20*time.Second, func() bool {
		m, r := b.master(), b.record()
		if m == nil || m.epoch != r.Epoch {
			return false
		}
		var ids []ha.BrokerID
		for _, br := range b.brokers {
			if br.up && br.joined && !br.silent {
				ids = append(ids, br.id)
			}
		}
		if len(r.Set) == len(ids) {
			return true
		}
		code, remark := m.alter(r.SetEpoch, 0, ids...)
		if code != wire.CodeSuccess {
			b.t.Logf("alter to %v: %d %s", ids, code, remark)
		}
		return false
	})
}

func (br *broker) addr() string { return fmt.Sprintf("10.1.0.%d:10911", br.id) }

func (br *broker) reaches(ctl string) bool { return br.up && !br.silent && !br.unseen[ctl] }

func (br *broker) lost(ctl string) { delete(br.inbound, ctl); delete(br.echo, ctl) }

// crash ends the broker's process; boot starts it again with the claim.
func (br *broker) crash() {
	br.up = false
	for _, n := range br.b.names {
		br.hangUp(n)
	}
}

func (br *broker) hangUp(ctl string) {
	id, ok := br.inbound[ctl]
	if !ok {
		return
	}
	br.lost(ctl)
	if l := br.b.nodes[ctl]; l.up {
		if _, ok := l.sessions[id]; ok {
			delete(l.sessions, id)
			l.in(l.boot, func(c *Controller) { c.SessionDown(br.b.clock(), id, "broker gone") })
		}
	}
}

func (br *broker) boot(claim ha.Claim) {
	br.up, br.joined, br.epoch, br.lease, br.fenced, br.stop, br.seq = true, false, 0, 0, 0, false, 0
	br.life.Boot++
	br.life.Nonce += 100
	br.life.Claim = claim
}

// send sends a request to a controller; answer is called with the response.
func (br *broker) send(ctl string, code int32, header any, body []byte, answer func(*wire.Frame)) {
	l := br.b.nodes[ctl]
	if !l.up || !br.reaches(ctl) {
		return
	}
	br.opaque++
	op := br.opaque
	br.asked[op] = answer
	f := &wire.Frame{Link: wire.Remoting, Body: body, Head: wire.Head{Code: code, Language: "GO", Opaque: op, Ext: wire.EncodeExt(header)}}
	boot := l.boot
	br.b.after(linkDelay+br.delay, func() {
		if !l.up || l.boot != boot || !br.reaches(ctl) {
			return
		}
		id, ok := br.inbound[ctl]
		if !ok {
			l.nextIn++
			id = l.nextIn
			br.inbound[ctl] = id
			l.sessions[id] = &wireEnd{far: br.addr(), broker: br}
			l.in(boot, func(c *Controller) { c.SessionUp(br.b.clock(), id, node.Peer{Link: wire.Remoting, Addr: br.addr()}) })
		}
		l.in(boot, func(c *Controller) { c.Receive(br.b.clock(), id, f) })
	})
}

func (br *broker) receive(ctl string, f *wire.Frame) {
	if !br.reaches(ctl) {
		return
	}
	if f.Head.Response() {
		if answer := br.asked[f.Head.Opaque]; answer != nil {
			delete(br.asked, f.Head.Opaque)
			answer(f)
		}
		return
	}
	if f.Head.Code == wire.ReqRoleChanged {
		var h wire.RoleChanged
		if err := wire.DecodeExt(f.Head.Ext, &h); err != nil {
			br.b.t.Fatal(err)
		}
		br.told = append(br.told, h)
		br.learn(h.MasterBrokerID, h.MasterEpoch, h.Boot)
	}
}

// learn applies a role; authority is (id, boot, epoch) exactly.
func (br *broker) learn(master ha.BrokerID, epoch ha.MasterEpoch, boot ha.Boot) {
	if br.mute || epoch <= br.epoch || master == br.id && boot != br.life.Boot {
		return
	}
	br.epoch = epoch
	br.lease = 0
	br.life.LastEpoch, br.life.HighestEpoch = epoch, max(br.life.HighestEpoch, epoch)
}

// tick plays the broker's own timers.
func (br *broker) tick() {
	if !br.up || br.b.now < br.nextHB {
		return
	}
	br.nextHB = br.b.now.Add(time.Second)
	if !br.joined {
		br.register()
		return
	}
	br.seq++
	br.sentAt[br.seq] = br.b.now
	for _, ctl := range br.b.names {
		br.heartbeat(ctl)
	}
}

func (br *broker) heartbeat(ctl string) {
	h := wire.BrokerHeartbeat{
		ClusterName: "c", BrokerAddr: br.addr(), BrokerName: "g", BrokerID: br.id, Epoch: br.epoch, MaxOffset: br.life.Durable,
		HeartbeatTimeoutMillis: 10_000, ReplicaReport: br.life, LeaseWanted: true, Fenced: br.fenced, HandOver: br.stop,
		Sequence: br.seq, Echo: br.echo[ctl],
	}
	br.send(ctl, wire.ReqBrokerHeartbeat, h, nil, func(f *wire.Frame) {
		if f.Head.Code == wire.CodeBrokerNeedsRegister {
			br.joined = false
			return
		}
		var r wire.HeartbeatResponse
		if err := wire.DecodeExt(f.Head.Ext, &r); err != nil {
			br.b.t.Fatal(err)
		}
		if !br.javaish {
			br.echo[ctl] = r.Stamp
		}
		if r.Granted() && r.LeaseGrant.Boot == br.life.Boot && r.LeaseGrant.Epoch == br.epoch && r.Broker == br.id {
			br.grants = append(br.grants, r.LeaseGrant)
			d := time.Duration(r.DurationMillis-r.MarginMillis) * time.Millisecond
			br.lease = max(br.lease, br.sentAt[r.Sequence].Add(d))
		}
	})
}

func (br *broker) register() {
	l := br.b.leader()
	if l == nil {
		return
	}
	if !br.applied {
		br.send(l.name, wire.ReqApplyBrokerID, wire.ApplyBrokerIDRequest{ClusterName: "c", BrokerName: "g", AppliedBrokerID: br.id, RegisterCheckCode: br.addr() + ";1"}, nil, func(f *wire.Frame) {
			if f.Head.Code == wire.CodeSuccess {
				br.applied = true
				br.nextHB = br.b.now
			}
		})
		return
	}
	br.send(l.name, wire.ReqRegisterToController, wire.RegisterToControllerRequest{ClusterName: "c", BrokerName: "g", BrokerID: br.id, BrokerAddress: br.addr(), ReplicaReport: br.life}, nil, func(f *wire.Frame) {
		switch f.Head.Code {
		case wire.CodeSuccess:
			br.joined = true
			br.nextHB = br.b.now
		case wire.CodeBrokerNeedsRegister:
			br.applied = false
		}
	})
}

// ask sends a request to the leader and runs until the answer is there; ok is false
// when none came in time.
func (br *broker) ask(code int32, header any, body []byte) (f *wire.Frame, ok bool) {
	br.b.t.Helper()
	l := br.b.needLeader()
	return br.askAt(l.name, code, header, body, 8*time.Second)
}

func (br *broker) askAt(ctl string, code int32, header any, body []byte, limit time.Duration) (f *wire.Frame, ok bool) {
	br.send(ctl, code, header, body, func(x *wire.Frame) { f = x })
	for end := br.b.now.Add(limit); f == nil && br.b.now < end; {
		br.b.run(5 * time.Millisecond)
	}
	return f, f != nil
}

// alterRequest builds a correct alter for the set as the leader's record stands.
func (br *broker) alterRequest(base ha.SetEpoch, floor ha.LogOffset, ids ...ha.BrokerID) (wire.AlterSyncStateSetRequest, []byte) {
	h := wire.AlterSyncStateSetRequest{
		BrokerName: "g", ClusterName: "c", MasterBrokerID: br.id, MasterEpoch: br.epoch, Identity: br.life.Identity, Floor: floor, MinInSync: br.life.MinInSync,
	}
	for _, x := range br.b.brokers {
		if slices.Contains(ids, x.id) {
			h.Members = append(h.Members, x.life.Of(x.id))
		}
	}
	return h, wire.MarshalBody(wire.SyncStateSetBody{SyncStateSet: ha.NewIDs(ids...), SyncStateSetEpoch: base})
}

func (br *broker) alter(base ha.SetEpoch, floor ha.LogOffset, ids ...ha.BrokerID) (int32, string) {
	br.b.t.Helper()
	h, body := br.alterRequest(base, floor, ids...)
	f, ok := br.ask(wire.ReqAlterSyncStateSet, h, body)
	if !ok {
		return -1, "no answer"
	}
	return f.Head.Code, f.Head.Remark
}

func raftOp(r *raftstore.Request) storage.Op {
	return storage.Op{Lane: storage.LaneRaft, Kind: storage.OpRaft, Raft: r}
}

// failingStore fails every operation.
type failingStore struct{}

func (failingStore) Do(op storage.Op) storage.Result {
	return storage.Result{Op: op, Err: fmt.Errorf("sync: EIO")}
}
func (failingStore) Close() error { return nil }
