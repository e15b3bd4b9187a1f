package host

import (
	"sync"

	"lockstep/internal/invariant"
	"lockstep/storage"
)

// maxLaneOps bounds the operations that wait in one lane; machines keep far below
// it, so that reaching it is a defect of theirs.
const maxLaneOps = 1 << 16

// lanes perform blocking disk work beside the loop: one goroutine a lane keeps
// the order of its operations, the read lane has several.
type lanes struct {
	n     *Node
	disk  Doer
	queue [storage.NumLanes]laneQueue
	wg    sync.WaitGroup
}

type laneQueue struct {
	mu    sync.Mutex
	ready *sync.Cond
	ops   []storage.Op
	head  int // ops before it were taken
	over  bool
}

func startLanes(n *Node, disk Doer) *lanes {
	l := &lanes{n: n, disk: disk}
	for i := range l.queue {
		q := &l.queue[i]
		q.ready = sync.NewCond(&q.mu)
		workers := 1
		if storage.Lane(i) == storage.LaneRead {
			workers = n.o.Readers
		}
		for range workers {
			l.wg.Go(func() { l.work(q) })
		}
	}
	return l
}

func (l *lanes) put(op storage.Op) {
	q := &l.queue[op.Lane]
	q.mu.Lock()
	if q.head > 0 && len(q.ops) == cap(q.ops) { // reuse the room of those taken
		k := copy(q.ops, q.ops[q.head:])
		clear(q.ops[k:])
		q.ops, q.head = q.ops[:k], 0
	}
	q.ops = append(q.ops, op)
	waiting := len(q.ops) - q.head
	q.mu.Unlock()
	invariant.That(waiting <= maxLaneOps, "host: %d operations wait in lane %d", waiting, op.Lane)
	q.ready.Signal()
}

// take waits for the next operation; not ok at the end of the node.
func (q *laneQueue) take() (op storage.Op, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.head == len(q.ops) && !q.over {
		q.ready.Wait()
	}
	if q.over {
		return op, false
	}
	op, q.ops[q.head] = q.ops[q.head], storage.Op{}
	if q.head++; q.head == len(q.ops) {
		q.ops, q.head = q.ops[:0], 0
	}
	return op, true
}

func (l *lanes) work(q *laneQueue) {
	defer l.n.contain("a disk operation")
	for {
		op, ok := q.take()
		if !ok {
			return
		}
		l.n.gate.pass()
		r := l.disk.Do(op)
		l.n.box.put(fact{kind: factDisk, disk: &r})
	}
}

// stop ends the lanes once the operations under way are done; queued ones are
// dropped, as by a process that ends.
func (l *lanes) stop() {
	for i := range l.queue {
		q := &l.queue[i]
		q.mu.Lock()
		q.over = true
		q.mu.Unlock()
		q.ready.Broadcast()
	}
	l.wg.Wait()
}
