package scenarios

import (
	"fmt"
	"strings"
	"time"

	"lockstep/checker"
	"lockstep/internal/event"
	"lockstep/internal/prng"
	"lockstep/node/client"
	"lockstep/sim"
)

var _ = register(otherGroup)

// otherGroup strikes one group while another serves.
var otherGroup = &Drill{
	ID: "A18", Name: "other-group", Real: true,
	Story: "Two groups; one loses its master or a slave, or is partitioned. The other has no error, no epoch change, keeps its lease, and its latency stays. Sends that may go anywhere move to it, and those bound to the broken group move to its new master.",
	Begin: func(r *Run) { r.recordEnds() },
	Pin: func(rnd *prng.Source, s *Setup) {
		s.Groups, s.Replicas, s.Controllers = 2, 3, 3
		s.Throttle = 0
	},
	Faults: func(c *Cast) []*sim.Fault {
		when, lasts := c.Between(5*time.Second, 10*time.Second), c.Drawn(25*time.Second, 40*time.Second)
		switch c.Rnd.Intn(6) {
		case 0:
			return []*sim.Fault{Strike(sim.CrashExit, when, lasts, "@slave/a/0")}
		case 1:
			return []*sim.Fault{Sever(sim.Cut, sim.Split, when, lasts, []string{"@master/a"}, []string{"@rest"})}
		case 2:
			return []*sim.Fault{Strike(sim.Pause, when, lasts, "@master/a")}
		case 3: // with the controllers' leader
			return []*sim.Fault{Strike(sim.CrashExit, when, lasts, "@leader"), Strike(sim.CrashSilent, when, lasts, "@master/a")}
		case 4:
			return []*sim.Fault{Strike(sim.DiskStall, when, lasts, "@master/a")}
		}
		return []*sim.Fault{Strike(sim.CrashSilent, when, lasts, "@master/a")}
	},
	Least: checker.Activity{Before: 20, After: 20},
	Assertions: []Assertion{
		{"no error in the other group", "no send to it fails or stays unknown for its own sake", func(r *Run) string {
			for name, n := range r.Load.GroupErrors[GroupName(1)] {
				return fmt.Sprintf("%d × %s", n, name)
			}
			return ""
		}},
		{"no epoch change", "nobody is elected in the other group", func(r *Run) string {
			if n := r.Judge.Count(event.Elected, func(e event.Event) bool { return e.Group == GroupName(1) }); n != 1 {
				return fmt.Sprintf("%d elections", n)
			}
			return ""
		}},
		{"lease kept", "the other group's master stays writable", func(r *Run) string {
			if e, ok := r.Judge.First(event.NotWritable, func(e event.Event) bool {
				return e.Group == GroupName(1) && e.At > r.Judge.FirstFault
			}); ok {
				return fmt.Sprintf("%s at %.1fs: %s", e.Node, float64(e.At)/1e9, e.Text)
			}
			return ""
		}},
		{"latency stays", "p99 of its sends during the fault is at most 1.5 times that before, and a disk's jitter", func(r *Run) string {
			before, during, n := r.groupLatency(GroupName(1))
			if n < 20 {
				return fmt.Sprintf("only %d of its sends were acknowledged while the fault lasted", n)
			}
			limit := before*3/2 + r.within(5*time.Millisecond)
			if during > limit {
				return fmt.Sprintf("p99 %.1f ms before, %.1f ms during", float64(before)/1e6, float64(during)/1e6)
			}
			return ""
		}},
		{"free sends move to the other group", "a send that may go anywhere and found its broker gone ends with the other group's SEND_OK; the broken group gets such sends before and, when it is back, again", freeSendsMove},
		{"bound sends move to the new master", "clients have their answers from the old master before the fault and from the new one after it", boundSendsMove},
	},
}

// groupLatency is p99 of a group's acknowledged sends bound to it, before the
// fault and until healing, and how many there were until healing.
func (r *Run) groupLatency(group string) (before, during int64, n int) {
	var b, d []int64
	for i := range r.Load.Ops {
		op := &r.Load.Ops[i]
		if op.Kind != checker.Send || op.Status != checker.Done || !strings.HasPrefix(op.Queue, group+"/") || op.UnknownTries > 0 || r.Load.Moved[op.Key] {
			continue
		}
		switch {
		case op.Invoke < r.Judge.FirstFault:
			b = append(b, op.Return-op.Invoke)
		case op.Invoke < r.Healed:
			d = append(d, op.Return-op.Invoke)
		}
	}
	return checker.Percentile(b, 99), checker.Percentile(d, 99), len(d)
}

// outageMin is the shortest silence of a group in which clients must have moved: some
// tries, and the pause after one that failed.
const outageMin = 4 * time.Second

// outage is the longest time without a SEND_OK of a group after the first fault, of
// those that have an end.
func (r *Run) outage(group string) (from, to int64) {
	last := r.Judge.FirstFault
	for i := range r.Judge.AckLog {
		a := &r.Judge.AckLog[i]
		if a.Group != group || a.At < r.Judge.FirstFault {
			continue
		}
		if a.At-last > to-from {
			from, to = last, a.At
		}
		last = a.At
	}
	return from, to
}

// freeSendsMove looks at sends that may go to either group: where they ended before,
// during and after the outage of group a.
func freeSendsMove(r *Run) string {
	from, to := r.outage(GroupName(0))
	if !r.masterStruck() || to-from < int64(outageMin) {
		return moot
	}
	var before, moved, after int
	for i := range r.sends {
		e := &r.sends[i]
		if !e.free || e.status != client.Done {
			continue
		}
		switch {
		case e.group == GroupName(0) && e.at < r.Judge.FirstFault:
			before++
		case e.group == GroupName(1) && e.tried == GroupName(0) && e.at > from && e.at < to:
			moved++
		case e.group == GroupName(0) && e.at >= to:
			after++
		}
	}
	if before == 0 || moved == 0 || after == 0 {
		return fmt.Sprintf("%d free sends ended in the group before, %d of those that tried it during an outage from %s to %s ended in the other, %d ended in it afterwards", before, moved, at(from), at(to), after)
	}
	return ""
}

// boundSendsMove looks at who answered the sends to group a.
func boundSendsMove(r *Run) string {
	e, ok := r.electedAfterFault()
	if !ok || !r.masterStruck() {
		return moot
	}
	node, old := r.Truth.Node(e.Group, e.Broker), ""
	served, moved := int64(0), 0
	if s, ok := r.Judge.First(event.Serving, func(s event.Event) bool { return s.Node == node && s.Epoch == e.Epoch }); ok {
		served = s.At
	}
	for i := range r.sends {
		s := &r.sends[i]
		switch {
		case s.free || s.group != e.Group || s.status != client.Done:
		case s.at < r.Judge.FirstFault && old != "" && s.addr != old:
			return fmt.Sprintf("%s and %s both answered before the fault", old, s.addr)
		case s.at < r.Judge.FirstFault:
			old = s.addr
		case s.at > served && s.addr == addr(node, brokerPort):
			moved++
		}
	}
	switch {
	case old == "" || old == addr(node, brokerPort):
		return fmt.Sprintf("before the fault %q answered, %s was elected", old, node)
	case served == 0 || moved == 0:
		return fmt.Sprintf("%s is elected in epoch %d and no client had an answer from it", node, e.Epoch)
	}
	return ""
}
