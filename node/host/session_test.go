package host

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/internal/event"
	"lockstep/node"
	"lockstep/node/wire"
)

func TestEchoKeepsOrder(t *testing.T) {
	m := newToy(remoting())
	m.receive = echo
	n := start(t, Options{Machine: m})
	const conns, frames = 4, 300
	var ps []*peer
	for range conns {
		ps = append(ps, connect(t, n.Addrs()[0], wire.Remoting))
	}
	for _, p := range ps {
		var all []wire.Frame
		for i := range frames {
			all = append(all, request(i, body(i)+strings.Repeat("x", i*7)))
		}
		go p.c.Write(encode(t, all...))
	}
	for _, p := range ps {
		for i := range frames {
			p.expect(i, body(i)+strings.Repeat("x", i*7))
		}
	}
	look(t, n, func() {
		if m.received != conns*frames || len(m.ups) != conns {
			t.Errorf("%d frames of %d sessions", m.received, len(m.ups))
		}
	})
}

// A frame that comes byte by byte and one of several MiB are both whole.
func TestFramesOfAllSizes(t *testing.T) {
	m := newToy(remoting())
	m.receive = echo
	n := start(t, Options{Machine: m})
	p := connect(t, n.Addrs()[0], wire.Remoting)
	for _, b := range encode(t, request(1, "slow")) {
		p.write([]byte{b})
	}
	p.expect(1, "slow")
	big := strings.Repeat("0123456789abcdef", 5<<16)
	go p.c.Write(encode(t, request(2, big), request(3, "after"), request(4, big), request(5, "")))
	for i, want := range []string{big, "after", big, ""} {
		p.expect(i+2, want)
	}
}

func TestAnswersOfABatchAreOneWrite(t *testing.T) {
	m := newToy(remoting())
	m.receive = echo
	n := start(t, Options{Machine: m})
	p := connect(t, n.Addrs()[0], wire.Remoting)
	p.send(request(0, ""))
	p.expect(0, "")
	// A write is counted after it was made: the answer may be here before the count.
	eventually(t, "the first write is counted", func() bool { return n.Stats().Writes == 1 })
	n.Pause()
	const frames = 100
	for i := range frames {
		p.send(request(i, body(i)))
	}
	eventually(t, "frames wait", func() bool { return waiting(n) == frames })
	before := n.Stats().Writes
	n.Resume()
	for i := range frames {
		p.expect(i, body(i))
	}
	look(t, n, func() {
		if m.largest != frames {
			t.Errorf("the largest batch has %d frames, want %d", m.largest, frames)
		}
	})
	eventually(t, "the second write is counted", func() bool { return n.Stats().Writes > before })
	if w := n.Stats().Writes - before; w != 1 {
		t.Errorf("%d answers took %d writes, want 1", frames, w)
	}
}

// waiting is the number of frames in the mailbox.
func waiting(n *Node) int {
	n.box.mu.Lock()
	defer n.box.mu.Unlock()
	k := 0
	for i := range n.box.in {
		if n.box.in[i].kind == factReceive {
			k++
		}
	}
	return k
}

func TestCreditHoldsTheReader(t *testing.T) {
	for _, c := range []struct {
		name          string
		credit, bytes int
		most          int
	}{
		{"frames", 4, 1 << 20, 4},
		{"bytes", 100, 40 << 10, 4}, // of 10 KiB and a header each, three and one in hand
		{"one frame always", 100, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newToy(remoting())
			m.receive = echo
			n := start(t, Options{Machine: m, Credit: c.credit, InBytes: c.bytes})
			p := connect(t, n.Addrs()[0], wire.Remoting)
			p.send(request(0, "x"))
			p.expect(0, "x")
			n.Pause()
			const frames = 2000
			text := strings.Repeat("y", 10<<10)
			var all []wire.Frame
			for i := range frames {
				all = append(all, request(i, text))
			}
			sent := make(chan error, 1)
			go func() {
				_, err := p.c.Write(encode(t, all...))
				sent <- err
			}()
			eventually(t, "the reader is starved", func() bool { return starved(n) })
			if k := waiting(n); k == 0 || k > c.most {
				t.Errorf("%d frames wait for the loop, want 1 to %d", k, c.most)
			}
			select {
			case err := <-sent:
				t.Errorf("20 MiB were taken from the peer while the loop stood still (error %v)", err)
			default:
			}
			n.Resume()
			for i := range frames {
				p.expect(i, text)
			}
			look(t, n, func() {
				if m.largest > c.credit {
					t.Errorf("a batch of %d frames, credit %d", m.largest, c.credit)
				}
			})
		})
	}
}

