package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t testing.TB, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("%s: got %v, want %v", what, err, target)
	}
}

// durable makes a file whose bytes and name are durable and returns a handle.
func durable(t testing.TB, m *Mem, name, data string) File {
	t.Helper()
	f, err := m.Create(name)
	must(t, err)
	_, err = f.WriteAt([]byte(data), 0)
	must(t, err)
	must(t, f.Sync())
	dir, _ := splitName(name)
	must(t, m.SyncDir(dir))
	return f
}

func write(t testing.TB, f File, off int64, data string) {
	t.Helper()
	_, err := f.WriteAt([]byte(data), off)
	must(t, err)
}

func content(t testing.TB, fsys FS, name string) string {
	t.Helper()
	b, err := ReadFile(fsys, name)
	must(t, err)
	return string(b)
}

func fill(c byte, n int) string { return strings.Repeat(string(c), n) }

func TestStopAfter(t *testing.T) {
	program := func(m *Mem) error { return WriteAtomic(m, "f", []byte("new")) }
	m := NewMem(MemOptions{})
	must(t, program(m))
	total := m.OpCount()
	if total != 5 { // create, write, sync, rename, syncdir
		t.Fatalf("%d steps", total)
	}
	for k := range total {
		m := NewMem(MemOptions{})
		m.StopAfter(k)
		wantErr(t, fmt.Sprintf("step %d", k+1), program(m), ErrStopped)
		if m.OpCount() != k || !m.Stopped() {
			t.Fatalf("stopped after %d of %d steps", m.OpCount(), k)
		}
		_, err := m.List(".")
		wantErr(t, "anything later", err, ErrStopped)
		m.Crash(ProcessExit, nil)
		must(t, program(m))
	}
}

func TestTruth(t *testing.T) {
	m := NewMem(MemOptions{})
	f := durable(t, m, "a", fill('s', 6000))
	write(t, f, 6000, fill('u', 1000))
	if b, ok := m.CachedAt("a", 5990, 20); !ok || string(b) != fill('s', 10)+fill('u', 10) {
		t.Fatalf("cached %q %v", b, ok)
	}
	if _, ok := m.DurableAt("a", 5990, 20); ok {
		t.Fatal("unsynced bytes are durable")
	}
	if b, ok := m.DurableAt("a", 4000, 2000); !ok || string(b) != fill('s', 2000) {
		t.Fatal("synced bytes over a page boundary are not durable")
	}
	must(t, f.Sync())
	if b, ok := m.DurableAt("a", 5990, 20); !ok || string(b) != fill('s', 10)+fill('u', 10) {
		t.Fatalf("durable %q %v", b, ok)
	}
	must(t, m.Rename("a", "b"))
	if _, ok := m.DurableAt("b", 0, 1); ok {
		t.Fatal("an unsynced name is durable")
	}
	if _, ok := m.CachedAt("a", 0, 1); ok {
		t.Fatal("the old name is cached")
	}
	must(t, m.SyncDir("."))
	if size, ok := m.DurableSize("b"); !ok || size != 7000 {
		t.Fatalf("durable size %d %v", size, ok)
	}
	must(t, f.Allocate(1<<30))
	must(t, f.Sync())
	if b, ok := m.DurableAt("b", 1<<29, 100); !ok || string(b) != fill(0, 100) {
		t.Fatal("allocated bytes are not durable zeros")
	}
	for _, bad := range []struct {
		off int64
		n   int
	}{{-1, 1}, {0, -1}, {1 << 30, 1}} {
		if _, ok := m.DurableAt("b", bad.off, bad.n); ok {
			t.Fatalf("durable at %d+%d", bad.off, bad.n)
		}
	}
}

func TestSnapshotRestoreWipe(t *testing.T) {
	m := NewMem(MemOptions{})
	must(t, MkdirAllSync(m, "d"))
	f := durable(t, m, "d/a", "then")
	write(t, f, 0, "THEN") // unsynced: not in the image
	img := m.Snapshot()
	if got := content(t, m, "d/a"); got != "THEN" {
		t.Fatal("the snapshot disturbed the disk")
	}
	write(t, f, 0, "now!")
	must(t, f.Sync())
	m.Wipe()
	if names, err := m.List("."); err != nil || len(names) != 0 {
		t.Fatalf("after wipe: %v %v", names, err)
	}
	wantErr(t, "handle after wipe", f.Sync(), ErrStale)
	for range 2 { // an image can be restored again and again
		m.Restore(img)
		if got := content(t, m, "d/a"); got != "then" {
			t.Fatalf("restored %q", got)
		}
		if !m.DurableEqual("d/a", 0, []byte("then")) {
			t.Fatal("restored bytes are not durable")
		}
		f, err := m.Open("d/a")
		must(t, err)
		write(t, f, 0, "scribble")
		must(t, f.Sync())
	}
}

func TestSparse(t *testing.T) {
	m := NewMem(MemOptions{})
	allocs := testing.AllocsPerRun(5, func() {
		f, err := m.Create("seg")
		must(t, err)
		must(t, f.Allocate(1<<30))
		must(t, f.Sync())
		must(t, f.Close())
	})
	if allocs > 20 {
		t.Fatalf("a 1 GiB segment took %v allocations", allocs)
	}
}

func TestCloneIsApart(t *testing.T) {
	m := NewMem(MemOptions{})
	f := durable(t, m, "a", fill('s', 100))
	write(t, f, 100, fill('d', 100)) // dirty in both
	c := m.Clone()
	write(t, f, 100, fill('m', 100))
	if got := content(t, c, "a"); got != fill('s', 100)+fill('d', 100) {
		t.Fatal("the clone sees later writes")
	}
	must(t, f.Sync())
	c.Crash(PowerLoss, KeepNothing)
	if got := content(t, c, "a"); got != fill('s', 100) {
		t.Fatal("the clone's platter sees later syncs")
	}
}

func BenchmarkMemAppendSync1K(b *testing.B) {
	m := NewMem(MemOptions{})
	p := bytes.Repeat([]byte("x"), 1024)
	const segment = 16 << 20
	var f File
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		off := int64(i) * 1024 % segment
		if off == 0 {
			if f != nil {
				must(b, f.Close())
			}
			var err error
			f, err = m.Create("seg")
			must(b, err)
			must(b, f.Allocate(segment))
			must(b, f.Sync())
		}
		if _, err := f.WriteAt(p, off); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMemDurableAt1K(b *testing.B) {
	m := NewMem(MemOptions{})
	must(b, MkdirAllSync(m, "store/commitlog"))
	durable(b, m, "store/commitlog/00000000000000000000", fill('x', 1<<20))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, ok := m.DurableAt("store/commitlog/00000000000000000000", int64(i*1000)%(1<<20-1024), 1024); !ok {
			b.Fatal("not durable")
		}
	}
}

func BenchmarkMemCrashClone(b *testing.B) {
	m := NewMem(MemOptions{})
	f := durable(b, m, "a", fill('x', 1<<20))
	write(b, f, 1<<20, fill('y', 10_000))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		m.CrashClone(PowerLoss, seeded(uint64(i)))
	}
}
