// Package storage keeps a broker's log and everything derived from it. It has a
// pure half, which machines call directly (record layout, scanner, metadata,
// barrier and epoch codecs), and a blocking half, the Store, which performs the
// machines' operations on files through storage/vfs.
//
// Formats are RocketMQ's own; what they lack lies beside them in the directory
// "lockstep" and can be absent on a store that a Java broker wrote. The rules
// that the comments name are those of the replication protocol: P5 what
// recovery may believe, P10 truncation, P1 what a store may claim.
package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"

	"lockstep/internal/ha"
	"lockstep/storage/vfs"
)

// Store is an open store. Do may be called from several lanes at once; the
// operations of one lane come one after the other.
type Store struct {
	fsys     vfs.FS
	o        Options
	lock     closer
	log      *commitLog
	queues   *queueSet
	puller   *puller
	identity Identity

	readOnly error // damage: nothing is written to the log (set by Open only)

	meta    sync.Mutex // small files, floor and cuts
	floor   *floorWriter
	native  vfs.File // opened at the first checkpoint
	wall    int64    // store time of the last checkpoint, ms
	logics  int64    // the same for the last one that synced the queues
	cutID   uint64   // id of the last truncation: older operations are stale
	cutAt   ha.LogOffset
	stopped atomic.Bool // a clean stop or a reset ended this life
}

type closer interface{ Close() error }

// Open recovers the store in fsys and starts a new life of it. It blocks until
// everything in the returned range is verified and durable. The file system's
// root is the store's root directory and exists.
//
// Errors match ErrInvalid (options), ErrInUse, ErrForeignStore,
// ErrMissingSegment, ErrCorrupt or ErrDiskFull and name the file and the remedy;
// a store that is refused was not changed. Damage to the log itself is not an
// error: the store opens read-only with Recovered.Suspect set and End at the
// last record that can be trusted, and nothing behind it is touched.
func Open(fsys vfs.FS, o Options) (*Store, Recovered, error) {
	if err := o.Validate(); err != nil {
		return nil, Recovered{}, err
	}
	o = o.withDefaults()
	lock, err := fsys.Lock(nameLock)
	if errors.Is(err, vfs.ErrLocked) {
		return nil, Recovered{}, fmt.Errorf("%w: %s: stop the other broker, or give this one its own storePathRootDir", ErrInUse, nameLock)
	}
	if err != nil {
		return nil, Recovered{}, fmt.Errorf("lock %s: %w", nameLock, err)
	}
	s, rec, err := open(fsys, o, lock)
	if err != nil {
		return nil, Recovered{}, errors.Join(err, s.Close())
	}
	return s, rec, nil
}

func open(fsys vfs.FS, o Options, lock closer) (*Store, Recovered, error) {
	log := &commitLog{fsys: fsys, size: o.Segment}
	reader := &logReader{log: log, limit: storedLimit(o.Segment, o.MaxRecord), strict: o.RequirePropCRC}
	queues := newQueueSet(fsys, o)
	s := &Store{fsys: fsys, o: o, lock: lock, log: log, queues: queues, puller: &puller{queues: queues, reader: reader}}
	r := &recovery{fsys: fsys, o: o, log: log, reader: reader, queues: queues}
	if err := r.look(); err != nil {
		return s, Recovered{}, err
	}
	if err := r.judge(); err != nil {
		return s, Recovered{}, err
	}
	if err := r.act(s); err != nil {
		return s, Recovered{}, mapDisk(err)
	}
	rec, err := r.report(s)
	return s, rec, err
}

// report collects what the machine needs to know.
func (r *recovery) report(s *Store) (Recovered, error) {
	lo, end, _ := r.log.bounds()
	rec := Recovered{
		Identity: s.identity, Min: logOff(lo), End: logOff(end), Confirm: s.floor.last.confirm,
		Clean: r.clean, Claim: ha.ClaimHolds, TornBytes: r.tail.last - r.tail.end,
	}
	rec.Confirm = max(min(rec.Confirm, rec.End), rec.Min)
	var err error
	if rec.Queues, err = r.queues.bounds(rec.Confirm); err != nil {
		return rec, err
	}
	if r.broken != "" {
		rec.Claim = ha.ClaimBroken
	}
	switch {
	case r.tail.damage != nil:
		rec.Suspect, rec.TornBytes = r.tail.damage.Error(), 0
	case r.suspect != "":
		rec.Suspect = r.suspect
	}
	derived, newest, err := s.puller.barriers()
	if err != nil {
		return rec, err
	}
	cached, err := readEpochFile(r.fsys)
	if err != nil {
		return rec, err
	}
	rec.Epochs, rec.LastBarrier = MergeEpochs(derived, cached, rec.End), newest
	if rec.HighestEpoch, err = readHighestEpoch(r.fsys); err != nil {
		return rec, err
	}
	rec.HighestEpoch = max(rec.HighestEpoch, rec.Epochs.Last().Epoch)
	if rec.Meta, err = s.puller.loadMeta(rec.End); err == nil && len(rec.Meta) == 0 {
		rec.Config, err = readConfig(r.fsys)
	}
	return rec, err
}

// readConfig reads the JSON tables of a store whose log has no metadata records,
// each from its backup when the file itself is missing or empty (HA contract
// 5.9).
func readConfig(fsys vfs.FS) (files []ConfigFile, err error) {
	for _, name := range [...]string{"topics.json", "subscriptionGroup.json", "consumerOffset.json"} {
		for _, suffix := range [...]string{"", ".bak"} {
			text, err := vfs.ReadFile(fsys, dirConfig+"/"+name+suffix)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("read %s/%s%s: %w", dirConfig, name, suffix, err)
			}
			if len(text) > 0 {
				files = append(files, ConfigFile{Name: name, Text: text})
				break
			}
		}
	}
	return files, nil
}

// Identity is who the store belongs to and which life this is. OpBoot raises
// its boot.
func (s *Store) Identity() Identity {
	s.meta.Lock()
	defer s.meta.Unlock()
	return s.identity
}

// Close closes every file and gives up the lock. It writes and syncs nothing:
// without OpCleanStop before it, it is a crash as far as the next start can see.
func (s *Store) Close() error {
	s.meta.Lock()
	defer s.meta.Unlock()
	err := errors.Join(s.log.close(), s.queues.handles.close())
	if s.floor != nil {
		err = errors.Join(err, s.floor.close())
	}
	if s.native != nil {
		err = errors.Join(err, s.native.Close())
	}
	return errors.Join(err, s.lock.Close())
}
