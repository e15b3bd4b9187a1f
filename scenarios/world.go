package scenarios

import (
	"time"

	"lockstep/node"
	"lockstep/sim"
	"lockstep/storage/vfs"
)

// World is where a run takes place: the simulator, or nodes of one process with
// real sockets, files and a real clock. Times are nanoseconds since the world
// began, in the time of its nodes. Whoever calls a World owns it: nothing in it
// moves except inside Run and RunWhile, and whatever it calls back runs with the
// world held.
type World interface {
	// Host names the kind of world in reports.
	Host() string
	// Now is the true time.
	Now() int64
	// Slack is how much later than asked things may happen here for no fault of any
	// node's: 0 where time is simulated. Limits of milliseconds are widened by it.
	Slack() time.Duration

	// Add makes a node, before the first Run.
	Add(s sim.NodeSpec)
	// Node returns a node by name; it panics when there is none.
	Node(name string) Node
	// Machine is the node's running machine, nil while it is down.
	Machine(name string) node.Machine

	// Run goes on until the true time until, or the first finding; it reports whether
	// none was made. RunWhile stops sooner, when more turns false, and reports whether
	// that happened.
	Run(until int64) bool
	RunWhile(until int64, more func() bool) bool
	// Wake makes a node settle although it has no news.
	Wake(name string)
	// At calls do at the true time at, or at once when that is past.
	At(at int64, do func())

	// Handle says what an action of the plan with that text does.
	Handle(text string, do func(f *sim.Fault))
	// Inject makes a fault happen now; its error says why it cannot.
	Inject(f *sim.Fault) error
	// SetEra begins a fault budget: only its victims may lose what was durable.
	SetEra(e *sim.Era)
	// EndFault takes a fault back before its time.
	EndFault(f *sim.Fault)
	// Heal ends the faults at and between the nodes of core, starts those that are
	// down, and lets no fault touch them any more.
	Heal(core []string)

	// Observe adds a judge.
	Observe(o sim.Observer)
	// Findings are what the world found wrong by itself, oldest first; Audit looks a
	// last time, when the run is over, whether Disk told the truth.
	Findings() []sim.Finding
	Audit() []sim.Finding
	// Stale lists entries of the plan that had no effect.
	Stale() []string
	// Hash is the rolling hash of the run; 0 where no run is like another.
	Hash() uint64
	// Stats counts what the world did.
	Stats() sim.Stats
	// Close ends the world and everything that runs in it.
	Close()
}

// Node is a scenario's view of one node: the truth, whatever the machine believes.
type Node interface {
	// Machine is the running machine, nil while the node is down.
	Machine() node.Machine
	// Disk is the truth about the bytes on the node's disk, cached and durable.
	Disk() *vfs.Mem
	// Peer is the far end of an open session of the running machine.
	Peer(s node.SessionID) (node.Peer, bool)
}

// simulated makes a simulator's world a World.
type simulated struct{ *sim.World }

var _ World = simulated{}

// Host is how reports name the simulator.
func (simulated) Host() string { return "sim" }

// Slack is nothing: simulated time has no haste.
func (simulated) Slack() time.Duration { return 0 }

// Audit finds nothing: the simulated disk is the truth.
func (simulated) Audit() []sim.Finding { return nil }

// Add makes a node.
func (w simulated) Add(s sim.NodeSpec) { w.World.Add(s) }

// Node returns a node by name.
func (w simulated) Node(name string) Node { return w.World.Node(name) }

// Handle says what an action does.
func (w simulated) Handle(text string, do func(f *sim.Fault)) {
	w.World.Handle(text, func(_ *sim.World, f *sim.Fault) { do(f) })
}
