package storage

import (
	"errors"
	"fmt"
	"io/fs"

	"lockstep/internal/ha"
	"lockstep/storage/vfs"
)

// A reset throws a store's content away, so that the replica copies it from its
// master (rule P19). While its mark is there each start goes on removing; the
// new store id is durable before the first byte is gone, so that nobody takes
// the emptied store for the old one (rule P1).

// nameReset is the mark of a reset under way.
const nameReset = dirLockstep + "/reset"

// reset empties the store; the log then begins at op.Off. With a reason it gets
// a new id and a broken claim, and takes no more operations in this life.
// Without one it only moves an empty log to where the master's begins.
func (s *Store) reset(op Op) error {
	if err := s.log.usable(); err != nil {
		return err
	}
	s.meta.Lock()
	defer s.meta.Unlock()
	if s.stopped.Load() {
		return s.writable()
	}
	off := int64(op.Off)
	if off%s.o.Segment != 0 || off < 0 {
		return fmt.Errorf("%w: reset to %d: not a multiple of the segment size %d", ErrInvalid, off, s.o.Segment)
	}
	s.cutID, s.cutAt = op.ID, op.Off
	if op.Name == "" {
		return s.move(off)
	}
	blob := encodeSide("reset", fieldInt("offset", off), field("reason", op.Name))
	if err := vfs.WriteAtomic(s.fsys, nameReset, blob); err != nil {
		return fmt.Errorf("write %s: %w", nameReset, mapDisk(err))
	}
	if err := s.failing(finishReset(s.fsys, s.o, off, op.Name)); err != nil {
		return err
	}
	s.stopped.Store(true)
	return nil
}

// move lets an empty log begin at off.
func (s *Store) move(off int64) error {
	if lo, end, _ := s.log.bounds(); lo != end {
		return fmt.Errorf("%w: reset to %d without a reason: the log holds [%d, %d)", ErrInvalid, off, lo, end)
	}
	if err := s.log.rebase(off); err != nil {
		return err
	}
	return s.log.prepare(off)
}

// readReset returns the target and reason of a reset under way.
func readReset(fsys vfs.FS) (off int64, reason string, found bool, err error) {
	s, found, err := readSide(fsys, nameReset, "reset")
	if err == nil && found {
		off, err = s.number("offset")
	}
	if err != nil {
		return 0, "", true, damaged(nameReset, err.Error(), "move the store directory away and start empty")
	}
	return off, s.get("reason"), found, nil
}

// finishReset does what follows the mark; it may be repeated.
func finishReset(fsys vfs.FS, o Options, off int64, reason string) error {
	from := ha.LogOffset(-1)
	if o.RequirePropCRC {
		from = logOff(off)
	}
	if _, err := createStore(fsys, o, from); err != nil {
		return err
	}
	blob := encodeSide("claim", field("reason", "rebuilding: "+reason))
	if err := vfs.WriteAtomic(fsys, NameBrokenClaim, blob); err != nil {
		return fmt.Errorf("write %s: %w", NameBrokenClaim, mapDisk(err))
	}
	if err := errors.Join(removeTree(fsys, dirCommitLog, 0), removeTree(fsys, dirConsumeQueue, 2)); err != nil {
		return err
	}
	for _, name := range []string{nameFloor, nameCut, nameQueues, nameSuspect, nameClean, NameEpochFile, nameEpochBackup, NameReceivedAcks} {
		if err := removeDurably(fsys, name); err != nil {
			return err
		}
	}
	log := commitLog{fsys: fsys, size: o.Segment}
	if err := errors.Join(log.prepare(off), log.close()); err != nil {
		return err
	}
	return removeDurably(fsys, nameReset)
}

// removeTree removes the files in a directory and depth levels below it; the
// directories stay.
func removeTree(fsys vfs.FS, dir string, depth int) error {
	names, err := listDir(fsys, dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		path := dir + "/" + name
		if depth > 0 {
			err = removeTree(fsys, path, depth-1)
		} else {
			err = fsys.Remove(path)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s: %w", path, err)
		}
	}
	if err := fsys.SyncDir(dir); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}
