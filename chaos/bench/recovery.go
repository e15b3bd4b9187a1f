package bench

import (
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"lockstep/internal/ha"
	"lockstep/storage"
	"lockstep/storage/vfs"
)

// RecoveryName is the row of Recovery.
const RecoveryName = "recovery"

// recoveryAim is how long a start may take per GiB of log, seconds: ten for the
// 10 GiB that the full run has.
const recoveryAim = 1.0

// Recovery writes a log of the given size into an empty directory, ends without a
// clean stop, and measures how long the next start takes.
func Recovery(dir string, bytes int64) (Row, error) {
	o := storage.Options{Cluster: "bench", Group: "bench", RequirePropCRC: true, Entropy: rand.Reader}
	if err := writeLog(dir, o, bytes); err != nil {
		return Row{}, fmt.Errorf("write a log of %d bytes: %w", bytes, err)
	}
	machine, err := ReadMachine()
	if err != nil {
		return Row{}, err
	}
	began := time.Now()
	s, rec, err := storage.Open(vfs.OS(dir), o)
	took := time.Since(began)
	if err != nil {
		return Row{}, err
	}
	now, err := ReadMachine()
	if err := errors.Join(err, s.Close()); err != nil {
		return Row{}, err
	}
	row := Row{Name: RecoveryName, What: fmt.Sprintf("start on a log of %.0f GiB after an unclean stop", float64(bytes)/(1<<30)), Unit: "s",
		Measured: took.Seconds(), Aim: recoveryAim * max(1, float64(bytes)/(1<<30)), Less: true, Busy: now.Busy(machine)}
	if rec.Clean || rec.Suspect != "" || int64(rec.End) < bytes {
		return row, fmt.Errorf("recovered clean %v, suspect %q, %d of %d bytes", rec.Clean, rec.Suspect, rec.End, bytes)
	}
	return row, nil
}

const (
	// logBatch is how many records one append has, markEvery how many bytes lie
	// between two syncs with their checkpoints.
	logBatch  = 4096
	markEvery = 16 << 20
)

// filler writes a log as a broker does: append, queues, sync, checkpoint.
type filler struct {
	s       *storage.Store
	segment int64
	records [queues]storage.Prepared
	room    []byte
	entries []storage.QueueEntry
	end     int64
	count   int64
}

func writeLog(dir string, o storage.Options, size int64) error {
	s, _, err := storage.Open(vfs.OS(dir), o)
	if err != nil {
		return err
	}
	f := &filler{s: s, segment: storage.DefaultSegment, entries: make([]storage.QueueEntry, logBatch)}
	for i := range f.records {
		d := storage.Draft{Topic: topic, QueueID: int32(i), Body: make([]byte, bodyBytes), PropCRC: true}
		if f.records[i], err = storage.PrepareRecord(nil, &d); err != nil {
			return errors.Join(err, s.Close())
		}
	}
	f.room = make([]byte, logBatch*f.records[0].Size())
	marked := int64(0)
	for f.end < size && err == nil {
		if err = f.batch(); err == nil && f.end-marked >= markEvery {
			marked, err = f.end, f.mark()
		}
	}
	return errors.Join(err, s.Close())
}

// batch appends logBatch records and their queue entries.
func (f *filler) batch() error {
	if rest := f.segment - f.end%f.segment; rest < int64(len(f.room))+storage.BlankHeader {
		blank := make([]byte, rest)
		storage.Blank(blank)
		if err := f.do(storage.Op{Kind: storage.OpAppend, Off: ha.LogOffset(f.end), Data: [][]byte{blank}}); err != nil {
			return err
		}
		f.end += rest
	}
	at := f.end
	for i := range f.entries {
		p := &f.records[f.count%queues]
		n := int64(p.Size())
		off := f.count / queues
		p.Place(f.room[int64(i)*n:int64(i+1)*n], off, ha.LogOffset(at), 1)
		f.entries[i] = storage.QueueEntry{Topic: topic, Queue: int32(f.count % queues), Offset: off, Log: ha.LogOffset(at), Size: int32(n)}
		at, f.count = at+n, f.count+1
	}
	if err := f.do(storage.Op{Kind: storage.OpAppend, Off: ha.LogOffset(f.end), Data: [][]byte{f.room}}); err != nil {
		return err
	}
	f.end = at
	return f.do(storage.Op{Kind: storage.OpQueue, Entries: f.entries})
}

// mark syncs the log and notes how far it is durable.
func (f *filler) mark() error {
	if err := f.do(storage.Op{Kind: storage.OpSync}); err != nil {
		return err
	}
	end := ha.LogOffset(f.end)
	return f.do(storage.Op{Kind: storage.OpCheckpoint, Off: end, Confirm: end, Dispatched: end, WallMillis: 1})
}

func (f *filler) do(op storage.Op) error { return f.s.Do(op).Err }
