package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
)

// queueUnit is the size of a consume queue unit in bytes: log offset 8, record
// size 4, tag hash 8 (HA contract 5.3).
const queueUnit = 20

// fillerSize marks a unit that stands for no message: the native filler in front
// of a queue's first message.
const fillerSize = 1<<31 - 1

// unit is one decoded consume queue unit.
type unit struct {
	log  int64
	size int32
	tag  int64
}

func decodeUnit(b []byte) unit {
	return unit{
		log:  int64(binary.BigEndian.Uint64(b)),
		size: int32(binary.BigEndian.Uint32(b[8:])),
		tag:  int64(binary.BigEndian.Uint64(b[12:])),
	}
}

func (u unit) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(u.log))
	b = binary.BigEndian.AppendUint32(b, uint32(u.size))
	return binary.BigEndian.AppendUint64(b, uint64(u.tag))
}

// before reports whether the unit belongs in front of log offset log. Log offsets
// ascend within a queue; the native leading filler precedes everything.
func (u unit) before(log int64) bool {
	return u.size > 0 && (u.log < log || u.size == fillerSize && u.log == 0)
}

// message reports whether the unit stands for a message.
func (u unit) message() bool { return u.size > 0 && u.size != fillerSize && u.log >= 0 }

// keepPending is the largest room that a queue keeps for its next batch, bytes:
// there may be very many queues.
const keepPending = 4 << 10

// queue is one consume queue: files of equal size, named by the byte position of
// their first unit. mu guards the fields; it is held while units are written,
// never while they are read.
type queue struct {
	set   *queueSet
	topic string
	id    int32
	dir   string

	mu       sync.Mutex
	min, max int64   // offsets held: [min, max)
	through  int64   // log offset behind the last unit's record
	files    []int64 // byte positions of the files, ascending
	dirty    []int64 // files written since the last sync
	newNames bool    // files or directories were created since the last sync

	pending     []byte // units of the batch in hand: only the queue lane looks at it
	at          int64  // queue offset of the first pending unit
	pendingLog  int64  // its log offset
	pendingEnd  int64  // log offset behind the last pending unit's record
	pendingZero bool   // the queue starts again at this batch
}

func (q *queue) fileName(base int64) string { return segmentName(q.dir, base) }

func (q *queue) bounds() (lo, hi int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.min, q.max
}

// read fills b with units from queue offset off; the caller checked the bounds.
// It returns fewer when a file ends.
func (q *queue) read(b []byte, off int64) (units int, err error) {
	pos := off * queueUnit
	base := pos - pos%q.set.fileBytes
	n := min(int64(len(b)), base+q.set.fileBytes-pos)
	n -= n % queueUnit
	h, err := q.set.handles.get(q.fileName(base), false, 0)
	if err != nil {
		return 0, q.removed(base, err)
	}
	err = readFullAt(h.file, b[:n], pos-base)
	if err != nil {
		err = fmt.Errorf("read %s at byte %d: %w", h.name, pos-base, err)
	}
	return int(n / queueUnit), errors.Join(err, q.set.handles.put(h))
}

// removed replaces the error of opening a file by ErrRange when the queue has
// given the file up since the caller looked: it has expired, or the topic was
// made again. The caller does not hold mu.
func (q *queue) removed(base int64, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if slices.Contains(q.files, base) {
		return err
	}
	return fmt.Errorf("%w: %s was removed meanwhile", ErrRange, q.fileName(base))
}

// unitAt reads one unit.
func (q *queue) unitAt(off int64) (unit, error) {
	var b [queueUnit]byte
	if _, err := q.read(b[:], off); err != nil {
		return unit{}, err
	}
	return decodeUnit(b[:]), nil
}

// search returns the first offset in [lo, hi) whose unit does not satisfy
// before, hi when all do. The units must be partitioned by before.
func (q *queue) search(lo, hi int64, before func(unit) bool) (int64, error) {
	for lo < hi {
		mid := lo + (hi-lo)/2
		u, err := q.unitAt(mid)
		if err != nil {
			return 0, err
		}
		if before(u) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, nil
}
