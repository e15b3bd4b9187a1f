package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"lockstep/internal/ha"
	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
)

// transfer is the sending side of one slave's session.
type transfer struct {
	read   uint64 // outstanding OpRead: the slave is behind the tail
	cold   []byte // bytes read, not yet sent
	coldAt ha.LogOffset
	// probing reads the segment from its start, from probe on, to find out whether a
	// record begins where the slave said; trusted: it does.
	probing bool
	trusted bool
	probe   ha.LogOffset
	// budget is what the throttle allows now, bytes; refilled is when it was last
	// topped up.
	budget   int64
	refilled node.Time
	bytes    int64 // sent in all
}

const (
	// maxCatchupReads bounds the cold reads of all slaves together, so that catch-up
	// leaves the disk to live traffic.
	maxCatchupReads = 2
	// catchupReadBytes is the size of one cold read.
	catchupReadBytes = 512 << 10
	// confirmDelay is how long an idle session waits before it passes on a confirm
	// offset that no data carried.
	confirmDelay = 50 * time.Millisecond
)

// settleTransfer sends a slave what it lacks, as far as window and throttle allow,
// and a heartbeat when there was nothing for long. Bytes go as soon as they are
// placed: replication runs beside the local flush, never after it.
func (b *Broker) settleTransfer(r *replica) {
	for r.sent < b.log.end && int64(r.sent-r.acked) < b.o.HATransferWindow {
		n := b.chunkLimit(r)
		if n <= 0 {
			break
		}
		body := b.chunk(r, n)
		if len(body) == 0 {
			break
		}
		b.sendChunk(r, body)
	}
	idle := r.sent == b.log.end
	due := r.spoken.Add(b.o.HASendHeartbeatInterval)
	if idle && r.confirm < b.confirm {
		due = min(due, r.spoken.Add(confirmDelay))
	}
	if b.now.Mono >= due {
		b.sendChunk(r, nil)
	}
}

// chunkLimit is how many bytes may go in the next frame: within the batch size,
// the throttle, the epoch and the segment.
func (b *Broker) chunkLimit(r *replica) int64 {
	n := min(int64(b.o.HATransferBatchSize), b.throttle(r))
	_, stop, ok := b.epochs.At(r.sent, b.log.end)
	if !ok {
		return 0
	}
	seg := ha.LogOffset(b.o.MappedFileSizeCommitLog)
	return min(n, int64(stop-r.sent), int64(r.sent/seg*seg+seg-r.sent))
}

// throttle is what maxHaTransferByteInSecond leaves for this slave now.
func (b *Broker) throttle(r *replica) int64 {
	rate := b.o.MaxHATransferByteInSecond
	if rate == 0 {
		return int64(b.o.HATransferBatchSize)
	}
	t := &r.transfer
	if t.refilled == 0 {
		t.refilled, t.budget = b.now.Mono, rate/throttleParts
	}
	elapsed := min(b.now.Mono.Sub(t.refilled), time.Second)
	if add := rate * int64(elapsed/time.Microsecond) / 1e6; add > 0 {
		t.budget, t.refilled = min(t.budget+add, max(rate/throttleParts, 1)), b.now.Mono
	}
	if t.budget < b.throttleQuantum(r) {
		return 0
	}
	return t.budget
}

const (
	// throttleParts of a second is the longest burst of a throttled transfer.
	throttleParts = 10
	// throttleFrames bounds the frames a second that a throttle makes of a stream: a
	// budget that grows by microseconds must not be spent byte by byte.
	throttleFrames = 100
)

// throttleQuantum is the least budget at which a throttled transfer goes on: a
// frame's worth, or all that is left to send.
func (b *Broker) throttleQuantum(r *replica) int64 {
	return max(1, min(b.o.MaxHATransferByteInSecond/throttleFrames, int64(b.o.HATransferBatchSize), int64(b.log.end-r.sent)))
}

// chunk returns log bytes from the slave's position on: from memory, or from what a
// cold read brought; it asks for one otherwise. A chunk holds whole records, about n
// bytes of them and at least one, so that every position a session reaches is one at
// which verified reading can begin.
func (b *Broker) chunk(r *replica, n int64) []byte {
	t := &r.transfer
	if head := b.tail.run(r.sent, storage.BlankHeader); head != nil {
		t.cold = nil
		run := b.tail.run(r.sent, max(n, recordSize(head)))
		return b.whole(r, run, n)
	}
	if len(t.cold) > 0 && t.coldAt == r.sent {
		body := b.whole(r, t.cold, n)
		t.cold, t.coldAt = t.cold[len(body):], t.coldAt+ha.LogOffset(len(body))
		return body
	}
	if t.read != 0 || b.catchupReads >= maxCatchupReads || r.sent >= b.log.written || b.now.Mono < b.catchupRetry {
		return nil
	}
	from := r.sent
	if t.probing {
		from = t.probe
	}
	b.catchupReads++
	t.read = b.disk(storage.Op{Lane: storage.LaneRead, Kind: storage.OpRead, Gen: b.log.gen, Off: from, Max: catchupReadBytes}, ownerCatchup)
	return nil
}

// recordSize is the size of the record or blank that begins with head, 0 when none
// can begin so.
func recordSize(head []byte) int64 {
	if len(head) < storage.BlankHeader {
		return 0
	}
	switch binary.BigEndian.Uint32(head[4:]) {
	case storage.MagicV1, storage.MagicV2, storage.MagicBlank:
		return max(int64(binary.BigEndian.Uint32(head)), 0)
	}
	return 0
}

