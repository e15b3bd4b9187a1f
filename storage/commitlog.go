package storage

import (
	"errors"
	"fmt"
	"sync"

	"lockstep/internal/ha"
	"lockstep/internal/invariant"
	"lockstep/storage/vfs"
)

// commitLog is the log as files. One lane writes, one syncs, many read; they
// meet in the positions and the list of segments, which mu guards. mu is never
// held during a write, a sync or a read.
type commitLog struct {
	fsys vfs.FS
	size int64 // bytes a segment

	mu      sync.Mutex
	segs    []*segment // ascending and adjacent
	min     int64      // first byte held
	end     int64      // after the last byte written
	durable int64      // everything below was synced in this life or before
	cuts    uint64     // truncations so far: tells a read that was overtaken
	failed  error      // sticky: the device failed a write or a sync
}

func logOff(off int64) ha.LogOffset { return ha.LogOffset(off) }

// bounds returns the range of bytes held and the number of cuts.
func (l *commitLog) bounds() (lo, end int64, cuts uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.min, l.end, l.cuts
}

// usable returns the sticky failure, wrapped, or nil.
func (l *commitLog) usable() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// fail makes a device failure sticky: after it nothing is known about dirty
// pages, so no later sync may report success (DESIGN 4, R-51).
func (l *commitLog) fail(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		l.failed = fmt.Errorf("%w: restart the broker after checking the disk: %w", ErrFailed, err)
	}
	return l.failed
}

// append writes the pieces one behind the other at off, which must be the end
// of the log; an empty log takes any segment boundary. Nothing is synced. After
// an error the end has not moved, and after ErrDiskFull the same call may be
// made again.
func (l *commitLog) append(off int64, data [][]byte) error {
	if err := l.usable(); err != nil {
		return err
	}
	if err := l.rebase(off); err != nil {
		return err
	}
	_, end, _ := l.bounds()
	invariant.That(off == end, "append at %d to a log that ends at %d", off, end)
	for _, p := range data {
		for len(p) > 0 {
			n := min(int64(len(p)), l.size-off%l.size)
			if err := l.writeIn(off, p[:n]); err != nil {
				return err
			}
			off, p = off+n, p[n:]
		}
	}
	l.mu.Lock()
	l.end = off
	l.mu.Unlock()
	return nil
}

// rebase moves an empty log to another segment boundary: a new replica starts
// where its master's log does.
func (l *commitLog) rebase(off int64) error {
	l.mu.Lock()
	if l.min != l.end || off == l.end || off%l.size != 0 {
		l.mu.Unlock()
		return nil
	}
	drop := l.segs
	l.segs, l.min, l.end, l.durable = nil, off, off, off
	l.mu.Unlock()
	// Newest first and one by one: no crash leaves a gap between files.
	for i := len(drop) - 1; i >= 0; i-- {
		if err := l.unlink(drop[i]); err != nil {
			return err
		}
		if err := l.fsys.SyncDir(dirCommitLog); err != nil {
			return l.fail(fmt.Errorf("sync %s: %w", dirCommitLog, err))
		}
	}
	return nil
}

// writeIn writes bytes that lie in one segment, making the segment when nobody
// prepared it.
func (l *commitLog) writeIn(off int64, p []byte) error {
	base := off - off%l.size
	seg, err := l.acquire(off)
	if err == nil && seg == nil {
		if err = l.prepare(base); err == nil {
			seg, err = l.acquire(off)
		}
	}
	if err != nil {
		return err
	}
	_, err = seg.file.WriteAt(p, off-base)
	l.mu.Lock()
	seg.dirty = true // after the write: a sync covers writes that have returned (P11)
	seg.refs--
	l.mu.Unlock()
	if err == nil {
		return nil
	}
	err = mapDisk(fmt.Errorf("write %s at byte %d: %w", l.segmentFile(base), off-base, err))
	if errors.Is(err, ErrDiskFull) {
		return err
	}
	return l.fail(err)
}

