package raftstore

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"lockstep/storage/vfs"
)

// defaultSegmentBytes keeps recovery, which rewrites the last segment, short.
const defaultSegmentBytes = 1 << 20

// OpenFile opens or creates the file store in dir of fsys. It accepts every state
// a crash of this store can leave, and refuses any other with a message that
// names the file and the remedy, changing nothing.
func OpenFile(fsys vfs.FS, dir string, o Options) (*File, Recovered, error) {
	s := &File{fs: fsys, dir: dir, segment: o.SegmentBytes}
	if s.segment == 0 {
		s.segment = defaultSegmentBytes
	}
	if s.segment < 512 || s.segment > 1<<30 {
		return nil, Recovered{}, fmt.Errorf("controller store segment size %d: use 512 bytes to 1 GiB", s.segment)
	}
	if err := vfs.MkdirAllSync(fsys, dir); err != nil {
		return nil, Recovered{}, fmt.Errorf("controller store %s: %w", dir, err)
	}
	lock, err := fsys.Lock(s.path("lock"))
	if err != nil {
		return nil, Recovered{}, fmt.Errorf("controller store %s is in use, one process may own it: %w", dir, err)
	}
	s.lock = lock
	rec, err := s.open(o)
	if err != nil {
		return nil, Recovered{}, errors.Join(err, s.Close())
	}
	return s, rec, nil
}

func (s *File) open(o Options) (Recovered, error) {
	names, err := s.fs.List(s.dir)
	if err != nil {
		return Recovered{}, fmt.Errorf("controller store %s: %w", s.dir, err)
	}
	logs, err := s.survey(names)
	if err != nil {
		return Recovered{}, err
	}
	known, err := vfs.Exists(s.fs, s.path("identity"))
	if err != nil {
		return Recovered{}, fmt.Errorf("controller store %s: %w", s.dir, err)
	}
	if !known {
		return s.create(o, len(logs))
	}
	return s.recover(o, logs)
}

// survey sorts the names of the directory and refuses one that holds something
// else: another store, a Java controller's directory, a user's files.
func (s *File) survey(names []string) (logs []string, err error) {
	for _, n := range names {
		switch {
		case strings.HasPrefix(n, "log-") && len(n) == 24:
			logs = append(logs, n)
		case n == "identity", n == "snapshot", n == "lock", vfs.IsAside(n):
		default:
			return nil, fmt.Errorf("controller store %s holds %q, which this store did not write: choose an empty directory (a Pebble or Java controller's directory cannot be opened as files)", s.dir, n)
		}
	}
	return logs, nil
}

// create makes an empty store. The identity is written last: until then the
// directory counts as new, whatever a crash left of the first segment.
func (s *File) create(o Options, logs int) (Recovered, error) {
	ok, err := vfs.Exists(s.fs, s.path("snapshot"))
	if err != nil || ok || logs > 1 {
		return Recovered{}, fmt.Errorf("controller store %s: the identity file is missing but a log or snapshot is there; %s: %w", s.dir, remedy, errors.Join(err, errDamaged))
	}
	if o.NewStore == "" || o.Node == "" {
		return Recovered{}, fmt.Errorf("controller store %s is empty and no identity was given for a new one", s.dir)
	}
	s.identity = Identity{Store: o.NewStore, Node: o.Node}
	s.seq = 1
	if err := s.roll(header{}); err != nil {
		return Recovered{}, fmt.Errorf("create controller store %s: %w", s.dir, err)
	}
	if err := s.writeSmall("identity", kindIdentity, encodeIdentity(s.identity)); err != nil {
		return Recovered{}, fmt.Errorf("create controller store %s: %w", s.dir, err)
	}
	return Recovered{Identity: s.identity}, nil
}

// errDamaged marks stores that no crash can have left so.
var errDamaged = errors.New("controller store is damaged")

// damaged names the file, what is wrong and the remedy.
func (s *File) damaged(name, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s; %s", errDamaged, s.path(name), fmt.Sprintf(format, args...), remedy)
}

func (s *File) recover(o Options, logs []string) (Recovered, error) {
	var rec Recovered
	if err := s.readIdentity(&rec); err != nil {
		return rec, err
	}
	if err := checkNode(s.dir, rec.Identity, o); err != nil {
		return rec, err
	}
	s.identity = rec.Identity
	if err := s.readSnapshot(&rec); err != nil {
		return rec, err
	}
	if err := s.replay(&rec, logs); err != nil {
		return rec, err
	}
	if err := reconcile(s.dir, &rec); err != nil {
		return rec, fmt.Errorf("%w: %w", errDamaged, err)
	}
	s.hard, s.last = rec.Hard, rec.LastIndex()
	if rec.Snapshot != nil {
		s.snapshot, s.lastTerm = rec.Snapshot.Index, rec.Snapshot.Term
	}
	if n := len(rec.Entries); n > 0 {
		s.lastTerm = rec.Entries[n-1].Term
	}
	// A rename or removal seen in the cache may not be durable yet.
	if err := s.fs.SyncDir(s.dir); err != nil {
		return rec, fmt.Errorf("controller store %s: %w", s.dir, err)
	}
	return rec, s.restart()
}

// restart begins a fresh segment when the log on disk is behind the snapshot:
// later entries would otherwise look like a gap to the next recovery.
func (s *File) restart() error {
	if s.last != s.snapshot || s.last == 0 {
		return nil
	}
	err := s.roll(header{hard: s.hard, prev: s.last, term: s.lastTerm, reset: true})
	if err != nil {
		return fmt.Errorf("controller store %s: %w", s.dir, err)
	}
	for i := range s.segments[:len(s.segments)-1] {
		s.segments[i].max = 0
	}
	return s.compact(s.last)
}

// readIdentity reads the identity before the salt is known: the record carries it.
func (s *File) readIdentity(rec *Recovered) error {
	b, err := vfs.ReadFile(s.fs, s.path("identity"))
	if err != nil {
		return fmt.Errorf("controller store %s: %w", s.dir, err)
	}
	if len(b) < recordHead {
		return s.damaged("identity", "%d bytes are no identity", len(b))
	}
	id, err := decodeIdentity(b[recordHead:])
	if err != nil {
		return s.damaged("identity", "%v", err)
	}
	kind, _, payload, ok := openRecord(id.Store, b)
	if !ok || kind != kindIdentity || len(payload) != len(b)-recordHead {
		return s.damaged("identity", "the checksum does not match")
	}
	rec.Identity = id
	return nil
}

func (s *File) readSnapshot(rec *Recovered) error {
	ok, err := vfs.Exists(s.fs, s.path("snapshot"))
	if err != nil || !ok {
		return err
	}
	b, err := vfs.ReadFile(s.fs, s.path("snapshot"))
	if err != nil {
		return fmt.Errorf("controller store %s: %w", s.dir, err)
	}
	kind, _, payload, ok := openRecord(s.identity.Store, b)
	if !ok || kind != kindSnapshot || len(payload) != len(b)-recordHead {
		return s.damaged("snapshot", "the checksum does not match (or it is another store's)")
	}
	snap, err := decodeSnapshot(payload)
	if err != nil {
		return s.damaged("snapshot", "%v", err)
	}
	rec.Snapshot = &snap
	return nil
}

// firstSequence is the sequence in a segment's name.
func firstSequence(name string) (uint64, error) {
	return strconv.ParseUint(strings.TrimPrefix(name, "log-"), 10, 64)
}
