package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"lockstep/internal/prng"
)

// seeded is a keyed Decide.
func seeded(seed uint64) Decide {
	return func(site string, key uint64) uint64 { return prng.Hash(seed, prng.HashString(site), key) }
}

func TestProcessExitKeepsTheCache(t *testing.T) {
	m := NewMem(MemOptions{})
	f := durable(t, m, "a", "old")
	write(t, f, 0, "new bytes")
	lock, err := m.Lock("lock")
	must(t, err)
	m.Crash(ProcessExit, seeded(1))
	if got := content(t, m, "a"); got != "new bytes" {
		t.Fatalf("cache lost: %q", got)
	}
	_, err = f.WriteAt([]byte("x"), 0)
	wantErr(t, "old handle", err, ErrStale)
	wantErr(t, "old handle's sync", f.Sync(), ErrStale)
	wantErr(t, "old handle's close", f.Close(), ErrStale)
	wantErr(t, "old lock", lock.Close(), ErrStale)
	lock, err = m.Lock("lock")
	must(t, err)
	must(t, lock.Close())
	// It was in the cache only: a power loss now still takes it.
	m.Crash(PowerLoss, KeepNothing)
	if got := content(t, m, "a"); got != "old" {
		t.Fatalf("a process exit made bytes durable: %q", got)
	}
	if _, err := m.Stat("lock"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a name without SyncDir survived: %v", err)
	}
}

func TestPowerLossKeepsWhatWasSynced(t *testing.T) {
	for seed := range uint64(300) {
		m := NewMem(MemOptions{})
		must(t, MkdirAllSync(m, "d"))
		f := durable(t, m, "d/log", fill('s', 10_000))
		write(t, f, 10_000, fill('u', 9_000)) // unsynced tail in the middle of a sector
		write(t, f, 0, fill('s', 300))        // rewritten with equal bytes
		write(t, f, 600, fill('w', 100))      // overwritten
		m.Crash(PowerLoss, seeded(seed))
		got := content(t, m, "d/log")
		if len(got) < 10_000 || len(got) > 19_000 {
			t.Fatalf("seed %d: size %d", seed, len(got))
		}
		if got[:600] != fill('s', 600) || got[700:10_000] != fill('s', 9_300) {
			t.Fatalf("seed %d: synced bytes are damaged", seed)
		}
	}
}

// TestPowerLossOutcomes demands that drawn crashes reach every kind of outcome.
func TestPowerLossOutcomes(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(400) {
		m := NewMem(MemOptions{})
		f := durable(t, m, "a", fill('o', 16384))
		write(t, f, 0, fill('n', 16384+5000))
		for i := range 4 {
			_, err := m.Create(fmt.Sprintf("f%d", i))
			must(t, err)
		}
		m.Crash(PowerLoss, seeded(seed))
		got := content(t, m, "a")
		n, o := strings.Count(got, "n"), strings.Count(got[:16384], "o")
		count := func(what string, is bool) {
			if is {
				seen[what]++
			}
		}
		count("all", n == 21384)
		count("none", len(got) == 16384 && o == 16384)
		count("size only", len(got) == 21384 && o == 16384 && n == 0)
		count("torn size", len(got) > 16384 && len(got) < 21384)
		count("hole", n > 0 && o > 0 && strings.Index(got, "n") > strings.Index(got, "o"))
		count("garbled", strings.ContainsFunc(got, func(r rune) bool { return r != 'n' && r != 'o' && r != 0 }))
		names, err := m.List(".")
		must(t, err)
		count(fmt.Sprintf("%d names", len(names)), true)
		has := strings.Join(names, " ")
		count("names with a gap", strings.Contains(has, "f3") && !strings.Contains(has, "f1"))
	}
	for _, what := range []string{"all", "none", "size only", "torn size", "hole", "garbled", "1 names", "3 names",
		"5 names", "names with a gap"} {
		if seen[what] < 4 {
			t.Errorf("outcome %q reached %d times in 400 crashes", what, seen[what])
		}
	}
}

func TestCrashIsReplayable(t *testing.T) {
	build := func() *Mem {
		m := NewMem(MemOptions{})
		must(t, m.MkdirAll("x/y"))
		for i := range 20 {
			f, err := m.Create(fmt.Sprintf("x/y/f%d", i*7%20))
			must(t, err)
			write(t, f, int64(i*300), fill(byte('a'+i), 5000))
			if i%3 == 0 {
				must(t, f.Sync())
			}
		}
		must(t, m.SyncDir("."))
		must(t, m.SyncDir("x"))
		return m
	}
	distinct := map[uint64]bool{}
	for seed := range uint64(20) {
		a, b := build(), build()
		clone := a.CrashClone(PowerLoss, seeded(seed))
		a.Crash(PowerLoss, seeded(seed))
		b.Crash(PowerLoss, seeded(seed))
		if a.Fingerprint() != b.Fingerprint() || a.Fingerprint() != clone.Fingerprint() {
			t.Fatalf("seed %d: equal calls gave different states", seed)
		}
		distinct[a.Fingerprint()] = true
	}
	if len(distinct) < 15 {
		t.Fatalf("20 seeds gave only %d states", len(distinct))
	}
}

