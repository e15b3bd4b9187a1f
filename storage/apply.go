package storage

import (
	"errors"
	"fmt"

	"lockstep/internal/ha"
	"lockstep/internal/invariant"
	"lockstep/storage/vfs"
)

// act makes true what was judged. Everything in it can be interrupted and done
// again by the next start.
func (r *recovery) act(s *Store) error {
	// The mark is consumed before the first write, or it would vouch for that too.
	if err := removeDurably(r.fsys, nameClean); err != nil {
		return err
	}
	if !r.owned {
		from := ha.LogOffset(-1)
		if r.o.RequirePropCRC {
			from = logOff(r.tail.end)
		}
		var err error
		if r.owner, err = createStore(r.fsys, r.o, from); err != nil {
			return err
		}
		r.reader.crcFrom = from
	}
	if err := r.openFloor(s); err != nil {
		return err
	}
	if err := r.settleLog(s); err != nil {
		return err
	}
	if err := r.settleQueues(); err != nil {
		return err
	}
	err := r.replay()
	var damage *DamageError
	if errors.As(err, &damage) {
		err = r.endAt(s, damage)
	}
	if err != nil {
		return err
	}
	return r.seal(s)
}

// endAt lets a log end at damage that lies below what the scan covered and was
// found while queues were rebuilt. Nothing is cut, neither log nor queue.
func (r *recovery) endAt(s *Store, damage *DamageError) error {
	at := int64(damage.Log)
	r.tail = tail{end: at, last: at, start: -1, later: -1, reason: damage.Reason, damage: damage}
	if r.broken == "" {
		r.broken = fmt.Sprintf("damaged log at %d: %s", at, damage.Reason)
	}
	s.readOnly = fmt.Errorf("%w: %w", ErrReadOnly, damage)
	r.log.end, r.log.durable = at, at
	r.dispatched, r.listed = at, false
	for _, q := range r.queues.snapshot() {
		if err := q.settle(r.trust(q), false); err != nil {
			return err
		}
	}
	return nil
}

// openFloor opens the floor file. A new one says what recovery starts from.
func (r *recovery) openFloor(s *Store) (err error) {
	if r.floorState == floorDamaged {
		// Both slots are unreadable. The broken claim goes to disk first.
		if err := r.saveClaim(); err != nil {
			return err
		}
		if err := removeDurably(r.fsys, nameFloor); err != nil {
			return err
		}
	}
	s.floor, err = openFloor(r.fsys, r.floor)
	return err
}

// settleLog sets the end of the log: bytes behind it are cut durably, or left
// alone in a damaged store, which then takes no writes.
func (r *recovery) settleLog(s *Store) error {
	t := r.tail
	if t.damage != nil {
		s.readOnly = fmt.Errorf("%w: %w", ErrReadOnly, t.damage)
	}
	cutting := t.damage == nil && t.last > t.end
	if cutting {
		// The claim first: after the cut nothing would show what is missing.
		if err := errors.Join(r.saveClaim(), r.salvage()); err != nil {
			return err
		}
		c := cutter{fsys: r.fsys, log: r.log, queues: newQueueSet(r.fsys, r.o), lower: s.lowerMarks}
		if err := c.cut(t.end); err != nil {
			return err
		}
	}
	r.log.end, r.log.durable = t.end, t.end
	if len(r.log.segs) == 0 {
		r.log.min, r.log.end, r.log.durable = 0, 0, 0
	}
	r.dispatched = min(r.dispatched, t.end)
	r.from = min(r.from, t.end)
	return r.lowerList(cutting)
}

// lowerList brings the list down to a log that ends below it: cut, or without
// the zeros that a crash left of its tail. A damaged store is left as it is.
func (r *recovery) lowerList(cut bool) (err error) {
	end := logOff(r.tail.end)
	switch {
	case !r.listed || !cut && r.list.dispatched <= end:
		return nil
	case r.tail.damage != nil:
		r.list, r.listed = r.list.lowered(r.queues, end)
		return nil
	}
	if err = lowerQueueList(r.fsys, r.queues, end); err == nil {
		r.list, r.listed, err = readQueueList(r.fsys)
	}
	return err
}