func starved(n *Node) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for s := range n.live {
		if s.Starved() {
			return true
		}
	}
	return false
}

func TestSlowPeerIsClosed(t *testing.T) {
	m := newToy(remoting())
	m.receive = func(m *toy, s node.SessionID, f *wire.Frame) {
		for range 64 {
			m.fx.Send(s, wire.NewResponse(&f.Head, 0, nil, make([]byte, 1<<20)))
		}
	}
	n := start(t, Options{Machine: m, OutBytes: 16 << 20})
	p := connect(t, n.Addrs()[0], wire.Remoting)
	p.send(request(1, ""))
	when(t, n, "the session is closed", func() bool { return len(m.downs) == 1 })
	look(t, n, func() {
		if !strings.Contains(m.downs[0], "reads too slowly") {
			t.Errorf("reason %q", m.downs[0])
		}
	})
	if s := n.Stats(); s.Slow != 1 || s.Sessions != 0 {
		t.Errorf("%d slow, %d open", s.Slow, s.Sessions)
	}
}

// TestSlowPeersTogether: peers of which none is above its own limit are closed, the
// one that most waits for first, when all together are above theirs.
func TestSlowPeersTogether(t *testing.T) {
	m := newToy(remoting())
	m.receive = func(m *toy, s node.SessionID, f *wire.Frame) {
		for range f.Head.Opaque {
			m.fx.Send(s, wire.NewResponse(&f.Head, 0, nil, make([]byte, 1<<20)))
		}
	}
	n := start(t, Options{Machine: m, OutBytes: 64 << 20, OutTotal: 32 << 20})
	var modest []*peer
	for range 2 {
		p := connect(t, n.Addrs()[0], wire.Remoting)
		p.send(request(9, ""))
		modest = append(modest, p)
	}
	when(t, n, "two are answered", func() bool { return m.received == 2 })
	greedy := connect(t, n.Addrs()[0], wire.Remoting)
	greedy.send(request(60, ""))
	when(t, n, "a session is closed", func() bool { return len(m.downs) > 0 })
	for _, p := range modest {
		for range 9 {
			if _, err := p.next(); err != nil {
				t.Fatal(err)
			}
		}
	}
	look(t, n, func() {
		if len(m.downs) != 1 || !strings.Contains(m.downs[0], "more than for any other") {
			t.Errorf("closed for %q", m.downs)
		}
	})
	eventually(t, "nothing waits", func() bool { return n.counters.streams.Waiting.Load() == 0 })
	if s := n.Stats(); s.Slow != 1 || s.Sessions != 2 {
		t.Errorf("%d slow, %d open", s.Slow, s.Sessions)
	}
}

// damaged is what can be wrong with bytes on a link.
func damaged(t *testing.T, link wire.Link) map[string][]byte {
	noise := make([]byte, 4096)
	rand.Read(noise)
	noise[0] = 0x7f // never the first byte of a frame
	var good []byte
	switch link {
	case wire.Remoting:
		good = encode(t, request(1, "x"))
	case wire.Replication:
		good = encode(t, wire.Frame{Link: link, Replica: &wire.Replica{Kind: wire.ReplicaAck, Term: 1, Offset: 8}})
	default:
		good = encode(t, wire.Frame{Link: link, Body: []byte("vote")})
	}
	flipped := bytes.Clone(good)
	flipped[len(flipped)-1] ^= 1
	if link == wire.Remoting {
		flipped[8] = '!' // the header's first byte: bodies carry no checksum unless sealed
	}
	oversize := bytes.Clone(good)
	at := 0
	if link == wire.Replication {
		at = 9 // length of the body
	}
	binary.BigEndian.PutUint32(oversize[at:], wire.MaxFrameBytes+1)
	return map[string][]byte{"noise": noise, "flipped": flipped, "oversize": oversize}
}

func TestBytesThatAreNoFrame(t *testing.T) {
	for i, link := range []wire.Link{wire.Remoting, wire.Replication, wire.Raft} {
		for name, bad := range damaged(t, link) {
			t.Run(link.String()+"/"+name, func(t *testing.T) {
				m := newToy(remoting(), replication(), raft())
				m.receive = echo
				var rec recorder
				n := start(t, Options{Machine: m, Observe: rec.observe})
				other := connect(t, n.Addrs()[0], wire.Remoting)
				c := dialLink(t, n, link, n.Addrs()[i])
				if _, err := c.Write(bad); err != nil {
					t.Fatal(err)
				}
				when(t, n, "the session is closed", func() bool { return len(m.downs) == 1 })
				look(t, n, func() {
					if rec.count(event.FrameRejected, "not a frame") != 1 {
						t.Errorf("events %v", rec.events)
					}
				})
				if k := n.Stats().Rejected; k != 1 {
					t.Errorf("%d rejected", k)
				}
				other.send(request(9, "fine"))
				other.expect(9, "fine")
			})
		}
	}
}

