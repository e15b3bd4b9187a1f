package raftstore

import (
	"fmt"
	"strings"
	"testing"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"lockstep/storage"
	"lockstep/storage/vfs"
)

var testOptions = Options{Node: "n0", NewStore: "00112233445566778899aabbccddeeff", SegmentBytes: 512, UnsafeMemory: true}

// backend opens one kind of store again and again on the same ground; a reopen
// plays a restart of the process.
type backend struct {
	name string
	open func(Options) (Store, Recovered, error)
}

func backends() []backend {
	mem, disk, pfs := NewMemory(), vfs.NewMem(vfs.MemOptions{}), pebblevfs.NewMem()
	return []backend{
		{StoreMemory, func(o Options) (Store, Recovered, error) { return wrap(OpenMemory(mem, o)) }},
		{StoreFile, func(o Options) (Store, Recovered, error) { return wrap(OpenFile(disk, "ctl", o)) }},
		{StorePebble, func(o Options) (Store, Recovered, error) { return wrap(OpenPebble("ctl", pfs, o)) }},
	}
}

// same compares what was recovered; nil and empty lists are equal.
func same(a, b Recovered) string {
	a.TornBytes, b.TornBytes = 0, 0
	return cmp.Diff(a, b, cmpopts.EquateEmpty())
}

func entries(from, n int, term uint64) []Entry {
	var es []Entry
	for i := range n {
		es = append(es, Entry{Index: uint64(from + i), Term: term, Data: []byte(fmt.Sprintf("entry %d of term %d", from+i, term))})
	}
	return es
}

func snapshotAt(index, term uint64) *Snapshot {
	return &Snapshot{Index: index, Term: term, Conf: ConfState{Voters: []uint64{1, 2, 3}, Learners: []uint64{4}}, Data: []byte(fmt.Sprintf("state at %d", index))}
}

func hard(term, vote, commit uint64) *HardState { return &HardState{term, vote, commit} }

// story is a life of a controller's log: appends, a cut tail, own snapshots with
// compaction, an installed snapshot over a longer log, and on.
func story() []*Request {
	return []*Request{
		{Kind: KindJoin, Identity: Identity{Cluster: "c", RaftID: 3}},
		{Kind: KindAppend, Hard: hard(1, 2, 0)},
		{Kind: KindAppend, Snapshot: snapshotAt(1, 1), Hard: hard(1, 2, 1)},
		{Kind: KindAppend, Entries: entries(2, 4, 1), Hard: hard(1, 2, 3)},
		{Kind: KindAppend, Entries: entries(6, 10, 1)},
		{Kind: KindAppend, Entries: entries(10, 3, 2), Hard: hard(2, 1, 9)}, // cuts 10–15
		{Kind: KindSave, Snapshot: snapshotAt(8, 1), CompactTo: 6},
		{Kind: KindAppend, Entries: entries(13, 8, 2), Hard: hard(2, 1, 12)},
		{Kind: KindSave, Snapshot: snapshotAt(12, 2), CompactTo: 12},
		{Kind: KindAppend, Entries: entries(21, 20, 2), Hard: hard(2, 1, 18)},
		{Kind: KindAppend, Snapshot: snapshotAt(30, 4), Entries: entries(31, 2, 4), Hard: hard(4, 0, 31)},
		{Kind: KindSave, Snapshot: snapshotAt(25, 2), CompactTo: 25}, // begun before the leader's came
		{Kind: KindAppend, Entries: entries(33, 12, 4), Hard: hard(4, 0, 40)},
		{Kind: KindSave, Snapshot: snapshotAt(44, 4), CompactTo: 44},
	}
}

func do(t *testing.T, s Store, r *Request) {
	t.Helper()
	if res := s.Do(storage.Op{Kind: storage.OpRaft, Raft: r}); res.Err != nil {
		t.Fatalf("%+v: %v", r, res.Err)
	}
}

// states returns what a correct store holds before the story and after each request.
func states(t *testing.T, rs []*Request) []Recovered {
	m := NewMemory()
	var out []Recovered
	for i := 0; ; i++ {
		s, rec, err := OpenMemory(m, testOptions)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, rec)
		if i == len(rs) {
			return out
		}
		do(t, s, rs[i])
	}
}

