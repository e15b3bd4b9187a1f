package raftstore

import (
	"errors"
	"fmt"
	"slices"

	"lockstep/storage/vfs"
)

// replay reads the segments in order into rec. Only the end of the last one may
// be torn: every earlier write was synced before the next began.
func (s *File) replay(rec *Recovered, names []string) error {
	if len(names) == 0 {
		return s.damaged("", "no log segment is left, though the store was used")
	}
	for i, name := range names {
		last := i == len(names)-1
		if err := s.replaySegment(rec, name, last); err != nil {
			return err
		}
	}
	base := uint64(0)
	if rec.Snapshot != nil {
		base = rec.Snapshot.Index
	}
	if s.origin.prev > base {
		return s.damaged(names[0], "the log before entry %d is missing (the snapshot ends at %d)", s.origin.prev+1, base)
	}
	return nil
}

func (s *File) replaySegment(rec *Recovered, name string, last bool) error {
	first, err := firstSequence(name)
	if err != nil {
		return s.damaged(name, "the name has no sequence")
	}
	f, b, err := s.readSegment(name)
	if err != nil {
		return fmt.Errorf("controller store %s: %w", s.dir, err)
	}
	good, err := s.replayRecords(rec, name, first, b)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if good == len(b) && good > 0 {
		return s.adopt(f, name, b[:good], last)
	}
	if err := s.checkTorn(name, b, good, last); err != nil {
		return errors.Join(err, f.Close())
	}
	rec.TornBytes += int64(len(b) - good)
	if good == 0 {
		// The segment was being made: not even its header is whole, nothing is in it.
		return s.abandon(f, name)
	}
	return s.adopt(f, name, b[:good], last)
}

func (s *File) readSegment(name string) (vfs.File, []byte, error) {
	f, err := s.fs.Open(s.path(name))
	if err != nil {
		return nil, nil, err
	}
	size, err := f.Size()
	if err == nil && size > 1<<31 {
		err = fmt.Errorf("%s: %d bytes are more than a segment can have", name, size)
	}
	if err == nil {
		// What a failed fsync of the last life left in the cache is not on the device.
		err = f.DropCache(0, size)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); int64(n) != size {
		return nil, nil, errors.Join(fmt.Errorf("%s: %d of %d bytes: %w", name, n, size, err), f.Close())
	}
	return f, b, nil
}

// replayRecords applies the whole records at the start of b and returns where
// they end.
func (s *File) replayRecords(rec *Recovered, name string, first uint64, b []byte) (int, error) {
	at, want := 0, first
	for {
		kind, seq, payload, ok := openRecord(s.identity.Store, b[at:])
		if !ok {
			return at, nil
		}
		if seq != want || (kind == kindHeader) != (at == 0) {
			return at, s.damaged(name, "record at offset %d has sequence %d and kind %d, sequence %d was due", at, seq, kind, want)
		}
		var err error
		if kind == kindHeader {
			err = s.replayHeader(rec, name, seq, payload)
		} else {
			err = s.replayWrite(rec, name, at, payload)
		}
		if err != nil {
			return at, err
		}
		at += recordHead + len(payload)
		want++
		s.seq = want
	}
}

func (s *File) replayHeader(rec *Recovered, name string, seq uint64, payload []byte) error {
	h, err := decodeHeader(payload)
	if err != nil {
		return s.damaged(name, "%v", err)
	}
	if len(s.segments) > 0 && s.seq != seq {
		return s.damaged(name, "the segment before it is missing: it begins at record %d, the one before ends at %d", seq, s.seq-1)
	}
	if len(s.segments) == 0 || h.reset {
		s.origin = h
	}
	if h.reset {
		rec.Entries = nil
		for i := range s.segments {
			s.segments[i].max = 0
		}
	}
	rec.Hard = h.hard
	s.segments = append(s.segments, segmentInfo{name: name})
	return nil
}

func (s *File) replayWrite(rec *Recovered, name string, at int, payload []byte) error {
	hard, es, err := decodeWrite(payload)
	if err != nil {
		return s.damaged(name, "record at offset %d: %v", at, err)
	}
	if hard != nil {
		rec.Hard = *hard
	}
	if len(es) == 0 {
		return nil
	}
	if n := len(rec.Entries); n > 0 {
		if err := validateEntries(es, rec.Entries[n-1].Index); err != nil {
			return s.damaged(name, "record at offset %d: %v", at, err)
		}
	}
	rec.Entries = appendEntries(rec.Entries, cloneEntries(es))
	cur := &s.segments[len(s.segments)-1]
	cur.max = max(cur.max, es[len(es)-1].Index)
	return nil
}

func cloneEntries(es []Entry) []Entry {
	out := slices.Clone(es)
	for i := range out {
		out[i].Data = slices.Clone(out[i].Data)
	}
	return out
}

// checkTorn decides whether bytes that are no record are the last write, torn by
// a crash, or damage. A torn write is the last thing in the last segment; a
// whole record behind it was written after it had been synced.
func (s *File) checkTorn(name string, b []byte, good int, last bool) error {
	if !last {
		return s.damaged(name, "the record at offset %d is damaged and a later segment exists", good)
	}
	for at := good + 1; at+recordHead <= len(b); at++ {
		if _, seq, _, ok := openRecord(s.identity.Store, b[at:]); ok {
			return s.damaged(name, "the record at offset %d is damaged and record %d at offset %d was written after it", good, seq, at)
		}
	}
	return nil
}

// adopt keeps a segment. The last one is rewritten and synced, because an
// unclean stop may have left its end in the page cache only (rule P5), and a torn
// end is cut so that it can never be taken for a record again.
func (s *File) adopt(f vfs.File, name string, good []byte, last bool) error {
	if !last {
		return f.Close()
	}
	err := f.Truncate(int64(len(good)))
	if err == nil {
		_, err = f.WriteAt(good, 0)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return fmt.Errorf("controller store %s: rewrite %s: %w", s.dir, name, errors.Join(err, f.Close()))
	}
	s.out, s.size = f, int64(len(good))
	return nil
}

// abandon removes a segment that has no header and writes to the one before it.
func (s *File) abandon(f vfs.File, name string) error {
	if err := f.Close(); err != nil {
		return fmt.Errorf("controller store %s: %w", s.dir, err)
	}
	if err := s.fs.Remove(s.path(name)); err != nil {
		return fmt.Errorf("controller store %s: %w", s.dir, err)
	}
	if len(s.segments) == 0 {
		return s.damaged(name, "the only segment has no header")
	}
	prev := s.segments[len(s.segments)-1].name
	out, b, err := s.readSegment(prev)
	if err != nil {
		return fmt.Errorf("controller store %s: %w", s.dir, err)
	}
	return s.adopt(out, prev, b, true)
}
