package sim

import "lockstep/internal/invariant"

// what says which part of the world an event continues.
type what uint8

const (
	evNet      what = iota // ref: the net's reference
	evLand                 // ref: operation slot; the operation takes effect on the disk
	evDone                 // ref: operation slot; its result reaches the machine
	evRun                  // node: the machine has time for the next batch
	evWake                 // node: its deadline may have come
	evBoot                 // node: its start is over
	evFault                // ref: index of the fault that fires
	evFaultEnd             // ref: index of the fault whose duration is over
	evCall                 // ref: slot of a scenario's function
)

// entry is one pending event: 24 bytes, so that four children share a cache
// line and a half. Larger things lie in slabs that ref points into.
type entry struct {
	at   int64
	seq  uint64 // order of events at one instant
	ref  uint32
	node uint16
	what what
}

// before orders events by time, then by when they were scheduled.
func (a *entry) before(b *entry) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }

// heap is a typed 4-ary min-heap of events.
type heap struct {
	list []entry
	seq  uint64
}

// push adds an event; it does not allocate once the heap has its size.
func (h *heap) push(at int64, w what, node uint16, ref uint32) {
	h.seq++
	e := entry{at: at, seq: h.seq, ref: ref, node: node, what: w}
	h.list = append(h.list, e)
	i := len(h.list) - 1
	for i > 0 {
		up := (i - 1) / 4
		if !e.before(&h.list[up]) {
			break
		}
		h.list[i] = h.list[up]
		i = up
	}
	h.list[i] = e
}

// pop removes the earliest event.
func (h *heap) pop() entry {
	invariant.That(len(h.list) > 0, "pop of an empty heap")
	top, last := h.list[0], len(h.list)-1
	e := h.list[last]
	h.list = h.list[:last]
	if last > 0 {
		h.sink(e)
	}
	return top
}

// sink places e, starting at the root.
func (h *heap) sink(e entry) {
	i, n := 0, len(h.list)
	for {
		first := 4*i + 1
		if first >= n {
			break
		}
		least := first
		for c := first + 1; c < min(first+4, n); c++ {
			if h.list[c].before(&h.list[least]) {
				least = c
			}
		}
		if !h.list[least].before(&e) {
			break
		}
		h.list[i] = h.list[least]
		i = least
	}
	h.list[i] = e
}
