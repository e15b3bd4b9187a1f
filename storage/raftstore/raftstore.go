// Package raftstore keeps what a controller must not forget: its identity, its
// raft vote and term, its raft log, and the newest snapshot of the replicated
// state. Three stores hold the same promise and pass one conformance suite:
// File (deterministic over vfs.FS, the default and the one the simulator
// sweeps), Pebble (for real hosts) and Memory (loses everything; unsafe).
//
// The promise: when Do returns a result without error, what was asked is durable
// and any crash afterwards recovers to a state that includes it; a crash during
// Do recovers to the state before or after, or to a prefix of an append's
// entries. After an error of the device the store is finished: every later Do
// fails with the same error, because a write that was not confirmed cannot be
// confirmed by trying again (DESIGN section 4). A request that is refused for what
// it asks changes nothing.
//
// The package knows no raft library: a controller translates.
package raftstore

import (
	"fmt"

	"lockstep/internal/ha"
	"lockstep/storage"
	"lockstep/storage/vfs"
)

// Limits of what one store accepts. A snapshot has to fit into one frame
// between controllers (16 MiB) with room for its header.
const (
	// MaxEntryBytes bounds the data of one log entry.
	MaxEntryBytes = 1 << 20
	// MaxSnapshotBytes bounds the data of a snapshot.
	MaxSnapshotBytes = 15 << 20
	// MaxAppendBytes bounds the data of all entries of one request.
	MaxAppendBytes = 8 << 20
)

// Entry is one raft log entry.
type Entry struct {
	Index uint64 // position in the log, from 1
	Term  uint64 // leader term that wrote it
	Type  uint8  // 0 command, 1 and 2 membership changes (as the raft library numbers them)
	Data  []byte // immutable
}

// HardState is what a raft member must remember across restarts before it
// answers anybody.
type HardState struct {
	Term   uint64
	Vote   uint64 // member voted for in Term, 0 none
	Commit uint64 // highest index known to be committed
}

// ConfState is a committed membership: raft ids, ascending.
type ConfState struct {
	Voters         []uint64
	Learners       []uint64
	VotersOutgoing []uint64 // while a joint change is under way
	LearnersNext   []uint64
	AutoLeave      bool
}

// Snapshot is the replicated state at an index of the log.
type Snapshot struct {
	Index uint64 // last entry the snapshot covers
	Term  uint64 // of that entry
	Conf  ConfState
	Data  []byte // immutable
}

// Identity says which life of which controller a store holds. Store and Node are
// fixed when the store is created; Cluster and RaftID once it joins a cluster.
type Identity struct {
	Store   ha.StoreID // drawn when the store was created; a wiped store gets another (rule P17)
	Node    string     // configured id of the controller, for example "n0"
	Cluster string     // cluster the store took part in, "" before it joined one
	RaftID  uint64     // its member number there, 0 before
}

// Kind says what a Request does.
type Kind uint8

// The requests. Fields a request uses are named beside it.
const (
	// KindAppend: Snapshot when not nil is installed and replaces the whole log; then
	// Entries are appended, the first cutting off whatever is at or above its index;
	// Hard when not nil replaces the hard state. All durable together or a prefix.
	KindAppend Kind = 1 + iota
	// KindSave: Snapshot, taken by this node at an index its log holds or has
	// compacted, becomes the newest; entries at or below CompactTo may go.
	KindSave
	// KindJoin: Identity.Cluster and Identity.RaftID are recorded.
	KindJoin
)

// Request is the work of one storage.OpRaft operation (storage.Op.Raft).
// Everything in it is immutable until the result.
type Request struct {
	Kind      Kind
	Hard      *HardState
	Entries   []Entry
	Snapshot  *Snapshot
	CompactTo uint64
	Identity  Identity
}

// Recovered is what a store held when it was opened.
type Recovered struct {
	Identity Identity
	Hard     HardState
	Snapshot *Snapshot // nil when there is none
	Entries  []Entry   // contiguous, the first follows the snapshot
	// TornBytes is the size of an incomplete last write that was cut.
	TornBytes int64
}

// Empty reports a store that never took part in a cluster: it holds no vote, no
// log and no state.
func (r Recovered) Empty() bool {
	return r.Identity.Cluster == "" && r.Hard == HardState{} && r.Snapshot == nil && len(r.Entries) == 0
}

