package scenarios

import (
	"fmt"
	"reflect"

	"lockstep/checker"
	"lockstep/internal/prng"
	"lockstep/storage"
	"lockstep/storage/raftstore"
	"lockstep/storage/vfs"
	"lockstep/storage/vfs/crashenum"
)

var _ = register(controllerStores)

// The clauses of C5.
const (
	clauseEveryPoint = "every write point"
	clauseSameState  = "the same state"
	clauseUsable     = "usable after recovery"
	clausePebble     = "pebble agrees"
	clauseMemory     = "memory agrees"
)

// controllerStores crashes a controller's store at every write.
var controllerStores = &Drill{
	ID: "C5", Name: "stores",
	Story: "One drawn program of raft appends, votes, snapshots and installs on the file store, stopped before each of its file operations; what any crash there leaves recovers to the state before or after the request. The same program on Pebble and in memory, reopened after every request, gives the same states.",
	Assertions: []Assertion{
		{Name: clauseEveryPoint, Text: "whatever a crash at a file operation leaves opens, and holds every request that was answered"},
		{Name: clauseSameState, Text: "the recovered state is exactly the one before or after the request under way, or a prefix of its entries"},
		{Name: clauseUsable, Text: "the recovered store takes the next request and holds it"},
		{Name: clausePebble, Text: "Pebble, opened again after each request and after a crash that keeps only what was synced, holds the same state"},
		{Name: clauseMemory, Text: "memory, opened again after each request, holds the same state"},
	},
	Pure: func(rnd *prng.Source) (int, []checker.Finding) {
		c := &storeCheck{program: drawProgram(rnd, 14), options: raftstore.Options{Node: "n0", NewStore: "00112233445566778899aabbccddeeff",
			SegmentBytes: pick(rnd, int64(512), int64(1024), int64(4096)), UnsafeMemory: true}}
		c.file(rnd.Uint64())
		c.reopen(clausePebble, raftstore.NewPebbleDisk())
		memory := raftstore.NewMemory()
		c.others(clauseMemory, func() (raftstore.Store, raftstore.Recovered, error) {
			return openedStore(raftstore.OpenMemory(memory, c.options))
		})
		return c.checked, c.found
	},
}

func openedStore[S raftstore.Store](s S, rec raftstore.Recovered, err error) (raftstore.Store, raftstore.Recovered, error) {
	return s, rec, err
}

// storeState is what a store has to hold.
type storeState struct {
	Cluster  string
	RaftID   uint64
	Hard     raftstore.HardState
	Snapshot uint64 // index, 0 none
	Entries  []raftstore.Entry
}

// last is the index of the newest entry or snapshot.
func (s *storeState) last() uint64 {
	if n := len(s.Entries); n > 0 {
		return s.Entries[n-1].Index
	}
	return s.Snapshot
}

// with is the state after a request.
func (s storeState) with(r *raftstore.Request) storeState {
	switch r.Kind {
	case raftstore.KindJoin:
		s.Cluster, s.RaftID = r.Identity.Cluster, r.Identity.RaftID
	case raftstore.KindSave:
		s.Snapshot = r.Snapshot.Index
		s.Entries = entriesAbove(s.Entries, s.Snapshot)
	case raftstore.KindAppend:
		if r.Snapshot != nil {
			s.Snapshot, s.Entries = r.Snapshot.Index, nil
			s.Hard.Commit = max(s.Hard.Commit, r.Snapshot.Index)
			s.Hard.Term = max(s.Hard.Term, r.Snapshot.Term)
		}
		if len(r.Entries) > 0 {
			s.Entries = append(entriesBelow(s.Entries, r.Entries[0].Index), r.Entries...)
		}
		if r.Hard != nil {
			s.Hard = *r.Hard
		}
	}
	return s
}

func entriesAbove(es []raftstore.Entry, index uint64) (out []raftstore.Entry) {
	for _, e := range es {
		if e.Index > index {
			out = append(out, e)
		}
	}
	return out
}

func entriesBelow(es []raftstore.Entry, index uint64) (out []raftstore.Entry) {
	for _, e := range es {
		if e.Index < index {
			out = append(out, e)
		}
	}
	return out
}

// stateOf is what a store recovered.
func stateOf(r raftstore.Recovered) storeState {
	s := storeState{Cluster: r.Identity.Cluster, RaftID: r.Identity.RaftID, Hard: r.Hard}
	if r.Snapshot != nil {
		s.Snapshot = r.Snapshot.Index
	}
	if len(r.Entries) > 0 {
		s.Entries = r.Entries
	}
	return s
}

