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

var _ = register(leaseExpiry, leaseBeyond)

// leaseExpiry loses, delays, repeats and reorders grants, on clocks inside the bound.
var leaseExpiry = &Drill{
	ID: "C1", Name: "lease-expiry",
	Story: "Grants are lost, late, repeated and reordered by retries and by a change of the controllers' leader, on clocks that drift and machines that sleep within the margin. With a required lease writes end by the deadline and come back with the next grant; without one they go on. Never do two brokers write at once.",
	Pin: func(rnd *prng.Source, s *Setup) {
		s.Groups, s.Replicas, s.Controllers, s.Throttle = 1, 3, 3, 0
		s.Lease = pick(rnd, broker.LeaseRequired, broker.LeaseRequired, broker.LeaseOff)
		s.Min = pick(rnd, 1, 2)
		s.Skew = true
	},
	Faults: leaseFaults,
	Chaos:  int64(115 * time.Second),
	Least:  checker.Activity{Before: 20, After: 20},
	Assertions: []Assertion{
		{"required: writes end by the deadline", "when grants are lost the master is not writable once the last one has run out, without any message", func(r *Run) string {
			from, to, lost := r.grantsLost()
			if !lost || r.Setup.Lease != broker.LeaseRequired {
				return moot
			}
			e, ok := r.Judge.First(event.LeaseExpired, func(e event.Event) bool { return e.At > from && e.At < to })
			if limit := from + int64(r.Setup.LeaseDuration) + r.within(100*time.Millisecond); !ok || e.At > limit {
				return fmt.Sprintf("grants were lost from %s, the lease of %v had not ended by %s", at(from), r.Setup.LeaseDuration, at(limit))
			}
			return ""
		}},
		{"nothing acknowledged without a lease", "no SEND_OK leaves a broker between the end of its lease and the next grant", func(r *Run) string {
			if r.Setup.Lease != broker.LeaseRequired {
				return moot
			}
			return r.acksUnleased()
		}},
		{"off: writes go on", "without leases the master acknowledges through the whole gap", func(r *Run) string {
			from, to, lost := r.grantsLost()
			if !lost || r.Setup.Lease != broker.LeaseOff {
				return moot
			}
			if e, ok := r.electionAfter(from); ok && e.At < to {
				return moot // a stream whose acknowledgements are lost soon carries nothing: heartbeats too were lost
			}
			if r.acksBetween(GroupName(0), to-int64(2*time.Second), to) == 0 {
				return fmt.Sprintf("nothing was acknowledged in the last 2s of a gap from %s to %s", at(from), at(to))
			}
			return ""
		}},
		{"writable again by the next grant", "when grants come again writes go on, without another election", func(r *Run) string {
			_, to, lost := r.grantsLost()
			if !lost {
				return moot
			}
			if n := r.acksBetween(GroupName(0), to, to+int64(5*time.Second)); n == 0 {
				return fmt.Sprintf("nothing was acknowledged in the 5s after %s", at(to))
			}
			if e, ok := r.electionAfter(to); ok && e.At < to+int64(5*time.Second) {
				return fmt.Sprintf("epoch %d was elected at %s, after grants came again", e.Epoch, at(e.At))
			}
			return ""
		}},
		{"one writable master at a time", "late, repeated and reordered grants never make two brokers writable, nor one after its deadline", func(r *Run) string {
			for _, f := range r.Judge.Invariants.Findings() {
				if f.Name == "lease-overlap" || f.Name == "two-writers" {
					return f.Text
				}
			}
			return ""
		}},
	},
}

