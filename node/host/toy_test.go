package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"lockstep/internal/event"
	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
)

// toy is a machine whose behaviour is a few functions. Its fields belong to the
// loop; tests look at them through Node.Call.
type toy struct {
	listen  []node.Listener
	receive func(m *toy, s node.SessionID, f *wire.Frame)
	up      func(m *toy, s node.SessionID, p node.Peer)
	down    func(m *toy, s node.SessionID, reason string)
	settle  func(m *toy, now node.Now)
	done    func(m *toy, r storage.Result)
	prepare func(f *wire.Frame)
	stop    func(m *toy)

	fx       node.Effects // gathered since the last Settle
	deadline node.Time
	conds    []node.Condition

	ups, downs []string // peer addresses and reasons, in order
	sessions   []node.SessionID
	received   int
	settles    int
	stops      int
	largest    int // most frames between two settles
	batch      int
}

func newToy(listen ...node.Listener) *toy {
	return &toy{listen: listen, deadline: node.Never}
}

// echo answers each request with its own body.
func echo(m *toy, s node.SessionID, f *wire.Frame) {
	switch f.Link {
	case wire.Remoting:
		m.fx.Send(s, wire.NewResponse(&f.Head, 0, nil, f.Body))
	default:
		m.fx.Send(s, *f)
	}
}

func (m *toy) SessionUp(_ node.Now, s node.SessionID, p node.Peer) {
	m.ups = append(m.ups, p.Addr)
	m.sessions = append(m.sessions, s)
	if m.up != nil {
		m.up(m, s, p)
	}
}

func (m *toy) Receive(_ node.Now, s node.SessionID, f *wire.Frame) {
	m.received++
	m.batch++
	if m.receive != nil {
		m.receive(m, s, f)
	}
}

func (m *toy) SessionDown(_ node.Now, s node.SessionID, reason string) {
	m.downs = append(m.downs, reason)
	if m.down != nil {
		m.down(m, s, reason)
	}
}

func (m *toy) DiskDone(_ node.Now, r storage.Result) {
	if m.done != nil {
		m.done(m, r)
	}
}

func (m *toy) Stop(node.Now) {
	m.stops++
	if m.stop != nil {
		m.stop(m)
		return
	}
	m.fx.Exit = &node.Exit{Code: node.ExitClean, Reason: "stopped"}
}

func (m *toy) Settle(now node.Now, fx *node.Effects) {
	m.settles++
	m.largest, m.batch = max(m.largest, m.batch), 0
	if m.settle != nil {
		m.settle(m, now)
	}
	fx.Sends = append(fx.Sends, m.fx.Sends...)
	fx.Disk = append(fx.Disk, m.fx.Disk...)
	fx.Dials = append(fx.Dials, m.fx.Dials...)
	fx.Closes = append(fx.Closes, m.fx.Closes...)
	fx.Events = append(fx.Events, m.fx.Events...)
	fx.Exit = m.fx.Exit
	m.fx = node.Effects{}
}

func (m *toy) Deadline() node.Time            { return m.deadline }
func (m *toy) Listeners() []node.Listener     { return m.listen }
func (m *toy) CheckInvariants()               {}
func (m *toy) Conditions() []node.Condition   { return m.conds }
func (m *toy) Gauges(r func(string, float64)) { r("toy_received", float64(m.received)) }

// preparing is a toy with work for the session's goroutine.
type preparing struct{ *toy }

func (p preparing) Prepare(_ node.Now, f *wire.Frame, _ node.Peer) { p.prepare(f) }

func remoting() node.Listener { return node.Listener{Link: wire.Remoting, Addr: "127.0.0.1:0"} }

func replication() node.Listener { return node.Listener{Link: wire.Replication, Addr: "127.0.0.1:0"} }

func raft() node.Listener { return node.Listener{Link: wire.Raft, Addr: "127.0.0.1:0"} }

// start runs a node for the test and checks at its end that nothing of it is left.
func start(t testing.TB, o Options) *Node {
	t.Helper()
	before := runtime.NumGoroutine()
	if o.Name == "" {
		o.Name = "toy"
	}
	n, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.Kill()
		n.Wait()
		eventually(t, "goroutines end", func() bool { return runtime.NumGoroutine() <= before })
	})
	return n
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	limit := time.After(20 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			t.Errorf("%s: not within 20 s", what)
			return
		}
	}
}

// look runs f on the loop.
func look(t testing.TB, n *Node, f func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := n.Call(ctx, func(node.Now, node.Machine) { f() }); err != nil {
		t.Fatal(err)
	}
}

// when waits for a condition on the loop.
func when(t testing.TB, n *Node, what string, ok func() bool) {
	t.Helper()
	eventually(t, what, func() bool {
		var is bool
		look(t, n, func() { is = ok() })
		return is
	})
}

// peer is a plain TCP client.
type peer struct {
	t   testing.TB
	c   net.Conn
	dec wire.Decoder
	buf []byte
}

func connect(t testing.TB, addr string, link wire.Link) *peer {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return &peer{t: t, c: c, dec: wire.Decoder{Link: link}}
}

func request(opaque int, body string) wire.Frame {
	return wire.NewRequest(105, int32(opaque), nil, []byte(body))
}

func encode(t testing.TB, frames ...wire.Frame) []byte {
	t.Helper()
	var out []byte
	for i := range frames {
		var err error
		if out, err = wire.AppendFrame(out, &frames[i], wire.JSON); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func (p *peer) send(frames ...wire.Frame) {
	p.t.Helper()
	p.write(encode(p.t, frames...))
}

func (p *peer) write(b []byte) {
	p.t.Helper()
	if _, err := p.c.Write(b); err != nil {
		p.t.Fatal(err)
	}
}

// next is the next frame, or the error that ended the stream.
func (p *peer) next() (wire.Frame, error) {
	p.t.Helper()
	for {
		f, k, err := p.dec.DecodeCopy(p.buf)
		if err != nil {
			p.t.Fatal(err)
		}
		if k > 0 {
			p.buf = p.buf[k:]
			return f, nil
		}
		b := make([]byte, 64<<10)
		k, err = p.c.Read(b)
		p.buf = append(p.buf, b[:k]...)
		if err != nil && k == 0 {
			return wire.Frame{}, err
		}
	}
}

// expect wants the answer to one request.
func (p *peer) expect(opaque int, body string) {
	p.t.Helper()
	f, err := p.next()
	if err != nil || f.Head.Opaque != int32(opaque) || string(f.Body) != body {
		p.t.Fatalf("got answer %d %.40q, error %v; want %d %.40q", f.Head.Opaque, f.Body, err, opaque, body)
	}
}

// ends wants the end of the stream; reset says by which kind.
func (p *peer) ends(reset bool) {
	p.t.Helper()
	f, err := p.next()
	if err == nil {
		p.t.Fatalf("got frame %d, want the end", f.Head.Opaque)
	}
	if errors.Is(err, io.EOF) == reset {
		p.t.Fatalf("the stream ended with %v, reset wanted: %v", err, reset)
	}
}

// recorder keeps events; Observe runs on the loop.
type recorder struct{ events []event.Event }

func (r *recorder) observe(e event.Event) { r.events = append(r.events, e) }

func (r *recorder) count(k event.Kind, text string) int {
	c := 0
	for i := range r.events {
		if r.events[i].Kind == k && strings.Contains(r.events[i].Text, text) {
			c++
		}
	}
	return c
}

func body(i int) string { return fmt.Sprintf("body %d", i) }
