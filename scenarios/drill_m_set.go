package scenarios

import (
	"fmt"
	"time"

	"lockstep/checker"
	"lockstep/internal/event"
	"lockstep/internal/prng"
	"lockstep/node/broker"
	"lockstep/sim"
)

var _ = register(nonMember, lateAlter, idleReturn, wallStep)

// nonMember leaves a slave that follows and is in no committed set, and stops the
// one that is.
var nonMember = &Drill{
	ID: "M-non-member", Name: "non-member",
	Story: "Two copies are asked for. A slave follows again but the controllers are out of reach, so no set lets it in; then the other slave, the member, stops. Acknowledgements of the one that is in no set do not count: sends wait.",
	Pin: func(rnd *prng.Source, s *Setup) {
		s.Groups, s.Controllers, s.Replicas, s.All, s.Count, s.Min, s.Throttle = 1, 3, 3, false, 2, pick(rnd, 1, 2), 0
		s.Lease, s.HeartbeatTimeout, s.NotCatchup = broker.LeaseOff, 10*time.Second, 15*time.Second
	},
	Begin: func(r *Run) {
		r.stage("non-member", func(f *sim.Fault) {
			m, b, a := r.one("@master/a"), r.one("@slave/a/0"), r.one("@slave/a/1")
			id := r.idOf(b)
			r.strike(sim.CrashExit, 2*time.Second, b)
			r.on(event.SlaveJoined, func(e event.Event) bool { return e.Node == m && e.Broker == id }, func(event.Event) {
				r.sever(sim.Cut, 8*time.Second, []string{m}, r.resolve("@controllers"))
				r.after(time.Duration(f.Arg)*time.Millisecond, func() {
					r.mark("member stops")
					r.note("member stops")
					r.strike(sim.Pause, time.Duration(f.For), a)
				})
			})
		})
	},
	Faults: func(c *Cast) []*sim.Fault {
		return []*sim.Fault{Stage("non-member", c.Between(2*time.Second, 5*time.Second), c.Drawn(2*time.Second, 4*time.Second), c.Rnd.Between(300, 1000))}
	},
	Chaos: int64(40 * time.Second),
	Least: checker.Activity{Before: 20, After: 20, Marks: []string{"member stops"}},
	Assertions: []Assertion{
		{"it does not count", "while the only other member stands still nothing is acknowledged", func(r *Run) string {
			from, lasts := r.stamp("member stops"), r.firstFault().For
			if lasts == 0 {
				return moot
			}
			if n := r.acksBetween(GroupName(0), from+int64(200*time.Millisecond), from+lasts); n > 0 {
				return fmt.Sprintf("%d sends were acknowledged", n)
			}
			return ""
		}},
		noLoss,
	},
}

// lateAlter changes a member's life while its proposal is on the way.
var lateAlter = &Drill{
	ID: "M-late-alter", Name: "late-alter",
	Story: "The master proposes a slave that has passed the join test; the proposal is held up in the network. Meanwhile the slave's disk is replaced, its identity kept, and its new life registers. Then the proposal arrives: it names a life that is gone, and is refused (P2).",
	Pin:   func(rnd *prng.Source, s *Setup) { slowCatchUp(rnd, s, 3) },
	Begin: func(r *Run) { r.stage("late-alter", r.holdProposal) },
	Faults: func(c *Cast) []*sim.Fault {
		return []*sim.Fault{Stage("late-alter", c.Between(6*time.Second, 8*time.Second), c.Drawn(2000*time.Millisecond, 2600*time.Millisecond), c.Rnd.Between(0, 3))}
	},
	Chaos: int64(60 * time.Second),
	Least: checker.Activity{Before: 20, After: 20, Marks: []string{"new life"}},
	Assertions: []Assertion{
		{"refused", "the proposal that names the earlier life is refused", func(r *Run) string {
			if r.Judge.Count(event.AlterRefused, func(e event.Event) bool { return e.At > r.stamp("new life") }) == 0 {
				return "no alter was refused"
			}
			return ""
		}},
		noLoss,
	},
}

