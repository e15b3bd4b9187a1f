package vfs

import (
	"io"
	"slices"
)

// step is one unsynced change of a file's size. Sizes are journaled in order, so a
// crash leaves the durable size or that of some step, never a mix.
type step struct {
	size int64 // bytes after the step
	cut  int64 // smallest size since the last sync, up to and with this step
	torn bool  // grown by writing: a crash may leave any sector boundary on the way
}

// maxSteps bounds the remembered steps; beyond it the newest replaces its predecessor,
// which takes away possible crash outcomes but never adds one.
const maxSteps = 64

// inode is a file or directory in both layers.
type inode struct {
	path  string // last name it had; keys of decisions
	isDir bool
	mtime int64 // Unix nanoseconds, 0 without a clock

	// directories: names as processes see them, and as the platter has them
	live, durable map[string]*inode

	// files
	size, platSize int64
	chunks         []*chunk
	dirty          []int64 // page numbers with unsynced bytes, in the order they got them
	stale          []int64 // page numbers that were made stale, some no longer so
	steps          []step
	reserved       int64  // pages [0, reserved) are allocated
	blocks         int64  // pages allocated in all
	linked         bool   // has a live name
	life           uint64 // life of the Mem that handles counts in
	handles        int
}

func newDir(path string) *inode {
	return &inode{path: path, isDir: true, linked: true, live: map[string]*inode{}, durable: map[string]*inode{}}
}

// at returns page no, or nil when it was never written.
func (ino *inode) at(no int64) *page {
	c := no / chunkPages
	if c >= int64(len(ino.chunks)) || ino.chunks[c] == nil {
		return nil
	}
	return &ino.chunks[c][no%chunkPages]
}

// make returns page no, making its descriptor if needed.
func (ino *inode) make(no int64) *page {
	c := no / chunkPages
	if c >= int64(len(ino.chunks)) {
		ino.chunks = append(ino.chunks, make([]*chunk, c+1-int64(len(ino.chunks)))...)
	}
	if ino.chunks[c] == nil {
		ino.chunks[c] = new(chunk)
	}
	return &ino.chunks[c][no%chunkPages]
}

// each calls f for every described page with number >= from, ascending.
func (ino *inode) each(from int64, f func(no int64, pg *page)) {
	for c := from / chunkPages; c < int64(len(ino.chunks)); c++ {
		if ino.chunks[c] == nil {
			continue
		}
		for i := range ino.chunks[c] {
			if no := c*chunkPages + int64(i); no >= from {
				f(no, &ino.chunks[c][i])
			}
		}
	}
}

// pagesOf returns how many pages size bytes need.
func pagesOf(size int64) int64 { return (size + PageSize - 1) / PageSize }

// layer chooses what a read sees.
type layer uint8

const (
	inCache layer = iota
	onPlatter
)

// read fills p from one layer. It returns io.EOF when the file ends first, and ErrIO at
// a sector that the device cannot read.
func (ino *inode) read(p []byte, off int64, from layer) (int, error) {
	size := ino.size
	if from == onPlatter {
		size = ino.platSize
	}
	want := len(p)
	if want == 0 {
		return 0, nil
	}
	if off >= size {
		return 0, io.EOF
	}
	p = p[:min(int64(want), size-off)]
	n := 0
	for n < len(p) {
		no, at := (off+int64(n))/PageSize, int((off+int64(n))%PageSize)
		part := p[n:min(len(p), n+PageSize-at)]
		pg := ino.at(no)
		if pg == nil {
			clear(part)
			n += len(part)
			continue
		}
		src := pg.cache
		if from == onPlatter {
			src = pg.plat
		}
		if pg.bad != 0 && src == pg.plat {
			if good := pg.readable(at, len(part)); good < len(part) {
				copy(part[:good], src.bytes()[at:])
				return n + good, ErrIO
			}
		}
		copy(part, src.bytes()[at:])
		n += len(part)
	}
	if n < want {
		return n, io.EOF
	}
	return n, nil
}

// readable returns how many of n bytes from at come before the first bad sector.
func (pg *page) readable(at, n int) int {
	for s := at / SectorSize; s*SectorSize < at+n; s++ {
		if pg.bad&(1<<s) != 0 {
			return max(0, s*SectorSize-at)
		}
	}
	return n
}

// room is asked for pages; it returns false when the disk is full.
type room func(pages int64) bool

// write puts p into the cache. It stops at a full disk and at a partly written page
// that cannot be read from the device first.
func (ino *inode) write(p []byte, off int64, mem *pool, take room) (int, error) {
	n, err := 0, error(nil)
	for n < len(p) && err == nil {
		no, at := (off+int64(n))/PageSize, int((off+int64(n))%PageSize)
		part := p[n:min(len(p), n+PageSize-at)]
		if err = ino.writePage(no, at, part, mem, take); err == nil {
			n += len(part)
		}
	}
	if end := off + int64(n); n > 0 && end > ino.size {
		ino.resize(end, true)
	}
	return n, err
}

