package live

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/storage/vfs"
)

// disk is one node's directory of real files and the shadow that records what was
// written and synced in it. Faults and crashes happen to the shadow; the real
// files follow: an operation that the shadow refuses is not done, and before each
// life the files are made what the shadow holds, which after anything but a
// damaged, lost or restored disk they are already.
type disk struct {
	path   string
	real   vfs.FS
	shadow *vfs.Mem
	damage damage

	mu    sync.Mutex
	life  *files // the present one, nil while the node is down
	exact bool   // of this and of later lives
}

func newDisk(path string, now func() int64) *disk {
	return &disk{path: path, real: vfs.OS(path), shadow: vfs.NewMem(vfs.MemOptions{Now: now, Shared: true})}
}

// begin opens the disk for a life.
func (d *disk) begin() *files {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.life = &files{disk: d, open: map[io.Closer]struct{}{}}
	d.life.exact.Store(d.exact)
	return d.life
}

// crash ends the life that uses the disk and does to the shadow what the end of a
// process or a loss of power does.
func (d *disk) crash(do func(m *vfs.Mem)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.life != nil {
		d.life.ended.Store(true)
		d.life = nil
	}
	do(d.shadow)
}

// obey makes the shadow decide each operation before the real files see it, from
// now on: a fault of the disk may be due.
func (d *disk) obey() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.exact = true
	if d.life != nil {
		d.life.exact.Store(true)
	}
}

// step is the size of comparisons, bytes.
const step = 256 << 10

// materialise makes the real files what the shadow holds.
func (d *disk) materialise() error {
	if err := d.real.MkdirAll("."); err != nil {
		return err
	}
	return d.walk(".", d.repair)
}

// differs says how the real files differ from the shadow; "" when they do not.
func (d *disk) differs() string {
	var found []string
	if _, err := os.Stat(d.path); errors.Is(err, fs.ErrNotExist) {
		return "" // a node without files
	}
	err := d.walk(".", func(name string, why string) error {
		found = append(found, name+": "+why)
		return nil
	})
	if err != nil {
		found = append(found, err.Error())
	}
	if len(found) == 0 {
		return ""
	}
	return fmt.Sprintf("%d files are not what was written to them: %s", len(found), found[0])
}

// walk compares a directory of both sides and calls do for every name that
// differs.
func (d *disk) walk(dir string, do func(name, why string) error) error {
	want, err := d.shadow.List(dir)
	if err != nil {
		return err
	}
	have, err := d.real.List(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, entry := range have {
		if !slices.Contains(want, entry) {
			if err := do(path.Join(dir, entry), "it should not exist"); err != nil {
				return err
			}
		}
	}
	for _, entry := range want {
		name := path.Join(dir, entry)
		info, err := d.shadow.Stat(name)
		if err != nil {
			return err
		}
		if why := d.compare(name, info); why != "" {
			if err := do(name, why); err != nil {
				return err
			}
		}
		if info.IsDir() {
			if err := d.walk(name, do); err != nil {
				return err
			}
		}
	}
	return nil
}

// compare says how one name differs.
func (d *disk) compare(name string, info fs.FileInfo) string {
	real, err := d.real.Stat(name)
	switch {
	case err != nil:
		return "it is missing"
	case real.IsDir() != info.IsDir():
		return "it is of another kind"
	case info.IsDir():
		return ""
	case real.Size() != info.Size():
		return fmt.Sprintf("%d bytes, want %d", real.Size(), info.Size())
	}
	f, err := d.real.Open(name)
	if err != nil {
		return err.Error()
	}
	defer closeQuietly(f)
	buf := make([]byte, step)
	for off := int64(0); off < info.Size(); off += step {
		n := int(min(step, info.Size()-off))
		if _, err := f.ReadAt(buf[:n], off); err != nil && err != io.EOF {
			return err.Error()
		}
		if want, ok := d.shadow.CachedAt(name, off, n); ok && !bytes.Equal(want, buf[:n]) {
			return fmt.Sprintf("bytes differ within [%d, %d)", off, off+int64(n))
		}
	}
	return ""
}

// repair makes one name what the shadow holds.
func (d *disk) repair(name, _ string) error {
	info, err := d.shadow.Stat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() {
		if err := os.RemoveAll(path.Join(d.path, name)); err != nil || info == nil {
			return err
		}
		return d.real.MkdirAll(name)
	}
	if err != nil {
		return err
	}
	if have, err := d.real.Stat(name); err == nil && have.IsDir() {
		if err := os.RemoveAll(path.Join(d.path, name)); err != nil {
			return err
		}
	}
	f, err := d.real.Create(name)
	if err != nil {
		return err
	}
	for off := int64(0); off < info.Size() && err == nil; off += step {
		n := int(min(step, info.Size()-off))
		if b, ok := d.shadow.CachedAt(name, off, n); ok {
			_, err = f.WriteAt(b, off)
		}
	}
	return errors.Join(err, f.Truncate(info.Size()), f.Close())
}

// files is the disk as one life of the node sees it.
type files struct {
	disk  *disk
	ended atomic.Bool // the process is dead: nothing it does happens any more
	exact atomic.Bool // the shadow decides before the real files see an operation

	mu   sync.Mutex
	open map[io.Closer]struct{} // real files, closed with the life
}

var _ vfs.FS = (*files)(nil)

// over reports whether the life has ended.
func (f *files) over() bool { return f.ended.Load() }

// closeAll closes what the life left open, as the end of a process does; locks go
// with it.
func (f *files) closeAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.open {
		closeQuietly(c)
	}
	clear(f.open)
}

