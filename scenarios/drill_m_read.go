package scenarios

import (
	"fmt"
	"time"

	"lockstep/checker"
	"lockstep/internal/event"
	"lockstep/internal/prng"
	"lockstep/node"
	"lockstep/sim"
)

var _ = register(freshReader)

// Names of the reader that comes late.
const (
	lateNode    = "late"
	lateWatcher = 9
)

// freshReader lets a restarted slave lead and reads everything from it.
var freshReader = &Drill{
	ID: "M-fresh-reader", Name: "fresh-reader",
	Story: "A slave is killed and comes back: its queues are rebuilt from its log. Then the master dies, that slave leads, and a consumer that nobody has seen before reads every queue from its beginning: it finds every message at its offset (P7, M1).",
	Pin: func(rnd *prng.Source, s *Setup) {
		trio(rnd, s, 2)
		s.Min, s.HeartbeatTimeout, s.ScanInterval = 1, 3*time.Second, time.Second
	},
	Begin: func(r *Run) {
		r.add(sim.NodeSpec{Name: lateNode, Late: true, Boot: r.bootClient(lateNode), App: func(sim.Life, node.Machine) sim.App {
			return r.Load.NewWatcher(lateWatcher, true)
		}})
		r.stage("fresh-reader", func(f *sim.Fault) {
			m, b := r.one("@master/a"), r.one("@slave/a/0")
			r.strike(sim.CrashExit, time.Second, b)
			r.on(event.Started, func(e event.Event) bool { return e.Node == b }, func(event.Event) {
				r.after(6*time.Second, func() { r.strike(sim.CrashExit, time.Duration(f.For), m) })
			})
			r.on(event.Serving, func(e event.Event) bool { return e.Node == b }, func(event.Event) {
				r.mark("restarted slave leads")
				r.after(time.Duration(f.Arg)*time.Millisecond, func() { r.inject(&sim.Fault{Kind: sim.Start, Nodes: []string{lateNode}}) })
			})
		})
	},
	Faults: func(c *Cast) []*sim.Fault {
		return []*sim.Fault{Stage("fresh-reader", c.Between(2*time.Second, 4*time.Second), c.Drawn(25*time.Second, 30*time.Second), c.Rnd.Between(500, 3000))}
	},
	Chaos: int64(50 * time.Second),
	Least: checker.Activity{Before: 20, After: 20, Marks: []string{"restarted slave leads"}},
	Assertions: []Assertion{
		{"reads everything", "the consumer that came last has read every message that the last master holds", func(r *Run) string {
			type place struct {
				queue  string
				offset int64
			}
			read := map[place]bool{}
			for i := range r.Load.Ops {
				if op := &r.Load.Ops[i]; op.Client == firstWatcher+lateWatcher && op.Kind == checker.Read {
					read[place{op.Queue, op.Offset}] = true
				}
			}
			missing, first := 0, ""
			for q := range r.Setup.Queues {
				name := queueName(GroupName(0), Topic, int32(q))
				for _, e := range r.Final[name] {
					if read[place{name, e.Offset}] {
						continue
					}
					if missing++; first == "" {
						first = fmt.Sprintf("%s at offset %d of %s", e.Key, e.Offset, name)
					}
				}
			}
			if missing > 0 {
				return fmt.Sprintf("%d messages were not read, the first is %s", missing, first)
			}
			return ""
		}},
		noLoss,
	},
}
