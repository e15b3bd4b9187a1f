package live

import (
	"sync"
	"time"

	"lockstep/sim"
	"lockstep/storage"
)

// lanes is what faults presently do to the speed of a node's disk.
type lanes struct {
	mu      sync.Mutex
	changed *sync.Cond
	stalled int   // nothing completes while it is above 0
	times   int64 // operations take so many times as long
}

func (l *lanes) init() {
	l.changed = sync.NewCond(&l.mu)
	l.times = 1
}

// stall adds or removes one reason why nothing completes.
func (l *lanes) stall(by int) {
	l.mu.Lock()
	l.stalled += by
	l.mu.Unlock()
	l.changed.Broadcast()
}

// slow multiplies or divides the time of operations.
func (l *lanes) slow(by int64, on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if on {
		l.times *= by
	} else {
		l.times /= by
	}
}

// wake lets waiting operations see that their life is over.
func (l *lanes) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed.Broadcast()
}

// pass waits until nothing stalls, or over, and returns how slow the disk is.
func (l *lanes) pass(over func() bool) (times int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.stalled > 0 && !over() {
		l.changed.Wait()
	}
	return l.times
}

// laneDoer performs the operations of one life.
type laneDoer struct {
	n     *Node
	life  int
	store sim.Doer
	files *files
}

// Do performs one operation in the store, no faster than the faults of the disk
// allow, and shows the result to the judges before the machine hears of it.
func (d *laneDoer) Do(op storage.Op) storage.Result {
	n, over := d.n, d.files.over
	n.lanes.pass(over)
	began := time.Now()
	r := d.store.Do(op)
	took := time.Since(began)
	if times := n.lanes.pass(over); times > 1 && !over() {
		time.Sleep(time.Duration(times-1) * took)
	}
	w := n.w
	w.hold()
	defer w.release()
	switch {
	case n.life != d.life || n.state != stateUp:
	case n.armed != nil && n.disk.shadow.Stopped():
		w.crashInside(n)
	default:
		for _, o := range w.observers {
			o.OnDisk(n.spec.Name, &r)
		}
	}
	return r
}
