package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"

	"lockstep/internal/ha"
	"lockstep/storage/vfs"
)

// The native store checkpoint: 4096 bytes, five longs (HA contract 5.5).
const (
	nativeCheckpointBytes = 4096
	posPhysicTime         = 0
	posLogicsTime         = 8
	posIndexTime          = 16
	posMasterFlushed      = 24
	posConfirm            = 32
	// nativeSlackMillis is how far before its recorded time a native checkpoint is
	// trusted.
	nativeSlackMillis = 3000
)

// nativeCheckpoint is what a Java broker reads and writes.
type nativeCheckpoint struct {
	physicMillis, logicsMillis, indexMillis int64
	masterFlushed, confirm                  ha.LogOffset
}

func (c nativeCheckpoint) encode() []byte {
	b := make([]byte, nativeCheckpointBytes)
	binary.BigEndian.PutUint64(b[posPhysicTime:], uint64(c.physicMillis))
	binary.BigEndian.PutUint64(b[posLogicsTime:], uint64(c.logicsMillis))
	binary.BigEndian.PutUint64(b[posIndexTime:], uint64(c.indexMillis))
	binary.BigEndian.PutUint64(b[posMasterFlushed:], uint64(c.masterFlushed))
	binary.BigEndian.PutUint64(b[posConfirm:], uint64(c.confirm))
	return b
}

func decodeNativeCheckpoint(b []byte) (nativeCheckpoint, bool) {
	if len(b) < posConfirm+8 {
		return nativeCheckpoint{}, false
	}
	at := func(p int) int64 { return int64(binary.BigEndian.Uint64(b[p:])) }
	return nativeCheckpoint{
		physicMillis: at(posPhysicTime), logicsMillis: at(posLogicsTime), indexMillis: at(posIndexTime),
		masterFlushed: ha.LogOffset(at(posMasterFlushed)), confirm: ha.LogOffset(at(posConfirm)),
	}, true
}

// bound is the store time up to which the log and its queues were durable.
func (c nativeCheckpoint) bound() int64 {
	return min(c.physicMillis, c.logicsMillis) - nativeSlackMillis
}

// readNativeCheckpoint reads the native file; an absent or short one is the zero
// checkpoint, which trusts nothing.
func readNativeCheckpoint(fsys vfs.FS) (nativeCheckpoint, error) {
	b, err := vfs.ReadFile(fsys, nameCheckpoint)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nativeCheckpoint{}, fmt.Errorf("read %s: %w", nameCheckpoint, err)
	}
	c, _ := decodeNativeCheckpoint(b)
	return c, nil
}

// floorMark is Lockstep's own checkpoint: what recovery may believe (rule P5c).
type floorMark struct {
	floor      ha.LogOffset // everything below was synced
	confirm    ha.LogOffset // a lower bound of the confirm offset
	dispatched ha.LogOffset // queue entries of everything below were synced
	anchor     ha.LogOffset // where a record below dispatched starts: recovery reads from it, to see that the log still gets that far
	seq        uint64       // of the write; the higher valid slot counts
}

// The floor file has two slots of one page each, written in turn and synced, so
// that a torn write leaves the other slot whole and a checkpoint costs one
// fsync instead of the two and a directory's of an atomic replacement.
const (
	floorSlot  = 4096
	floorFile  = 2 * floorSlot
	floorMagic = "LSFLOOR1"
	floorBytes = len(floorMagic) + 5*8 + 4
)

