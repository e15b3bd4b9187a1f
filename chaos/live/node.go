package live

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"time"

	"lockstep/internal/event"
	"lockstep/internal/invariant"
	"lockstep/internal/prng"
	"lockstep/node"
	"lockstep/node/host"
	"lockstep/node/wire"
	"lockstep/sim"
	"lockstep/storage/vfs"
)

// state of a node's process.
type state uint8

const (
	stateOff     state = iota
	stateBooting       // a start is under way
	stateUp
)

// Node is one computer with the process that runs on it.
type Node struct {
	w     *World
	spec  sim.NodeSpec
	index int // in the network
	clock *nodeClock
	disk  *disk
	lanes lanes

	state   state
	life    int // ordinal of the latest
	machine node.Machine
	host    *host.Node
	rand    *prng.Source
	gone    chan struct{} // closed when nothing of the latest life runs any more

	// What faults do to it; counts, because faults overlap.
	held, paused int
	cpuTimes     int64
	healed       bool
	armed        *sim.Fault // a crash that waits for a file operation
	batches      int
	cost         time.Duration // of the latest batch
}

// Machine is the running machine, nil while the node is down.
func (n *Node) Machine() node.Machine { return n.machine }

// Disk is the record of what was written and synced.
func (n *Node) Disk() *vfs.Mem { return n.disk.shadow }

// Peer is the far end of a session that an observer was told of, while it is open.
func (n *Node) Peer(s node.SessionID) (node.Peer, bool) {
	if n.host == nil {
		return node.Peer{}, false
	}
	return n.host.Peer(s ^ node.SessionID(n.life)<<lifeShift)
}

// The shortest and longest time that a start and a supervisor take, as in the
// simulator's defaults.
const (
	bootMin, bootMax       = int64(50 * time.Millisecond), int64(400 * time.Millisecond)
	restartMin, restartMax = int64(500 * time.Millisecond), int64(2 * time.Second)
)

// start begins a new life of a node that is down.
func (w *World) start(n *Node) {
	if n.state != stateOff || n.held > 0 || w.closed {
		return
	}
	w.net.hostUp(n.index)
	n.state = stateBooting
	n.life++
	life, before, gone := n.life, n.gone, make(chan struct{})
	n.gone = gone
	w.At(w.now+w.rnd.Between(bootMin, bootMax), func() {
		w.work.Go(func() {
			<-before
			n.boot(life, gone)
		})
	})
}

// boot opens the stores and brings the machine up. It runs beside the world, which
// does not stand still while a node recovers; gone is closed when nothing of the
// life runs any more.
func (n *Node) boot(life int, gone chan struct{}) {
	w := n.w
	w.hold()
	if !n.wanted(life) {
		w.release()
		close(gone)
		return
	}
	if n.paused > 0 { // stopped before it came up: it goes on when resumed
		w.At(w.now+int64(10*time.Millisecond), func() { w.work.Go(func() { n.boot(life, gone) }) })
		w.release()
		return
	}
	n.rand = prng.New(prng.Hash(w.o.Plan.Seed, prng.HashString(n.spec.Name), uint64(life)))
	w.tell(n, sim.Booting, 0, "")
	l := sim.Life{Node: n.spec.Name, Ordinal: life, Now: n.clock.now(), Rand: n.rand}
	files := n.disk.begin()
	if n.armed != nil {
		n.disk.obey()
		n.disk.shadow.StopAfter(uint64(n.armed.When.DiskStep - 1))
	}
	w.release()

	l.Disk = files
	m, doer, err := n.open(l)
	w.hold()
	defer w.release()
	switch {
	case !n.wanted(life):
	case n.disk.shadow.Stopped() && n.armed != nil:
		w.crashInside(n)
	case err != nil:
		w.refuse(n, err)
	default:
		if n.run(l, m, doer, files, gone) {
			return
		}
	}
	w.work.Go(func() {
		files.end(doer)
		close(gone)
	})
}

// wanted reports whether a life that is being booted is still to come.
func (n *Node) wanted(life int) bool {
	return n.state == stateBooting && n.life == life && !n.w.closed
}

// open makes files and directory what the disk holds and runs the constructors; a
// panic there is a finding.
func (n *Node) open(l sim.Life) (m node.Machine, doer sim.Doer, err error) {
	defer func() {
		if r := recover(); r != nil {
			n.w.hold()
			n.w.find(n.spec.Name, "panic", fmt.Sprintf("start: %v\n%s", r, debug.Stack()))
			n.w.release()
			err = errors.New("panic")
		}
	}()
	if err := n.disk.materialise(); err != nil {
		return nil, nil, fmt.Errorf("files of %s: %w", n.spec.Name, err)
	}
	return n.spec.Boot(l)
}

