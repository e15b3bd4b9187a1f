package raftstore

import (
	"bytes"
	"testing"

	"lockstep/storage"
	"lockstep/storage/vfs"
)

// FuzzDecoders: no decoder panics or reads beyond its input, and what it accepts
// encodes to the same bytes.
func FuzzDecoders(f *testing.F) {
	f.Add(encodeWrite(hard(3, 1, 2), entries(4, 3, 2)))
	f.Add(encodeWrite(nil, nil))
	f.Add(encodeSnapshot(*snapshotAt(9, 2)))
	f.Add(encodeIdentity(Identity{Store: "s", Node: "n0", Cluster: "c", RaftID: 1}))
	f.Add(header{hard: HardState{1, 2, 3}, prev: 4, term: 5, reset: true}.encode())
	f.Add(sealRecord("s", kindWrite, 7, encodeWrite(hard(1, 1, 1), nil)))
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, es, err := decodeWrite(b); err == nil && h != nil {
			if !bytes.Equal(encodeWrite(h, es), b) {
				t.Error("a write does not encode to what it was decoded from")
			}
		}
		if s, err := decodeSnapshot(b); err == nil && !bytes.Equal(encodeSnapshot(s), b) {
			t.Error("a snapshot does not encode to what it was decoded from")
		}
		if id, err := decodeIdentity(b); err == nil && !bytes.Equal(encodeIdentity(id), b) {
			t.Error("an identity does not encode to what it was decoded from")
		}
		if h, err := decodeHeader(b); err == nil && !bytes.Equal(h.encode(), b) {
			t.Error("a header does not encode to what it was decoded from")
		}
		if kind, seq, payload, ok := openRecord("s", b); ok && !bytes.Equal(sealRecord("s", kind, seq, payload), b[:recordHead+len(payload)]) {
			t.Error("a record does not encode to what it was decoded from")
		}
	})
}

// FuzzOpen: a log segment of any bytes is recovered or refused, never a crash of the
// process; a recovered store takes the next request.
func FuzzOpen(f *testing.F) {
	base := vfs.NewMem(vfs.MemOptions{})
	if err := play(base, story()[:4], nil); err != nil {
		f.Fatal(err)
	}
	names, err := base.List("ctl")
	if err != nil {
		f.Fatal(err)
	}
	last := names[len(names)-2] // "snapshot" sorts behind the segments
	good, err := vfs.ReadFile(base, "ctl/"+last)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)-3])
	f.Add(append(bytes.Clone(good), 0, 0, 0, 9))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		m := base.Clone()
		if err := vfs.WriteAtomic(m, "ctl/"+last, b); err != nil {
			t.Fatal(err)
		}
		s, rec, err := OpenFile(m, "ctl", testOptions)
		if err != nil {
			return
		}
		next := &Request{Kind: KindAppend, Entries: entries(int(rec.LastIndex())+1, 1, rec.Hard.Term+1), Hard: hard(rec.Hard.Term+1, 0, rec.Hard.Commit)}
		if res := s.Do(storage.Op{Raft: next}); res.Err != nil {
			t.Fatalf("after recovery: %v", res.Err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, again, err := OpenFile(m, "ctl", testOptions); err != nil || again.LastIndex() != rec.LastIndex()+1 {
			t.Fatalf("the next life ends at %d, want %d: %v", again.LastIndex(), rec.LastIndex()+1, err)
		}
	})
}
