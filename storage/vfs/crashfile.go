package vfs

import (
	"slices"

	"lockstep/internal/prng"
)

// crashFile decides the unsynced bytes and size of one file and leaves cache and platter
// equal. A kept piece takes the cached bytes, a lost one leaves those of the platter:
// bytes that were synced and not rewritten since are the same in both, so no
// outcome can damage them (rule P5e).
func (m *Mem) crashFile(ino *inode, choose Choose) {
	if len(ino.dirty) > 0 || len(ino.steps) > 0 {
		mode := choose(SiteFile, m.key(ino.path), numBytes)
		size, cut := m.crashSize(ino, mode, choose)
		limit := size
		if cut < ino.platSize {
			ino.erase(cut, &m.pool)
		}
		if n := len(ino.steps); n > 0 && ino.steps[n-1].cut < cut {
			// A later cut was lost: what was written past it went to blocks that
			// belong to no file now.
			limit = min(limit, pagesOf(ino.steps[n-1].cut)*PageSize)
		}
		m.crashBytes(ino, mode, limit, choose)
		ino.erase(size, &m.pool)
		ino.platSize = size
	}
	for _, no := range ino.dirty {
		ino.at(no).drop(&m.pool)
	}
	for _, no := range ino.stale {
		ino.at(no).drop(&m.pool)
	}
	if len(ino.dirty) > 0 || len(ino.steps) > 0 || !ino.linked {
		ino.recount()
	}
	ino.size = ino.platSize
	ino.dirty, ino.stale, ino.steps = nil, nil, nil
}

// crashSize decides the size and how far the file had been cut on the way to it.
func (m *Mem) crashSize(ino *inode, mode int, choose Choose) (size, cut int64) {
	n := len(ino.steps)
	if n == 0 || mode == BytesNone {
		return ino.platSize, ino.platSize
	}
	last := n - 1
	if mode != BytesAll && mode != BytesSize {
		last -= choose(SiteSize, m.key(ino.path), n+1)
	}
	if last < 0 {
		return ino.platSize, ino.platSize
	}
	s, before := ino.steps[last], ino.platSize
	if last > 0 {
		before = ino.steps[last-1].size
	}
	if s.torn && mode != BytesAll && mode != BytesSize {
		first := before/SectorSize + 1
		inside := max(0, (s.size-1)/SectorSize-first+1)
		if k := choose(SiteTear, m.key(ino.path), int(inside)+1); k > 0 {
			return (first + int64(k) - 1) * SectorSize, s.cut
		}
	}
	return s.size, s.cut
}

// piece is one unsynced unit of a file: sectors [from, to) of a page.
type piece struct {
	no       int64
	from, to int
}

// crashBytes decides the unsynced pieces below limit.
func (m *Mem) crashBytes(ino *inode, mode int, limit int64, choose Choose) {
	if mode == BytesNone || mode == BytesSize {
		return
	}
	pieces := ino.pieces(mode == BytesPages, limit)
	switch mode {
	case BytesAll:
		for _, p := range pieces {
			m.keep(ino, p, PieceKept, 0)
		}
	case BytesPrefix:
		keep := len(pieces) - choose(SitePrefix, m.key(ino.path), len(pieces)+1)
		for i, p := range pieces[:min(keep+1, len(pieces))] {
			if i < keep {
				m.keep(ino, p, PieceKept, 0)
			} else {
				m.crashPiece(ino, p, numPieces, choose)
			}
		}
	case BytesTorn:
		for _, p := range pieces {
			m.crashPiece(ino, p, numPieces, choose)
		}
	default:
		for _, p := range pieces {
			m.crashPiece(ino, p, PieceLost+1, choose)
		}
	}
}

// pieces returns what may or may not have reached the platter: pages or sectors below
// limit whose content differs there.
func (ino *inode) pieces(pages bool, limit int64) []piece {
	slices.Sort(ino.dirty)
	var out []piece
	for _, no := range ino.dirty {
		pg := ino.at(no)
		if no*PageSize >= limit || pg.cache == pg.plat {
			continue
		}
		start := len(out)
		for s := 0; s < PageSize/SectorSize && no*PageSize+int64(s)*SectorSize < limit; s++ {
			if !pg.sectorDiffers(s) {
				continue
			}
			if pages && len(out) > start {
				out[start].to = s + 1
				continue
			}
			out = append(out, piece{no, s, s + 1})
		}
	}
	return out
}

func (m *Mem) crashPiece(ino *inode, p piece, outcomes int, choose Choose) {
	off := uint64(p.no*PageSize + int64(p.from)*SectorSize)
	key := m.key(ino.path, off)
	m.keep(ino, p, choose(SitePiece, key, outcomes), key)
}

// keep puts a piece on the platter in the way outcome says.
func (m *Mem) keep(ino *inode, p piece, outcome int, key uint64) {
	if outcome == PieceLost {
		return
	}
	pg := ino.at(p.no)
	pg.ownPlat(&m.pool)
	lo, hi := p.from*SectorSize, p.to*SectorSize
	from, to := pg.cache.bytes()[lo:hi], pg.plat.b[lo:hi]
	for s := p.from; s < p.to; s++ {
		pg.bad &^= 1 << s
	}
	if outcome == PieceKept {
		copy(to, from)
		return
	}
	differ := 0
	for i := range to {
		if to[i] != from[i] {
			differ++
		}
	}
	for i, k := 0, 0; i < len(to); i++ {
		if to[i] == from[i] {
			continue
		}
		if outcome == PieceHalf && k < differ/2 {
			to[i] = from[i]
		} else if outcome == PieceGarbled {
			to[i] = byte(prng.Mix(key ^ uint64(i)))
		}
		k++
	}
}

// erase makes the platter zero from size on.
func (ino *inode) erase(size int64, mem *pool) {
	if size >= ino.platSize && len(ino.steps) == 0 {
		return
	}
	no := size / PageSize
	if at := size % PageSize; at != 0 {
		if pg := ino.at(no); pg != nil && pg.plat != nil {
			if pg.plat == pg.cache {
				ino.soil(no, pg, 0, PageSize)
			}
			pg.ownPlat(mem)
			clear(pg.plat.b[at:])
		}
		no++
	}
	ino.each(no, func(no int64, pg *page) {
		if pg.plat != nil && pg.plat != pg.cache {
			mem.put(pg.plat)
		}
		if pg.plat != nil && pg.hi == 0 {
			ino.soil(no, pg, 0, PageSize)
		}
		pg.plat = nil
	})
}

// recount counts the allocated pages anew from what is on the platter.
func (ino *inode) recount() {
	ino.reserved = min(ino.reserved, pagesOf(ino.platSize))
	ino.blocks = ino.reserved
	ino.each(0, func(no int64, pg *page) {
		pg.block = no >= ino.reserved && pg.plat != nil
		if pg.block {
			ino.blocks++
		}
	})
}
