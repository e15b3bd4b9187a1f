package sim

import (
	"lockstep/node"
)

// World is one simulated run.
type World struct {
	opts Options
	plan *Plan
	now  int64
}

// New opens a world. It panics when another is open in this process.
func New(opts Options, plan *Plan) *World { return &World{opts: opts, plan: plan} }

// Add makes a node; all nodes are added before the first Run.
func (w *World) Add(spec NodeSpec) {}

// Observe adds a judge or recorder.
func (w *World) Observe(o Observer) {}

// Handle registers what an Action fault named name does.
func (w *World) Handle(name string, do func(w *World, f *Fault)) {}

// At calls do at the true time at: for scenarios' own schedule.
func (w *World) At(at int64, do func()) {}

// Run advances until true time until (nanoseconds) or the first finding; it
// reports whether no finding was made.
func (w *World) Run(until int64) bool { return true }

// RunWhile advances while more() holds, until at most until; it reports
// whether more turned false in time with no finding.
func (w *World) RunWhile(until int64, more func() bool) bool { return true }

// Now is the true time in nanoseconds since the world began.
func (w *World) Now() int64 { return w.now }

// Inject makes a fault fire now.
func (w *World) Inject(f *Fault) {}

// Heal ends all faults among the nodes of core, starts those that are down and
// spares them from entries that have not fired yet (phase B).
func (w *World) Heal(core []string) {}

// Findings returns what went wrong, oldest first.
func (w *World) Findings() []Finding { return nil }

// Hash is the rolling hash over every event and decision so far.
func (w *World) Hash() uint64 { return 0 }

// Machine returns the node's running machine, nil while it is down.
func (w *World) Machine(name string) node.Machine { return nil }

// Close ends the world and restores crypto/rand.Reader.
func (w *World) Close() {}