// nameSalvaged holds what the last doubtful cut removed: a text line with the log
// offset, then the bytes.
const nameSalvaged = dirLockstep + "/salvaged"

// maxSalvage bounds it, in bytes.
const maxSalvage = 64 << 20

// salvage keeps the bytes of a doubtful cut aside: if everything else fails, an
// operator may still find acknowledged records in them.
func (r *recovery) salvage() error {
	t := r.tail
	if r.foreign || !t.doubtful() {
		return nil
	}
	b := fmt.Appendf(nil, "lockstep salvaged v1 offset=%d reason=%s\n", t.end, t.reason)
	for off := t.end; off < t.last; {
		n := min(t.last, off-off%r.log.size+r.log.size) - off
		b = append(b, make([]byte, n)...)
		if err := r.reader.fill(b[int64(len(b))-n:], off); err != nil {
			return err
		}
		off += n
	}
	if err := vfs.WriteAtomic(r.fsys, nameSalvaged, b); err != nil {
		return fmt.Errorf("write %s: %w", nameSalvaged, mapDisk(err))
	}
	return nil
}

func (r *recovery) saveClaim() error {
	if r.broken == "" {
		return nil
	}
	blob := encodeSide("claim", field("reason", r.broken))
	if err := vfs.WriteAtomic(r.fsys, NameBrokenClaim, blob); err != nil {
		return fmt.Errorf("write %s: %w", NameBrokenClaim, mapDisk(err))
	}
	return nil
}

// settleQueues finds the queues' ends and decides whether one of them misses
// units that it had.
func (r *recovery) settleQueues() error {
	r.ends = make(map[queueKey]int64, len(r.list.queues))
	for _, l := range r.list.queues {
		r.ends[queueKey{l.Topic, l.Queue}] = l.Max
	}
	for _, q := range r.queues.snapshot() {
		if err := q.settle(r.trust(q), !r.clean && r.tail.damage == nil); err != nil {
			return err
		}
		r.queues.dirty = true
	}
	if len(r.queues.snapshot()) == 0 {
		r.redo = r.dispatched > r.log.min
	}
	if !r.listed {
		// After a crash of ours nothing tells a queue that is short. Another broker never
		// had a list, and where it crashed its own rule says from where to dispatch.
		r.redo = r.redo || !r.clean && !r.foreign
		return nil
	}
	for _, want := range r.list.queues {
		q := r.queues.lookup(want.Topic, want.Queue)
		switch {
		case want.Min == want.Max:
		case q == nil || q.max < want.Max:
			r.redo = true
		case q.min > want.Min && logOff(r.log.min) == r.list.logMin:
			// Its beginning is gone, and not because the log's is: start it anew.
			r.redo = true
			if err := q.restart(); err != nil {
				return err
			}
		}
	}
	return nil
}

// trust is what may be believed of a queue.
func (r *recovery) trust(q *queue) trust {
	t := trust{dispatched: r.dispatched, logMin: r.log.min, end: maxQueueOffset}
	// A list that ends in front of the log says nothing of expired records.
	if r.listed && int64(r.list.dispatched) >= r.log.min {
		t.end = r.ends[queueKey{q.topic, q.id}]
	}
	if !r.clean {
		t.proves = func(off int64, u unit) bool { return r.proves(q, off, u) }
	}
	return t
}

// proves reports whether a queue unit points to its own record, and this to the
// synced part of the queue. One whose record has expired can no longer be asked;
// settle has not looked behind what is listed, and it serves none of them.
func (r *recovery) proves(q *queue, off int64, u unit) bool {
	if !u.message() || u.log >= r.dispatched {
		return false
	}
	if u.log < r.log.min {
		return u.log >= 0
	}
	rec, err := r.reader.record(u.log, int(u.size), &logWindow{exact: true})
	return err == nil && rec.QueueOffset == off && rec.QueueID == q.id && string(rec.Topic) == q.topic
}

