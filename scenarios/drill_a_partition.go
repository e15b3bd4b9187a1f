package scenarios

import (
	"fmt"
	"time"

	"lockstep/checker"
	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/internal/prng"
	"lockstep/node/broker"
	"lockstep/sim"
)

var _ = register(masterCrashMin2, controlPlanePartition, faultDomain)

// masterCrashMin2 is A3 with a floor of two.
var masterCrashMin2 = &Drill{
	ID: "A4", Name: "master-crash-min2", Real: true,
	Story: "The master dies with minInSyncReplicas 2: the new master is elected but not writable until a replica has re-entered the set.",
	Pin: func(rnd *prng.Source, s *Setup) {
		s.Replicas, s.Controllers, s.Min = max(3, s.Replicas), max(3, s.Controllers), 2
		s.All = rnd.Chance(3, 4)
		s.Throttle = 0
	},
	Faults: masterCrash.Faults,
	Least:  checker.Activity{Before: 20, After: 20},
	Assertions: append([]Assertion{
		{"not writable below the floor", "in the new epoch nothing is acknowledged before a set of two is committed", func(r *Run) string {
			e, ok := r.electedAfterFault()
			if !ok {
				return moot
			}
			grown := r.firstSetOf(e.Epoch, 2)
			for i := range r.Judge.AckLog {
				a := &r.Judge.AckLog[i]
				if a.Group == GroupName(0) && a.Epoch == e.Epoch && (grown == 0 || a.At < grown) {
					return fmt.Sprintf("acknowledged at %.3fs, set of two committed at %.3fs", float64(a.At)/1e9, float64(grown)/1e9)
				}
			}
			return ""
		}},
	}, failover...),
}

// firstSetOf is when the epoch's committed set first had n members; 0 never.
func (r *Run) firstSetOf(epoch ha.MasterEpoch, n int) int64 {
	e, ok := r.Judge.First(event.SetAltered, func(e event.Event) bool {
		return e.Group == GroupName(0) && e.Epoch == epoch && len(e.Set) >= n
	})
	if !ok {
		return 0
	}
	return e.At
}

// controlPlanePartition cuts the master from the controllers and nothing else.
var controlPlanePartition = &Drill{
	ID: "A5", Name: "control-plane-partition", Real: true,
	Story: "The master loses the controllers but keeps clients and slaves. It is silent to them, a slave is elected and stops following; under all-ack the old master can acknowledge nothing any more, with a lease it also knows so.",
	Pin: func(rnd *prng.Source, s *Setup) {
		s.Replicas, s.Controllers = max(3, s.Replicas), max(3, s.Controllers)
		s.All = rnd.Chance(1, 2)
		s.Count = pick(rnd, 1, 2)
		s.Min = pick(rnd, 1, 2)
		s.Throttle = 0
	},
	Faults: func(c *Cast) []*sim.Fault {
		return []*sim.Fault{Sever(sim.Cut, sim.Split, c.Between(3*time.Second, 6*time.Second), c.Drawn(40*time.Second, 50*time.Second), []string{"@master/a"}, []string{"@controllers"})}
	},
	Least: checker.Activity{Before: 20, After: 20},
	Assertions: []Assertion{
		{"heartbeat lost, then election", "a member of the set is elected after the heartbeat time-out", func(r *Run) string {
			e, ok := r.electedAfterFault()
			if !ok {
				return "nobody was elected"
			}
			if e.At-r.Judge.FirstFault < int64(r.Setup.HeartbeatTimeout)-int64(1500*time.Millisecond) {
				return fmt.Sprintf("elected after %.1fs, time-out %v", float64(e.At-r.Judge.FirstFault)/1e9, r.Setup.HeartbeatTimeout)
			}
			return ""
		}},
		{"slaves leave the old master", "the other replicas follow the new master", func(r *Run) string {
			e, ok := r.electedAfterFault()
			if !ok {
				return moot
			}
			if n := r.Judge.Count(event.Following, func(f event.Event) bool { return f.Epoch == e.Epoch && f.Group == GroupName(0) }); n == 0 {
				return "no replica follows the new master"
			}
			return ""
		}},
		{"old master stops succeeding", "under all-ack no send is acknowledged in the old epoch once the new master serves", func(r *Run) string {
			if !r.Setup.All {
				return moot
			}
			return r.oldEpochAcksAfterServing()
		}},
		{"no ack after the fence", "with a required lease the old master acknowledges nothing after its deadline", func(r *Run) string {
			if r.Setup.Lease != broker.LeaseRequired {
				return moot
			}
			limit := r.Judge.FirstFault + int64(r.Setup.LeaseDuration) + int64(time.Second)
			old := r.epochAtFault()
			for i := range r.Judge.AckLog {
				if a := &r.Judge.AckLog[i]; a.Group == GroupName(0) && a.Epoch == old && a.At > limit {
					return fmt.Sprintf("acknowledged in epoch %d %.1fs after the cut, lease %v", old, float64(a.At-r.Judge.FirstFault)/1e9, r.Setup.LeaseDuration)
				}
			}
			return ""
		}},
		{"no loss under all-ack", "nothing acknowledged by every member is lost, with or without a lease", func(r *Run) string {
			if !r.Setup.All {
				return moot
			}
			if r.Judge.Ledger.Counts.Lost > 0 {
				return fmt.Sprintf("%d lost", r.Judge.Ledger.Counts.Lost)
			}
			return ""
		}},
		{"loss is the oracle's", "fewer copies lose exactly what the ledger allows; two of three with a lease lose nothing", func(r *Run) string {
			c := r.Judge.Ledger.Counts
			if c.Lost != c.LossAllowed {
				return fmt.Sprintf("%d lost, %d allowed", c.Lost, c.LossAllowed)
			}
			if !r.Setup.All && r.Setup.Count == 2 && r.Setup.Replicas == 3 && r.Setup.Lease == broker.LeaseRequired && c.Lost > 0 {
				return fmt.Sprintf("%d lost with two copies of three and a lease", c.Lost)
			}
			return ""
		}},
	},
}

