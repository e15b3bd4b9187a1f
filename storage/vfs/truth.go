package vfs

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"lockstep/internal/invariant"
	"lockstep/internal/prng"
)

// DurableAt returns n bytes at off as a power loss that keeps nothing unsynced would
// leave them: the platter's bytes of the file that durably has the name. ok is false
// when there is no such file, it is shorter, or a sector cannot be read. The bytes may
// be the Mem's own: read them before the next operation and never write to them.
func (m *Mem) DurableAt(name string, off int64, n int) (b []byte, ok bool) {
	return m.truth(name, off, n, onPlatter)
}

// CachedAt returns n bytes at off as a process reads them now, under the rules of
// DurableAt. It is what a process exit leaves.
func (m *Mem) CachedAt(name string, off int64, n int) (b []byte, ok bool) {
	return m.truth(name, off, n, inCache)
}

// DurableEqual reports whether want is durable at off of name; it never copies.
func (m *Mem) DurableEqual(name string, off int64, want []byte) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	ino, err := m.lookup(name, onPlatter)
	if err != nil || ino.isDir || off < 0 || off+int64(len(want)) > ino.platSize {
		return false
	}
	for len(want) > 0 {
		at := int(off % PageSize)
		n := min(len(want), PageSize-at)
		have, ok := ino.view(off, n, onPlatter)
		if !ok || !bytes.Equal(have, want[:n]) {
			return false
		}
		off, want = off+int64(n), want[n:]
	}
	return true
}

// DurableSize returns the size of the file that durably has the name.
func (m *Mem) DurableSize(name string) (size int64, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ino, err := m.lookup(name, onPlatter)
	if err != nil || ino.isDir {
		return 0, false
	}
	return ino.platSize, true
}

func (m *Mem) truth(name string, off int64, n int, from layer) ([]byte, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ino, err := m.lookup(name, from)
	if err != nil || ino.isDir || off < 0 || n < 0 {
		return nil, false
	}
	size := ino.size
	if from == onPlatter {
		size = ino.platSize
	}
	if off+int64(n) > size {
		return nil, false
	}
	if !m.shared && off%PageSize+int64(n) <= PageSize {
		return ino.view(off, n, from)
	}
	p := make([]byte, n)
	_, err = ino.read(p, off, from)
	return p, err == nil
}

// view returns n bytes inside one page without copying.
func (ino *inode) view(off int64, n int, from layer) ([]byte, bool) {
	at := int(off % PageSize)
	pg := ino.at(off / PageSize)
	if pg == nil {
		return zeroPage[at : at+n : at+n], true
	}
	src := pg.cache
	if from == onPlatter {
		src = pg.plat
	}
	if pg.bad != 0 && src == pg.plat && pg.readable(at, n) < n {
		return nil, false
	}
	return src.bytes()[at : at+n : at+n], true
}

// Rot changes the byte at off of the durable file name on the platter by XOR with mask.
// A cached page hides it until the cache is dropped or lost; every read after that
// sees the same damage. Rewriting the page heals it.
func (m *Mem) Rot(name string, off int64, mask byte) error {
	return m.damage(name, off, func(pg *page) {
		pg.ownPlat(&m.pool)
		pg.plat.b[off%PageSize] ^= mask
	})
}

// BadSector makes the sector that holds off unreadable on the platter (a latent error):
// ErrIO for every read that is not served by the cache, until the page is rewritten.
func (m *Mem) BadSector(name string, off int64) error {
	return m.damage(name, off, func(pg *page) { pg.bad |= 1 << (off % PageSize / SectorSize) })
}

// damage parts the page's cache from its platter and applies f.
func (m *Mem) damage(name string, off int64, f func(pg *page)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	ino, err := m.lookup(name, onPlatter)
	if err == nil && (ino.isDir || off < 0 || off >= ino.platSize) {
		err = fs.ErrInvalid
	}
	if err != nil {
		return fmt.Errorf("damage %s at %d: %w", name, off, err)
	}
	no := off / PageSize
	pg := ino.make(no)
	if pg.cache == pg.plat {
		b := m.pool.get()
		b.b = *pg.plat.bytes()
		pg.cache = b
	}
	ino.parted(no, pg)
	f(pg)
	return nil
}

// parted notes that the platter of a page is about to change under its cache: a clean page
// becomes stale, of a dirty one all bytes are written back, as kernels write pages.
func (ino *inode) parted(no int64, pg *page) {
	switch {
	case pg.hi != 0:
		pg.lo, pg.hi = 0, PageSize
	case !pg.stale:
		pg.stale = true
		ino.stale = append(ino.stale, no)
	}
}

// PickDurable returns the offset of a byte of the durable file name, drawn by key among the
// pages that hold anything, at or above from; ok is false when there is none.
func (m *Mem) PickDurable(name string, from int64, key uint64) (off int64, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ino, err := m.lookup(name, onPlatter)
	if err != nil || ino.isDir || from < 0 {
		return 0, false
	}
	var pages []int64
	ino.each(from/PageSize, func(no int64, pg *page) {
		if pg.plat != nil && no*PageSize < ino.platSize {
			pages = append(pages, no)
		}
	})
	if len(pages) == 0 {
		return 0, false
	}
	lo := pages[key%uint64(len(pages))] * PageSize
	hi := min(lo+PageSize, ino.platSize)
	lo = max(lo, from)
	if lo >= hi {
		return 0, false
	}
	return prng.Range(prng.Mix(key), lo, hi-1), true
}

