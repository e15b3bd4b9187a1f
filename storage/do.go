package storage

import (
	"errors"
	"fmt"
	"io/fs"

	"lockstep/internal/ha"
	"lockstep/internal/invariant"
	"lockstep/storage/vfs"
)

// Do performs one operation and returns its outcome. It blocks for as long as
// the disk takes. Operations of different lanes may run at once; those of one
// lane come one after the other, in the order they were issued.
func (s *Store) Do(op Op) Result {
	res := Result{Op: op}
	switch op.Kind {
	case OpAppend:
		res.Err = s.append(op)
	case OpSync:
		res.Err = s.log.sync()
	case OpTruncate:
		if res.Err = s.truncate(op); res.Err == nil {
			res.Queues, res.Err = s.queues.bounds(op.Confirm)
		}
	case OpPrepare:
		if res.Err = s.writable(); res.Err == nil {
			res.Err = s.log.prepare(int64(op.Off))
		}
	case OpQueue:
		res.Err = s.dispatch(op)
	case OpCheckpoint:
		res.Err = s.checkpoint(op)
	case OpSave:
		res.Err = s.save(op.Name, op.Blob)
	case OpExpire:
		if res.Offset, res.Err = s.expire(op); res.Err == nil {
			res.Queues, res.Err = s.queues.bounds(op.Confirm)
		}
	case OpRead:
		res.Bytes, res.Err = s.puller.reader.span(int64(op.Off), min(op.Max, maxReadBytes))
	case OpPull:
		res.Bytes, res.Pull, res.Err = s.puller.pull(op.Pull)
	case OpSeek:
		res.Offset, res.Err = s.puller.seek(op.Pull.Topic, op.Pull.Queue, op.WallMillis)
	case OpLoadMeta:
		res.Records, res.Err = s.puller.loadMeta(op.Off)
	case OpSuspect:
		res.Err = s.suspect(op.Name)
	case OpCleanStop:
		res.Err = s.cleanStop(op.Confirm)
	case OpReset:
		res.Err = s.reset(op)
	case OpBoot:
		res.Err = s.raiseBoot(op.Max)
	default:
		res.Err = fmt.Errorf("%w: operation kind %d is not a store's", ErrInvalid, op.Kind)
	}
	return res
}

// maxReadBytes limits one OpRead, in bytes.
const maxReadBytes = 32 << 20

// writable refuses changes to a store that is damaged, has failed, or has ended
// its life.
func (s *Store) writable() error {
	if s.readOnly != nil {
		return s.readOnly
	}
	if s.stopped.Load() {
		return fmt.Errorf("%w: the store was stopped cleanly", ErrInvalid)
	}
	return s.log.usable()
}

func (s *Store) append(op Op) error {
	if err := s.writable(); err != nil {
		return err
	}
	return s.log.append(int64(op.Off), op.Data)
}

// truncate cuts the log at op.Off, by rule P10. Cutting at the end does nothing.
func (s *Store) truncate(op Op) error {
	if err := s.writable(); err != nil {
		return err
	}
	s.meta.Lock()
	defer s.meta.Unlock()
	lo, end, _ := s.log.bounds()
	off := int64(op.Off)
	invariant.That(off <= end, "truncate at %d, the log ends at %d", off, end)
	if off < lo {
		return fmt.Errorf("%w: truncate at %d, the log begins at %d: the replica has to be rebuilt", ErrRange, off, lo)
	}
	s.cutID, s.cutAt = op.ID, op.Off
	c := cutter{fsys: s.fsys, log: s.log, queues: s.queues, lower: s.lowerMarks}
	if off == end {
		if _, pending, err := readCut(s.fsys); err != nil || !pending {
			return err
		}
		return c.finish(off) // the first try ran out of space half-way
	}
	return c.cut(off)
}

