package broker

import (
	"lockstep/internal/invariant"
	"lockstep/node"
	"lockstep/node/wire"
)

// heldPulls are the pulls that found nothing and wait: by queue, so that a new
// message finds them, and by deadline. Slots are reused; a slot's generation
// tells a dead reference in the heap from a live one.
type heldPulls struct {
	slots   []heldPull
	free    []int32
	byQueue map[queueKey][]int32
	heap    []holdDeadline
	live    int
	scratch []int32
}

// heldPull is one slot.
type heldPull struct {
	query pullQuery
	// checked is the queue offset up to which nothing matched.
	checked int64
	gen     uint32
	live    bool
}

// holdDeadline is one entry of the deadline heap.
type holdDeadline struct {
	at   node.Time
	slot int32
	gen  uint32
}

func newHeldPulls() heldPulls { return heldPulls{byQueue: map[queueKey][]int32{}} }

// hold parks q. It returns false when the table is full: the pull is then
// answered at once, which only costs the client another request.
func (h *heldPulls) hold(b *Broker, q *pullQuery) bool {
	if h.live >= b.o.MaxHeldPulls {
		return false
	}
	var slot int32
	if n := len(h.free); n > 0 {
		slot, h.free = h.free[n-1], h.free[:n-1]
	} else {
		slot = int32(len(h.slots))
		h.slots = append(h.slots, heldPull{})
	}
	p := &h.slots[slot]
	p.query, p.checked, p.live = *q, q.offset, true
	h.live++
	h.byQueue[q.key] = append(h.byQueue[q.key], slot)
	h.push(holdDeadline{q.deadline, slot, p.gen})
	return true
}

// release takes a pull out of the table and returns it; it may not be held again
// (wire contracts 2.2: the second attempt never suspends).
func (h *heldPulls) release(slot int32) pullQuery {
	p := &h.slots[slot]
	invariant.That(p.live, "held pull %d released twice", slot)
	q := p.query
	list := h.byQueue[q.key]
	for i, x := range list {
		if x == slot {
			list = append(list[:i], list[i+1:]...)
			break
		}
	}
	if len(list) == 0 {
		delete(h.byQueue, q.key)
	} else {
		h.byQueue[q.key] = list
	}
	*p = heldPull{gen: p.gen + 1}
	h.free = append(h.free, slot)
	h.live--
	q.suspend = 0
	return q
}

// dropSession forgets the pulls of a session that is gone.
func (h *heldPulls) dropSession(s node.SessionID) {
	for slot := range h.slots {
		if h.slots[slot].live && h.slots[slot].query.session == s {
			h.release(int32(slot))
		}
	}
}

// settlePulls serves held pulls whose queue has something for them, and those
// whose time is over.
func (b *Broker) settlePulls(now node.Now) {
	for _, que := range b.takeGrown() {
		b.wakePulls(now, que)
	}
	for {
		slot, ok := b.pulls.expired(now.Mono)
		if !ok {
			return
		}
		q := b.pulls.release(slot)
		b.runPull(now, &q)
	}
}

// wakePulls serves the pulls held on a queue whose visible end has moved, when a
// new message carries a tag they want.
func (b *Broker) wakePulls(now node.Now, que *queue) {
	h := &b.pulls
	list := h.byQueue[queueKey{que.topic, que.id}]
	if len(list) == 0 {
		return
	}
	h.scratch = append(h.scratch[:0], list...) // releasing changes the list
	for _, slot := range h.scratch {
		if b.wakes(&h.slots[slot], que) {
			q := h.release(slot)
			b.runPull(now, &q)
		}
	}
}

// wakes reports whether p has something to find between what it checked last and
// the visible end. An entry that is no longer in memory counts as a match: the
// full pull will see.
func (b *Broker) wakes(p *heldPull, que *queue) bool {
	end := b.visible(que)
	for ; p.checked < end; p.checked++ {
		e, hot := que.entry(p.checked)
		if !hot || p.query.filter.matches(e.tag) {
			return true
		}
	}
	return false
}

// answerHeldPulls ends every hold when this broker has become a slave: a consumer
// that waited here would not hear of new messages. It asks the master next.
func (b *Broker) answerHeldPulls(now node.Now) {
	for slot := range b.pulls.slots {
		if !b.pulls.slots[slot].live {
			continue
		}
		q := b.pulls.release(int32(slot))
		if b.o.SlaveReadEnable {
			b.runPull(now, &q)
			continue
		}
		b.failPull(&q, wire.CodeSystemBusy, "[REJECTREQUEST]system busy, start flow control for a while: this broker is no longer master")
	}
}

// deadline is the earliest end of a hold.
func (h *heldPulls) deadline() node.Time {
	h.clean()
	if len(h.heap) == 0 {
		return node.Never
	}
	return h.heap[0].at
}

// expired returns a pull whose time is over.
func (h *heldPulls) expired(now node.Time) (slot int32, ok bool) {
	h.clean()
	if len(h.heap) == 0 || h.heap[0].at > now {
		return 0, false
	}
	return h.heap[0].slot, true
}

// clean drops dead entries from the top of the heap.
func (h *heldPulls) clean() {
	for len(h.heap) > 0 {
		d := h.heap[0]
		if p := &h.slots[d.slot]; p.live && p.gen == d.gen {
			return
		}
		h.pop()
	}
}

// less orders the heap by deadline; the slot breaks ties, so that a run repeats.
func (d holdDeadline) less(e holdDeadline) bool {
	return d.at < e.at || d.at == e.at && d.slot < e.slot
}

// push and pop keep a binary heap without boxing its values.
func (h *heldPulls) push(d holdDeadline) {
	// Dead entries are only dropped at the top; rebuild before they dominate.
	if len(h.heap) > 2*len(h.slots)+64 {
		h.compact()
	}
	h.heap = append(h.heap, d)
	for i := len(h.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if !h.heap[i].less(h.heap[up]) {
			break
		}
		h.heap[i], h.heap[up] = h.heap[up], h.heap[i]
		i = up
	}
}

func (h *heldPulls) pop() {
	n := len(h.heap) - 1
	h.heap[0] = h.heap[n]
	h.heap = h.heap[:n]
	h.sift(0)
}

func (h *heldPulls) sift(i int) {
	n := len(h.heap)
	for {
		least := i
		for _, c := range [...]int{2*i + 1, 2*i + 2} {
			if c < n && h.heap[c].less(h.heap[least]) {
				least = c
			}
		}
		if least == i {
			return
		}
		h.heap[i], h.heap[least] = h.heap[least], h.heap[i]
		i = least
	}
}

// compact keeps only live entries.
func (h *heldPulls) compact() {
	keep := h.heap[:0]
	for _, d := range h.heap {
		if p := &h.slots[d.slot]; p.live && p.gen == d.gen {
			keep = append(keep, d)
		}
	}
	h.heap = keep
	for i := len(h.heap)/2 - 1; i >= 0; i-- {
		h.sift(i)
	}
}
