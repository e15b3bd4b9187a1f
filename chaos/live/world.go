package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"lockstep/internal/event"
	"lockstep/internal/invariant"
	"lockstep/internal/prng"
	"lockstep/node"
	"lockstep/scenarios"
	"lockstep/sim"
)

// DefaultPace is how many seconds pass for the nodes in a real one, when nobody
// says otherwise: a drill of two minutes takes a quarter of one.
const DefaultPace = 8

// maxPace bounds it: beyond, the work of a second no longer fits into its share.
const maxPace = 64

// hiccup is how late a loop may run on a machine that does other things too, in
// real time; it widens limits of milliseconds.
const hiccup = 100 * time.Millisecond

// Options of a world. Dir and Plan are required.
type Options struct {
	Dir  string       // empty directory for the nodes' files; whoever gave it removes it
	Plan *sim.Plan    // faults to come, and the seed of what is drawn
	Sim  sim.Options  // the clocks' offsets and drifts are taken from it
	Pace int64        // seconds of the nodes in a real one, 1..64; 0 means DefaultPace
	Log  *slog.Logger // of the hosts; nil discards
	// Latencies makes disk operations take at least what Sim says.
	Latencies bool
}

// World is nodes with real sockets, files and clock in this process. It is held by
// whoever works in it: one loop for one batch, or the goroutine that drives it.
type World struct {
	o     Options
	pacer pacer
	mu    sync.Mutex
	now   int64 // when the world was last taken
	wake  chan struct{}

	nodes     []*Node
	byName    map[string]*Node
	net       *network
	observers []sim.Observer
	handlers  map[string]func(f *sim.Fault)
	calls     calls
	watched   bool // the driver waits for a condition and looks after each batch
	prepared  bool
	closed    bool

	faults   []*sim.Fault
	watching []watch
	active   []atom
	era      *sim.Era
	findings []sim.Finding
	mapped   map[string]bool // how faults were carried out where that is not obvious
	stats    sim.Stats
	rnd      *prng.Source
	beats    metronome
	work     sync.WaitGroup // goroutines of lives
}

var _ scenarios.World = (*World)(nil)

// New opens a world. The caller holds it until Close.
func New(o Options) (*World, error) {
	if o.Plan == nil || o.Dir == "" {
		return nil, errors.New("live: a world needs a plan and a directory")
	}
	if o.Pace == 0 {
		o.Pace = DefaultPace
	}
	if o.Pace < 1 || o.Pace > maxPace {
		return nil, fmt.Errorf("live: pace %d is not in 1..%d", o.Pace, maxPace)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	w := &World{o: o, pacer: newPacer(o.Pace), wake: make(chan struct{}, 1), byName: map[string]*Node{}, handlers: map[string]func(*sim.Fault){},
		mapped: map[string]bool{}, rnd: prng.New(prng.Hash(o.Plan.Seed, prng.HashString("live")))}
	w.net = newNetwork(&w.pacer, prng.New(w.rnd.Uint64()))
	w.hold()
	return w, nil
}

// hold takes the world and looks at the clock; the time stands still until release.
func (w *World) hold() {
	w.mu.Lock()
	w.now = max(w.now, w.pacer.now())
}

// release does what has become due and lets others have the world.
func (w *World) release() {
	w.runDue()
	poke := w.watched
	w.mu.Unlock()
	if poke {
		w.poke()
	}
}

// poke makes the driver look again.
func (w *World) poke() {
	select {
	case w.wake <- struct{}{}:
	default: // it will look anyway
	}
}

func (w *World) runDue() {
	for !w.closed {
		do, ok := w.calls.due(w.now)
		if !ok {
			return
		}
		do()
	}
}

// Host is how reports name this world.
func (w *World) Host() string { return "live" }

// Now is the true time in nanoseconds since the world began.
func (w *World) Now() int64 { return w.now }

// Slack is how late things may happen because the computer is busy.
func (w *World) Slack() time.Duration { return hiccup * time.Duration(w.o.Pace) }

// At calls do at the true time at, or at the end of the present batch.
func (w *World) At(at int64, do func()) {
	w.calls.add(max(at, w.now), do)
	w.poke()
}

// Wake makes a node settle although it has no news.
func (w *World) Wake(name string) {
	h := w.node(name).host
	if h == nil {
		return
	}
	w.work.Go(func() {
		h.Call(context.Background(), func(node.Now, node.Machine) {}) // its error says that the node has ended, which is fine
	})
}

// SetEra begins a fault budget.
func (w *World) SetEra(e *sim.Era) { w.era = e }

// Observe adds a judge.
func (w *World) Observe(o sim.Observer) { w.observers = append(w.observers, o) }

// Handle says what an action of the plan does.
func (w *World) Handle(text string, do func(f *sim.Fault)) { w.handlers[text] = do }

// Add makes a node.
func (w *World) Add(s sim.NodeSpec) {
	invariant.That(!w.prepared, "node %s added to a running world", s.Name)
	invariant.That(w.byName[s.Name] == nil, "two nodes named %s", s.Name)
	if s.Host == "" {
		s.Host = s.Name
	}
	n := &Node{w: w, spec: s, index: w.net.add(s.Host), cpuTimes: 1, gone: closedChan()}
	n.clock = &nodeClock{true: &w.pacer}
	if o := w.o.Sim; !s.Steady {
		n.clock.mono, n.clock.ppm = w.rnd.Between(0, o.ClockOffset), w.rnd.Between(-o.DriftPPM, o.DriftPPM)
		n.clock.wall = w.rnd.Between(-o.WallOffsetMillis, o.WallOffsetMillis)
	}
	n.disk = newDisk(filepath.Join(w.o.Dir, s.Name), func() int64 { return n.clock.now().Wall * million })
	n.lanes.init(prng.New(w.rnd.Uint64()))
	w.nodes = append(w.nodes, n)
	w.byName[s.Name] = n
}

// Node returns a node by name.
func (w *World) Node(name string) scenarios.Node { return w.node(name) }

func (w *World) node(name string) *Node {
	n := w.byName[name]
	invariant.That(n != nil, "no node named %q", name)
	return n
}

// Machine is the node's running machine, nil while it is down.
func (w *World) Machine(name string) node.Machine { return w.node(name).Machine() }

// Run lets the world go on until the true time until or the first finding.
func (w *World) Run(until int64) bool {
	w.advance(until, nil)
	return len(w.findings) == 0
}

// RunWhile lets it go on while more holds, asked after batches.
func (w *World) RunWhile(until int64, more func() bool) bool {
	return w.advance(until, more) && len(w.findings) == 0
}

// lookEvery is the least real time between two looks at a condition.
const lookEvery = time.Millisecond

// advance gives the world away and takes it again when something is due.
func (w *World) advance(until int64, more func() bool) bool {
	w.prepare()
	defer func() { w.watched = false }()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		w.runDue()
		switch {
		case len(w.findings) > 0:
			return false
		case more != nil && !more():
			return true
		case w.now >= until:
			return false
		}
		next := until
		if at, ok := w.calls.next(); ok {
			next = min(next, at)
		}
		w.watched = more != nil
		wait := max(time.Duration(w.pacer.real(next-w.pacer.now())), 0)
		w.mu.Unlock()
		w.pause(timer, wait, more != nil)
		w.hold()
	}
}

