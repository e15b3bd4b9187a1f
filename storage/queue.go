package storage

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"

	"lockstep/internal/ha"
	"lockstep/storage/vfs"
)

// MaxQueues limits the consume queues of one store.
const MaxQueues = 1 << 20

type queueKey struct {
	topic string
	id    int32
}

// queueSet is all consume queues of a store: derived data, rebuilt from the log
// where it is missing.
type queueSet struct {
	fsys      vfs.FS
	fileBytes int64
	handles   *fileHandles

	batch sync.Mutex // held by whoever changes queues: the queue lane, truncation, retention

	mu    sync.RWMutex
	byKey map[queueKey]*queue
	list  []*queue // in order of appearance
	dirty bool     // something was written since the last sync
	filed int64    // log offset behind the last entry offered: all below is in the queues
	start int64    // where the record of that entry starts; -1 when not known

	touched []*queue // scratch of append, under batch
}

func newQueueSet(fsys vfs.FS, o Options) *queueSet {
	return &queueSet{
		fsys: fsys, fileBytes: int64(o.QueueUnits) * queueUnit,
		handles: newFileHandles(fsys, o.OpenFiles), byKey: map[queueKey]*queue{},
	}
}

// lookup returns a queue, nil when it does not exist.
func (s *queueSet) lookup(topic string, id int32) *queue {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byKey[queueKey{topic, id}]
}

// ensure returns a queue, making an empty one when needed.
func (s *queueSet) ensure(topic string, id int32) (*queue, error) {
	if q := s.lookup(topic, id); q != nil {
		return q, nil
	}
	if !SafeTopic(topic) || id < 0 {
		return nil, fmt.Errorf("%w: queue %.64q/%d: not a topic and queue that can be a directory", ErrInvalid, topic, id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) >= MaxQueues {
		return nil, fmt.Errorf("%w: queue %s/%d: the store has %d queues already", ErrInvalid, topic, id, MaxQueues)
	}
	topic = strings.Clone(topic) // it may be a part of a message's bytes
	q := &queue{set: s, topic: topic, id: id, dir: queueDir(topic, id)}
	s.byKey[queueKey{topic, id}] = q
	s.list = append(s.list, q)
	return q, nil
}

// snapshot returns the queues in order of appearance.
func (s *queueSet) snapshot() []*queue {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.list[:len(s.list):len(s.list)]
}

// append writes entries to their queues, one write for each run of a queue.
// Entries at or above limit are left out: their records are gone. On error some
// queues may have their part; the same entries may be offered again.
func (s *queueSet) append(entries []QueueEntry, limit ha.LogOffset) error {
	s.batch.Lock()
	defer s.batch.Unlock()
	s.touched = s.touched[:0]
	err := s.offerAll(entries, limit)
	for _, q := range s.touched {
		err = errors.Join(err, q.flush())
		if q.pending = q.pending[:0]; cap(q.pending) > keepPending {
			q.pending = nil
		}
	}
	s.mu.Lock()
	s.dirty = s.dirty || len(s.touched) > 0
	for i := len(entries) - 1; i >= 0 && err == nil; i-- {
		if end := entryEnd(entries[i].Log, entries[i].Size); end <= limit {
			if int64(end) > s.filed {
				s.filed, s.start = int64(end), int64(entries[i].Log)
			}
			break
		}
	}
	s.mu.Unlock()
	return err
}

// filedTo is the log offset below which every record has its queue entry, and
// the start of a record below it, -1 when none is known.
func (s *queueSet) filedTo() (end, start ha.LogOffset) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return logOff(s.filed), logOff(s.start)
}