// LastIndex is the index of the last entry, or of the snapshot.
func (r Recovered) LastIndex() uint64 {
	if n := len(r.Entries); n > 0 {
		return r.Entries[n-1].Index
	}
	if r.Snapshot != nil {
		return r.Snapshot.Index
	}
	return 0
}

// Store performs a controller's storage operations. One goroutine calls Do.
type Store interface {
	// Do performs one OpRaft operation whose Raft field is a *Request. It blocks until
	// the request is durable.
	Do(op storage.Op) storage.Result
	// Close releases the store without any further promise.
	Close() error
}

// Options say how to open a store.
type Options struct {
	// Node is the controller's configured id. A store made by another refuses.
	Node string
	// NewStore is the identity a store gets if it is created now. The caller draws it;
	// it must never be used twice.
	NewStore ha.StoreID
	// SegmentBytes is the size at which the file store begins a new log segment;
	// 0 means 1 MiB. Range 512 B – 1 GiB.
	SegmentBytes int64
	// UnsafeMemory must be set to open the memory store, which forgets everything
	// when the process ends and with it every vote.
	UnsafeMemory bool
	// PebbleDir is the directory of a Pebble store on the operating system's files.
	PebbleDir string
}

// Names of the stores as configuration spells them (controllerStore).
const (
	StoreFile   = "file"
	StorePebble = "pebble"
	StoreMemory = "memory"
)

// Open opens or creates the store named by kind; "" means file. The file store
// lives in dir of fsys, Pebble in o.PebbleDir.
func Open(kind string, fsys vfs.FS, dir string, o Options) (Store, Recovered, error) {
	switch kind {
	case StoreFile, "":
		return wrap(OpenFile(fsys, dir, o))
	case StorePebble:
		return wrap(OpenPebble(o.PebbleDir, nil, o))
	case StoreMemory:
		return wrap(OpenMemory(NewMemory(), o))
	}
	return nil, Recovered{}, fmt.Errorf("controllerStore %q is unknown: use %s, %s or %s", kind, StoreFile, StorePebble, StoreMemory)
}

func wrap[S Store](s S, rec Recovered, err error) (Store, Recovered, error) {
	if err != nil {
		return nil, rec, err
	}
	return s, rec, nil
}

// checkNode refuses a store that another controller made.
func checkNode(where string, id Identity, o Options) error {
	if id.Node == o.Node {
		return nil
	}
	return fmt.Errorf("controller store %s belongs to controller %q, this is %q: point controllerStorePath to this controller's own directory", where, id.Node, o.Node)
}

// validate refuses requests that no caller may make; they would corrupt the log.
func (r *Request) validate(last uint64) error {
	if s := r.Snapshot; s != nil && len(s.Data) > MaxSnapshotBytes {
		return fmt.Errorf("snapshot at %d has %d bytes, the limit is %d", s.Index, len(s.Data), MaxSnapshotBytes)
	}
	switch r.Kind {
	case KindAppend:
		if r.Snapshot != nil {
			last = r.Snapshot.Index
		}
		return validateEntries(r.Entries, last)
	case KindSave:
		if r.Snapshot == nil || r.CompactTo > r.Snapshot.Index || r.Snapshot.Index > last {
			return fmt.Errorf("save snapshot: it must lie within the log (end %d) and cover the compaction to %d", last, r.CompactTo)
		}
	case KindJoin:
		if r.Identity.Cluster == "" || r.Identity.RaftID == 0 {
			return fmt.Errorf("join: cluster %q and raft id %d must be set", r.Identity.Cluster, r.Identity.RaftID)
		}
	default:
		return fmt.Errorf("raft store request of unknown kind %d", r.Kind)
	}
	return nil
}

func validateEntries(es []Entry, last uint64) error {
	total := 0
	for i, e := range es {
		total += len(e.Data)
		switch {
		case i == 0 && (e.Index == 0 || e.Index > last+1):
			return fmt.Errorf("append at %d would leave a gap: the log ends at %d", e.Index, last)
		case i > 0 && (e.Index != es[i-1].Index+1 || e.Term < es[i-1].Term):
			return fmt.Errorf("entry %d (term %d) does not follow entry %d (term %d)", e.Index, e.Term, es[i-1].Index, es[i-1].Term)
		case len(e.Data) > MaxEntryBytes:
			return fmt.Errorf("entry %d has %d bytes, the limit is %d", e.Index, len(e.Data), MaxEntryBytes)
		}
	}
	if total > MaxAppendBytes {
		return fmt.Errorf("append of %d bytes, the limit is %d", total, MaxAppendBytes)
	}
	return nil
}