// TestStory: every store holds the same after every request, with a restart after
// each (twice, because a restart without traffic must also be harmless) and with none.
func TestStory(t *testing.T) {
	want := states(t, story())
	for _, restart := range []bool{false, true} {
		for _, b := range backends() {
			t.Run(fmt.Sprintf("%s/restart=%v", b.name, restart), func(t *testing.T) {
				s, _, err := b.open(testOptions)
				if err != nil {
					t.Fatal(err)
				}
				for i, r := range story() {
					do(t, s, r)
					if !restart && i < len(story())-1 {
						continue
					}
					for range 2 {
						if err := s.Close(); err != nil {
							t.Fatal(err)
						}
						var rec Recovered
						if s, rec, err = b.open(testOptions); err != nil {
							t.Fatalf("reopen after request %d: %v", i, err)
						}
						if d := same(rec, want[i+1]); d != "" {
							t.Fatalf("after request %d (%+v):\n%s", i, r, d)
						}
					}
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// TestRandomStories: random valid requests and restarts give the same content in all
// stores.
func TestRandomStories(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		bs := backends()
		if !rapid.Bool().Draw(rt, "pebble") {
			bs = bs[:2] // Pebble is slow; a share of the runs has it
		}
		stores := make([]Store, len(bs))
		recs := make([]Recovered, len(bs))
		open := func() {
			for i, b := range bs {
				var err error
				if stores[i], recs[i], err = b.open(testOptions); err != nil {
					rt.Fatalf("%s: %v", b.name, err)
				}
				if d := same(recs[i], recs[0]); d != "" {
					rt.Fatalf("%s differs from %s:\n%s", b.name, bs[0].name, d)
				}
			}
		}
		open()
		term := uint64(1)
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			r := drawRequest(rt, recs[0], &term)
			for i := range stores {
				if res := stores[i].Do(storage.Op{Raft: r}); res.Err != nil {
					rt.Fatalf("%s: %+v: %v", bs[i].name, r, res.Err)
				}
			}
			m, ok := stores[0].(*MemoryStore)
			if !ok {
				rt.Fatal("the model is not the memory store")
			}
			recs[0] = m.m.recovered()
			if rapid.IntRange(0, 3).Draw(rt, "restart") == 0 {
				for _, s := range stores {
					if err := s.Close(); err != nil {
						rt.Fatal(err)
					}
				}
				open()
			}
		}
	})
}

func drawRequest(rt *rapid.T, now Recovered, term *uint64) *Request {
	last := now.LastIndex()
	base := uint64(0)
	if now.Snapshot != nil {
		base = now.Snapshot.Index
	}
	switch rapid.IntRange(0, 5).Draw(rt, "kind") {
	case 0:
		*term++
		at := now.Hard.Commit + rapid.Uint64Range(1, 9).Draw(rt, "snapshot")
		return &Request{Kind: KindAppend, Snapshot: snapshotAt(at, *term), Hard: hard(*term, 0, at)}
	case 1:
		if last > base {
			at := rapid.Uint64Range(base+1, last).Draw(rt, "save")
			return &Request{Kind: KindSave, Snapshot: snapshotAt(at, now.Entries[at-base-1].Term), CompactTo: rapid.Uint64Range(0, at).Draw(rt, "compact")}
		}
	case 2:
		*term++
	}
	from := rapid.Uint64Range(max(now.Hard.Commit, base)+1, last+1).Draw(rt, "from")
	es := entries(int(from), rapid.IntRange(0, 6).Draw(rt, "n"), *term)
	end := last
	if len(es) > 0 {
		end = es[len(es)-1].Index
	}
	return &Request{Kind: KindAppend, Entries: es, Hard: hard(*term, rapid.Uint64Range(0, 3).Draw(rt, "vote"), rapid.Uint64Range(max(now.Hard.Commit, base), end).Draw(rt, "commit"))}
}

// TestRefusals: requests that would break a log are refused by every store and change
// nothing; so are stores of another controller.
func TestRefusals(t *testing.T) {
	bad := []struct {
		name string
		r    *Request
		text string
	}{
		{"gap", &Request{Kind: KindAppend, Entries: entries(9, 1, 1)}, "gap"},
		{"hole", &Request{Kind: KindAppend, Entries: []Entry{{Index: 6, Term: 1}, {Index: 8, Term: 1}}}, "does not follow"},
		{"term falls", &Request{Kind: KindAppend, Entries: []Entry{{Index: 6, Term: 2}, {Index: 7, Term: 1}}}, "does not follow"},
		{"large entry", &Request{Kind: KindAppend, Entries: []Entry{{Index: 6, Term: 1, Data: make([]byte, MaxEntryBytes+1)}}}, "limit"},
		{"save beyond the log", &Request{Kind: KindSave, Snapshot: snapshotAt(9, 1)}, "within the log"},
		{"compact beyond the snapshot", &Request{Kind: KindSave, Snapshot: snapshotAt(4, 1), CompactTo: 5}, "compaction"},
		{"large snapshot", &Request{Kind: KindSave, Snapshot: &Snapshot{Index: 4, Term: 1, Data: make([]byte, MaxSnapshotBytes+1)}}, "limit"},
		{"large snapshot of the leader", &Request{Kind: KindAppend, Snapshot: &Snapshot{Index: 9, Term: 1, Data: make([]byte, MaxSnapshotBytes+1)}}, "limit"},
		{"join nothing", &Request{Kind: KindJoin}, "must be set"},
		{"no kind", &Request{}, "unknown kind"},
	}
	for _, b := range backends() {
		t.Run(b.name, func(t *testing.T) {
			s, _, err := b.open(testOptions)
			if err != nil {
				t.Fatal(err)
			}
			do(t, s, &Request{Kind: KindAppend, Snapshot: snapshotAt(1, 1), Entries: entries(2, 4, 1), Hard: hard(1, 0, 1)})
			for _, x := range bad {
				res := s.Do(storage.Op{Raft: x.r})
				if res.Err == nil || !strings.Contains(res.Err.Error(), x.text) {
					t.Errorf("%s: got %v, want an error about %q", x.name, res.Err, x.text)
				}
			}
			if res := s.Do(storage.Op{Raft: 7}); res.Err == nil {
				t.Error("an operation without a request was accepted")
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			_, rec, err := b.open(testOptions)
			if err != nil || rec.LastIndex() != 5 {
				t.Fatalf("after refusals the log ends at %d: %v", rec.LastIndex(), err)
			}
		})
	}
	if _, _, err := OpenMemory(NewMemory(), Options{Node: "n0"}); err == nil || !strings.Contains(err.Error(), "unsafeMemoryStore") {
		t.Errorf("a memory store opened without the unsafe flag: %v", err)
	}
	if _, _, err := Open("rocksdb", vfs.NewMem(vfs.MemOptions{}), "ctl", testOptions); err == nil || !strings.Contains(err.Error(), "rocksdb") {
		t.Errorf("an unknown store opened: %v", err)
	}
}
