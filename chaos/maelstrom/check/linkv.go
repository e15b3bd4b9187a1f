package check

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"lockstep/chaos/maelstrom/history"
	"lockstep/checker"
)

// Nonlinearizable is the one name of the lin-kv workload: no order of the
// operations on a key explains its answers.
const Nonlinearizable = "nonlinearizable"

// LinKV judges each key as a register with compare-and-set that starts out empty.
// Keys that are not decided within limit make the result unknown.
func LinKV(ops []*history.Op, limit time.Duration) Result {
	var c collector
	byKey := map[string]*register{}
	nulls, done := 0, 0
	for _, op := range ops {
		if op.Type == history.Fail || op.Type != history.OK && op.F == history.Read {
			continue // did not happen, or shows nothing
		}
		o, null := casOp(op)
		if null {
			nulls++
		}
		if op.Type == history.OK {
			done++
		}
		if byKey[op.Key] == nil {
			byKey[op.Key] = &register{}
		}
		byKey[op.Key].add(op, o)
	}
	undecided := 0
	for _, key := range sortedKeys(byKey) {
		r := byKey[key]
		switch checker.CheckCAS(r.ops, limit) {
		case checker.NotLinearizable:
			n, op := r.first(limit)
			c.add(Nonlinearizable, op, "key %s: no order explains its first %d operations, up to the end of %s%s", key, n, name(op), kvText(op))
		case checker.Undecided:
			undecided++
		}
	}
	r := c.result("lin-kv", fmt.Sprintf("%d keys, %d operations that happened", len(byKey), done))
	if nulls > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d reads answered null, which fits every state: answer error 20 for a missing key", nulls))
	}
	if undecided > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d keys were not decided in %v each: fewer unknown operations or a shorter run", undecided, limit))
	}
	if r.Verdict == Valid && (undecided > 0 || done == 0) {
		r.Verdict = Unknown
	}
	return r
}

// register is the history of one key.
type register struct {
	ops  []checker.CASOp
	from []*history.Op
}

func (r *register) add(op *history.Op, o checker.CASOp) {
	r.ops, r.from = append(r.ops, o), append(r.from, op)
}

// first finds the completion by which there is no order any more, in a history
// that has none: how many operations had begun by then, and which one ended. A
// search that runs out of time counts as having found an order, so the answer may
// be late, never wrong.
func (r *register) first(limit time.Duration) (begun int, op *history.Op) {
	var ended []*history.Op
	for _, op := range r.from {
		if op.End != history.Never {
			ended = append(ended, op)
		}
	}
	slices.SortFunc(ended, func(a, b *history.Op) int { return a.End - b.End })
	i := sort.Search(len(ended)-1, func(i int) bool {
		return checker.CheckCAS(r.until(ended[i].End), limit) == checker.NotLinearizable
	})
	return len(r.until(ended[i].End)), ended[i]
}

// until is the history as it was known right after a place.
func (r *register) until(place int) []checker.CASOp {
	var out []checker.CASOp
	for _, o := range r.ops {
		if o.Invoke > int64(place) {
			continue
		}
		if o.Return > int64(place) {
			if o.Kind == checker.CASRead {
				continue // it had shown nothing yet
			}
			o.Return = checker.Open
		}
		out = append(out, o)
	}
	return out
}

// kvText tells what an operation did.
func kvText(op *history.Op) string {
	switch {
	case op.F == history.CAS:
		return fmt.Sprintf(" from %d to %d", op.From, op.Msg)
	case op.F == history.Write:
		return fmt.Sprintf(" of %d", op.Msg)
	case op.Value == nil:
		return " of null"
	}
	return fmt.Sprintf(" of %d", *op.Value)
}

// casOp turns an operation into the checker's; null says that it read null.
func casOp(op *history.Op) (o checker.CASOp, null bool) {
	o = checker.CASOp{Client: op.Process, Invoke: int64(op.Begin), Return: checker.Open, Value: op.Msg, From: op.From}
	if op.End != history.Never {
		o.Return = int64(op.End)
	}
	switch op.F {
	case history.Read:
		o.Kind, o.Any = checker.CASRead, op.Value == nil
		if op.Value != nil {
			o.Value = *op.Value
		}
		return o, o.Any
	case history.Write:
		o.Kind = checker.CASWrite
	default:
		o.Kind = checker.CASSwap
	}
	return o, false
}
