package broker

import (
	"bytes"
	"container/heap"
	"fmt"
	"slices"
	"testing"
	"time"

	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/internal/prng"
	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
)

// world is three brokers, a scripted controller and clients on one heap of events:
// deterministic, in memory, with latencies that a test or a seed draws.
type world struct {
	t     failer
	now   node.Time
	heap  schedule
	seq   uint64
	rng   *prng.Source
	nodes []*machine
	ctl   *scripted
	ns    *nameServer

	streams      []*stream
	lastID       node.SessionID
	netDelay     func() time.Duration
	slow         map[string]time.Duration // extra delay of frames to and from a host
	diskTime     func(op storage.Op) time.Duration
	cut          func(from, to string) bool // frames and dials between the hosts vanish
	trace        []string
	promised     []promise
	shown        ha.LogOffset // highest confirm ever shown by a serving master
	shownBy      []byte       // the log it was shown from
	lastElection node.Time
	lostOK       bool // an unclean election was allowed
}

// failer is testing.T or rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

// promise is an acknowledged message.
type promise struct {
	log  ha.LogOffset
	body string
}

type scheduled struct {
	at  node.Time
	seq uint64
	run func()
}
type schedule []scheduled

func (s schedule) Len() int { return len(s) }
func (s schedule) Less(i, j int) bool {
	return s[i].at < s[j].at || s[i].at == s[j].at && s[i].seq < s[j].seq
}
func (s schedule) Swap(i, j int) { s[i], s[j] = s[j], s[i] }
func (s *schedule) Push(x any)   { *s = append(*s, x.(scheduled)) }
func (s *schedule) Pop() any {
	o := *s
	x := o[len(o)-1]
	*s = o[:len(o)-1]
	return x
}

func (w *world) after(d time.Duration, run func()) {
	w.seq++
	heap.Push(&w.heap, scheduled{w.now.Add(d), w.seq, run})
}

// machine is one broker process and its disk.
type machine struct {
	w          *world
	n          int
	host       string
	o          Options
	store      *memStore
	b          *Broker
	life       int // counts processes; work of an older one is void
	paused     bool
	backlog    []func()
	lanes      [storage.NumLanes]node.Time
	wake       uint64
	exit       *node.Exit
	marked     bool // the clean-stop mark of this life was issued: the last change of the store
	events     []event.Event
	answers    map[string]answered // by message body
	judged     int                 // promises checked in epoch judgedIn of this life
	judgedIn   ha.MasterEpoch
	judgedLife int
}

type answered struct {
	code   int32
	log    ha.LogOffset
	remark string
}

// stream is one connection. Side 0 dialled.
type stream struct {
	w         *world
	link      wire.Link
	ends      [2]*machine // nil: controller or client
	hosts     [2]string
	ids       [2]node.SessionID
	lives     [2]int
	addr      string
	last      [2]node.Time
	dead      bool
	forgotten bool                   // looks open, carries nothing
	onRecv    [2]func(f *wire.Frame) // for ends without a machine
}

type nameServer struct {
	w         *world
	addr      string
	masters   map[string]int64 // address → role id last registered
	epochs    []ha.MasterEpoch
	registers int
	left      int
}

func testOptions(n int) Options {
	o := DefaultOptions()
	o.BrokerName, o.BrokerClusterName = "g", "c"
	o.Address, o.HAAddress = fmt.Sprintf("b%d:1", n), fmt.Sprintf("b%d:2", n)
	o.ControllerAddr, o.NamesrvAddr = []string{"c1:1"}, []string{"n1:1"}
	o.MappedFileSizeCommitLog = 64 << 10
	o.MaxTailBytes = 128 << 10
	o.HATransferBatchSize = 4 << 10
	o.HATransferWindow = 64 << 10
	o.HAJoinLag = 16 << 10
	o.MetaCheckpointBytes = 32 << 10
	return o
}

// newWorld makes brokers 1…n, not started.
func newWorld(t failer, n int, tune func(n int, o *Options)) *world {
	w := &world{t: t, rng: prng.New(1), now: node.Time(time.Second)}
	w.ctl = newScripted(w)
	w.ns = &nameServer{w: w, addr: "n1:1", masters: map[string]int64{}}
	w.netDelay = func() time.Duration { return 200 * time.Microsecond }
	w.diskTime = func(op storage.Op) time.Duration {
		if op.Kind == storage.OpSync {
			return time.Millisecond
		}
		return 50 * time.Microsecond
	}
	w.cut = func(string, string) bool { return false }
	for i := 1; i <= n; i++ {
		m := &machine{w: w, n: i, host: fmt.Sprintf("b%d", i), o: testOptions(i), answers: map[string]answered{}}
		m.o.TotalReplicas = n
		if tune != nil {
			tune(i, &m.o)
		}
		m.store = newMemStore(i, m.o.MappedFileSizeCommitLog)
		w.nodes = append(w.nodes, m)
	}
	w.every(time.Second, func() { w.ctl.scan() })
	return w
}