// dialLink opens a stream of a link.
func dialLink(t *testing.T, n *Node, link wire.Link, addr string) net.Conn {
	t.Helper()
	if link == wire.Raft {
		return dialRaft(t, addr)
	}
	return connect(t, addr, link).c
}

func TestTruncatedFrame(t *testing.T) {
	m := newToy(remoting())
	var rec recorder
	n := start(t, Options{Machine: m, Observe: rec.observe})
	whole := encode(t, request(1, "never all there"))
	for _, cut := range []int{1, 4, 7, 20, len(whole) - 1} {
		p := connect(t, n.Addrs()[0], wire.Remoting)
		p.write(whole[:cut])
		p.c.Close()
	}
	when(t, n, "all are closed", func() bool { return len(m.downs) == 5 })
	look(t, n, func() {
		for _, d := range m.downs {
			if !strings.Contains(d, "inside a frame") {
				t.Errorf("reason %q", d)
			}
		}
		if m.received != 0 || rec.count(event.FrameRejected, "") != 0 {
			t.Errorf("%d frames received, events %v: a lost peer is no offence", m.received, rec.events)
		}
	})
}

func TestIdleSessionIsClosed(t *testing.T) {
	m := newToy(remoting())
	m.receive = echo
	n := start(t, Options{Machine: m, Idle: 60 * time.Millisecond})
	silent, busy := connect(t, n.Addrs()[0], wire.Remoting), connect(t, n.Addrs()[0], wire.Remoting)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		silent.ends(false)
	}()
	for i := 0; ; i++ {
		busy.send(request(i, "x"))
		busy.expect(i, "x")
		select {
		case <-ended:
			look(t, n, func() {
				if len(m.downs) != 1 || m.downs[0] != "idle for 60ms" {
					t.Errorf("ended: %v", m.downs)
				}
			})
			return
		default:
		}
	}
}

func TestTooManySessions(t *testing.T) {
	m := newToy(remoting())
	m.receive = echo
	n := start(t, Options{Machine: m, MaxSessions: 2})
	a, b := connect(t, n.Addrs()[0], wire.Remoting), connect(t, n.Addrs()[0], wire.Remoting)
	for i, p := range []*peer{a, b} {
		p.send(request(i, "x"))
		p.expect(i, "x")
	}
	third := connect(t, n.Addrs()[0], wire.Remoting)
	if _, err := third.next(); err == nil {
		t.Error("a third session is served")
	}
	if k := n.Stats().Refused; k != 1 {
		t.Errorf("%d refused", k)
	}
	a.c.Close()
	when(t, n, "one ended", func() bool { return len(m.downs) == 1 })
	fourth := connect(t, n.Addrs()[0], wire.Remoting)
	fourth.send(request(7, "x"))
	fourth.expect(7, "x")
}

// What was sent before a close arrives, also when the peer's own bytes are still
// unread: closing at once would reset the connection.
func TestCloseDeliversWhatWasSent(t *testing.T) {
	m := newToy(remoting())
	m.receive = func(m *toy, s node.SessionID, f *wire.Frame) {
		if m.received == 1 {
			for i := range 20 {
				m.fx.Send(s, wire.NewRequest(7, int32(i), nil, make([]byte, 50<<10)))
			}
			m.fx.Closes = append(m.fx.Closes, s, s)
		}
	}
	n := start(t, Options{Machine: m})
	p := connect(t, n.Addrs()[0], wire.Remoting)
	go func() {
		for i := range 200 {
			p.c.Write(encode(t, request(i, strings.Repeat("z", 1000)))) // fails once the other end is closed
		}
	}()
	for i := range 20 {
		p.expect(i, string(make([]byte, 50<<10)))
	}
	p.ends(false)
	p.c.Close()
	eventually(t, "the session is gone", func() bool { return n.Stats().Sessions == 0 })
	look(t, n, func() {
		if len(m.downs) != 1 || m.downs[0] != "closed" {
			t.Errorf("ends told: %q", m.downs)
		}
	})
}

