package vfs

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"
)

func TestFsyncGate(t *testing.T) {
	rules := NewRules(Rule{Kind: OpSync, Prefix: "a", From: 2, Count: 1, Fault: Fault{Err: ErrIO, Drop: true}})
	m := NewMem(MemOptions{Faults: rules})
	f := durable(t, m, "a", fill('s', 1000))
	write(t, f, 1000, fill('x', 500))
	wantErr(t, "sync", f.Sync(), ErrIO)
	must(t, f.Sync()) // and then it reports success
	if rules.Fired(0) != 1 {
		t.Fatalf("rule fired %d times", rules.Fired(0))
	}
	if got := content(t, m, "a"); got != fill('s', 1000)+fill('x', 500) {
		t.Fatal("the pages are not readable after the failed fsync")
	}
	if m.DurableEqual("a", 1000, []byte(fill('x', 500))) {
		t.Fatal("dropped pages count as durable")
	}
	// A restarted process reads good bytes; only dropping the cache shows the truth.
	m.Crash(ProcessExit, nil)
	f, err := m.Open("a")
	must(t, err)
	if got := content(t, m, "a"); got[1000:] != fill('x', 500) {
		t.Fatal("a process exit lost the cache")
	}
	c := m.CrashClone(PowerLoss, nil)
	if got := content(t, c, "a"); got != fill('s', 1000)+fill(0, 500) {
		t.Fatalf("power loss left %q", got[1000:])
	}
	must(t, f.DropCache(0, 1500))
	if got := content(t, m, "a"); got != fill('s', 1000)+fill(0, 500) {
		t.Fatalf("after the cache was dropped: %q", got[1000:])
	}
}

// TestGateHealedByRewrite: rewriting is what recovery does (rule P5a).
func TestGateHealedByRewrite(t *testing.T) {
	m := NewMem(MemOptions{Faults: NewRules(Rule{Kind: OpSync, From: 2, Count: 1, Fault: Fault{Err: ErrIO, Drop: true}})})
	f := durable(t, m, "a", fill('s', 1000))
	write(t, f, 1000, fill('x', 500))
	wantErr(t, "sync", f.Sync(), ErrIO)
	write(t, f, 1000, fill('x', 500))
	must(t, f.Sync())
	m.Crash(PowerLoss, KeepNothing)
	if got := content(t, m, "a"); got != fill('s', 1000)+fill('x', 500) {
		t.Fatal("rewritten and synced bytes were lost")
	}
}

func TestFailedSyncKeepsPagesDirtyWithoutDrop(t *testing.T) {
	m := NewMem(MemOptions{Faults: NewRules(
		Rule{Kind: OpSync, From: 2, Count: 1, Fault: Fault{Err: ErrIO, Pages: 1}})})
	f := durable(t, m, "a", fill('s', 3*PageSize))
	write(t, f, 0, fill('x', 3*PageSize))
	wantErr(t, "sync", f.Sync(), ErrIO)
	if !m.DurableEqual("a", 0, []byte(fill('x', PageSize)+fill('s', 2*PageSize))) {
		t.Fatal("one page should have reached the platter")
	}
	must(t, f.Sync())
	if !m.DurableEqual("a", 0, []byte(fill('x', 3*PageSize))) {
		t.Fatal("pages that stayed dirty were not synced later")
	}
}

func TestLyingDevice(t *testing.T) {
	m := NewMem(MemOptions{Faults: NewRules(
		Rule{Kind: OpSync, From: 2, Count: 1, Fault: Fault{Lie: true}},
		Rule{Kind: OpSyncDir, From: 2, Fault: Fault{Lie: true}})})
	f := durable(t, m, "a", "old")
	write(t, f, 0, "new")
	must(t, f.Sync())
	must(t, f.DropCache(0, 3))
	if got := content(t, m, "a"); got != "new" {
		t.Fatalf("the device's own cache was not read: %q", got)
	}
	must(t, m.Rename("a", "b"))
	must(t, m.SyncDir("."))
	if _, ok := m.DurableAt("b", 0, 3); ok {
		t.Fatal("a lie made a name durable")
	}
	c := m.CrashClone(PowerLoss, KeepNothing)
	if got := content(t, c, "a"); got != "old" {
		t.Fatalf("a lie made bytes durable: %q", got)
	}
	must(t, f.Sync()) // the next one is honest
	if !m.DurableEqual("a", 0, []byte("new")) {
		t.Fatal("an honest sync after the lie left bytes out")
	}
}

