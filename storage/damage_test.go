package storage

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"lockstep/internal/ha"
	"lockstep/storage/vfs"
)

// prepared makes a store with n synced and filed records, whose floor is after
// the first half of them, and ends its life with a power loss.
func crashedStore(t *testing.T, n int) (*vfs.Mem, *appender) {
	t.Helper()
	fsys := vfs.NewMem(vfs.MemOptions{})
	a := openStore(t, fsys, testOptions(1))
	for i := range n {
		a.append(message([]string{"A", "B"}[i%2], int32(i%3), body(i)))
		if i == n/2 {
			a.sync()
			a.file()
			a.checkpoint()
		}
	}
	a.sync()
	a.file()
	fsys.Crash(vfs.PowerLoss, vfs.KeepNothing)
	return fsys, a
}

// rot damages one byte of the record at index i.
func rot(t *testing.T, fsys *vfs.Mem, a *appender, i int, at int) {
	t.Helper()
	off := int64(physical(a.stored[i])) + int64(at)
	if err := fsys.Rot(segmentName(dirCommitLog, off/testSegment*testSegment), off%testSegment, 0x10); err != nil {
		t.Fatal(err)
	}
}

func TestRotBelowTheFloor(t *testing.T) {
	fsys, a := crashedStore(t, 40)
	// QueueSync bounds the scan: the record has to lie above the last queue sync.
	rot(t, fsys, a, 20, 60)
	fsys.Crash(vfs.PowerLoss, vfs.KeepNothing) // drops what the cache still shows
	before := fsys.Clone()
	b := openStore(t, fsys, testOptions(2))
	at := physical(a.stored[20])
	if b.rec.Suspect == "" || b.rec.Claim != ha.ClaimBroken || b.rec.End != at || b.rec.TornBytes != 0 {
		t.Fatalf("%+v, want it suspect and ending at %d", b.rec, at)
	}
	for _, part := range []string{dirCommitLog + "/00000000000000000000", "below the durable floor", "nothing was deleted"} {
		if !strings.Contains(b.rec.Suspect, part) {
			t.Errorf("reason %q does not say %q", b.rec.Suspect, part)
		}
	}
	if got, want := segmentBytes(t, fsys), segmentBytes(t, before); !bytes.Equal(got, want) {
		t.Error("bytes of the damaged log changed")
	}
	b.checkContents(a.stored[:20])
	for _, op := range []Op{{Kind: OpAppend, Off: at}, {Kind: OpTruncate, Off: at}, {Kind: OpExpire, Off: at}, {Kind: OpPrepare}, {Kind: OpCleanStop}, {Kind: OpCheckpoint}} {
		if r := b.do(op); !errors.Is(r.Err, ErrReadOnly) || !errors.Is(r.Err, ErrCorrupt) {
			t.Errorf("operation %d on the damaged store: %v", op.Kind, r.Err)
		}
	}
	// It says so again, and a reset makes it usable.
	if err := b.s.Close(); err != nil {
		t.Fatal(err)
	}
	c := openStore(t, fsys, testOptions(3))
	if c.rec.Suspect != b.rec.Suspect {
		t.Errorf("second start: %q", c.rec.Suspect)
	}
	c.must(Op{Kind: OpReset, Name: "rebuild"})
	if err := c.s.Close(); err != nil {
		t.Fatal(err)
	}
	d := openStore(t, fsys, testOptions(4))
	if d.rec.Suspect != "" || d.rec.End != 0 || d.rec.Claim != ha.ClaimBroken {
		t.Errorf("after the reset: %+v", d.rec)
	}
	d.fill(3)
}

func segmentBytes(t *testing.T, fsys *vfs.Mem) (all []byte) {
	t.Helper()
	names, err := fsys.List(dirCommitLog)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		b, err := vfs.ReadFile(fsys, dirCommitLog+"/"+n)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	return all
}

func TestRotAboveTheFloor(t *testing.T) {
	for _, tc := range []struct {
		name     string
		index    int // of 40
		at       int
		salvaged bool
	}{
		{"in front of good records", 30, 60, true},
		{"in the last record's body", 39, 100, true},
		{"in the last record's size", 39, 2, true},
		{"in the last record's checksum", 39, -3, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fsys, a := crashedStore(t, 40)
			at := tc.at
			if at < 0 {
				at += len(a.stored[tc.index])
			}
			rot(t, fsys, a, tc.index, at)
			b := openStore(t, fsys, testOptions(2))
			if b.rec.Claim != ha.ClaimBroken || b.rec.End != physical(a.stored[tc.index]) || b.rec.Suspect != "" {
				t.Fatalf("%+v, want a broken claim and the end at %d", b.rec, physical(a.stored[tc.index]))
			}
			b.checkContents(a.stored[:tc.index])
			kept, err := vfs.ReadFile(fsys, nameSalvaged)
			last := a.stored[len(a.stored)-1]
			if err != nil || !bytes.Contains(kept, last[len(last)-10:]) && tc.index != 39 {
				t.Errorf("what was cut is not kept aside: %v", err)
			}
			// The claim stays broken through a clean stop.
			b.stop()
			if c := openStore(t, fsys, testOptions(3)); c.rec.Claim != ha.ClaimBroken || c.rec.End != b.rec.End {
				t.Errorf("next start: %+v", c.rec)
			}
		})
	}
}

