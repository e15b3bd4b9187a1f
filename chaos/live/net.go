package live

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"lockstep/internal/invariant"
	"lockstep/internal/prng"
	"lockstep/node/host"
	"lockstep/node/wire"
	"lockstep/sim"
)

// network carries every connection between two nodes through a relay of its own.
// Addresses are those of the simulator, "a1:10911"; the sockets behind them are on
// loopback, on ports that the system chose.
type network struct {
	pacer *pacer

	mu      sync.Mutex
	rnd     *prng.Source
	hosts   []string          // by index
	byHost  map[string]int    // looked up
	bound   map[string]string // address → the real one
	links   []link            // from × to
	deaf    []int             // how many reasons a host has to take and answer nothing
	silent  []bool            // hosts that went down without a word
	relays  map[*relay]struct{}
	changed chan struct{} // closed, and replaced, when something about links changes
	closed  bool
	work    sync.WaitGroup
}

// link is what faults do on the way from one node to another; counts and sums,
// because faults overlap.
type link struct {
	cut, refuse   int
	delay         int64 // nanoseconds
	loss, corrupt int64 // permille
	bandwidth     int64 // bytes per second, 0 is no limit
}

func newNetwork(p *pacer, rnd *prng.Source) *network {
	return &network{pacer: p, rnd: rnd, byHost: map[string]int{}, bound: map[string]string{}, relays: map[*relay]struct{}{}, changed: make(chan struct{})}
}

// add makes a host and returns its index.
func (t *network) add(host string) int {
	t.byHost[host] = len(t.hosts)
	t.hosts = append(t.hosts, host)
	return len(t.hosts) - 1
}

// ready is called once all hosts are known.
func (t *network) ready() {
	n := len(t.hosts)
	t.links, t.deaf, t.silent = make([]link, n*n), make([]int, n), make([]bool, n)
}

func (t *network) link(from, to int) *link { return &t.links[from*len(t.hosts)+to] }

// passes reports whether packets reach to from there.
func (t *network) passes(from, to int) bool {
	return t.link(from, to).cut == 0 && t.deaf[from] == 0 && t.deaf[to] == 0
}

// change does something to the links and lets everybody who waits look again.
func (t *network) change(do func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	do()
	close(t.changed)
	t.changed = make(chan struct{})
	for r := range t.relays {
		r.there.poke()
		r.back.poke()
	}
}

// apply starts or ends a fault on the way from one node to another.
func (t *network) apply(f *sim.Fault, from, to int, on bool) {
	by := 1
	if !on {
		by = -1
	}
	t.change(func() {
		l := t.link(from, to)
		switch f.Kind {
		case sim.Cut, sim.Stall:
			l.cut += by
			invariant.That(l.cut >= 0, "link healed twice")
		case sim.Refuse:
			l.refuse += by
		case sim.Delay:
			l.delay += int64(by) * f.Arg
		case sim.Loss:
			l.loss += int64(by) * f.Arg
		case sim.Corrupt:
			l.corrupt += int64(by) * f.Arg
		case sim.Bandwidth:
			l.bandwidth = max(0, int64(by)*f.Arg)
		case sim.Reset:
			t.between(from, to, on, (*relay).reset)
		case sim.HalfOpen:
			t.between(from, to, on, (*relay).mute)
		}
	})
}

// between does something to the present relays between two nodes.
func (t *network) between(a, b int, on bool, do func(r *relay)) {
	for r := range t.relays {
		if on && (r.from == a && r.to == b || r.from == b && r.to == a) {
			do(r)
		}
	}
}

// setDeaf makes a host take and answer no packet, or wakes it.
func (t *network) setDeaf(host, by int) { t.change(func() { t.deaf[host] += by }) }

// silence makes a host vanish without a word: nothing it sent and that is still on
// its way arrives, nothing is answered, and no connection of it ends.
func (t *network) silence(host int) {
	t.change(func() {
		if !t.silent[host] {
			t.silent[host] = true
			t.deaf[host]++
		}
		for r := range t.relays {
			if r.from == host || r.to == host {
				r.orphan(host)
			}
		}
	})
}