func (m floorMark) encode() []byte {
	b := make([]byte, 0, floorBytes)
	b = append(b, floorMagic...)
	b = binary.BigEndian.AppendUint64(b, m.seq)
	b = binary.BigEndian.AppendUint64(b, uint64(m.floor))
	b = binary.BigEndian.AppendUint64(b, uint64(m.confirm))
	b = binary.BigEndian.AppendUint64(b, uint64(m.dispatched))
	b = binary.BigEndian.AppendUint64(b, uint64(m.anchor))
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

func decodeFloor(b []byte) (m floorMark, ok bool) {
	if len(b) < floorBytes || string(b[:len(floorMagic)]) != floorMagic {
		return m, false
	}
	if crc32.ChecksumIEEE(b[:floorBytes-4]) != binary.BigEndian.Uint32(b[floorBytes-4:]) {
		return m, false
	}
	at := func(i int) uint64 { return binary.BigEndian.Uint64(b[len(floorMagic)+8*i:]) }
	m = floorMark{seq: at(0), floor: ha.LogOffset(at(1)), confirm: ha.LogOffset(at(2)), dispatched: ha.LogOffset(at(3)), anchor: ha.LogOffset(at(4))}
	return m, m.floor >= 0 && m.confirm >= 0 && m.dispatched >= 0 && m.anchor >= 0
}

// floorState is what was found on disk.
type floorState uint8

const (
	floorAbsent  floorState = iota // no such file, or none of its slots was ever written
	floorGood                      // at least one whole slot, none damaged
	floorDamaged                   // a slot holds bytes that do not check out
)

// readFloor reads both slots. A torn slot beside a whole one is what a crash
// leaves and counts as good; a damaged file without any whole slot is rot,
// since the first slot was durable before anything relied on it.
func readFloor(fsys vfs.FS) (floorMark, floorState, error) {
	b, err := vfs.ReadFile(fsys, nameFloor)
	if errors.Is(err, fs.ErrNotExist) {
		return floorMark{}, floorAbsent, nil
	}
	if err != nil {
		return floorMark{}, floorAbsent, fmt.Errorf("read %s: %w", nameFloor, err)
	}
	var best floorMark
	state := floorAbsent
	for i := range 2 {
		if len(b) < i*floorSlot+floorBytes {
			break
		}
		slot := b[i*floorSlot : i*floorSlot+floorBytes]
		m, ok := decodeFloor(slot)
		switch {
		case ok && (state != floorGood || m.seq > best.seq):
			best, state = m, floorGood
		case !ok && state == floorAbsent && !allZero(slot):
			state = floorDamaged
		}
	}
	return best, state, nil
}

// floorWriter writes the slots in turn. It is used under the store's meta lock.
type floorWriter struct {
	file vfs.File
	last floorMark
}

// openFloor opens or creates the floor file, so that its name is durable and its
// first slot says mark.
func openFloor(fsys vfs.FS, mark floorMark) (*floorWriter, error) {
	w := &floorWriter{last: mark}
	f, err := fsys.Open(nameFloor)
	if errors.Is(err, fs.ErrNotExist) {
		// The first mark goes in atomically: a floor file always has a whole slot.
		b := make([]byte, floorFile)
		copy(b, mark.encode())
		if err = vfs.WriteAtomic(fsys, nameFloor, b); err == nil {
			f, err = fsys.Open(nameFloor)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", nameFloor, mapDisk(err))
	}
	w.file = f
	return w, nil
}

// write makes the mark durable.
func (w *floorWriter) write(m floorMark) error {
	m.seq = w.last.seq + 1
	if _, err := w.file.WriteAt(m.encode(), int64(m.seq%2)*floorSlot); err != nil {
		return fmt.Errorf("write %s: %w", nameFloor, mapDisk(err))
	}
	if err := w.file.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", nameFloor, err)
	}
	w.last = m
	return nil
}

func (w *floorWriter) close() error { return w.file.Close() }

// allZero reports whether b holds zeros only.
func allZero(b []byte) bool {
	for len(b) >= 8 {
		if binary.LittleEndian.Uint64(b) != 0 {
			return false
		}
		b = b[8:]
	}
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// readFullAt reads len(b) bytes at off and takes a short file for an error.
func readFullAt(f vfs.File, b []byte, off int64) error {
	n, err := f.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}