func TestMisdirectedWrite(t *testing.T) {
	m := NewMem(MemOptions{})
	durable(t, m, "victim", fill('v', 2*PageSize))
	f := durable(t, m, "a", fill('s', PageSize))
	m.SetFaults(NewRules(Rule{Kind: OpSync, Count: 1,
		Fault: Fault{Misdirect: &Misdirect{Page: 100, Name: "victim", Off: PageSize + 5}}}))
	write(t, f, 0, fill('x', PageSize))
	must(t, f.Sync())
	if got := content(t, m, "a") + content(t, m, "victim"); got != fill('x', PageSize)+fill('v', 2*PageSize) {
		t.Fatal("the cache shows the misdirected write")
	}
	m.Crash(PowerLoss, KeepNothing)
	if got := content(t, m, "a"); got != fill('s', PageSize) {
		t.Fatal("the misdirected page reached its own place")
	}
	if got := content(t, m, "victim"); got != fill('v', PageSize)+fill('x', PageSize) {
		t.Fatal("the victim was not overwritten")
	}
}

func TestRotAndBadSectors(t *testing.T) {
	m := NewMem(MemOptions{})
	f := durable(t, m, "a", fill('s', 2*PageSize))
	must(t, m.Rot("a", 700, 0x01))
	must(t, m.BadSector("a", PageSize+1024))
	if got := content(t, m, "a"); got != fill('s', 2*PageSize) {
		t.Fatal("the cache does not hide the damage")
	}
	if _, ok := m.DurableAt("a", PageSize+1000, 100); ok {
		t.Fatal("an unreadable sector counts as durable")
	}
	if m.DurableEqual("a", 690, []byte(fill('s', 20))) {
		t.Fatal("rot counts as durable")
	}
	must(t, f.DropCache(0, 2*PageSize))
	for range 3 { // a retry sees the same
		p := make([]byte, PageSize)
		_, err := f.ReadAt(p, 0)
		must(t, err)
		if p[700] != 's'^1 || p[699] != 's' {
			t.Fatal("no rot at 700")
		}
		n, err := f.ReadAt(p, PageSize)
		wantErr(t, "read of a bad sector", err, ErrIO)
		if n != 1024 {
			t.Fatalf("%d bytes before the bad sector, want 1024", n)
		}
	}
	_, err := f.WriteAt([]byte("x"), PageSize)
	wantErr(t, "write that must read the page first", err, ErrIO)
	write(t, f, PageSize, fill('h', PageSize)) // a whole page needs no read and heals
	must(t, f.Sync())
	must(t, f.DropCache(0, 2*PageSize))
	if got := content(t, m, "a"); got[PageSize:] != fill('h', PageSize) {
		t.Fatal("a rewritten page was not healed")
	}
	wantErr(t, "rot of a missing file", m.Rot("b", 0, 1), fs.ErrNotExist)
	wantErr(t, "rot behind the end", m.Rot("a", 2*PageSize, 1), fs.ErrInvalid)
}

func TestRotUnderDirtyPage(t *testing.T) {
	m := NewMem(MemOptions{})
	f := durable(t, m, "a", fill('s', 1000))
	write(t, f, 0, "x")
	must(t, m.Rot("a", 500, 0xff))
	must(t, f.Sync()) // whole pages are written back
	if !m.DurableEqual("a", 0, []byte("x"+fill('s', 999))) {
		t.Fatal("write-back of the page left the rot")
	}
}

func TestPickDurable(t *testing.T) {
	m := NewMem(MemOptions{})
	f := durable(t, m, "a", "")
	must(t, f.Allocate(1<<30))
	write(t, f, 1<<20, fill('x', PageSize))
	must(t, f.Sync())
	for key := range uint64(50) {
		off, ok := m.PickDurable("a", 0, key)
		again, _ := m.PickDurable("a", 0, key)
		if !ok || off < 1<<20 || off >= 1<<20+PageSize || off != again {
			t.Fatalf("key %d picked %d, %v, then %d", key, off, ok, again)
		}
	}
	if _, ok := m.PickDurable("a", 1<<21, 1); ok {
		t.Fatal("picked where nothing was written")
	}
}

func TestDiskFull(t *testing.T) {
	m := NewMem(MemOptions{Capacity: 10 * PageSize})
	f, err := m.Create("a")
	must(t, err)
	must(t, f.Allocate(6*PageSize))
	free := func(want int64) {
		t.Helper()
		u, err := m.Usage(".")
		must(t, err)
		if u != (Usage{Total: 10 * PageSize, Free: want * PageSize}) {
			t.Fatalf("usage %+v, want %d pages free", u, want)
		}
	}
	free(4)
	g, err := m.Create("b")
	must(t, err)
	n, err := g.WriteAt(make([]byte, 5*PageSize), 100)
	wantErr(t, "write", err, ErrNoSpace)
	if n != 4*PageSize-100 {
		t.Fatalf("wrote %d bytes", n)
	}
	free(0)
	wantErr(t, "allocate", g.Allocate(20*PageSize), ErrNoSpace)
	write(t, f, 0, fill('x', 6*PageSize)) // reserved room needs no more space
	write(t, g, 0, fill('y', 4*PageSize)) // nor does overwriting
	must(t, g.Truncate(PageSize))
	free(3)
	must(t, f.Allocate(8*PageSize))
	free(1)
	must(t, m.Remove("a"))
	free(1) // still open
	must(t, f.Close())
	free(9)
	m.SetCapacity(20 * PageSize)
	must(t, g.Allocate(20*PageSize))
	must(t, g.Sync())
	must(t, m.SyncDir("."))
	m.Crash(PowerLoss, KeepNothing)
	u, err := m.Usage(".")
	must(t, err)
	if u.Free != 0 {
		t.Fatalf("a crash forgot what is allocated: %+v", u)
	}
}