func TestLostTail(t *testing.T) {
	fsys, a := crashedStore(t, 40)
	// The device forgot everything from before the floor on.
	at := int64(physical(a.stored[15]))
	f, err := fsys.Open(segmentName(dirCommitLog, 0))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(at), f.Allocate(testSegment), f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
	if err := fsys.Remove(segmentName(dirCommitLog, testSegment)); err != nil && a.end > testSegment {
		t.Fatal(err)
	}
	b := openStore(t, fsys, testOptions(2))
	if b.rec.Claim != ha.ClaimBroken || int64(b.rec.End) != at {
		t.Fatalf("%+v: a log that ends below its floor still claims all", b.rec)
	}
	b.checkContents(a.stored[:15])
}

// TestDamagedBytesAreNeverServed flips one byte of each record in turn and
// demands that every read either fails, naming the place, or leaves it out.
func TestDamagedBytesAreNeverServed(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	a := openStore(t, fsys, testOptions(1))
	a.fill(30)
	a.sync()
	a.file()
	for i := range a.stored {
		m := fsys.Clone()
		m.Crash(vfs.PowerLoss, vfs.KeepNothing)
		b := openStore(t, m, testOptions(2))
		at := i * 7 % len(a.stored[i])
		rot(t, m, a, i, at) // of a store that runs and knows nothing of it
		for _, s := range b.s.log.segs {
			if err := s.file.DropCache(0, testSegment); err != nil {
				t.Fatal(err)
			}
		}
		r := b.do(Op{Kind: OpRead, Off: physical(a.stored[i]), Max: 100})
		var damage *DamageError
		if !errors.Is(r.Err, ErrCorrupt) || !errors.As(r.Err, &damage) || damage.Log != physical(a.stored[i]) || r.Bytes != nil {
			t.Fatalf("record %d byte %d: read gave %d bytes, %v", i, at, len(r.Bytes), r.Err)
		}
		rec, _ := DecodeRecord(a.stored[i])
		r = b.do(Op{Kind: OpPull, Pull: PullArgs{Topic: string(rec.Topic), Queue: rec.QueueID, Offset: rec.QueueOffset, MaxMsgs: 1, MaxBytes: 1, Limit: b.end}})
		if !errors.Is(r.Err, ErrCorrupt) || r.Bytes != nil {
			t.Fatalf("record %d byte %d: pull gave %d bytes, %v", i, at, len(r.Bytes), r.Err)
		}
		// What lies in front is served as before.
		if i > 0 {
			prev, _ := DecodeRecord(a.stored[i-1])
			if r := b.do(Op{Kind: OpRead, Off: prev.Physical, Max: prev.Size()}); r.Err != nil || !bytes.Equal(r.Bytes, prev.Raw) {
				t.Fatalf("record %d in front of the damage: %v", i-1, r.Err)
			}
		}
	}
}

func TestUnreadableSector(t *testing.T) {
	fsys, a := crashedStore(t, 40)
	off := int64(physical(a.stored[30]))
	if err := fsys.BadSector(segmentName(dirCommitLog, off/testSegment*testSegment), off%testSegment); err != nil {
		t.Fatal(err)
	}
	b := openStore(t, fsys, testOptions(2))
	if b.rec.Suspect == "" || b.rec.End > physical(a.stored[30]) {
		t.Fatalf("%+v", b.rec)
	}
}

