package storage

import (
	"errors"
	"fmt"
	"io/fs"

	"lockstep/storage/vfs"
)

// segment is one commit log file. Its fields are guarded by the log's lock; the
// file itself may be used beside it while a reference is held.
type segment struct {
	base  int64
	file  vfs.File // nil until first used
	refs  int
	dead  bool // removed: the last reference closes the file
	dirty bool // written since the last sync started
}

func (l *commitLog) segmentFile(base int64) string { return segmentName(dirCommitLog, base) }

// acquire returns the segment that holds off with one more reference, nil when
// there is none.
func (l *commitLog) acquire(off int64) (*segment, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.find(off)
	if s == nil {
		return nil, nil
	}
	if s.file == nil {
		f, err := l.fsys.Open(l.segmentFile(s.base))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, l.missing(s.base)
		}
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", l.segmentFile(s.base), err)
		}
		s.file = f
	}
	s.refs++
	return s, nil
}

// release gives a reference back.
func (l *commitLog) release(s *segment) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.refs--
	return s.closeIfUnused()
}

func (s *segment) closeIfUnused() error {
	if !s.dead || s.refs > 0 || s.file == nil {
		return nil
	}
	f := s.file
	s.file = nil
	return f.Close()
}

// find returns the segment of off. The caller holds the lock.
func (l *commitLog) find(off int64) *segment {
	if len(l.segs) == 0 || off < l.segs[0].base {
		return nil
	}
	if i := (off - l.segs[0].base) / l.size; i < int64(len(l.segs)) {
		return l.segs[i]
	}
	return nil
}

// prepare makes the segment that starts at base exist, whole and durable by
// name, before any byte in it is acknowledged (rule P5d). It does nothing when
// the segment is there.
func (l *commitLog) prepare(base int64) error {
	if err := l.usable(); err != nil {
		return err
	}
	l.mu.Lock()
	begins := len(l.segs) == 0
	l.mu.Unlock()
	if begins { // a log without any segment begins with this one
		if err := l.rebase(base); err != nil {
			return err
		}
	}
	l.mu.Lock()
	have := l.find(base) != nil
	next := base
	if n := len(l.segs); n > 0 {
		next = l.segs[n-1].base + l.size
	}
	l.mu.Unlock()
	if have {
		return nil
	}
	if base%l.size != 0 || base != next {
		return fmt.Errorf("%w: segment at %d: the next one starts at %d and segments have %d bytes", ErrInvalid, base, next, l.size)
	}
	f, err := l.create(base)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.segs = append(l.segs, &segment{base: base, file: f})
	l.mu.Unlock()
	return nil
}

// create makes one segment file of full size. On failure nothing is left of it.
func (l *commitLog) create(base int64) (vfs.File, error) {
	name := l.segmentFile(base)
	f, err := l.fsys.Create(name)
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", name, mapDisk(err))
	}
	if err = f.Allocate(l.size); err == nil {
		if err = f.Sync(); err == nil {
			err = l.fsys.SyncDir(dirCommitLog)
		}
	}
	if err != nil {
		// A half-made segment would look like a torn one at the next start, and would
		// keep the space that is short.
		err = errors.Join(err, f.Close(), l.fsys.Remove(name))
		return nil, fmt.Errorf("allocate %s: %w", name, mapDisk(err))
	}
	return f, nil
}

// absent is the error for an offset that no segment holds: retention has taken it
// since the caller looked, or its file is missing.
func (l *commitLog) absent(off int64) error {
	if lo, _, _ := l.bounds(); off < lo {
		return fmt.Errorf("%w: log offset %d has expired, the log begins at %d", ErrRange, off, lo)
	}
	return l.missing(off - off%l.size)
}

// missing is the error for a segment that should be there.
func (l *commitLog) missing(base int64) error {
	return fmt.Errorf("%w: %s: restore this file, or move the store directory away so that the broker rebuilds from its master",
		ErrMissingSegment, l.segmentFile(base))
}

// damageAt describes bad bytes at a log offset.
func (l *commitLog) damageAt(off int64, reason string) *DamageError {
	base := off - off%l.size
	return &DamageError{
		File: l.segmentFile(base), Offset: off - base, Log: logOff(off), Reason: reason,
		Remedy: "move the store directory away and start empty, so that the broker copies the log from its master; nothing was deleted",
	}
}