// A peer that neither reads nor closes does not keep a closed session.
func TestCloseDoesNotWaitForThePeer(t *testing.T) {
	m := newToy(remoting())
	m.receive = func(m *toy, s node.SessionID, f *wire.Frame) {
		m.fx.Send(s, wire.NewRequest(7, 1, nil, make([]byte, 15<<20)))
		m.fx.Closes = append(m.fx.Closes, s)
	}
	n := start(t, Options{Machine: m})
	p := connect(t, n.Addrs()[0], wire.Remoting)
	p.send(request(1, ""))
	when(t, n, "the machine knows", func() bool { return len(m.downs) == 1 })
	eventually(t, "the session is gone", func() bool { return n.Stats().Sessions == 0 })
}

func TestFrameForAGoneSessionIsDropped(t *testing.T) {
	m := newToy(remoting())
	n := start(t, Options{Machine: m})
	look(t, n, func() {
		m.fx.Send(77, request(1, ""))
		m.fx.Closes = append(m.fx.Closes, 77)
	})
	look(t, n, func() {})
}

func TestUnencodableFrameClosesItsSession(t *testing.T) {
	m := newToy(remoting())
	m.receive = func(m *toy, s node.SessionID, f *wire.Frame) {
		m.fx.Send(s, wire.NewResponse(&f.Head, 0, nil, make([]byte, wire.MaxFrameBytes)))
	}
	n := start(t, Options{Machine: m})
	p := connect(t, n.Addrs()[0], wire.Remoting)
	p.send(request(1, ""))
	when(t, n, "the session is closed", func() bool { return len(m.downs) == 1 })
	look(t, n, func() {
		if !strings.Contains(m.downs[0], "cannot be encoded") {
			t.Errorf("reason %q", m.downs[0])
		}
	})
}

// warnings counts the log's lines at WARN and above.
type warnings struct {
	slog.Handler
	n atomic.Int64
}

func (w *warnings) Enabled(context.Context, slog.Level) bool { return true }
func (w *warnings) Handle(_ context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		w.n.Add(1)
	}
	return nil
}

// Idle connections keep no client out: the one that has been silent longest gives
// way, and the log says so once. Who has sent a frame keeps its place.
func TestSilentSessionsGiveWay(t *testing.T) {
	m := newToy(remoting())
	m.receive = echo
	var log warnings
	n := start(t, Options{Machine: m, MaxSessions: 2, Log: slog.New(&log)})
	var silent, busy [2]*peer
	for i := range silent {
		silent[i] = connect(t, n.Addrs()[0], wire.Remoting)
	}
	for i := range busy {
		busy[i] = connect(t, n.Addrs()[0], wire.Remoting)
		busy[i].send(request(i, "x"))
		busy[i].expect(i, "x")
		if _, err := silent[i].next(); err == nil {
			t.Errorf("silent session %d is served", i)
		}
	}
	if _, err := connect(t, n.Addrs()[0], wire.Remoting).next(); err == nil {
		t.Error("a third session is served")
	}
	for i, p := range busy {
		p.send(request(i, "y"))
		p.expect(i, "y")
	}
	if k := n.Stats().Refused; k != 3 || log.n.Load() != 1 {
		t.Errorf("%d refused, %d warnings", k, log.n.Load())
	}
	busy[0].c.Close()
	when(t, n, "the places are free", func() bool { return n.Stats().Sessions == 1 })
	last := connect(t, n.Addrs()[0], wire.Remoting)
	last.send(request(7, "x"))
	last.expect(7, "x")
}

// A frame that trickles in ends its session in time, however lively it looks.
func TestFrameThatTakesForever(t *testing.T) {
	m := newToy(remoting(), replication())
	m.receive = echo
	n := start(t, Options{Machine: m, FrameTime: 60 * time.Millisecond})
	busy, slow := connect(t, n.Addrs()[0], wire.Remoting), connect(t, n.Addrs()[0], wire.Remoting)
	whole := encode(t, request(1, strings.Repeat("x", 1<<20)))
	slow.write(whole[:9])
	for i := 9; ; i++ {
		busy.send(request(i, "x"))
		busy.expect(i, "x")
		slow.c.Write(whole[i : i+1]) // fails once it is closed
		var downs []string
		look(t, n, func() { downs = m.downs })
		if len(downs) > 0 {
			if !strings.HasPrefix(downs[0], "a frame has not ended") {
				t.Errorf("ended: %v", downs)
			}
			return
		}
	}
}
