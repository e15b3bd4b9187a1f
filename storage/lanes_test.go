package storage

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"lockstep/internal/ha"
	"lockstep/storage/vfs"
)

// TestLife runs a short life on real files and in memory: the same operations
// end in the same bytes.
func TestLife(t *testing.T) {
	for name, fsys := range map[string]vfs.FS{"mem": vfs.NewMem(vfs.MemOptions{}), "os": vfs.OS(t.TempDir())} {
		t.Run(name, func(t *testing.T) {
			a := openStore(t, fsys, testOptions(1))
			a.fill(80)
			a.sync()
			a.file()
			a.checkpoint()
			a.truncate(physical(a.stored[50]))
			a.fill(40)
			a.sync()
			want := a.stored
			if err := a.s.Close(); err != nil { // no clean stop
				t.Fatal(err)
			}
			b := openStore(t, fsys, testOptions(2))
			if b.rec.Clean || b.rec.Claim != ha.ClaimHolds || b.rec.End != a.end {
				t.Fatalf("%+v", b.rec)
			}
			b.checkContents(want)
			if _, _, err := Open(fsys, testOptions(3)); !errors.Is(err, ErrInUse) {
				t.Errorf("second open: %v", err)
			}
			b.stop()
			c := openStore(t, fsys, testOptions(4))
			if !c.rec.Clean {
				t.Error("not clean after a clean stop")
			}
			c.checkContents(want)
			c.stop()
		})
	}
}

// TestLanesRunBesideEachOther issues operations of all lanes at once, as the host
// does, and reads while the log grows, expires and is cut. Run it with -race.
func TestLanesRunBesideEachOther(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	a := openStore(t, fsys, testOptions(1))
	a.fill(20)
	a.sync()
	a.file()
	var written, cutting atomic.Int64
	written.Store(int64(a.end))
	var done atomic.Bool
	var wg sync.WaitGroup
	lane := func(f func()) {
		wg.Go(func() {
			for !done.Load() {
				f()
			}
		})
	}
	check := func(r Result) {
		if r.Err != nil && !errors.Is(r.Err, ErrStale) && !errors.Is(r.Err, ErrRange) {
			t.Errorf("operation %d at %d: %v", r.Op.Kind, r.Op.Off, r.Err)
			done.Store(true)
		}
	}
	lane(func() { check(a.s.Do(Op{Kind: OpSync})) })
	lane(func() {
		end := ha.LogOffset(written.Load())
		check(a.s.Do(Op{Kind: OpCheckpoint, Off: end, Confirm: end}))
	})
	for range 2 {
		lane(func() {
			n := cutting.Load()
			lo, end, _ := a.s.log.bounds()
			r := a.s.Do(Op{Kind: OpRead, Off: ha.LogOffset(lo), Max: 5000})
			if n != cutting.Load() || int64(r.Op.Off) >= end {
				return // its offset was of the log before the cut
			}
			check(r)
			check(a.s.Do(Op{Kind: OpPull, Pull: PullArgs{Topic: "A", Queue: 0, Offset: 0, MaxMsgs: 20, MaxBytes: 1 << 16, Limit: ha.LogOffset(end)}}))
		})
	}
	for i := range 300 {
		a.append(message("A", 0, body(i)), message("B", 1, body(i)))
		a.file()
		written.Store(int64(a.end))
		if i%50 == 49 {
			cutting.Add(1)
			at := physical(a.stored[len(a.stored)-20])
			a.truncate(at)
			written.Store(int64(at))
			cutting.Add(1)
		}
	}
	done.Store(true)
	wg.Wait()
	a.rec.Queues = nil
	a.checkContents(a.stored)
}

// TestSyncTouchesDirtySegmentsOnly counts file operations.
func TestSyncTouchesDirtySegmentsOnly(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	a := openStore(t, fsys, testOptions(1))
	a.fill(150)
	a.sync()
	before := fsys.OpCount()
	a.sync()
	if n := fsys.OpCount() - before; n != 0 {
		t.Errorf("a sync of nothing made %d changes", n)
	}
	a.append(message("A", 0, "one"))
	before = fsys.OpCount()
	a.sync()
	if n := fsys.OpCount() - before; n != 1 {
		t.Errorf("a sync of one dirty segment made %d changes", n)
	}
}

// TestCheckpointCostsOneSync counts what the lazy floor of each second costs.
func TestCheckpointCostsOneSync(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	o := testOptions(1)
	o.QueueSync = 1 << 30
	a := openStore(t, fsys, o)
	a.fill(50)
	a.sync()
	a.file()
	a.checkpoint()
	syncs := 0
	fsys.SetFaults(vfs.FaultFunc(func(op vfs.Op) vfs.Fault {
		if op.Kind == vfs.OpSync || op.Kind == vfs.OpSyncDir {
			syncs++
		}
		return vfs.Fault{}
	}))
	a.checkpoint()
	if syncs != 1 {
		t.Errorf("a checkpoint that syncs no queues makes %d syncs", syncs)
	}
}

// TestLargeBatchesLeaveNoMemory: what a queue gathers for a large batch, as a
// recovery has them, is not kept by each queue that ever had one.
func TestLargeBatchesLeaveNoMemory(t *testing.T) {
	a := openStore(t, vfs.NewMem(vfs.MemOptions{}), testOptions(1))
	var data [][]byte
	off := a.end
	for range 2 * keepPending / queueUnit {
		data = append(data, a.build(message("A", 0, "x"))...)
	}
	a.must(Op{Kind: OpAppend, Off: off, Data: data})
	a.file()
	if q := a.s.queues.lookup("A", 0); q.max != 2*keepPending/queueUnit || cap(q.pending) > keepPending {
		t.Errorf("%d units, room for %d bytes is kept", q.max, cap(q.pending))
	}
}