func (w *world) every(d time.Duration, run func()) {
	w.after(d, func() { run(); w.every(d, run) })
}

// started starts all and runs until a master is writable.
func started(t failer, n int, tune func(n int, o *Options)) *world {
	w := newWorld(t, n, tune)
	for _, m := range w.nodes {
		m.start()
	}
	w.until("a writable master", 30*time.Second, func() bool { return w.writable() != nil })
	w.until("a full set", 30*time.Second, func() bool { return len(w.master().b.set.committed) == n && w.converged() })
	return w
}

// master is the serving broker of the highest epoch.
func (w *world) master() *machine {
	var best *machine
	for _, m := range w.nodes {
		if m.b != nil && m.b.role.serving() && (best == nil || m.b.role.epoch > best.b.role.epoch) {
			best = m
		}
	}
	return best
}

func (w *world) writable() *machine {
	if m := w.master(); m != nil && m.b.unwritable(w.now) == nil {
		return m
	}
	return nil
}

func (w *world) slaves() []*machine {
	var out []*machine
	for _, m := range w.nodes {
		if m != w.master() {
			out = append(out, m)
		}
	}
	return out
}

// step runs the next event.
func (w *world) step() bool {
	if len(w.heap) == 0 {
		return false
	}
	e := heap.Pop(&w.heap).(scheduled)
	w.now = e.at
	e.run()
	return true
}

// run lets d pass.
func (w *world) run(d time.Duration) {
	end := w.now.Add(d)
	for len(w.heap) > 0 && w.heap[0].at <= end {
		w.step()
	}
	w.now = end
}

// until runs until cond holds, at most for limit.
func (w *world) until(what string, limit time.Duration, cond func() bool) {
	w.t.Helper()
	end := w.now.Add(limit)
	for !cond() {
		if len(w.heap) == 0 || w.heap[0].at > end {
			w.fail("waited %v in vain for %s", limit, what)
		}
		w.step()
	}
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	for _, line := range w.trace[max(0, len(w.trace)-120):] {
		w.t.Logf("%s", line)
	}
	for _, m := range w.nodes {
		if m.b != nil {
			w.t.Logf("b%d role %s epoch %d end %d durable %d confirm %d set %v@%d phase %d cut %v", m.n, m.b.role.String(), m.b.role.epoch, m.b.log.end, m.b.log.durable, m.b.confirm, m.b.set.committed, m.b.set.epoch, m.b.up.phase, m.b.cut)
		}
	}
	w.t.Logf("controller: master %d epoch %d set %v@%d retained %v", w.ctl.master, w.ctl.epoch, w.ctl.set, w.ctl.setEpoch, w.ctl.retained)
	w.t.Fatalf(format, args...)
}

func (w *world) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%10.4f ", float64(w.now)/1e9)+fmt.Sprintf(format, args...))
}

// clock is what a machine sees.
func (w *world) clock() node.Now {
	return node.Now{Mono: w.now, Wall: int64(w.now/1e6) + 1_700_000_000_000}
}

// start opens the store and begins a process.
func (m *machine) start() {
	m.life++
	m.exit, m.paused, m.backlog = nil, false, nil
	m.lanes = [storage.NumLanes]node.Time{}
	m.store.torn, m.marked = 0, false
	b, err := New(m.o, m.store.open(m.o.BrokerClusterName, m.o.BrokerName))
	if err != nil {
		m.w.t.Fatalf("%v", err)
	}
	m.b = b
	m.w.note("b%d starts", m.n)
	m.settle()
}

// crash ends the process; every stream breaks.
func (m *machine) crash(power bool) {
	if m.b == nil {
		return
	}
	m.w.note("b%d crashes, power %v", m.n, power)
	m.life++
	m.b = nil
	m.store.crash(power)
	for _, s := range m.w.streams {
		if s.ends[0] == m || s.ends[1] == m {
			s.down("peer crashed")
		}
	}
	m.w.sweep()
}

