package broker

import (
	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/internal/invariant"
	"lockstep/node"
	"lockstep/storage"
)

// settleConfirm moves the confirm offset, which bounds what consumers see.
//
// On a master it is the least end that every member of the effective set has
// acknowledged in this epoch, its own included; a member without a session that
// counts holds it where it is. It does not move at all while the committed set is
// below the floor: only so may members removed below it stay electable (P6). It
// passes the epoch's start by acknowledgements of this epoch alone, because no
// other exist: every change of epoch closed the sessions (P7).
func (b *Broker) settleConfirm() {
	switch {
	case b.role.serving():
		b.confirmAsMaster()
	case b.role.following():
		b.confirm = max(b.confirm, min(b.up.confirm, b.log.durable))
	}
}

func (b *Broker) confirmAsMaster() {
	s := &b.set
	frozen := len(s.committed) < b.floor()
	if frozen != s.frozen {
		s.frozen = frozen
		e := event.Event{Kind: event.ConfirmThawed, Broker: b.id.Broker, Epoch: b.role.epoch, Off: b.confirm, Set: s.committed}
		if frozen {
			e.Kind, e.Count = event.ConfirmFrozen, s.thaws
		} else {
			s.thaws++
		}
		b.emit(e)
	}
	if frozen {
		return
	}
	end, _ := b.local()
	for _, id := range s.effective {
		if id != b.id.Broker {
			end = min(end, s.ackOf(id))
		}
	}
	invariant.That(end <= b.log.end, "%d was acknowledged of a log that ends at %d", end, b.log.end)
	b.confirm = max(b.confirm, end)
	if !b.role.proven && b.confirm >= b.role.start {
		b.role.proven = true
		b.emit(event.Event{Kind: event.Proven, Broker: b.id.Broker, Epoch: b.role.epoch, Off: b.confirm})
	}
}

// ackOf is the end a broker has acknowledged on a session that counts, or -1.
func (s *syncSet) ackOf(id ha.BrokerID) ha.LogOffset {
	for i := range s.acks {
		if s.acks[i].Broker == id {
			return s.acks[i].Offset
		}
	}
	return -1
}

// endOffset is the exclusive end of the log, confirmOffset what consumers may see,
// minOffset the first byte still stored.
func (b *Broker) endOffset() ha.LogOffset     { return b.log.end }
func (b *Broker) confirmOffset() ha.LogOffset { return b.confirm }
func (b *Broker) minOffset() ha.LogOffset     { return b.log.min }

// checkpoint is the lazily persisted floor (P5c): what recovery may believe
// without reading it again, and the confirm below which this replica never cuts.
type checkpoint struct {
	durable, confirm ha.LogOffset // as persisted
	op               uint64
	asked            checkpointed // what the outstanding operation persists
	since            node.Time    // when something newer than the persisted first existed; 0: nothing
}

type checkpointed struct{ durable, confirm ha.LogOffset }

// settleCheckpoint persists durable end and confirm once in an interval, and at
// once while something drains.
func (b *Broker) settleCheckpoint() {
	c := &b.checkpoint
	confirm := min(b.confirm, b.log.durable)
	if c.durable == b.log.durable && c.confirm >= confirm {
		c.since = 0
		return
	}
	if c.op != 0 || b.sealed() || b.cut.issued() {
		return
	}
	if c.since == 0 {
		c.since = max(b.now.Mono, 1)
	}
	if b.now.Mono < c.since.Add(b.o.CheckpointInterval) && b.stop.stage < stopDraining {
		return
	}
	c.since = 0
	c.asked = checkpointed{b.log.durable, confirm}
	c.op = b.disk(storage.Op{Lane: storage.LaneMeta, Kind: storage.OpCheckpoint, Off: b.log.durable, Confirm: confirm,
		Dispatched: b.queues.filed(b.log.durable), WallMillis: b.now.Wall}, ownerCheckpoint)
}

// checkpointDone records what is persisted now.
func (b *Broker) checkpointDone(r storage.Result) {
	c := &b.checkpoint
	c.op = 0
	if b.diskFull(r) {
		c.since = b.now.Mono.Add(b.o.DiskRetryPause)
		return
	}
	if b.diskFailed(r) {
		return
	}
	c.durable, c.confirm = c.asked.durable, max(c.confirm, c.asked.confirm)
	b.diskRoom()
}

// checkpointDeadline is when the next checkpoint is due.
func (b *Broker) checkpointDeadline() node.Time {
	c := &b.checkpoint
	if c.op != 0 || c.since == 0 || b.sealed() || b.cut.issued() {
		return node.Never
	}
	return c.since.Add(b.o.CheckpointInterval)
}

// checkConfirm asserts that nothing is shown that this broker itself could lose. What
// members acknowledged is no such state: a new session of one begins below confirm
// and holds it back until it has proved its way up.
func (b *Broker) checkConfirm() {
	end, _ := b.local()
	invariant.That(b.confirm >= 0 && b.confirm <= b.log.end, "confirm %d, end %d", b.confirm, b.log.end)
	invariant.That(!b.role.serving() || b.confirm <= end, "confirm %d above the local watermark %d", b.confirm, end)
}