func (s *queueSet) offerAll(entries []QueueEntry, limit ha.LogOffset) error {
	var q *queue
	for i := range entries {
		e := &entries[i]
		if entryEnd(e.Log, e.Size) > limit {
			continue
		}
		if q == nil || q.id != e.Queue || q.topic != e.Topic {
			var err error
			if q, err = s.ensure(e.Topic, e.Queue); err != nil {
				return err
			}
		}
		if len(q.pending) == 0 {
			s.touched = append(s.touched, q)
		}
		full, err := q.offer(e)
		if err == nil && full {
			if err = q.flush(); err == nil {
				_, err = q.offer(e)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// cut drops every entry at or above log.
func (s *queueSet) cut(log ha.LogOffset) error {
	s.batch.Lock()
	defer s.batch.Unlock()
	for _, q := range s.snapshot() {
		if err := q.cut(log); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.dirty = true
	if int64(log) < s.filed {
		s.filed, s.start = int64(log), -1
	}
	s.mu.Unlock()
	return nil
}

// expire drops every entry below log.
func (s *queueSet) expire(log ha.LogOffset) error {
	s.batch.Lock()
	defer s.batch.Unlock()
	for _, q := range s.snapshot() {
		if err := q.expire(log); err != nil {
			return err
		}
	}
	return nil
}

// sync makes everything written before the call durable.
func (s *queueSet) sync() error {
	s.mu.Lock()
	dirty := s.dirty
	s.dirty = false
	s.mu.Unlock()
	if !dirty {
		return nil
	}
	for _, q := range s.snapshot() {
		if err := q.sync(); err != nil {
			return err
		}
	}
	return nil
}

// bounds lists the queues by topic and id, and what of each is visible below
// confirm.
func (s *queueSet) bounds(confirm ha.LogOffset) ([]QueueBounds, error) {
	list := s.snapshot()
	out := make([]QueueBounds, 0, len(list))
	for _, q := range list {
		b, err := q.limits(int64(confirm))
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	slices.SortFunc(out, func(a, b QueueBounds) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Queue, b.Queue))
	})
	return out, nil
}

// limits returns one queue's bounds. When the units it looked at were removed
// meanwhile, it looks again at what is left.
func (q *queue) limits(confirm int64) (QueueBounds, error) {
	for {
		b, err := q.visible(confirm)
		if !errors.Is(err, ErrRange) {
			return b, err
		}
		if lo, hi := q.bounds(); lo == b.Min && hi == b.Max {
			return b, err // a removal that failed half-way left the bounds as they were
		}
	}
}

// visible searches a queue for what lies below confirm, unless that is all of it,
// or nothing.
func (q *queue) visible(confirm int64) (QueueBounds, error) {
	q.mu.Lock()
	b := QueueBounds{Topic: q.topic, Queue: q.id, Min: q.min, Max: q.max}
	through := q.through
	q.mu.Unlock()
	switch {
	case confirm <= 0 || b.Min == b.Max:
		b.Visible = b.Min
		return b, nil
	case through <= confirm:
		b.Visible = b.Max
		return b, nil
	}
	var err error
	b.Visible, err = q.search(b.Min, b.Max, func(u unit) bool {
		return u.before(confirm) && (!u.message() || u.log+int64(u.size) <= confirm)
	})
	return b, err
}

// load finds the queues on disk. Nothing is changed.
func (s *queueSet) load() error {
	topics, err := listDir(s.fsys, dirConsumeQueue)
	if err != nil {
		return err
	}
	for _, topic := range topics {
		if !SafeTopic(topic) {
			continue // not a queue's directory; left alone
		}
		ids, err := listDir(s.fsys, dirConsumeQueue+"/"+topic)
		if err != nil {
			return err
		}
		for _, name := range ids {
			id, err := strconv.ParseInt(name, 10, 32)
			if err != nil || id < 0 || strconv.FormatInt(id, 10) != name {
				continue
			}
			if err := s.loadQueue(topic, int32(id)); err != nil {
				return err
			}
		}
	}
	return nil
}

// loadQueue lists one queue's files. Files behind a gap are not the queue's: the
// log is dispatched again from where the gap begins.
func (s *queueSet) loadQueue(topic string, id int32) error {
	names, err := listDir(s.fsys, queueDir(topic, id))
	if err != nil {
		return err
	}
	var files []int64
	for _, name := range names {
		base, ok := parseSegmentName(name)
		if !ok || base%s.fileBytes != 0 {
			continue
		}
		if n := len(files); n > 0 && base != files[n-1]+s.fileBytes {
			break
		}
		files = append(files, base)
	}
	if len(files) == 0 {
		return nil
	}
	q, err := s.ensure(topic, id)
	if err != nil {
		return err
	}
	q.files = files
	return nil
}

// listDir lists a directory; an absent one is empty.
func listDir(fsys vfs.FS, dir string) ([]string, error) {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	return names, nil
}