// vanish ends the process as a host does that loses its power: nobody is told.
func (m *machine) vanish() {
	for _, s := range m.w.streams {
		if s.ends[0] == m || s.ends[1] == m {
			s.dead = true
		}
	}
	m.crash(true)
}

// leave ends the process as an exit does: what it sent still arrives.
func (m *machine) leave() {
	for _, s := range m.w.streams {
		for i := range s.ends {
			if s.ends[i] == m && !s.dead {
				s.closeFrom(i)
			}
		}
	}
	m.life++
	m.b = nil
}

// sweep forgets dead streams.
func (w *world) sweep() {
	w.streams = slices.DeleteFunc(w.streams, func(s *stream) bool { return s.dead })
}

// fact tells the machine something, unless its process is over or stands still.
func (m *machine) fact(life int, run func(now node.Now)) {
	if m.life != life || m.b == nil {
		return
	}
	if m.paused {
		m.backlog = append(m.backlog, func() { m.fact(life, run) })
		return
	}
	run(m.w.clock())
	m.settle()
}

// resume ends a pause: everything that waited comes at once.
func (m *machine) resume() {
	m.paused = false
	backlog := m.backlog
	m.backlog = nil
	for _, run := range backlog {
		run()
	}
	m.settle()
}

// settle lets the machine act, checks that acting twice changes nothing, and
// performs the effects.
func (m *machine) settle() {
	if m.b == nil || m.paused {
		return
	}
	w, b := m.w, m.b
	var fx node.Effects
	b.Settle(w.clock(), &fx)
	b.CheckInvariants()
	if fx.Exit == nil {
		var again node.Effects
		b.Settle(w.clock(), &again)
		if n := len(again.Sends) + len(again.Disk) + len(again.Dials) + len(again.Closes) + len(again.Events); n > 0 {
			w.fail("b%d: a second Settle has %d effects: %+v", m.n, n, again)
		}
		if d := b.Deadline(); d <= w.now {
			w.fail("b%d: deadline %d is not after now %d: %v", m.n, d, w.now, m.deadlines())
		}
	}
	m.perform(&fx)
	if m.b == nil {
		return
	}
	w.judge(m)
	m.wake++
	if d, turn, life := b.Deadline(), m.wake, m.life; d != node.Never {
		w.after(d.Sub(w.now), func() {
			if m.wake == turn && m.life == life {
				m.settle()
			}
		})
	}
}

func (m *machine) deadlines() string {
	b := m.b
	return fmt.Sprint("waiters ", b.waitersDeadline(), " lease ", b.leaseDeadline(), " set ", b.setDeadline(), " replicas ", b.replicasDeadline(), " follow ", b.followDeadline(),
		" log ", b.logDeadline(), " queues ", b.queuesDeadline(), " checkpoint ", b.checkpointDeadline(), " saves ", b.savesDeadline(), " retention ", b.retentionDeadline(),
		" tail ", b.tailDeadline(), " registrar ", b.registrarDeadline(), " stop ", b.stopDeadline(), " services ", b.servicesDeadline())
}

func (m *machine) perform(fx *node.Effects) {
	w := m.w
	for _, e := range fx.Events {
		e.Node, e.At = m.host, int64(w.now)
		m.events = append(m.events, e)
		w.note("b%d %s", m.n, e)
	}
	for _, s := range fx.Sends {
		if s.Frame.SendOK != nil && s.Frame.Head.Code == 0 && m.b.o.WriteLease != LeaseOff && s.Before <= w.now {
			w.fail("b%d acknowledges and does not say until when it may: %d", m.n, s.Before)
		}
		m.send(s)
	}
	for _, op := range fx.Disk {
		m.disk(op)
	}
	for _, d := range fx.Dials {
		w.dial(m, d)
	}
	for _, id := range fx.Closes {
		for _, s := range w.streams {
			if i := s.side(m, id); i >= 0 {
				s.closeFrom(i)
			}
		}
	}
	if fx.Exit != nil {
		w.note("b%d exits with %d: %s", m.n, fx.Exit.Code, fx.Exit.Reason)
		m.exit = fx.Exit
		m.leave()
	}
}

