package live

import (
	"bytes"
	"errors"

	"lockstep/storage/vfs"
)

// file is one open file on both sides. Changes reach the shadow first, whose
// verdict counts, and then the real file; syncs the other way round, so that the
// shadow says "durable" only after the device did. What is written while a sync is
// under way counts with it: there the simulator is stricter.
type file struct {
	life         *files
	name         string
	shadow, real vfs.File
}

var _ vfs.File = (*file)(nil)

// change does something to both sides.
func (f *file) change(do func(side vfs.File) error) error {
	if f.life.over() {
		return vfs.ErrStale
	}
	if err := do(f.shadow); err != nil {
		return err
	}
	return do(f.real)
}

// ReadAt reads the real file. Where faults may be due the shadow has the last word.
func (f *file) ReadAt(p []byte, off int64) (int, error) {
	if f.life.over() {
		return 0, vfs.ErrStale
	}
	n, err := f.real.ReadAt(p, off)
	if !f.life.exact.Load() {
		return n, err
	}
	mine := make([]byte, len(p))
	k, fault := f.shadow.ReadAt(mine, off)
	copy(p, mine[:k])
	return k, fault
}

// WriteAt writes. Of a write that the shadow breaks off the real file gets as much.
func (f *file) WriteAt(p []byte, off int64) (int, error) {
	if f.life.over() {
		return 0, vfs.ErrStale
	}
	n, fault := f.shadow.WriteAt(p, off)
	if k, err := f.real.WriteAt(p[:n], off); err != nil && fault == nil {
		return k, err
	}
	return n, fault
}

// Truncate sets the size.
func (f *file) Truncate(size int64) error {
	return f.change(func(side vfs.File) error { return side.Truncate(size) })
}

// Allocate reserves room.
func (f *file) Allocate(size int64) error {
	return f.change(func(side vfs.File) error { return side.Allocate(size) })
}

// Sync makes the file durable, for real and then in the record.
func (f *file) Sync() error {
	if f.life.over() {
		return vfs.ErrStale
	}
	if err := f.real.Sync(); err != nil {
		return err
	}
	return f.shadow.Sync()
}

// Size is the real size.
func (f *file) Size() (int64, error) {
	if f.life.over() {
		return 0, vfs.ErrStale
	}
	return f.real.Size()
}

// DropCache drops both caches. What the device of the shadow holds otherwise than
// its cache did, by damage, is then put into the real file.
func (f *file) DropCache(off, n int64) error {
	if err := f.change(func(side vfs.File) error { return side.DropCache(off, n) }); err != nil || n <= 0 {
		return err
	}
	size, err := f.real.Size()
	for end := min(off+n, size); err == nil && off < end; off += step {
		err = f.resurface(off, int(min(step, end-off)))
	}
	return err
}

// resurface makes bytes of the real file what the shadow reads there now.
func (f *file) resurface(off int64, n int) error {
	want, have := make([]byte, n), make([]byte, n)
	if _, err := f.shadow.ReadAt(want, off); err != nil {
		f.life.exact.Store(true) // a sector cannot be read: the shadow answers from here on
		return nil
	}
	if _, err := f.real.ReadAt(have, off); err != nil {
		return err
	}
	if bytes.Equal(want, have) {
		return nil
	}
	_, err := f.real.WriteAt(want, off)
	return err
}

// Close closes both.
func (f *file) Close() error { return errors.Join(f.shadow.Close(), f.life.forget(f.real)) }