// epochAtFault is group a's epoch when the first fault fired.
func (r *Run) epochAtFault() ha.MasterEpoch {
	epoch := ha.MasterEpoch(0)
	for i := range r.Judge.Roles {
		c := &r.Judge.Roles[i]
		if c.Group == GroupName(0) && int64(c.At*1e9) <= r.Judge.FirstFault {
			epoch = ha.MasterEpoch(c.Epoch)
		}
	}
	return epoch
}

// oldEpochAcksAfterServing names an acknowledgement of an older epoch after a
// newer one began to serve.
func (r *Run) oldEpochAcksAfterServing() string {
	e, ok := r.Judge.First(event.Serving, func(e event.Event) bool { return e.Group == GroupName(0) && e.Epoch > r.epochAtFault() })
	if !ok {
		return moot
	}
	for i := range r.Judge.AckLog {
		if a := &r.Judge.AckLog[i]; a.Group == GroupName(0) && a.Epoch < e.Epoch && a.At > e.At {
			return fmt.Sprintf("%s acknowledged in epoch %d at %.3fs, epoch %d serves since %.3fs", a.Node, a.Epoch, float64(a.At)/1e9, e.Epoch, float64(e.At)/1e9)
		}
	}
	return ""
}

// faultDomain isolates the master with a client, or with a client and one slave.
var faultDomain = &Drill{
	ID: "A6", Name: "fault-domain-isolation", Real: true,
	Story: "The master and a client, or the master, a slave and a client, are cut off from everything else. The majority elects; after healing the longer log does not win and the minority's tail is cut.",
	Pin:   controlPlanePartition.Pin,
	Faults: func(c *Cast) []*sim.Fault {
		side := []string{"@master/a", ProducerNode(0)}
		if c.Setup.Replicas > 2 && c.Rnd.Chance(1, 2) {
			side = append(side, "@slave/a/0")
		}
		return []*sim.Fault{Sever(sim.Cut, sim.Split, c.Between(3*time.Second, 6*time.Second), c.Drawn(40*time.Second, 50*time.Second), side, []string{"@rest"})}
	},
	Least: checker.Activity{Before: 20, After: 20},
	Assertions: append([]Assertion{
		{"the majority elects", "somebody on the larger side is elected while the master is isolated", func(r *Run) string {
			if e, ok := r.electedAfterFault(); !ok || e.At > r.Healed {
				return "nobody was elected"
			}
			return ""
		}},
		{"the longer log does not win", "the epoch in force at the end is newer than the isolated master's", func(r *Run) string {
			epoch, _ := r.Truth.Newest(GroupName(0))
			if _, elected := r.electedAfterFault(); elected && epoch <= r.epochAtFault() {
				return fmt.Sprintf("epoch %d is still in force", epoch)
			}
			return ""
		}},
		{"business keys reconcile", "every key is acknowledged and present, or refused and absent, or unknown", func(r *Run) string {
			for _, f := range r.Findings {
				if f.Judge == "queue" && f.Name != "vacuous" {
					return f.Text
				}
			}
			return ""
		}},
		{"loss is the oracle's", "what fewer copies than all lose is exactly what the ledger allows", func(r *Run) string {
			if c := r.Judge.Ledger.Counts; c.Lost != c.LossAllowed {
				return fmt.Sprintf("%d lost, %d allowed", c.Lost, c.LossAllowed)
			}
			return ""
		}},
	}, controlPlanePartition.Assertions[2:5]...),
}
