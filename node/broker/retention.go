package broker

import (
	"encoding/binary"
	"errors"

	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/node"
	"lockstep/storage"
)

// retention removes whole segments older than fileReservedTime. Each node does so
// on its own. A segment goes only when a complete confirmed metadata checkpoint
// begins behind it, so that recovery and a new slave need the log alone (M3), and,
// for a bounded time, not while a slave in catch-up still needs it (P19).
type retention struct {
	next    node.Time // next look
	op      uint64    // outstanding OpRead or OpExpire
	through ha.LogOffset
	waited  node.Time // since when a slave in catch-up holds it up; 0: nobody does
}

// settleRetention looks at the oldest segment at each interval. Its age is the
// store time of the first record behind it, which the segment's file time would
// only approximate.
func (b *Broker) settleRetention() {
	t := &b.retention
	if t.op != 0 || b.now.Mono < t.next || b.failed() || b.cut.wanted || b.stop.stage != stopNot {
		return
	}
	t.next = b.now.Mono.Add(b.o.CleanResourceInterval)
	seg := ha.LogOffset(b.o.MappedFileSizeCommitLog)
	through := b.log.min/seg*seg + seg
	// The segment being written never goes, nor what consumers may not see yet.
	if through >= b.log.durable/seg*seg || through > b.confirm {
		return
	}
	start, end := b.metaCheckpoint()
	if end == 0 || end > b.confirm || start < through || b.heldBySlave(through) {
		return
	}
	t.through = through
	t.op = b.disk(storage.Op{Lane: storage.LaneRead, Kind: storage.OpRead, Gen: b.log.gen, Off: through, Max: 1}, ownerRetention)
}

// heldBySlave reports whether a slave in catch-up still needs bytes below off, and
// its grace is not over.
func (b *Broker) heldBySlave(off ha.LogOffset) bool {
	t, needs := &b.retention, false
	for _, r := range b.replicas {
		needs = needs || r.phase == replicaStarted && r.acked < off // what was sent may have to be sent again
	}
	if !needs {
		t.waited = 0
		return false
	}
	if t.waited == 0 {
		t.waited = max(b.now.Mono, 1)
	}
	return b.now.Mono < t.waited.Add(b.o.RetentionWait)
}

// retentionDone looks at the age that was read, or takes the new minimum.
func (b *Broker) retentionDone(r storage.Result) {
	t := &b.retention
	t.op = 0
	switch {
	case r.Err != nil && (errors.Is(r.Err, storage.ErrStale) || errors.Is(r.Err, storage.ErrRange)):
		return
	case b.diskFull(r) || b.diskFailed(r):
		return
	case r.Op.Kind == storage.OpExpire:
		b.log.min = max(b.log.min, ha.LogOffset(r.Offset))
		b.queues.bounds(r.Queues)
		b.pruneEpochs()
		b.emit(event.Event{Kind: event.Expired, Off: b.log.min})
		t.next = b.now.Mono // there may be more
		return
	}
	stored, ok := storeMillis(r.Bytes, t.through, b.check)
	if !ok || b.now.Wall-stored < b.o.FileReservedTime.Milliseconds() {
		return
	}
	t.op = b.disk(storage.Op{Lane: storage.LaneLog, Kind: storage.OpExpire, Gen: b.log.gen, Off: t.through}, ownerRetention)
}

// storeMillis is the store time of the first record in bytes that lie at off.
func storeMillis(bytes []byte, off ha.LogOffset, c storage.Check) (int64, bool) {
	if len(bytes) < 8 || binary.BigEndian.Uint32(bytes) == 0 {
		return 0, false
	}
	f := storage.Next(bytes, off, c)
	return f.Record.StoreMillis, f.Kind == storage.FoundRecord
}

// pruneEpochs forgets epochs that ended at or below the first byte: the entry that
// contains it stays (HA contracts trap 25).
func (b *Broker) pruneEpochs() {
	n := 0
	for n+1 < len(b.epochs) && b.epochs[n+1].Start <= b.log.min {
		n++
	}
	if n > 0 {
		b.epochs = append(ha.Epochs(nil), b.epochs[n:]...)
		b.saveEpochs()
	}
}

// retentionDeadline is the next look.
func (b *Broker) retentionDeadline() node.Time {
	seg := ha.LogOffset(b.o.MappedFileSizeCommitLog)
	if b.retention.op != 0 || b.failed() || b.cut.wanted || b.stop.stage != stopNot || b.log.min/seg == b.log.durable/seg {
		return node.Never
	}
	return b.retention.next
}