// during lists the states a crash inside the request may leave.
func (s storeState) during(r *raftstore.Request) []storeState {
	out := []storeState{s, s.with(r)}
	if r.Kind != raftstore.KindAppend {
		return out
	}
	if r.Snapshot != nil { // the snapshot is durable first, entries and vote follow
		out = append(out, s.with(&raftstore.Request{Kind: r.Kind, Snapshot: r.Snapshot}))
	}
	for n := 1; n < len(r.Entries); n++ {
		out = append(out, s.with(&raftstore.Request{Kind: r.Kind, Snapshot: r.Snapshot, Entries: r.Entries[:n]}))
	}
	return out
}

func oneOf(s storeState, list []storeState) bool {
	for i := range list {
		if reflect.DeepEqual(s, list[i]) {
			return true
		}
	}
	return false
}

// drawProgram makes a run of requests that a raft member could make.
func drawProgram(rnd *prng.Source, n int) []*raftstore.Request {
	out := []*raftstore.Request{
		{Kind: raftstore.KindJoin, Identity: raftstore.Identity{Cluster: "c1", RaftID: 1}},
		{Kind: raftstore.KindAppend, Hard: &raftstore.HardState{Term: 1, Commit: 1}, Snapshot: drawSnapshot(rnd, 1, 1)},
	}
	s := storeState{}
	for _, r := range out {
		s = s.with(r)
	}
	for len(out) < n {
		r := drawRequest(rnd, &s)
		out, s = append(out, r), s.with(r)
	}
	return out
}

func drawSnapshot(rnd *prng.Source, index, term uint64) *raftstore.Snapshot {
	return &raftstore.Snapshot{Index: index, Term: term, Conf: raftstore.ConfState{Voters: []uint64{1, 2, 3}}, Data: drawBytes(rnd, 300)}
}

func drawBytes(rnd *prng.Source, most int64) []byte {
	b := make([]byte, rnd.Between(1, most))
	for i := range b {
		b[i] = byte(rnd.Uint64())
	}
	return b
}

// drawRequest draws what a member does next: append, append in a newer term over an
// uncommitted tail, vote, snapshot, install.
func drawRequest(rnd *prng.Source, s *storeState) *raftstore.Request {
	hard := s.Hard
	switch what := rnd.Intn(10); {
	case what == 0 && s.Hard.Commit > s.Snapshot:
		index := uint64(rnd.Between(int64(s.Snapshot)+1, int64(s.Hard.Commit)))
		term := s.Hard.Term
		for _, e := range s.Entries {
			if e.Index == index {
				term = e.Term
			}
		}
		return &raftstore.Request{Kind: raftstore.KindSave, Snapshot: drawSnapshot(rnd, index, term), CompactTo: index}
	case what == 1:
		hard.Term++
		hard.Vote = uint64(rnd.Between(1, 3))
		return &raftstore.Request{Kind: raftstore.KindAppend, Hard: &hard}
	case what == 2:
		index := s.last() + uint64(rnd.Between(1, 5))
		hard.Term++
		hard.Vote, hard.Commit = 0, index
		return &raftstore.Request{Kind: raftstore.KindAppend, Hard: &hard, Snapshot: drawSnapshot(rnd, index, hard.Term)}
	}
	first := s.last() + 1
	if s.last() > s.Hard.Commit && rnd.Chance(1, 3) { // another leader's entries over an uncommitted tail
		first = uint64(rnd.Between(int64(s.Hard.Commit)+1, int64(s.last())))
		hard.Term++
		hard.Vote = 0
	}
	r := &raftstore.Request{Kind: raftstore.KindAppend}
	for i := range rnd.Between(1, 4) {
		r.Entries = append(r.Entries, raftstore.Entry{Index: first + uint64(i), Term: hard.Term, Data: drawBytes(rnd, 200)})
	}
	if hard.Term != s.Hard.Term || rnd.Chance(1, 2) {
		hard.Commit = uint64(rnd.Between(int64(hard.Commit), int64(r.Entries[len(r.Entries)-1].Index)))
		r.Hard = &hard
	}
	return r
}

// storeCheck is one run of C5.
type storeCheck struct {
	program []*raftstore.Request
	options raftstore.Options
	checked int
	found   []checker.Finding
	done    int // requests answered in the present run of the program
}

