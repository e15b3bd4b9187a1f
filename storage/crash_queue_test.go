package storage

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"lockstep/internal/ha"
	"lockstep/storage/vfs"
	"lockstep/storage/vfs/crashenum"
)

// queueOptions make a queue file of several sectors that no checkpoint syncs.
func queueOptions(seed uint64) Options {
	o := testOptions(seed)
	o.QueueUnits, o.QueueSync = 128, 1<<40
	return o
}

// unsyncedQueues leaves a store whose process has exited: every queue of it lies in
// the page cache alone, as far as it may, the log's beginning has expired, and queue
// I holds nothing that has not.
func unsyncedQueues(t tester, fsys vfs.FS) *appender {
	a := openStore(t, fsys, queueOptions(1))
	a.append(message("I", 0, "idle from now on"))
	for i := range 60 {
		a.append(message("A", 0, body(i)))
	}
	a.sync()
	a.file()
	a.checkpoint()
	a.must(Op{Kind: OpExpire, Off: testSegment, Confirm: a.end})
	for i := range 60 {
		a.append(message("A", 0, body(i)))
	}
	a.sync()
	a.file()
	a.checkpoint()
	if err := a.s.Close(); err != nil {
		t.Fatal(err)
	}
	return a
}

// TestCrashOfUnsyncedQueues loses power while a store, opened after its process had
// exited, cuts its queues back, writes them again, cuts the log and lets more of
// it expire: pages and sectors of the queues are lost, kept or garbled in any order.
func TestCrashOfUnsyncedQueues(t *testing.T) {
	for _, torn := range []bool{false, true} {
		for _, listed := range []bool{true, false} {
			t.Run(fmt.Sprintf("torn=%v listed=%v", torn, listed), func(t *testing.T) { crashUnsyncedQueues(t, torn, listed) })
		}
	}
}

// crashUnsyncedQueues enumerates the crashes. A store that is not listed lost the list
// of its queues, and all that its floor said of them, with them: it knows nothing.
func crashUnsyncedQueues(t *testing.T, torn, listed bool) {
	var base [][]byte
	var h history
	rep, err := crashenum.Run(crashenum.Config{
		PerPoint: max(*crashStates/4, 2), Seed: 3, Torn: torn,
		Setup: func(fsys vfs.FS) error {
			return catch(func() {
				base = unsyncedQueues(trap{t}, fsys).stored
				if !listed {
					unlist(trap{t}, fsys)
				}
			})
		},
		Program: func(fsys vfs.FS) error {
			h = history{written: slices.Clone(base), acked: len(base)}
			return catch(func() {
				a := openStore(trap{t}, fsys, queueOptions(2))
				a.stored = slices.Clone(base)
				a.must(Op{Kind: OpExpire, Off: 2 * testSegment, Confirm: a.end})
				cut := len(base) - 30
				h.old, h.written, h.acked = h.written, h.written[:cut], cut
				a.truncate(physical(base[cut]))
				h.old = nil
				var more []Draft
				for i := range 45 {
					more = append(more, message("A", 0, body(i)))
				}
				h.put(a, more...)
				a.sync()
				h.acked = len(h.written)
				a.file()
				a.checkpoint()
				a.must(Op{Kind: OpExpire, Off: 3 * testSegment, Confirm: a.end})
			})
		},
		Check: func(s crashenum.State) error {
			return catch(func() { checkQueues(trap{t}, s, &h, listed) })
		},
	})
	t.Log(rep)
	if err != nil {
		t.Fatal(err)
	}
}

