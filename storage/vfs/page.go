package vfs

// Sizes of the simulated storage, in bytes. A page is what the cache holds and the
// kernel writes back; a sector is what a device writes without tearing.
const (
	PageSize   = 4096
	SectorSize = 512
)

// chunkPages is how many pages one allocation of page descriptors covers.
const chunkPages = 64

// buf is the content of one page. A shared buf is also seen by a clone or snapshot
// and is never written again.
type buf struct {
	b      [PageSize]byte
	shared bool
}

// zeroPage stands for the content of absent buffers; never written.
var zeroPage [PageSize]byte

// bytes returns the content; a nil buf is a page of zeros.
func (b *buf) bytes() *[PageSize]byte {
	if b == nil {
		return &zeroPage
	}
	return &b.b
}

// page is one page in its two layers. cache is what reads see, plat what is on the
// platter; the same pointer in both means equal content. Unsynced bytes lie in
// [lo, hi); hi == 0 means clean. A page can be clean and yet differ from the
// platter (a failed fsync, rot): then stale is set and only DropCache, a power loss
// or a new write of the page changes that.
type page struct {
	cache, plat *buf
	lo, hi      uint16
	stale       bool
	block       bool  // counted in inode.blocks by itself (not reserved)
	bad         uint8 // bit i: sector i of the platter cannot be read
}

// chunk is a run of neighbouring page descriptors.
type chunk [chunkPages]page

// pool recycles page buffers, bounded so that a truncated giant does not pin memory.
type pool struct{ free []*buf }

// maxPooled bounds the buffers a pool holds back: 1 MiB.
const maxPooled = 256

// get returns a buffer with unspecified content.
func (p *pool) get() *buf {
	if n := len(p.free); n > 0 {
		b := p.free[n-1]
		p.free = p.free[:n-1]
		return b
	}
	return new(buf)
}

// zeroed returns a buffer of zeros.
func (p *pool) zeroed() *buf {
	if n := len(p.free); n > 0 {
		b := p.get()
		clear(b.b[:])
		return b
	}
	return new(buf)
}

// put takes back a buffer nobody else refers to.
func (p *pool) put(b *buf) {
	if b != nil && !b.shared && len(p.free) < maxPooled {
		p.free = append(p.free, b)
	}
}

// own makes the cache buffer writable and apart from the platter's. With whole set the
// old content is about to be overwritten and is not copied.
func (pg *page) own(p *pool, whole bool) {
	switch {
	case pg.cache == nil && whole:
		pg.cache = p.get()
	case pg.cache == nil:
		pg.cache = p.zeroed()
	case pg.cache == pg.plat || pg.cache.shared:
		b := p.get()
		if !whole {
			b.b = pg.cache.b
		}
		pg.cache = b
	}
}

// drop makes the cache hold what the platter holds.
func (pg *page) drop(p *pool) {
	if pg.cache != pg.plat {
		p.put(pg.cache)
		pg.cache = pg.plat
	}
	pg.lo, pg.hi, pg.stale = 0, 0, false
}

// soil marks [lo, hi) unsynced. The kernel writes back whole pages, so a stale page is
// unsynced as a whole once any byte of it is written.
func (pg *page) soil(lo, hi int) {
	if pg.stale {
		lo, hi, pg.stale = 0, PageSize, false
	}
	if pg.hi == 0 {
		pg.lo, pg.hi = uint16(lo), uint16(hi)
		return
	}
	pg.lo, pg.hi = min(pg.lo, uint16(lo)), max(pg.hi, uint16(hi))
}

// persist puts the unsynced bytes on the platter. Writing a page heals its sectors.
func (pg *page) persist(p *pool) {
	pg.bad = 0
	if pg.hi == 0 || pg.cache == pg.plat {
		pg.lo, pg.hi = 0, 0
		return
	}
	if pg.cache == nil || pg.hi == PageSize {
		// The page is full or gone: keep one buffer for both layers.
		p.put(pg.plat)
		pg.plat = pg.cache
	} else {
		// The page is the tail of a growing file: keep two, or the next append would
		// have to copy it again.
		pg.ownPlat(p)
		copy(pg.plat.b[pg.lo:pg.hi], pg.cache.b[pg.lo:pg.hi])
	}
	pg.lo, pg.hi = 0, 0
}

// ownPlat makes the platter buffer writable and apart from the cache's.
func (pg *page) ownPlat(p *pool) {
	if pg.plat != nil && pg.plat != pg.cache && !pg.plat.shared {
		return
	}
	b := p.get()
	b.b = *pg.plat.bytes()
	pg.plat = b
}

// share marks the buffers as seen by somebody else too.
func (pg *page) share() {
	if pg.cache != nil && !pg.cache.shared {
		pg.cache.shared = true
	}
	if pg.plat != nil && !pg.plat.shared {
		pg.plat.shared = true
	}
}

// sectorDiffers reports whether sector s would change on the platter if the cache
// reached it.
func (pg *page) sectorDiffers(s int) bool {
	if pg.cache == pg.plat {
		return false
	}
	c, d := pg.cache.bytes(), pg.plat.bytes()
	return string(c[s*SectorSize:(s+1)*SectorSize]) != string(d[s*SectorSize:(s+1)*SectorSize])
}
