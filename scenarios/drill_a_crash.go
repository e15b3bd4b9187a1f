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

var _ = register(steady, masterCrash)

// steady is the baseline: no fault, so that everything a run measures is the
// cost of running.
var steady = &Drill{
	ID: "S0", Name: "steady",
	Story: "The standard world without a fault: every send is acknowledged and read, nothing is elected twice.",
	Pin:   func(_ *prng.Source, s *Setup) { *s = StandardSetup() },
	Chaos: int64(60 * time.Second),
	Assertions: []Assertion{
		{"all sends succeed", "without a fault every send ends with SEND_OK", func(r *Run) string {
			if r.Queue.Unknown+r.Queue.Refused > 0 {
				return fmt.Sprintf("%d unknown, %d refused: %v", r.Queue.Unknown, r.Queue.Refused, r.Load.Codes)
			}
			return ""
		}},
		{"one election a group", "no election follows the first", func(r *Run) string {
			if n := r.Judge.Count(event.Elected, nil); n != r.Setup.Groups {
				return fmt.Sprintf("%d elections for %d groups", n, r.Setup.Groups)
			}
			return ""
		}},
	},
}

// masterCrash is the chapter's main walk-through (13.10) and its drawn variants.
var masterCrash = &Drill{
	ID: "A3", Name: "master-crash", Real: true,
	Story: "The master dies under load: by process exit, silence of its host or loss of power. A member of the SyncStateSet takes over, nothing acknowledged is lost, the old master comes back fenced and follows.",
	Pin: func(rnd *prng.Source, s *Setup) {
		s.Replicas, s.Min, s.Controllers = max(3, s.Replicas), 1, 3
		if rnd.Chance(1, 3) { // 13.10's own assumptions
			groups := s.Groups
			*s = StandardSetup()
			s.Groups, s.Min = groups, 1
			s.Lease = broker.LeaseOff
		}
	},
	Faults: func(c *Cast) []*sim.Fault {
		kind := pick(c.Rnd, sim.CrashExit, sim.CrashSilent, sim.PowerLoss)
		return []*sim.Fault{Strike(kind, c.Between(2*time.Second, 8*time.Second), c.Drawn(30*time.Second, 45*time.Second), "@master/a")}
	},
	Least: checker.Activity{Before: 20, After: 20},
	Assertions: append([]Assertion{
		{"old master returns fenced and follows", "its first role after the restart is slave, unless it is elected anew", returnsAsFollower},
		{"old master re-enters", "it cuts what was not proven, catches up and is named by a set again", returnsToTheSet},
		{"in-flight sends are sorted", "what was in flight at the crash is refused and nowhere, acknowledged and stored, or unknown", inFlightSorted},
		{"first success in its window", "clients succeed at most two scans and a retry after the election was due: by T+30 under the chapter's figures", func(r *Run) string {
			return r.stageWithin(checker.FirstSend, 15*time.Second)
		}},
	}, failover...),
}

// failover are the clauses every lost master shares.
var failover = []Assertion{
	{"not before the heartbeat time-out", "no election before the last heartbeat is older than the time-out, unless its session or registration said so", func(r *Run) string {
		e, ok := r.electedAfterFault()
		if !ok {
			return "nobody was elected after the fault"
		}
		if r.silentFault() && e.At-r.Judge.FirstFault < int64(r.Setup.HeartbeatTimeout)-int64(1500*time.Millisecond) {
			return fmt.Sprintf("elected %.1fs after a silent fault, the time-out is %v", float64(e.At-r.Judge.FirstFault)/1e9, r.Setup.HeartbeatTimeout)
		}
		return ""
	}},
	{"set of the new epoch is its master", "the first committed set of the new epoch is {new}", func(r *Run) string {
		e, ok := r.electedAfterFault()
		if ok && len(e.Set) != 1 {
			return fmt.Sprintf("elected with set %v", e.Set)
		}
		return ""
	}},
	{"elected within one scan", "the election is committed at most one scan after the time-out, or after the old lease", func(r *Run) string {
		return r.stageWithin(checker.Elect, 2*time.Second)
	}},
	{"role and route in their windows", "the new master applies its role and the route names it within seconds: by T+18 and T+20 under the chapter's figures", func(r *Run) string {
		if late := r.stageWithin(checker.ApplyRole, 3*time.Second); late != "" {
			return late
		}
		return r.stageWithin(checker.Route, 5*time.Second)
	}},
	{"clients succeed again", "sends are acknowledged in the new epoch", func(r *Run) string {
		e, ok := r.electedAfterFault()
		if ok && r.Judge.AcksBy[fmt.Sprintf("%s/%d", e.Group, e.Epoch)] == 0 {
			return fmt.Sprintf("no send was acknowledged in epoch %d", e.Epoch)
		}
		return ""
	}},
}

