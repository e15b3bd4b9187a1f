package raftstore

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"lockstep/storage"
)

// Keys of the Pebble store: "m/…" for the single values, "l/" and 8 bytes of index
// for entries. Values are laid out as in the file store.
var (
	keyIdentity = []byte("m/identity")
	keyHard     = []byte("m/hard")
	keySnapshot = []byte("m/snapshot")
	keyLogEnd   = []byte("l0") // just above every entry: '0' follows '/'
)

func entryKey(index uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte("l/"), index)
}

// Pebble is the store over a Pebble database. Each request is one synced batch, so
// it is atomic: no state between two requests can be seen.
type Pebble struct {
	db       *pebble.DB
	identity Identity
	last     uint64
	snapshot uint64
	failed   error
}

// OpenPebble opens or creates the store in dir. files nil means the operating
// system's; tests give a memory. Automatic compaction stays on: its files carry
// nothing the promise depends on.
func OpenPebble(dir string, files pebblevfs.FS, o Options) (*Pebble, Recovered, error) {
	if dir == "" {
		return nil, Recovered{}, errors.New("controllerStore=pebble needs a directory: set controllerStorePath")
	}
	db, err := pebble.Open(dir, pebbleOptions(files))
	if err != nil {
		return nil, Recovered{}, fmt.Errorf("controller store %s: %w; %s", dir, err, remedy)
	}
	s := &Pebble{db: db}
	rec, err := s.open(dir, o)
	if err != nil {
		return nil, Recovered{}, errors.Join(err, db.Close())
	}
	return s, rec, nil
}

// pebbleOptions keeps the database small: a controller writes kilobytes.
func pebbleOptions(files pebblevfs.FS) *pebble.Options {
	return &pebble.Options{
		FS:                 files,
		MemTableSize:       1 << 20,
		FormatMajorVersion: pebble.FormatNewest,
		Logger:             silentLogger{},
	}
}

// silentLogger drops Pebble's chatter; its failures arrive as errors.
type silentLogger struct{}

// Infof drops a message.
func (silentLogger) Infof(string, ...any) {}

// Errorf drops a message: the operation that failed returns the error.
func (silentLogger) Errorf(string, ...any) {}

// Fatalf is called when Pebble cannot go on; nothing may continue past it.
func (silentLogger) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (s *Pebble) open(dir string, o Options) (Recovered, error) {
	var rec Recovered
	found, err := s.get(keyIdentity, func(b []byte) (e error) { rec.Identity, e = decodeIdentity(b); return })
	if err != nil {
		return rec, fmt.Errorf("controller store %s: identity: %w; %s", dir, err, remedy)
	}
	if !found {
		return s.create(dir, o)
	}
	if err := checkNode(dir, rec.Identity, o); err != nil {
		return rec, err
	}
	if err := s.load(&rec); err != nil {
		return rec, fmt.Errorf("controller store %s: %w; %s", dir, err, remedy)
	}
	if err := reconcile(dir, &rec); err != nil {
		return rec, fmt.Errorf("%w: %w", errDamaged, err)
	}
	s.identity, s.last = rec.Identity, rec.LastIndex()
	if rec.Snapshot != nil {
		s.snapshot = rec.Snapshot.Index
	}
	return rec, nil
}

func (s *Pebble) create(dir string, o Options) (Recovered, error) {
	if o.NewStore == "" || o.Node == "" {
		return Recovered{}, fmt.Errorf("controller store %s is empty and no identity was given for a new one", dir)
	}
	s.identity = Identity{Store: o.NewStore, Node: o.Node}
	if err := s.db.Set(keyIdentity, encodeIdentity(s.identity), pebble.Sync); err != nil {
		return Recovered{}, fmt.Errorf("create controller store %s: %w", dir, err)
	}
	return Recovered{Identity: s.identity}, nil
}

