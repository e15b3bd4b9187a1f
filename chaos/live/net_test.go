package live

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"lockstep/internal/prng"
	"lockstep/node/wire"
	"lockstep/sim"
)

// link of the tests: node 0 "a" dials node 1 "b".
type wires struct {
	t   *testing.T
	net *network
	ln  net.Listener
}

func newWires(t *testing.T) *wires {
	p := newPacer(1)
	n := newNetwork(&p, prng.New(1))
	n.add("a")
	n.add("b")
	n.ready()
	t.Cleanup(n.close)
	w := &wires{t: t, net: n}
	w.listen()
	return w
}

func (w *wires) listen() {
	ln, err := w.net.listen(wire.Remoting, "b:1")
	must(w.t, err)
	w.t.Cleanup(func() { closeQuietly(ln) })
	w.ln = ln
}

func (w *wires) dial(limit time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return w.net.dialler(0)(ctx, wire.Remoting, "b:1")
}

// connect returns both ends of a new connection.
func (w *wires) connect() (a, b *net.TCPConn) {
	w.t.Helper()
	c, err := w.dial(patience)
	must(w.t, err)
	s, err := w.ln.Accept()
	must(w.t, err)
	w.t.Cleanup(func() { closeQuietly(c); closeQuietly(s) })
	return c.(*net.TCPConn), s.(*net.TCPConn)
}

func (w *wires) fault(kind sim.FaultKind, arg int64, on bool) {
	f := &sim.Fault{Kind: kind, Arg: arg, Shape: sim.Away}
	w.net.apply(f, 0, 1, on)
	if kind != sim.Reset && kind != sim.HalfOpen {
		w.net.apply(f, 1, 0, on)
	}
}

// patience is for what must happen, silence for what must not.
const (
	patience = 10 * time.Second
	silence  = 50 * time.Millisecond
)

func (w *wires) send(c net.Conn, text string) {
	w.t.Helper()
	_, err := c.Write([]byte(text))
	must(w.t, err)
}

func (w *wires) expect(c net.Conn, text string) {
	w.t.Helper()
	must(w.t, c.SetReadDeadline(time.Now().Add(patience)))
	b := make([]byte, len(text))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != text {
		w.t.Fatalf("read %q, %v; want %q", b, err, text)
	}
}

// nothing checks that neither bytes nor an end arrive.
func (w *wires) nothing(c net.Conn) {
	w.t.Helper()
	must(w.t, c.SetReadDeadline(time.Now().Add(silence)))
	if n, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		w.t.Fatalf("%d bytes, %v; want nothing", n, err)
	}
}

// ends reads until the connection ends and returns how.
func (w *wires) ends(c net.Conn) error {
	w.t.Helper()
	must(w.t, c.SetReadDeadline(time.Now().Add(patience)))
	_, err := io.Copy(io.Discard, c)
	return err
}

func (w *wires) reset(c net.Conn) {
	w.t.Helper()
	if err := w.ends(c); !errors.Is(err, syscall.ECONNRESET) {
		w.t.Fatalf("ended with %v, want a reset", err)
	}
}

func TestStreamPasses(t *testing.T) {
	w := newWires(t)
	a, b := w.connect()
	w.send(a, "there")
	w.expect(b, "there")
	w.send(b, "back")
	w.expect(a, "back")
	must(t, a.CloseWrite())
	if err := w.ends(b); err != nil {
		t.Fatal(err)
	}
	w.send(b, "still")
	w.expect(a, "still")
}

func TestResetPasses(t *testing.T) {
	w := newWires(t)
	a, b := w.connect()
	must(t, b.SetLinger(0))
	closeQuietly(b)
	w.reset(a)
}

func TestCutHoldsAndDeliversLater(t *testing.T) {
	w := newWires(t)
	a, b := w.connect()
	w.fault(sim.Cut, 0, true)
	w.send(a, "held")
	w.nothing(b)
	if _, err := w.dial(silence); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("dial through a cut: %v", err)
	}
	w.fault(sim.Cut, 0, false)
	w.expect(b, "held")
	w.connect()
}

func TestOneWayCut(t *testing.T) {
	w := newWires(t)
	a, b := w.connect()
	w.net.apply(&sim.Fault{Kind: sim.Cut}, 0, 1, true)
	w.send(a, "lost")
	w.send(b, "heard")
	w.expect(a, "heard")
	w.nothing(b)
}

func TestEndBehindACutComesAfterIt(t *testing.T) {
	w := newWires(t)
	a, b := w.connect()
	w.fault(sim.Cut, 0, true)
	must(t, b.SetLinger(0))
	closeQuietly(b)
	w.nothing(a)
	w.fault(sim.Cut, 0, false)
	w.reset(a)
}

