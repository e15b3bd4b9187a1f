package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"lockstep/internal/ha"
	"lockstep/storage/vfs"
)

// FuzzRecord feeds bytes to the scanner. Whatever it accepts must be consistent
// with itself, and with a required checksum must survive being laid out again.
func FuzzRecord(f *testing.F) {
	good := unhex(f, goldenV4)
	f.Add(good, int64(4096))
	f.Add(good[:100], int64(4096))
	f.Add(append(bytes.Clone(good), good...), int64(4096))
	blank := make([]byte, 64)
	Blank(blank)
	f.Add(blank, int64(4096-64))
	f.Add(make([]byte, 91), int64(0))
	for i := 0; i < len(good); i += 7 {
		b := bytes.Clone(good)
		b[i] ^= 0xff
		f.Add(b, int64(4096))
	}
	f.Fuzz(func(t *testing.T, b []byte, at int64) {
		if at < 0 {
			return
		}
		for _, c := range []Check{{}, {PropCRC: PropCRCRequired}, {PropCRC: PropCRCIgnored, Segment: 4096}} {
			x := Next(b, ha.LogOffset(at), c)
			switch x.Kind {
			case FoundRecord:
				r := x.Record
				if x.Size > len(b) || r.Size() != x.Size || r.Physical != ha.LogOffset(at) || len(r.Topic) == 0 || CRC(r.Body) != r.BodyCRC {
					t.Fatalf("accepted %+v", r)
				}
				if n := MinRecord - 1 + len(r.Body) + len(r.Properties); n >= x.Size {
					t.Fatalf("parts of %d bytes in a record of %d", n, x.Size)
				}
				Property(r.Properties, PropTags)
				EntryOf(&r)
			case FoundMore:
				if x.Size <= len(b) {
					t.Fatalf("needs %d bytes and has %d", x.Size, len(b))
				}
			case FoundBlank:
				if x.Size < BlankHeader || c.Segment > 0 && (at+int64(x.Size))%c.Segment != 0 {
					t.Fatalf("blank of %d bytes", x.Size)
				}
			case FoundCorrupt:
				if x.Reason == "" {
					t.Fatal("corrupt without a reason")
				}
			}
		}
	})
}

// FuzzRecovery opens a store whose log was damaged, or holds bytes of another
// place or time, and demands that it opens or refuses, serves only records that
// were written at their places, and answers the same when opened again.
func FuzzRecovery(f *testing.F) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	a := openStore(f, fsys, testOptions(1))
	for i := range 60 {
		a.append(message([]string{"A", "B"}[i%2], int32(i%3), body(i)))
		if i == 30 {
			a.sync()
			a.file()
			a.checkpoint()
		}
	}
	a.sync()
	fsys.Crash(vfs.PowerLoss, vfs.KeepNothing)
	written := map[ha.LogOffset][]byte{}
	for _, b := range a.stored {
		written[physical(b)] = b
	}
	end := uint32(a.end)
	f.Add(uint32(0), []byte{}, uint32(0), uint16(0))
	f.Add(end-40, bytes.Repeat([]byte{0}, 40), uint32(0), uint16(0))
	f.Add(uint32(9000), []byte{0xff}, uint32(0), uint16(0))
	f.Add(end, []byte("garbage behind the end"), uint32(0), uint16(0))
	f.Add(end, []byte{}, uint32(0), uint16(700))                         // recycled: old records behind the end
	f.Add(end-uint32(end%testSegment), []byte{}, uint32(0), uint16(900)) // and at a segment's start
	f.Add(uint32(testSegment-8), []byte{0, 0, 0, 8, 0xcb, 0xd4, 0x31, 0x94}, uint32(100), uint16(300))
	f.Fuzz(func(t *testing.T, at uint32, put []byte, from uint32, n uint16) {
		m := fsys.Clone()
		recycled := logBytes(t, m, int64(from), int(n))
		overwrite(t, m, int64(at), append(bytes.Clone(put), recycled...))
		s, rec, err := Open(m, testOptions(2))
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		b := newAppender(t, s, rec, testOptions(2))
		for off := rec.Min; off < rec.End; {
			r := b.do(Op{Kind: OpRead, Off: off, Max: 4096})
			if r.Err != nil {
				if !errors.Is(r.Err, ErrCorrupt) {
					t.Fatal(r.Err)
				}
				break // damage below what recovery reads, found now
			}
			for x := r.Bytes; len(x) > 0; {
				g := Next(x, off, Check{Segment: testSegment, PropCRC: PropCRCRequired})
				if g.Kind == FoundRecord && !bytes.Equal(written[off], g.Record.Raw) && !bytes.Contains(put, g.Record.Raw) {
					t.Fatalf("served a record at %d that was never written there", off)
				}
				if g.Kind != FoundRecord && g.Kind != FoundBlank {
					t.Fatalf("served kind %d at %d", g.Kind, off)
				}
				x, off = x[g.Size:], off+ha.LogOffset(g.Size)
			}
		}
		for _, q := range rec.Queues {
			if u, err := s.queues.lookup(q.Topic, q.Queue).unitAt(max(q.Max-1, 0)); err == nil && q.Max > q.Min && u.log+int64(u.size) > int64(rec.End) {
				t.Fatalf("queue %s/%d points beyond the end %d: %+v", q.Topic, q.Queue, rec.End, u)
			}
		}
		if rec.End < a.end && rec.Claim == ha.ClaimHolds && int64(rec.End) < int64(s.floor.last.floor) {
			t.Fatalf("ends at %d, below the floor, and claims all", rec.End)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		m.Crash(vfs.PowerLoss, vfs.KeepNothing)
		_, again, err := Open(m, testOptions(3))
		if err != nil || again.End != rec.End || again.Min != rec.Min || (again.Suspect == "") != (rec.Suspect == "") {
			t.Fatalf("opened again: %v, [%d, %d) after [%d, %d)", err, again.Min, again.End, rec.Min, rec.End)
		}
	})
}

