package vfs

import (
	"math"
	"slices"

	"lockstep/internal/prng"
)

// CrashKind says what a crash takes away.
type CrashKind uint8

// The kinds of crash.
const (
	// ProcessExit ends the process: handles and locks go, the page cache and all names stay.
	ProcessExit CrashKind = iota
	// PowerLoss also takes the page cache and what was not durable, except for pieces that
	// had reached the platter by chance.
	PowerLoss
)

// String returns the kind's name.
func (k CrashKind) String() string {
	if k == ProcessExit {
		return "process exit"
	}
	return "power loss"
}

// Decide answers one question of a crash with any 64-bit value; the value modulo the
// number of outcomes is the outcome, 0 the benign one (everything kept). It must
// depend on site and key alone. The key is made of the file or directory, the
// ordinal of the crash and the offset or entry decided about. nil answers 0.
type Decide func(site string, key uint64) uint64

// Choose is Decide with the number of outcomes told: it returns a value in [0, n).
// Crash enumeration walks the outcomes with it.
type Choose func(site string, key uint64, n int) int

// The sites of a power loss, with their outcomes in order of severity.
const (
	SiteFile   = "vfs.crash.file"   // a file's unsynced bytes: see the Bytes outcomes
	SiteSize   = "vfs.crash.size"   // unsynced size changes: 0 all kept, i the newest i lost
	SiteTear   = "vfs.crash.tear"   // size of a torn growth: 0 whole, i ends at its i-th sector boundary
	SitePrefix = "vfs.crash.prefix" // BytesPrefix: how many unsynced sectors are lost at the end
	SitePiece  = "vfs.crash.piece"  // one page or sector: 0 kept, 1 lost, 2 first half kept, 3 garbled
	SiteDir    = "vfs.crash.dir"    // a directory's unsynced changes: see the Names outcomes
	SiteCut    = "vfs.crash.cut"    // NamesPrefix: how many changes are lost at the end
	SiteEntry  = "vfs.crash.entry"  // NamesSubset, one change: 0 kept, 1 lost
)

// Outcomes of SiteFile.
const (
	BytesAll     = iota // everything as in the cache
	BytesNone           // nothing, and the durable size
	BytesSize           // the newest size, none of the bytes: zeros or old bytes show
	BytesPrefix         // a prefix in offset order, its last sector torn
	BytesPages          // any subset of 4-KiB pages
	BytesSectors        // any subset of 512-byte sectors
	BytesTorn           // any subset of sectors, each possibly torn or garbled
	numBytes
)

// Outcomes of SiteDir.
const (
	NamesAll    = iota // every change
	NamesNone          // no change
	NamesPrefix        // the first changes, as a journal keeps them
	NamesSubset        // any subset that keeps the order of changes to one entry or file
	numNames
)

// Outcomes of SitePiece.
const (
	PieceKept = iota
	PieceLost
	PieceHalf    // the first half of the bytes that differ
	PieceGarbled // the bytes that differ have values nobody wrote
	numPieces
)

// KeepNothing is the Decide of a power loss that leaves exactly what was durable.
func KeepNothing(site string, _ uint64) uint64 {
	if site == SiteFile || site == SiteDir {
		return BytesNone // equals NamesNone
	}
	return 0
}

// Crash ends the present life: handles become stale, locks are released, StopAfter is
// lifted. A power loss then leaves what decide draws; nil keeps everything. Faults
// stay in force.
func (m *Mem) Crash(kind CrashKind, decide Decide) {
	m.CrashChoose(kind, chooser(decide))
}

// CrashChoose is Crash with the number of outcomes told to choose.
func (m *Mem) CrashChoose(kind CrashKind, choose Choose) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.crash(kind, choose)
}

// CrashClone returns a new Mem in the state after a crash and leaves m as it is. The
// clone has no fault hook. It shares unchanged pages with m, so it costs little.
func (m *Mem) CrashClone(kind CrashKind, decide Decide) *Mem {
	return m.CrashCloneChoose(kind, chooser(decide))
}

