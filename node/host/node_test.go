package host

import (
	"context"
	"errors"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/internal/event"
	"lockstep/node"
	"lockstep/node/host/grpclink"
	"lockstep/node/wire"
	"lockstep/storage"
)

func dialRaft(t *testing.T, addr string) net.Conn {
	t.Helper()
	l := grpclink.New(func(ctx context.Context, a string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", a)
	})
	t.Cleanup(func() { l.Close() })
	c, err := l.Dial(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTwoNodesOnOnePort(t *testing.T) {
	for _, l := range []node.Listener{remoting(), raft()} {
		first := start(t, Options{Machine: newToy(l)})
		before := runtime.NumGoroutine()
		taken := node.Listener{Link: l.Link, Addr: first.Addrs()[0]}
		_, err := Start(Options{Machine: newToy(raft(), taken)})
		want := []string{"listen for " + l.Link.String() + " on " + taken.Addr, "address already in use", "another process uses the port"}
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("error %v, want %q in it", err, w)
			}
		}
		eventually(t, "nothing is left of the refused node", func() bool { return runtime.NumGoroutine() <= before })
	}
}

func TestNoMachine(t *testing.T) {
	if _, err := Start(Options{}); err == nil {
		t.Error("a node without a machine started")
	}
}

func TestDialling(t *testing.T) {
	server := newToy(remoting())
	server.receive = echo
	far := start(t, Options{Machine: server})
	var answers []string
	m := newToy()
	m.up = func(m *toy, s node.SessionID, p node.Peer) {
		if p.Local != "" {
			t.Errorf("a dialled session has the listener %q", p.Local)
		}
		m.fx.Send(s, request(1, "hello"))
	}
	m.receive = func(m *toy, s node.SessionID, f *wire.Frame) { answers = append(answers, string(f.Body)) }
	n := start(t, Options{Machine: m})
	addr := far.Addrs()[0]
	look(t, n, func() { m.fx.Dials = append(m.fx.Dials, node.Dial{Session: node.Dialled | 1, Addr: addr}) })
	when(t, n, "the answer", func() bool { return len(answers) == 1 && answers[0] == "hello" })
	look(t, n, func() {
		if len(m.ups) != 1 || m.ups[0] != addr || m.sessions[0] != node.Dialled|1 {
			t.Errorf("up: %v %v", m.ups, m.sessions)
		}
	})
	far.Kill()
	when(t, n, "the end", func() bool { return len(m.downs) == 1 })
}

func TestDialFailures(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := free.Addr().String()
	free.Close()
	m := newToy()
	n := start(t, Options{Machine: m, Dial: func(ctx context.Context, _ wire.Link, addr string) (net.Conn, error) {
		if addr == "nowhere:1" { // a host that does not answer at all
			<-ctx.Done()
			return nil, ctx.Err()
		}
		var d net.Dialer
		return d.DialContext(ctx, "tcp", addr)
	}})
	for i, d := range []node.Dial{{Addr: closed}, {Addr: closed, Link: wire.Replication}, {Addr: closed, Link: wire.Raft}, {Addr: "no port"}} {
		d.Session = node.Dialled | node.SessionID(i+1)
		look(t, n, func() { m.downs = nil; m.fx.Dials = append(m.fx.Dials, d) })
		when(t, n, "the dial fails", func() bool { return len(m.downs) == 1 })
		look(t, n, func() {
			if !strings.HasPrefix(m.downs[0], "dial "+d.Addr+": ") || len(m.ups) != 0 {
				t.Errorf("reason %q, up %v", m.downs[0], m.ups)
			}
		})
	}
	hanging := node.Dial{Session: node.Dialled | 99, Addr: "nowhere:1"}
	look(t, n, func() { m.downs = nil; m.fx.Dials = append(m.fx.Dials, hanging) })
	look(t, n, func() { m.fx.Closes = append(m.fx.Closes, hanging.Session) })
	when(t, n, "the dial is given up", func() bool { return len(m.downs) == 1 && n.Stats().Sessions == 0 })
	look(t, n, func() {
		if m.downs[0] != "closed" || len(m.ups) != 0 {
			t.Errorf("ends %q, ups %v", m.downs, m.ups)
		}
	})
	look(t, n, func() { // the node ends in the middle of it
		m.fx.Dials = append(m.fx.Dials, node.Dial{Session: node.Dialled | 100, Addr: "nowhere:1"})
	})
}

