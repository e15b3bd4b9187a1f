package maelstrom

import (
	"container/heap"
	"sync"
	"time"
)

// MaxInbox is how many messages may wait for one receiver.
const MaxInbox = 1 << 20

// inbox holds the messages for one receiver by due time. The receiver takes the
// head whether it is due or not and then waits for it, so that a message that
// comes meanwhile with an earlier time waits behind it: Maelstrom's rule.
type inbox struct {
	mu     sync.Mutex
	some   sync.Cond
	queue  byDue
	closed bool
}

func newInbox() *inbox {
	b := &inbox{}
	b.some.L = &b.mu
	return b
}

// put returns false when the inbox is full.
func (b *inbox) put(m *Message) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) >= MaxInbox {
		return false
	}
	heap.Push(&b.queue, m)
	b.some.Signal()
	return true
}

// take waits for a message and takes the head; false when the inbox was closed.
func (b *inbox) take() (*Message, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.queue) == 0 && !b.closed {
		b.some.Wait()
	}
	if b.closed {
		return nil, false
	}
	return heap.Pop(&b.queue).(*Message), true
}

// quiet reports that nothing is to be delivered by now.
func (b *inbox) quiet(now time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue) == 0 || b.queue[0].due > now
}

func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.some.Broadcast()
}

// byDue orders by due time, then by number.
type byDue []*Message

func (q byDue) Len() int { return len(q) }
func (q byDue) Less(i, j int) bool {
	if q[i].due != q[j].due {
		return q[i].due < q[j].due
	}
	return q[i].ID < q[j].ID
}
func (q byDue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *byDue) Push(x any) { *q = append(*q, x.(*Message)) }

// Pop implements heap.Interface.
func (q *byDue) Pop() any {
	old := *q
	m := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return m
}