func TestDialThatWaitsForAnEndingCut(t *testing.T) {
	w := newWires(t)
	w.fault(sim.Cut, 0, true)
	got := make(chan error, 1)
	go func() {
		c, err := w.dial(patience)
		if err == nil {
			closeQuietly(c)
		}
		got <- err
	}()
	w.fault(sim.Cut, 0, false)
	must(t, <-got)
}

func TestRefused(t *testing.T) {
	w := newWires(t)
	a, b := w.connect()
	w.fault(sim.Refuse, 0, true)
	if _, err := w.dial(patience); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatal(err)
	}
	w.send(a, "lives on")
	w.expect(b, "lives on")
	w.fault(sim.Refuse, 0, false)
	w.net.unbind(1)
	if _, err := w.dial(patience); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("a host without a process: %v", err)
	}
	if _, err := w.net.dialler(0)(context.Background(), wire.Remoting, "nobody:1"); err == nil {
		t.Fatal("an unknown host answers")
	}
}

func TestReset(t *testing.T) {
	w := newWires(t)
	a, b := w.connect()
	w.fault(sim.Reset, 0, true)
	w.reset(a)
	w.reset(b)
	w.connect()
}

func TestHalfOpenIsForGood(t *testing.T) {
	w := newWires(t)
	a, b := w.connect()
	w.fault(sim.HalfOpen, 0, true)
	w.send(a, "x")
	w.nothing(b)
	closeQuietly(a)
	w.nothing(b)
	a, b = w.connect()
	w.send(a, "new ones work")
	w.expect(b, "new ones work")
}

func TestSilentHost(t *testing.T) {
	w := newWires(t)
	a, b := w.connect()
	w.net.silence(1)
	must(t, b.SetLinger(0))
	closeQuietly(b) // its process is gone
	w.net.unbind(1)
	w.nothing(a)
	w.send(a, "anybody there?")
	w.nothing(a)
	if _, err := w.dial(silence); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("dial of a silent host: %v", err)
	}
	w.net.hostUp(1)
	w.reset(a) // its kernel does not know the connection
	w.listen()
	a, b = w.connect()
	w.send(a, "again")
	w.expect(b, "again")
}

func TestDeafHostGoesOn(t *testing.T) {
	w := newWires(t)
	a, b := w.connect()
	w.net.setDeaf(1, 1)
	w.send(a, "sleep")
	w.nothing(b)
	w.net.setDeaf(1, -1)
	w.expect(b, "sleep")
}

func TestDelay(t *testing.T) {
	w := newWires(t)
	const each = 40 * time.Millisecond
	w.fault(sim.Delay, int64(each), true)
	began := time.Now()
	a, b := w.connect()
	if d := time.Since(began); d < 2*each {
		t.Errorf("connected after %v, want two ways of %v", d, each)
	}
	began = time.Now()
	w.send(a, "slow")
	w.expect(b, "slow")
	if d := time.Since(began); d < each {
		t.Errorf("arrived after %v, want %v", d, each)
	}
}

func TestBandwidth(t *testing.T) {
	w := newWires(t)
	a, b := w.connect()
	w.fault(sim.Bandwidth, 100<<10, true)
	began := time.Now()
	go a.Write(make([]byte, 10<<10)) // its error is the end of the test
	must(t, b.SetReadDeadline(time.Now().Add(patience)))
	_, err := io.ReadFull(b, make([]byte, 10<<10))
	must(t, err)
	if d := time.Since(began); d < 95*time.Millisecond {
		t.Errorf("10 KiB took %v at 100 KiB/s", d)
	}
}

func TestCorruptAndLoss(t *testing.T) {
	w := newWires(t)
	a, b := w.connect()
	w.fault(sim.Corrupt, 1000, true)
	w.fault(sim.Loss, 1000, true)
	began := time.Now()
	w.send(a, "bits")
	must(t, b.SetReadDeadline(time.Now().Add(patience)))
	got := make([]byte, 4)
	_, err := io.ReadFull(b, got)
	must(t, err)
	if bytes.Equal(got, []byte("bits")) {
		t.Error("no bit was flipped")
	}
	if d := time.Since(began); d < time.Duration(retransmit) {
		t.Errorf("a lost piece came after %v, want a retransmission of %v", d, time.Duration(retransmit))
	}
}

// TestBackPressure: a receiver that does not read stops the sender, and nothing is
// lost.
func TestBackPressure(t *testing.T) {
	w := newWires(t)
	a, b := w.connect()
	const size = 32 << 20 // more than pipe and sockets hold
	sent := make(chan error, 1)
	go func() {
		_, err := a.Write(bytes.Repeat([]byte{7}, size))
		sent <- errors.Join(err, a.CloseWrite())
	}()
	select {
	case err := <-sent:
		t.Fatalf("%d bytes were taken by nobody: %v", size, err)
	case <-time.After(silence):
	}
	got, err := io.Copy(io.Discard, b)
	if err != nil || got != size {
		t.Fatalf("%d bytes, %v", got, err)
	}
	must(t, <-sent)
}