func TestErrorsOnceAndForGood(t *testing.T) {
	m := NewMem(MemOptions{Faults: NewRules(
		Rule{Kind: OpWrite, Prefix: "once", From: 2, Count: 1, Fault: Fault{Err: ErrIO, Done: 3}},
		Rule{Kind: OpRead, Prefix: "dead", Fault: Fault{Err: ErrIO, Delay: time.Second}})})
	f, err := m.Create("once")
	must(t, err)
	write(t, f, 0, "abcdef")
	n, err := f.WriteAt([]byte("ABCDEF"), 0)
	wantErr(t, "second write", err, ErrIO)
	if got := content(t, m, "once"); n != 3 || got != "ABCdef" {
		t.Fatalf("short write: %d, %q", n, got)
	}
	write(t, f, 0, "ghijkl")
	d := durable(t, m, "dead", "x")
	for range 3 {
		_, err := d.ReadAt(make([]byte, 1), 0)
		wantErr(t, "read", err, ErrIO)
	}
	if got := m.TakeDelay(); got != 3*time.Second {
		t.Fatalf("delays %v", got)
	}
	if got := m.TakeDelay(); got != 0 {
		t.Fatalf("delays are told twice: %v", got)
	}
}

func TestReadOnly(t *testing.T) {
	m := NewMem(MemOptions{})
	f := durable(t, m, "a", "x")
	m.SetReadOnly(true)
	_, err := f.WriteAt([]byte("y"), 0)
	wantErr(t, "write", err, ErrReadOnly)
	_, err = m.Create("b")
	wantErr(t, "create", err, ErrReadOnly)
	wantErr(t, "remove", m.Remove("a"), ErrReadOnly)
	must(t, f.Sync())
	if got := content(t, m, "a"); got != "x" {
		t.Fatalf("holds %q", got)
	}
	m.SetReadOnly(false)
	write(t, f, 0, "y")
}

// TestHookSees pins what the fault hook is told.
func TestHookSees(t *testing.T) {
	var got []string
	m := NewMem(MemOptions{Faults: FaultFunc(func(op Op) Fault {
		got = append(got, fmt.Sprintf("%s %s>%s %d+%d #%d", op.Kind, op.Name, op.NewName, op.Off, op.Len, op.Step))
		return Fault{}
	})})
	must(t, m.MkdirAll("d"))
	f, err := m.Create("d/a")
	must(t, err)
	write(t, f, 7, "abc")
	must(t, f.Allocate(100))
	must(t, f.Sync())
	_, err = f.ReadAt(make([]byte, 2), 8)
	must(t, err)
	must(t, m.Rename("d/a", "d/b"))
	must(t, f.Truncate(5)) // the handle goes by the new name
	must(t, m.SyncDir("d"))
	must(t, m.Remove("d/b"))
	want := []string{"mkdir d> 0+0 #1", "create d/a> 0+0 #2", "write d/a> 7+3 #3", "allocate d/a> 100+0 #4",
		"sync d/a> 0+0 #5", "read d/a> 8+2 #5", "rename d/a>d/b 0+0 #6", "truncate d/b> 5+0 #7",
		"syncdir d> 0+0 #8", "remove d/b> 0+0 #9"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Fatalf("hook saw\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestStalePageIsWrittenWhole(t *testing.T) {
	m := NewMem(MemOptions{Faults: NewRules(Rule{Kind: OpSync, From: 2, Count: 1, Fault: Fault{Err: ErrIO, Drop: true}})})
	f := durable(t, m, "a", fill('s', 2000))
	write(t, f, 1000, fill('x', 500))
	wantErr(t, "sync", f.Sync(), ErrIO)
	write(t, f, 0, "y") // elsewhere in the page
	must(t, f.Sync())
	if !m.DurableEqual("a", 0, []byte("y"+fill('s', 999)+fill('x', 500)+fill('s', 500))) {
		t.Fatal("kernels write whole pages back")
	}
}
