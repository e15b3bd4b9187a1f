package storage

import (
	"fmt"
	"strconv"

	"lockstep/internal/ha"
	"lockstep/storage/vfs"
)

// The clean-stop mark is written as the last act of a life, when everything is
// synced, and consumed durably before the first write of the next (rule P1). It
// names store and boot, so that a copy of it cannot vouch for another life. The
// native abort file says the same to a Java broker, the other way round: it
// exists while a broker runs.

// cleanMark is the decoded mark.
type cleanMark struct {
	store ha.StoreID
	boot  ha.Boot
	end   ha.LogOffset
}

func (m cleanMark) encode() []byte {
	return encodeSide("clean", field("store", string(m.store)), fieldInt("boot", int64(m.boot)), fieldInt("end", int64(m.end)))
}

// readCleanMark returns the mark. One that cannot be read counts as absent: the
// stop is then taken for unclean.
func readCleanMark(fsys vfs.FS) (m cleanMark, found bool) {
	s, found, err := readSide(fsys, nameClean, "clean")
	if err != nil || !found {
		return m, false
	}
	boot, err1 := s.number("boot")
	end, err2 := s.number("end")
	if err1 != nil || err2 != nil {
		return m, false
	}
	return cleanMark{store: ha.StoreID(s.get("store")), boot: ha.Boot(boot), end: ha.LogOffset(end)}, true
}

// writeAbort makes the native abort file, whose content is the process id.
func writeAbort(fsys vfs.FS, pid int) error {
	if err := vfs.WriteAtomic(fsys, nameAbort, strconv.AppendInt(nil, int64(pid), 10)); err != nil {
		return fmt.Errorf("write %s: %w", nameAbort, mapDisk(err))
	}
	return nil
}

// cleanStop syncs everything and leaves the marks of a clean stop. The order
// matters: the flag of received acknowledgements goes once their bytes are
// durable; the abort file goes before the mark comes, so that both together can
// only mean that another broker ran here and crashed.
func (s *Store) cleanStop(confirm ha.LogOffset) error {
	if err := s.writable(); err != nil {
		return err
	}
	if err := s.log.sync(); err != nil {
		return err
	}
	s.meta.Lock()
	defer s.meta.Unlock()
	end := logOff(s.log.durableEnd())
	filed, _ := s.queues.filedTo()
	m := floorMark{floor: end, confirm: min(confirm, end), dispatched: min(end, filed)}
	m.anchor = s.anchor(m.dispatched)
	if err := s.saveFloor(m, s.wall, true); err != nil {
		return err
	}
	for _, name := range []string{NameReceivedAcks, nameAbort} {
		if err := removeDurably(s.fsys, name); err != nil {
			return s.log.fail(err)
		}
	}
	mark := cleanMark{store: s.identity.Store, boot: s.identity.Boot, end: end}
	if err := vfs.WriteAtomic(s.fsys, nameClean, mark.encode()); err != nil {
		return fmt.Errorf("write %s: %w", nameClean, mapDisk(err))
	}
	s.stopped.Store(true)
	return nil
}
