package storage

import (
	"slices"
	"testing"

	"lockstep/internal/ha"
	"lockstep/storage/vfs"
	"lockstep/storage/vfs/crashenum"
)

// shrinkStart is a stopped store of several segments.
func shrinkStart(t *testing.T) (*vfs.Mem, *appender) {
	t.Helper()
	fsys := vfs.NewMem(vfs.MemOptions{})
	a := openStore(t, fsys, testOptions(1))
	a.fill(150)
	a.sync()
	a.file()
	a.stop()
	return fsys, a
}

// TestCrashWhileExpiring demands that what is left is the log from some segment
// on, without a gap, and that queues begin no later.
func TestCrashWhileExpiring(t *testing.T) {
	start, old := shrinkStart(t)
	rep, err := crashenum.Run(crashenum.Config{
		Start: start, PerPoint: *crashStates, Seed: 1,
		Program: func(fsys vfs.FS) error {
			return catch(func() {
				a := openStore(trap{t}, fsys, testOptions(2))
				a.must(Op{Kind: OpExpire, Off: 2 * testSegment, Confirm: a.end})
			})
		},
		Check: func(s crashenum.State) error {
			return catch(func() {
				a := openStore(trap{t}, s.FS, testOptions(3))
				if a.rec.End != old.end || a.rec.Min > 2*testSegment || a.rec.Min%testSegment != 0 || a.rec.Claim != ha.ClaimHolds || a.rec.Suspect != "" {
					a.t.Fatalf("%+v", a.rec)
				}
				if s.Done && a.rec.Min != 2*testSegment {
					a.t.Fatalf("expired segments came back: the log begins at %d", a.rec.Min)
				}
				want := slices.DeleteFunc(slices.Clone(old.stored), func(b []byte) bool { return physical(b) < a.rec.Min })
				a.checkContents(want)
			})
		},
	})
	t.Log(rep)
	if err != nil {
		t.Fatal(err)
	}
}

// TestCrashWhileResetting demands that a store is either the old one in full or a
// new one, under a new id, without a byte of the old.
func TestCrashWhileResetting(t *testing.T) {
	start, old := shrinkStart(t)
	rep, err := crashenum.Run(crashenum.Config{
		Start: start, PerPoint: *crashStates, Seed: 1,
		Program: func(fsys vfs.FS) error {
			return catch(func() {
				a := openStore(trap{t}, fsys, testOptions(2))
				a.must(Op{Kind: OpReset, Off: 7 * testSegment, Name: "too far behind"})
			})
		},
		Check: func(s crashenum.State) error {
			return catch(func() {
				a := openStore(trap{t}, s.FS, testOptions(3))
				if a.rec.Identity.Store == old.rec.Identity.Store {
					if s.Done {
						a.t.Fatalf("the old store is still there")
					}
					a.checkContents(old.stored)
					return
				}
				if a.rec.Min != 7*testSegment || a.rec.End != a.rec.Min || a.rec.Claim != ha.ClaimBroken || len(a.rec.Queues) != 0 {
					a.t.Fatalf("%+v", a.rec)
				}
				a.end = a.rec.End
				a.fill(3)
				a.sync()
				a.file()
				a.checkContents(a.stored)
			})
		},
	})
	t.Log(rep)
	if err != nil {
		t.Fatal(err)
	}
}