// whole cuts run to the whole records within n bytes, at least one. A run that does
// not begin with a record shows that the slave named a position inside one.
func (b *Broker) whole(r *replica, run []byte, n int64) []byte {
	used := int64(0)
	for used < int64(len(run)) {
		size := recordSize(run[used:])
		if size == 0 || used+size > int64(len(run)) || used > 0 && used+size > n {
			break
		}
		used += size
	}
	if used == 0 {
		r.misplaced = true
		b.changed()
	}
	return run[:used:used]
}

// catchupDone hands a cold read to the session that asked for it. Damage found
// here is damage of the log: it is neither sent nor served, and ends the store's
// claim. A read overtaken by retention ends the session: the slave asks again and
// is told that it is out of range (P19).
func (b *Broker) catchupDone(r storage.Result) {
	b.catchupReads--
	var p *replica
	for _, x := range b.replicas {
		if x.transfer.read == r.Op.ID {
			p = x
			x.transfer.read = 0
		}
	}
	switch {
	case errors.Is(r.Err, storage.ErrStale):
	case errors.Is(r.Err, storage.ErrRange):
		if p != nil {
			b.closeReplica(p, "the log was expired below the slave's position")
		}
	case errors.Is(r.Err, storage.ErrCorrupt) && b.doubtful(p, r.Op.Off):
	case r.Err != nil:
		b.diskFailed(r)
	case p == nil || p.phase != replicaStarted:
	case p.transfer.probing:
		b.probed(p, r)
	case len(r.Bytes) == 0:
		b.catchupRetry = b.now.Mono.Add(confirmDelay)
	case p.sent == r.Op.Off:
		p.transfer.cold, p.transfer.coldAt = r.Bytes, r.Op.Off
	}
}

// doubtful reports whether a bad record may be none: it was looked for where the
// slave said that its log ends, and a slave may lie about that. Then the segment is
// read from its start, where a record begins for certain; a stranger must not be able
// to end this store's claim by naming a number.
func (b *Broker) doubtful(p *replica, off ha.LogOffset) bool {
	seg := ha.LogOffset(b.o.MappedFileSizeCommitLog)
	if p == nil || p.phase != replicaStarted {
		return p == nil && off%seg != 0 // nobody left to tell; the next reader finds real damage
	}
	if p.transfer.probing || p.transfer.trusted || off != p.verified || off%seg == 0 {
		return false
	}
	p.transfer.probing, p.transfer.probe = true, max(off/seg*seg, b.log.min)
	return true
}

// probed takes a verified read below a doubtful position, and ends the doubt once it
// reaches that far: a record begins there, so whatever was bad is damage, or the
// slave lied.
func (b *Broker) probed(p *replica, r storage.Result) {
	t := &p.transfer
	at := r.Op.Off
	for rest := r.Bytes; len(rest) > 0 && at < p.sent; {
		size := recordSize(rest)
		at, rest = at+ha.LogOffset(size), rest[size:]
	}
	t.probe = at
	if at < p.sent && len(r.Bytes) > 0 {
		return
	}
	t.probing, t.trusted = false, true
	if at != p.sent {
		b.misplaced(p)
	}
}

// misplaced ends the session of a slave whose position lies inside a record.
func (b *Broker) misplaced(p *replica) {
	b.rejectFrame(p, fmt.Sprintf("the slave's end %d lies inside a record", p.sent))
}

// sendChunk sends log bytes, or a heartbeat when there are none. Each chunk is
// labelled with the epoch of its own bytes; confirm rides along.
func (b *Broker) sendChunk(r *replica, body []byte) {
	e, _, ok := b.epochs.At(r.sent, b.log.end)
	if !ok {
		return
	}
	b.say(r, wire.Replica{Kind: wire.ReplicaAppend, Term: b.role.epoch, Epoch: e.Epoch, EpochStart: e.Start, Offset: r.sent, Confirm: b.confirm, Member: b.set.counts(r.self)}, body)
	r.confirm = b.confirm
	r.sent += ha.LogOffset(len(body))
	r.transfer.bytes += int64(len(body))
	if b.o.MaxHATransferByteInSecond > 0 {
		r.transfer.budget -= int64(len(body))
	}
}

// replicasDeadline is when a slave's session needs something without a fact.
func (b *Broker) replicasDeadline() node.Time {
	d := node.Never
	if b.idlers.count > 0 {
		d = b.idlers.next
	}
	for _, r := range b.replicas {
		d = min(d, r.heard.Add(b.o.HAHousekeepingInterval))
		if r.phase == replicaSilent {
			d = min(d, r.heard.Add(helloTimeout))
		}
		if r.phase == replicaGreeted && b.role.serving() {
			d = min(d, r.since.Add(b.o.ControllerRequestTimeout))
		}
		if r.phase != replicaStarted {
			continue
		}
		d = min(d, r.spoken.Add(b.o.HASendHeartbeatInterval))
		if r.sent == b.log.end && r.confirm < b.confirm {
			d = min(d, r.spoken.Add(confirmDelay))
		}
		if r.sent < b.log.end && int64(r.sent-r.acked) < b.o.HATransferWindow {
			d = min(d, b.transferDeadline(r))
		}
	}
	return d
}

// transferDeadline is when the throttle, or a read that found nothing, lets a
// slave go on.
func (b *Broker) transferDeadline(r *replica) node.Time {
	if b.catchupRetry > b.now.Mono {
		return b.catchupRetry
	}
	rate := b.o.MaxHATransferByteInSecond
	missing := b.throttleQuantum(r) - r.transfer.budget
	if rate == 0 || missing <= 0 {
		return node.Never // waits for a disk read
	}
	return r.transfer.refilled.Add(time.Duration(missing*1e6/rate+1) * time.Microsecond)
}
