package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"lockstep/internal/ha"
	"lockstep/storage/vfs"
)

// recovery opens a store. It first looks, then judges, then acts, so that a
// store it refuses is left as it was found. Cost: it reads the log from where
// the consume queues were last synced (options, QueueSync) to its end, and
// whatever zeros lie behind; it does not depend on the length of the log.
type recovery struct {
	fsys   vfs.FS
	o      Options
	log    *commitLog
	reader *logReader
	queues *queueSet

	// What was found.
	owner      storeFile
	owned      bool    // the store file exists
	last       ha.Boot // 0: no life of Lockstep got as far as registering
	broker     ha.BrokerID
	mark       cleanMark
	marked     bool
	abort      bool
	floor      floorMark
	floorState floorState
	native     nativeCheckpoint
	list       queueList
	listed     bool
	ends       map[queueKey]int64 // of the list, when the queues are settled
	suspect    string

	// What was judged.
	foreign    bool // only a Java broker has used it
	clean      bool
	broken     string // why the claim does not hold
	from       int64  // a record boundary: the log is read from here
	dispatched int64  // queue units of records below are trusted
	redo       bool   // a queue is missing or short: dispatch the whole log again
	tail       tail
}

// look reads every mark and lists every file. The only things it writes are the
// directories, an unfinished reset or cut, and zeros behind a short last file.
func (r *recovery) look() (err error) {
	if err := syncDirs(r.fsys); err != nil {
		return err
	}
	off, reason, found, err := readReset(r.fsys)
	if err == nil && found {
		err = finishReset(r.fsys, r.o, off, reason)
	}
	if err != nil {
		return err
	}
	if err := r.lookAtMarks(); err != nil {
		return err
	}
	if err := r.lookAtFiles(); err != nil {
		return err
	}
	if r.floor, r.floorState, err = readFloor(r.fsys); err != nil {
		return err
	}
	r.list, r.listed, err = readQueueList(r.fsys)
	return err
}

// lookAtMarks reads who the store belongs to and how its last life ended.
func (r *recovery) lookAtMarks() (err error) {
	if r.owner, r.owned, err = loadStoreFile(r.fsys, r.o); err != nil {
		return err
	}
	if r.broker, err = loadBrokerID(r.fsys, r.o); err != nil {
		return err
	}
	r.last = lastBoot(r.fsys)
	r.mark, r.marked = readCleanMark(r.fsys)
	if r.abort, err = vfs.Exists(r.fsys, nameAbort); err != nil {
		return fmt.Errorf("look for %s: %w", nameAbort, err)
	}
	r.suspect = readMark(r.fsys, nameSuspect, "suspect")
	r.broken = readMark(r.fsys, NameBrokenClaim, "claim")
	r.native, err = readNativeCheckpoint(r.fsys)
	return err
}

// lookAtFiles lists segments and queues, and finishes a cut.
func (r *recovery) lookAtFiles() error {
	cutAt, cutting, err := readCut(r.fsys)
	if err != nil {
		return err
	}
	if cutting {
		if err := dropSegmentsAbove(r.fsys, cutAt); err != nil {
			return err
		}
	}
	if err := r.log.loadSegments(r.owned); err != nil {
		return err
	}
	if err := r.queues.load(); err != nil || !cutting {
		return err
	}
	return r.finishCut(cutAt)
}

// judge decides what may be believed and where the log ends.
func (r *recovery) judge() error {
	r.foreign = r.last == 0
	r.clean = r.marked && !r.abort && r.mark.boot == r.last && r.mark.store == r.owner.id
	if r.foreign {
		r.clean = !r.abort
	}
	r.reader.crcFrom = -1
	if r.owned {
		r.reader.crcFrom = r.owner.crcFrom
	}
	if !r.clean {
		if err := r.dropCaches(); err != nil {
			return err
		}
	}
	if err := r.startingPoint(); err != nil {
		return err
	}
	x := extent{from: r.from, stop: r.log.end, floor: int64(r.floor.floor), sealed: -1, foreign: r.foreign}
	if r.clean && r.marked {
		x.sealed = int64(r.mark.end)
	}
	var err error
	if r.tail, err = findTail(r.reader, x); err != nil {
		return fmt.Errorf("scan the log from %d: %w", r.from, err)
	}
	received, err := vfs.Exists(r.fsys, NameReceivedAcks)
	if err != nil {
		return fmt.Errorf("look for %s: %w", NameReceivedAcks, err)
	}
	epochs, err := readEpochFile(r.fsys)
	if err != nil {
		return err
	}
	r.judgeClaim(received, epochs)
	return nil
}