// get decodes the value of key, whose bytes are only valid during decode.
func (s *Pebble) get(key []byte, decode func([]byte) error) (bool, error) {
	b, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, errors.Join(decode(append([]byte(nil), b...)), closer.Close())
}

func (s *Pebble) load(rec *Recovered) error {
	_, err := s.get(keyHard, func(b []byte) error {
		if len(b) != hardBytes {
			return fmt.Errorf("hard state of %d bytes", len(b))
		}
		rec.Hard = getHard(b)
		return nil
	})
	if err != nil {
		return err
	}
	_, err = s.get(keySnapshot, func(b []byte) error {
		snap, err := decodeSnapshot(b)
		rec.Snapshot = &snap
		return err
	})
	if err != nil {
		return err
	}
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: entryKey(0), UpperBound: keyLogEnd})
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		_, es, err := decodeWrite(append([]byte(nil), it.Value()...))
		if err != nil || len(es) != 1 {
			return errors.Join(fmt.Errorf("entry %x: %w", it.Key(), errDamaged), err, it.Close())
		}
		if n := len(rec.Entries); n > 0 && es[0].Index != rec.Entries[n-1].Index+1 {
			return errors.Join(fmt.Errorf("entry %d is missing", rec.Entries[n-1].Index+1), it.Close())
		}
		rec.Entries = append(rec.Entries, es[0])
	}
	return errors.Join(it.Error(), it.Close())
}

// Do performs one request; see Store.
func (s *Pebble) Do(op storage.Op) storage.Result {
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
	b := s.db.NewBatch()
	err := s.fill(b, r)
	if err == nil {
		err = b.Commit(pebble.Sync)
	}
	if err = errors.Join(err, b.Close()); err != nil {
		s.failed = fmt.Errorf("controller store failed and stays closed: %w", err)
		return storage.Result{Op: op, Err: s.failed}
	}
	s.done(r)
	return storage.Result{Op: op}
}

// fill puts the request's changes into b.
func (s *Pebble) fill(b *pebble.Batch, r *Request) error {
	var errs []error
	put := func(key, value []byte) { errs = append(errs, b.Set(key, value, nil)) }
	cut := func(from, to []byte) { errs = append(errs, b.DeleteRange(from, to, nil)) }
	switch r.Kind {
	case KindAppend:
		if r.Snapshot != nil {
			put(keySnapshot, encodeSnapshot(*r.Snapshot))
			cut(entryKey(0), keyLogEnd)
		}
		if len(r.Entries) > 0 {
			cut(entryKey(r.Entries[0].Index), keyLogEnd)
		}
		for _, e := range r.Entries {
			put(entryKey(e.Index), encodeWrite(nil, []Entry{e}))
		}
		if r.Hard != nil {
			put(keyHard, putHard(nil, *r.Hard))
		}
	case KindSave:
		if r.Snapshot.Index < s.snapshot {
			return nil // a newer one was installed meanwhile
		}
		put(keySnapshot, encodeSnapshot(*r.Snapshot))
		cut(entryKey(0), entryKey(r.CompactTo+1))
	case KindJoin:
		id := s.identity
		id.Cluster, id.RaftID = r.Identity.Cluster, r.Identity.RaftID
		put(keyIdentity, encodeIdentity(id))
	}
	return errors.Join(errs...)
}

// done follows a committed request in memory.
func (s *Pebble) done(r *Request) {
	switch r.Kind {
	case KindAppend:
		if r.Snapshot != nil {
			s.snapshot, s.last = r.Snapshot.Index, r.Snapshot.Index
		}
		if n := len(r.Entries); n > 0 {
			s.last = r.Entries[n-1].Index
		}
	case KindSave:
		s.snapshot = max(s.snapshot, r.Snapshot.Index)
	case KindJoin:
		s.identity.Cluster, s.identity.RaftID = r.Identity.Cluster, r.Identity.RaftID
	}
}

// Close closes the database.
func (s *Pebble) Close() error { return s.db.Close() }
