package scenarios

import (
	"fmt"
	"time"

	"lockstep/checker"
	"lockstep/internal/event"
	"lockstep/internal/prng"
	"lockstep/sim"
)

var _ = register(coldCatchUp)

// coldCatchUp lets the newest part of the log leave memory while a throttled slave is
// still being sent it, in small frames that end inside records.
var coldCatchUp = &Drill{
	ID: "M-cold-catch-up", Name: "cold-catch-up",
	Story: "A slave comes back far behind. It is sent the log from memory, throttled, in frames that end anywhere; then nobody writes, the memory is let go, and the rest comes from the disk. Every read from there begins where a record is known to begin: the master finds no damage in its own log, and the slave gets everything.",
	Pin: func(rnd *prng.Source, s *Setup) {
		trio(rnd, s, 2, 3)
		s.Throttle, s.BatchBytes, s.BodyBytes, s.Rate = 160<<10, 4<<10, 2048, 70
		s.Min = 1
		s.NotCatchup = pick(rnd, 3*time.Second, 8*time.Second)
	},
	Begin: func(r *Run) {
		r.stage("far-behind", func(f *sim.Fault) {
			b := r.aim(r.one("@slave/a/0"))
			r.strike(sim.CrashExit, time.Duration(f.For), b)
			r.on(event.Following, func(e event.Event) bool { return e.Node == b }, func(event.Event) {
				r.note("back")
				r.mark("back")
				r.after(time.Duration(f.Arg), func() { r.Load.Idle = true })
				r.after(time.Duration(f.Arg)+14*time.Second, func() { r.Load.Idle = false })
			})
		})
	},
	Faults: func(c *Cast) []*sim.Fault {
		return []*sim.Fault{Stage("far-behind", At(2*time.Second), c.Drawn(16*time.Second, 20*time.Second), c.Rnd.Between(int64(500*time.Millisecond), int64(3*time.Second)))}
	},
	Chaos: int64(60 * time.Second),
	Least: checker.Activity{Before: 20, After: 20, Marks: []string{"back"}},
	Assertions: []Assertion{
		{"no damage in a sound log", "no broker takes its own log for damaged", func(r *Run) string {
			if e, ok := r.Judge.First(event.StoreSuspect, nil); ok {
				return fmt.Sprintf("%s at %s: %s", e.Node, at(e.At), e.Text)
			}
			return ""
		}},
		{"catches up", "the slave is in the set again before the end", func(r *Run) string {
			if _, ok := r.Judge.First(event.SetAltered, func(e event.Event) bool { return setWith(r.victim)(e) && e.At > r.stamp("back") }); !ok {
				return "no set named it again"
			}
			return ""
		}},
		noLoss,
	},
}
