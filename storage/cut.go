package storage

import (
	"errors"
	"fmt"
	"io/fs"

	"lockstep/internal/ha"
	"lockstep/storage/vfs"
)

// A cut removes the end of the log for good, by rule P10: the cut mark is made
// durable; floor and derived data go below the cut; the bytes are removed and
// that is synced; then the mark goes, durably. Only after that are bytes above
// the cut written or a handshake answered. A start that finds the mark repeats
// the whole of it.

func encodeCut(off int64) []byte { return encodeSide("cut", fieldInt("offset", off)) }

// readCut returns the offset of an unfinished cut.
func readCut(fsys vfs.FS) (off int64, found bool, err error) {
	b, err := vfs.ReadFile(fsys, nameCut)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("read %s: %w", nameCut, err)
	}
	s, err := decodeSide("cut", b)
	if err == nil {
		off, err = s.number("offset")
	}
	if err != nil {
		return 0, false, damaged(nameCut, err.Error(),
			"move the store directory away and start empty: how far the log was to be cut is not known")
	}
	return off, true, nil
}

// cutter has what a cut touches, in a running store and in recovery.
type cutter struct {
	fsys   vfs.FS
	log    *commitLog
	queues *queueSet
	lower  func(off ha.LogOffset) error // brings the persisted floor and the list of queues to off or below
}

// cut removes everything at or above off.
func (c cutter) cut(off int64) error {
	if err := vfs.WriteAtomic(c.fsys, nameCut, encodeCut(off)); err != nil {
		return fmt.Errorf("write %s: %w", nameCut, mapDisk(err))
	}
	return c.finish(off)
}

// finish does what follows the mark; it may be repeated.
func (c cutter) finish(off int64) error {
	if err := c.lower(logOff(off)); err != nil {
		return err
	}
	if err := c.log.cutFiles(off); err != nil {
		return err
	}
	if err := c.queues.cut(logOff(off)); err != nil {
		return err
	}
	if err := removeDurably(c.fsys, nameCut); err != nil {
		return c.log.fail(err)
	}
	return nil
}

// dropSegmentsAbove removes the segment files that start above off. Removals of
// an interrupted cut may have become durable in any order, so it goes by the
// directory and not by a contiguous list.
func dropSegmentsAbove(fsys vfs.FS, off int64) error {
	names, err := listDir(fsys, dirCommitLog)
	if err != nil {
		return err
	}
	for _, name := range names {
		if base, ok := parseSegmentName(name); ok && base > off {
			if err := fsys.Remove(dirCommitLog + "/" + name); err != nil {
				return fmt.Errorf("remove %s/%s: %w", dirCommitLog, name, err)
			}
		}
	}
	if err := fsys.SyncDir(dirCommitLog); err != nil {
		return fmt.Errorf("sync %s: %w", dirCommitLog, err)
	}
	return nil
}

// finishCut repeats a cut that a crash interrupted. Queues are cut once their
// ends are known; until then the lowered floor keeps them from being trusted.
func (r *recovery) finishCut(off int64) error {
	if len(r.log.segs) > 0 && off < r.log.min {
		return damaged(nameCut, fmt.Sprintf("offset %d lies below the first segment at %d", off, r.log.min),
			"move the store directory away and start empty")
	}
	lower := func(at ha.LogOffset) error {
		if err := lowerFloor(r.fsys, at, r.o.Segment); err != nil {
			return err
		}
		return lowerQueueList(r.fsys, r.queues, at)
	}
	c := cutter{fsys: r.fsys, log: r.log, queues: newQueueSet(r.fsys, r.o), lower: lower}
	if err := c.finish(off); err != nil {
		return fmt.Errorf("finish the cut at %d: %w", off, err)
	}
	if n := len(r.log.segs); n > 0 {
		r.log.end = r.log.segs[n-1].base + r.log.size
	}
	r.marked = false
	return nil
}

// lowerFloor brings the persisted floor to at or below, without a store.
func lowerFloor(fsys vfs.FS, at ha.LogOffset, segment int64) error {
	m, state, err := readFloor(fsys)
	if err != nil || state != floorGood {
		return err
	}
	w, err := openFloor(fsys, m)
	if err != nil {
		return err
	}
	return errors.Join(w.write(m.lowered(at, segment)), w.close())
}

// lowered is the mark of a log that was cut at off.
func (m floorMark) lowered(off ha.LogOffset, segment int64) floorMark {
	if off < m.dispatched {
		m.anchor = segmentBefore(off, segment)
	}
	m.floor, m.confirm, m.dispatched = min(m.floor, off), min(m.confirm, off), min(m.dispatched, off)
	return m
}
