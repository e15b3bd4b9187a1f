package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// asideSuffix is added to a name while its new content is written. A file left over
// by a crash is overwritten by the next WriteAtomic.
const asideSuffix = ".tmp"

// MaxSmallFile bounds what ReadFile returns, in bytes: small files are tables, marks
// and caches; logs are read in ranges.
const MaxSmallFile = 256 << 20

// WriteAtomic replaces name with data so that every crash leaves either the whole old
// file or the whole new one: write aside, fsync, rename, fsync the directory. When
// it returns nil the new content is durable. On an error before the rename the old
// file is untouched; an error of the directory fsync leaves either one. The
// directory itself must already be durable.
func WriteAtomic(fsys FS, name string, data []byte) error {
	aside := name + asideSuffix
	if err := writeAside(fsys, aside, data); err != nil {
		// A full disk must get its space back; the old file is untouched.
		return fmt.Errorf("replace %s: %w", name, errors.Join(err, dropAside(fsys, aside)))
	}
	if err := fsys.Rename(aside, name); err != nil {
		return fmt.Errorf("replace %s: %w", name, err)
	}
	dir, _ := splitName(name)
	if err := fsys.SyncDir(dir); err != nil {
		return fmt.Errorf("replace %s: old or new after a crash: %w", name, err)
	}
	return nil
}

// writeAside makes a file with data and waits until its bytes are durable.
func writeAside(fsys FS, name string, data []byte) error {
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(data, 0); err == nil {
		// Before the rename: a name must never become durable ahead of its bytes.
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// dropAside removes what a failed write left, if anything.
func dropAside(fsys FS, name string) error {
	if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// ReadFile returns the whole content of name, at most MaxSmallFile bytes.
func ReadFile(fsys FS, name string) (data []byte, err error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > MaxSmallFile {
		return nil, fmt.Errorf("read %s: %d bytes, more than the %d a small file may have", name, size, MaxSmallFile)
	}
	data = make([]byte, size)
	n, err := f.ReadAt(data, 0)
	if err != nil && !(errors.Is(err, io.EOF) && int64(n) == size) {
		return nil, fmt.Errorf("read %s: %d of %d bytes: %w", name, n, size, err)
	}
	return data, nil
}

// MkdirAllSync makes dir and its parents and makes their names durable, so that a file
// synced in it can be found again after a power loss.
func MkdirAllSync(fsys FS, dir string) error {
	if err := fsys.MkdirAll(dir); err != nil {
		return err
	}
	if err := fsys.SyncDir("."); err != nil {
		return err
	}
	for i := 0; i < len(dir); i++ {
		if dir[i] == '/' {
			if err := fsys.SyncDir(dir[:i]); err != nil {
				return err
			}
		}
	}
	return fsys.SyncDir(dir)
}

// Exists reports whether name exists; an error other than its absence is returned.
func Exists(fsys FS, name string) (bool, error) {
	_, err := fsys.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// IsAside reports whether name is a left-over of an interrupted WriteAtomic.
func IsAside(name string) bool { return strings.HasSuffix(name, asideSuffix) }