// leaseFaults first loses all grants for longer than one lasts, then draws three
// more troubles of the way between controllers and master.
func leaseFaults(c *Cast) []*sim.Fault {
	controllers, master := []string{"@controllers"}, []string{"@master/a"}
	long := c.Setup.LeaseDuration + c.Drawn(2*time.Second, 5*time.Second)
	out := []*sim.Fault{Sever(sim.Cut, sim.Away, c.Between(2*time.Second, 4*time.Second), long, controllers, master)}
	begin := 28 * time.Second
	for range 3 {
		when := c.Between(begin, begin+3*time.Second)
		begin += 26 * time.Second
		switch c.Rnd.Intn(6) {
		case 0: // a few grants lost
			out = append(out, Sever(sim.Cut, sim.Away, when, c.Drawn(time.Second, c.Setup.LeaseDuration/2), controllers, master))
		case 1: // all late
			out = append(out, WithArg(Sever(sim.Delay, sim.Split, when, c.Drawn(6*time.Second, 16*time.Second), controllers, master), c.Rnd.Between(int64(300*time.Millisecond), int64(3*time.Second))))
		case 2: // held, then a burst: old grants in any number, with retries behind them
			out = append(out, Sever(sim.Stall, sim.Away, when, c.Drawn(2*time.Second, 14*time.Second), controllers, master))
		case 3: // another leader grants
			out = append(out, Strike(pick(c.Rnd, sim.CrashExit, sim.CrashSilent, sim.Pause), when, c.Drawn(3*time.Second, 10*time.Second), "@leader"))
		case 4: // the machine sleeps, its clock runs
			out = append(out, Strike(sim.Suspend, when, c.Drawn(time.Second, 18*time.Second), "@master/a"))
		case 5: // drift within the margin
			f := Strike(sim.ClockDrift, when, c.Drawn(10*time.Second, 20*time.Second), pick(c.Rnd, "@master/a", "@leader", "@slave/a/0"))
			out = append(out, WithArg(f, c.Rnd.Between(-20_000, 20_000)))
		}
	}
	return out
}

// grantsLost is when the first fault kept all grants from the master; lost is false
// where a plan brings no such fault.
func (r *Run) grantsLost() (from, to int64, lost bool) {
	f := r.firstFault()
	return f.When.At, f.When.At + f.For, f.For > 0
}

// acksUnleased names an acknowledgement by a broker whose last word was that it has
// no lease.
func (r *Run) acksUnleased() string {
	for i := range r.Judge.AckLog {
		a := &r.Judge.AckLog[i]
		var last event.Event
		for k := range r.Judge.Events {
			e := &r.Judge.Events[k]
			if e.At >= a.At {
				break
			}
			if e.Node == a.Node && (e.Kind == event.Writable || e.Kind == event.NotWritable) {
				last = *e
			}
		}
		if last.Kind == event.NotWritable && strings.Contains(last.Text, "lease") {
			return fmt.Sprintf("%s acknowledged at %s; since %s it was not writable: %s", a.Node, at(a.At), at(last.At), last.Text)
		}
	}
	return ""
}

// leaseBeyond stops the clock of a master that is cut off: outside the contract of
// leases, so the overlap must be found; durability does not rest on clocks.
var leaseBeyond = &Drill{
	ID: "C1-beyond", Name: "lease-beyond", Expect: "lease-overlap",
	Story: "The master's monotonic clock stands still while it is cut off with its clients: its lease never ends for it, and a successor becomes writable. That is outside what a lease promises, and the judges must find two writers at once. Under all-ack nothing acknowledged is lost all the same.",
	Pin: func(rnd *prng.Source, s *Setup) {
		s.Groups, s.Replicas, s.Controllers, s.Throttle = 1, 3, 3, 0
		s.Lease, s.Wild, s.Skew = broker.LeaseRequired, true, true
		s.All, s.Min = true, pick(rnd, 1, 2)
	},
	Begin: func(r *Run) { r.Judge.Invariants.ExclusiveWriters = true },
	Faults: func(c *Cast) []*sim.Fault {
		when := c.Between(2*time.Second, 5*time.Second)
		lasts := c.Drawn(45*time.Second, 52*time.Second)
		return []*sim.Fault{
			Strike(sim.ClockFreeze, when, lasts, "@master/a"),
			Sever(sim.Cut, sim.Split, when, lasts, []string{"@master/a", ProducerNode(0)}, []string{"@rest"}),
		}
	},
	Chaos: int64(60 * time.Second),
	Least: checker.Activity{Before: 20, After: 20},
	Assertions: []Assertion{
		{"successor elected", "the controllers elect after the old lease has ended on their clocks", func(r *Run) string {
			if _, ok := r.electedAfterFault(); !ok {
				return "nobody was elected"
			}
			return ""
		}},
		{"old master acknowledges nothing under all-ack", "its slaves follow another, so it cannot succeed although it believes in its lease", func(r *Run) string {
			return r.oldEpochAcksAfterServing()
		}},
		noLoss,
	},
}
