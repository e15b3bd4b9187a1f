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

var _ = register(leaderCrash, quorumLoss)

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

// quorumLoss isolates a majority of the controllers, then breaks a broker.
var quorumLoss = &Drill{
	ID: "A8", Name: "controller-quorum-loss", Real: true,
	Story: "A majority of the controllers is isolated; then a master or a slave dies; then all heals. Without quorum nobody is elected and no set changes; with lease off writes go on, with required they end by the deadline; afterwards it recovers by itself. Two of five lost is normal service.",
	Pin: func(rnd *prng.Source, s *Setup) {
		s.Controllers, s.Replicas = pick(rnd, 3, 5), 3
		s.Throttle = 0
	},
	Faults: func(c *Cast) []*sim.Fault {
		lose := []string{"@leader", "@follower/0"}
		if c.Setup.Controllers == 5 && c.Rnd.Chance(2, 3) {
			lose = append(lose, "@follower/1")
		}
		lasts := c.Drawn(35*time.Second, 45*time.Second)
		faults := []*sim.Fault{Strike(sim.CrashSilent, At(3*time.Second), lasts, lose...)}
		if victim := pick(c.Rnd, "", "@master/a", "@slave/a/0"); victim != "" {
			faults = append(faults, Strike(sim.CrashSilent, At(18*time.Second), lasts, victim))
		}
		return faults
	},
	Chaos: int64(55 * time.Second),
	Least: checker.Activity{Before: 10, After: 20},
	Assertions: []Assertion{
		{"nothing committed without quorum", "no promotion and no set change while the majority is gone", func(r *Run) string {
			from, to, lost := r.quorumGap()
			if !lost {
				return moot
			}
			for i := range r.Judge.Roles {
				if at := int64(r.Judge.Roles[i].At * 1e9); at > from+int64(time.Second) && at < to {
					return fmt.Sprintf("%s set %s epoch %d committed at %.1fs", r.Judge.Roles[i].Group, r.Judge.Roles[i].Set, r.Judge.Roles[i].Epoch, float64(at)/1e9)
				}
			}
			return ""
		}},
		{"minority loss is normal service", "two of five lost: a dead master is replaced as ever", func(r *Run) string {
			if _, _, lost := r.quorumGap(); lost || !r.masterStruck() {
				return moot
			}
			if _, ok := r.electedAfterFault(); !ok {
				return "nobody was elected although a quorum was up"
			}
			return ""
		}},
		{"lease off: writes go on", "a healthy master acknowledges through the whole gap", func(r *Run) string {
			from, to, lost := r.quorumGap()
			if !lost || r.Setup.Lease != broker.LeaseOff || r.Setup.Groups < 2 && r.brokerStruck() {
				return moot
			}
			group := GroupName(r.Setup.Groups - 1)
			if r.acksBetween(group, to-int64(10*time.Second), to) == 0 {
				return fmt.Sprintf("nothing acknowledged in the last 10s of a gap of %.0fs", float64(to-from)/1e9)
			}
			return ""
		}},
		{"required: writes end by the deadline", "nothing is acknowledged after the last grant has run out", func(r *Run) string {
			from, to, lost := r.quorumGap()
			if !lost || r.Setup.Lease != broker.LeaseRequired {
				return moot
			}
			for g := range r.Setup.Groups {
				if n := r.acksBetween(GroupName(g), from+int64(r.Setup.LeaseDuration)+int64(time.Second), to); n > 0 {
					return fmt.Sprintf("%d sends acknowledged after the lease must have ended", n)
				}
			}
			return ""
		}},
	},
}

// quorumGap is when the controllers had no majority, from the plan.
func (r *Run) quorumGap() (from, to int64, lost bool) {
	f := r.Plan.Faults[0]
	n := strings.Count(f.Text, "@leader") + strings.Count(f.Text, "@follower/")
	return f.When.At, f.When.At + f.For, n > r.Setup.Controllers/2
}

// brokerStruck reports whether the plan hits a broker.
func (r *Run) brokerStruck() bool { return len(r.Plan.Faults) > 1 }