func TestCrashCloneLeavesTheOriginal(t *testing.T) {
	m := NewMem(MemOptions{})
	f := durable(t, m, "a", fill('s', 5000))
	write(t, f, 1000, fill('u', 6000))
	before := m.Fingerprint()
	c := m.CrashClone(PowerLoss, KeepNothing)
	g, err := c.Open("a")
	must(t, err)
	write(t, g, 0, fill('c', 9000))
	must(t, g.Sync())
	if m.Fingerprint() != before {
		t.Fatal("writing to the clone changed the original")
	}
	write(t, f, 0, fill('m', 100)) // the old handle still works
	must(t, f.Sync())
	if got := content(t, c, "a"); got != fill('c', 9000) {
		t.Fatal("writing to the original changed the clone")
	}
	if !m.DurableEqual("a", 0, []byte(fill('m', 100)+fill('s', 900)+fill('u', 6000))) {
		t.Fatal("the original did not go on")
	}
}

func TestSpaceAfterCrash(t *testing.T) {
	for seed := range uint64(60) {
		m := NewMem(MemOptions{Capacity: 100 * PageSize})
		f := durable(t, m, "a", fill('a', 10*PageSize))
		must(t, f.Allocate(20*PageSize))
		must(t, f.Truncate(15*PageSize))
		g, err := m.Create("b")
		must(t, err)
		write(t, g, 0, fill('b', 3*PageSize))
		must(t, m.Remove("a"))
		m.Crash(PowerLoss, seeded(seed))
		for _, name := range []string{"a", "b"} {
			if ok, _ := Exists(m, name); ok {
				h, err := m.Open(name)
				must(t, err)
				must(t, h.Truncate(0))
				must(t, m.Remove(name))
				must(t, h.Close())
			}
		}
		u, err := m.Usage(".")
		must(t, err)
		if u.Free != u.Total {
			t.Fatalf("seed %d: %d bytes leaked", seed, u.Total-u.Free)
		}
	}
}

func TestWritebackMixesVersions(t *testing.T) {
	m := NewMem(MemOptions{})
	f := durable(t, m, "a", fill('1', 2*PageSize))
	write(t, f, 0, fill('2', 2*PageSize))
	must(t, m.Writeback("a", func(string, uint64) uint64 { return 1 }))
	write(t, f, 0, fill('3', 2*PageSize))
	m.Crash(PowerLoss, KeepNothing)
	if got := content(t, m, "a"); got != fill('2', 2*PageSize) {
		t.Fatalf("holds %.3q", got)
	}
}

// fixed answers sites by name, 0 where none is given.
func fixed(values map[string]uint64) Decide {
	return func(site string, _ uint64) uint64 { return values[site] }
}

func TestCrashAfterTruncateAndRegrow(t *testing.T) {
	for _, c := range []struct {
		name   string
		decide map[string]uint64
		want   string
	}{
		{"sizes kept, bytes lost", map[string]uint64{SiteFile: BytesSize}, fill('o', 100) + fill(0, 19900)},
		{"cut lost, bytes kept", map[string]uint64{SiteFile: BytesSectors, SiteSize: 2},
			fill('n', PageSize) + fill('o', 16384-PageSize)},
		{"cut kept, growth lost", map[string]uint64{SiteFile: BytesSectors, SiteSize: 1}, fill('n', 100)},
		{"all kept", nil, fill('n', 20000)},
		{"none kept", map[string]uint64{SiteFile: BytesNone}, fill('o', 16384)},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := NewMem(MemOptions{})
			f := durable(t, m, "a", fill('o', 16384))
			must(t, f.Truncate(100))
			write(t, f, 0, fill('n', 20000))
			m.Crash(PowerLoss, fixed(c.decide))
			got := content(t, m, "a")
			if got != c.want {
				t.Fatalf("%d bytes, want %d: %.120q", len(got), len(c.want), got)
			}
			// Whatever came back, a regrown file reads zeros.
			f, err := m.Open("a")
			must(t, err)
			must(t, f.Truncate(30000))
			if got := content(t, m, "a"); got != c.want+fill(0, 30000-len(c.want)) {
				t.Fatal("regrown bytes are not zero")
			}
		})
	}
}

