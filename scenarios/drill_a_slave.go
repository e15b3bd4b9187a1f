package scenarios

import (
	"fmt"
	"time"

	"lockstep/checker"
	"lockstep/internal/event"
	"lockstep/internal/prng"
	"lockstep/sim"
)

var _ = register(slaveCrash)

// slaveCrash is one in-sync slave that exits and comes back.
var slaveCrash = &Drill{
	ID: "A1", Name: "slave-crash", Real: true,
	Story: "An in-sync slave exits under load and comes back later. All-ack writes wait on the old set until the shrink commits, then go on or are refused exactly as the floor says; the slave catches up and re-enters, and the epoch never changes.",
	Pin: func(rnd *prng.Source, s *Setup) {
		s.Replicas = pick(rnd, 2, 3, 3)
		s.Throttle = 0
		s.clamp()
	},
	Faults: func(c *Cast) []*sim.Fault {
		kind := pick(c.Rnd, sim.CrashExit, sim.CrashSilent)
		return []*sim.Fault{Strike(kind, c.Between(2*time.Second, 6*time.Second), c.Setup.NotCatchup+c.Setup.CheckSet+c.Drawn(8*time.Second, 12*time.Second), "@slave/a/0")}
	},
	Begin: func(r *Run) { r.recordEnds() },
	Chaos: int64(75 * time.Second),
	Least: checker.Activity{Before: 10, After: 10},
	Assertions: []Assertion{
		{"waits on the old set", "under all-ack no send is acknowledged from the loss of the slave to the committed shrink", func(r *Run) string {
			shrunk, ok := r.shrunk()
			if !ok || !r.Setup.All {
				return moot
			}
			// One that the slave had acknowledged before it died may still leave.
			grace := r.within(200 * time.Millisecond)
			if n := r.acksBetween(GroupName(0), r.Judge.FirstFault+grace, shrunk.At-1); n > 0 {
				return fmt.Sprintf("%d sends acknowledged while a member of the set was gone", n)
			}
			return ""
		}},
		{"waiting sends end in unknown", "a send that waits for the lost slave is told neither success nor failure while the old set stands", func(r *Run) string {
			shrunk, ok := r.shrunk()
			// What the slave had acknowledged before it died may still be told.
			from := r.Judge.FirstFault + int64(r.Setup.SlaveTimeout+2*time.Second)
			if !ok || !r.Setup.All || shrunk.At-from < int64(time.Second) {
				return moot
			}
			return r.onlyUnknown(from, shrunk.At-1)
		}},
		{"set shrunk and committed", "the lost slave leaves the committed set", func(r *Run) string {
			if _, ok := r.shrunk(); !ok {
				return "no smaller set was committed after the fault"
			}
			return ""
		}},
		{"shrink in time", "at most haMaxTimeSlaveNotCatchup plus checkSyncStateSetPeriod, and a commit", func(r *Run) string {
			e, ok := r.shrunk()
			limit := r.Setup.NotCatchup + r.Setup.CheckSet + 5*time.Second
			if ok && e.At-r.Judge.FirstFault > int64(limit) {
				return fmt.Sprintf("took %.1fs, limit %v", float64(e.At-r.Judge.FirstFault)/1e9, limit)
			}
			return ""
		}},
		{"back in the set", "the slave catches up past the confirm offset in the current epoch and re-enters", func(r *Run) string {
			shrunk, ok := r.shrunk()
			if !ok {
				return moot
			}
			slave := r.idOf(r.firstDown())
			grown, ok := r.Judge.First(event.SetAltered, func(e event.Event) bool {
				return e.Group == GroupName(0) && e.At > shrunk.At && e.Set.Has(slave)
			})
			switch {
			case shrunk.Set.Has(slave):
				return fmt.Sprintf("the set shrank to %v, with the lost broker %d", shrunk.Set, slave)
			case !ok:
				return fmt.Sprintf("no set after %v names broker %d", shrunk.Set, slave)
			case grown.Epoch != shrunk.Epoch:
				return fmt.Sprintf("it is back in epoch %d, having left in %d", grown.Epoch, shrunk.Epoch)
			}
			return ""
		}},
		{"epoch unchanged", "the loss of a slave elects nobody", func(r *Run) string {
			if e, ok := r.electedAfterFault(); ok && e.At < r.Healed {
				return fmt.Sprintf("epoch %d elected at %.1fs", e.Epoch, float64(e.At)/1e9)
			}
			return ""
		}},
		{"writes as the floor says", "with the smaller set sends succeed exactly when it is at least minInSyncReplicas", func(r *Run) string {
			shrunk, ok := r.shrunk()
			if !ok {
				return moot
			}
			until := r.setGrewAfter(shrunk.At)
			acks := r.acksBetween(GroupName(0), shrunk.At+int64(time.Second), until-1)
			enough := len(shrunk.Set) >= r.Setup.Min
			if enough && until-shrunk.At <= int64(5*time.Second) {
				return moot
			}
			if enough && acks == 0 && until-shrunk.At > int64(5*time.Second) {
				return fmt.Sprintf("set %v is enough for floor %d, yet nothing was acknowledged", shrunk.Set, r.Setup.Min)
			}
			if !enough && acks > 0 {
				return fmt.Sprintf("%d sends acknowledged with set %v below floor %d", acks, shrunk.Set, r.Setup.Min)
			}
			return ""
		}},
	},
}

// shrunk is the first smaller set of group a committed after the first fault.
func (r *Run) shrunk() (event.Event, bool) {
	size := 1 << 30
	for i := range r.Judge.Roles {
		c := &r.Judge.Roles[i]
		if c.Group == GroupName(0) && int64(c.At*1e9) < r.Judge.FirstFault {
			size = len(parseSet(c.Set))
		}
	}
	return r.Judge.First(event.SetAltered, func(e event.Event) bool {
		return e.Group == GroupName(0) && e.At >= r.Judge.FirstFault && len(e.Set) < size
	})
}

// setGrewAfter is when a larger set of group a was committed, or the end of the run.
func (r *Run) setGrewAfter(at int64) int64 {
	size := -1
	for i := range r.Judge.Events {
		e := &r.Judge.Events[i]
		if e.Group != GroupName(0) || e.Kind != event.SetAltered || e.At < at {
			continue
		}
		if size >= 0 && len(e.Set) > size {
			return e.At
		}
		size = len(e.Set)
	}
	return r.World.Now()
}

// acksBetween counts SEND_OK of a group emitted in [from, to].
func (r *Run) acksBetween(group string, from, to int64) int {
	n := 0
	for i := range r.Judge.AckLog {
		a := &r.Judge.AckLog[i]
		if a.Group == group && a.At >= from && a.At <= to {
			n++
		}
	}
	return n
}