// electedAfterFault is the first election of group a after the first fault.
func (r *Run) electedAfterFault() (event.Event, bool) {
	return r.Judge.First(event.Elected, func(e event.Event) bool {
		return e.Group == GroupName(0) && r.Judge.FirstFault > 0 && e.At >= r.Judge.FirstFault
	})
}

// silentFault reports whether the first fault gave no sign of itself.
func (r *Run) silentFault() bool {
	for _, f := range r.Plan.Faults {
		if strings.HasPrefix(f.Text, actPrefix+string(sim.CrashSilent)) || strings.HasPrefix(f.Text, actPrefix+string(sim.PowerLoss)) {
			return true
		}
	}
	return false
}

// stageWithin says which stage of group a's recovery came later than allowed after
// the instant at which an election is due: the time-out of the heartbeat, or the end
// of the old lease, and a scan.
func (r *Run) stageWithin(stage checker.Stage, allowed time.Duration) string {
	rec := r.Judge.Recoveries[GroupName(0)]
	if rec == nil {
		return "no fault"
	}
	due := r.Setup.HeartbeatTimeout
	if r.Setup.Lease == broker.LeaseRequired {
		due = max(due, r.Setup.LeaseDuration)
	}
	due += r.Setup.ScanInterval + allowed
	ms, ok := rec.Millis()[stage]
	if !ok || ms > due.Milliseconds() {
		return fmt.Sprintf("%s after %d ms (reached: %v), at most %v is allowed", stage, ms, ok, due)
	}
	return ""
}

// firstDown is the first broker that a fault took down, "" when none did.
func (r *Run) firstDown() string {
	for _, l := range r.Judge.Lives {
		if l.Phase == sim.Down && l.Code == -1 && isBroker(l.Node) {
			return l.Node
		}
	}
	return ""
}

// returnsToTheSet looks for a set that names the old master after its restart, or for
// its own election.
func returnsToTheSet(r *Run) string {
	node := r.firstDown()
	started, ok := r.Judge.First(event.Started, func(e event.Event) bool { return e.Node == node && e.At > r.Judge.FirstFault })
	if !ok {
		return node + " never came back"
	}
	id := r.idOf(node)
	for i := range r.Judge.Events {
		e := &r.Judge.Events[i]
		if (e.Kind == event.SetAltered || e.Kind == event.Elected) && e.Group == GroupName(0) && e.At > started.At && e.Set.Has(id) {
			return ""
		}
	}
	return fmt.Sprintf("no set names broker %d after it started at %s", id, at(started.At))
}

// inFlightSorted compares how the sends that were open at the first fault ended with
// what the last masters' logs hold.
func inFlightSorted(r *Run) string {
	stored := map[string]bool{}
	for _, entries := range r.Final { // tidy:unordered a set is made
		for _, e := range entries {
			stored[e.Key] = true
		}
	}
	n := 0
	for i := range r.Load.Ops {
		op := &r.Load.Ops[i]
		if op.Kind != checker.Send || op.Invoke > r.Judge.FirstFault || op.Status != checker.Unknown && op.Return <= r.Judge.FirstFault {
			continue
		}
		n++
		switch {
		case op.Status == checker.Refused && stored[op.Key]:
			return op.Key + " was refused and is stored"
		case op.Status == checker.Done && !stored[op.Key] && !r.Judge.Ledger.LossAllowed(op.Key):
			return op.Key + " was acknowledged and is not stored"
		}
	}
	if n == 0 {
		return moot
	}
	return ""
}

// returnsAsFollower checks the first role of the crashed node's next life.
func returnsAsFollower(r *Run) string {
	var back int64
	node := r.firstDown()
	if node == "" {
		return "no broker went down"
	}
	started, ok := r.Judge.First(event.Started, func(e event.Event) bool { return e.Node == node && e.At > r.Judge.FirstFault })
	if !ok {
		return node + " never came back"
	}
	back = started.At
	role, ok := r.Judge.First(event.RoleApplied, func(e event.Event) bool { return e.Node == node && e.At >= back })
	if !ok {
		return node + " never learned a role after its restart"
	}
	if serving, ok := r.Judge.First(event.Serving, func(e event.Event) bool { return e.Node == node && e.At >= back }); ok && serving.At < role.At {
		return fmt.Sprintf("%s served epoch %d before it learned a role", node, serving.Epoch)
	}
	return ""
}
