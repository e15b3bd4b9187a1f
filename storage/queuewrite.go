package storage

import (
	"errors"
	"fmt"
	"slices"

	"lockstep/internal/ha"
	"lockstep/storage/vfs"
)

// maxQueueGap limits the fillers written into one gap of a queue, in units.
const maxQueueGap = 1 << 20

// maxQueueOffset keeps byte positions of units inside an int64.
const maxQueueOffset = 1 << 58

// offer adds an entry to the pending batch and reports whether there is one now.
// Entries the queue already has are passed over, so that dispatching a stretch
// of the log again is harmless. An entry that does not join the batch makes
// full true: flush, then offer it again.
func (q *queue) offer(e *QueueEntry) (full bool, err error) {
	log := int64(e.Log)
	if len(q.pending) > 0 {
		if log < q.pendingEnd {
			return false, nil
		}
		if e.Offset != q.at+int64(len(q.pending)/queueUnit) {
			return true, nil
		}
	} else {
		q.mu.Lock()
		through, next, empty := q.through, q.max, q.min == q.max
		q.mu.Unlock()
		restart := e.Offset == 0 && next > 0
		switch {
		case log < through:
			return false, nil
		case e.Offset < 0 || e.Offset >= maxQueueOffset, e.Offset < next && !empty && !restart, e.Offset > next+maxQueueGap && !empty:
			return false, fmt.Errorf("%w: queue %s/%d: offset %d of the record at log offset %d does not follow offset %d",
				ErrInvalid, q.topic, q.id, e.Offset, log, next-1)
		}
		q.at, q.pendingLog, q.pendingZero = e.Offset, log, restart
	}
	q.pending = unit{log: log, size: e.Size, tag: e.Tag}.append(q.pending)
	q.pendingEnd = int64(entryEnd(e.Log, e.Size))
	return false, nil
}

