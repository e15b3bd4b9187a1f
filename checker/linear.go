package checker

import (
	"time"

	"github.com/anishathalye/porcupine"
)

// MaxLinear is the largest queue history that CheckLinear accepts: beyond it the
// direct checker alone decides.
const MaxLinear = 2000

// CheckLinear is the cross-check of one queue by porcupine: an append log where
// an acknowledged send returns its offset and a read returns the value at an
// offset. Unknown sends are first resolved against the final queue (found: their
// offset is known and their end stays open; nowhere: they never happened), since
// the search is factorial in open operations otherwise. So is a copy that an unknown
// try of an acknowledged send left. "Nothing new" reads are always legal and are not
// part of the history.
func CheckLinear(queue string, h *History, limit time.Duration) []Finding {
	ops, ok := linearOps(queue, h)
	if !ok {
		return nil // a message that nobody sent: the direct checker has told it
	}
	if len(ops) > MaxLinear {
		return nil
	}
	switch porcupine.CheckOperationsTimeout(logModel(h.Final[queue]), ops, limit) {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return []Finding{finding("queue", "undecided", 0, "%s: %d operations not decided in %v", queue, len(ops), limit)}
	}
	return []Finding{finding("queue", "not-linearizable", 0, "%s: no order explains its %d operations", queue, len(ops))}
}

// linearOps is one append for each entry of the final queue, the acknowledged appends
// that are not there, and the reads. ok is false when an entry has no send.
func linearOps(queue string, h *History) (ops []porcupine.Operation, ok bool) {
	add := func(op Op) {
		ops = append(ops, porcupine.Operation{ClientId: op.Client, Input: op, Call: op.Invoke, Return: op.Return})
	}
	sends := map[string]*Op{}
	placed := map[string]bool{} // acknowledged sends whose entry is there
	for i := range h.Ops {
		if op := &h.Ops[i]; op.Kind == Send {
			sends[op.Key] = op
		}
	}
	for _, e := range h.Final[queue] {
		s := sends[e.Key]
		if s == nil {
			return nil, false
		}
		op := *s
		if s.Status == Done && s.Queue == queue && s.Offset == e.Offset {
			placed[e.Key] = true
		} else {
			op.Queue, op.Offset, op.Return = queue, e.Offset, Open
		}
		add(op)
	}
	for _, op := range h.Ops {
		if op.Queue != queue || h.allowed(op.Key) {
			continue
		}
		if op.Kind == Read || op.Status == Done && !placed[op.Key] {
			add(op)
		}
	}
	return ops, true
}

// logModel is the append log whose final content is known: the state is only how
// many entries exist, since entry k can be nothing but final[k].
func logModel(final []Entry) porcupine.Model {
	first := int64(0)
	if len(final) > 0 {
		first = final[0].Offset
	}
	return porcupine.Model{
		Init: func() any { return first },
		Step: func(state, input, _ any) (bool, any) {
			n, op := state.(int64), input.(Op)
			i := op.Offset - first
			if i < 0 {
				return true, n // expired
			}
			if i >= int64(len(final)) || final[i].Key != op.Key {
				return false, n
			}
			if op.Kind == Send {
				return op.Offset == n, n + 1
			}
			return op.Offset < n, n
		},
		Equal: func(a, b any) bool { return a == b },
	}
}
