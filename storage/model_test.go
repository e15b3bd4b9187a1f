package storage

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"lockstep/internal/ha"
	"lockstep/internal/prng"
	"lockstep/storage/vfs"
)

// storeModel is what a store should hold after random operations and crashes.
type storeModel struct {
	t      *rapid.T
	fsys   *vfs.Mem
	a      *appender
	synced int // of a.stored
	opens  uint64
	min    ha.LogOffset
}

func (m *storeModel) open() {
	m.opens++
	o := testOptions(m.opens)
	o.Segment = 4 << 10
	o.MaxRecord = 2 << 10
	old := m.a
	s, rec, err := Open(m.fsys, o)
	if err != nil {
		m.t.Fatalf("open: %v", err)
	}
	m.a = newAppender(m.t, s, rec, o)
	m.a.wall = 1_000_000 + int64(m.opens)*1000
	if rec.Suspect != "" {
		m.t.Fatalf("suspect: %s", rec.Suspect)
	}
	if old == nil {
		return
	}
	got := records(m.t, m.a.readLog(), rec.Min, m.a.seg)
	if rec.Min < m.min {
		m.t.Fatalf("the log begins at %d again, it was expired to %d", rec.Min, m.min)
	}
	m.min = rec.Min
	want := slices.DeleteFunc(slices.Clone(old.stored), func(b []byte) bool { return physical(b) < rec.Min })
	gone := len(old.stored) - len(want)
	if !isPrefix(got, want) || len(got) < m.synced-gone {
		m.t.Fatalf("%d records after the crash, %d written, %d synced", len(got), len(want), m.synced-gone)
	}
	m.a.stored = got
	m.synced = len(got)
	m.check()
}

func (m *storeModel) check() {
	m.a.file()
	m.a.rec.Min = m.min
	m.a.rec.Queues = nil
	m.a.checkContents(m.a.stored)
}

func (m *storeModel) step() {
	switch rapid.SampledFrom([]string{"append", "append", "append", "sync", "sync", "file", "checkpoint", "truncate", "expire", "stop", "kill", "power", "prepare"}).Draw(m.t, "op") {
	case "append":
		n := rapid.IntRange(1, 4).Draw(m.t, "batch")
		var drafts []Draft
		for range n {
			size := rapid.IntRange(1, 900).Draw(m.t, "size")
			drafts = append(drafts, message(rapid.SampledFrom([]string{"A", "B"}).Draw(m.t, "topic"), int32(n%3), string(make([]byte, 1))+body(size)))
		}
		m.a.append(drafts...)
	case "sync":
		m.a.sync()
		m.synced = len(m.a.stored)
	case "file":
		m.a.file()
	case "checkpoint":
		m.a.checkpoint()
	case "prepare":
		m.a.must(Op{Kind: OpPrepare, Off: (m.a.end + 4095) / 4096 * 4096})
	case "truncate":
		i := rapid.IntRange(0, len(m.a.stored)).Draw(m.t, "keep")
		off := m.a.end
		if i < len(m.a.stored) {
			off = physical(m.a.stored[i])
		}
		m.a.truncate(off)
		m.synced = min(m.synced, len(m.a.stored))
		m.check()
	case "expire":
		off := ha.LogOffset(rapid.Int64Range(0, int64(m.a.synced)).Draw(m.t, "off"))
		m.a.file()
		r := m.a.must(Op{Kind: OpExpire, Off: off, Confirm: m.a.end})
		m.min = ha.LogOffset(r.Offset)
		n := len(m.a.stored)
		m.a.stored = slices.DeleteFunc(m.a.stored, func(b []byte) bool { return physical(b) < m.min })
		m.synced = max(m.synced-(n-len(m.a.stored)), 0)
		m.check()
	case "stop":
		m.a.stop()
		m.synced = len(m.a.stored)
		m.open()
		if !m.a.rec.Clean || m.a.rec.End != m.a.end {
			m.t.Fatalf("after a clean stop: %+v", m.a.rec)
		}
	case "kill":
		m.fsys.Crash(vfs.ProcessExit, nil)
		m.synced = len(m.a.stored) // the cache survives a process
		m.open()
	case "power":
		seed := rapid.Uint64().Draw(m.t, "crash")
		m.fsys.Crash(vfs.PowerLoss, func(site string, key uint64) uint64 {
			return prng.Hash(seed, prng.HashString(site), key)
		})
		m.open()
	}
}

// TestStoreModel runs random lives of a store against a list of records.
func TestStoreModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &storeModel{t: t, fsys: vfs.NewMem(vfs.MemOptions{})}
		m.open()
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			m.step()
		}
		m.check()
	})
}
