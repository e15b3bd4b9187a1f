package storage

import (
	"errors"
	"fmt"

	"lockstep/storage/vfs"
)

// loadSegments lists the commit log files. It refuses a gap, a foreign size and
// a short file that no crash explains; a short last file, which a crash while
// it was made or cut leaves, is completed with zeros. known says that the
// segment size is the one this store was made with.
func (l *commitLog) loadSegments(known bool) error {
	names, err := listDir(l.fsys, dirCommitLog)
	if err != nil {
		return err
	}
	var bases []int64
	for _, name := range names {
		if base, ok := parseSegmentName(name); ok {
			bases = append(bases, base)
		}
	}
	for i, base := range bases {
		if i > 0 && base != bases[i-1]+l.size {
			if base < bases[i-1]+l.size {
				return l.wrongSize(bases[i-1], base-bases[i-1])
			}
			return l.missing(bases[i-1] + l.size)
		}
		if base%l.size != 0 {
			return l.wrongSize(base, base)
		}
		if err := l.loadSegment(base, i == len(bases)-1, known); err != nil {
			return err
		}
	}
	if len(l.segs) > 0 {
		l.min = l.segs[0].base
		l.end = l.segs[len(l.segs)-1].base + l.size
	}
	return nil
}

func (l *commitLog) loadSegment(base int64, mayBeShort, known bool) error {
	name := l.segmentFile(base)
	f, err := l.fsys.Open(name)
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	size, err := f.Size()
	switch {
	case err != nil:
		err = fmt.Errorf("size of %s: %w", name, err)
	case size == l.size:
	case size > l.size, size > 0 && !known:
		err = l.wrongSize(base, size)
	case !mayBeShort:
		err = l.damageAt(base+size, fmt.Sprintf("file ends at byte %d of %d and is not the last one", size, l.size))
	default:
		if err = f.Allocate(l.size); err == nil {
			err = f.Sync()
		}
		err = mapDisk(err)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.segs = append(l.segs, &segment{base: base, file: f})
	return nil
}

func (l *commitLog) wrongSize(base, size int64) error {
	return fmt.Errorf("%w: %s is %d bytes, mappedFileSizeCommitLog says %d: set it to the size the store was made with",
		ErrForeignStore, l.segmentFile(base), size, l.size)
}

// syncDirs makes the names that are there durable, and the absence of those that
// are not: after a kill the directory in memory can be ahead of the disk, and
// recovery must not build on a removal that a power loss would undo.
func syncDirs(fsys vfs.FS) error {
	for _, dir := range []string{dirCommitLog, dirConsumeQueue, dirConfig, dirLockstep} {
		if err := vfs.MkdirAllSync(fsys, dir); err != nil {
			return fmt.Errorf("make %s: %w", dir, mapDisk(err))
		}
	}
	return nil
}
