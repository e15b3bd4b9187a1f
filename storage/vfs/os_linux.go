package vfs

import "golang.org/x/sys/unix"

// datasync makes a file's bytes and size durable without its times.
func (f *osFile) datasync() error { return f.control(unix.Fdatasync) }

// fallocate reserves [0, size) and grows the file.
func fallocate(fd int, size int64) error { return unix.Fallocate(fd, 0, 0, size) }

// dropCache drops clean cached pages of a range.
func dropCache(fd int, off, n int64) error {
	return unix.Fadvise(fd, off, n, unix.FADV_DONTNEED)
}
