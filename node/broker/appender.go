package broker

import (
	"errors"
	"time"

	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/internal/invariant"
	"lockstep/node"
	"lockstep/storage"
)

// commitLog is the log's position on its way to the disk. All waits are for one
// of its watermarks (P11):
//
//	end ≥ issued ≥ written ≥ durable
//
// end counts bytes placed in memory, issued those handed to the write lane,
// written those the operating system has (a process crash keeps them), durable
// those a sync that began after their write has covered (a power cut keeps them).
// One write and one sync are under way at most; what arrives meanwhile is the next
// batch, so group commit needs no timer, and a sync never holds up a write.
type commitLog struct {
	min     ha.LogOffset
	end     ha.LogOffset
	issued  ha.LogOffset
	written ha.LogOffset
	durable ha.LogOffset
	// ready is the end of the segments that are allocated and whose directory
	// entry is durable (P5d): no byte above it is issued.
	ready ha.LogOffset
	// gen rises with each truncation; results of reads carry it back.
	gen uint32

	write, sync, prepare diskWork
	data                 [][]byte // slices of the write under way, reused

	// full is set by a write or allocation that found no room: sends are refused,
	// reads go on, and the work is tried again at retry.
	full  bool
	retry node.Time
	// quietSince is the time of the last append, for releasing memory.
	quietSince node.Time
	// syncDue is when written bytes have to be synced under ASYNC_FLUSH.
	syncDue node.Time
}

// diskWork is one outstanding operation of a lane.
type diskWork struct {
	id uint64 // 0: none
	to ha.LogOffset
	at node.Time
}

// maxWriteBytes is where a write operation takes no further chunk. A write ends with
// a chunk or with the log, and so with a whole record: the watermarks, and the floor
// that recovery holds this store to, never lie inside one.
const maxWriteBytes = 4 << 20

// opened starts the log from what the store recovered: all of it is durable.
func (l *commitLog) opened(r storage.Recovered, segment int64) {
	l.min, l.end, l.issued, l.written, l.durable = r.Min, r.End, r.End, r.End, r.End
	l.ready = segmentCeil(r.End, segment)
}

// cutAt moves the log back to off after a durable truncation.
func (l *commitLog) cutAt(off ha.LogOffset, segment int64) {
	l.end, l.issued, l.written, l.durable = off, off, off, off
	l.ready = segmentCeil(off, segment)
}

// segmentCeil is the end of the segment that the byte before off lies in.
func segmentCeil(off ha.LogOffset, segment int64) ha.LogOffset {
	s := ha.LogOffset(segment)
	return (off + s - 1) / s * s
}

// busy reports whether any operation that changes the log is under way.
func (l *commitLog) busy() bool { return l.write.id != 0 || l.sync.id != 0 || l.prepare.id != 0 }

// quiet reports that all of the log is durable and nothing is under way.
func (l *commitLog) quiet() bool { return !l.busy() && l.durable == l.end }

// local is the master's own watermark under the flush type, and its class.
func (b *Broker) local() (ha.LogOffset, ha.AckClass) {
	if b.o.FlushDiskType == AsyncFlush {
		return b.log.written, ha.ClassReceived
	}
	return b.log.durable, ha.ClassDurable
}

// append places an admitted record at the end of the log, gives it its queue
// offset and enters it in all derived state (M1). The payload is copied once.
func (b *Broker) append(now node.Now, p placement) placed {
	invariant.That(b.role.master() && (p.system || b.role.serving()), "append by a broker that is not master")
	size := p.record.Size()
	if size > b.o.maxRecordBytes() {
		invariant.That(false, "record of %d bytes was admitted, limit %d", size, b.o.maxRecordBytes())
	}
	if rest, blank := storage.NeedsBlank(b.log.end, size, b.o.MappedFileSizeCommitLog); blank {
		b.appendBlank(rest)
	}
	q := b.queues.open(p.topic, p.queue)
	off, at := q.next, b.log.end
	dst := b.tail.extend(at, size)
	p.record.Place(dst, off, at, now.Wall)
	b.log.end += ha.LogOffset(size)
	b.log.quietSince = now.Mono
	b.queues.enter(q, queueEntry{log: at, size: int32(size), tag: p.tag}, now.Mono)
	if p.topic == storage.MetaTopic {
		b.applyMeta(dst, at)
	}
	return placed{log: at, end: b.log.end, queueOffset: off}
}