// sync makes every byte durable whose write returned before the call. Segments
// go in ascending order, so that no later one is durable ahead of an earlier.
func (l *commitLog) sync() error {
	if err := l.usable(); err != nil {
		return err
	}
	var few [4]*segment
	list := few[:0]
	l.mu.Lock()
	end := l.end
	for _, s := range l.segs {
		if s.dirty {
			s.dirty = false
			s.refs++
			list = append(list, s)
		}
	}
	cuts := l.cuts
	l.mu.Unlock()
	var err error
	for _, s := range list {
		if err == nil {
			if err = s.file.Sync(); err != nil {
				err = l.fail(fmt.Errorf("sync %s: %w", l.segmentFile(s.base), err))
			}
		}
		err = errors.Join(err, l.release(s))
	}
	if err != nil {
		return err
	}
	l.mu.Lock()
	if l.cuts == cuts {
		l.durable = max(l.durable, end)
	}
	l.mu.Unlock()
	return nil
}

// durableEnd is the highest offset known to be synced.
func (l *commitLog) durableEnd() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.durable
}

// cutFiles removes every byte at or above off for good: later segments are
// unlinked, the one that holds off is cut and allocated again, so that the rest
// reads as zeros. All of it is durable on return. The caller wrote the cut
// marker, which makes a crash anywhere in here repeatable (rule P10).
func (l *commitLog) cutFiles(off int64) error {
	l.mu.Lock()
	var keep, drop []*segment
	for _, s := range l.segs {
		if s.base <= off {
			keep = append(keep, s)
		} else {
			drop = append(drop, s)
		}
	}
	l.segs, l.cuts = keep, l.cuts+1
	l.end, l.durable = min(l.end, off), min(l.durable, off)
	l.mu.Unlock()
	for i := len(drop) - 1; i >= 0; i-- {
		if err := l.unlink(drop[i]); err != nil {
			return err
		}
	}
	if err := l.cutSegment(off); err != nil {
		return err
	}
	if err := l.fsys.SyncDir(dirCommitLog); err != nil {
		return l.fail(fmt.Errorf("sync %s: %w", dirCommitLog, err))
	}
	return nil
}

func (l *commitLog) cutSegment(off int64) error {
	seg, err := l.acquire(off)
	if err != nil || seg == nil {
		return err // nil: off is where the next segment would start
	}
	name := l.segmentFile(seg.base)
	if err = seg.file.Truncate(off - seg.base); err == nil {
		if err = seg.file.Allocate(l.size); err == nil {
			err = seg.file.Sync()
		}
	}
	if err != nil {
		// The marker stays: a repeated call, or the next start, finishes the cut.
		err = mapDisk(fmt.Errorf("cut %s at byte %d: %w", name, off-seg.base, err))
		if !errors.Is(err, ErrDiskFull) {
			err = l.fail(err)
		}
	}
	return errors.Join(err, l.release(seg))
}

// unlink removes one segment file that is no longer in the list.
func (l *commitLog) unlink(s *segment) error {
	name := l.segmentFile(s.base)
	if err := l.fsys.Remove(name); err != nil {
		return l.fail(fmt.Errorf("remove %s: %w", name, err))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.dead = true
	return s.closeIfUnused()
}

// expire removes whole segments that end at or below off, oldest first, and
// never the one the log ends in. Each removal is durable before the next, so
// that a crash never leaves a gap. It returns the new first offset.
func (l *commitLog) expire(off int64) (int64, error) {
	for {
		l.mu.Lock()
		if len(l.segs) < 2 || l.segs[0].base+l.size > min(off, l.end) {
			lo := l.min
			l.mu.Unlock()
			return lo, nil
		}
		s := l.segs[0]
		l.segs = l.segs[1:]
		l.min = l.segs[0].base
		lo := l.min
		l.mu.Unlock()
		if err := l.unlink(s); err != nil {
			return lo, err
		}
		if err := l.fsys.SyncDir(dirCommitLog); err != nil {
			return lo, l.fail(fmt.Errorf("sync %s: %w", dirCommitLog, err))
		}
	}
}

// close closes every file.
func (l *commitLog) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	for _, s := range l.segs {
		s.dead = true
		err = errors.Join(err, s.closeIfUnused())
	}
	l.segs = nil
	return err
}
