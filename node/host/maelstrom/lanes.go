package maelstrom

import (
	"sync"

	"lockstep/internal/invariant"
	"lockstep/node/host"
	"lockstep/storage"
)

const (
	// maxLaneOps bounds what waits in one lane; machines keep far below it.
	maxLaneOps = 1 << 16
	// readers is how many cold reads run at once.
	readers = 4
)

// lanes perform a machine's disk work beside the loop, in order within a lane.
type lanes struct {
	disk  host.Doer
	done  func(*storage.Result)
	queue [storage.NumLanes]laneQueue
	work  sync.WaitGroup
}

type laneQueue struct {
	mu    sync.Mutex
	ready *sync.Cond
	ops   []storage.Op
	over  bool
}

// startLanes begins; done is called from the lanes' goroutines.
func startLanes(disk host.Doer, done func(*storage.Result)) *lanes {
	l := &lanes{disk: disk, done: done}
	for i := range l.queue {
		q := &l.queue[i]
		q.ready = sync.NewCond(&q.mu)
		workers := 1
		if storage.Lane(i) == storage.LaneRead {
			workers = readers
		}
		for range workers {
			l.work.Go(func() { l.run(q) })
		}
	}
	return l
}

func (l *lanes) put(op storage.Op) {
	q := &l.queue[op.Lane]
	q.mu.Lock()
	q.ops = append(q.ops, op)
	waiting := len(q.ops)
	q.mu.Unlock()
	invariant.That(waiting <= maxLaneOps, "maelstrom: %d operations wait in lane %d", waiting, op.Lane)
	q.ready.Signal()
}

func (l *lanes) run(q *laneQueue) {
	var batch []storage.Op
	for {
		q.mu.Lock()
		for len(q.ops) == 0 && !q.over {
			q.ready.Wait()
		}
		if q.over {
			q.mu.Unlock()
			return
		}
		n := len(q.ops)
		if q == &l.queue[storage.LaneRead] {
			n = 1 // the rest is for the other readers
		}
		batch = append(batch[:0], q.ops[:n]...)
		q.ops = q.ops[:copy(q.ops, q.ops[n:])]
		q.mu.Unlock()
		for _, op := range batch {
			r := l.disk.Do(op)
			l.done(&r)
		}
		clear(batch)
	}
}

// stop ends the lanes after the operations they have taken; queued ones are
// dropped, as by a process that ends.
func (l *lanes) stop() {
	for i := range l.queue {
		q := &l.queue[i]
		q.mu.Lock()
		q.over = true
		q.mu.Unlock()
		q.ready.Broadcast()
	}
	l.work.Wait()
}
