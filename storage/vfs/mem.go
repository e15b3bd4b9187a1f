package vfs

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"sync"
	"time"
)

// ErrStopped is returned by every operation after the step given to StopAfter: the
// process died there. Crash ends that state.
var ErrStopped = errors.New("process stopped")

// ErrStale is returned by handles of a life that Crash, Wipe or Restore has ended.
var ErrStale = errors.New("file handle of an ended process")

// NominalCapacity is the size a Mem reports when none was given, in bytes.
const NominalCapacity = 1 << 40

// MemOptions configures a Mem. The zero value is a healthy disk of NominalCapacity.
type MemOptions struct {
	// Capacity of the disk in bytes; 0 means NominalCapacity. Allocated and written
	// pages count, names do not.
	Capacity int64
	// Faults is consulted before every operation; nil means none ever.
	Faults Faults
	// Now gives Unix nanoseconds for modification times; nil leaves them zero.
	Now func() int64
	// Shared makes CachedAt and DurableAt return copies: judges read while processes
	// write.
	Shared bool
}

// Mem is a file system in memory that can crash. It keeps three layers apart:
//
//   - the page cache: what processes read; a page in it is clean, dirty, or clean
//     though the platter lacks it (after a failed fsync);
//   - the platter: what a power loss leaves, plus what the crash draws from the
//     unsynced pieces;
//   - directory entries, durable only after SyncDir.
//
// A process exit keeps the cache, a power loss does not; DropCache makes reads see the
// platter again. Mem holds no clock, draws nothing by itself and never lets the order of
// a map be seen, so equal calls give equal results. Memory is used for written pages only.
type Mem struct {
	mu       sync.Mutex
	root     *inode
	ops      []dirOp
	pool     pool
	faults   Faults
	now      func() int64
	shared   bool
	capacity int64
	used     int64 // pages
	readOnly bool
	life     uint64 // ended lives; handles of older ones are stale
	crashes  uint64 // ordinal of crashes, part of every decision's key
	steps    uint64 // changing operations begun in this life
	stopAt   uint64
	delay    time.Duration
	locks    map[*inode]bool
}

// NewMem returns an empty file system.
func NewMem(opts MemOptions) *Mem {
	capacity := opts.Capacity
	if capacity == 0 {
		capacity = NominalCapacity
	}
	return &Mem{root: newDir("."), faults: opts.Faults, now: opts.Now, shared: opts.Shared, capacity: capacity,
		stopAt: math.MaxUint64, locks: map[*inode]bool{}}
}

// SetFaults replaces the fault hook from the next operation on.
func (m *Mem) SetFaults(f Faults) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = f
}

// SetCapacity changes the size of the disk, in bytes; below what is used, nothing more
// can be allocated.
func (m *Mem) SetCapacity(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.capacity = bytes
}

// SetReadOnly makes every change fail with ErrReadOnly, as after a remount.
func (m *Mem) SetReadOnly(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.readOnly = on
}

// OpCount returns how many changing operations (create, write, sync, truncate, allocate,
// remove, rename, mkdir, syncdir, lock) this life has
// begun, those refused after StopAfter left out.
func (m *Mem) OpCount() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return min(m.steps, m.stopAt)
}

// StopAfter lets changing operations happen until OpCount is k; every later operation
// of any kind fails with ErrStopped and does nothing, until Crash.
func (m *Mem) StopAfter(k uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopAt = k
}

// Stopped reports whether an operation was refused because of StopAfter.
func (m *Mem) Stopped() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.steps > m.stopAt
}

// TakeDelay returns the delays that faults asked for since the last call.
func (m *Mem) TakeDelay() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.delay
	m.delay = 0
	return d
}

// begin counts an operation and asks what goes wrong with it. An error means the
// operation fails with it, after the fault's partial effect.
func (m *Mem) begin(op Op) (Fault, error) {
	if m.steps > m.stopAt {
		return Fault{}, ErrStopped
	}
	if op.Kind.changes() {
		m.steps++
		if m.steps > m.stopAt {
			return Fault{}, ErrStopped
		}
	}
	var f Fault
	if m.faults != nil {
		op.Step = m.steps
		f = m.faults.Fault(op)
		m.delay += f.Delay
	}
	if f.Err == nil && m.readOnly && op.Kind.changes() && op.Kind != OpSync && op.Kind != OpSyncDir {
		f.Err = ErrReadOnly
	}
	return f, f.Err
}

// do runs one operation on a name under the lock.
func (m *Mem) do(kind OpKind, name string, f func(name string, fault Fault) error) error {
	name, err := checkName(kind, name)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	fault, err := m.begin(Op{Kind: kind, Name: name})
	if err == nil {
		err = f(name, fault)
	}
	if err != nil {
		return opError(kind, name, err)
	}
	return nil
}

