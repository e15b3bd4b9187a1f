package storage

import (
	"errors"
	"fmt"

	"lockstep/internal/ha"
	"lockstep/storage/vfs"
)

// Errors that callers tell apart with errors.Is. Every refusal wraps one of them
// with the file, the offset and the remedy.
var (
	// ErrCorrupt marks bytes that are not what was written; they are never served.
	ErrCorrupt = errors.New("damaged data")
	// ErrForeignStore is a store of another cluster or group, or of another shape.
	ErrForeignStore = errors.New("store belongs to somebody else")
	// ErrInUse is a store another process has open.
	ErrInUse = errors.New("store in use by another process")
	// ErrMissingSegment is a gap between commit log files.
	ErrMissingSegment = errors.New("commit log segment is missing")
	// ErrDiskFull is a write or allocation refused for want of space. The store is
	// as it was and goes on when there is room again.
	ErrDiskFull = errors.New("disk full")
	// ErrFailed is a store whose device failed a write or an fsync: it does not write
	// or sync again in this life, because nothing is known about the dirty pages.
	ErrFailed = errors.New("store failed")
	// ErrReadOnly is a write to a store with damage: nothing in it is overwritten.
	ErrReadOnly = errors.New("store is read-only because of damage")
	// ErrRange is an offset below the first or above the last byte held.
	ErrRange = errors.New("offset out of range")
	// ErrStale is a read that a truncation overtook; the answer is not known.
	ErrStale = errors.New("overtaken by a truncation")
	// ErrInvalid is a malformed option, name or operation.
	ErrInvalid = errors.New("invalid")
)

// DamageError says where damaged bytes are. It matches ErrCorrupt.
type DamageError struct {
	File   string
	Offset int64 // in the file
	Log    ha.LogOffset
	Reason string
	Remedy string
}

// Error names the file, the offset, what is wrong and what helps.
func (e *DamageError) Error() string {
	return fmt.Sprintf("%s at byte %d: %s (%s)", e.File, e.Offset, e.Reason, e.Remedy)
}

// Is makes a DamageError an ErrCorrupt.
func (e *DamageError) Is(target error) bool { return target == ErrCorrupt }

// mapDisk turns the file system's sentinel errors into the store's.
func mapDisk(err error) error {
	if errors.Is(err, vfs.ErrNoSpace) && !errors.Is(err, ErrDiskFull) {
		return fmt.Errorf("%w: free space or shorten fileReservedTime: %w", ErrDiskFull, err)
	}
	return err
}