// disk performs an operation in its lane after a latency.
func (m *machine) disk(op storage.Op) {
	w, life := m.w, m.life
	if m.marked && op.Lane != storage.LaneRead && op.Kind != storage.OpSuspect {
		w.fail("b%d: %s at %d after the clean-stop mark", m.n, opName(op.Kind), op.Off)
	}
	m.marked = m.marked || op.Kind == storage.OpCleanStop
	at := w.now
	if op.Lane != storage.LaneRead {
		at = max(at, m.lanes[op.Lane])
	}
	at = at.Add(w.diskTime(op))
	m.lanes[op.Lane] = at
	op.Entries = slices.Clone(op.Entries)
	w.after(at.Sub(w.now), func() {
		if _, dropped := m.store.drop[op.Kind]; dropped || m.life != life {
			return
		}
		r := m.store.do(op)
		m.fact(life, func(now node.Now) { m.b.DiskDone(now, r) })
	})
}

func (m *machine) send(s node.Send) {
	for _, st := range m.w.streams {
		if i := st.side(m, s.To); i >= 0 {
			st.send(i == 1, s.Frame)
			return
		}
	}
}

func (s *stream) side(m *machine, id node.SessionID) int {
	for i := range s.ends {
		if s.ends[i] == m && s.ids[i] == id && s.lives[i] == m.life && !s.dead {
			return i
		}
	}
	return -1
}

// send carries a frame from a side, in order.
func (s *stream) send(second bool, f wire.Frame) {
	w := s.w
	from := 0
	if second {
		from = 1
	}
	to := 1 - from
	if s.dead || s.forgotten || w.cut(s.hosts[from], s.hosts[to]) {
		return
	}
	c := f.Clone()
	at := max(w.now.Add(w.netDelay()+w.slow[s.hosts[0]]+w.slow[s.hosts[1]]), s.last[to])
	s.last[to] = at
	w.after(at.Sub(w.now), func() {
		if s.dead {
			return
		}
		if s.onRecv[to] != nil {
			s.onRecv[to](&c)
			return
		}
		m := s.ends[to]
		m.fact(s.lives[to], func(now node.Now) {
			m.b.Prepare(now, &c, node.Peer{Link: s.link, Addr: s.hosts[from] + ":9"})
			m.b.Receive(now, s.ids[to], &c)
		})
	})
}

// down breaks the stream for both sides.
func (s *stream) down(reason string) {
	if s.dead {
		return
	}
	s.dead = true
	for i := range s.ends {
		if m, life, id := s.ends[i], s.lives[i], s.ids[i]; m != nil {
			s.w.after(s.w.netDelay(), func() {
				m.fact(life, func(now node.Now) { m.b.SessionDown(now, id, reason) })
			})
		}
	}
}

// closeFrom ends the stream from one side; what that side sent still arrives.
func (s *stream) closeFrom(i int) {
	m, life, id := s.ends[1-i], s.lives[1-i], s.ids[1-i]
	at := max(s.w.now.Add(s.w.netDelay()), s.last[1-i])
	s.ends[i] = nil
	s.onRecv[i] = func(*wire.Frame) {}
	s.w.after(at.Sub(s.w.now), func() {
		if s.dead {
			return
		}
		s.dead = true
		if m != nil {
			m.fact(life, func(now node.Now) { m.b.SessionDown(now, id, "closed by peer") })
		}
	})
}

// dial opens a stream to an address.
func (w *world) dial(m *machine, d node.Dial) {
	life := m.life
	w.after(w.netDelay(), func() {
		s := &stream{w: w, link: d.Link, addr: d.Addr}
		s.ends[0], s.ids[0], s.lives[0], s.hosts[0] = m, d.Session, life, m.host
		if !w.accept(s) || m.life != life {
			m.fact(life, func(now node.Now) { m.b.SessionDown(now, d.Session, "refused") })
			return
		}
		w.streams = append(w.streams, s)
		m.fact(life, func(now node.Now) { m.b.SessionUp(now, d.Session, node.Peer{Link: d.Link, Addr: d.Addr}) })
		if t := s.ends[1]; t != nil {
			t.fact(s.lives[1], func(now node.Now) {
				t.b.SessionUp(now, s.ids[1], node.Peer{Link: d.Link, Addr: m.host + ":9", Local: d.Addr})
			})
		}
	})
}