// appendBlank fills the rest of a segment.
func (b *Broker) appendBlank(rest int) {
	storage.Blank(b.tail.extend(b.log.end, rest))
	b.log.end += ha.LogOffset(rest)
	b.emit(event.Event{Kind: event.Rolled, Off: b.log.end})
}

// settleLog issues what the disk lanes can take now: the next segment, one write,
// one sync. A failed store issues nothing more; a cut waits until all is settled.
func (b *Broker) settleLog() {
	if b.sealed() || b.cut.issued() {
		return
	}
	b.settlePrepare()
	b.settleWrite()
	b.settleSync()
}

// settlePrepare allocates the segment being written and, from its middle on, the
// next one, so that a roll never waits and never finds the disk full half way.
func (b *Broker) settlePrepare() {
	l, seg := &b.log, ha.LogOffset(b.o.MappedFileSizeCommitLog)
	if l.prepare.id != 0 || b.now.Mono < l.retry {
		return
	}
	want := segmentCeil(l.end, int64(seg)) // what is there already has to be written
	if !b.cut.wanted && (b.role.following() || b.role.master()) {
		want = l.end/seg*seg + seg
		if l.end%seg > seg/2 {
			want += seg
		}
	}
	if l.ready >= want {
		return
	}
	l.prepare = diskWork{to: l.ready + seg, at: b.now.Mono}
	l.prepare.id = b.disk(storage.Op{Lane: storage.LaneLog, Kind: storage.OpPrepare, Off: l.ready}, ownerPrepare)
}

// settleWrite writes what was appended since the last write, up to the end of the
// segment. It goes on during demotion: what entered the log is settled first.
func (b *Broker) settleWrite() {
	l, seg := &b.log, b.o.MappedFileSizeCommitLog
	if l.write.id != 0 || l.issued == l.end || b.now.Mono < l.retry {
		return
	}
	limit, to := min(l.end, l.ready, segmentCeil(l.issued+1, seg)), l.issued
	l.data = l.data[:0]
	for to < limit && to-l.issued < maxWriteBytes {
		run := b.tail.run(to, int64(limit-to))
		invariant.That(len(run) > 0, "byte %d left memory before it was written", to)
		l.data = append(l.data, run)
		to += ha.LogOffset(len(run))
	}
	if to == l.issued {
		return // waits for its segment
	}
	l.write = diskWork{to: to, at: b.now.Mono}
	l.write.id = b.disk(storage.Op{Lane: storage.LaneLog, Kind: storage.OpAppend, Gen: l.gen, Off: l.issued, Data: l.data}, ownerWrite)
	l.issued = to
}

// settleSync syncs what is written. A sync covers the writes that had returned
// when it started, so its target is the written watermark now.
func (b *Broker) settleSync() {
	l := &b.log
	if l.durable == l.written {
		l.syncDue = 0
		return
	}
	if l.sync.id != 0 {
		return
	}
	if !b.syncAlways() {
		if l.syncDue == 0 {
			l.syncDue = b.now.Mono.Add(b.o.FlushIntervalCommitLog)
		}
		if b.now.Mono < l.syncDue {
			return
		}
	}
	l.syncDue = 0
	l.sync = diskWork{to: l.written, at: b.now.Mono}
	l.sync.id = b.disk(storage.Op{Lane: storage.LaneSync, Kind: storage.OpSync, Gen: l.gen, Off: l.written}, ownerSync)
}