// checkQueues demands that a store opens with the log that was synced, that each
// queue shows just the records of the log, that no listed queue forgets its next
// offset, and that a second power loss and new records change none of that.
func checkQueues(t tester, s crashenum.State, h *history, listed bool) {
	a := openStore(t, s.FS, queueOptions(3))
	got := records(t, a.readLog(), a.rec.Min, a.seg)
	since := func(list [][]byte) [][]byte {
		i := slices.IndexFunc(list, func(b []byte) bool { return physical(b) >= a.rec.Min })
		return list[max(i, 0):]
	}
	list, kept := since(h.written), len(since(h.written))-(len(h.written)-h.acked)
	if h.old != nil && !isPrefix(got, list) {
		list, kept = since(h.old), 0 // the cut has not happened
	}
	if !isPrefix(got, list) || len(got) < kept {
		t.Fatalf("the log holds %d records from %d on; %d of %d are acknowledged", len(got), a.rec.Min, kept, len(list))
	}
	a.checkContents(got)
	if listed {
		checkNext(t, a, got)
	}
	s.FS.Crash(vfs.PowerLoss, vfs.KeepNothing)
	b := openStore(t, s.FS, queueOptions(4))
	b.checkContents(got)
	if listed {
		checkNext(t, b, got)
	}
	for i := range 5 {
		b.append(message("A", 0, body(i)), message("I", 0, "not idle any more"))
	}
	b.sync()
	b.file()
	b.rec.Queues = nil
	b.checkContents(append(slices.Clone(got), b.stored...))
}

// checkNext demands the queues' next offsets.
func checkNext(t tester, a *appender, got [][]byte) {
	last, _ := DecodeRecord(got[len(got)-1])
	want := []QueueBounds{{Topic: "A", Max: last.QueueOffset + 1}, {Topic: "I", Max: 1}}
	ok := slices.EqualFunc(a.rec.Queues, want, func(x, y QueueBounds) bool { return x.Topic == y.Topic && x.Max == y.Max })
	if !ok {
		t.Fatalf("queues %+v, want ends %+v; log [%d, %d)", a.rec.Queues, want, a.rec.Min, a.rec.End)
	}
}

// unlist makes a store know nothing of its queues.
func unlist(t tester, fsys vfs.FS) {
	if err := errors.Join(removeDurably(fsys, nameQueues), lowerFloor(fsys, 0, testSegment)); err != nil {
		t.Fatal(err)
	}
}

// tornQueue is a store whose log begins in the middle, and whose one queue shows
// what a power loss can leave of a page that was never synced: zeros, then units
// nobody wrote, then good ones.
func tornQueue(t *testing.T, listed bool) (*vfs.Mem, *appender) {
	t.Helper()
	fsys := vfs.NewMem(vfs.MemOptions{})
	a := openStore(t, fsys, queueOptions(1))
	for i := range 120 {
		a.append(message("A", 0, body(i)))
	}
	a.sync()
	a.file()
	lo := a.must(Op{Kind: OpExpire, Off: 2 * testSegment, Confirm: a.end}).Offset
	if err := a.s.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := fsys.Open(segmentName(dirConsumeQueue+"/A/0", 0))
	if err != nil {
		t.Fatal(err)
	}
	first := slices.IndexFunc(a.stored, func(b []byte) bool { return int64(physical(b)) >= lo })
	var b []byte
	for i := range int64(40) {
		switch {
		case i < 10:
			b = unit{}.append(b)
		case i < 20:
			b = unit{log: 1<<40 - i, size: 60_000, tag: 7}.append(b)
		default:
			b = unit{log: lo - 100*(60-i), size: 30_000, tag: 7}.append(b) // expired, and one too long
		}
	}
	if _, err := f.WriteAt(b, int64(first-5)*queueUnit); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	unlist(t, fsys)
	if listed { // by a release that let the log's beginning go without its queues
		if err := vfs.WriteAtomic(fsys, nameQueues, queueList{}.encode()); err != nil {
			t.Fatal(err)
		}
	}
	a.stored = a.stored[first:]
	return fsys, a
}

// TestTornQueueIsRebuilt: units of expired records cannot be told from garbage that
// looks like them, so that neither they nor their number may stand in the way of
// what the log says.
func TestTornQueueIsRebuilt(t *testing.T) {
	for _, listed := range []bool{false, true} {
		t.Run(fmt.Sprintf("listed=%v", listed), func(t *testing.T) {
			fsys, a := tornQueue(t, listed)
			b := openStore(t, fsys, queueOptions(2))
			b.checkContents(a.stored)
			if q := b.rec.Queues[0]; q.Min != 120-int64(len(a.stored)) || q.Max != 120 {
				t.Errorf("queue holds [%d, %d), the log has the last %d of 120", q.Min, q.Max, len(a.stored))
			}
		})
	}
}