// accept attaches the far end of a dialled stream.
func (w *world) accept(s *stream) bool {
	w.lastID++
	s.ids[1] = w.lastID
	switch {
	case s.addr == w.ctl.addr:
		s.hosts[1] = "c1"
		s.onRecv[1] = func(f *wire.Frame) {
			if w.ctl.up {
				w.ctl.receive(s, f)
			}
		}
		return w.ctl.up && !w.cut(s.hosts[0], "c1") && !w.cut("c1", s.hosts[0])
	case s.addr == w.ns.addr:
		s.hosts[1] = "n1"
		s.onRecv[1] = func(f *wire.Frame) { w.ns.receive(s, f) }
		return true
	}
	for _, m := range w.nodes {
		if (s.addr == m.o.Address && s.link == wire.Remoting || s.addr == m.o.HAAddress && s.link == wire.Replication) && m.b != nil {
			s.ends[1], s.lives[1], s.hosts[1] = m, m.life, m.host
			return !w.cut(s.hosts[0], m.host) && !w.cut(m.host, s.hosts[0])
		}
	}
	return false
}

// notice delivers a one-way request to a broker, as the controller does.
func (w *world) notice(addr string, f wire.Frame) {
	for _, m := range w.nodes {
		if m.o.Address != addr || m.b == nil || w.cut("c1", m.host) {
			continue
		}
		life := m.life
		f.Head.Flag |= wire.FlagOneway
		w.lastID++
		id := w.lastID
		w.after(w.netDelay(), func() {
			m.fact(life, func(now node.Now) {
				m.b.SessionUp(now, id, node.Peer{Link: wire.Remoting, Addr: "c1:9"})
				m.b.Receive(now, id, &f)
			})
		})
	}
}

func (n *nameServer) receive(s *stream, f *wire.Frame) {
	switch f.Head.Code {
	case wire.ReqRegisterBroker:
		var h wire.RegisterBrokerRequest
		must(f.Header(&h))
		var body wire.RegisterBrokerBody
		must(wire.UnmarshalBody(f.Body, &body))
		n.masters[h.BrokerAddr] = h.BrokerID
		n.epochs = append(n.epochs, h.MasterEpoch)
		n.registers++
		s.send(true, wire.NewResponse(&f.Head, 0, wire.RegisterBrokerResponse{}, nil))
	case wire.ReqUnregisterBroker:
		n.left++
	}
}

// client is one producer's connection to one broker.
type client struct {
	s     *stream
	m     *machine
	seq   int32
	wait  map[int32]string
	after func(body string, code int32)
}

func (w *world) client(m *machine) *client {
	c := &client{m: m, wait: map[int32]string{}}
	w.lastID++
	s := &stream{w: w, link: wire.Remoting}
	s.hosts = [2]string{"p1", m.host}
	s.ends[1], s.lives[1], s.ids[1] = m, m.life, w.lastID
	s.onRecv[0] = func(f *wire.Frame) { c.answer(f) }
	w.streams = append(w.streams, s)
	c.s = s
	m.fact(m.life, func(now node.Now) {
		m.b.SessionUp(now, s.ids[1], node.Peer{Link: wire.Remoting, Addr: "p1:1"})
	})
	return c
}

// send sends one message; its body is its key.
func (c *client) send(body string) {
	c.seq++
	c.wait[c.seq] = body
	f := wire.NewRequest(wire.ReqSendMessageV2, c.seq, &wire.SendMessageRequest{ProducerGroup: "p", Topic: "T", DefaultTopic: "TBW102", DefaultTopicQueueNums: 4,
		QueueID: c.seq % 4, BornTimestamp: 1}, []byte(body))
	c.s.send(false, f)
}

func (c *client) answer(f *wire.Frame) {
	body := c.wait[f.Head.Opaque]
	a := answered{code: f.Head.Code, remark: f.Head.Remark, log: -1}
	if f.SendOK != nil {
		a.log = ha.LogOffset(f.SendOK.Stored.Offset)
	}
	c.m.answers[body] = a
	if f.Head.Code == 0 {
		c.s.w.promise(c.m, body, a.log)
	}
	if c.after != nil {
		c.after(body, f.Head.Code)
	}
}

// promise judges an acknowledgement at the moment it arrives, against the true
// disks: under all-ack with a floor, every member of the committed set must have
// it on its platter (in its cache, for class received).
func (w *world) promise(m *machine, body string, off ha.LogOffset) {
	p := promise{off, body}
	if m.b != nil && !m.holds(p, false) {
		w.fail("b%d acknowledged %q at %d, which is not in its log", m.n, body, off)
	}
	w.promised = append(w.promised, p)
	if m.o.policy().Kind != AllInSyncSet || m.o.AckClass != ha.ClassDurable || w.now.Sub(w.lastElection) < time.Second {
		return // what was emitted before an election may arrive after it
	}
	copies := 0
	for _, x := range w.nodes {
		if x.holds(p, m.o.AckClass == ha.ClassDurable) {
			copies++
		}
	}
	if copies < w.ctl.min {
		w.fail("%q was acknowledged with %d copies, the floor is %d", body, copies, w.ctl.min)
	}
}