func (f *files) opened(c io.Closer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open[c] = struct{}{}
}

func (f *files) forget(c io.Closer) error {
	f.mu.Lock()
	delete(f.open, c)
	f.mu.Unlock()
	return c.Close()
}

// both does an operation on names in the shadow and, if that succeeds, for real.
func (f *files) both(do func(fsys vfs.FS) error) error {
	if f.over() {
		return vfs.ErrStale
	}
	if err := do(f.disk.shadow); err != nil {
		return err
	}
	return do(f.disk.real)
}

// handle opens or creates a file on both sides.
func (f *files) handle(name string, open func(fsys vfs.FS, name string) (vfs.File, error)) (vfs.File, error) {
	if f.over() {
		return nil, vfs.ErrStale
	}
	shadow, err := open(f.disk.shadow, name)
	if err != nil {
		return nil, err
	}
	real, err := open(f.disk.real, name)
	if err != nil {
		return nil, errors.Join(err, shadow.Close())
	}
	f.opened(real)
	return &file{life: f, name: name, shadow: shadow, real: real}, nil
}

// Open opens an existing file.
func (f *files) Open(name string) (vfs.File, error) { return f.handle(name, vfs.FS.Open) }

// Create makes an empty file.
func (f *files) Create(name string) (vfs.File, error) { return f.handle(name, vfs.FS.Create) }

// Remove removes a name.
func (f *files) Remove(name string) error {
	return f.both(func(fsys vfs.FS) error { return fsys.Remove(name) })
}

// Rename moves a file.
func (f *files) Rename(oldName, newName string) error {
	return f.both(func(fsys vfs.FS) error { return fsys.Rename(oldName, newName) })
}

// MkdirAll makes a directory.
func (f *files) MkdirAll(dir string) error {
	return f.both(func(fsys vfs.FS) error { return fsys.MkdirAll(dir) })
}

// List returns the real names.
func (f *files) List(dir string) ([]string, error) {
	if f.over() {
		return nil, vfs.ErrStale
	}
	if _, err := f.disk.shadow.List(dir); err != nil {
		return nil, err
	}
	return f.disk.real.List(dir)
}

// dated is a real file with a time of the world.
type dated struct {
	fs.FileInfo
	at time.Time
}

// ModTime is when the file was changed, in the world's time.
func (d dated) ModTime() time.Time { return d.at }

// Stat describes a file.
func (f *files) Stat(name string) (fs.FileInfo, error) {
	if f.over() {
		return nil, vfs.ErrStale
	}
	shadow, err := f.disk.shadow.Stat(name)
	if err != nil {
		return nil, err
	}
	real, err := f.disk.real.Stat(name)
	if err != nil {
		return nil, err
	}
	return dated{real, shadow.ModTime()}, nil
}

// SyncDir makes names durable: for real first, so that the shadow never says so
// too early.
func (f *files) SyncDir(dir string) error {
	if f.over() {
		return vfs.ErrStale
	}
	if err := f.disk.real.SyncDir(dir); err != nil {
		return err
	}
	return f.disk.shadow.SyncDir(dir)
}

// lock is a lock on both sides.
type lock struct {
	life         *files
	shadow, real io.Closer
}

// Close gives the lock back.
func (l *lock) Close() error { return errors.Join(l.shadow.Close(), l.life.forget(l.real)) }

// Lock takes a lock.
func (f *files) Lock(name string) (io.Closer, error) {
	if f.over() {
		return nil, vfs.ErrStale
	}
	shadow, err := f.disk.shadow.Lock(name)
	if err != nil {
		return nil, err
	}
	real, err := f.disk.real.Lock(name)
	if err != nil {
		return nil, errors.Join(err, shadow.Close())
	}
	f.opened(real)
	return &lock{f, shadow, real}, nil
}

// Usage is the shadow's: the size of the node's disk is part of the scenario.
func (f *files) Usage(dir string) (vfs.Usage, error) {
	if f.over() {
		return vfs.Usage{}, vfs.ErrStale
	}
	return f.disk.shadow.Usage(dir)
}
