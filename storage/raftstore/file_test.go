package raftstore

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"lockstep/storage"
	"lockstep/storage/vfs"
	"lockstep/storage/vfs/crashenum"
)

// TestCrashEveryWritePoint: whatever a crash leaves of the file store at any point of
// the story, it opens to the state before or after the request under way, loses
// nothing that was confirmed, opens so a second time, and takes the next request.
func TestCrashEveryWritePoint(t *testing.T) {
	want := states(t, story())
	for i := range story() {
		t.Run(fmt.Sprint("request", i), func(t *testing.T) {
			base := vfs.NewMem(vfs.MemOptions{})
			if err := play(base, story()[:i], nil); err != nil {
				t.Fatal(err)
			}
			acked := 0
			rep, err := crashenum.Run(crashenum.Config{
				Start: base, PerPoint: 64, Seed: 1, Torn: true,
				Program: func(fsys vfs.FS) error {
					acked = 0
					return play(fsys, story()[i:i+1], func() { acked++ })
				},
				Check: func(st crashenum.State) error {
					return checkCrash(st.FS, want[i], want[i+1], story()[i], acked, story()[i+1:])
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			if rep.States < 5 {
				t.Errorf("only %d states visited", rep.States)
			}
		})
	}
}

// play opens the store in fsys and performs the requests.
func play(fsys vfs.FS, rs []*Request, acked func()) error {
	s, _, err := OpenFile(fsys, "ctl", testOptions)
	if err != nil {
		return err
	}
	for _, r := range rs {
		if res := s.Do(storage.Op{Raft: r}); res.Err != nil {
			return errors.Join(res.Err, s.Close())
		}
		if acked != nil {
			acked()
		}
	}
	return s.Close()
}

func checkCrash(fsys vfs.FS, before, after Recovered, r *Request, acked int, next []*Request) error {
	s, rec, err := OpenFile(fsys, "ctl", testOptions)
	if err != nil {
		return err
	}
	isBefore, isAfter := same(rec, before), same(rec, after)
	// An installed snapshot may be durable before the hard state that came with it.
	between := r.Kind == KindAppend && r.Snapshot != nil && rec.Snapshot != nil && rec.Snapshot.Index == r.Snapshot.Index && rec.Hard.Term <= r.Hard.Term &&
		(len(rec.Entries) == 0 || len(rec.Entries) == len(after.Entries))
	if isAfter != "" && (acked > 0 || isBefore != "" && !between) {
		return fmt.Errorf("acknowledged %d: neither before (%s) nor after (%s)", acked, isBefore, isAfter)
	}
	if err := s.Close(); err != nil {
		return err
	}
	s, again, err := OpenFile(fsys, "ctl", testOptions)
	if err != nil {
		return fmt.Errorf("second open: %w", err)
	}
	if d := same(again, rec); d != "" {
		return fmt.Errorf("the second open differs: %s", d)
	}
	if isAfter == "" && len(next) > 0 {
		if res := s.Do(storage.Op{Raft: next[0]}); res.Err != nil {
			return fmt.Errorf("next request: %w", res.Err)
		}
	}
	return s.Close()
}

// TestCreateCrash: a crash while the store is being made leaves a new store or a made
// one, never a refusal.
func TestCreateCrash(t *testing.T) {
	_, err := crashenum.Run(crashenum.Config{
		PerPoint: 256, Seed: 2, Torn: true,
		Program: func(fsys vfs.FS) error { return play(fsys, nil, nil) },
		Check: func(st crashenum.State) error {
			s, rec, err := OpenFile(st.FS, "ctl", testOptions)
			if err != nil {
				return err
			}
			if !rec.Empty() || rec.Identity.Node != "n0" {
				return fmt.Errorf("recovered %+v", rec)
			}
			return s.Close()
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestDamage: one flipped bit anywhere is either harmless (the last write, which
// cannot be told from a torn one) or refused with the file's name and the remedy.
func TestDamage(t *testing.T) {
	base := vfs.NewMem(vfs.MemOptions{})
	rs := story()[:12]
	if err := play(base, rs, nil); err != nil {
		t.Fatal(err)
	}
	whole := states(t, rs)[len(rs)]
	names, err := base.List("ctl")
	if err != nil {
		t.Fatal(err)
	}
	refused, cut := 0, 0
	for _, name := range names {
		size, ok := base.DurableSize("ctl/" + name)
		if !ok || name == "lock" {
			continue
		}
		for off := int64(0); off < size; off += 7 {
			m := base.Clone()
			if err := m.Rot("ctl/"+name, off, 0x10); err != nil {
				t.Fatal(err)
			}
			_, rec, err := OpenFile(m, "ctl", testOptions)
			switch {
			case err != nil:
				refused++
				if !strings.Contains(err.Error(), "ctl/"+name) && !strings.Contains(err.Error(), "ctl:") || !strings.Contains(err.Error(), "re-add") && !strings.Contains(err.Error(), "belongs to") {
					t.Fatalf("%s at %d: the refusal names neither file nor remedy: %v", name, off, err)
				}
			case rec.TornBytes > 0 && rec.LastIndex() <= whole.LastIndex():
				cut++
			case same(rec, whole) != "":
				t.Fatalf("%s at %d: damaged bytes were taken as good: %s", name, off, same(rec, whole))
			}
		}
	}
	if refused == 0 || cut == 0 {
		t.Errorf("refused %d, cut %d: the test reaches only one side", refused, cut)
	}
}

// TestFileRefusals: each state that no crash of this store leaves is refused and
// nothing is changed.
func TestFileRefusals(t *testing.T) {
	remove := func(names ...string) func(*vfs.Mem) error {
		return func(m *vfs.Mem) error {
			for _, n := range names {
				if err := m.Remove("ctl/" + n); err != nil {
					return err
				}
			}
			return nil
		}
	}
	segments := func(m *vfs.Mem) (out []string) {
		names, err := m.List("ctl")
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			if strings.HasPrefix(n, "log-") {
				out = append(out, n)
			}
		}
		return out
	}
	cases := []struct {
		name   string
		breakT func(*vfs.Mem) error
		opts   func(*Options)
		text   string
	}{
		{"no identity", remove("identity"), nil, "identity file is missing"},
		{"no snapshot", remove("snapshot"), nil, "missing"},
		{"first segment gone", func(m *vfs.Mem) error { return remove(segments(m)[0])(m) }, nil, "is missing"},
		{"middle segment gone", func(m *vfs.Mem) error { return remove(segments(m)[1])(m) }, nil, "the segment before it is missing"},
		{"all segments gone", func(m *vfs.Mem) error { return remove(segments(m)...)(m) }, nil, "no log segment"},
		{"foreign file", func(m *vfs.Mem) error { return vfs.WriteAtomic(m, "ctl/CURRENT", []byte("x")) }, nil, "Pebble or Java"},
		{"another controller", nil, func(o *Options) { o.Node = "n9" }, `belongs to controller "n0"`},
		{"tiny segments", nil, func(o *Options) { o.SegmentBytes = 3 }, "segment size"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := vfs.NewMem(vfs.MemOptions{})
			rs := story()[:10]
			if err := play(m, append(rs[:8:8], rs[9]), nil); err != nil {
				t.Fatal(err)
			}
			if n := len(segments(m)); n < 3 {
				t.Fatalf("the story fills only %d segments", n)
			}
			if c.breakT != nil {
				if err := c.breakT(m); err != nil {
					t.Fatal(err)
				}
			}
			o := testOptions
			if c.opts != nil {
				c.opts(&o)
			}
			before := fmt.Sprint(m.List("ctl"))
			if _, _, err := OpenFile(m, "ctl", o); err == nil || !strings.Contains(err.Error(), c.text) {
				t.Fatalf("got %v, want an error about %q", err, c.text)
			}
			if after := fmt.Sprint(m.List("ctl")); after != before {
				t.Errorf("the refusal changed the directory: %s, was %s", after, before)
			}
		})
	}
}

// TestFailedSync: after a failed fsync the store is finished for good, and what it did
// not confirm is not taken as durable by the next life (P5).
func TestFailedSync(t *testing.T) {
	m := vfs.NewMem(vfs.MemOptions{})
	s, _, err := OpenFile(m, "ctl", testOptions)
	if err != nil {
		t.Fatal(err)
	}
	do(t, s, &Request{Kind: KindAppend, Snapshot: snapshotAt(1, 1), Entries: entries(2, 2, 1), Hard: hard(1, 1, 1)})
	m.SetFaults(vfs.NewRules(vfs.Rule{Kind: vfs.OpSync, Prefix: "ctl/log-", Count: 1, Fault: vfs.Fault{Err: errors.New("EIO"), Drop: true}}))
	lost := &Request{Kind: KindAppend, Entries: entries(4, 1, 1)}
	if res := s.Do(storage.Op{Raft: lost}); res.Err == nil {
		t.Fatal("a failed fsync was reported as success")
	}
	if res := s.Do(storage.Op{Raft: lost}); res.Err == nil || !strings.Contains(res.Err.Error(), "stays closed") {
		t.Fatalf("the store went on after a failed fsync: %v", res.Err)
	}
	// A restart of the process only: the page cache still shows the entry, the device
	// does not have it. Whatever the next life recovers must survive a power loss.
	m.Crash(vfs.ProcessExit, nil)
	_, rec, err := OpenFile(m, "ctl", testOptions)
	if err != nil || rec.LastIndex() < 3 {
		t.Fatalf("the log ends at %d: %v", rec.LastIndex(), err)
	}
	m.Crash(vfs.PowerLoss, vfs.KeepNothing)
	_, again, err := OpenFile(m, "ctl", testOptions)
	if err != nil || same(again, rec) != "" {
		t.Fatalf("recovered after the restart and gone after a power loss: %s %v", same(again, rec), err)
	}
}

// TestProcessCrashThenPowerLoss: what an opening store recovered from the page cache is
// durable when the opening returns (P5a).
func TestProcessCrashThenPowerLoss(t *testing.T) {
	m := vfs.NewMem(vfs.MemOptions{})
	s, _, err := OpenFile(m, "ctl", testOptions)
	if err != nil {
		t.Fatal(err)
	}
	do(t, s, &Request{Kind: KindAppend, Snapshot: snapshotAt(1, 1), Entries: entries(2, 2, 1), Hard: hard(1, 1, 1)})
	// The process dies between the write and its fsync.
	m.StopAfter(m.OpCount() + 1)
	if res := s.Do(storage.Op{Raft: &Request{Kind: KindAppend, Entries: entries(4, 1, 1)}}); res.Err == nil {
		t.Fatal("the process did not stop")
	}
	m.Crash(vfs.ProcessExit, nil)
	_, rec, err := OpenFile(m, "ctl", testOptions)
	if err != nil || rec.LastIndex() != 4 {
		t.Fatalf("recovered to %d: %v", rec.LastIndex(), err)
	}
	m.Crash(vfs.PowerLoss, vfs.KeepNothing)
	if _, rec, err = OpenFile(m, "ctl", testOptions); err != nil || rec.LastIndex() != 4 {
		t.Fatalf("after the power loss the log ends at %d: %v", rec.LastIndex(), err)
	}
}

// TestTwoProcesses: one store, one process.
func TestTwoProcesses(t *testing.T) {
	m := vfs.NewMem(vfs.MemOptions{})
	if _, _, err := OpenFile(m, "ctl", testOptions); err != nil {
		t.Fatal(err)
	}
	if _, _, err := OpenFile(m, "ctl", testOptions); !errors.Is(err, vfs.ErrLocked) {
		t.Fatalf("a second process opened the store: %v", err)
	}
}

// TestPebbleCrash: a power loss that keeps only what was synced keeps every confirmed
// request.
func TestPebbleCrash(t *testing.T) {
	want := states(t, story())
	pfs := pebblevfs.NewCrashableMem()
	s, _, err := OpenPebble("ctl", pfs, testOptions)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range story() {
		do(t, s, r)
		clone := pfs.CrashClone(pebblevfs.CrashCloneCfg{})
		again, rec, err := OpenPebble("ctl", clone, testOptions)
		if err != nil {
			t.Fatal(err)
		}
		if d := same(rec, want[i+1]); d != "" {
			t.Fatalf("after request %d:\n%s", i, d)
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRealDirectories: the file and Pebble stores on the operating system's files.
func TestRealDirectories(t *testing.T) {
	dir := t.TempDir()
	fsys := vfs.OS(dir)
	o := testOptions
	o.PebbleDir = dir + "/pebble"
	if err := os.MkdirAll(o.PebbleDir, 0o755); err != nil {
		t.Fatal(err)
	}
	want := states(t, story())
	for _, kind := range []string{StoreFile, StorePebble} {
		for i := range 2 {
			s, rec, err := Open(kind, fsys, "file", o)
			if err != nil {
				t.Fatal(err)
			}
			if i == 1 {
				if d := same(rec, want[len(want)-1]); d != "" {
					t.Fatalf("%s: %s", kind, d)
				}
			} else {
				for _, r := range story() {
					do(t, s, r)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