// holds reports whether a store has the message, in the layer of its class.
func (m *machine) holds(p promise, durable bool) bool {
	b := m.store.cache
	if durable {
		b = m.store.platter
	}
	i := int(p.log - m.store.base)
	if i < 0 {
		return true // expired
	}
	if i >= len(b) {
		return false
	}
	f := storage.Next(b[i:], p.log, storage.Check{})
	return f.Kind == storage.FoundRecord && string(f.Record.Body) == p.body
}

// judge checks the promises that must hold at every instant: a serving master of
// the newest epoch has every acknowledged message and every byte ever shown.
func (w *world) judge(m *machine) {
	b := m.b
	if !b.role.serving() || b.role.epoch < w.ctl.epoch || w.lostOK {
		return
	}
	if b.role.epoch != m.judgedIn || m.judgedLife != m.life {
		m.judged, m.judgedIn, m.judgedLife = 0, b.role.epoch, m.life
		w.checkVisible(m)
	}
	for ; m.judged < len(w.promised); m.judged++ {
		if p := w.promised[m.judged]; !m.holds(p, false) {
			w.fail("acknowledged %q at %d is not in the log of master b%d of epoch %d", p.body, p.log, m.n, b.role.epoch)
		}
	}
	if b.confirm > w.shown {
		n := int(b.confirm - m.store.base)
		if from := len(w.shownBy); m.store.base == 0 && n <= len(m.store.cache) && from <= n {
			w.shownBy = append(w.shownBy, m.store.cache[from:n]...)
		}
		w.shown = b.confirm
	}
}

// checkVisible compares everything consumers were ever shown with a log.
func (w *world) checkVisible(m *machine) {
	w.t.Helper()
	n := min(len(w.shownBy), len(m.store.cache))
	if m.store.base == 0 && (len(m.store.cache) < len(w.shownBy) || !bytes.Equal(m.store.cache[:n], w.shownBy[:n])) {
		w.fail("b%d lacks bytes that consumers were shown: %d of %d", m.n, len(m.store.cache), len(w.shownBy))
	}
}

// converged reports that all running brokers have the same log, confirmed.
func (w *world) converged() bool {
	m := w.master()
	if m == nil || m.b.confirm != m.b.log.end {
		return false
	}
	for _, x := range w.nodes {
		if x.b == nil || x.b.log.end != m.b.log.end || x.b.confirm != m.b.confirm || x.b.log.durable != x.b.log.end {
			return false
		}
	}
	return true
}

// checkEqual compares logs, queues and epochs of all brokers.
func (w *world) checkEqual() {
	w.t.Helper()
	m := w.master()
	for _, x := range w.nodes {
		from := max(m.store.base, x.store.base)
		if !bytes.Equal(m.store.cache[from-m.store.base:], x.store.cache[from-x.store.base:]) {
			w.fail("logs of b%d and b%d differ", m.n, x.n)
		}
		if !slices.EqualFunc(m.b.epochs, x.b.epochs, ha.EpochStart.Same) && m.store.base == x.store.base {
			w.fail("epochs of b%d %v and b%d %v differ", m.n, m.b.epochs, x.n, x.b.epochs)
		}
		for _, q := range m.b.queues.all {
			o := x.b.queueOf(q.topic, q.id)
			if o == nil || o.next != q.next || o.seen != q.seen {
				w.fail("queue %s/%d differs between b%d and b%d: %+v", q.topic, q.id, m.n, x.n, o)
			}
		}
	}
}

// happened counts events of a kind on a node.
func (m *machine) happened(k event.Kind) int {
	n := 0
	for _, e := range m.events {
		if e.Kind == k {
			n++
		}
	}
	return n
}

// load keeps a producer sending until stopped: each answer sends the next.
func (w *world) load(m *machine, prefix string, inFlight int) (stop func(), c *client) {
	c = w.client(m)
	running, n := true, 0
	next := func() {
		if running && m.b != nil {
			n++
			c.send(fmt.Sprintf("%s-%06d", prefix, n))
		}
	}
	c.after = func(_ string, code int32) {
		if code == 0 {
			next()
			return
		}
		w.after(20*time.Millisecond, next)
	}
	for range inFlight {
		next()
	}
	return func() { running = false }, c
}

var _ = testing.Short