// lowerMarks is the cutter's view of the floor and of the list of queues. The
// caller holds meta, or is recovery.
func (s *Store) lowerMarks(off ha.LogOffset) error {
	if err := s.failing(s.floor.write(s.floor.last.lowered(off, s.o.Segment))); err != nil {
		return err
	}
	return s.failing(lowerQueueList(s.fsys, s.queues, off))
}

// dispatch appends queue entries. Entries above the end are those of an
// operation that a truncation overtook.
func (s *Store) dispatch(op Op) error {
	if s.stopped.Load() {
		return s.writable()
	}
	_, end, _ := s.log.bounds()
	s.meta.Lock()
	if op.ID < s.cutID {
		end = min(end, int64(s.cutAt))
	}
	s.meta.Unlock()
	return s.queues.append(op.Entries, logOff(end))
}

// expire removes old segments and the queue entries that point to them.
func (s *Store) expire(op Op) (int64, error) {
	if err := s.writable(); err != nil {
		return 0, err
	}
	off, err := s.syncQueuesTo(op.Off)
	if err != nil {
		return 0, err
	}
	lo, err := s.log.expire(int64(off))
	if err != nil {
		return lo, err
	}
	return lo, s.queues.expire(logOff(lo))
}

// syncQueuesTo makes the queue units of records below off durable and returns
// up to where they are. Only the log can tell them again, so they come first
// when its beginning goes. A log that outlives QueueSync finds them synced.
func (s *Store) syncQueuesTo(off ha.LogOffset) (ha.LogOffset, error) {
	s.meta.Lock()
	defer s.meta.Unlock()
	filed, _ := s.queues.filedTo()
	m := s.floor.last
	if off = min(off, filed); off <= m.dispatched {
		return off, nil
	}
	m.dispatched = min(filed, logOff(s.log.durableEnd()))
	m.anchor = s.anchor(m.dispatched)
	return min(off, m.dispatched), s.saveFloor(m, s.wall, true)
}

// failing makes the failure of a synced write sticky, except a full disk.
func (s *Store) failing(err error) error {
	if err == nil || errors.Is(err, ErrDiskFull) || errors.Is(err, ErrFailed) {
		return err
	}
	return s.log.fail(err)
}

// checkpoint records the durable floor. Queues are synced only now and then: the
// mark keeps the offset up to which they were.
func (s *Store) checkpoint(op Op) error {
	if err := s.writable(); err != nil {
		return err
	}
	s.meta.Lock()
	defer s.meta.Unlock()
	if op.ID < s.cutID {
		return nil // issued before the cut: its offsets belong to the other history
	}
	durable := logOff(s.log.durableEnd())
	_, end, _ := s.log.bounds()
	m := s.floor.last
	m.floor, m.confirm = min(op.Off, durable), min(op.Confirm, logOff(end))
	dispatched := min(op.Dispatched, logOff(end))
	syncQueues := int64(dispatched-m.dispatched) >= s.o.QueueSync
	if syncQueues {
		m.dispatched, m.anchor = dispatched, s.anchor(dispatched)
	}
	return s.saveFloor(m, op.WallMillis, syncQueues)
}

// anchor is the start of a record below off: of the last one that was filed, or
// of the segment before off.
func (s *Store) anchor(off ha.LogOffset) ha.LogOffset {
	if _, start := s.queues.filedTo(); start >= 0 && start < off {
		return start
	}
	return segmentBefore(off, s.o.Segment)
}

// segmentBefore is the start of the segment that holds the byte before off.
func segmentBefore(off ha.LogOffset, segment int64) ha.LogOffset {
	return logOff(max(int64(off)-1, 0) / segment * segment)
}