// holdProposal lets a slave come back, holds what the master tells the controllers
// from the moment on that the slave transfers, and renews the slave's disk as soon as
// it is proposed.
func (r *Run) holdProposal(f *sim.Fault) {
	m, b := r.one("@master/a"), r.one("@slave/a/0")
	r.victim = r.idOf(b)
	r.strike(sim.CrashExit, 2*time.Second, b)
	r.on(event.SlaveJoined, func(e event.Event) bool { return e.Node == m && e.Broker == r.victim }, func(event.Event) {
		r.inject(&sim.Fault{Kind: sim.Stall, Shape: sim.Away, Sides: [][]string{{m}, r.resolve("@controllers")}, For: f.For})
		r.on(event.AlterProposed, setWith(r.victim), func(event.Event) {
			r.narrow(m, b)
			r.renew(b)
			r.on(event.BrokerRegistered, ofBroker(r.victim), func(event.Event) {
				r.mark("new life")
				r.note("new life")
			})
		})
	})
}

// idleReturn lets a slave come back to a group to which nobody writes.
var idleReturn = &Drill{
	ID: "M-idle-return", Name: "idle-return",
	Story: "Nobody writes. The only slave dies, the set shrinks below the floor, and the slave comes back with exactly the master's log: there is nothing to send, in no new epoch. The prefix that the handshake verified counts as acknowledged, so it joins and the group is writable when the load comes (P8).",
	Pin: func(rnd *prng.Source, s *Setup) {
		trio(rnd, s, 2)
		s.NotCatchup, s.CheckSet = 3*time.Second, time.Second
	},
	Begin: func(r *Run) {
		r.stage("quiet", func(*sim.Fault) { r.Load.Idle = true })
		r.stage("load", func(*sim.Fault) {
			r.Load.Idle = false
			r.note("load")
		})
		r.stage("lose-slave", func(f *sim.Fault) {
			r.note("slave lost")
			r.strike(pickKind(f.Arg%2), time.Duration(f.For), r.one("@slave/a/0"))
		})
	},
	Faults: func(c *Cast) []*sim.Fault {
		return []*sim.Fault{
			Stage("quiet", At(2*time.Second), 0, 0),
			Stage("lose-slave", c.Between(8*time.Second, 10*time.Second), c.Drawn(8*time.Second, 12*time.Second), c.Rnd.Between(0, 1)),
			Stage("load", At(50*time.Second), 0, 0),
		}
	},
	Chaos: int64(60 * time.Second),
	Least: checker.Activity{Before: 20, After: 20},
	Assertions: []Assertion{
		{"the set shrinks", "the lost slave leaves the set", func(r *Run) string {
			if _, ok := r.Judge.First(event.SetAltered, func(e event.Event) bool { return e.At > r.stamp("slave lost") && len(e.Set) == 1 }); !ok {
				return "the set never was the master alone"
			}
			return ""
		}},
		{"joins without a write", "the slave is back in the set before the load comes", func(r *Run) string {
			shrunk, ok := r.Judge.First(event.SetAltered, func(e event.Event) bool { return e.At > r.stamp("slave lost") && len(e.Set) == 1 })
			if grown := r.setGrewAfter(shrunk.At); ok && grown > r.stamp("load") {
				return fmt.Sprintf("the set grew at %s, the load came at %s", at(grown), at(r.stamp("load")))
			}
			return ""
		}},
		noLoss,
	},
}

// wallStep sets the wall clock of a cut-off master back.
var wallStep = &Drill{
	ID: "M-wall-step", Name: "wall-step",
	Story: "A lease is required. The master loses the controllers and its wall clock jumps back by an hour. The lease ends by the monotonic clock all the same: nothing is acknowledged after its deadline, and no two masters are writable (P12).",
	Pin: func(rnd *prng.Source, s *Setup) {
		s.Groups, s.Replicas, s.Controllers, s.Throttle = 1, 3, 3, 0
		s.Lease, s.All, s.Min, s.Count = broker.LeaseRequired, rnd.Chance(1, 2), 1, 1
	},
	Faults: func(c *Cast) []*sim.Fault {
		when := c.Between(3*time.Second, 6*time.Second)
		return []*sim.Fault{
			Sever(sim.Cut, sim.Split, when, c.Drawn(35*time.Second, 45*time.Second), []string{"@master/a"}, []string{"@controllers"}),
			WithArg(Strike(sim.WallStep, when, 0, "@master/a"), -3_600_000),
		}
	},
	Least:      checker.Activity{Before: 20, After: 20},
	Assertions: append([]Assertion{}, controlPlanePartition.Assertions[3]),
}
