package host

import (
	"sync"

	"lockstep/internal/invariant"
	"lockstep/storage"
)

// maxLaneOps bounds the operations that wait in one lane; machines keep far below
// it, so that reaching it is a defect of theirs.
const maxLaneOps = 1 << 16

// Doer performs blocking disk work: a broker's store or a controller's raft store.
// Operations of one lane come from one goroutine, in order.
type Doer interface {
	Do(op storage.Op) storage.Result
}

// LaneOptions say how lanes work. Disk, Done and Readers are required.
type LaneOptions struct {
	Disk    Doer
	Done    func(*storage.Result) // gets each result, on the lane's goroutine
	Readers int                   // cold reads that run at once
	// Around calls work, which is all that a lane's goroutine does; nil calls it.
	Around func(work func())
}

// Lanes perform blocking disk work beside a loop: one goroutine a lane keeps the
// order of its operations, the read lane has several.
type Lanes struct {
	o     LaneOptions
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

// StartLanes begins; Stop ends.
func StartLanes(o LaneOptions) *Lanes {
	if o.Around == nil {
		o.Around = func(work func()) { work() }
	}
	l := &Lanes{o: o}
	for i := range l.queue {
		q := &l.queue[i]
		q.ready = sync.NewCond(&q.mu)
		workers := 1
		if storage.Lane(i) == storage.LaneRead {
			workers = o.Readers
		}
		for range workers {
			l.wg.Go(func() { o.Around(func() { l.work(q) }) })
		}
	}
	return l
}

// Put queues an operation. It does not wait.
func (l *Lanes) Put(op storage.Op) {
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

// take waits for the next operation; not ok at the end.
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

func (l *Lanes) work(q *laneQueue) {
	for {
		op, ok := q.take()
		if !ok {
			return
		}
		r := l.o.Disk.Do(op)
		l.o.Done(&r)
	}
}

// Stop ends the lanes once the operations under way are done; queued ones are
// dropped, as by a process that ends.
func (l *Lanes) Stop() {
	for i := range l.queue {
		q := &l.queue[i]
		q.mu.Lock()
		q.over = true
		q.mu.Unlock()
		q.ready.Broadcast()
	}
	l.wg.Wait()
}

// startLanes runs the node's disk, which a Pause stops, and a panic in which ends
// the node.
func (n *Node) startLanes() {
	n.lanes = StartLanes(LaneOptions{Disk: pausedWith{n}, Readers: n.o.Readers,
		Done:   func(r *storage.Result) { n.box.put(fact{kind: factDisk, disk: r}) },
		Around: func(work func()) { defer n.contain("a disk operation"); work() }})
}

// pausedWith is the node's disk, which waits while the node is paused.
type pausedWith struct{ n *Node }

// Do performs an operation.
func (d pausedWith) Do(op storage.Op) storage.Result {
	d.n.gate.pass()
	return d.n.o.Disk.Do(op)
}