func (c *storeCheck) fail(name, format string, args ...any) {
	if len(c.found) < 10 {
		c.found = append(c.found, checker.Finding{Judge: "store", Name: name, Text: fmt.Sprintf(format, args...)})
	}
}

// after is the state once n requests of the program were answered.
func (c *storeCheck) after(n int) (s storeState) {
	for _, r := range c.program[:n] {
		s = s.with(r)
	}
	return s
}

// file enumerates crashes of the file store.
func (c *storeCheck) file(seed uint64) {
	rep, err := crashenum.Run(crashenum.Config{Program: c.run, Check: c.recovered, PerPoint: 32, Seed: seed, Torn: true})
	c.checked += rep.States
	if err != nil && len(c.found) == 0 {
		c.fail(clauseEveryPoint, "%v", err)
	}
}

// run is the program; each request that is answered counts.
func (c *storeCheck) run(fsys vfs.FS) error {
	c.done = 0
	s, _, err := raftstore.OpenFile(fsys, "controller", c.options)
	if err != nil {
		return err
	}
	for _, r := range c.program {
		if res := s.Do(storage.Op{Kind: storage.OpRaft, Raft: r}); res.Err != nil {
			return res.Err
		}
		c.done++
	}
	return s.Close()
}

// recovered opens what a crash left.
func (c *storeCheck) recovered(st crashenum.State) error {
	s, rec, err := raftstore.OpenFile(st.FS, "controller", c.options)
	if err != nil {
		return fmt.Errorf("after %d requests: %w", c.done, err)
	}
	allowed := []storeState{c.after(c.done)}
	if c.done < len(c.program) {
		allowed = allowed[0].during(c.program[c.done])
	}
	got := stateOf(rec)
	if !oneOf(got, allowed) {
		c.fail(clauseSameState, "after %d requests and a crash: %+v, want one of %+v", c.done, got, allowed)
		return fmt.Errorf("after %d requests: an impossible state", c.done)
	}
	next := &raftstore.Request{Kind: raftstore.KindAppend, Entries: []raftstore.Entry{{Index: got.last() + 1, Term: got.Hard.Term + 1, Data: []byte("next")}},
		Hard: &raftstore.HardState{Term: got.Hard.Term + 1, Commit: got.Hard.Commit}}
	if res := s.Do(storage.Op{Kind: storage.OpRaft, Raft: next}); res.Err != nil {
		c.fail(clauseUsable, "after %d requests and a crash: %v", c.done, res.Err)
		return res.Err
	}
	if err := s.Close(); err != nil {
		return err
	}
	_, rec, err = raftstore.OpenFile(st.FS, "controller", c.options)
	if err != nil || !reflect.DeepEqual(stateOf(rec), got.with(next)) {
		c.fail(clauseUsable, "after %d requests, a crash and one more: %+v, %v", c.done, stateOf(rec), err)
	}
	return err
}

// reopen runs the program on Pebble and crashes it after each request.
func (c *storeCheck) reopen(name string, disk raftstore.PebbleDisk) {
	s, _, err := disk.Open(c.options)
	for n := 0; err == nil && n < len(c.program); n++ {
		if err = s.Do(storage.Op{Kind: storage.OpRaft, Raft: c.program[n]}).Err; err != nil {
			break
		}
		crashed := disk.Crash()
		if err = s.Close(); err != nil {
			break
		}
		disk = crashed
		var rec raftstore.Recovered
		if s, rec, err = disk.Open(c.options); err == nil {
			c.compare(name, n+1, rec)
		}
	}
	if err != nil {
		c.fail(name, "%v", err)
		return
	}
	if err := s.Close(); err != nil {
		c.fail(name, "%v", err)
	}
}

// others runs the program on a store that is opened again after each request.
func (c *storeCheck) others(name string, open func() (raftstore.Store, raftstore.Recovered, error)) {
	for n := range c.program {
		s, _, err := open()
		if err == nil {
			err = s.Do(storage.Op{Kind: storage.OpRaft, Raft: c.program[n]}).Err
		}
		var rec raftstore.Recovered
		if err == nil {
			_, rec, err = open()
		}
		if err != nil {
			c.fail(name, "request %d: %v", n, err)
			return
		}
		c.compare(name, n+1, rec)
	}
}

func (c *storeCheck) compare(name string, n int, rec raftstore.Recovered) {
	c.checked++
	if got, want := stateOf(rec), c.after(n); !reflect.DeepEqual(got, want) {
		c.fail(name, "after %d requests it holds %+v, want %+v", n, got, want)
	}
}
