package raftstore

import (
	"errors"
	"fmt"
	"io"

	"lockstep/storage"
	"lockstep/storage/vfs"
)

// File is the file store. See record.go for the layout.
type File struct {
	fs       vfs.FS
	dir      string
	segment  int64 // bytes after which a new segment begins
	lock     io.Closer
	identity Identity

	segments []segmentInfo // ascending; the last is being written
	out      vfs.File
	size     int64  // bytes of the last segment
	seq      uint64 // of the next record
	hard     HardState
	last     uint64 // index of the last entry, or of the snapshot
	lastTerm uint64
	snapshot uint64 // index of the newest snapshot
	failed   error  // first failure; the store is finished
	origin   header // while opening: what the log on disk begins behind
}

// segmentInfo is a segment on the disk.
type segmentInfo struct {
	name string
	max  uint64 // highest entry index in it; it may go when all are compacted
}

// Do performs one request; see Store.
func (s *File) Do(op storage.Op) storage.Result {
	r, ok := op.Raft.(*Request)
	if !ok {
		return storage.Result{Op: op, Err: fmt.Errorf("raft store: operation %d carries no request", op.ID)}
	}
	if s.failed != nil {
		return storage.Result{Op: op, Err: s.failed}
	}
	if err := r.validate(s.last); err != nil {
		return storage.Result{Op: op, Err: err}
	}
	if err := s.perform(r); err != nil {
		s.failed = fmt.Errorf("controller store %s failed and stays closed: %w", s.dir, err)
	}
	return storage.Result{Op: op, Err: s.failed}
}

func (s *File) perform(r *Request) error {
	switch r.Kind {
	case KindAppend:
		return s.append(r)
	case KindSave:
		return s.save(r)
	default:
		id := s.identity
		id.Cluster, id.RaftID = r.Identity.Cluster, r.Identity.RaftID
		if err := s.writeSmall("identity", kindIdentity, encodeIdentity(id)); err != nil {
			return err
		}
		s.identity = id
		return nil
	}
}

func (s *File) append(r *Request) error {
	if r.Snapshot != nil {
		if err := s.install(r); err != nil {
			return err
		}
	}
	if len(r.Entries) == 0 && (r.Hard == nil || *r.Hard == s.hard) {
		return nil
	}
	if s.size >= s.segment {
		if err := s.roll(header{hard: s.hard, prev: s.last, term: s.lastTerm}); err != nil {
			return err
		}
	}
	rec := sealRecord(s.identity.Store, kindWrite, s.seq, encodeWrite(r.Hard, r.Entries))
	if _, err := s.out.WriteAt(rec, s.size); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if err := s.out.Sync(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	s.size += int64(len(rec))
	s.seq++
	if r.Hard != nil {
		s.hard = *r.Hard
	}
	if n := len(r.Entries); n > 0 {
		s.last, s.lastTerm = r.Entries[n-1].Index, r.Entries[n-1].Term
		cur := &s.segments[len(s.segments)-1]
		cur.max = max(cur.max, s.last)
	}
	return nil
}

// install replaces the log by a snapshot from the leader. The snapshot is durable
// first: a crash before the new segment leaves an old log beside a newer
// snapshot, which recovery resolves in the snapshot's favour (reconcile).
func (s *File) install(r *Request) error {
	if err := s.writeSmall("snapshot", kindSnapshot, encodeSnapshot(*r.Snapshot)); err != nil {
		return err
	}
	hard := s.hard
	if r.Hard != nil {
		hard = *r.Hard
	}
	// The entries that Hard may already count as committed follow in their own record.
	hard.Commit = r.Snapshot.Index
	if err := s.roll(header{hard: hard, prev: r.Snapshot.Index, term: r.Snapshot.Term, reset: true}); err != nil {
		return err
	}
	s.hard, s.last, s.lastTerm, s.snapshot = hard, r.Snapshot.Index, r.Snapshot.Term, r.Snapshot.Index
	for i := range s.segments[:len(s.segments)-1] {
		s.segments[i].max = 0 // nothing in them belongs to the log any more
	}
	return s.compact(r.Snapshot.Index)
}

func (s *File) save(r *Request) error {
	if r.Snapshot.Index < s.snapshot {
		return nil // a newer one was installed meanwhile
	}
	if err := s.writeSmall("snapshot", kindSnapshot, encodeSnapshot(*r.Snapshot)); err != nil {
		return err
	}
	s.snapshot = r.Snapshot.Index
	return s.compact(r.CompactTo)
}

// compact removes whole segments whose entries all lie at or below index. The
// directory is synced after each, so that a crash leaves no gap in the middle.
func (s *File) compact(index uint64) error {
	for len(s.segments) > 1 && s.segments[0].max <= index {
		if err := s.fs.Remove(s.path(s.segments[0].name)); err != nil {
			return fmt.Errorf("compact: %w", err)
		}
		if err := s.fs.SyncDir(s.dir); err != nil {
			return fmt.Errorf("compact: %w", err)
		}
		s.segments = s.segments[1:]
	}
	return nil
}

// roll begins a new segment: its header is durable, and its name, before any
// entry is written to it.
func (s *File) roll(h header) error {
	name := segmentName(s.seq)
	f, err := s.fs.Create(s.path(name))
	if err != nil {
		return fmt.Errorf("new segment: %w", err)
	}
	rec := sealRecord(s.identity.Store, kindHeader, s.seq, h.encode())
	if _, err = f.WriteAt(rec, 0); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = s.fs.SyncDir(s.dir)
	}
	if err != nil {
		return fmt.Errorf("new segment %s: %w", name, errors.Join(err, f.Close()))
	}
	if s.out != nil {
		if err := s.out.Close(); err != nil {
			return fmt.Errorf("close segment: %w", errors.Join(err, f.Close()))
		}
	}
	s.out, s.size = f, int64(len(rec))
	s.seq++
	s.segments = append(s.segments, segmentInfo{name: name})
	return nil
}

func (s *File) writeSmall(name string, kind byte, payload []byte) error {
	return vfs.WriteAtomic(s.fs, s.path(name), sealRecord(s.identity.Store, kind, 0, payload))
}

func (s *File) path(name string) string {
	if s.dir == "" || s.dir == "." {
		return name
	}
	return s.dir + "/" + name
}

func segmentName(seq uint64) string { return fmt.Sprintf("log-%020d", seq) }

// Close releases the files and the lock.
func (s *File) Close() error {
	var err error
	if s.out != nil {
		err = s.out.Close()
	}
	return errors.Join(err, s.lock.Close())
}