// syncAlways reports whether written bytes are synced at once: SYNC_FLUSH, a slave
// that promises durable acknowledgements, and every step that waits for a quiet
// log. Otherwise (ASYNC_FLUSH) they are synced at intervals.
func (b *Broker) syncAlways() bool {
	if b.draining() || b.role.promoting() {
		return true
	}
	if b.role.following() {
		return b.o.AckClass == ha.ClassDurable
	}
	return b.o.FlushDiskType == SyncFlush
}

// draining reports whether something waits until all lanes are quiet: a cut, a
// role change, a stop.
func (b *Broker) draining() bool {
	return b.cut.wanted || b.role.settling() || b.stop.stage >= stopDraining
}

// writeDone records the end of a write.
func (b *Broker) writeDone(r storage.Result) {
	l := &b.log
	w := l.write
	l.write = diskWork{}
	if b.diskFull(r) {
		// The bytes are still in memory; the same write is tried again (it is no fsync).
		l.issued, l.retry = l.written, b.now.Mono.Add(b.o.DiskRetryPause)
		return
	}
	if b.diskFailed(r) {
		return
	}
	invariant.That(r.Op.Gen == l.gen && w.to == l.issued, "write to %d ended in generation %d, issued %d in %d", w.to, r.Op.Gen, l.issued, l.gen)
	l.written = w.to
	b.diskRoom()
}

// prepareDone records that a segment is allocated.
func (b *Broker) prepareDone(r storage.Result) {
	l := &b.log
	p := l.prepare
	l.prepare = diskWork{}
	if b.diskFull(r) {
		l.retry = b.now.Mono.Add(b.o.DiskRetryPause)
		return
	}
	if b.diskFailed(r) {
		return
	}
	l.ready = max(l.ready, p.to)
	b.diskRoom()
}

// syncDone records the end of a sync. A failed sync is never tried again: nothing
// is known about the dirty pages (P5).
func (b *Broker) syncDone(r storage.Result) {
	l := &b.log
	s := l.sync
	l.sync = diskWork{}
	if b.diskFailed(r) {
		return
	}
	invariant.That(s.to <= l.written && s.to >= l.durable, "sync to %d ended, durable %d, written %d", s.to, l.durable, l.written)
	l.durable = s.to
}

// diskFull reports whether the operation found no room, and says so once.
func (b *Broker) diskFull(r storage.Result) bool {
	if r.Err == nil || !errors.Is(r.Err, storage.ErrDiskFull) {
		return false
	}
	if !b.log.full {
		b.log.full = true
		b.emit(event.Event{Kind: event.DiskFull, Text: r.Err.Error()})
	}
	return true
}

// diskRoom ends the full state after a write or an allocation succeeded.
func (b *Broker) diskRoom() {
	if b.log.full {
		b.log.full = false
		b.emit(event.Event{Kind: event.DiskRoom})
	}
}

// stuck is for how long the oldest unfinished write, or sync under SYNC_FLUSH, has
// been under way: the measure of the queue in front of the disk.
func (b *Broker) stuck() time.Duration {
	since := node.Never
	if b.log.write.id != 0 {
		since = b.log.write.at
	}
	if b.log.sync.id != 0 && b.o.FlushDiskType == SyncFlush {
		since = min(since, b.log.sync.at)
	}
	if since == node.Never {
		return 0
	}
	return b.now.Mono.Sub(since)
}

// logDeadline is when the log has something to do without a further fact.
func (b *Broker) logDeadline() node.Time {
	l := &b.log
	if b.sealed() {
		return node.Never
	}
	d := node.Never
	if l.retry > b.now.Mono {
		d = l.retry
	}
	if l.syncDue != 0 && l.sync.id == 0 {
		d = min(d, l.syncDue)
	}
	return d
}

// check asserts the order of the watermarks.
func (l *commitLog) check() {
	invariant.That(l.min <= l.durable && l.durable <= l.written && l.written <= l.issued && l.issued <= l.end,
		"watermarks: min %d, durable %d, written %d, issued %d, end %d", l.min, l.durable, l.written, l.issued, l.end)
	invariant.That(l.issued <= l.ready, "issued %d above the allocated end %d", l.issued, l.ready)
}