// pause waits until something is due or may have changed; a condition is looked at
// once in lookEvery at most.
func (w *World) pause(timer *time.Timer, wait time.Duration, watching bool) {
	if watching {
		timer.Reset(min(wait, lookEvery))
		<-timer.C
		wait -= min(wait, lookEvery)
	}
	timer.Reset(wait)
	select {
	case <-timer.C:
	case <-w.wake:
	}
}

// prepare starts the nodes and the plan before the first event.
func (w *World) prepare() {
	if w.prepared {
		return
	}
	w.prepared = true
	w.net.ready()
	if err := w.beats.start(w); err != nil {
		w.find("", "plan", err.Error())
		return
	}
	for _, f := range w.o.Plan.Faults {
		if err := w.check(f); err != nil {
			w.find("", "plan", err.Error())
			return
		}
		f.Fired, f.Refused, f.Ended = 0, "", false
		w.faults = append(w.faults, f)
	}
	for _, n := range w.nodes {
		if !n.spec.Late {
			w.start(n)
		}
	}
	for i := range w.faults {
		w.schedule(i)
	}
}

// find records a finding; the run ends with it.
func (w *World) find(node, kind, text string) {
	w.findings = append(w.findings, sim.Finding{At: w.now, Node: node, Kind: kind, Text: text})
	w.poke()
}

// Findings returns what went wrong, oldest first.
func (w *World) Findings() []sim.Finding { return w.findings }

// Hash is 0: no two runs are alike.
func (w *World) Hash() uint64 { return 0 }

// Stats counts batches and frames.
func (w *World) Stats() sim.Stats { return w.stats }

// Stale lists the entries of the plan that did not fire.
func (w *World) Stale() []string {
	var out []string
	for _, f := range w.o.Plan.Faults {
		if f.Fired == 0 {
			why := "did not fire"
			if f.Refused != "" {
				why = f.Refused
			}
			out = append(out, sim.FormatFault(f)+": "+why)
		}
	}
	return out
}

// Audit compares the files of every node with the record of what was written to
// them, so that what judges read from the record is what the files hold.
func (w *World) Audit() []sim.Finding {
	var out []sim.Finding
	for _, n := range w.nodes {
		if d := n.disk.differs(); d != "" {
			out = append(out, sim.Finding{At: w.now, Node: n.spec.Name, Kind: "files", Text: d})
		}
	}
	return out
}

// Mapped says how faults of the run were carried out, where that differs from the
// simulator's.
func (w *World) Mapped() []string {
	out := make([]string, 0, len(w.mapped))
	for text := range w.mapped {
		out = append(out, text)
	}
	return sorted(out)
}

// Stalled is the longest time, real, that the computer held the nodes up.
func (w *World) Stalled() time.Duration { return time.Duration(w.beats.worst.Load()) }

// Close kills every node and waits until nothing of the world runs any more.
func (w *World) Close() {
	if w.closed {
		return
	}
	w.closed = true
	if w.prepared {
		close(w.beats.stop)
	}
	for _, n := range w.nodes {
		w.kill(n, -1, "the run is over")
	}
	w.mu.Unlock()
	w.net.close()
	w.work.Wait()
	w.mu.Lock()
}

// emitted gives an event to the judges and to the faults that wait for it.
func (w *World) emitted(e event.Event) {
	e.At = w.now
	w.stats.Events++
	for _, o := range w.observers {
		o.OnEvent(e)
	}
	w.trigger(&e)
}

// closeQuietly closes what is no longer needed; its error would add nothing.
func closeQuietly(c io.Closer) {
	if c != nil {
		c.Close()
	}
}

func closedChan() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}
