package controller

import (
	"fmt"

	"lockstep/node"
)

// Conditions are the lines of /readyz: in a cluster, a leader known (which takes a
// quorum), not stopping. Groups that need a master and cannot get one are listed
// with the reason; they do not make the controller unready.
func (c *Controller) Conditions() []node.Condition {
	out := []node.Condition{
		{Name: "initialised", Ready: true, Writable: true, OK: c.phase == phaseMember, Detail: c.why},
		{Name: "leader-known", Ready: true, Writable: true, OK: c.leader != 0, Detail: c.leaderDetail()},
		{Name: "running", Ready: true, Writable: true, OK: !c.stopping && c.exit == nil},
	}
	for _, p := range c.peers {
		if p.refused.reason != "" {
			out = append(out, node.Condition{Name: "peer-" + p.Node, Detail: p.refused.reason})
		}
	}
	if !c.ready() {
		return out
	}
	out = append(out, node.Condition{Name: "leading", Writable: true, OK: true})
	for i := range c.state.Groups {
		if w := c.lead.watch(c.state.Groups[i].Key); w.blocked != "" {
			out = append(out, node.Condition{Name: "group-" + c.state.Groups[i].Group, Detail: w.blocked})
		}
	}
	return out
}

func (c *Controller) leaderDetail() string {
	switch {
	case c.phase != phaseMember:
		return c.why
	case c.leader == 0:
		return fmt.Sprintf("no leader in term %d: a quorum of %d controllers may be missing", c.term, len(c.conf.GetVoters())/2+1)
	}
	return fmt.Sprintf("%s leads term %d", c.leaderNode(), c.term)
}

// Gauges reports the numbers for metrics.
func (c *Controller) Gauges(report func(name string, value float64)) {
	flag := func(on bool) float64 {
		if on {
			return 1
		}
		return 0
	}
	report("controller_leader", flag(c.ready()))
	report("controller_term", float64(c.term))
	report("controller_applied_index", float64(c.applied))
	report("controller_groups", float64(len(c.state.Groups)))
	report("controller_pending_proposals", float64(len(c.pending)))
	report("controller_pending_reads", float64(len(c.reads)))
	report("controller_store_operations", float64(len(c.store.inFlight)))
	if c.conf != nil {
		report("controller_voters", float64(len(c.conf.GetVoters())))
	}
	masterless, below := 0, 0
	for i := range c.state.Groups {
		rec := &c.state.Groups[i]
		if !rec.Elected() || rec.Lost {
			masterless++
		}
		if int32(len(rec.Set)) < rec.MinInSync {
			below++
		}
	}
	report("controller_groups_without_master", float64(masterless))
	report("controller_groups_below_min_in_sync", float64(below))
}
