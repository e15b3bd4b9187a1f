package storage

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"lockstep/storage/vfs"
)

// fileHandles keeps recently used consume queue files open, at most limit of
// them beside those in use at the moment.
type fileHandles struct {
	fsys  vfs.FS
	limit int

	mu     sync.Mutex
	byName map[string]*fileHandle
	all    []*fileHandle
	clock  uint64 // of the last use: the lowest goes first
}

type fileHandle struct {
	name string
	file vfs.File
	refs int
	used uint64
	gone bool // forgotten while in use: the last user closes it
}

func newFileHandles(fsys vfs.FS, limit int) *fileHandles {
	return &fileHandles{fsys: fsys, limit: limit, byName: map[string]*fileHandle{}}
}

// get returns an open handle of name. With create the file is made, of the
// given size in zeros, when it does not exist.
func (h *fileHandles) get(name string, create bool, size int64) (*fileHandle, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	if e := h.byName[name]; e != nil {
		e.refs++
		e.used = h.clock
		return e, nil
	}
	var f vfs.File
	var err error
	if create {
		f, err = h.fsys.Create(name)
		if err == nil {
			if err = f.Truncate(size); err != nil {
				err = errors.Join(err, f.Close())
			}
		}
	} else {
		f, err = h.fsys.Open(name)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, mapDisk(err))
	}
	e := &fileHandle{name: name, file: f, refs: 1, used: h.clock}
	h.byName[name] = e
	h.all = append(h.all, e)
	return e, h.evict()
}

// put gives a handle back.
func (h *fileHandles) put(e *fileHandle) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	e.refs--
	if e.gone && e.refs == 0 {
		return e.file.Close()
	}
	return nil
}

// evict closes the handle that was not used for longest. The caller holds mu.
func (h *fileHandles) evict() error {
	if len(h.all) <= h.limit {
		return nil
	}
	var oldest *fileHandle
	for _, e := range h.all {
		if e.refs == 0 && (oldest == nil || e.used < oldest.used) {
			oldest = e
		}
	}
	if oldest == nil {
		return nil // all in use: over the limit for a moment
	}
	h.drop(oldest)
	return oldest.file.Close()
}

func (h *fileHandles) drop(e *fileHandle) {
	delete(h.byName, e.name)
	i := slices.Index(h.all, e)
	h.all = slices.Delete(h.all, i, i+1)
}

// forget drops the handle of a file that is removed or replaced.
func (h *fileHandles) forget(name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.byName[name]
	if e == nil {
		return nil
	}
	h.drop(e)
	if e.refs > 0 {
		e.gone = true
		return nil
	}
	return e.file.Close()
}

// close closes every handle.
func (h *fileHandles) close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var errs []error
	for _, e := range h.all {
		errs = append(errs, e.file.Close())
	}
	clear(h.byName)
	h.all = nil
	return errors.Join(errs...)
}