func TestRegrowAfterCrashInsideSector(t *testing.T) {
	m := NewMem(MemOptions{})
	f := durable(t, m, "a", "")
	write(t, f, 0, fill('1', 1000))
	write(t, f, 1000, fill('2', 1000))
	m.Crash(PowerLoss, fixed(map[string]uint64{SiteFile: BytesSectors, SiteSize: 1}))
	f, err := m.Open("a")
	must(t, err)
	must(t, f.Truncate(2000))
	if got := content(t, m, "a"); got != fill('1', 1000)+fill(0, 1000) {
		t.Fatalf("bytes behind the end came back: %q", got[990:1010])
	}
}

func TestUnsyncedAllocationIsGivenBack(t *testing.T) {
	m := NewMem(MemOptions{Capacity: 100 * PageSize})
	f := durable(t, m, "a", fill('a', 10*PageSize))
	must(t, f.Allocate(50*PageSize))
	m.Crash(PowerLoss, KeepNothing)
	u, err := m.Usage(".")
	must(t, err)
	if u.Free != 90*PageSize {
		t.Fatalf("%d pages free, want 90", u.Free/PageSize)
	}
}

// TestRenameAcrossNeverLosesAFile: whatever is kept of each directory, the file has one of
// its names.
func TestRenameAcrossNeverLosesAFile(t *testing.T) {
	for seed := range uint64(200) {
		m := NewMem(MemOptions{})
		must(t, MkdirAllSync(m, "a"))
		must(t, MkdirAllSync(m, "b"))
		durable(t, m, "a/x", "old")
		must(t, m.Rename("a/x", "b/y"))
		_, err := m.Create("a/x")
		must(t, err)
		m.Crash(PowerLoss, seeded(seed))
		at := ""
		for _, name := range []string{"a/x", "b/y"} {
			if ok, _ := Exists(m, name); ok && content(t, m, name) == "old" {
				at += name
			}
		}
		if at != "a/x" && at != "b/y" {
			t.Fatalf("seed %d: the file is at %q", seed, at)
		}
	}
}

func TestSyncDirTakesWhatItNeeds(t *testing.T) {
	m := NewMem(MemOptions{})
	for _, d := range []string{"a", "b", "c"} {
		must(t, MkdirAllSync(m, d))
	}
	durable(t, m, "a/x", "1")
	must(t, m.Rename("a/x", "b/y"))
	must(t, m.Rename("b/y", "c/z"))
	must(t, m.SyncDir("c"))
	for _, decide := range []Decide{nil, KeepNothing} {
		c := m.CrashClone(PowerLoss, decide)
		if got := content(t, c, "c/z"); got != "1" {
			t.Fatalf("holds %q", got)
		}
		for _, d := range []string{"a", "b"} {
			if names, err := c.List(d); err != nil || len(names) != 0 {
				t.Fatalf("%s lists %v, %v", d, names, err)
			}
		}
	}
}

// TestBackgroundCommit drives the limit of names that wait for SyncDir.
func TestBackgroundCommit(t *testing.T) {
	m := NewMem(MemOptions{})
	for i := range maxDirOps + 10 {
		_, err := m.Create(fmt.Sprintf("f%04d", i))
		must(t, err)
	}
	m.Crash(PowerLoss, KeepNothing)
	names, err := m.List(".")
	must(t, err)
	if len(names) != 10 || names[9] != "f0009" {
		t.Fatalf("the oldest 10 should be durable: %v", names)
	}
}

// TestStepLimit drives the limit of remembered sizes: the oldest stay possible outcomes.
func TestStepLimit(t *testing.T) {
	m := NewMem(MemOptions{})
	f := durable(t, m, "a", "")
	for i := range 3 * maxSteps {
		write(t, f, int64(i), "x")
	}
	for lost, want := range map[uint64]int{0: 3 * maxSteps, 1: maxSteps - 1, maxSteps: 0} {
		c := m.CrashClone(PowerLoss, fixed(map[string]uint64{SiteFile: BytesSectors, SiteSize: lost}))
		if got := content(t, c, "a"); got != fill('x', want) {
			t.Fatalf("%d steps lost: %d bytes, want %d", lost, len(got), want)
		}
	}
}

func TestKeptPieceHealsItsSector(t *testing.T) {
	m := NewMem(MemOptions{})
	f := durable(t, m, "a", fill('s', PageSize))
	must(t, m.BadSector("a", 10))
	must(t, m.BadSector("a", 600))
	write(t, f, 0, fill('n', SectorSize))
	m.Crash(PowerLoss, fixed(map[string]uint64{SiteFile: BytesSectors}))
	p := make([]byte, PageSize)
	f, err := m.Open("a")
	must(t, err)
	n, err := f.ReadAt(p, 0)
	wantErr(t, "read", err, ErrIO)
	if n != SectorSize || string(p[:n]) != fill('n', SectorSize) {
		t.Fatalf("%d bytes before the sector that stayed bad", n)
	}
}
