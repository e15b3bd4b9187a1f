package vfs

import (
	"errors"

	"golang.org/x/sys/unix"
)

var _ Sparse = (*osFile)(nil)

// datasync makes a file's bytes and size durable without its times.
func (f *osFile) datasync() error { return f.control(unix.Fdatasync) }

// fallocate reserves [0, size) and grows the file.
func fallocate(fd int, size int64) error { return unix.Fallocate(fd, 0, 0, size) }

// dropCache drops clean cached pages of a range.
func dropCache(fd int, off, n int64) error {
	return unix.Fadvise(fd, off, n, unix.FADV_DONTNEED)
}

// maxRanges bounds the answer of Written; what lies behind so many is one range.
const maxRanges = 1024

// Written asks SEEK_DATA and SEEK_HOLE: allocated space that was never written counts
// as empty, unless a read has put it in the cache. A file system that cannot tell
// names the whole.
func (f *osFile) Written(off, end int64) (out []Range, err error) {
	if err := checkOffset(off); err != nil {
		return nil, f.fail(OpRead, off, err)
	}
	for at := off; at < end; {
		from, to := at, end
		err := f.control(func(fd int) error {
			var err error
			if from, err = unix.Seek(fd, at, unix.SEEK_DATA); err == nil && len(out) < maxRanges {
				to, err = unix.Seek(fd, from, unix.SEEK_HOLE)
			}
			return err
		})
		switch {
		case errors.Is(err, unix.ENXIO): // nothing behind at
			return out, nil
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return []Range{{off, end}}, nil
		case err != nil:
			return nil, f.fail(OpRead, at, err)
		case from >= end:
			return out, nil
		}
		out = append(out, Range{from, min(to, end)})
		at = to
	}
	return out, nil
}
