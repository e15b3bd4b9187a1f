package checker

import "sort"

// Activity is the least a run must have done to show anything.
type Activity struct {
	Before   int      // sends acknowledged before the first fault
	InFlight int      // sends open at the first fault
	After    int      // sends acknowledged after the last fault ended
	Marks    []string // named states the run must have reached
}

// Instants are when the faults of a run began and ended, world time.
type Instants struct{ FirstFault, LastHeal int64 }

// CheckActivity fails a run that was too quiet: it is vacuous.
func CheckActivity(want Activity, ops []Op, at Instants, marks map[string]int) []Finding {
	var before, open, after int
	for _, op := range ops {
		if op.Kind != Send {
			continue
		}
		done := op.Status == Done
		switch {
		case done && op.Return <= at.FirstFault:
			before++
		case op.Invoke <= at.FirstFault && op.Return > at.FirstFault:
			open++
		case done && op.Return > at.LastHeal:
			after++
		}
	}
	var out []Finding
	if at.FirstFault == 0 && want.Before > 0 {
		return []Finding{finding("activity", "vacuous", 0, "nothing struck: no fault of the plan fired")}
	}
	least := func(what string, got, want int) {
		if got < want {
			out = append(out, finding("activity", "vacuous", at.FirstFault, "%d sends %s, at least %d are needed", got, what, want))
		}
	}
	least("acknowledged before the fault", before, want.Before)
	least("in flight at the fault", open, want.InFlight)
	least("acknowledged after it healed", after, want.After)
	for _, m := range want.Marks {
		if marks[m] == 0 {
			out = append(out, finding("activity", "vacuous", at.FirstFault, "the run never reached %q", m))
		}
	}
	return out
}

// Percentile returns the p-th percentile (0–100) of values; 0 for none. values
// is sorted in place.
func Percentile(values []int64, p int) int64 {
	if len(values) == 0 {
		return 0
	}
	sort.Slice(values, func(i, j int) bool { return values[i] < values[j] })
	return values[(len(values)-1)*p/100]
}