// logBytes reads raw bytes of the log's files.
func logBytes(t *testing.T, m *vfs.Mem, off int64, n int) []byte {
	t.Helper()
	var out []byte
	for n > 0 {
		b, err := vfs.ReadFile(m, segmentName(dirCommitLog, off/testSegment*testSegment))
		if err != nil {
			return out
		}
		b = b[off%testSegment:]
		b = b[:min(len(b), n)]
		out, n, off = append(out, b...), n-len(b), off+int64(len(b))
	}
	return out
}

// overwrite puts raw bytes into the log's files, durably.
func overwrite(t *testing.T, m *vfs.Mem, off int64, b []byte) {
	t.Helper()
	for len(b) > 0 {
		f, err := m.Open(segmentName(dirCommitLog, off/testSegment*testSegment))
		if err != nil {
			return
		}
		n := min(int64(len(b)), testSegment-off%testSegment)
		_, err = f.WriteAt(b[:n], off%testSegment)
		if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
			t.Fatal(err)
		}
		b, off = b[n:], off+n
	}
}

// FuzzEpochFile demands that what decodes is in order and encodes to the same
// list again.
func FuzzEpochFile(f *testing.F) {
	f.Add(EncodeEpochFile(ha.Epochs{{Epoch: 1, Start: 0}, {Epoch: 9, Start: 1 << 40}}))
	f.Add(EncodeEpochFile(nil))
	f.Add([]byte("1\n0\n7-3"))
	f.Add([]byte("2\n0\n1-0\r\n2-5\r\n"))
	f.Add([]byte("-1\n0\n"))
	f.Add([]byte("1\n0\n1--5\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := DecodeEpochFile(b)
		if err != nil {
			return
		}
		if !list.Valid() {
			t.Fatalf("decoded %v", list)
		}
		again, err := DecodeEpochFile(EncodeEpochFile(list))
		if err != nil || len(again) != len(list) {
			t.Fatalf("%v became %v: %v", list, again, err)
		}
	})
}

// FuzzIdentity covers the files that say who a store belongs to.
func FuzzIdentity(f *testing.F) {
	f.Add(EncodeIdentity("c", "g", 7))
	f.Add([]byte("c#g#1#10.0.0.1:10911;1700000000000\n"))
	f.Add([]byte("c#g"))
	f.Add([]byte("c#g#-1"))
	f.Add(encodeStoreFile(storeFile{id: "00112233445566778899aabbccddeeff", segment: 1 << 30, crcFrom: -1}, testOptions(1)))
	f.Add(encodeSide("boot", fieldInt("boot", 3), field("nonce", "ff")))
	f.Fuzz(func(t *testing.T, b []byte) {
		if cluster, group, id, rest, err := DecodeIdentity(b); err == nil {
			again := EncodeIdentity(cluster, group, id)
			c, g, i, _, err := DecodeIdentity(again)
			if err != nil || c != cluster || g != group || i != id {
				t.Fatalf("%q became %q (rest %q): %v", b, again, rest, err)
			}
		}
		if s, _, _, err := decodeStoreFile(b); err == nil && (!ValidStoreID(s.id) || s.segment < 0 || s.crcFrom < -1) {
			t.Fatalf("decoded %+v", s)
		}
		if s, err := decodeSide("boot", b); err == nil && len(s) > len(b) {
			t.Fatal("more fields than bytes")
		}
	})
}

// FuzzBarrier demands that what decodes encodes to the same bytes or fewer
// (varints have longer forms).
func FuzzBarrier(f *testing.F) {
	f.Add(EncodeBarrier(Barrier{Epoch: 7, Master: 3, Boot: 9, Store: "00112233445566778899aabbccddeeff", Start: 1 << 40, Recent: ha.Epochs{{Epoch: 1, Start: 0}}}))
	f.Add([]byte{1})
	f.Add([]byte{1, 0, 1, 2, 1, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := DecodeBarrier(b)
		if err != nil {
			return
		}
		enc := EncodeBarrier(x)
		if y, err := DecodeBarrier(enc); err != nil || y.Epoch != x.Epoch || len(y.Recent) != len(x.Recent) || len(enc) > len(b) {
			t.Fatalf("%+v became %+v: %v", x, y, err)
		}
	})
}

// FuzzQueueList and the floor: derived or checked files must never be trusted
// when damaged.
func FuzzQueueList(f *testing.F) {
	f.Add(queueList{dispatched: 5, queues: []QueueBounds{{Topic: "T", Queue: 1, Min: 2, Max: 3}}}.encode())
	f.Add([]byte(queueListMagic))
	f.Add(floorMark{floor: 1, confirm: 2, dispatched: 3, seq: 4}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if l, err := decodeQueueList(b); err == nil {
			for _, q := range l.queues {
				if q.Queue < 0 || q.Max < 0 {
					t.Fatalf("decoded %+v", q)
				}
			}
		}
		if m, ok := decodeFloor(b); ok && (m.floor < 0 || binary.BigEndian.Uint64(m.encode()[8:]) != m.seq) {
			t.Fatalf("decoded %+v", m)
		}
	})
}
