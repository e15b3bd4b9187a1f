package scenarios

import (
	"fmt"
	"strings"
	"time"

	"lockstep/checker"
	"lockstep/internal/event"
	"lockstep/internal/prng"
	"lockstep/node/broker"
	"lockstep/sim"
)

var _ = register(leaderCrash)

// leaderCrash kills the controllers' leader, also in the middle of a set change
// and together with a master.
var leaderCrash = &Drill{
	ID: "A7", Name: "controller-leader-crash", Real: true,
	Story: "The controllers' leader dies: alone, at the moment of a set change, or with a master. Another takes over, heartbeats of the interval count, no broker demotes itself and none is fenced, under a required lease too.",
	Pin: func(rnd *prng.Source, s *Setup) {
		s.Controllers, s.Replicas = pick(rnd, 3, 5), 3
		s.LeaseDuration = 10 * time.Second
		s.Throttle = 0
	},
	Faults: func(c *Cast) []*sim.Fault {
		kind := pick(c.Rnd, sim.CrashExit, sim.CrashSilent, sim.PowerLoss, sim.Pause)
		lasts := c.Drawn(20*time.Second, 30*time.Second)
		switch c.Rnd.Intn(3) {
		case 0: // the change is proposed, its leader dies
			when := sim.Trigger{Kind: event.AlterProposed, K: c.Setup.Groups*(c.Setup.Replicas-1) + 1, Delay: c.Rnd.Between(0, int64(5*time.Millisecond))}
			return []*sim.Fault{Strike(sim.CrashExit, c.Between(3*time.Second, 5*time.Second), 30*time.Second, "@slave/a/0"), Strike(kind, when, lasts, "@leader")}
		case 1:
			when := c.Between(3*time.Second, 6*time.Second)
			return []*sim.Fault{Strike(kind, when, lasts, "@leader"), Strike(sim.CrashSilent, when, 30*time.Second, "@master/a")}
		}
		return []*sim.Fault{Strike(kind, c.Between(3*time.Second, 6*time.Second), lasts, "@leader")}
	},
	Least: checker.Activity{Before: 20, After: 20},
	Assertions: []Assertion{
		{"new leader", "another controller leads after the crash", func(r *Run) string {
			if _, ok := r.Judge.First(event.LeaderChanged, func(e event.Event) bool { return e.At > r.Judge.FirstFault && e.Broker > 0 }); !ok {
				return "no other leader appeared"
			}
			return ""
		}},
		{"no broker demotes itself", "masters that live keep their role", func(r *Run) string {
			if r.masterStruck() {
				return moot
			}
			if e, ok := r.Judge.First(event.Demoted, func(e event.Event) bool { return e.At > r.Judge.FirstFault && e.At < r.Healed }); ok {
				return fmt.Sprintf("%s: %s", e.Node, e.Text)
			}
			return ""
		}},
		{"none is fenced", "losing a controller leader never fences a master", func(r *Run) string {
			if r.masterStruck() || r.Setup.Lease != broker.LeaseRequired {
				return moot
			}
			if e, ok := r.Judge.First(event.LeaseExpired, func(e event.Event) bool { return e.At > r.Judge.FirstFault && e.At < r.Healed }); ok {
				return fmt.Sprintf("%s lost its lease %.1fs after the crash", e.Node, float64(e.At-r.Judge.FirstFault)/1e9)
			}
			return ""
		}},
		{"no needless election", "heartbeats of the interval count: a living master is not replaced", func(r *Run) string {
			if r.masterStruck() {
				return moot
			}
			if e, ok := r.Judge.First(event.Elected, func(e event.Event) bool { return e.At > r.Judge.FirstFault && e.At < r.Healed }); ok {
				return fmt.Sprintf("%s epoch %d elected at %.1fs", e.Group, e.Epoch, float64(e.At)/1e9)
			}
			return ""
		}},
		{"a master lost with it is replaced", "the death of the leader keeps nobody from electing a successor while both are away", func(r *Run) string {
			if !r.masterStruck() {
				return moot
			}
			if e, ok := r.electedAfterFault(); !ok || e.At > r.Healed {
				return "nobody was elected"
			}
			return ""
		}},
		{"the change is retried or known to have failed", "a proposal caught by the crash ends in a committed set", func(r *Run) string {
			p, ok := r.Judge.First(event.AlterProposed, func(e event.Event) bool { return e.At > r.Judge.FirstFault })
			if !ok {
				return moot
			}
			if _, ok := r.Judge.First(event.SetAltered, func(e event.Event) bool { return e.Group == p.Group && e.At > p.At }); !ok {
				return fmt.Sprintf("%s proposed %v at %.1fs and no set was ever committed", p.Node, p.Set, float64(p.At)/1e9)
			}
			return ""
		}},
	},
}

// masterStruck reports whether the plan hits a master too.
func (r *Run) masterStruck() bool {
	for _, f := range r.Plan.Faults {
		if strings.Contains(f.Text, "@master") {
			return true
		}
	}
	return false
}
