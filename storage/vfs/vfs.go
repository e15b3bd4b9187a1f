// Package vfs is the file system as storage sees it: small enough to fake, with
// the durability rules spelled out. OS is the real one; Mem is a crashable
// memory with the fault model of DESIGN section 7. One conformance suite runs
// on both.
//
// Durability contract: a byte written is durable only after Sync of its file
// returned nil; a name created, renamed or removed is durable only after
// SyncDir of its directory returned nil. After a failed Sync nothing may be
// assumed about any byte written since the last good one, and a later Sync
// that returns nil proves nothing about them.
package vfs

import (
	"errors"
	"io"
	"io/fs"
)

// ErrNoSpace marks writes and allocations refused because the disk is full
// (ENOSPC). The file is as it was, up to a partial write.
var ErrNoSpace = errors.New("no space left on device")

// ErrIO marks a device error (EIO). After one from Sync or WriteAt the claim to
// the store is gone: nothing written since the last good Sync may be believed.
var ErrIO = errors.New("input/output error")

// ErrReadOnly marks a change refused because the file system is mounted
// read-only (EROFS).
var ErrReadOnly = errors.New("read-only file system")

// ErrLocked is returned by Lock when another owner holds the lock.
var ErrLocked = errors.New("locked by another process")

// File is one open file. Methods may be used from several goroutines at once,
// as pread and pwrite may.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Sync makes all bytes whose WriteAt returned before the call durable.
	Sync() error
	// Truncate sets the size in bytes; bytes of a later regrowth read as zero.
	Truncate(size int64) error
	// Allocate reserves [0, size) and sets the size, so that later writes inside
	// it cannot fail for want of space. New bytes read as zero.
	Allocate(size int64) error
	// Size returns the size in bytes.
	Size() (int64, error)
	// DropCache asks that clean cached pages of [off, off+n) be dropped, so that the
	// next read comes from the device (rule P5a). Best effort; n <= 0 drops nothing.
	DropCache(off, n int64) error
}

// Sparse is a File that knows where nothing was ever written.
type Sparse interface {
	// Written lists the ranges of [off, end) that may hold anything but zeros,
	// ascending. All of [off, end) is always a right answer.
	Written(off, end int64) ([]Range, error)
}

// Range is [Off, End) of a file, in bytes.
type Range struct{ Off, End int64 }

// Usage is the room on the disk that holds a directory, in bytes.
type Usage struct{ Total, Free int64 }

// FS is a file system. Names are slash-separated and relative to its root.
// Missing files give errors that match fs.ErrNotExist.
type FS interface {
	// Open opens an existing file for reading and writing.
	Open(name string) (File, error)
	// Create makes an empty file, replacing any old one, open for both.
	Create(name string) (File, error)
	Remove(name string) error
	// Rename replaces newName atomically with respect to crashes once SyncDir ran.
	Rename(oldName, newName string) error
	MkdirAll(dir string) error
	// List returns the entry names of dir in ascending order.
	List(dir string) ([]string, error)
	Stat(name string) (fs.FileInfo, error)
	SyncDir(dir string) error
	// Lock takes an exclusive lock on name (created if absent) until closed.
	Lock(name string) (io.Closer, error)
	Usage(dir string) (Usage, error)
}