// saveFloor makes a mark durable, after the queues when it raises what they
// cover, and brings the native checkpoint up to date. The caller holds meta, or
// is recovery.
func (s *Store) saveFloor(m floorMark, wall int64, syncQueues bool) error {
	if syncQueues {
		lo, _, _ := s.log.bounds()
		list := queueList{dispatched: m.dispatched, logMin: logOff(lo)}
		var err error
		// Before the sync: what another lane adds during it may not be covered.
		if list.queues, err = s.queues.bounds(m.dispatched); err != nil {
			return s.failing(err)
		}
		for i := range list.queues {
			list.queues[i].Max = list.queues[i].Visible
		}
		if err := s.failing(s.queues.sync()); err != nil {
			return err
		}
		if err := vfs.WriteAtomic(s.fsys, nameQueues, list.encode()); err != nil {
			return s.failing(fmt.Errorf("write %s: %w", nameQueues, mapDisk(err)))
		}
		s.logics = wall
	}
	if err := s.failing(s.floor.write(m)); err != nil {
		return err
	}
	s.wall = wall
	return s.failing(s.writeNative(m, syncQueues))
}

// writeNative updates the native checkpoint in place, as Java does. Only Java
// reads it, so it is synced together with the queues and not each time.
func (s *Store) writeNative(m floorMark, sync bool) error {
	if s.native == nil {
		f, err := s.fsys.Open(nameCheckpoint)
		if errors.Is(err, fs.ErrNotExist) {
			if f, err = s.fsys.Create(nameCheckpoint); err == nil {
				err = s.fsys.SyncDir(".")
			}
		}
		if err != nil {
			return fmt.Errorf("open %s: %w", nameCheckpoint, mapDisk(err))
		}
		s.native = f
	}
	c := nativeCheckpoint{physicMillis: s.wall, logicsMillis: s.logics, indexMillis: s.logics, masterFlushed: m.floor, confirm: m.confirm}
	if _, err := s.native.WriteAt(c.encode(), 0); err != nil {
		return fmt.Errorf("write %s: %w", nameCheckpoint, mapDisk(err))
	}
	if sync {
		if err := s.native.Sync(); err != nil {
			return fmt.Errorf("sync %s: %w", nameCheckpoint, err)
		}
	}
	return nil
}

// save replaces a small file, or removes it where an empty blob says so.
func (s *Store) save(name string, blob []byte) error {
	if err := checkSaveName(name); err != nil {
		return err
	}
	s.meta.Lock()
	defer s.meta.Unlock()
	if s.stopped.Load() {
		return s.writable()
	}
	if len(blob) == 0 && removable(name) {
		return removeDurably(s.fsys, name)
	}
	if name == NameEpochFile {
		if err := s.backUpEpochs(); err != nil {
			return err
		}
	}
	if err := vfs.WriteAtomic(s.fsys, name, blob); err != nil {
		return mapDisk(err)
	}
	return nil
}

// backUpEpochs keeps the present epoch file as its backup.
func (s *Store) backUpEpochs() error {
	old, err := vfs.ReadFile(s.fsys, NameEpochFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = vfs.WriteAtomic(s.fsys, nameEpochBackup, old)
	}
	if err != nil {
		return fmt.Errorf("back up %s: %w", NameEpochFile, mapDisk(err))
	}
	return nil
}

// raiseBoot makes the boot counter at least boot, durably (rule P18).
func (s *Store) raiseBoot(boot int) error {
	s.meta.Lock()
	defer s.meta.Unlock()
	if s.stopped.Load() {
		return s.writable()
	}
	if boot < 0 || int64(boot) > int64(^ha.Boot(0)) {
		return fmt.Errorf("%w: boot counter %d", ErrInvalid, boot)
	}
	if ha.Boot(boot) <= s.identity.Boot {
		return nil
	}
	if err := saveBoot(s.fsys, ha.Boot(boot), s.identity.Nonce); err != nil {
		return err
	}
	s.identity.Boot = ha.Boot(boot)
	return nil
}

// suspect leaves the suspect mark, or removes it when reason is empty: after a
// full verify. It works on a store that has failed, as far as the disk lets it.
func (s *Store) suspect(reason string) error {
	s.meta.Lock()
	defer s.meta.Unlock()
	if reason == "" {
		if err := s.writable(); err != nil {
			return err
		}
		return removeDurably(s.fsys, nameSuspect)
	}
	return markSuspect(s.fsys, reason)
}
