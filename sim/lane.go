package sim

import (
	"lockstep/internal/decide"
	"lockstep/internal/prng"
	"lockstep/storage"
)

// lane is an ordered queue of disk work: one operation at a time, except for
// reads, of which several run beside each other.
type lane struct {
	waiting []uint32 // slots, head first
	head    int
	running int
}

// slot is one operation in progress.
type slot struct {
	res    storage.Result // res.Op is the operation
	node   uint16
	used   bool
	landed bool
	dead   bool   // its life is over; freed when its last event comes
	start  bool   // it was started, so an event is outstanding
	landAt int64  // it takes effect
	doneAt int64  // the machine may hear of it
	sum    uint64 // of its data at issue, when Poison is on
}

// The sites of disks.
var (
	siteWrite = decide.NewSite("disk.write", "ns", 20_000, 1_000_000_000)
	siteSync  = decide.NewSite("disk.sync", "ns", 1_000_000, 10_000_000_000)
	siteRead  = decide.NewSite("disk.read", "ns", 100_000, 10_000_000_000)
	siteLand  = decide.NewSite("disk.land", "permille", 1000, 0)
)

// issue starts or queues one operation of a machine.
func (w *World) issue(n *host, op *storage.Op) {
	id := w.newSlot()
	s := w.slots[id]
	s.node, s.used = uint16(n.index), true
	s.res.Op = *op
	h := hashOp(op)
	w.step(n, SubDisk, StepIssue, h, uint64(op.Kind))
	if w.opts.Poison {
		s.sum = h
	}
	l := &n.lanes[op.Lane]
	limit := 1
	if op.Lane == storage.LaneRead {
		limit = w.opts.ReadLanes
	}
	if l.running >= limit {
		l.waiting = append(l.waiting, id)
		return
	}
	w.startOp(n, id)
}

// newSlot takes a free operation slot.
func (w *World) newSlot() uint32 {
	if k := len(w.freeSlots); k > 0 {
		id := w.freeSlots[k-1]
		w.freeSlots = w.freeSlots[:k-1]
		return id
	}
	w.slots = append(w.slots, &slot{})
	return uint32(len(w.slots) - 1)
}

// freeSlot forgets an operation and what it referred to.
func (w *World) freeSlot(id uint32) {
	*w.slots[id] = slot{}
	w.freeSlots = append(w.freeSlots, id)
}

// startOp draws when the operation takes effect and when it is done.
func (w *World) startOp(n *host, id uint32) {
	s := w.slots[id]
	op := &s.res.Op
	n.lanes[op.Lane].running++
	k := n.opKey(op)
	nanos := w.latency(n, op, k)
	land := nanos * w.decider.Decide(siteLand, k, decide.Dist{Lo: 0, Hi: 1000}) / 1000
	s.start, s.landAt, s.doneAt = true, w.now+land, w.now+nanos
	if s.landAt == s.doneAt {
		w.heap.push(s.doneAt, evDone, s.node, id)
		return
	}
	w.heap.push(s.landAt, evLand, s.node, id)
}

// opKey names an operation by its kind and place.
func (n *host) opKey(op *storage.Op) decide.Key {
	at := int64(op.Off)
	switch op.Kind {
	case storage.OpSave, storage.OpSuspect:
		at = int64(prng.HashString(op.Name) >> 1)
	case storage.OpPull, storage.OpSeek:
		at = op.Pull.Offset
	case storage.OpRaft, storage.OpQueue, storage.OpSync:
		n.ops++
		at = n.ops
	}
	return n.key(int32(op.Kind), at)
}

// latency draws how long the operation takes.
func (w *World) latency(n *host, op *storage.Op, k decide.Key) int64 {
	var nanos, size int64
	for _, d := range op.Data {
		size += int64(len(d))
	}
	size += int64(len(op.Blob))
	switch op.Kind {
	case storage.OpAppend, storage.OpQueue:
		nanos = w.decider.Decide(siteWrite, k, w.opts.DiskWrite)
	case storage.OpRead, storage.OpPull, storage.OpSeek, storage.OpLoadMeta:
		nanos = w.decider.Decide(siteRead, k, w.opts.DiskRead)
		size += int64(op.Max + op.Pull.MaxBytes)
	case storage.OpSync:
		nanos = w.decider.Decide(siteSync, k, w.opts.DiskSync)
	default:
		nanos = w.decider.Decide(siteWrite, k, w.opts.DiskWrite) + w.decider.Decide(siteSync, k, w.opts.DiskSync)
	}
	return (nanos + size*w.opts.DiskNanosPerKiB>>10) * n.diskTimes
}

