// Package host runs one machine for real: one loop goroutine, TCP sessions with
// coalescing writers, gRPC streams between controllers, disk lanes, and a clock
// that runs across suspends. It takes no decisions: facts go in, effects are
// performed in order, and every rule is the machine's.
//
// Facts arrive in a mailbox; the loop takes all of them as one batch, samples the
// clock once, tells the machine, settles it and performs the effects. Group
// commit, coalesced writes and back-pressure by credit all follow from that, with
// no timer.
package host

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/internal/event"
	"lockstep/node"
	"lockstep/node/host/grpclink"
	"lockstep/node/wire"
)

// App submits work to the machine and drains its outcomes, on the loop goroutine.
type App interface {
	// Turn runs after the effects of each batch were performed and whenever Deadline
	// has passed. It reports whether it gave the machine work, in which case the
	// machine settles again.
	Turn(now node.Now, m node.Machine) bool
	// Deadline is the next instant at which Turn wants to run, or node.Never.
	Deadline() node.Time
}

// Options say what to run. Machine is required; zero values mean the defaults.
type Options struct {
	Name    string // for log lines and events
	Machine node.Machine
	Disk    Doer // nil for machines without a disk; closed by whoever opened it, after Wait
	App     App  // drives a machine that serves nobody, such as a client

	Credit      int           // frames of one session that may wait for the loop
	InBytes     int           // bytes of them; one frame always may
	OutBytes    int           // bytes that may wait to be written to one session
	OutTotal    int           // bytes that may wait for all; above it the session that most waits for is closed
	MaxSessions int           // accepted sessions; one more takes the place of one that never sent a frame, or is closed at once
	Readers     int           // cold reads that run at once
	Idle        time.Duration // a remoting session silent both ways for so long is closed
	FrameTime   time.Duration // a frame that is not whole so long after its first byte ends its session

	// Log receives events and the host's own lines; nil discards them.
	Log *slog.Logger
	// Observe sees every event on the loop goroutine, after the log.
	Observe func(event.Event)
	// OnDeliver sees each frame before the machine does, OnSend each frame that leaves
	// on an open session; both on the loop goroutine, inside Turn. OnExit is told how
	// the life ends, outside of it.
	OnDeliver, OnSend func(s node.SessionID, f *wire.Frame)
	OnExit            func(node.Exit)
	// Turn is held while the loop works and free while it sleeps. Nodes of one process
	// that share it take turns, so that a judge on one loop may look at the machines of
	// all; nil is no lock.
	Turn sync.Locker
	// Clock samples the node's clocks; nil means BootClock.
	Clock Clock
	// Pace is how many seconds of Clock pass in a real one, from 1; 0 means 1.
	Pace int64
	// Listen opens the socket of a listener; nil means TCP.
	Listen func(link wire.Link, addr string) (net.Listener, error)
	// Dial opens the socket of an outgoing stream; nil means TCP with DialTimeout.
	Dial func(ctx context.Context, link wire.Link, addr string) (net.Conn, error)
}

// Defaults and limits of the host.
const (
	DefaultCredit      = 256
	DefaultInBytes     = 8 << 20
	DefaultOutBytes    = 64 << 20
	DefaultOutTotal    = 512 << 20
	DefaultMaxSessions = 10_000
	DefaultReaders     = 4
	// DefaultIdle is RocketMQ's: both its client and its servers close what nobody
	// uses.
	DefaultIdle = 120 * time.Second
	// DefaultFrameTime is far above what a frame takes on a line that is worth using;
	// a large one gets a second more for each 64 KiB that have come.
	DefaultFrameTime = 30 * time.Second
	DialTimeout      = 3 * time.Second
	// maxSleep bounds how long the loop sleeps on a deadline: Go's timers stand still
	// while the machine is suspended, the node's clock does not.
	maxSleep = time.Second
)

// Node is one running machine.
type Node struct {
	o Options

	// Loop state, touched by the loop goroutine alone.
	fx       node.Effects
	sessions map[node.SessionID]*session // known to the machine, those being dialled included
	touched  []*session                  // given frames in this batch
	urgent   bool                        // the next batch must not wait for facts
	exit     node.Exit

	box       mailbox
	gate      gate   // closed while paused
	lanes     *Lanes // nil without a disk
	listeners []listener
	grpc      *grpclink.Link // raft streams; nil for machines that use none

	ctx    context.Context // ends dials and accept pauses
	cancel context.CancelFunc
	ending atomic.Pointer[ending] // set once: why the loop stops
	done   chan struct{}

	mu       sync.Mutex // guards the six below
	live     map[*session]struct{}
	accepted int
	silent   list.List // of *session: accepted, no frame yet, the oldest in front
	crowd    crowd
	lastID   node.SessionID
	closing  bool
	work     sync.WaitGroup // goroutines of sessions and listeners

	counters counters
}

// ending is why and how a node's life ends.
type ending struct {
	exit     node.Exit
	graceful bool // the machine asked for it: what was sent is still written
}

// listener is one served address.
type listener struct {
	at node.Listener
	ln net.Listener
}