// judgeClaim decides whether the store still holds all it acknowledged, by rule
// P1. The first reason found is kept.
//
// The floor is written lazily: a log that is gone within a second of its first bytes
// is not below it. But an epoch is listed only when a record of it is durable, so a
// list beside an empty log says that there was more.
func (r *recovery) judgeClaim(received bool, epochs ha.Epochs) {
	t := r.tail
	reason := func(cond bool, format string, args ...any) {
		if cond && r.broken == "" {
			r.broken = fmt.Sprintf(format, args...)
		}
	}
	reason(r.suspect != "", "the store is suspect: %s", r.suspect)
	reason(t.damage != nil, "damaged log at %d: %s", t.end, t.reason)
	reason(t.end < int64(r.floor.floor), "the log ends at %d, below the durable floor %d", t.end, r.floor.floor)
	reason(!r.foreign && t.end == r.log.min && len(epochs) > 0, "the log is empty, and was not in epoch %d", epochs.Last().Epoch)
	reason(!r.clean && r.foreign, "unclean stop of a broker whose acknowledgements are unknown")
	reason(r.marked && r.abort, "another broker ran on the store and crashed")
	reason(!r.clean && received, "unclean stop after acknowledging bytes that were only received")
	reason(!r.foreign && r.floorState != floorGood, "the durable floor is missing or damaged")
	reason(!r.foreign && t.doubtful() && t.later >= 0, "a bad record at %d (%s) in front of a valid one at %d", t.end, t.reason, t.later)
	reason(!r.foreign && t.doubtful(), "bytes at %d are not what a torn write leaves: %s", t.end, t.reason)
}

// startingPoint chooses where to read from and which queue units to trust.
func (r *recovery) startingPoint() error {
	lo, end := r.log.min, r.log.end
	switch {
	case r.foreign && r.clean:
		through, err := r.lastQueued(end)
		if err != nil {
			return err
		}
		r.from, r.dispatched = through, through
		r.floor.floor = logOff(through)
	case r.foreign:
		base, err := r.startByTime()
		if err != nil {
			return err
		}
		r.from, r.dispatched = base, base
		r.floor.floor = logOff(base)
	default:
		r.dispatched = int64(r.floor.dispatched)
		if r.listed {
			r.dispatched = int64(r.list.dispatched)
		}
		r.from = min(r.dispatched, int64(r.floor.anchor), r.boundary(int64(r.floor.floor)))
	}
	r.dispatched = min(max(r.dispatched, lo), end)
	r.from = min(max(r.from, lo), end)
	return nil
}

// boundary returns off when a record starts or the log ends there, and the start
// of its segment, which always is a record boundary, otherwise: a replica of a
// Java master can be synced up to the middle of a record.
func (r *recovery) boundary(off int64) int64 {
	s := logScanner{reader: r.reader, off: off, stop: r.log.end, chunk: windowBytes}
	f, _, done, err := s.next()
	if done || err == nil && f.Kind != FoundCorrupt {
		return off
	}
	return off - off%r.log.size
}

// lastQueued is the log offset behind the newest record that any queue of a
// cleanly stopped Java broker shows.
func (r *recovery) lastQueued(end int64) (int64, error) {
	through := r.log.min
	for _, q := range r.queues.snapshot() {
		if err := q.settle(trust{dispatched: end, logMin: r.log.min, end: maxQueueOffset}, false); err != nil {
			return 0, err
		}
		// Nobody knows what of another broker's queues was synced.
		q.dirty, q.newNames = slices.Clone(q.files), true
		through = max(through, min(q.through, end))
	}
	return through, nil
}

// startByTime walks back to the newest segment whose first record was stored
// before the native checkpoint's bound, as RocketMQ's recovery does.
func (r *recovery) startByTime() (int64, error) {
	bound := r.native.bound()
	for i := len(r.log.segs) - 1; i > 0; i-- {
		base := r.log.segs[i].base
		s := logScanner{reader: r.reader, off: base, stop: r.log.end, chunk: windowBytes}
		f, _, _, err := s.next()
		if err != nil {
			return 0, err
		}
		if f.Kind == FoundRecord && f.Record.StoreMillis <= bound {
			return base, nil
		}
	}
	return r.log.min, nil
}

// dropCaches drops what the operating system keeps of the tail, so that the scan
// sees the device: after a failed fsync the cache may hold pages that it never
// got (rule P5a).
func (r *recovery) dropCaches() error {
	floor := int64(0)
	if m, state, err := readFloor(r.fsys); err == nil && state == floorGood {
		floor = int64(min(m.floor, m.dispatched))
	}
	for _, s := range r.log.segs {
		if s.base+r.log.size <= floor {
			continue
		}
		if err := s.file.DropCache(0, r.log.size); err != nil {
			return fmt.Errorf("drop the cache of %s: %w", r.log.segmentFile(s.base), err)
		}
	}
	return nil
}

// readEpochFile reads the native epoch file, or its backup when it is damaged.
// It is a cache (rule P9): without either the barrier records must do.
func readEpochFile(fsys vfs.FS) (ha.Epochs, error) {
	for _, name := range []string{NameEpochFile, nameEpochBackup} {
		b, err := vfs.ReadFile(fsys, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if list, err := DecodeEpochFile(b); err == nil && len(list) > 0 {
			return list, nil
		}
	}
	return nil, nil
}

// readHighestEpoch returns the highest epoch ever seen, 0 when nothing says.
func readHighestEpoch(fsys vfs.FS) (ha.MasterEpoch, error) {
	s, found, err := readSide(fsys, NameHighestEpoch, "epoch")
	if !found && err == nil {
		return 0, nil
	}
	if err == nil {
		var n int64
		if n, err = s.number("epoch"); err == nil {
			return ha.MasterEpoch(min(n, 1<<31-1)), nil
		}
	}
	return 0, damaged(NameHighestEpoch, err.Error(),
		"move the store directory away and start empty, so that the broker rebuilds from its master")
}
