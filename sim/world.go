package sim

import (
	"fmt"
	"slices"

	"lockstep/internal/decide"
	"lockstep/internal/invariant"
	"lockstep/internal/prng"
	"lockstep/netsim"
	"lockstep/node"
	"lockstep/storage/vfs"
)

// World is one simulated run.
type World struct {
	opts      Options
	plan      *Plan
	decider   *decide.Decider
	net       *netsim.Net
	now       int64
	heap      heap
	nodes     []*host
	byName    map[string]*host // looked up, never ranged over
	ready     []*host
	slots     []*slot
	freeSlots []uint32
	calls     []func()
	freeCalls []uint32
	observers []Observer
	handlers  map[string]func(w *World, f *Fault) // looked up, never ranged over

	faults   []*Fault // of the plan, then injected
	watching []watch
	due      []*Fault
	active   []atom
	era      *Era

	hash     hashes
	findings []Finding
	stopped  bool
	running  bool // inside the loop
	prepared bool
	closed   bool
	current  *host // whose code runs, for crypto/rand
	entropy  *entropy
	stats    Stats
}

// Stats count what a world did.
type Stats struct {
	Events  uint64 // taken from the heap
	Batches uint64 // Settle calls
	Frames  uint64 // that left a node
	Dropped uint64 // sent on sessions that were gone
	Steps   uint64 // of the rolling hash
	Net     netsim.Stats
}

// New opens a world. It panics when another is open in this process, because
// crypto/rand.Reader is the world's until Close.
func New(opts Options, plan *Plan) *World {
	if plan == nil {
		plan = &Plan{Benign: true}
	}
	w := &World{opts: opts, plan: plan, byName: map[string]*host{}, handlers: map[string]func(*World, *Fault){}}
	w.decider = decide.New(plan.Seed, plan.Benign, plan.Choices)
	w.decider.Seen(w.decided)
	w.net = netsim.New(opts.Net, w, w.decider)
	w.hash.all = prng.Mix(PlanVersion)
	w.entropy = openEntropy(w)
	return w
}

// Close ends the world and restores crypto/rand.Reader.
func (w *World) Close() {
	if !w.closed {
		w.closed = true
		w.entropy.close()
	}
}

// decided folds every choice into the hash.
func (w *World) decided(s *decide.Site, k decide.Key, v int64) {
	w.step(nil, SubWorld, StepDecision, s.ID()^k.Sum(), uint64(v))
}

// seedSum is the root of keyed generators.
func (w *World) seedSum() uint64 {
	if w.plan.Benign {
		return 0
	}
	return prng.Mix(w.plan.Seed ^ 0x10c57e9)
}

// Add makes a node; all nodes are added before the first Run.
func (w *World) Add(spec NodeSpec) Node {
	invariant.That(!w.prepared, "node %s added to a running world", spec.Name)
	invariant.That(validName(spec.Name), "node name %q: want letters, digits, '-', '_', '.'", spec.Name)
	invariant.That(w.byName[spec.Name] == nil, "two nodes named %s", spec.Name)
	invariant.That(spec.Boot != nil, "node %s has no Boot", spec.Name)
	if spec.Host == "" {
		spec.Host = spec.Name
	}
	n := &host{index: w.net.Add(spec.Name, spec.Host, spec.Zone), spec: spec, nameSum: prng.HashString(spec.Name),
		actor: w.decider.Actor(spec.Name), runAt: -1, wakeAt: -1, bootAt: -1, cpuTimes: 1, diskTimes: 1}
	n.disk = vfs.NewMem(vfs.MemOptions{Capacity: w.opts.DiskBytes,
		Now: func() int64 { return n.clock.now(w.now).Wall * 1_000_000 }})
	n.damage = damage{w: w, n: n}
	w.nodes = append(w.nodes, n)
	w.byName[spec.Name] = n
	return Node{n}
}

// Node returns a node by name; it panics when there is none.
func (w *World) Node(name string) Node {
	n := w.byName[name]
	invariant.That(n != nil, "no node named %q", name)
	return Node{n}
}

// Nodes returns all nodes in the order they were added.
func (w *World) Nodes() []Node {
	out := make([]Node, len(w.nodes))
	for i, n := range w.nodes {
		out[i] = Node{n}
	}
	return out
}

// Observe adds a judge or recorder.
func (w *World) Observe(o Observer) { w.observers = append(w.observers, o) }

// Handle registers what an Action fault with Text name does.
func (w *World) Handle(name string, do func(w *World, f *Fault)) { w.handlers[name] = do }

// At calls do at the true time at, or at once when that is past: for scenarios'
// own schedule. It must not change the run in a way the plan does not know.
func (w *World) At(at int64, do func()) {
	var id uint32
	if k := len(w.freeCalls); k > 0 {
		id, w.freeCalls = w.freeCalls[k-1], w.freeCalls[:k-1]
	} else {
		id = uint32(len(w.calls))
		w.calls = append(w.calls, nil)
	}
	w.calls[id] = do
	w.heap.push(max(at, w.now), evCall, 0, id)
}

// The sites of the clocks a node starts with.
var (
	siteOrigin = decide.NewSite("clock.origin", "ns", 0, 1<<50)
	siteWall   = decide.NewSite("clock.wall", "ms", 0, 86_400_000)
	siteDrift  = decide.NewSite("clock.drift", "ppm", 0, 1000)
)