// TestQueuesAreRebuilt removes consume queue files in different ways.
func TestQueuesAreRebuilt(t *testing.T) {
	for _, tc := range []struct {
		name  string
		clean bool
		harm  func(fsys *vfs.Mem) error
	}{
		{"all, clean", true, func(m *vfs.Mem) error { return removeTree(m, dirConsumeQueue, 2) }},
		{"all, unclean", false, func(m *vfs.Mem) error { return removeTree(m, dirConsumeQueue, 2) }},
		{"one queue", true, func(m *vfs.Mem) error { return removeTree(m, dirConsumeQueue+"/A/0", 0) }},
		{"last file", true, func(m *vfs.Mem) error { return m.Remove(segmentName(dirConsumeQueue+"/A/0", 320)) }},
		{"first file", true, func(m *vfs.Mem) error { return m.Remove(segmentName(dirConsumeQueue+"/B/1", 0)) }},
		{"list", false, func(m *vfs.Mem) error { return m.Remove(nameQueues) }},
		{"list damaged", true, func(m *vfs.Mem) error { return vfs.WriteAtomic(m, nameQueues, []byte("LSQUEUE1x")) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fsys := vfs.NewMem(vfs.MemOptions{})
			a := openStore(t, fsys, testOptions(1))
			a.fill(120)
			a.sync()
			a.file()
			a.checkpoint()
			if tc.clean {
				a.stop()
			} else {
				fsys.Crash(vfs.PowerLoss, vfs.KeepNothing)
			}
			if err := tc.harm(fsys); err != nil {
				t.Fatal(err)
			}
			b := openStore(t, fsys, testOptions(2))
			if b.rec.Claim != ha.ClaimHolds || b.rec.End != a.end {
				t.Errorf("lost queues cost the claim: %+v", b.rec)
			}
			b.checkContents(a.stored)
		})
	}
}

// TestVanishedLog: a log that is gone before its floor was ever written still costs the
// claim, because its epoch list is there; a new store with an identity alone has lost
// nothing.
func TestVanishedLog(t *testing.T) {
	for _, c := range []struct {
		name  string
		list  ha.Epochs
		claim ha.Claim
	}{
		{"a store that never had a record", nil, ha.ClaimHolds},
		{"a store that was in an epoch", ha.Epochs{{Epoch: 3, Start: 0}}, ha.ClaimBroken},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := vfs.NewMem(vfs.MemOptions{})
			a := openStore(t, fsys, testOptions(1))
			a.must(Op{Kind: OpSave, Name: NameIdentity, Blob: EncodeIdentity("c", "g", 2)})
			a.must(Op{Kind: OpSave, Name: NameHighestEpoch, Blob: EncodeHighestEpoch(3)})
			if c.list != nil {
				a.fill(4)
				a.sync()
				a.must(Op{Kind: OpSave, Name: NameEpochFile, Blob: EncodeEpochFile(c.list)})
			}
			if err := a.s.Close(); err != nil {
				t.Fatal(err)
			}
			if err := removeTree(fsys, dirCommitLog, 0); err != nil {
				t.Fatal(err)
			}
			b := openStore(t, fsys, testOptions(2))
			if b.rec.Claim != c.claim || b.rec.End != 0 {
				t.Errorf("claim %v of a log that ends at %d, want %v", b.rec.Claim, b.rec.End, c.claim)
			}
			if err := b.s.Close(); err != nil {
				t.Fatal(err)
			}
			if again := openStore(t, fsys, testOptions(3)); again.rec.Claim != c.claim {
				t.Errorf("claim %v at the next start", again.rec.Claim)
			}
		})
	}
}

// TestDamagedSideFiles flips bytes in the small files: the store refuses with the
// file's name, or does without it, and never forgets who it is.
func TestDamagedSideFiles(t *testing.T) {
	for name, refused := range map[string]bool{
		nameStore: true, nameBoot: true, NameHighestEpoch: true, NameIdentity: true,
		nameFloor: false, nameQueues: false, NameEpochFile: false, nameClean: false, nameCheckpoint: false,
	} {
		fsys := vfs.NewMem(vfs.MemOptions{})
		a := openStore(t, fsys, testOptions(1))
		a.must(Op{Kind: OpSave, Name: NameHighestEpoch, Blob: EncodeHighestEpoch(3)})
		a.must(Op{Kind: OpSave, Name: NameIdentity, Blob: EncodeIdentity("c", "g", 2)})
		a.must(Op{Kind: OpSave, Name: NameEpochFile, Blob: EncodeEpochFile(ha.Epochs{{Epoch: 3, Start: 0}})})
		a.fill(10)
		a.sync()
		a.file()
		a.stop()
		old, err := vfs.ReadFile(fsys, name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range old {
			old[i] ^= 0x15
		}
		if err := vfs.WriteAtomic(fsys, name, old); err != nil {
			t.Fatal(err)
		}
		s, rec, err := Open(fsys, testOptions(2))
		if refused {
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s damaged: %v", name, err)
			}
			continue
		}
		if err != nil || rec.End != a.end {
			t.Errorf("%s damaged: %v, end %d", name, err, rec.End)
			continue
		}
		if name == nameFloor && rec.Claim != ha.ClaimBroken {
			t.Error("a damaged floor did not cost the claim")
		}
		newAppender(t, s, rec, testOptions(2)).checkContents(a.stored)
	}
}
