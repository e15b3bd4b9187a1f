package raftstore

import (
	"errors"
	"fmt"

	"lockstep/storage"
)

// Memory is what a memory store keeps beyond one life; tests reopen it to play a
// restart. It is not durable: a real process that ends loses its votes, which can
// elect two leaders. Only behind Options.UnsafeMemory.
type Memory struct {
	identity Identity
	hard     HardState
	snapshot *Snapshot
	entries  []Entry
}

// NewMemory returns an empty memory.
func NewMemory() *Memory { return &Memory{} }

// MemoryStore is the store over a Memory.
type MemoryStore struct{ m *Memory }

// OpenMemory opens a store over m. It fails unless o.UnsafeMemory is set.
func OpenMemory(m *Memory, o Options) (*MemoryStore, Recovered, error) {
	if !o.UnsafeMemory {
		return nil, Recovered{}, errors.New("controllerStore=memory forgets its votes at every restart, which can elect two leaders: use file or pebble, or set unsafeMemoryStore=true for a throw-away test")
	}
	if m.identity.Store == "" {
		m.identity = Identity{Store: o.NewStore, Node: o.Node}
	}
	if err := checkNode("in memory", m.identity, o); err != nil {
		return nil, Recovered{}, err
	}
	rec := m.recovered()
	if err := reconcile("memory store", &rec); err != nil {
		return nil, rec, err
	}
	m.entries, m.hard = append([]Entry(nil), rec.Entries...), rec.Hard
	return &MemoryStore{m}, rec, nil
}

func (m *Memory) recovered() Recovered {
	return Recovered{Identity: m.identity, Hard: m.hard, Snapshot: m.snapshot, Entries: append([]Entry(nil), m.entries...)}
}

// Do performs one request; see Store.
func (s *MemoryStore) Do(op storage.Op) storage.Result {
	r, ok := op.Raft.(*Request)
	if !ok {
		return storage.Result{Op: op, Err: fmt.Errorf("raft store: operation %d carries no request", op.ID)}
	}
	rec := s.m.recovered()
	if err := r.validate(rec.LastIndex()); err != nil {
		return storage.Result{Op: op, Err: err}
	}
	m := s.m
	switch r.Kind {
	case KindAppend:
		if r.Snapshot != nil {
			m.snapshot, m.entries = r.Snapshot, nil
		}
		m.entries = appendEntries(m.entries, r.Entries)
		if r.Hard != nil {
			m.hard = *r.Hard
		}
	case KindSave:
		if m.snapshot != nil && r.Snapshot.Index < m.snapshot.Index {
			break // a newer one was installed meanwhile
		}
		m.snapshot = r.Snapshot
		m.entries = follow(m.entries, *r.Snapshot)
	case KindJoin:
		m.identity.Cluster, m.identity.RaftID = r.Identity.Cluster, r.Identity.RaftID
	}
	return storage.Result{Op: op}
}

// Close does nothing: the Memory keeps the content.
func (s *MemoryStore) Close() error { return nil }
