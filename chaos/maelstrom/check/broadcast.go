package check

import (
	"fmt"

	"lockstep/chaos/maelstrom/history"
)

// Names of the broadcast workload.
const (
	Lost       = "lost"       // an element that was known is missing from the last reads
	Duplicated = "duplicated" // one read answered an element twice
	Stale      = "stale"      // allowed: a read began after an element was known and missed it
	Unexpected = "unexpected" // Beyond: an element that nobody has broadcast
	NeverRead  = "never-read" // allowed: an acknowledged element that no read could show
)

// element is what is known of one broadcast value.
type element struct {
	op      *history.Op
	known   int // place from which it is known: acknowledged, or read
	present *history.Op
	absent  *history.Op // last read that began later than known and lacked it
	lostIn  *history.Op // a final read that lacked it
	stale   int
}

// Broadcast judges reads of a growing set. An element is lost when the last read
// that began after it was known lacks it, or, stricter than Maelstrom, any read of
// the final phase that began after it was known.
func Broadcast(ops []*history.Op) Result {
	var c collector
	elements := map[int64]*element{}
	for _, op := range ops {
		if op.F == history.Broadcast && op.Type != history.Fail {
			elements[op.Msg] = &element{op: op, known: op.End}
		}
	}
	reads := broadcastReads(ops, elements, &c)
	keys := sortedKeys(elements)
	// The reads lie in order of invocation, so the last to touch an element wins.
	for _, r := range reads {
		for _, k := range keys {
			elements[k].see(r)
		}
	}
	stable := 0
	for _, k := range keys {
		stable += elements[k].judge(k, &c)
	}
	r := c.result("broadcast", fmt.Sprintf("%d elements, %d in every last read, %d reads", len(keys), stable, len(reads)))
	if stable == 0 && r.Verdict == Valid {
		r.Verdict = Unknown
		r.Notes = append(r.Notes, "no element was both broadcast and read, so nothing was shown")
	}
	return r
}

// setRead is one read with its elements as a set.
type setRead struct {
	op  *history.Op
	has map[int64]bool
}

// broadcastReads gathers the reads, and the earliest knowledge they give.
func broadcastReads(ops []*history.Op, elements map[int64]*element, c *collector) []setRead {
	var reads []setRead
	for _, op := range ops {
		if op.F != history.Read || op.Type != history.OK {
			continue
		}
		r := setRead{op, make(map[int64]bool, len(op.Elements))}
		for _, v := range op.Elements {
			e := elements[v]
			switch {
			case e == nil:
				c.add(Unexpected, op, "%s answered %d, which no broadcast added", name(op), v)
			case r.has[v]:
				c.add(Duplicated, op, "%s answered %d more than once", name(op), v)
			default:
				e.known = min(e.known, op.End)
			}
			r.has[v] = true
		}
		reads = append(reads, r)
	}
	return reads
}

func (e *element) see(r setRead) {
	if r.has[e.op.Msg] {
		e.present = r.op
		return
	}
	if r.op.Begin < e.known {
		return
	}
	e.absent = r.op
	e.stale++
	if r.op.Final {
		e.lostIn = r.op
	}
}

// judge reports one element and returns 1 when it is in the last reads.
func (e *element) judge(k int64, c *collector) int {
	missing := e.lostIn
	if missing == nil && e.absent != nil && (e.present == nil || e.present.Begin < e.absent.Begin) {
		missing = e.absent
	}
	switch {
	case missing != nil:
		c.add(Lost, missing, "%d (%s) is not in %s", k, name(e.op), name(missing))
		return 0
	case e.present == nil:
		if e.op.Type == history.OK {
			c.allow(NeverRead, e.op, "%d (%s): no read began after it", k, name(e.op))
		}
		return 0
	case e.stale > 0:
		c.allow(Stale, e.absent, "%d was missed by %d reads that began after it was known, last by %s", k, e.stale, name(e.absent))
	}
	return 1
}
