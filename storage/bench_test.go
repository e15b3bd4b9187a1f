package storage

import (
	"fmt"
	"os"
	"testing"

	"lockstep/internal/ha"
	"lockstep/internal/prng"
	"lockstep/storage/vfs"
)

func benchOptions() Options {
	return Options{Cluster: "c", Group: "g", RequirePropCRC: true, Segment: 256 << 20, Entropy: prng.New(1)}
}

// benchBatch lays out n records of 1 KiB bodies at the appender's end.
func benchBatch(b *testing.B, n int) (p Prepared, room []byte) {
	d := Draft{Topic: "Bench", Body: make([]byte, 1024), PropCRC: true}
	p, err := PrepareRecord(nil, &d)
	if err != nil {
		b.Fatal(err)
	}
	return p, make([]byte, n*p.Size())
}

// BenchmarkAppendSync is the hot path of a group commit: place 16 records, one
// append, one sync, one queue batch.
func BenchmarkAppendSync(b *testing.B) {
	for _, fs := range []struct {
		name string
		fsys vfs.FS
	}{{"mem", vfs.NewMem(vfs.MemOptions{})}, {"os", vfs.OS(b.TempDir())}} {
		b.Run(fs.name, func(b *testing.B) {
			s, rec, err := Open(fs.fsys, benchOptions())
			if err != nil {
				b.Fatal(err)
			}
			const batch = 16
			p, room := benchBatch(b, batch)
			end, off := int64(rec.End), int64(len(rec.Queues))
			if off > 0 {
				off = rec.Queues[0].Max
			}
			entries := make([]QueueEntry, batch)
			data := [][]byte{room}
			seg := benchOptions().Segment
			b.SetBytes(int64(len(room)))
			b.ReportAllocs()
			for b.Loop() {
				if rest := seg - end%seg; rest < int64(len(room))+BlankHeader {
					blank := make([]byte, rest)
					Blank(blank)
					bench(b, s.Do(Op{Kind: OpAppend, Off: ha.LogOffset(end), Data: [][]byte{blank}}))
					end += rest
				}
				at := end
				for i := range batch {
					p.Place(room[i*p.Size():(i+1)*p.Size()], off, ha.LogOffset(at), 1)
					entries[i] = QueueEntry{Topic: "Bench", Offset: off, Log: ha.LogOffset(at), Size: int32(p.Size())}
					at, off = at+int64(p.Size()), off+1
				}
				bench(b, s.Do(Op{Kind: OpAppend, Off: ha.LogOffset(end), Data: data}))
				bench(b, s.Do(Op{Kind: OpSync, Off: ha.LogOffset(at)}))
				bench(b, s.Do(Op{Kind: OpQueue, Entries: entries}))
				end = at
			}
			b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "records/s")
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func bench(b *testing.B, r Result) {
	if r.Err != nil {
		b.Fatal(r.Err)
	}
}

// BenchmarkPlace is what the loop does for each message.
func BenchmarkPlace(b *testing.B) {
	p, room := benchBatch(b, 1)
	b.SetBytes(int64(len(room)))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		p.Place(room, int64(i), ha.LogOffset(i), 1)
	}
}

// BenchmarkNext is what every reader does for each message.
func BenchmarkNext(b *testing.B) {
	p, room := benchBatch(b, 1)
	p.Place(room, 0, 0, 1)
	b.SetBytes(int64(len(room)))
	b.ReportAllocs()
	for b.Loop() {
		if f := Next(room, 0, Check{PropCRC: PropCRCRequired}); f.Kind != FoundRecord {
			b.Fatal(f.Reason)
		}
	}
}

// BenchmarkRecovery opens a log of 1 GiB (LOCKSTEP_BENCH_LOG_MIB changes that)
// after an unclean stop, with a checkpoint each 16 MiB.
func BenchmarkRecovery(b *testing.B) {
	mib := int64(1024)
	if v := os.Getenv("LOCKSTEP_BENCH_LOG_MIB"); v != "" {
		if _, err := fmt.Sscan(v, &mib); err != nil {
			b.Fatal(err)
		}
	}
	dir := b.TempDir()
	o := benchOptions()
	o.Segment = 1 << 30
	writeBenchLog(b, vfs.OS(dir), o, mib<<20)
	b.ResetTimer()
	for b.Loop() {
		s, rec, err := Open(vfs.OS(dir), o)
		if err != nil {
			b.Fatal(err)
		}
		if rec.Clean || rec.Suspect != "" || int64(rec.End) < mib<<20 {
			b.Fatalf("%+v", rec)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/start")
}

// writeBenchLog fills a log and ends without a clean stop.
func writeBenchLog(b *testing.B, fsys vfs.FS, o Options, size int64) {
	b.Helper()
	s, _, err := Open(fsys, o)
	if err != nil {
		b.Fatal(err)
	}
	const batch = 256
	_, room := benchBatch(b, batch)
	var queues [8]Prepared
	for i := range queues {
		d := Draft{Topic: "Bench", QueueID: int32(i), Body: make([]byte, 1024), PropCRC: true}
		if queues[i], err = PrepareRecord(nil, &d); err != nil {
			b.Fatal(err)
		}
	}
	entries := make([]QueueEntry, batch)
	var end, off, marked int64
	for end < size {
		if rest := o.Segment - end%o.Segment; rest < int64(len(room))+BlankHeader {
			blank := make([]byte, rest)
			Blank(blank)
			bench(b, s.Do(Op{Kind: OpAppend, Off: ha.LogOffset(end), Data: [][]byte{blank}}))
			end += rest
		}
		at := end
		for i := range batch {
			p := queues[off%int64(len(queues))]
			n := int64(p.Size())
			p.Place(room[int64(i)*n:int64(i+1)*n], off/8, ha.LogOffset(at), 1)
			entries[i] = QueueEntry{Topic: "Bench", Queue: int32(off % 8), Offset: off / 8, Log: ha.LogOffset(at), Size: int32(n)}
			at, off = at+n, off+1
		}
		bench(b, s.Do(Op{Kind: OpAppend, Off: ha.LogOffset(end), Data: [][]byte{room}}))
		bench(b, s.Do(Op{Kind: OpQueue, Entries: entries}))
		end = at
		if end-marked >= 16<<20 {
			marked = end
			bench(b, s.Do(Op{Kind: OpSync}))
			bench(b, s.Do(Op{Kind: OpCheckpoint, Off: ha.LogOffset(end), Confirm: ha.LogOffset(end), Dispatched: ha.LogOffset(end), WallMillis: 1}))
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}
