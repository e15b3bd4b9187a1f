package scenarios

import (
	"fmt"
	"sort"

	"lockstep/checker"
	"lockstep/internal/prng"
	"lockstep/node/broker"
	"lockstep/node/controller"
	"lockstep/sim"
)

// Drill is one scenario: what is drawn and pinned, which faults come, what must
// be seen, and what the least activity is.
type Drill struct {
	ID    string // "A3"
	Name  string // "master-crash"
	Story string // what happens and what it proves, one or two sentences
	Real  bool   // also runs on real processes
	Fine  bool   // it measures milliseconds: in a live world time must not run faster than it does
	// Pin adjusts the drawn setup to what the drill is about.
	Pin func(rnd *prng.Source, s *Setup)
	// Faults makes the plan entries. Times count from Ready.
	Faults func(c *Cast) []*sim.Fault
	// Assertions are the clauses of "must be seen", each by name.
	Assertions []Assertion
	// Least is the least activity; a run below it is vacuous.
	Least checker.Activity
	// Rare are named states that some run of a large sweep must reach, though not each.
	Rare []string
	// Chaos and Calm are how long the faults and the healed phase last, simulated
	// nanoseconds; zero takes the default.
	Chaos, Calm int64
	// Beyond marks runs outside the fault budget: losses must be exactly those the
	// ledger allows, and there may be some.
	Beyond bool
	// Begin prepares a run whose world is built and not yet started: what actions of
	// the plan do, more nodes, observers.
	Begin func(r *Run)
	// Broker and Controller adjust the configuration of one life of a node, Node how a
	// node is added to the world.
	Broker     func(r *Run, l sim.Life, o *broker.Options)
	Controller func(r *Run, l sim.Life, o *controller.Options)
	Node       func(r *Run, n *sim.NodeSpec)
	// Vacant lets a fault against a role that nobody plays pass without effect.
	Vacant bool
	// World adjusts the simulated world itself: latencies, clocks.
	World func(s *Setup, o *sim.Options)
	// Expect names the finding that the run must make: a drill that leaves the
	// contract on purpose passes only when its violation is found, and nothing else.
	Expect string
	// Pure is a drill without a world: it checks a function or a store by itself and
	// returns what is wrong. Seeds vary its input.
	Pure func(rnd *prng.Source) (checked int, findings []checker.Finding)
	// Down says that the drill leaves a group without a master on purpose: it need
	// not be writable at the end.
	Down bool
}

// Assertion is one named clause.
type Assertion struct {
	Name string
	Text string // the clause in words
	// Check returns "" when the clause holds, moot when this run could not put it to the
	// test, else what is wrong. A drill without a world has none: its findings carry the
	// names of the clauses they break.
	Check func(r *Run) string
}

// moot is what a clause says whose premise did not come about: the run says nothing
// about it. A sweep in which a clause never was anything else has not tested it.
const moot = "(not put to the test)"

// Title is ID and name.
func (d *Drill) Title() string { return d.ID + " " + d.Name }

var registry []*Drill

// Drills returns all drills, families in order.
func Drills() []*Drill { return registry }

// Find returns the drills whose id or name matches, or whose title is the
// given text; an unknown name is an error that lists what exists.
func Find(name string) (*Drill, error) {
	for _, d := range registry {
		if d.ID == name || d.Name == name || d.ID+"-"+d.Name == name || d.Title() == name {
			return d, nil
		}
	}
	return nil, fmt.Errorf("no drill is called %q; drill list shows all %d", name, len(registry))
}

// register adds drills in table order; families are sorted by id.
func register(ds ...*Drill) bool {
	registry = append(registry, ds...)
	sort.SliceStable(registry, func(i, j int) bool { return drillOrder(registry[i].ID) < drillOrder(registry[j].ID) })
	return true
}

// drillOrder sorts A2 before A10.
func drillOrder(id string) string {
	i := 0
	for i < len(id) && (id[i] < '0' || id[i] > '9') {
		i++
	}
	return fmt.Sprintf("%-24s%s", id[:i], fmt.Sprintf("%6s", id[i:]))
}
