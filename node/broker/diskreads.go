package broker

import (
	"lockstep/node"
	"lockstep/storage"
)

// diskReads are the reads of the services that wait for the disk, by operation
// id. Their number is bounded by MaxDiskReads.
type diskReads struct {
	waiting map[uint64]diskRead
}

// diskRead is what goes on when the disk has answered.
type diskRead interface {
	done(b *Broker, now node.Now, r storage.Result)
}

func newDiskReads() diskReads { return diskReads{waiting: map[uint64]diskRead{}} }

// full reports whether no further read may be started.
func (d *diskReads) full(b *Broker) bool { return len(d.waiting) >= b.o.MaxDiskReads }

// start issues a read; its result goes to next.
func (d *diskReads) start(b *Broker, op storage.Op, next diskRead) {
	op.Lane, op.Gen = storage.LaneRead, b.log.gen
	d.waiting[b.disk(op, ownerServices)] = next
}

// take ends a read. ok is false for operations that are no read of this table.
func (d *diskReads) take(id uint64) (diskRead, bool) {
	r, ok := d.waiting[id]
	delete(d.waiting, id)
	return r, ok
}
