package vfs

import (
	"fmt"
	"io"
	"io/fs"
)

// memFile is an open file of a Mem.
type memFile struct {
	m      *Mem
	ino    *inode
	life   uint64
	closed bool
}

// handle opens ino in the present life.
func (m *Mem) handle(ino *inode) *memFile {
	if ino.life != m.life {
		ino.life, ino.handles = m.life, 0
	}
	ino.handles++
	return &memFile{m: m, ino: ino, life: m.life}
}

// openIn returns how many handles of the given life are open.
func (ino *inode) openIn(life uint64) int {
	if ino.life != life {
		return 0
	}
	return ino.handles
}

// begin checks the handle and asks what goes wrong; the caller holds the lock.
func (f *memFile) begin(kind OpKind, off int64, n int) (Fault, error) {
	if f.life != f.m.life {
		return Fault{}, ErrStale
	}
	if f.closed {
		return Fault{}, fs.ErrClosed
	}
	if off < 0 {
		return Fault{}, fmt.Errorf("offset or size %d is negative: %w", off, fs.ErrInvalid)
	}
	return f.m.begin(Op{Kind: kind, Name: f.ino.path, Off: off, Len: n})
}

// fail wraps err with the operation and the file.
func (f *memFile) fail(kind OpKind, off int64, err error) error {
	return fmt.Errorf("%s %s at %d: %w", kind, f.ino.path, off, err)
}

// ReadAt reads through the cache.
func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	fault, err := f.begin(OpRead, off, len(p))
	if err != nil {
		n := 0
		if fault.Done > 0 {
			n, _ = f.ino.read(p[:min(fault.Done, len(p))], off, inCache) // err is the fault's
		}
		return n, f.fail(OpRead, off, err)
	}
	n, err := f.ino.read(p, off, inCache)
	if err != nil && err != io.EOF {
		err = f.fail(OpRead, off, err)
	}
	return n, err
}

// WriteAt writes into the cache.
func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	fault, err := f.begin(OpWrite, off, len(p))
	if err != nil {
		n := 0
		if fault.Done > 0 {
			n, _ = f.write(p[:min(fault.Done, len(p))], off) // err is the fault's
		}
		return n, f.fail(OpWrite, off, err)
	}
	n, err := f.write(p, off)
	if err != nil {
		err = f.fail(OpWrite, off, err)
	}
	return n, err
}

func (f *memFile) write(p []byte, off int64) (int, error) {
	if f.m.now != nil {
		f.ino.mtime = f.m.now()
	}
	return f.ino.write(p, off, &f.m.pool, f.m.take)
}

// Sync puts the file's dirty pages and its size on the platter.
func (f *memFile) Sync() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	fault, err := f.begin(OpSync, 0, 0)
	if err != nil {
		if fault.Err != nil {
			f.ino.syncSome(fault.Pages, fault.Drop, &f.m.pool)
		}
		return f.fail(OpSync, 0, err)
	}
	if fault.Lie {
		return nil
	}
	if fault.Misdirect != nil {
		if err := f.m.misdirect(f.ino, *fault.Misdirect); err != nil {
			return f.fail(OpSync, fault.Misdirect.Page, err)
		}
	}
	f.ino.sync(&f.m.pool)
	return nil
}

// Truncate sets the size.
func (f *memFile) Truncate(size int64) error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if _, err := f.begin(OpTruncate, size, 0); err != nil {
		return f.fail(OpTruncate, size, err)
	}
	f.m.used -= f.ino.truncate(size, &f.m.pool)
	return nil
}

// Allocate reserves room and grows the file to size.
func (f *memFile) Allocate(size int64) error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	_, err := f.begin(OpAllocate, size, 0)
	if err == nil {
		err = f.ino.allocate(size, f.m.take)
	}
	if err != nil {
		return f.fail(OpAllocate, size, err)
	}
	return nil
}

// Size returns the size as processes see it.
func (f *memFile) Size() (int64, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if _, err := f.begin(OpSize, 0, 0); err != nil {
		return 0, f.fail(OpSize, 0, err)
	}
	return f.ino.size, nil
}

// DropCache forgets clean pages of the range, so that reads see the platter.
func (f *memFile) DropCache(off, n int64) error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if _, err := f.begin(OpDropCache, off, 0); err != nil {
		return f.fail(OpDropCache, off, err)
	}
	if n > 0 {
		f.ino.dropCache(off, n, &f.m.pool)
	}
	return nil
}

// Close ends the handle. It makes nothing durable.
func (f *memFile) Close() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if f.life != f.m.life {
		return ErrStale
	}
	if f.closed {
		return fs.ErrClosed
	}
	f.closed = true
	f.ino.handles--
	f.m.release(f.ino)
	return nil
}