// misdirect puts a dirty page of ino onto a page of another durable file.
func (m *Mem) misdirect(ino *inode, to Misdirect) error {
	no := to.Page / PageSize
	src := ino.at(no)
	if src == nil || src.hi == 0 {
		return nil // nothing of it is written back now
	}
	dst, err := m.lookup(to.Name, onPlatter)
	if err != nil || dst.isDir || to.Off < 0 || to.Off >= dst.platSize {
		return fmt.Errorf("misdirect to %s at %d: no such durable place", to.Name, to.Off)
	}
	toNo := to.Off / PageSize
	victim := dst.make(toNo)
	dst.parted(toNo, victim)
	if victim.cache == victim.plat && victim.plat != nil {
		b := m.pool.get()
		b.b = victim.plat.b
		victim.cache = b
	}
	victim.ownPlat(&m.pool)
	victim.plat.b = *src.cache.bytes()
	ino.dirty = slices.DeleteFunc(ino.dirty, func(d int64) bool { return d == no })
	ino.stain(no, src)
	return nil
}

// Writeback moves the dirty pages for which decide answers an odd value to the platter, as a
// kernel does between syncs. Sizes and names stay as unsynced as they were.
func (m *Mem) Writeback(name string, decide Decide) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	ino, err := m.file(name)
	if err != nil {
		return opError(OpSync, name, err)
	}
	slices.Sort(ino.dirty)
	ino.dirty = slices.DeleteFunc(ino.dirty, func(no int64) bool {
		if decide(SiteWriteback, m.key(ino.path, uint64(no*PageSize)))%2 == 0 {
			return false
		}
		ino.at(no).persist(&m.pool)
		return true
	})
	return nil
}

// SiteWriteback is asked by Writeback for each dirty page: 0 it stays, 1 it is written.
const SiteWriteback = "vfs.writeback"

// Image is what a backup of the whole disk holds: the platter and the durable names at one
// moment. It is immutable.
type Image struct{ m *Mem }

// Snapshot takes an image of the platter. It costs little: pages are shared.
func (m *Mem) Snapshot() *Image {
	return &Image{m.CrashClone(PowerLoss, KeepNothing)}
}

// Restore replaces everything by an image, as an operator does with a backup: handles
// become stale, locks are released, nothing is dirty. Capacity and faults stay.
func (m *Mem) Restore(img *Image) {
	img.m.mu.Lock()
	c := img.m.clone()
	img.m.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.newLife()
	m.root, m.ops = c.root, nil
	m.used = m.count(m.root)
}

// Wipe erases the disk: a lost or replaced one.
func (m *Mem) Wipe() { m.Restore(&Image{NewMem(MemOptions{})}) }

// Clone returns a Mem in the same state, all layers included, that changes on its own from
// then on. Handles stay with m; the clone has no fault hook and no held locks.
func (m *Mem) Clone() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.clone()
	c.newLife()
	c.used = c.count(c.root)
	return c
}

// clone copies names and page descriptors and shares the page contents.
func (m *Mem) clone() *Mem {
	c := &Mem{now: m.now, capacity: m.capacity, used: m.used, readOnly: m.readOnly,
		life: m.life, crashes: m.crashes, steps: m.steps, stopAt: m.stopAt, locks: map[*inode]bool{}}
	seen := map[*inode]*inode{}
	c.root = m.root.clone(seen)
	c.ops = slices.Clone(m.ops)
	for i := range c.ops {
		op := &c.ops[i]
		op.dir, op.node = op.dir.clone(seen), op.node.clone(seen)
		if op.from != nil {
			op.from = op.from.clone(seen)
		}
	}
	return c
}

func (ino *inode) clone(seen map[*inode]*inode) *inode {
	if c := seen[ino]; c != nil {
		return c
	}
	c := new(inode)
	*c = *ino
	seen[ino] = c
	if ino.isDir {
		c.live, c.durable = cloneNames(ino.live, seen), cloneNames(ino.durable, seen)
		return c
	}
	c.dirty, c.stale, c.steps = slices.Clone(ino.dirty), slices.Clone(ino.stale), slices.Clone(ino.steps)
	c.chunks = make([]*chunk, len(ino.chunks))
	for i, from := range ino.chunks {
		if from == nil {
			continue
		}
		for k := range from {
			from[k].share()
		}
		to := *from
		c.chunks[i] = &to
	}
	return c
}

func cloneNames(names map[string]*inode, seen map[*inode]*inode) map[string]*inode {
	out := maps.Clone(names)
	for name, ino := range out {
		out[name] = ino.clone(seen)
	}
	return out
}

// Fingerprint is a hash of everything a process can see: names, sizes and bytes. Equal
// states have equal fingerprints.
func (m *Mem) Fingerprint() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.root.fingerprint()
}

func (ino *inode) fingerprint() uint64 {
	h := prng.Hash(uint64(ino.size), uint64(len(ino.live)))
	if ino.isDir {
		for _, name := range sortedNames(ino.live) {
			h = prng.Hash(h, prng.HashString(name), ino.live[name].fingerprint())
		}
		return prng.Mix(h)
	}
	ino.each(0, func(no int64, pg *page) {
		if pg.cache == nil || pg.cache.b == zeroPage {
			return
		}
		h = prng.Hash(h, uint64(no), uint64(pg.bad))
		for i := 0; i < PageSize; i += 8 {
			b := pg.cache.b[i : i+8]
			w := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
				uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
			h = (h ^ w) * 0x9e3779b97f4a7c15
			h ^= h >> 29
		}
	})
	invariant.That(ino.size >= 0, "negative size %d", ino.size)
	return h
}
