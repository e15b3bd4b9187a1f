package scenarios

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstep/checker"
	"lockstep/internal/event"
	"lockstep/internal/prng"
	"lockstep/node/controller"
	"lockstep/sim"
)

var _ = register(initialise)

// initialise starts every node in a drawn order.
var initialise = &Drill{
	ID: "C4", Name: "initialise",
	Story: "Controllers, brokers and name servers start in every order. A cluster of several controllers begins only with the opt-in, only once, by the lowest configured id, and not while one of them cannot be asked; two sides of a partition do not make two clusters. Restarts of all controllers, with the opt-in still there, initialise nothing again.",
	Pin: func(rnd *prng.Source, s *Setup) {
		s.Controllers = pick(rnd, 1, 3, 3, 5)
		s.Throttle = 0
		s.HeartbeatTimeout = min(s.HeartbeatTimeout, 5*time.Second)
	},
	Node: func(r *Run, n *sim.NodeSpec) {
		if _, late := r.startOf(n.Name); late {
			n.Late = true
		}
	},
	Controller: func(r *Run, l sim.Life, o *controller.Options) {
		if r.planned("opt-in") && l.Ordinal == 1 {
			o.Initialise = false
		}
	},
	Begin: func(r *Run) {
		r.stage("opt-in", func(*sim.Fault) {
			r.note("opt-in")
			r.strike(sim.CrashExit, 200*time.Millisecond, ControllerNode(0))
		})
		r.stage("lose-leader", func(f *sim.Fault) {
			r.note("leader lost")
			r.strike(sim.Pause, time.Duration(f.For), r.one("@leader"))
		})
		r.stage("restart-all", func(f *sim.Fault) {
			r.cluster = r.clusters()
			r.mark("restarted")
			r.strike(pickKind(f.Arg), time.Duration(f.For), r.resolve("@controllers")...)
		})
	},
	Faults: startOrder,
	Chaos:  int64(45 * time.Second),
	Least:  checker.Activity{After: 20, Marks: []string{"restarted"}},
	Assertions: []Assertion{
		{"any order serves", "whatever the order, every group is writable soon after the last node has started", func(r *Run) string {
			if r.Healed == 0 {
				return "the cluster never acknowledged a send in every group"
			}
			return ""
		}},
		{"nothing without the opt-in", "several controllers without the opt-in elect no leader and take no broker", func(r *Run) string {
			if r.Setup.Controllers == 1 || !r.planned("opt-in") {
				return moot
			}
			if e, ok := r.Judge.First(event.LeaderChanged, func(e event.Event) bool { return !isBroker(e.Node) && e.Broker > 0 }); ok && e.At < r.stamp("opt-in") {
				return fmt.Sprintf("%s had a leader at %s, the opt-in came at %s", e.Node, at(e.At), at(r.stamp("opt-in")))
			}
			return ""
		}},
		{"not while one cannot be asked", "no leader before every configured controller has started and is in reach", func(r *Run) string {
			if r.Setup.Controllers == 1 {
				return moot
			}
			last := int64(0)
			for i := range r.Setup.Controllers {
				t, _ := r.startOf(ControllerNode(i))
				last = max(last, t)
			}
			last = max(last, r.plannedCut())
			e, ok := r.Judge.First(event.LeaderChanged, func(e event.Event) bool { return !isBroker(e.Node) && e.Broker > 0 })
			if ok && e.At < last {
				return fmt.Sprintf("%s had a leader at %s, the last controller was in reach at %s", e.Node, at(e.At), at(last))
			}
			return ""
		}},
		{"one cluster", "all controllers are in one and the same cluster", func(r *Run) string {
			if c := r.clusters(); strings.Contains(c, ",") || c == "" {
				return "the controllers are in clusters " + c
			}
			return ""
		}},
		{"every controller counts", "whatever order they came in, the others elect a leader when the first one stops", func(r *Run) string {
			lost := r.stamp("leader lost")
			if lost == 0 {
				return moot
			}
			if _, ok := r.Judge.First(event.LeaderChanged, func(e event.Event) bool {
				return !isBroker(e.Node) && e.Broker > 0 && e.At > lost && e.At < lost+int64(5*time.Second)
			}); !ok {
				return fmt.Sprintf("no leader within 5s of %s, when the leader stopped", at(lost))
			}
			return ""
		}},
		{"restart never re-initialises", "after all controllers restarted with the opt-in they are in the cluster they were in", func(r *Run) string {
			if c := r.clusters(); c != r.cluster {
				return fmt.Sprintf("clusters %s before the restart, %s after", r.cluster, c)
			}
			return ""
		}},
	},
}

// clusters lists the clusters that running controllers are members of.
func (r *Run) clusters() string {
	var out []string
	for i := range r.Setup.Controllers {
		if c, ok := r.World.Machine(ControllerNode(i)).(*controller.Controller); ok && c != nil {
			if s, _ := c.State(); s.Cluster != "" {
				out = append(out, s.Cluster)
			}
		}
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ",")
}

// startOf is when the plan starts a node; ok is false for one that starts by itself.
func (r *Run) startOf(name string) (at int64, ok bool) {
	for _, f := range r.Plan.Faults {
		if f.Kind == sim.Start && slices.Contains(f.Nodes, name) {
			return f.When.At, true
		}
	}
	return 0, false
}

// plannedCut is when the partition between the starting controllers ends, 0 none.
func (r *Run) plannedCut() int64 {
	for _, f := range r.Plan.Faults {
		if f.Kind == sim.Cut {
			return f.When.At + f.For
		}
	}
	return 0
}

// startOrder shuffles all servers and starts them one by one in the first seconds;
// sometimes the controllers begin as two sides, or without the opt-in.
func startOrder(c *Cast) []*sim.Fault {
	s := c.Setup
	all := append(names(s.Controllers, ControllerNode), names(s.Namesrvs, NamesrvNode)...)
	for g := range s.Groups {
		for b := range s.Replicas {
			all = append(all, BrokerNode(g, b))
		}
	}
	for i := len(all) - 1; i > 0; i-- {
		k := c.Rnd.Intn(i + 1)
		all[i], all[k] = all[k], all[i]
	}
	var out []*sim.Fault
	when, gap := int64(0), int64(6*time.Second)/int64(len(all))
	for _, n := range all {
		when += c.Rnd.Between(1, 2*gap)
		out = append(out, &sim.Fault{Kind: sim.Start, Nodes: []string{n}, When: sim.Trigger{At: min(when, int64(7*time.Second))}})
	}
	if s.Controllers > 1 {
		k := 1 + c.Rnd.Intn(s.Controllers-1)
		list := names(s.Controllers, ControllerNode)
		switch c.Rnd.Intn(3) {
		case 0:
			out = append(out, &sim.Fault{Kind: sim.Cut, Shape: sim.Split, Sides: [][]string{list[:k], list[k:]}, When: sim.Trigger{At: 1}, For: int64(c.Drawn(3*time.Second, 6*time.Second))})
		case 1:
			out = append(out, Stage("opt-in", sim.Trigger{At: int64(c.Drawn(7200*time.Millisecond, 8500*time.Millisecond))}, 0, 0))
		}
	}
	if s.Controllers > 1 {
		out = append(out, Stage("lose-leader", At(time.Second), c.Drawn(6*time.Second, 8*time.Second), 0))
	}
	return append(out, Stage("restart-all", c.Between(12*time.Second, 16*time.Second), c.Drawn(500*time.Millisecond, 4*time.Second), c.Rnd.Between(0, 2)))
}
