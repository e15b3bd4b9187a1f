package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"

	"lockstep/internal/ha"
	"lockstep/storage/vfs"
)

// nameQueues is the side file that lists every consume queue and its end, written
// after their units were synced. It lets recovery notice a queue that is
// missing or short, which the native layout cannot tell from one that never
// had more. It is removed before the log is cut, so that it is right whenever
// it is there.
const nameQueues = dirLockstep + "/queues"

const queueListMagic = "LSQUEUE1"

// queueList is the decoded side file.
type queueList struct {
	dispatched ha.LogOffset // units of everything below were synced
	logMin     ha.LogOffset // where the log began
	queues     []QueueBounds
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
	d := varReader{rest: b[len(queueListMagic):n]}
	l.dispatched = ha.LogOffset(d.uint(1<<63 - 1))
	l.logMin = ha.LogOffset(d.uint(1<<63 - 1))
	count := d.uint(MaxQueues)
	for i := uint64(0); i < count && d.err == nil; i++ {
		q := QueueBounds{Topic: string(d.bytes(MaxTopic))}
		q.Queue = int32(d.uint(1<<31 - 1))
		q.Min = int64(d.uint(maxQueueOffset))
		q.Max = int64(d.uint(maxQueueOffset))
		l.queues = append(l.queues, q)
	}
	if d.err != nil {
		return queueList{}, d.err
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

// prover says whether a unit points to its own record.
type prover func(off int64, u unit) bool

// settle finds out where a queue ends: units of records below dispatched are
// trusted. After a crash the last of them has to prove itself, because a sector
// that was being cleared can hold a mixture that looks like a unit; and what the
// crash may have left behind it is dropped.
func (q *queue) settle(dispatched, logMin int64, proves prover, drop bool) error {
	if err := q.wholeFiles(); err != nil {
		return err
	}
	if len(q.files) == 0 {
		return nil
	}
	perFile := q.set.fileBytes / queueUnit
	first, last := q.files[0]/queueUnit, q.files[len(q.files)-1]/queueUnit+perFile
	end, err := q.search(first, last, func(u unit) bool { return u.before(dispatched) })
	if err != nil {
		return err
	}
	if proves != nil {
		if end, err = q.walkBack(first, end, proves); err != nil {
			return err
		}
	}
	lo, err := q.search(first, end, func(u unit) bool { return u.before(logMin) })
	if err != nil {
		return err
	}
	q.min, q.max = lo, end
	if end > first {
		u, err := q.unitAt(end - 1)
		if err != nil {
			return err
		}
		if q.through = u.log + int64(u.size); u.size == fillerSize {
			q.through = u.log
		}
	}
	if drop {
		// Names that only a cache holds look like any other: the next sync covers them.
		q.newNames = true
		return q.dropBehind(end * queueUnit)
	}
	return nil
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