// CrashCloneChoose is CrashClone with the number of outcomes told to choose.
func (m *Mem) CrashCloneChoose(kind CrashKind, choose Choose) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.clone()
	c.crash(kind, choose)
	return c
}

func chooser(decide Decide) Choose {
	return func(site string, key uint64, n int) int {
		if decide == nil {
			return 0
		}
		return int(decide(site, key) % uint64(n))
	}
}

// newLife ends handles and locks.
func (m *Mem) newLife() {
	m.life++
	m.steps, m.stopAt, m.delay = 0, math.MaxUint64, 0
	clear(m.locks)
}

func (m *Mem) crash(kind CrashKind, choose Choose) {
	m.newLife()
	if kind == PowerLoss {
		m.crashNames(choose)
		m.crashTree(m.root, ".", choose)
		m.crashes++
	}
	m.used = m.count(m.root)
}

// key names the thing decided about: a path in this crash.
func (m *Mem) key(path string, parts ...uint64) uint64 {
	k := prng.Hash(prng.HashString(path), m.crashes)
	for _, p := range parts {
		k = prng.Mix(k ^ p)
	}
	return k
}

// crashNames decides every pending change of names and applies the kept ones. A change
// whose precondition was lost is lost with it.
func (m *Mem) crashNames(choose Choose) {
	kept := make([]bool, len(m.ops))
	for _, group := range m.opGroups() {
		m.crashDir(group, kept, choose)
	}
	for j := range m.ops {
		for i := 0; kept[j] && i < j; i++ {
			kept[j] = kept[i] || !m.ops[j].needs(&m.ops[i])
		}
		if kept[j] {
			m.ops[j].apply()
		}
	}
	m.ops = nil
}

// opGroups returns the indices of pending changes by directory, directories in the order
// of their first change.
func (m *Mem) opGroups() [][]int {
	var dirs []*inode
	var groups [][]int
	for i := range m.ops {
		d := m.ops[i].dir
		g := slices.Index(dirs, d)
		if g < 0 {
			g = len(dirs)
			dirs, groups = append(dirs, d), append(groups, nil)
		}
		groups[g] = append(groups[g], i)
	}
	return groups
}

// crashDir decides the changes of one directory.
func (m *Mem) crashDir(group []int, kept []bool, choose Choose) {
	dir := m.ops[group[0]].dir
	mode := choose(SiteDir, m.key(dir.path), numNames)
	keep := len(group)
	if mode == NamesPrefix {
		keep -= choose(SiteCut, m.key(dir.path), len(group)+1)
	}
	for k, i := range group {
		op := &m.ops[i]
		switch mode {
		case NamesAll:
			kept[i] = true
		case NamesPrefix:
			kept[i] = k < keep
		case NamesSubset:
			kept[i] = m.possible(i, kept) &&
				choose(SiteEntry, m.key(dir.path, prng.HashString(op.name), uint64(k)), 2) == 0
		}
	}
}

// possible reports whether all earlier changes that op i needs were kept as far as they
// are decided; so that no choice is asked for that cannot matter.
func (m *Mem) possible(i int, kept []bool) bool {
	for j := range i {
		if !kept[j] && m.ops[j].dir == m.ops[i].dir && m.ops[i].needs(&m.ops[j]) {
			return false
		}
	}
	return true
}

// crashTree makes the live names of a directory the durable ones and decides the bytes of
// every file below it.
func (m *Mem) crashTree(dir *inode, path string, choose Choose) {
	clear(dir.live)
	for _, name := range sortedNames(dir.durable) {
		ino := dir.durable[name]
		dir.live[name] = ino
		at := joinName(path, name)
		if ino.isDir {
			m.crashTree(ino, at, choose)
		} else {
			m.crashFile(ino, choose)
		}
		ino.path, ino.linked = at, true
	}
	dir.linked = true
}

// count returns the allocated pages below dir.
func (m *Mem) count(dir *inode) int64 {
	var n int64
	for _, name := range sortedNames(dir.live) {
		if ino := dir.live[name]; ino.isDir {
			n += m.count(ino)
		} else {
			n += ino.blocks
		}
	}
	return n
}
