package check

import (
	"fmt"

	"lockstep/chaos/maelstrom/history"
)

// Names of what the checks of every run report.
const (
	NoSuccess    = "no-success"    // stats: a kind of operation was tried and never succeeded
	Unavailable  = "unavailable"   // availability: below what was asked for
	NoOperations = "no-operations" // Beyond: nothing was done, so nothing was shown
)

// Counts are operations of one kind by outcome.
type Counts struct {
	F    string `json:"f"`
	OK   int    `json:"ok"`
	Fail int    `json:"fail"`
	Info int    `json:"info"`
}

// Total is how many were invoked.
func (c Counts) Total() int { return c.OK + c.Fail + c.Info }

// Count counts operations by kind, in the order in which kinds first appear.
func Count(ops []*history.Op) []Counts {
	at := map[string]int{}
	var out []Counts
	for _, op := range ops {
		i, ok := at[op.F]
		if !ok {
			i = len(out)
			at[op.F] = i
			out = append(out, Counts{F: op.F})
		}
		switch op.Type {
		case history.OK:
			out[i].OK++
		case history.Fail:
			out[i].Fail++
		default:
			out[i].Info++
		}
	}
	return out
}

// Stats demands that each kind of operation succeeded at least once; crashes are
// made by the generator and exempt.
func Stats(ops []*history.Op) Result {
	var c collector
	for _, n := range Count(ops) {
		if n.F != history.Crash && n.OK == 0 {
			c.add(NoSuccess, nil, "%s: 0 of %d succeeded (%d failed, %d unknown)", n.F, n.Total(), n.Fail, n.Info)
		}
	}
	r := c.result("stats")
	if len(ops) == 0 {
		r.Verdict = Unknown
		r.Notes = append(r.Notes, NoOperations+": nothing was done, so nothing was shown")
	}
	return r
}

// Availability is the share of operations that succeeded; limit below 0 only
// reports it. Crashes count as not succeeded, as in Maelstrom.
func Availability(ops []*history.Op, limit float64) Result {
	ok := 0
	for _, op := range ops {
		if op.Type == history.OK {
			ok++
		}
	}
	var c collector
	share := 0.0
	if len(ops) > 0 {
		share = float64(ok) / float64(len(ops))
	}
	note := fmt.Sprintf("%.5f of %d operations succeeded", share, len(ops))
	if limit >= 0 && share < limit {
		c.add(Unavailable, nil, "%.5f is below %.5f", share, limit)
	}
	return c.result("availability", note)
}
