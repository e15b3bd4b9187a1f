//go:build unix

package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Modes of what OS creates: data is for the broker's user and group.
const (
	fileMode = 0o640
	dirMode  = 0o750
)

// osFS is a directory of the real file system.
type osFS struct {
	path string
	mu   sync.Mutex
	dir  *os.Root // opened at the first use, so that OS cannot fail
}

// OS returns the file system below the directory root. The directory is opened at first
// use; MkdirAll makes it if it is missing. No name, symbolic link included, leads out of
// it: such names are refused with an error.
func OS(root string) FS { return &osFS{path: root} }

// root returns the opened root directory; with create it is made first.
func (o *osFS) root(create bool) (*os.Root, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.dir != nil {
		return o.dir, nil
	}
	if create {
		if err := MakeDir(o.path); err != nil {
			return nil, err
		}
	}
	dir, err := os.OpenRoot(o.path)
	if err != nil {
		return nil, err
	}
	o.dir = dir
	return dir, nil
}

// MakeDir makes a directory of the real file system with the parents it lacks, and
// makes their names durable: what is synced inside is lost with any of them. The
// name of a directory that is there already is made durable too, because whoever
// made it may have been killed before that.
func MakeDir(path string) error { return makeDir(path, syncDir) }

func makeDir(path string, sync func(dir string) error) error {
	path = filepath.Clean(path)
	parents := []string{filepath.Dir(path)}
	for dir := parents[0]; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			break // MkdirAll says what is wrong with it
		}
		parents = append(parents, filepath.Dir(dir))
	}
	_, err := os.Stat(path)
	made := errors.Is(err, fs.ErrNotExist)
	if err := os.MkdirAll(path, dirMode); err != nil {
		return err
	}
	for _, dir := range slices.Backward(parents) {
		err := sync(dir)
		if !made && errors.Is(err, fs.ErrPermission) {
			return nil // somebody else made the directory, and keeps what it is in
		}
		if err != nil {
			return fmt.Errorf("make the name of %s durable: %w", path, mapError(err))
		}
	}
	return nil
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// mapError adds the package's own mark to the system's error.
func mapError(err error) error {
	var mark error
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		mark = ErrNoSpace
	case errors.Is(err, unix.EIO):
		mark = ErrIO
	case errors.Is(err, unix.EROFS):
		mark = ErrReadOnly
	default:
		return err
	}
	return fmt.Errorf("%w: %w", mark, err)
}

// do runs f on a checked name below the root and wraps its error once.
func (o *osFS) do(kind OpKind, name string, f func(root *os.Root, name string) error) error {
	name, err := checkName(kind, name)
	if err != nil {
		return err
	}
	root, err := o.root(kind == OpMkdir)
	if err == nil {
		err = f(root, name)
	}
	if err != nil {
		return opError(kind, name, mapError(err))
	}
	return nil
}

func (o *osFS) open(kind OpKind, name string, flag int) (file *osFile, err error) {
	err = o.do(kind, name, func(root *os.Root, name string) error {
		f, err := root.OpenFile(name, flag|os.O_RDWR, fileMode)
		if err != nil {
			return err
		}
		conn, err := f.SyscallConn()
		if err != nil {
			return errors.Join(err, f.Close())
		}
		file = &osFile{f: f, conn: conn, name: name}
		return nil
	})
	return file, err
}

