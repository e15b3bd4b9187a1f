package check

import (
	"fmt"
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
	byKey := map[string][]checker.CASOp{}
	last := map[string]*history.Op{}
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
		byKey[op.Key] = append(byKey[op.Key], o)
		last[op.Key] = op
	}
	undecided := 0
	for _, key := range sortedKeys(byKey) {
		switch checker.CheckCAS(byKey[key], limit) {
		case checker.NotLinearizable:
			c.add(Nonlinearizable, last[key], "key %s: no order explains its %d operations", key, len(byKey[key]))
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