// flush writes the pending batch. On error the queue's end has not moved, and
// the same entries may be offered again.
func (q *queue) flush() error {
	if len(q.pending) == 0 {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	defer func() { q.pending = q.pending[:0] }()
	if q.pendingZero {
		if err := q.restart(); err != nil {
			return err
		}
	}
	if err := q.fillGap(); err != nil {
		return err
	}
	if err := q.write(q.at*queueUnit, q.pending); err != nil {
		return err
	}
	if q.min == q.max {
		q.min = q.at
	}
	q.max = q.at + int64(len(q.pending)/queueUnit)
	q.through = q.pendingEnd
	return nil
}

// restart empties the queue: its topic was deleted and made again, and offsets
// begin at 0 once more.
func (q *queue) restart() error {
	for len(q.files) > 0 {
		if err := q.removeFile(len(q.files) - 1); err != nil {
			return err
		}
	}
	q.min, q.max, q.through = 0, 0, 0
	if err := q.set.fsys.SyncDir(q.dir); err != nil {
		return fmt.Errorf("sync %s: %w", q.dir, err)
	}
	return nil
}

// fillGap writes fillers in front of a batch that does not follow the last unit.
// An empty queue that begins in the middle, as on a new replica, gets the native
// leading filler from its file's start. In a gap of a queue with messages each
// filler carries the log offset of the message behind it, so that log offsets
// never descend.
func (q *queue) fillGap() error {
	to := q.at * queueUnit
	if q.min < q.max {
		return q.fill(q.max*queueUnit, to, unit{size: fillerSize, log: q.pendingLog})
	}
	if base := to - to%q.set.fileBytes; q.at != q.max || !slices.Contains(q.files, base) {
		return q.fill(base, to, unit{size: fillerSize})
	}
	return nil
}

// fill writes fillers over the bytes [from, to).
func (q *queue) fill(from, to int64, filler unit) error {
	const step = 1024
	var b []byte
	for from < to {
		n := min(step, int((to-from)/queueUnit))
		b = b[:0]
		for range n {
			b = filler.append(b)
		}
		if err := q.write(from, b); err != nil {
			return err
		}
		from += int64(len(b))
	}
	return nil
}

// write puts bytes at a byte position, across files. The caller holds mu.
func (q *queue) write(pos int64, b []byte) error {
	for len(b) > 0 {
		base := pos - pos%q.set.fileBytes
		n := min(int64(len(b)), base+q.set.fileBytes-pos)
		if err := q.writeFile(base, pos-base, b[:n]); err != nil {
			return err
		}
		pos, b = pos+n, b[n:]
	}
	return nil
}

func (q *queue) writeFile(base, at int64, b []byte) error {
	name := q.fileName(base)
	i, have := slices.BinarySearch(q.files, base)
	if !have {
		if err := q.set.fsys.MkdirAll(q.dir); err != nil {
			return fmt.Errorf("make %s: %w", q.dir, mapDisk(err))
		}
	}
	h, err := q.set.handles.get(name, !have, q.set.fileBytes)
	if err != nil {
		return err
	}
	if !have {
		q.files = slices.Insert(q.files, i, base)
		q.newNames = true
	}
	if !slices.Contains(q.dirty, base) {
		q.dirty = append(q.dirty, base)
	}
	if _, err = h.file.WriteAt(b, at); err != nil {
		err = mapDisk(fmt.Errorf("write %s at byte %d: %w", name, at, err))
	}
	return errors.Join(err, q.set.handles.put(h))
}

// cut drops every unit whose record lies at or above log and zeroes what is
// left behind the new end, so that no later search can take it for data.
func (q *queue) cut(log ha.LogOffset) error {
	lo, hi := q.bounds()
	end, err := q.search(lo, hi, func(u unit) bool { return u.before(int64(log)) })
	if err != nil || end == hi {
		return err
	}
	through := int64(0)
	if end > lo {
		last, err := q.unitAt(end - 1)
		if err != nil {
			return err
		}
		through = last.log + int64(last.size)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.max, q.through = end, through
	return q.dropBehind(end * queueUnit)
}

// dropBehind removes everything from byte position pos on. Removed names are
// made durable at once: a file that came back after a crash would pass for
// data once the log has grown past the cut again.
func (q *queue) dropBehind(pos int64) error {
	removed := false
	for len(q.files) > 0 && q.files[len(q.files)-1] >= pos {
		if err := q.removeFile(len(q.files) - 1); err != nil {
			return err
		}
		removed = true
	}
	if removed {
		if err := q.set.fsys.SyncDir(q.dir); err != nil {
			return fmt.Errorf("sync %s: %w", q.dir, err)
		}
	}
	if len(q.files) == 0 {
		return nil
	}
	base := q.files[len(q.files)-1]
	h, err := q.set.handles.get(q.fileName(base), false, 0)
	if err != nil {
		return err
	}
	if !slices.Contains(q.dirty, base) {
		q.dirty = append(q.dirty, base)
	}
	if err = h.file.Truncate(max(pos-base, 0)); err == nil {
		err = h.file.Truncate(q.set.fileBytes)
	}
	if err != nil {
		err = fmt.Errorf("cut %s at byte %d: %w", h.name, pos-base, err)
	}
	return errors.Join(err, q.set.handles.put(h))
}

func (q *queue) removeFile(i int) error {
	name := q.fileName(q.files[i])
	if err := errors.Join(q.set.handles.forget(name), q.set.fsys.Remove(name)); err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	base := q.files[i]
	q.files = slices.Delete(q.files, i, i+1)
	q.dirty = slices.DeleteFunc(q.dirty, func(d int64) bool { return d == base })
	return nil
}

// expire raises the queue's minimum to the first unit at or above log and removes
// files that lie wholly below it, except the last.
func (q *queue) expire(log ha.LogOffset) error {
	lo, hi := q.bounds()
	first, err := q.search(lo, hi, func(u unit) bool { return u.before(int64(log)) })
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.min = max(q.min, first)
	for len(q.files) > 1 && q.files[0]+q.set.fileBytes <= q.min*queueUnit {
		if err := q.removeFile(0); err != nil {
			return err
		}
		q.newNames = true
	}
	return nil
}

// sync makes the queue's written units and names durable.
func (q *queue) sync() error {
	q.mu.Lock()
	dirty, names := q.dirty, q.newNames
	q.dirty, q.newNames = nil, false
	q.mu.Unlock()
	for _, base := range dirty {
		h, err := q.set.handles.get(q.fileName(base), false, 0)
		if err != nil {
			if err = q.removed(base, err); errors.Is(err, ErrRange) {
				continue
			}
			return err
		}
		if err = h.file.Sync(); err != nil {
			err = fmt.Errorf("sync %s: %w", h.name, err)
		}
		if err = errors.Join(err, q.set.handles.put(h)); err != nil {
			return err
		}
	}
	if names {
		if err := vfs.MkdirAllSync(q.set.fsys, q.dir); err != nil {
			return fmt.Errorf("sync %s: %w", q.dir, err)
		}
	}
	return nil
}
