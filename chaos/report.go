package chaos

import (
	"fmt"
	"strings"
	"time"

	"lockstep/checker"
	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/scenarios"
)

// report writes the run in the schema of the simulator.
func (c *Cluster) report(h *checker.History, q checker.QueueReport, found []checker.Finding, events []event.Event, strikes []strike, began time.Time) *scenarios.Report {
	t := func(at int64) float64 { return float64((at-began.UnixNano())/1e6) / 1e3 }
	rep := &scenarios.Report{
		Seed: c.o.Seed, Drill: "A3", Host: "process", Verdict: scenarios.Pass, Events: uint64(len(events)),
		Acknowledged: q.Acknowledged, Unknown: q.Unknown, Refused: q.Refused, Lost: q.Lost, Duplicates: q.Duplicates,
		ResultCodes: map[string]int{}, RTOMillis: map[string]int64{}, Options: c.options(),
	}
	for i := range h.Ops {
		if h.Ops[i].Kind == checker.Send {
			rep.Sent++
		} else {
			rep.Consumed++
		}
	}
	for _, s := range strikes {
		rep.Timeline = append(rep.Timeline, scenarios.TimelineEntry{At: t(s.at), What: s.what})
	}
	c.roles(rep, events, t)
	rep.RTOMillis = worst(h.Ops, events, strikes)
	rep.SendMillis.Before, rep.WriteGapMillis = sendTimes(h.Ops)
	for _, f := range found {
		rep.Findings = append(rep.Findings, f.String())
	}
	least := c.o.Rate * 5
	switch {
	case len(found) > 0:
		rep.Verdict, rep.Reason = scenarios.Fail, rep.Findings[0]
	case rep.Acknowledged < least || rep.Consumed < rep.Acknowledged:
		rep.Verdict = scenarios.Vacuous
		rep.Reason = fmt.Sprintf("%d acknowledged (at least %d), %d consumed", rep.Acknowledged, least, rep.Consumed)
	}
	return rep
}

func (c *Cluster) options() []scenarios.Option {
	var out []scenarios.Option
	for _, line := range strings.Split(strings.TrimSpace(c.conf(c.of("broker")[0])), "\n") {
		k, v, _ := strings.Cut(line, "=")
		if !strings.Contains(v, "127.0.0.1") && k != "storePathRootDir" {
			out = append(out, scenarios.Option{Name: k, Value: v})
		}
	}
	return append(out, scenarios.Option{Name: "rate", Value: fmt.Sprint(c.o.Rate)})
}

func (c *Cluster) roles(rep *scenarios.Report, events []event.Event, t func(int64) float64) {
	seen := map[ha.SetEpoch]bool{}
	for _, e := range events {
		if e.Kind == event.Truncated {
			rep.TruncatedBytes += e.Count
		}
		if e.Kind != event.Elected && e.Kind != event.SetAltered || seen[e.SetEpoch] {
			continue
		}
		seen[e.SetEpoch] = true
		rep.Roles = append(rep.Roles, scenarios.RoleChange{At: t(e.At), Group: e.Group, Master: int64(e.Broker), Epoch: int32(e.Epoch),
			SetEpoch: int32(e.SetEpoch), Set: e.Set.String(), Why: e.Kind.String() + " " + e.Text})
	}
}

// worst is the slowest recovery of all strikes, by stage.
func worst(ops []checker.Op, events []event.Event, strikes []strike) map[string]int64 {
	out := map[string]int64{}
	for i, s := range strikes {
		if strings.HasPrefix(s.what, "SIGCONT") {
			continue
		}
		end := int64(1<<63 - 1)
		if i+1 < len(strikes) && !strings.HasPrefix(strikes[i+1].what, "SIGCONT") {
			end = strikes[i+1].at
		}
		for stage, ms := range recovery(ops, events, s.at, end) {
			out[string(stage)] = max(out[string(stage)], ms)
		}
	}
	return out
}

func recovery(ops []checker.Op, events []event.Event, from, to int64) map[checker.Stage]int64 {
	epoch := ha.MasterEpoch(0)
	for _, e := range events {
		if e.Kind == event.Elected && e.At < from {
			epoch = max(epoch, e.Epoch)
		}
	}
	r := checker.NewRecovery(group, from, epoch, minInSync)
	served := int64(0)
	for _, e := range events {
		if e.At < from || e.At > to {
			continue
		}
		r.See(e)
		if e.Kind == event.Serving && e.Epoch > epoch && served == 0 {
			served = e.At
		}
	}
	if served == 0 {
		return r.Millis()
	}
	for i := range ops { // nothing that began after the new master served can be the old one's success
		if op := &ops[i]; op.Kind == checker.Send && op.Status == checker.Done && op.Invoke > served && op.Return < to {
			r.Acknowledged(epoch+1, op.Return)
			break
		}
	}
	return r.Millis()
}

// sendTimes are latencies of acknowledged sends and the longest gap without one.
func sendTimes(ops []checker.Op) (scenarios.Percentiles, int64) {
	var took, ends []int64
	for i := range ops {
		if op := &ops[i]; op.Kind == checker.Send && op.Status == checker.Done {
			took, ends = append(took, op.Return-op.Invoke), append(ends, op.Return)
		}
	}
	checker.Percentile(ends, 50) // sorts
	gap := int64(0)
	for i := 1; i < len(ends); i++ {
		gap = max(gap, ends[i]-ends[i-1])
	}
	return scenarios.Percentiles{P50: float64(checker.Percentile(took, 50)) / 1e6, P99: float64(checker.Percentile(took, 99)) / 1e6}, gap / 1e6
}
