package storage

import (
	"fmt"

	"lockstep/storage/vfs"
)

// maxSuspectReason bounds the reason in a suspect mark, in bytes.
const maxSuspectReason = 1 << 10

// markSuspect leaves the suspect mark with its reason: the store is not
// promotable until it was verified in full or rebuilt (DESIGN 4).
func markSuspect(fsys vfs.FS, reason string) error {
	reason = reason[:min(len(reason), maxSuspectReason)]
	if err := vfs.WriteAtomic(fsys, nameSuspect, encodeSide("suspect", field("reason", reason))); err != nil {
		return fmt.Errorf("write %s: %w", nameSuspect, mapDisk(err))
	}
	return nil
}

// readMark returns the reason in a mark file: "" when there is no mark. A mark
// that cannot be read still is a mark.
func readMark(fsys vfs.FS, name, kind string) string {
	s, found, err := readSide(fsys, name, kind)
	switch {
	case !found && err == nil:
		return ""
	case err != nil:
		return name + " is damaged: " + err.Error()
	case s.get("reason") == "":
		return name + " is set"
	}
	return s.get("reason")
}