// Open opens an existing file.
func (o *osFS) Open(name string) (File, error) {
	f, err := o.open(OpOpen, name, 0)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Create makes an empty file or empties an existing one.
func (o *osFS) Create(name string) (File, error) {
	f, err := o.open(OpCreate, name, os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Remove removes a file or an empty directory.
func (o *osFS) Remove(name string) error {
	return o.do(OpRemove, name, func(root *os.Root, name string) error { return root.Remove(name) })
}

// Rename moves a file or directory.
func (o *osFS) Rename(oldName, newName string) error {
	newName, err := checkName(OpRename, newName)
	if err != nil {
		return err
	}
	return o.do(OpRename, oldName, func(root *os.Root, name string) error { return root.Rename(name, newName) })
}

// MkdirAll makes a directory and its parents.
func (o *osFS) MkdirAll(dir string) error {
	return o.do(OpMkdir, dir, func(root *os.Root, name string) error { return root.MkdirAll(name, dirMode) })
}

// List returns the names in dir, ascending.
func (o *osFS) List(dir string) (names []string, err error) {
	err = o.do(OpList, dir, func(root *os.Root, name string) error {
		f, err := root.Open(name)
		if err != nil {
			return err
		}
		names, err = f.Readdirnames(-1)
		return errors.Join(err, f.Close())
	})
	slices.Sort(names)
	return names, err
}

// Stat describes a file or directory.
func (o *osFS) Stat(name string) (info fs.FileInfo, err error) {
	err = o.do(OpStat, name, func(root *os.Root, name string) error {
		info, err = root.Stat(name)
		return err
	})
	return info, err
}

// SyncDir makes the names in dir durable.
func (o *osFS) SyncDir(dir string) error {
	return o.do(OpSyncDir, dir, func(root *os.Root, name string) error {
		f, err := root.Open(name)
		if err != nil {
			return err
		}
		info, err := f.Stat()
		if err == nil && !info.IsDir() {
			err = errNotDir
		}
		if err == nil {
			err = f.Sync()
		}
		return errors.Join(err, f.Close())
	})
}

// Lock takes an flock: it ends with the process, however that ends.
func (o *osFS) Lock(name string) (io.Closer, error) {
	f, err := o.open(OpLock, name, os.O_CREATE)
	if err != nil {
		return nil, err
	}
	err = f.control(func(fd int) error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrLocked
	}
	if err != nil {
		return nil, opError(OpLock, name, errors.Join(err, f.f.Close()))
	}
	return f.f, nil
}

// Usage returns what statfs says; Free is what an unprivileged process can use.
func (o *osFS) Usage(dir string) (u Usage, err error) {
	err = o.do(OpUsage, dir, func(root *os.Root, name string) error {
		f, err := root.Open(name)
		if err != nil {
			return err
		}
		var st unix.Statfs_t
		err = retry(func() error { return unix.Fstatfs(int(f.Fd()), &st) })
		u = Usage{Total: int64(st.Blocks) * int64(st.Bsize), Free: int64(st.Bavail) * int64(st.Bsize)}
		return errors.Join(err, f.Close())
	})
	return u, err
}

// retry repeats a system call that a signal interrupted.
func retry(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// osFile is an open file. os.File gives pread and pwrite that are safe beside Close;
// everything else goes to the descriptor through conn, which is too.
type osFile struct {
	f    *os.File
	conn syscall.RawConn
	name string
}

func (f *osFile) fail(kind OpKind, off int64, err error) error {
	return fmt.Errorf("%s %s at %d: %w", kind, f.name, off, mapError(err))
}

// control runs a system call on the descriptor.
func (f *osFile) control(call func(fd int) error) error {
	var err error
	if e := f.conn.Control(func(fd uintptr) { err = retry(func() error { return call(int(fd)) }) }); e != nil {
		return fmt.Errorf("%w: %w", fs.ErrClosed, e) // Control fails for nothing else
	}
	return err
}

// checkOffset refuses negative offsets before the system sees them.
func checkOffset(off int64) error {
	if off < 0 {
		return fmt.Errorf("offset or size %d is negative: %w", off, fs.ErrInvalid)
	}
	return nil
}

// ReadAt is pread until p is full.
func (f *osFile) ReadAt(p []byte, off int64) (int, error) {
	err := checkOffset(off)
	n := 0
	if err == nil {
		n, err = f.f.ReadAt(p, off)
	}
	if err != nil && err != io.EOF {
		err = f.fail(OpRead, off, err)
	}
	return n, err
}

// WriteAt is pwrite until p is written.
func (f *osFile) WriteAt(p []byte, off int64) (int, error) {
	err := checkOffset(off)
	n := 0
	if err == nil {
		n, err = f.f.WriteAt(p, off)
	}
	if err != nil {
		err = f.fail(OpWrite, off, err)
	}
	return n, err
}

// Sync is fdatasync: bytes and the size needed to read them.
func (f *osFile) Sync() error {
	if err := f.datasync(); err != nil {
		return f.fail(OpSync, 0, err)
	}
	return nil
}

// Truncate is ftruncate.
func (f *osFile) Truncate(size int64) error {
	err := checkOffset(size)
	if err == nil {
		err = f.control(func(fd int) error { return unix.Ftruncate(fd, size) })
	}
	if err != nil {
		return f.fail(OpTruncate, size, err)
	}
	return nil
}

// Allocate is fallocate. Where the file system has none, the bytes that the file grows by
// are written as zeros, which reserves them too.
func (f *osFile) Allocate(size int64) error {
	err := checkOffset(size)
	if err == nil && size > 0 {
		err = f.control(func(fd int) error { return fallocate(fd, size) })
		if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
			err = f.zeroFill(size)
		}
	}
	if err != nil {
		return f.fail(OpAllocate, size, err)
	}
	return nil
}

// zeroFill grows the file to size by writing zeros; on an error the old size comes back.
func (f *osFile) zeroFill(size int64) error {
	old, err := f.Size()
	if err != nil {
		return err
	}
	zeros := make([]byte, 1<<20)
	for off := old; off < size; off += int64(len(zeros)) {
		if _, err := f.f.WriteAt(zeros[:min(int64(len(zeros)), size-off)], off); err != nil {
			return errors.Join(err, f.f.Truncate(old))
		}
	}
	return nil
}

// Size is the size fstat reports.
func (f *osFile) Size() (int64, error) {
	info, err := f.f.Stat()
	if err != nil {
		return 0, f.fail(OpSize, 0, err)
	}
	return info.Size(), nil
}

// DropCache is POSIX_FADV_DONTNEED; file systems that lack it are no error.
func (f *osFile) DropCache(off, n int64) error {
	err := checkOffset(off)
	if err == nil && n > 0 {
		err = f.control(func(fd int) error { return dropCache(fd, off, n) })
		if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) {
			err = nil // best effort by contract
		}
	}
	if err != nil {
		return f.fail(OpDropCache, off, err)
	}
	return nil
}

// Close closes the descriptor. It makes nothing durable.
func (f *osFile) Close() error { return f.f.Close() }