// Start binds the machine's listeners and runs it. An address that cannot be
// bound is an error that names it, and nothing was started.
func Start(o Options) (*Node, error) {
	if o.Machine == nil {
		return nil, errors.New("host: no machine to run")
	}
	n := &Node{o: o.withDefaults(), sessions: map[node.SessionID]*session{}, live: map[*session]struct{}{}, done: make(chan struct{})}
	n.box.wake = make(chan struct{}, 1)
	n.gate.init()
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.grpc = grpclink.New(func(ctx context.Context, addr string) (net.Conn, error) { return n.o.Dial(ctx, wire.Raft, addr) })
	if err := n.bind(); err != nil {
		n.cancel()
		n.closeListeners()
		n.grpc.Close() // nothing was opened through it yet
		return nil, err
	}
	if o.Disk != nil {
		n.startLanes()
	}
	for _, l := range n.listeners {
		n.work.Go(func() { n.accept(l) })
	}
	go n.loop()
	return n, nil
}

func (o Options) withDefaults() Options {
	for _, f := range []struct {
		v *int
		d int
	}{{&o.Credit, DefaultCredit}, {&o.InBytes, DefaultInBytes}, {&o.OutBytes, DefaultOutBytes}, {&o.OutTotal, DefaultOutTotal}, {&o.MaxSessions, DefaultMaxSessions}, {&o.Readers, DefaultReaders}} {
		if *f.v <= 0 {
			*f.v = f.d
		}
	}
	if o.Idle <= 0 {
		o.Idle = DefaultIdle
	}
	if o.FrameTime <= 0 {
		o.FrameTime = DefaultFrameTime
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = BootClock()
	}
	if o.Turn == nil {
		o.Turn = alone{}
	}
	o.Pace = max(o.Pace, 1)
	if o.Listen == nil {
		o.Listen = func(_ wire.Link, addr string) (net.Listener, error) { return net.Listen("tcp", addr) }
	}
	if o.Dial == nil {
		d := &net.Dialer{Timeout: DialTimeout}
		o.Dial = func(ctx context.Context, _ wire.Link, addr string) (net.Conn, error) {
			return d.DialContext(ctx, "tcp", addr)
		}
	}
	return o
}

// alone is the Turn of a node that shares it with nobody.
type alone struct{}

func (alone) Lock()   {}
func (alone) Unlock() {}

func (n *Node) bind() error {
	for _, l := range n.o.Machine.Listeners() {
		ln, err := n.o.Listen(l.Link, l.Addr)
		if err != nil {
			return ListenError(fmt.Sprint(l.Link), l.Addr, err)
		}
		if l.Link == wire.Raft {
			ln = n.grpc.Listen(ln)
		}
		n.listeners = append(n.listeners, listener{l, ln})
	}
	return nil
}

func (n *Node) closeListeners() {
	for _, l := range n.listeners {
		l.ln.Close() // nothing can be lost by closing a listener
	}
}

// Addrs are the bound addresses, in the order of the machine's listeners: they
// differ from the configured ones where the port was 0.
func (n *Node) Addrs() []string {
	var out []string
	for _, l := range n.listeners {
		out = append(out, l.ln.Addr().String())
	}
	return out
}

// Stop asks the machine for a graceful stop; Wait tells when it is over.
func (n *Node) Stop() { n.box.put(fact{kind: factStop}) }

// Kill ends the node at once, as a killed process would: no later effect is
// performed, connections are reset, operations under way may still finish.
func (n *Node) Kill() { n.fail("killed") }

// fail stops the loop without asking the machine; the first reason counts.
func (n *Node) fail(reason string) {
	n.ending.CompareAndSwap(nil, &ending{exit: node.Exit{Code: node.ExitFailed, Reason: reason}})
	n.gate.release()
	n.box.signal()
}

// Pause stops the loop and the lanes until Resume, as SIGSTOP would: the clock
// runs, connections stay open, what arrives waits.
func (n *Node) Pause() { n.gate.close() }

// Resume ends a Pause.
func (n *Node) Resume() { n.gate.open() }

// Done is closed when the node has ended and nothing of it runs any more.
func (n *Node) Done() <-chan struct{} { return n.done }

// Wait returns how the node ended.
func (n *Node) Wait() node.Exit {
	<-n.done
	return n.exit
}

// ErrEnded is returned for a node whose life is over.
var ErrEnded = errors.New("the node has ended")

// Call runs f on the loop goroutine between two batches, after which the machine
// settles, and waits for it. When ctx ends first, f may still run later: it must
// not write to what the caller has gone on to use.
func (n *Node) Call(ctx context.Context, f func(now node.Now, m node.Machine)) error {
	ran := make(chan struct{})
	n.box.put(fact{kind: factCall, call: func(now node.Now) {
		f(now, n.o.Machine)
		close(ran)
	}})
	select {
	case <-ran:
		return nil
	case <-n.done:
		return ErrEnded
	case <-ctx.Done():
		return fmt.Errorf("the loop of %s does not answer: %w", n.o.Name, ctx.Err())
	}
}

// Peer is the far end of an open session; to be asked on the loop, or by whoever
// holds Turn.
func (n *Node) Peer(s node.SessionID) (p node.Peer, ok bool) {
	x := n.sessions[s]
	if x == nil || !x.up {
		return node.Peer{}, false
	}
	return x.peer, true
}

// Name is the node's name.
func (n *Node) Name() string { return n.o.Name }
