// Package check judges histories of Maelstrom's workloads and names what is wrong
// by Maelstrom's own names. Names that Maelstrom does not have are marked Beyond
// where they are declared.
package check

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"lockstep/chaos/maelstrom/history"
)

// Verdict of a run or of one checker.
type Verdict string

// Verdicts, from good to bad. Unknown is never taken for Valid.
const (
	Valid   Verdict = "valid"
	Unknown Verdict = "unknown"
	Invalid Verdict = "invalid"
)

// maxExamples is how many cases of one name are kept; all are counted.
const maxExamples = 5

// Example is one case of an anomaly.
type Example struct {
	Text string        `json:"text"`
	At   time.Duration `json:"atNanos"` // when the operation that shows it ended
}

// Anomaly is everything found under one name.
type Anomaly struct {
	Name     string    `json:"name"`
	Count    int       `json:"count"`
	Allowed  bool      `json:"allowed,omitempty"` // reported, does not make the run invalid
	Examples []Example `json:"examples"`
}

// Result is what a checker found.
type Result struct {
	Checker   string    `json:"checker"`
	Verdict   Verdict   `json:"verdict"`
	Anomalies []Anomaly `json:"anomalies,omitempty"`
	Notes     []string  `json:"notes,omitempty"` // figures and remarks
}

// Names are the names of the anomalies that make the result invalid, sorted.
func (r Result) Names() []string {
	var out []string
	for _, a := range r.Anomalies {
		if !a.Allowed {
			out = append(out, a.Name)
		}
	}
	sort.Strings(out)
	return out
}

// First is the time of the earliest example that counts, and whether there is one.
func (r Result) First() (time.Duration, bool) {
	first, found := time.Duration(0), false
	for _, a := range r.Anomalies {
		for _, e := range a.Examples {
			if !a.Allowed && (!found || e.At < first) {
				first, found = e.At, true
			}
		}
	}
	return first, found
}

// Worst of several verdicts.
func Worst(vs ...Verdict) Verdict {
	order := []Verdict{Valid, Unknown, Invalid}
	worst := 0
	for _, v := range vs {
		worst = max(worst, slices.Index(order, v))
	}
	return order[worst]
}

// collector gathers anomalies by name in the order of their first case.
type collector struct {
	byName map[string]int
	out    []Anomaly
}

func (c *collector) add(name string, op *history.Op, format string, args ...any) {
	c.note(name, false, op, format, args...)
}

// allow reports a case that is legal but worth seeing.
func (c *collector) allow(name string, op *history.Op, format string, args ...any) {
	c.note(name, true, op, format, args...)
}

func (c *collector) note(name string, allowed bool, op *history.Op, format string, args ...any) {
	if c.byName == nil {
		c.byName = map[string]int{}
	}
	i, ok := c.byName[name]
	if !ok {
		i = len(c.out)
		c.byName[name] = i
		c.out = append(c.out, Anomaly{Name: name, Allowed: allowed})
	}
	a := &c.out[i]
	a.Count++
	if len(a.Examples) < maxExamples {
		e := Example{Text: fmt.Sprintf(format, args...)}
		if op != nil {
			e.At = max(op.Completed, op.Invoked)
		}
		a.Examples = append(a.Examples, e)
	}
}

func (c *collector) result(checker string, notes ...string) Result {
	r := Result{Checker: checker, Verdict: Valid, Anomalies: c.out, Notes: notes}
	if len(r.Names()) > 0 {
		r.Verdict = Invalid
	}
	return r
}

// name is how an operation is told in an example.
func name(op *history.Op) string {
	return fmt.Sprintf("op %d (process %d, %s on n%d)", op.Index, op.Process, op.F, op.Node)
}

// sortedKeys of a map, since its own order must not be seen.
func sortedKeys[K interface{ ~string | ~int64 }, V any](m map[K]V) []K {
	out := make([]K, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