// TestHoleBehindSyncedUnits: a whole page behind a lost one is not the queue's end, or
// the records of the hole would never be shown.
func TestHoleBehindSyncedUnits(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	a := openStore(t, fsys, queueOptions(1))
	for i := range 100 {
		a.append(message("A", 0, body(i)))
	}
	a.sync()
	a.file()
	if err := a.s.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := fsys.Open(segmentName(dirConsumeQueue+"/A/0", 0))
	if err != nil {
		t.Fatal(err)
	}
	// No unit was synced. The search probes 64 first, and then goes up or down.
	for _, at := range []int64{10, 63, 64, 95} {
		var b []byte
		for range 3 {
			b = unit{log: -1, size: 1}.append(b) // before everything
		}
		if _, err := f.WriteAt(b, at*queueUnit); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.WriteAt(make([]byte, 20*queueUnit), 20*queueUnit); err != nil {
		t.Fatal(err)
	}
	if err := vfs.WriteAtomic(fsys, nameQueues, []byte("damaged")); err != nil {
		t.Fatal(err)
	}
	b := openStore(t, fsys, queueOptions(2))
	if b.rec.End != a.end || b.rec.Claim != ha.ClaimHolds {
		t.Fatalf("%+v", b.rec)
	}
	b.checkContents(a.stored)
}

// TestQueueThatNeverWas: files of which nothing was synced, their first one lost, are
// no queue that goes on where they begin.
func TestQueueThatNeverWas(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	a := openStore(t, fsys, queueOptions(1))
	a.fill(3)
	a.sync()
	if err := a.s.Close(); err != nil {
		t.Fatal(err)
	}
	h := newFileHandles(fsys, 4)
	if err := fsys.MkdirAll(queueDir("B", 7)); err != nil {
		t.Fatal(err)
	}
	f, err := h.get(segmentName(queueDir("B", 7), 128*queueUnit), true, 128*queueUnit)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.file.WriteAt(unit{log: 5, size: 200}.append(nil), 0); err != nil {
		t.Fatal(err)
	}
	b := openStore(t, fsys, queueOptions(2))
	for _, q := range b.rec.Queues {
		if q.Queue == 7 && (q.Min != 0 || q.Max != 0) {
			t.Errorf("queue holds [%d, %d)", q.Min, q.Max)
		}
	}
	b.checkContents(a.stored)
	b.append(message("B", 7, "the first"))
	b.sync()
	b.file()
	b.rec.Queues = nil
	b.checkContents(append(slices.Clone(a.stored), b.stored...))
}

// TestGarbageBehindSyncedUnits: where the list is lost too, units that look as if their
// records had expired hide none of the synced ones in front of them.
func TestGarbageBehindSyncedUnits(t *testing.T) {
	for _, list := range []bool{true, false} {
		t.Run(fmt.Sprintf("list=%v", list), func(t *testing.T) {
			fsys := vfs.NewMem(vfs.MemOptions{})
			a := openStore(t, fsys, queueOptions(1))
			for i := range 120 {
				a.append(message("A", 0, body(i)))
			}
			a.sync()
			a.file()
			lo := a.must(Op{Kind: OpExpire, Off: 2 * testSegment, Confirm: a.end}).Offset
			if err := a.s.Close(); err != nil {
				t.Fatal(err)
			}
			f, err := fsys.Open(segmentName(dirConsumeQueue+"/A/0", 0))
			if err != nil {
				t.Fatal(err)
			}
			var b []byte
			for i := range int64(4) { // the search probes the first of them
				b = unit{log: lo - 100 + i, size: 90}.append(b)
			}
			if _, err := f.WriteAt(b, 120*queueUnit); err != nil {
				t.Fatal(err)
			}
			if !list {
				if err := fsys.Remove(nameQueues); err != nil {
					t.Fatal(err)
				}
			}
			first := slices.IndexFunc(a.stored, func(b []byte) bool { return int64(physical(b)) >= lo })
			c := openStore(t, fsys, queueOptions(2))
			c.checkContents(a.stored[first:])
			if q := c.rec.Queues[0]; q.Max != 120 {
				t.Errorf("queue holds [%d, %d)", q.Min, q.Max)
			}
		})
	}
}
