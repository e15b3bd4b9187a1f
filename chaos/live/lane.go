package live

import (
	"sync"
	"time"

	"lockstep/internal/decide"
	"lockstep/internal/prng"
	"lockstep/sim"
	"lockstep/storage"
)

// lanes is what faults presently do to the speed of a node's disk.
type lanes struct {
	mu      sync.Mutex
	changed *sync.Cond
	stalled int   // nothing completes while it is above 0
	times   int64 // operations take so many times as long
	rnd     *prng.Source
}

func (l *lanes) init(rnd *prng.Source) {
	l.rnd = rnd
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
	took := max(time.Since(began), d.least(op.Kind))
	if times := n.lanes.pass(over); !over() {
		time.Sleep(time.Duration(times)*took - time.Since(began))
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

// least is how long an operation takes at least, real time, where the scenario has
// disks of its own.
func (d *laneDoer) least(k storage.OpKind) time.Duration {
	w := d.n.w
	if !w.o.Latencies {
		return 0
	}
	o := &w.o.Sim
	nanos := int64(0)
	draw := func(of decide.Dist) int64 { return d.n.lanes.draw(of.Lo, of.Hi) }
	switch k {
	case storage.OpAppend, storage.OpQueue:
		nanos = draw(o.DiskWrite)
	case storage.OpRead, storage.OpPull, storage.OpSeek, storage.OpLoadMeta:
		nanos = draw(o.DiskRead)
	case storage.OpSync:
		nanos = draw(o.DiskSync)
	default:
		nanos = draw(o.DiskWrite) + draw(o.DiskSync)
	}
	return time.Duration(w.pacer.real(nanos))
}

func (l *lanes) draw(lo, hi int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rnd.Between(lo, hi)
}
