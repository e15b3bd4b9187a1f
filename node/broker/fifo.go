package broker

import "lockstep/internal/invariant"

// fifo is a queue of values in one ring that grows by doubling and is kept when
// it empties, so that a steady state allocates nothing. Each element has a
// sequence number that never changes: the first pushed has 0.
type fifo[T any] struct {
	ring  []T    // capacity is a power of two
	first uint64 // sequence number of the oldest element
	next  uint64 // sequence number of the next push
}

// len is the number of elements.
func (f *fifo[T]) len() int { return int(f.next - f.first) }

// push adds v at the end.
func (f *fifo[T]) push(v T) {
	if f.len() == len(f.ring) {
		f.grow()
	}
	f.ring[f.next&uint64(len(f.ring)-1)] = v
	f.next++
}

// front is the oldest element.
func (f *fifo[T]) front() *T { return f.at(f.first) }

// at is the element with sequence number seq.
func (f *fifo[T]) at(seq uint64) *T {
	if seq < f.first || seq >= f.next { // numbers are boxed only on failure: this runs for each message
		invariant.That(false, "fifo: %d is outside [%d,%d)", seq, f.first, f.next)
	}
	return &f.ring[seq&uint64(len(f.ring)-1)]
}

// pop removes the oldest element. Its slot is cleared, so that it keeps nothing
// alive.
func (f *fifo[T]) pop() T {
	p := f.front()
	v := *p
	*p = *new(T)
	f.first++
	return v
}

// reset empties the queue and releases its memory; sequence numbers go on.
func (f *fifo[T]) reset() { f.ring, f.first = nil, f.next }

// keptRing is the capacity up to which an empty queue keeps its memory.
const keptRing = 64

// shrink releases the memory of an empty queue that has grown large.
func (f *fifo[T]) shrink() {
	if f.len() == 0 && len(f.ring) > keptRing {
		f.reset()
	}
}

func (f *fifo[T]) grow() {
	ring := make([]T, max(2*len(f.ring), 8))
	for s := f.first; s < f.next; s++ {
		ring[s&uint64(len(ring)-1)] = *f.at(s)
	}
	f.ring = ring
}