func TestStopAnswersEverything(t *testing.T) {
	m := newToy(remoting())
	m.receive = echo
	m.stop = func(m *toy) { // a last word, then the end
		m.fx.Send(m.sessions[0], request(1000, "bye"))
		m.fx.Exit = &node.Exit{Code: node.ExitSuspect, Reason: "because"}
	}
	n := start(t, Options{Machine: m})
	p := connect(t, n.Addrs()[0], wire.Remoting)
	for i := range 100 {
		p.send(request(i, body(i)))
	}
	when(t, n, "all are received", func() bool { return m.received == 100 })
	n.Stop()
	for i := range 100 {
		p.expect(i, body(i))
	}
	p.expect(1000, "bye")
	p.ends(false)
	p.c.Close()
	if e := n.Wait(); e.Code != node.ExitSuspect || e.Reason != "because" {
		t.Errorf("exit %+v", e)
	}
	if err := n.Call(t.Context(), func(node.Now, node.Machine) {}); !errors.Is(err, ErrEnded) {
		t.Errorf("call after the end: %v", err)
	}
	if _, err := net.Dial("tcp", n.Addrs()[0]); err == nil {
		t.Error("the port is still served")
	}
}

func TestKillResets(t *testing.T) {
	m := newToy(remoting(), replication(), raft())
	m.receive = echo
	n := start(t, Options{Machine: m})
	p := connect(t, n.Addrs()[0], wire.Remoting)
	p.send(request(1, "x"))
	p.expect(1, "x")
	stream := dialRaft(t, n.Addrs()[2])
	when(t, n, "the stream is up", func() bool { return len(m.ups) == 2 })
	n.Kill()
	if e := n.Wait(); e.Reason != "killed" || e.Code != node.ExitFailed {
		t.Errorf("exit %+v", e)
	}
	p.ends(true)
	if _, err := stream.Read(make([]byte, 1)); err == nil {
		t.Error("the stream goes on")
	}
	if m.stops != 0 || len(m.downs) != 0 {
		t.Error("a killed machine was told of its end")
	}
}

