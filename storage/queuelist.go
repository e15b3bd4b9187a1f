package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"slices"

	"lockstep/internal/ha"
	"lockstep/internal/varint"
	"lockstep/storage/vfs"
)

// nameQueues is the side file that lists every consume queue and where its synced
// units end, written after they were synced. It lets recovery notice a queue
// that is missing or short, which the native layout cannot tell from one that
// never had more, and it vouches for units whose records have expired and can
// no longer be asked: a queue without any other would forget its next offset.
// It is lowered before the log is cut and renewed before the log's beginning
// goes, so that it is right whenever it is there.
const nameQueues = dirLockstep + "/queues"

const queueListMagic = "LSQUEUE1"

// queueList is the decoded side file.
type queueList struct {
	dispatched ha.LogOffset  // units of everything below were synced
	logMin     ha.LogOffset  // where the log began
	queues     []QueueBounds // Max: behind the last unit of a record below dispatched
}

func (l queueList) encode() []byte {
	b := append(make([]byte, 0, 32+len(l.queues)*40), queueListMagic...)
	b = binary.AppendUvarint(b, uint64(l.dispatched))
	b = binary.AppendUvarint(b, uint64(l.logMin))
	b = binary.AppendUvarint(b, uint64(len(l.queues)))
	for _, q := range l.queues {
		b = binary.AppendUvarint(b, uint64(len(q.Topic)))
		b = append(b, q.Topic...)
		b = binary.AppendUvarint(b, uint64(q.Queue))
		b = binary.AppendUvarint(b, uint64(q.Min))
		b = binary.AppendUvarint(b, uint64(q.Max))
	}
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

func decodeQueueList(b []byte) (queueList, error) {
	var l queueList
	n := len(b) - 4
	if n < len(queueListMagic) || string(b[:len(queueListMagic)]) != queueListMagic ||
		crc32.ChecksumIEEE(b[:n]) != binary.BigEndian.Uint32(b[n:]) {
		return l, errors.New("title or checksum differs")
	}
	d := varint.Reader{Rest: b[len(queueListMagic):n]}
	l.dispatched = ha.LogOffset(d.Uint(1<<63 - 1))
	l.logMin = ha.LogOffset(d.Uint(1<<63 - 1))
	count := d.Uint(MaxQueues)
	for i := uint64(0); i < count && d.Err == nil; i++ {
		q := QueueBounds{Topic: string(d.Bytes(MaxTopic))}
		q.Queue = int32(d.Uint(1<<31 - 1))
		q.Min = int64(d.Uint(maxQueueOffset))
		q.Max = int64(d.Uint(maxQueueOffset))
		l.queues = append(l.queues, q)
	}
	if d.Err != nil {
		return queueList{}, d.Err
	}
	return l, nil
}

// readQueueList returns the list; found is false when there is none or when it
// is damaged, because it is derived data.
func readQueueList(fsys vfs.FS) (l queueList, found bool, err error) {
	b, err := vfs.ReadFile(fsys, nameQueues)
	if errors.Is(err, fs.ErrNotExist) {
		return queueList{}, false, nil
	}
	if err != nil {
		return queueList{}, false, fmt.Errorf("read %s: %w", nameQueues, err)
	}
	l, bad := decodeQueueList(b)
	return l, bad == nil, nil
}

// lowered is the list of a store whose log is to be cut at off. ok is false when
// the queues on disk do not tell: without a list the whole log is dispatched
// again.
func (l queueList) lowered(queues *queueSet, off ha.LogOffset) (low queueList, ok bool) {
	low = queueList{dispatched: off, logMin: l.logMin, queues: slices.Clone(l.queues)}
	for i := range low.queues {
		b := &low.queues[i]
		q := queues.lookup(b.Topic, b.Queue)
		if q == nil || len(q.files) == 0 {
			return low, false
		}
		q.mu.Lock()
		lo := max(b.Min, q.min, q.files[0]/queueUnit)
		q.mu.Unlock()
		if lo >= b.Max {
			continue // all of it has expired, and lies below any cut
		}
		end, err := q.search(lo, b.Max, func(u unit) bool { return u.before(int64(off)) })
		if err != nil {
			return low, false
		}
		b.Min, b.Max = min(b.Min, end), end
	}
	return low, true
}

// lowerQueueList makes durable that no queue is listed beyond log offset off.
// A list that cannot be lowered, as on a full disk, is removed.
func lowerQueueList(fsys vfs.FS, queues *queueSet, off ha.LogOffset) error {
	l, found, err := readQueueList(fsys)
	if err != nil || found && l.dispatched <= off {
		return err
	}
	if found {
		if low, ok := l.lowered(queues, off); ok && vfs.WriteAtomic(fsys, nameQueues, low.encode()) == nil {
			return nil
		}
	}
	return removeDurably(fsys, nameQueues)
}

// prover says whether a unit is one of those that were synced.
type prover func(off int64, u unit) bool

// trust is what recovery believes of a queue that it has not looked into.
type trust struct {
	dispatched int64  // units of records below were synced
	logMin     int64  // where the log begins
	end        int64  // no unit from this queue offset on was synced; maxQueueOffset when nobody knows
	proves     prover // after a crash; nil: every unit of a record below dispatched is good
}

// settle finds out where a queue ends. After a crash there can be anything behind
// its last synced unit: lost pages of zeros in front of whole ones, stale units
// of a cut that was lost, sectors with a mixture that looks like a unit. A search
// among them ends anywhere, so that the last unit has to prove itself. In front
// of a synced unit all are synced. What is behind it may be dropped.
func (q *queue) settle(t trust, drop bool) error {
	if err := q.wholeFiles(); err != nil {
		return err
	}
	if len(q.files) == 0 {
		return nil
	}
	perFile := q.set.fileBytes / queueUnit
	first, last := q.files[0]/queueUnit, q.files[len(q.files)-1]/queueUnit+perFile
	end, err := q.search(first, min(last, max(first, t.end)), func(u unit) bool { return u.before(t.dispatched) })
	if err != nil {
		return err
	}
	if t.proves != nil {
		if end, err = q.walkBack(first, end, t.proves); err != nil {
			return err
		}
	}
	if end == first {
		end = min(first, t.end) // files of which nothing was synced do not tell an offset
	}
	if err := q.adopt(first, end, t.logMin); err != nil || !drop {
		return err
	}
	// Names that only a cache holds look like any other: the next sync covers them.
	q.newNames = true
	return q.dropBehind(end * queueUnit)
}

// adopt makes [first, end) the queue's units, and those of records that the log
// still holds its offsets. When the last record has expired all have, whatever
// their units say: nothing is known of them, and nothing of them is served.
func (q *queue) adopt(first, end, logMin int64) error {
	q.min, q.max, q.through = end, end, 0
	if end <= first {
		return nil
	}
	u, err := q.unitAt(end - 1)
	if err != nil {
		return err
	}
	q.through = u.log
	if u.message() {
		q.through += int64(u.size)
	}
	if u.before(logMin) {
		q.through = min(q.through, logMin) // no record crosses a segment's start
		return nil
	}
	q.min, err = q.search(first, end, func(u unit) bool { return u.before(logMin) })
	return err
}

// walkBack returns the offset behind the last unit in [lo, hi) that proves
// itself.
func (q *queue) walkBack(lo, hi int64, proves prover) (int64, error) {
	for ; hi > lo; hi-- {
		u, err := q.unitAt(hi - 1)
		if err != nil {
			return 0, err
		}
		if proves(hi-1, u) {
			break
		}
	}
	return hi, nil
}

// wholeFiles completes a last file that a crash left short and gives up the
// files behind a short one.
func (q *queue) wholeFiles() error {
	for i, base := range q.files {
		h, err := q.set.handles.get(q.fileName(base), false, 0)
		if err != nil {
			return err
		}
		size, err := h.file.Size()
		if err == nil && size < q.set.fileBytes {
			err = h.file.Truncate(q.set.fileBytes)
			q.files = q.files[:i+1]
		}
		if err != nil {
			err = fmt.Errorf("complete %s: %w", h.name, err)
		}
		if err = errors.Join(err, q.set.handles.put(h)); err != nil {
			return err
		}
		if i >= len(q.files)-1 {
			break
		}
	}
	return nil
}