func (ino *inode) writePage(no int64, at int, part []byte, mem *pool, take room) error {
	pg := ino.make(no)
	whole := len(part) == PageSize
	if pg.bad != 0 && pg.cache == pg.plat && !whole {
		return ErrIO
	}
	if !pg.block && no >= ino.reserved {
		if !take(1) {
			return ErrNoSpace
		}
		pg.block = true
		ino.blocks++
	}
	pg.own(mem, whole)
	copy(pg.cache.b[at:], part)
	ino.soil(no, pg, at, at+len(part))
	return nil
}

func (ino *inode) soil(no int64, pg *page, lo, hi int) {
	if pg.hi == 0 {
		ino.dirty = append(ino.dirty, no)
	}
	pg.soil(lo, hi)
}

// resize records a new size; written tells growth by writing from one journaled whole.
func (ino *inode) resize(size int64, written bool) {
	ino.size = size
	s := step{size: size, cut: min(ino.platSize, size), torn: written}
	n := len(ino.steps)
	if n > 0 {
		s.cut = min(ino.steps[n-1].cut, size)
	}
	if n < maxSteps {
		ino.steps = append(ino.steps, s)
		return
	}
	s.torn = s.torn && ino.steps[n-1].torn
	ino.steps[n-1] = s
}

// truncate sets the size. Cut bytes read as zero when the file grows again.
func (ino *inode) truncate(size int64, mem *pool) (freed int64) {
	if size == ino.size {
		return 0
	}
	if size < ino.size {
		freed = ino.cut(size, mem)
	}
	ino.resize(size, false)
	return freed
}

func (ino *inode) cut(size int64, mem *pool) (freed int64) {
	keep := pagesOf(size)
	if at := int(size % PageSize); at != 0 {
		if pg := ino.at(size / PageSize); pg != nil && (pg.cache != nil || pg.plat != nil) {
			pg.own(mem, false)
			clear(pg.cache.b[at:])
			ino.soil(size/PageSize, pg, at, PageSize)
		}
	}
	ino.each(keep, func(no int64, pg *page) {
		if pg.block {
			pg.block = false
			freed++
		}
		if pg.cache != pg.plat {
			mem.put(pg.cache)
		}
		pg.cache = nil
		if pg.plat != nil || pg.hi != 0 {
			ino.soil(no, pg, 0, PageSize)
		}
	})
	freed += ino.reserved - min(ino.reserved, keep)
	ino.reserved = min(ino.reserved, keep)
	ino.blocks -= freed
	return freed
}

// allocate reserves [0, size) and grows the file to it.
func (ino *inode) allocate(size int64, take room) error {
	if want := pagesOf(size); want > ino.reserved {
		need := want - ino.reserved
		ino.each(ino.reserved, func(no int64, pg *page) {
			if no < want && pg.block {
				need--
			}
		})
		if !take(need) {
			return ErrNoSpace
		}
		ino.each(ino.reserved, func(no int64, pg *page) {
			if no < want {
				pg.block = false
			}
		})
		ino.blocks += need
		ino.reserved = want
	}
	if size > ino.size {
		ino.resize(size, false)
	}
	return nil
}

// sync makes everything durable.
func (ino *inode) sync(mem *pool) {
	for _, no := range ino.dirty {
		ino.at(no).persist(mem)
	}
	ino.dirty = ino.dirty[:0]
	ino.steps = ino.steps[:0]
	ino.platSize = ino.size
}

// syncSome makes the first pages of the dirty list durable, lowest offsets first, and
// then, with drop, forgets that the others are dirty. The size stays unsynced.
func (ino *inode) syncSome(pages int, drop bool, mem *pool) {
	slices.Sort(ino.dirty)
	for i, no := range ino.dirty {
		switch pg := ino.at(no); {
		case i < pages:
			pg.persist(mem)
		case drop:
			ino.stain(no, pg)
		}
	}
	if drop {
		ino.dirty = ino.dirty[:0]
	} else {
		ino.dirty = slices.Delete(ino.dirty, 0, min(max(pages, 0), len(ino.dirty)))
	}
}

// stain makes a page clean though the platter lacks its content.
func (ino *inode) stain(no int64, pg *page) {
	pg.lo, pg.hi = 0, 0
	if pg.cache != pg.plat && !pg.stale {
		pg.stale = true
		ino.stale = append(ino.stale, no)
	}
}

// dropCache forgets clean pages that lie wholly in [off, off+n), or reach the file's end
// inside it.
func (ino *inode) dropCache(off, n int64, mem *pool) {
	ino.stale = slices.DeleteFunc(ino.stale, func(no int64) bool {
		pg := ino.at(no)
		start, end := no*PageSize, min((no+1)*PageSize, max(ino.size, no*PageSize+1))
		if pg.stale && start >= off && end <= off+n {
			pg.drop(mem)
		}
		return !pg.stale
	})
}