// hostUp brings the kernel of a silent host back, without its connections: what
// still comes on them is answered with a reset.
func (t *network) hostUp(host int) {
	t.change(func() {
		if t.silent[host] {
			t.silent[host] = false
			t.deaf[host]--
		}
	})
}

// listen opens the socket behind an address.
func (t *network) listen(_ wire.Link, addr string) (net.Listener, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bound[addr] = ln.Addr().String()
	return ln, nil
}

// unbind forgets the sockets of a host whose process ended: the system may give
// their ports to somebody else.
func (t *network) unbind(host int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for addr := range t.bound {
		if name, _, _ := strings.Cut(addr, ":"); name == t.hosts[host] {
			delete(t.bound, addr)
		}
	}
}

// errDial are the ways in which a dial fails.
var (
	errRefused = fmt.Errorf("dial: %w", syscall.ECONNREFUSED)
	errClosed  = errors.New("the world is over")
)

// dialler opens the connections of a node.
func (t *network) dialler(from int) func(ctx context.Context, link wire.Link, addr string) (net.Conn, error) {
	return func(ctx context.Context, _ wire.Link, addr string) (net.Conn, error) {
		name, _, _ := strings.Cut(addr, ":")
		to, ok := t.byHost[name]
		if !ok {
			return nil, fmt.Errorf("no such host: %s", addr)
		}
		ctx, cancel := context.WithTimeout(ctx, time.Duration(t.pacer.real(int64(host.DialTimeout))))
		defer cancel()
		wait, err := t.admit(ctx, from, to)
		if err != nil {
			return nil, err
		}
		if err := pause(ctx, wait); err != nil {
			return nil, err
		}
		return t.connect(ctx, from, to, addr)
	}
}

// pause waits so long, real time, unless the context ends.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// admit waits until the handshake of a new connection can pass both ways, and
// returns how long it takes.
func (t *network) admit(ctx context.Context, from, to int) (time.Duration, error) {
	for {
		t.mu.Lock()
		there, back := t.link(from, to), t.link(to, from)
		passes, refused, changed := t.passes(from, to) && t.passes(to, from), there.refuse > 0, t.changed
		delay := there.delay + back.delay
		closed := t.closed
		t.mu.Unlock()
		switch {
		case closed:
			return 0, errClosed
		case refused && passes:
			return 0, errRefused
		case passes:
			return time.Duration(t.pacer.real(delay)), nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, fmt.Errorf("dial timed out: %w", ctx.Err())
		}
	}
}

// connect opens the two halves of a connection and the relay between them.
func (t *network) connect(ctx context.Context, from, to int, addr string) (net.Conn, error) {
	t.mu.Lock()
	real := t.bound[addr]
	t.mu.Unlock()
	if real == "" {
		return nil, errRefused
	}
	var d net.Dialer
	far, err := d.DialContext(ctx, "tcp", real)
	if err != nil {
		return nil, err
	}
	mine, near, err := pair()
	if err != nil {
		return nil, errors.Join(err, far.Close())
	}
	r := newRelay(t, from, to, near, far.(*net.TCPConn))
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, errors.Join(errClosed, mine.Close(), near.Close(), far.Close())
	}
	t.relays[r] = struct{}{}
	r.start()
	return mine, nil
}

// pair is a connection on loopback, both ends.
func pair() (a, b *net.TCPConn, err error) {
	ln, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, nil, err
	}
	defer closeQuietly(ln)
	for { // somebody else's connection to the port is not taken for ours
		if a, err = net.DialTCP("tcp", nil, ln.Addr().(*net.TCPAddr)); err != nil {
			return nil, nil, err
		}
		if b, err = ln.AcceptTCP(); err != nil {
			return nil, nil, errors.Join(err, a.Close())
		}
		if b.RemoteAddr().String() == a.LocalAddr().String() {
			return a, b, nil
		}
		closeQuietly(a)
		closeQuietly(b)
	}
}

// close ends all relays and waits for them.
func (t *network) close() {
	t.change(func() {
		t.closed = true
		for r := range t.relays {
			r.reset()
		}
	})
	t.work.Wait()
}