// onLand lets an operation take effect before it is done.
func (w *World) onLand(n *host, id uint32) {
	s := w.slots[id]
	if s.dead {
		w.freeSlot(id)
		return
	}
	if n.stalled > 0 {
		n.frozen = append(n.frozen, id)
		return
	}
	if w.land(n, id); s.dead {
		w.freeSlot(id)
		return
	}
	w.heap.push(max(s.doneAt, w.now), evDone, s.node, id)
}

// onDone gives the result to the machine and starts the lane's next operation.
func (w *World) onDone(n *host, id uint32) {
	s := w.slots[id]
	if s.dead {
		w.freeSlot(id)
		return
	}
	if n.stalled > 0 {
		n.frozen = append(n.frozen, id)
		return
	}
	if !s.landed {
		if w.land(n, id); s.dead {
			w.freeSlot(id)
			return
		}
	}
	l := &n.lanes[s.res.Op.Lane]
	l.running--
	s.start = false
	if l.head < len(l.waiting) {
		next := l.waiting[l.head]
		l.head++
		if l.head == len(l.waiting) {
			l.waiting, l.head = l.waiting[:0], 0
		}
		w.startOp(n, next)
	}
	w.accept(n, input{kind: inputDisk, slot: id})
}

// land executes the operation on the node's disk.
func (w *World) land(n *host, id uint32) {
	s := w.slots[id]
	op := &s.res.Op
	if w.opts.Poison && hashOp(op) != s.sum {
		w.find(n, "in-flight-data-changed", "data of operation "+opName(op)+" changed before its result")
	}
	ok := w.execute(n, s)
	s.landed = true
	if n.armed != nil && n.disk.Stopped() {
		w.crashInside(n)
		return
	}
	if !ok {
		return
	}
	w.step(n, SubDisk, StepLand, hashResult(&s.res), uint64(op.Kind))
	for _, o := range w.observers {
		o.OnDisk(n.spec.Name, &s.res)
	}
}

// execute runs the slot's operation in the store and keeps its result; a panic
// there is a finding.
func (w *World) execute(n *host, s *slot) (ok bool) {
	defer w.contain(n)
	w.current = n
	op := &s.res.Op
	if !w.opts.Poison || len(op.Data) == 0 && len(op.Blob) == 0 {
		s.res = n.doer.Do(*op)
		return true
	}
	own := *op
	scratch := own
	scratch.Data, scratch.Blob = cloneAll(op.Data), append([]byte(nil), op.Blob...)
	s.res = n.doer.Do(scratch)
	s.res.Op = own
	scribble(scratch.Data)
	scribble([][]byte{scratch.Blob})
	return true
}

// cloneAll copies every buffer.
func cloneAll(data [][]byte) [][]byte {
	out := make([][]byte, len(data))
	for i, d := range data {
		out[i] = append([]byte(nil), d...)
	}
	return out
}

// poison is what buffers hold once their contract has ended.
const poison = 0xdb

// scribble overwrites buffers whose contract has ended.
func scribble(data [][]byte) {
	for _, d := range data {
		for i := range d {
			d[i] = poison
		}
	}
}

// killLanes ends the operations of a life. Those that were started may have
// happened in part: a drawn number of their file operations is still performed,
// as by a process that dies in the middle of them.
func (w *World) killLanes(n *host) {
	for id := range w.slots {
		s := w.slots[id]
		if !s.used || s.dead || int(s.node) != n.index {
			continue
		}
		if s.start && !s.landed && n.stalled == 0 && !n.panicked && !n.disk.Stopped() {
			w.landPart(n, uint32(id))
		}
		s.dead = true
		if !s.start {
			w.freeSlot(uint32(id))
		}
	}
	for _, id := range n.frozen {
		w.freeSlot(id)
	}
	n.frozen = n.frozen[:0]
	for i := range n.lanes {
		n.lanes[i] = lane{waiting: n.lanes[i].waiting[:0]}
	}
}

// siteSteps is how many file operations of an interrupted disk operation still
// happen.
var siteSteps = decide.NewSite("crash.steps", "", 0, 6)

// landPart executes the first few file operations of an operation whose
// process dies.
func (w *World) landPart(n *host, id uint32) {
	s := w.slots[id]
	op := &s.res.Op
	steps := w.decider.Decide(siteSteps, n.key(int32(op.Kind), int64(op.ID)), decide.Dist{Lo: 0, Hi: 6})
	if steps == 0 {
		return
	}
	n.disk.StopAfter(n.disk.OpCount() + uint64(steps))
	w.execute(n, s)
	n.disk.StopAfter(1<<64 - 1)
}