func TestPauseHoldsEverything(t *testing.T) {
	m := newToy(remoting())
	m.receive = echo
	disk := &fakeDisk{}
	var lastSettle node.Time
	m.settle = func(m *toy, now node.Now) {
		lastSettle = now.Mono
		m.deadline = node.Never
	}
	n := start(t, Options{Machine: m, Disk: disk})
	p := connect(t, n.Addrs()[0], wire.Remoting)
	p.send(request(1, "x"))
	p.expect(1, "x")
	n.Pause()
	before := n.Stats().Batches
	due := n.o.Clock().Mono.Add(20 * time.Millisecond)
	p.send(request(2, "y"))
	eventually(t, "time passes", func() bool { return n.o.Clock().Mono > due && waiting(n) == 1 })
	if b := n.Stats().Batches; b != before {
		t.Errorf("%d batches while paused", b-before)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := n.Call(ctx, func(node.Now, node.Machine) {}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("call while paused: %v", err)
	}
	n.Resume()
	p.expect(2, "y")
	look(t, n, func() {
		if lastSettle <= due {
			t.Error("the clock stood still during the pause")
		}
	})
	n.Pause()
	n.Kill()
	n.Wait()
}

// TestAnswersOfALongBatch: what may be said only before an instant is not said when
// the batch lasts longer: the session is closed, and what others are told is sent.
func TestAnswersOfALongBatch(t *testing.T) {
	var skip atomic.Int64 // what the clock is ahead of the real one
	clock := func() node.Now {
		now := BootClock()()
		now.Mono = now.Mono.Add(time.Duration(skip.Load()))
		return now
	}
	m := newToy(remoting())
	var end node.Time
	m.receive = func(m *toy, s node.SessionID, f *wire.Frame) {
		m.fx.SendBefore(s, wire.NewResponse(&f.Head, 0, nil, f.Body), end)
	}
	stall := time.Duration(0)
	m.settle = func(m *toy, now node.Now) {
		if len(m.fx.Sends) > 0 {
			skip.Add(int64(stall)) // the process stood still in the middle of the batch
		}
	}
	n := start(t, Options{Machine: m, Clock: clock})
	p, q := connect(t, n.Addrs()[0], wire.Remoting), connect(t, n.Addrs()[0], wire.Remoting)
	look(t, n, func() { end, stall = clock().Mono.Add(time.Hour), 30*time.Minute })
	p.send(request(1, "x"))
	p.expect(1, "x")
	p.send(request(2, "x"))
	p.ends(false)
	look(t, n, func() { end, stall = 0, time.Hour })
	q.send(request(3, "x"))
	q.expect(3, "x")
	if got := n.Stats().Withheld; got != 1 {
		t.Errorf("%d answers withheld", got)
	}
	look(t, n, func() {
		if len(m.downs) != 1 {
			t.Errorf("the machine heard of %d ends", len(m.downs))
		}
	})
}

func TestDeadlineWakesTheLoop(t *testing.T) {
	m := newToy()
	var at []node.Time
	var want node.Time
	m.settle = func(m *toy, now node.Now) {
		if m.deadline != node.Never && now.Mono < m.deadline {
			return
		}
		at = append(at, now.Mono)
		m.deadline = node.Never
		if len(at) < 4 {
			m.deadline = now.Mono.Add(5 * time.Millisecond)
			want = m.deadline
		}
	}
	n := start(t, Options{Machine: m})
	when(t, n, "three wake-ups", func() bool { return len(at) >= 4 })
	look(t, n, func() {
		if at[3] < want {
			t.Errorf("woken at %d, before the deadline %d", at[3], want)
		}
	})
	settles := 0
	look(t, n, func() { settles = m.settles })
	look(t, n, func() {
		if m.settles != settles+1 { // that of the call before
			t.Errorf("%d settles with nothing to do", m.settles-settles-1)
		}
	})
}

// fakeDisk records operations and holds those that wait for a partner.
type fakeDisk struct {
	mu    sync.Mutex
	order [storage.NumLanes][]uint64
	meet  chan struct{}
	panic bool
}

func (d *fakeDisk) Do(op storage.Op) storage.Result {
	d.mu.Lock()
	d.order[op.Lane] = append(d.order[op.Lane], op.ID)
	d.mu.Unlock()
	if d.panic {
		panic("disk on fire")
	}
	if op.Lane == storage.LaneRead && d.meet != nil { // returns only beside another read
		select {
		case d.meet <- struct{}{}:
		case <-d.meet:
		}
	}
	return storage.Result{Op: op, Offset: int64(op.ID) * 2}
}

func TestLanesKeepOrder(t *testing.T) {
	m := newToy()
	var done [storage.NumLanes][]uint64
	total := 0
	m.done = func(m *toy, r storage.Result) {
		if r.Offset != int64(r.Op.ID)*2 {
			t.Errorf("result of %d: %d", r.Op.ID, r.Offset)
		}
		done[r.Op.Lane] = append(done[r.Op.Lane], r.Op.ID)
		total++
	}
	disk := &fakeDisk{meet: make(chan struct{})}
	n := start(t, Options{Machine: m, Disk: disk})
	const ops = 600
	for part := range 3 {
		look(t, n, func() {
			for i := part * ops / 3; i < (part+1)*ops/3; i++ {
				m.fx.Disk = append(m.fx.Disk, storage.Op{ID: uint64(i), Lane: storage.Lane(i % storage.NumLanes)})
			}
		})
	}
	when(t, n, "all are done", func() bool { return total == ops })
	look(t, n, func() {
		for lane := range storage.NumLanes {
			for i, id := range disk.order[lane] {
				want := uint64(lane + i*storage.NumLanes)
				if lane != int(storage.LaneRead) && (id != want || done[lane][i] != want) {
					t.Fatalf("lane %d, place %d: did %d, reported %d, want %d", lane, i, id, done[lane][i], want)
				}
			}
		}
	})
}

func TestPanicEndsTheNodeOnly(t *testing.T) {
	boom := func(*wire.Frame) { panic("in Prepare") }
	for _, c := range []struct {
		name, want string
		machine    func(m *toy) node.Machine
	}{
		{"machine", "panic in the machine: in Receive", func(m *toy) node.Machine {
			m.receive = func(*toy, node.SessionID, *wire.Frame) { panic("in Receive") }
			return m
		}},
		{"prepare", "panic in a session: in Prepare", func(m *toy) node.Machine {
			m.prepare = boom
			return preparing{m}
		}},
		{"disk", "panic in a disk operation: disk on fire", func(m *toy) node.Machine {
			m.receive = func(m *toy, _ node.SessionID, _ *wire.Frame) { m.fx.Disk = append(m.fx.Disk, storage.Op{}) }
			return m
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := start(t, Options{Machine: c.machine(newToy(remoting())), Disk: &fakeDisk{panic: true}})
			p := connect(t, n.Addrs()[0], wire.Remoting)
			p.send(request(1, ""))
			if e := n.Wait(); e.Code != node.ExitFailed || e.Reason != c.want {
				t.Errorf("exit %+v", e)
			}
			if n.Stats().Panics != 1 {
				t.Error("not counted")
			}
		})
	}
}

func TestPrepareRunsBeforeReceive(t *testing.T) {
	m := newToy(remoting())
	m.prepare = func(f *wire.Frame) { f.Prepared = string(f.Body) + "!" }
	m.receive = func(m *toy, s node.SessionID, f *wire.Frame) {
		m.fx.Send(s, wire.NewResponse(&f.Head, 0, nil, []byte(f.Prepared.(string))))
	}
	n := start(t, Options{Machine: preparing{m}})
	p := connect(t, n.Addrs()[0], wire.Remoting)
	p.send(request(1, "ready"))
	p.expect(1, "ready!")
}

// ticker is an App that acts at its deadline until it had enough.
type ticker struct {
	turns, acted int
	next         node.Time
}

func (a *ticker) Turn(now node.Now, m node.Machine) bool {
	a.turns++
	if now.Mono < a.next || a.acted == 5 {
		return false
	}
	a.acted++
	a.next = now.Mono.Add(2 * time.Millisecond)
	if a.acted == 5 {
		a.next = node.Never
	}
	m.(*toy).fx.Emit(event.Event{Kind: event.Mark, Text: "acted"})
	return true
}

func (a *ticker) Deadline() node.Time { return a.next }

func TestApp(t *testing.T) {
	m := newToy()
	app := &ticker{}
	var rec recorder
	n := start(t, Options{Machine: m, App: app, Observe: rec.observe})
	when(t, n, "five acts", func() bool { return app.acted == 5 })
	look(t, n, func() {
		if rec.count(event.Mark, "acted") != 5 { // each was settled without another fact
			t.Errorf("%d effects of the app's work", len(rec.events))
		}
	})
}

// One stream is lost and dialled again, through the same and through a new
// connection; the other streams to the address go on.
func TestRaftStreams(t *testing.T) {
	far := newToy(raft())
	far.receive = echo
	b := start(t, Options{Machine: far, Name: "b"})
	addr := b.Addrs()[0]
	m := newToy(raft())
	answers := map[node.SessionID]int{}
	m.up = func(m *toy, s node.SessionID, p node.Peer) {
		m.fx.Send(s, wire.Frame{Link: wire.Raft, Body: []byte("vote")})
	}
	m.receive = func(m *toy, s node.SessionID, f *wire.Frame) {
		if string(f.Body) == "vote" {
			answers[s]++
		}
	}
	next := node.Dialled
	redial := true
	dial := func(m *toy) {
		next++
		m.fx.Dials = append(m.fx.Dials, node.Dial{Session: next, Link: wire.Raft, Addr: addr})
	}
	m.down = func(m *toy, _ node.SessionID, _ string) {
		if redial {
			dial(m)
		}
	}
	a := start(t, Options{Machine: m, Name: "a"})
	look(t, a, func() { dial(m); dial(m) })
	when(t, a, "two streams answer", func() bool { return len(answers) == 2 })
	look(t, b, func() { far.fx.Closes = append(far.fx.Closes, far.sessions[0]) })
	when(t, a, "the lost one is back", func() bool { return len(answers) == 3 })
	look(t, a, func() { // the lost session drops its copy, the other two answer
		for _, id := range m.sessions {
			m.fx.Send(id, wire.Frame{Link: wire.Raft, Body: []byte("vote")})
		}
	})
	when(t, a, "both open ones answer", func() bool {
		sum := 0
		for _, k := range answers {
			sum += k
		}
		return sum == 5
	})
	b.Kill()
	b.Wait()
	when(t, a, "both are lost", func() bool { return len(m.downs) >= 3 })
	far2 := newToy(node.Listener{Link: wire.Raft, Addr: addr})
	far2.receive = echo
	start(t, Options{Machine: far2, Name: "b again"})
	when(t, a, "both are back", func() bool { return len(answers) == 5 })
	look(t, a, func() { redial = false })
}

func TestBigRaftFrame(t *testing.T) {
	far := newToy(raft())
	far.receive = echo
	b := start(t, Options{Machine: far})
	m := newToy()
	got := 0
	snapshot := make([]byte, 4<<20)
	m.up = func(m *toy, s node.SessionID, _ node.Peer) {
		m.fx.Send(s, wire.Frame{Link: wire.Raft, Body: snapshot})
	}
	m.receive = func(m *toy, s node.SessionID, f *wire.Frame) {
		got = len(f.Body)
		m.fx.Closes = append(m.fx.Closes, s)
	}
	a := start(t, Options{Machine: m})
	look(t, a, func() {
		m.fx.Dials = append(m.fx.Dials, node.Dial{Session: node.Dialled | 1, Link: wire.Raft, Addr: b.Addrs()[0]})
	})
	when(t, a, "the snapshot is back", func() bool { return got == len(snapshot) })
	when(t, b, "the far end sees the close", func() bool { return len(far.downs) == 1 && far.downs[0] == "closed by peer" })
}

// Plain bytes on the gRPC port reach no machine.
func TestNoiseOnTheRaftPort(t *testing.T) {
	m := newToy(raft())
	n := start(t, Options{Machine: m})
	p := connect(t, n.Addrs()[0], wire.Remoting)
	p.write(encode(t, request(1, "a client that took the wrong port")))
	b := make([]byte, 1<<10)
	for {
		if _, err := p.c.Read(b); err != nil {
			break
		}
	}
	look(t, n, func() {
		if len(m.ups) != 0 {
			t.Errorf("up: %v", m.ups)
		}
	})
}

func TestBootClockRunsForward(t *testing.T) {
	c := BootClock()
	a := c()
	eventually(t, "the clock moves", func() bool { return c().Mono > a.Mono })
	if wall := time.Now().UnixMilli(); a.Wall > wall+1000 || a.Wall < wall-60_000 {
		t.Errorf("wall clock %d, now %d", a.Wall, wall)
	}
}

func TestEventLevels(t *testing.T) {
	for _, c := range []struct {
		e    event.Event
		want string
	}{
		{event.Event{Kind: event.DiskFailed}, "ERROR"}, {event.Event{Kind: event.FrameRejected}, "WARN"},
		{event.Event{Kind: event.Elected}, "INFO"}, {event.Event{Kind: event.Mark}, "DEBUG"},
		{event.Event{Kind: event.ConfirmFrozen}, "INFO"}, {event.Event{Kind: event.ConfirmFrozen, Count: 1}, "WARN"},
	} {
		if got := levelOf(&c.e).String(); got != c.want {
			t.Errorf("%v is logged as %s, want %s", c.e, got, c.want)
		}
	}
}