// prepare starts the world before its first event.
func (w *World) prepare() {
	if w.prepared {
		return
	}
	w.prepared = true
	for _, f := range w.plan.Faults {
		if err := w.checkFault(f); err != nil {
			w.find(nil, "plan", err.Error())
			return
		}
		f.Fired, f.Refused, f.Ended = 0, "", false
		w.faults = append(w.faults, f)
	}
	for _, n := range w.nodes {
		k := decide.Key{From: n.actor}
		if !n.spec.Steady {
			o := w.opts
			n.clock.baseMono = w.decider.Decide(siteOrigin, k, decide.Dist{Lo: 0, Hi: o.ClockOffset})
			n.clock.wall = w.decider.Decide(siteWall, k, decide.Dist{Lo: -o.WallOffsetMillis, Hi: o.WallOffsetMillis})
			n.clock.ppm = w.decider.Decide(siteDrift, k, decide.Dist{Lo: -o.DriftPPM, Hi: o.DriftPPM})
		}
		n.clock.wall += wallEpoch - n.clock.baseMono/1_000_000
		if !n.spec.Late {
			w.start(n)
		}
	}
	for i := range w.faults {
		w.schedule(i)
	}
}

// Run advances until the true time until, in nanoseconds, or the first finding;
// it reports whether no finding was made.
func (w *World) Run(until int64) bool {
	w.advance(until, nil)
	return !w.stopped
}

// RunWhile advances while more holds, asked after every event, until at most
// the true time until. It reports whether more turned false in time and without
// a finding.
func (w *World) RunWhile(until int64, more func() bool) bool {
	return w.advance(until, more) && !w.stopped
}

// advance is the loop of the world; it reports whether more turned false.
func (w *World) advance(until int64, more func() bool) bool {
	w.prepare()
	for !w.stopped {
		if more != nil && !more() {
			return true
		}
		if len(w.heap.list) == 0 || w.heap.list[0].at > until {
			w.now = max(w.now, until)
			return false
		}
		e := w.heap.pop()
		if e.at < w.now {
			invariant.That(false, "time runs backwards: %d after %d", e.at, w.now)
		}
		w.now = e.at
		w.stats.Events++
		if w.stats.Events > w.opts.MaxEvents {
			w.find(nil, "hang", fmt.Sprintf("%d events", w.stats.Events))
		}
		w.running = true
		w.dispatch(&e)
		w.drain()
		w.running = false
	}
	return false
}

// dispatch continues one event.
func (w *World) dispatch(e *entry) {
	switch e.what {
	case evNet:
		w.net.Fire(w.now, e.ref)
	case evLand:
		w.onLand(w.nodes[e.node], e.ref)
	case evDone:
		w.onDone(w.nodes[e.node], e.ref)
	case evRun:
		if n := w.nodes[e.node]; n.runAt == w.now {
			n.runAt = -1
			w.wakeUp(n)
		}
	case evWake:
		if n := w.nodes[e.node]; n.wakeAt == w.now {
			n.wakeAt = -1
			w.wakeUp(n)
		}
	case evBoot:
		w.onBoot(w.nodes[e.node])
	case evFault:
		w.fire(w.faults[e.ref])
	case evFaultEnd:
		w.endFault(w.faults[e.ref])
	case evCall:
		do := w.calls[e.ref]
		w.calls[e.ref] = nil
		w.freeCalls = append(w.freeCalls, e.ref)
		do()
	}
}

// Now is the true time in nanoseconds since the world began.
func (w *World) Now() int64 { return w.now }

// find records a finding and stops the run.
func (w *World) find(n *host, kind, text string) {
	f := Finding{At: w.now, Kind: kind, Text: text}
	if n != nil {
		f.Node = n.spec.Name
	}
	w.findings = append(w.findings, f)
	w.stopped = true
}

// Fail lets a judge record a finding and stop the run.
func (w *World) Fail(node, kind, text string) {
	w.findings = append(w.findings, Finding{At: w.now, Node: node, Kind: kind, Text: text})
	w.stopped = true
}

// Findings returns what went wrong, oldest first.
func (w *World) Findings() []Finding { return w.findings }

// Hash is the rolling hash over every event and decision so far.
func (w *World) Hash() uint64 { return w.hash.all }

// SubHash is the rolling hash of one subsystem of one node.
func (w *World) SubHash(name string, s Subsystem) uint64 { return w.byName[name].sub[s] }

// Machine returns the node's running machine, nil while it is down.
func (w *World) Machine(name string) node.Machine { return w.Node(name).Machine() }

// Clock samples the clocks of a node.
func (w *World) Clock(name string) node.Now { return w.byName[name].clock.now(w.now) }

// Decider answers choices of scenarios at sites of their own.
func (w *World) Decider() *decide.Decider { return w.decider }

// Options returns the world's options.
func (w *World) Options() Options { return w.opts }

// Plan returns the plan that makes the run.
func (w *World) Plan() *Plan { return w.plan }

// Faults returns the plan's faults and those injected, with what became of them.
func (w *World) Faults() []*Fault { return w.faults }

// Stats returns the counts so far.
func (w *World) Stats() Stats {
	s := w.stats
	s.Net, s.Steps = w.net.Stats(), w.hash.steps
	return s
}

// Stale lists the entries of the plan that had no effect: faults that did not
// fire and overrides that decided nothing. A corpus plan with any is stale.
func (w *World) Stale() []string {
	var out []string
	for _, f := range w.plan.Faults {
		if f.Fired == 0 {
			why := "did not fire"
			if f.Refused != "" {
				why = f.Refused
			}
			out = append(out, FormatFault(f)+": "+why)
		}
	}
	for _, o := range w.decider.Stale() {
		out = append(out, formatChoice(&o)+": decided nothing")
	}
	return slices.Clip(out)
}
