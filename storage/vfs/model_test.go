package vfs

import (
	"bytes"
	"fmt"
	"testing"

	"lockstep/internal/prng"
)

// disk is a plain model of two files, for TestManyCycles.
type disk struct {
	m              *Mem
	f              [2]File
	cached, synced [2][]byte
}

func (d *disk) open(t *testing.T) {
	for i := range d.f {
		f, err := d.m.Open(fmt.Sprint(i))
		must(t, err)
		d.f[i] = f
	}
}

func (d *disk) check(t *testing.T, round int) {
	for i := range d.f {
		if got := content(t, d.m, fmt.Sprint(i)); got != string(d.cached[i]) {
			t.Fatalf("round %d: the cache of %d differs", round, i)
		}
		if !d.m.DurableEqual(fmt.Sprint(i), 0, d.synced[i]) {
			t.Fatalf("round %d: the platter of %d differs", round, i)
		}
	}
}

func (d *disk) change(t *testing.T, i int, src *prng.Source) {
	have := &d.cached[i]
	grow := func(n int) { *have = append(*have, make([]byte, max(0, n-len(*have)))...) }
	switch src.Intn(7) {
	case 0, 1, 2:
		p := bytes.Repeat([]byte{byte(src.Intn(255) + 1)}, src.Intn(6000)+1)
		off := src.Intn(min(len(*have), 60_000) + 3000)
		write(t, d.f[i], int64(off), string(p))
		grow(off + len(p))
		copy((*have)[off:], p)
	case 3:
		n := src.Intn(len(*have) + 5000)
		must(t, d.f[i].Truncate(int64(n)))
		grow(n)
		*have = (*have)[:n:n]
	case 4:
		must(t, d.f[i].Sync())
		d.synced[i] = bytes.Clone(*have)
	case 5:
		must(t, d.f[i].DropCache(0, 1<<20))
	case 6:
		n := len(*have) + src.Intn(9000)
		must(t, d.f[i].Allocate(int64(n)))
		grow(n)
	}
}

func (d *disk) crash(t *testing.T, round int, src *prng.Source) {
	outcome := src.Intn(3) // all kept, nothing kept, drawn
	draw := [...]Decide{nil, KeepNothing, seeded(src.Uint64())}[outcome]
	kind := CrashKind(src.Intn(2))
	// A clone shares pages and recycles none: equality shows that recycling is sound.
	clone := d.m.CrashClone(kind, draw)
	d.m.Crash(kind, draw)
	if clone.Fingerprint() != d.m.Fingerprint() {
		t.Fatalf("round %d: crash and crash clone differ", round)
	}
	d.open(t)
	if kind == ProcessExit {
		return
	}
	for i := range d.f {
		got := []byte(content(t, d.m, fmt.Sprint(i)))
		if outcome == 0 && !bytes.Equal(got, d.cached[i]) {
			t.Fatalf("round %d: something of file %d was lost", round, i)
		}
		if outcome == 1 && !bytes.Equal(got, d.synced[i]) {
			t.Fatalf("round %d: file %d is not what was synced", round, i)
		}
		d.cached[i], d.synced[i] = bytes.Clone(got), got
	}
}

// TestManyCycles runs random operations and crashes against a plain model.
func TestManyCycles(t *testing.T) {
	src := prng.New(7)
	d := &disk{m: NewMem(MemOptions{Capacity: 1 << 26})}
	for i := range d.f {
		d.f[i] = durable(t, d.m, fmt.Sprint(i), "")
	}
	for round := range 3000 {
		if src.Chance(1, 8) {
			d.crash(t, round, src)
		} else {
			d.change(t, src.Intn(2), src)
		}
		d.check(t, round)
	}
}