// run starts the host of a machine; it reports whether it runs.
func (n *Node) run(l sim.Life, m node.Machine, doer sim.Doer, files *files, gone chan struct{}) bool {
	w, name := n.w, n.spec.Name
	var app host.App
	if n.spec.App != nil {
		app = n.spec.App(l, m)
	}
	t := &turn{n: n, life: l.Ordinal}
	o := host.Options{Name: name, Machine: m, App: app, Turn: t, Clock: n.clock.now, Pace: w.o.Pace, Log: w.o.Log,
		Listen: w.net.listen, Dial: w.net.dialler(n.index),
		Observe:   func(e event.Event) { t.live(func() { w.emitted(e) }) },
		OnDeliver: func(s node.SessionID, f *wire.Frame) { t.live(func() { w.delivered(n, t.unique(s), f) }) },
		OnSend:    func(s node.SessionID, f *wire.Frame) { t.live(func() { w.sent(n, t.unique(s), f) }) },
		OnExit:    func(e node.Exit) { n.exited(l.Ordinal, e) },
	}
	if doer != nil {
		o.Disk = &laneDoer{n: n, life: l.Ordinal, store: doer, files: files}
	}
	n.machine = m // told lives may look at it
	h, err := host.Start(o)
	if err != nil {
		n.machine = nil
		w.refuse(n, err)
		return false
	}
	n.host, n.state, n.batches = h, stateUp, 0
	if n.paused > 0 {
		h.Pause()
	}
	w.tell(n, sim.Up, 0, "")
	w.work.Go(func() {
		h.Wait()
		files.end(doer)
		close(gone)
	})
	return true
}

func (w *World) delivered(n *Node, s node.SessionID, f *wire.Frame) {
	for _, o := range w.observers {
		o.OnDeliver(n.spec.Name, s, f)
	}
}

func (w *World) sent(n *Node, s node.SessionID, f *wire.Frame) {
	w.stats.Frames++
	for _, o := range w.observers {
		o.OnSend(n.spec.Name, s, f)
	}
}

// refuse ends a life that did not want to begin.
func (w *World) refuse(n *Node, err error) {
	code := node.ExitRefused
	var coder sim.ExitCoder
	if errors.As(err, &coder) {
		code = coder.ExitCode()
	}
	w.down(n)
	w.tell(n, sim.Refused, code, err.Error())
	w.supervise(n, code)
}

// exited is a machine's own end, told on its loop after the last batch.
func (n *Node) exited(life int, e node.Exit) {
	w := n.w
	w.hold()
	defer w.release()
	if n.state != stateUp || n.life != life {
		return // a fault was first
	}
	if strings.HasPrefix(e.Reason, "panic") {
		w.find(n.spec.Name, "panic", e.Reason)
	}
	w.down(n)
	w.tell(n, sim.Down, e.Code, e.Reason)
	w.supervise(n, e.Code)
}

// supervise starts the node again if its supervisor would.
func (w *World) supervise(n *Node, code int) {
	again := code != node.ExitClean && code != node.ExitSuspect && code != node.ExitRefused
	after := w.rnd.Between(restartMin, restartMax)
	if n.spec.Supervise != nil {
		after, again = n.spec.Supervise(code)
	}
	if !again {
		return
	}
	life := n.life
	w.At(w.now+after, func() {
		if n.life == life {
			w.start(n)
		}
	})
}

// kill ends the process at once; what it was in the middle of may have happened in
// part.
func (w *World) kill(n *Node, code int, reason string) {
	was := n.state
	if was == stateOff {
		return
	}
	h := n.host
	w.down(n)
	if was == stateUp {
		h.Kill()
		w.tell(n, sim.Down, code, reason)
	}
}

// down forgets what lived in the process. Its page cache stays, its files are
// closed to it.
func (w *World) down(n *Node) {
	n.state, n.machine, n.host = stateOff, nil, nil
	n.disk.crash(func(m *vfs.Mem) { m.Crash(vfs.ProcessExit, nil) })
	n.lanes.wake()
	w.net.unbind(n.index)
}

// tell records a step of a life.
func (w *World) tell(n *Node, p sim.Phase, code int, reason string) {
	l := sim.LifeChange{Node: n.spec.Name, Ordinal: n.life, Phase: p, Code: code, Reason: reason}
	for _, o := range w.observers {
		o.OnLife(l)
	}
}

// turn is what a loop holds for one batch: the world.
type turn struct {
	n     *Node
	life  int
	began time.Time
}

// Lock takes the world.
func (t *turn) Lock() {
	t.n.w.hold()
	t.began = time.Now()
}

// checkEvery is how many batches of a node pass between two runs of its expensive
// assertions.
const checkEvery = 16

// Unlock gives the world back. A slow processor then keeps its own loop waiting.
func (t *turn) Unlock() {
	n, w := t.n, t.n.w
	cost := time.Since(t.began)
	w.stats.Batches++
	if n.batches++; n.batches%checkEvery == 0 {
		t.live(t.check)
	}
	times := n.cpuTimes
	w.release()
	if times > 1 {
		time.Sleep(time.Duration(times-1) * max(cost, leastCost))
	}
}

// leastCost is what a batch counts as for a slow processor.
const leastCost = 10 * time.Microsecond

// unique tells the sessions of one life from those of another, which have the same
// ids, for judges.
func (t *turn) unique(s node.SessionID) node.SessionID {
	return s ^ node.SessionID(t.life)<<lifeShift
}

// lifeShift leaves room for the sessions of a life.
const lifeShift = 40

// live does something unless the life is over: what a killed process was about to
// do is not done.
func (t *turn) live(do func()) {
	if n := t.n; n.life == t.life && n.state == stateUp {
		do()
	}
}

func (t *turn) check() {
	defer func() {
		if r := recover(); r != nil {
			kind := "panic"
			if _, ok := r.(invariant.Violation); ok {
				kind = "invariant"
			}
			t.n.w.find(t.n.spec.Name, kind, fmt.Sprint(r))
		}
	}()
	t.n.machine.CheckInvariants()
}

// end closes what a life left open, once its operations are over.
func (f *files) end(doer sim.Doer) {
	if c, ok := doer.(io.Closer); ok {
		closeQuietly(c)
	}
	f.closeAll()
}