// replay reads the verified log once more: bytes above the floor are written
// again, so that the sync that follows covers what only a cache may have held
// (rule P5a), and records are dispatched to the queues that lack them.
func (r *recovery) replay() error {
	from, floor := min(r.from, r.tail.end), int64(r.floor.floor)
	if r.redo {
		from, r.dispatched = r.log.min, r.log.min
	}
	rewrite := !r.clean && r.tail.damage == nil
	s := logScanner{reader: r.reader, off: from, stop: r.tail.end, chunk: chunkBytes(r.log.size)}
	var batch []QueueEntry
	for {
		f, at, done, err := s.next()
		if err != nil { // the device cannot read what it could a moment ago, or what lies below
			f = corrupt(err.Error())
		}
		bad := !done && f.Kind != FoundRecord && f.Kind != FoundBlank
		if len(batch) > 0 && (done || bad || len(batch) >= 8192) {
			if err := r.queues.append(batch, logOff(r.tail.end)); err != nil {
				return err
			}
			batch = batch[:0]
		}
		if bad {
			return r.changed(at, f)
		}
		if done {
			return nil
		}
		if rewrite && at+int64(f.Size) > floor {
			if err := r.rewrite(f, at); err != nil {
				return err
			}
		}
		if f.Kind == FoundRecord && at >= r.dispatched {
			if e, ok := EntryOf(&f.Record); ok && SafeTopic(e.Topic) {
				batch = append(batch, e)
			}
		}
	}
}

// changed is for a record that was good a moment ago, or that lies below what
// the scan covered: damage is found while queues are rebuilt.
func (r *recovery) changed(at int64, f Found) error {
	reason := f.Reason
	if f.Kind == FoundUnwritten {
		reason = "zeros where a record was written"
	}
	return r.log.damageAt(at, reason)
}

// rewrite puts a record, or a blank's header, where it is.
func (r *recovery) rewrite(f Found, at int64) error {
	b := f.Record.Raw
	if f.Kind == FoundBlank {
		b = make([]byte, f.Size)
		Blank(b)
	}
	return r.log.writeIn(at, b)
}

// seal makes the outcome durable and starts the new life. Queues are synced only
// when the next recovery would otherwise have too much to dispatch again.
func (r *recovery) seal(s *Store) error {
	r.queues.filed, r.queues.start = r.log.end, r.tail.start
	for _, g := range r.log.segs {
		g.dirty = g.dirty || r.foreign // nobody knows what another broker has synced
	}
	if err := r.log.sync(); err != nil {
		return err
	}
	if err := r.saveClaim(); err != nil {
		return err
	}
	if r.tail.damage == nil {
		end := logOff(r.log.end)
		confirm := max(min(r.confirm(), end), logOff(r.log.min))
		m := floorMark{floor: end, confirm: confirm, dispatched: logOff(r.dispatched), anchor: min(r.floor.anchor, logOff(r.dispatched))}
		syncQueues := r.redo || !r.listed || r.log.end-r.dispatched >= r.o.QueueSync
		if syncQueues {
			m.dispatched, m.anchor = end, s.anchor(end)
		}
		if err := s.saveFloor(m, r.native.physicMillis, syncQueues); err != nil {
			return err
		}
	}
	// The flag of received acknowledgements has become a broken claim, or a clean
	// stop has made good on it; either way this life starts without it.
	if err := removeDurably(r.fsys, NameReceivedAcks); err != nil {
		return err
	}
	boot, nonce, err := nextBoot(r.fsys, r.o.Entropy)
	if err != nil {
		return err
	}
	if err := writeAbort(r.fsys, r.o.ProcessID); err != nil {
		return err
	}
	s.identity = Identity{
		Cluster: r.o.Cluster, Group: r.o.Group, Broker: r.broker,
		Store: r.owner.id, Boot: boot, Nonce: nonce,
	}
	invariant.That(r.log.min <= r.log.end, "log [%d, %d)", r.log.min, r.log.end)
	return nil
}

// confirm is the persisted confirm offset: ours, or the native one of a store
// that only a Java broker has used.
func (r *recovery) confirm() ha.LogOffset {
	if r.floorState == floorGood {
		return r.floor.confirm
	}
	return max(r.native.confirm, 0)
}