func (m *Mem) clock() int64 {
	if m.now == nil {
		return 0
	}
	return m.now()
}

// take allocates pages; false when the disk is full.
func (m *Mem) take(pages int64) bool {
	if pages > m.capacity/PageSize-m.used {
		return false
	}
	m.used += pages
	return true
}

// Open opens an existing file.
func (m *Mem) Open(name string) (f File, err error) {
	err = m.do(OpOpen, name, func(name string, _ Fault) error {
		ino, err := m.file(name)
		if err == nil {
			f = m.handle(ino)
		}
		return err
	})
	return f, err
}

// Create makes an empty file or empties an existing one.
func (m *Mem) Create(name string) (f File, err error) {
	err = m.do(OpCreate, name, func(name string, _ Fault) error {
		ino, err := m.openOrMake(name)
		if err != nil {
			return err
		}
		m.used -= ino.truncate(0, &m.pool)
		ino.mtime = m.clock()
		f = m.handle(ino)
		return nil
	})
	return f, err
}

// Remove removes a file or an empty directory.
func (m *Mem) Remove(name string) error {
	return m.do(OpRemove, name, func(name string, _ Fault) error { return m.remove(name) })
}

// Rename moves a file or directory, replacing a file or an empty directory.
func (m *Mem) Rename(oldName, newName string) error {
	oldName, err := checkName(OpRename, oldName)
	if err != nil {
		return err
	}
	if newName, err = checkName(OpRename, newName); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err = m.begin(Op{Kind: OpRename, Name: oldName, NewName: newName}); err == nil {
		err = m.rename(oldName, newName)
	}
	if err != nil {
		return opError(OpRename, oldName+" to "+newName, err)
	}
	return nil
}

// MkdirAll makes a directory and its parents.
func (m *Mem) MkdirAll(dir string) error {
	return m.do(OpMkdir, dir, func(name string, _ Fault) error {
		if name == "." {
			return nil
		}
		return m.mkdirAll(name)
	})
}

// List returns the names in dir, ascending.
func (m *Mem) List(dir string) (names []string, err error) {
	err = m.do(OpList, dir, func(name string, _ Fault) error {
		ino, err := m.lookup(name, inCache)
		if err == nil && !ino.isDir {
			err = errNotDir
		}
		if err == nil {
			names = sortedNames(ino.live)
		}
		return err
	})
	return names, err
}

// Stat describes a file or directory.
func (m *Mem) Stat(name string) (info fs.FileInfo, err error) {
	err = m.do(OpStat, name, func(name string, _ Fault) error {
		ino, err := m.lookup(name, inCache)
		if err != nil {
			return err
		}
		_, base := splitName(name)
		info = memInfo{name: base, size: ino.size, dir: ino.isDir, mtime: ino.mtime}
		return nil
	})
	return info, err
}

// SyncDir makes the names in dir durable.
func (m *Mem) SyncDir(dir string) error {
	return m.do(OpSyncDir, dir, func(name string, fault Fault) error {
		ino, err := m.lookup(name, inCache)
		if err == nil && !ino.isDir {
			err = errNotDir
		}
		if err == nil && !fault.Lie && len(m.ops) > 0 {
			m.syncDir(ino)
		}
		return err
	})
}

// Lock takes the exclusive lock on name.
func (m *Mem) Lock(name string) (lock io.Closer, err error) {
	err = m.do(OpLock, name, func(name string, _ Fault) error {
		ino, err := m.openOrMake(name)
		if err != nil {
			return err
		}
		if m.locks[ino] {
			return ErrLocked
		}
		m.locks[ino] = true
		lock = &memLock{m: m, ino: ino, life: m.life}
		return nil
	})
	return lock, err
}

// Usage returns the capacity and what is left of it.
func (m *Mem) Usage(dir string) (u Usage, err error) {
	err = m.do(OpUsage, dir, func(name string, _ Fault) error {
		_, err := m.lookup(name, inCache)
		u = Usage{Total: m.capacity, Free: max(0, m.capacity-m.used*PageSize)}
		return err
	})
	return u, err
}

// memLock is a held lock.
type memLock struct {
	m    *Mem
	ino  *inode
	life uint64
}

// Close gives the lock back; after a crash it was given back already.
func (l *memLock) Close() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if l.life != l.m.life {
		return ErrStale
	}
	if l.ino == nil {
		return fs.ErrClosed
	}
	delete(l.m.locks, l.ino)
	l.ino = nil
	return nil
}

// memInfo is the FileInfo of a Mem.
type memInfo struct {
	name  string
	size  int64
	dir   bool
	mtime int64
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) IsDir() bool        { return i.dir }
func (i memInfo) ModTime() time.Time { return time.Unix(0, i.mtime).UTC() }
func (i memInfo) Sys() any           { return nil }

func (i memInfo) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o750
	}
	return 0o640
}
