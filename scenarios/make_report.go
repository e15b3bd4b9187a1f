package scenarios

import (
	"fmt"
	"strings"

	"lockstep/checker"
)

// report turns a judged run into the schema.
func (r *Run) report() *Report {
	c := r.Judge.Ledger.Counts
	rep := &Report{
		Seed: r.Seed, Drill: r.Drill.ID, Host: r.World.Host(), Hash: fmt.Sprintf("%016x", r.World.Hash()),
		SimulatedSeconds: seconds(r.World.Now()), WallSeconds: r.wall.Seconds(), Events: r.World.Stats().Events,
		Sent: r.Load.Sent, Acknowledged: r.Queue.Acknowledged, Unknown: r.Queue.Unknown, Refused: r.Queue.Refused,
		Lost: c.Lost, LossAllowed: c.LossAllowed, Duplicates: r.Queue.Duplicates, Consumed: r.Load.Consumed,
		ResultCodes: r.Load.Codes, WriteGapMillis: r.Load.AckGap / 1e6, ConsumeGapMillis: r.Load.ReadGap / 1e6,
		TruncatedBytes: r.Judge.Truncated, Options: r.Setup.Options(), Timeline: r.Judge.Timeline, Roles: r.Judge.Roles,
		Marks: r.Judge.Marks, RTOMillis: map[string]int64{},
	}
	if rc := r.Judge.Recoveries[GroupName(0)]; rc != nil {
		for s, ms := range rc.Millis() {
			rep.RTOMillis[string(s)] = ms
		}
	}
	rep.SendMillis = r.latencies()
	r.assert(rep)
	r.verdict(rep)
	rep.Answers = r.answers(rep)
	return rep
}

// assert checks the drill's clauses; one that fails is a finding.
func (r *Run) assert(rep *Report) {
	if len(r.Findings) > 0 && r.Findings[0].Judge == "world" {
		return // the run ended early: its clauses say nothing
	}
	for _, a := range r.Drill.Assertions {
		detail := a.Check(r)
		if detail == moot {
			rep.Assertions = append(rep.Assertions, AssertionMade{Name: a.Name, Holds: true, Moot: true})
			continue
		}
		rep.Assertions = append(rep.Assertions, AssertionMade{Name: a.Name, Holds: detail == "", Detail: detail})
		if detail != "" {
			r.Findings = append(r.Findings, checker.Finding{Judge: "assertion", Name: a.Name, Text: detail, At: r.World.Now()})
		}
	}
}

func (r *Run) verdict(rep *Report) {
	rep.Verdict = Pass
	if r.Drill.Expect != "" {
		r.expect()
	}
	quiet, stale, breach := 0, 0, -1
	for i, f := range r.Findings {
		rep.Findings = append(rep.Findings, f.String())
		switch f.Name {
		case "vacuous":
			quiet++
		case "stale":
			stale++
		default:
			if breach < 0 {
				breach = i
			}
		}
	}
	switch {
	case breach >= 0:
		rep.Verdict, rep.Reason = Fail, rep.Findings[breach]
	case stale > 0:
		rep.Verdict, rep.Reason = Stale, rep.Findings[0]
	case quiet > 0:
		rep.Verdict, rep.Reason = Vacuous, rep.Findings[0]
	}
}

// expect turns the finding that had to be made into a pass, and its absence into
// a finding.
func (r *Run) expect() {
	var rest []checker.Finding
	found := false
	for _, f := range r.Findings {
		if f.Name == r.Drill.Expect {
			found = true
			continue
		}
		rest = append(rest, f)
	}
	r.Findings = rest
	if !found {
		r.Findings = append(r.Findings, checker.Finding{Judge: "expectation", Name: "not-found", At: r.World.Now(),
			Text: "the run leaves the contract and " + r.Drill.Expect + " must be found, but was not"})
	}
}

// latencies splits acknowledged sends by when they began.
func (r *Run) latencies() Latencies {
	var before, during, after []int64
	for i := range r.Load.Ops {
		op := &r.Load.Ops[i]
		if op.Kind != checker.Send || op.Status != checker.Done {
			continue
		}
		d := op.Return - op.Invoke
		switch {
		case r.Judge.FirstFault == 0 || op.Invoke < r.Judge.FirstFault:
			before = append(before, d)
		case r.Back == 0 || op.Invoke < r.Back:
			during = append(during, d)
		default:
			after = append(after, d)
		}
	}
	return Latencies{Before: percentiles(before), During: percentiles(during), After: percentiles(after)}
}

func percentiles(nanos []int64) Percentiles {
	return Percentiles{P50: float64(checker.Percentile(nanos, 50)/1e3) / 1e3, P99: float64(checker.Percentile(nanos, 99)/1e3) / 1e3}
}

// answers puts the four questions of chapter 13.18 into words.
func (r *Run) answers(rep *Report) FourAnswers {
	s := &r.Setup
	policy := fmt.Sprintf("%d of the set", s.Count)
	if s.All {
		policy = "every member of the committed set"
	}
	var stages []string
	for _, st := range checker.Stages {
		if ms, ok := rep.RTOMillis[string(st)]; ok {
			stages = append(stages, fmt.Sprintf("%s T+%.1fs", st, float64(ms)/1e3))
		}
	}
	cut := "no data was cut"
	if rep.TruncatedBytes > 0 {
		cut = fmt.Sprintf("%d unproven bytes were cut; %d acknowledged messages lost, %d of them allowed", rep.TruncatedBytes, rep.Lost, rep.LossAllowed)
	}
	var lead []string
	for g := range s.Groups {
		rec := r.Truth.refresh(GroupName(g))
		lead = append(lead, fmt.Sprintf("%s: set %v, retained %v", GroupName(g), rec.Set, rec.Retained))
	}
	return FourAnswers{
		AckReached: fmt.Sprintf("%s, %v, floor %d", policy, s.Class, s.Min),
		CouldLead:  strings.Join(lead, "; "),
		WasCut:     cut,
		TimeItems:  strings.Join(stages, ", "),
	}
}
