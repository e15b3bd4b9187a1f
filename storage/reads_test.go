package storage

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"lockstep/internal/ha"
	"lockstep/storage/vfs"
)

func TestPull(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	a := openStore(t, fsys, testOptions(1))
	for i := range 100 {
		a.append(Draft{Topic: "T", Body: []byte(fmt.Sprint(i)), Properties: AppendProperty(nil, PropTags, fmt.Sprintf("t%d", i%10))})
	}
	a.sync()
	a.file()
	size := len(a.stored[10])
	for _, tc := range []struct {
		name    string
		args    PullArgs
		next    int64
		matched int
		first   int64
	}{
		{"by number", PullArgs{Offset: 5, MaxMsgs: 7, MaxBytes: 1 << 20, Limit: a.end}, 12, 7, 5},
		{"by bytes", PullArgs{Offset: 10, MaxMsgs: 99, MaxBytes: 3*size + 1, Limit: a.end}, 13, 3, 10},
		{"one too large", PullArgs{Offset: 10, MaxMsgs: 99, MaxBytes: 1, Limit: a.end}, 11, 1, 10},
		{"to the end", PullArgs{Offset: 90, MaxMsgs: 99, MaxBytes: 1 << 20, Limit: a.end}, 100, 10, 90},
		{"at the end", PullArgs{Offset: 100, MaxMsgs: 99, MaxBytes: 1 << 20, Limit: a.end}, 100, 0, 0},
		{"not beyond the limit", PullArgs{Offset: 50, MaxMsgs: 99, MaxBytes: 1 << 20, Limit: physical(a.stored[60])}, 60, 10, 50},
		{"limit inside a record", PullArgs{Offset: 50, MaxMsgs: 99, MaxBytes: 1 << 20, Limit: physical(a.stored[60]) + 1}, 60, 10, 50},
		{"one tag", PullArgs{Offset: 0, MaxMsgs: 3, MaxBytes: 1 << 20, Limit: a.end, Tags: []int64{TagHash([]byte("t4"))}}, 34, 3, 4},
		{"two tags", PullArgs{Offset: 95, MaxMsgs: 9, MaxBytes: 1 << 20, Limit: a.end, Tags: []int64{TagHash([]byte("t9")), TagHash([]byte("t7"))}}, 100, 2, 97},
		{"no such tag", PullArgs{Offset: 0, MaxMsgs: 9, MaxBytes: 1 << 20, Limit: a.end, Tags: []int64{1}}, 100, 0, 0},
	} {
		tc.args.Topic = "T"
		r := a.must(Op{Kind: OpPull, Pull: tc.args})
		if r.Pull.Matched != tc.matched {
			t.Errorf("%s: %d matched, want %d", tc.name, r.Pull.Matched, tc.matched)
		}
		if r.Pull.Next != tc.next {
			t.Errorf("%s: next %d, want %d", tc.name, r.Pull.Next, tc.next)
		}
		if tc.matched > 0 {
			f := Next(r.Bytes, physical(r.Bytes), Check{})
			if f.Kind != FoundRecord || f.Record.QueueOffset != tc.first {
				t.Errorf("%s: first offset %d, want %d", tc.name, f.Record.QueueOffset, tc.first)
			}
		} else if len(r.Bytes) != 0 {
			t.Errorf("%s: %d bytes without a match", tc.name, len(r.Bytes))
		}
		if r.Pull.Scanned != int(r.Pull.Next-tc.args.Offset) {
			t.Errorf("%s: scanned %d", tc.name, r.Pull.Scanned)
		}
	}
	for _, args := range []PullArgs{{Topic: "none"}, {Topic: "T", Queue: 1}, {Topic: "T", Offset: 101}, {Topic: "T", Offset: -1}} {
		if r := a.do(Op{Kind: OpPull, Pull: args}); !errors.Is(r.Err, ErrRange) {
			t.Errorf("pull %+v: %v", args, r.Err)
		}
	}
}

func TestPullScanIsBounded(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	o := testOptions(1)
	o.Segment, o.QueueUnits = 8<<20, 1000
	a := openStore(t, fsys, o)
	var drafts []Draft
	for range MaxPullScan + 500 {
		drafts = append(drafts, message("T", 0, "x"))
	}
	a.append(drafts...)
	a.file()
	r := a.must(Op{Kind: OpPull, Pull: PullArgs{Topic: "T", MaxMsgs: 1, MaxBytes: 1, Limit: a.end, Tags: []int64{-1}}})
	if r.Pull.Next < MaxPullScan || r.Pull.Next >= MaxPullScan+500 {
		t.Errorf("a filter that matches nothing scanned to %d", r.Pull.Next)
	}
}

func TestSeek(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	a := openStore(t, fsys, testOptions(1))
	var times []int64
	for i := range 50 {
		a.wall += int64(i % 3 * 10)
		a.append(message("T", 0, body(i)))
		times = append(times, a.wall)
	}
	a.sync()
	a.file()
	for millis := times[0] - 2; millis < times[49]+3; millis++ {
		want, _ := slices.BinarySearch(times, millis)
		r := a.must(Op{Kind: OpSeek, Pull: PullArgs{Topic: "T"}, WallMillis: millis})
		if r.Offset != int64(want) {
			t.Fatalf("seek %d: offset %d, want %d", millis, r.Offset, want)
		}
	}
	if r := a.must(Op{Kind: OpSeek, Pull: PullArgs{Topic: "none"}, WallMillis: 1}); r.Offset != 0 {
		t.Errorf("unknown queue: %d", r.Offset)
	}
}

func TestReadsOfOneSegment(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	a := openStore(t, fsys, testOptions(1))
	a.fill(100)
	r := a.must(Op{Kind: OpRead, Off: 0, Max: 1 << 20})
	if len(r.Bytes) != testSegment {
		t.Errorf("a read of the first segment gave %d bytes, want %d", len(r.Bytes), testSegment)
	}
	r = a.must(Op{Kind: OpRead, Off: physical(a.stored[5]), Max: 1})
	if !bytes.Equal(r.Bytes, a.stored[5]) {
		t.Error("a record longer than Max is not returned whole and alone")
	}
	r = a.must(Op{Kind: OpRead, Off: 0, Max: len(a.stored[0]) + 10})
	if !bytes.Equal(r.Bytes, a.stored[0]) {
		t.Error("a read does not end at a record's end")
	}
	if r := a.must(Op{Kind: OpRead, Off: a.end, Max: 100}); r.Bytes != nil {
		t.Error("bytes at the end of the log")
	}
	if r := a.do(Op{Kind: OpRead, Off: a.end + 1, Max: 100}); !errors.Is(r.Err, ErrRange) {
		t.Errorf("read beyond the end: %v", r.Err)
	}
	if r := a.do(Op{Kind: OpRead, Off: 1, Max: 100}); !errors.Is(r.Err, ErrCorrupt) {
		t.Errorf("read inside a record: %v", r.Err)
	}
}

// metaDraft is a metadata record as a broker writes it.
func metaDraft(h MetaHeader, payload string) Draft {
	return Draft{Topic: MetaTopic, QueueID: MetaQueue, Body: append(h.Append(nil), payload...)}
}

func part(id uint64, i, n uint32) Draft {
	return metaDraft(MetaHeader{Version: 1, Checkpoint: true, ID: id, Part: i, Parts: n}, fmt.Sprintf("part %d/%d of %d", i, n, id))
}

func delta(s string) Draft { return metaDraft(MetaHeader{Version: 1}, s) }

func payloads(t *testing.T, records [][]byte) (out []string) {
	t.Helper()
	for _, b := range records {
		r, reason := DecodeRecord(b)
		if reason != "" {
			t.Fatal(reason)
		}
		_, rest, ok := ParseMetaHeader(r.Body)
		if !ok {
			t.Fatal("no metadata header")
		}
		out = append(out, string(rest))
	}
	return out
}

func TestLoadMeta(t *testing.T) {
	for _, tc := range []struct {
		name   string
		drafts []Draft
		want   string
	}{
		{"none", nil, ""},
		{"deltas only", []Draft{delta("a"), delta("b")}, "a,b"},
		{"one part", []Draft{delta("a"), part(1, 1, 1), delta("b")}, "part 1/1 of 1,b"},
		{"parts", []Draft{delta("a"), part(1, 1, 2), part(1, 2, 2), delta("b"), delta("c")}, "part 1/2 of 1,part 2/2 of 1,b,c"},
		{"newest", []Draft{part(1, 1, 1), delta("a"), part(2, 1, 1), delta("b")}, "part 1/1 of 2,b"},
		{"newest is unfinished", []Draft{part(1, 1, 1), delta("a"), part(2, 1, 2), delta("b")}, "part 1/1 of 1,a,part 1/2 of 2,b"},
		{"newest lost its start", []Draft{part(1, 1, 1), part(2, 2, 2), delta("b")}, "part 1/1 of 1,part 2/2 of 2,b"},
		{"interrupted by a delta", []Draft{part(1, 1, 1), part(2, 1, 2), delta("a"), part(2, 2, 2)}, "part 1/1 of 1,part 1/2 of 2,a,part 2/2 of 2"},
		{"ids mixed", []Draft{part(1, 1, 2), part(2, 2, 2), part(3, 1, 1)}, "part 1/1 of 3"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fsys := vfs.NewMem(vfs.MemOptions{})
			a := openStore(t, fsys, testOptions(1))
			for i, d := range tc.drafts {
				a.append(message("T", 0, body(i)), d)
			}
			a.append(message("T", 0, "last"))
			a.sync()
			a.file()
			r := a.must(Op{Kind: OpLoadMeta, Off: a.end})
			if got := strings.Join(payloads(t, r.Records), ","); got != tc.want {
				t.Errorf("loaded %q, want %q", got, tc.want)
			}
			a.stop()
			b := openStore(t, fsys, testOptions(2))
			if got := strings.Join(payloads(t, b.rec.Meta), ","); got != tc.want {
				t.Errorf("recovered %q, want %q", got, tc.want)
			}
		})
	}
}

// TestLoadMetaBelow demands that a cut takes the metadata back: records that end
// above the offset do not count.
func TestLoadMetaBelow(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	a := openStore(t, fsys, testOptions(1))
	a.append(part(1, 1, 1))
	a.append(delta("a"))
	at := a.end
	a.append(delta("b"), part(2, 1, 1))
	a.file()
	for off, want := range map[ha.LogOffset]string{0: "", at: "part 1/1 of 1,a", at + 1: "part 1/1 of 1,a", a.end: "part 1/1 of 2", a.end - 1: "part 1/1 of 1,a,b"} {
		r := a.must(Op{Kind: OpLoadMeta, Off: off})
		if got := strings.Join(payloads(t, r.Records), ","); got != want {
			t.Errorf("below %d: %q, want %q", off, got, want)
		}
	}
	a.truncate(at)
	r := a.must(Op{Kind: OpLoadMeta, Off: a.end})
	if got := strings.Join(payloads(t, r.Records), ","); got != "part 1/1 of 1,a" {
		t.Errorf("after the cut: %q", got)
	}
}

func TestEpochsComeFromBarriers(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	a := openStore(t, fsys, testOptions(1))
	var list ha.Epochs
	for e := range 300 {
		b := Barrier{Epoch: ha.MasterEpoch(e + 2), Master: 1, Boot: 1, Store: a.rec.Identity.Store, Start: a.end, Clean: e%2 == 0, Recent: list}
		d := BarrierDraft(b, Host{}, 1)
		if rest, blank := NeedsBlank(a.end, 8000, a.seg); blank {
			b.Start += ha.LogOffset(rest)
		}
		bytes := a.build(d)
		b.Start = physical(a.stored[len(a.stored)-1])
		list = list.Append(ha.EpochStart{Epoch: b.Epoch, Start: b.Start, Unclean: !b.Clean})
		// The body holds the start, so it is laid out again at its place.
		a.end -= ha.LogOffset(len(bytes[len(bytes)-1]))
		a.stored, a.entry = a.stored[:len(a.stored)-1], a.entry[:len(a.entry)-1]
		a.next[queueKey{BarrierTopic, MetaQueue}]--
		off := a.end
		if len(bytes) > 1 {
			off -= ha.LogOffset(len(bytes[0]))
		}
		data := append(bytes[:len(bytes)-1:len(bytes)-1], a.build(BarrierDraft(b, Host{}, 1))...)
		if p := physical(a.stored[len(a.stored)-1]); p != b.Start {
			list[len(list)-1].Start = p
		}
		a.must(Op{Kind: OpAppend, Off: off, Data: data})
	}
	a.sync()
	a.file()
	// The cache names an epoch of another master in between, and one above the end.
	cache := ha.Epochs{{Epoch: 1, Start: 0}, {Epoch: 1000, Start: a.end + 1}}
	a.must(Op{Kind: OpSave, Name: NameEpochFile, Blob: EncodeEpochFile(cache)})
	a.stop()
	b := openStore(t, fsys, testOptions(2))
	want := append(ha.Epochs{{Epoch: 1, Start: 0}}, list...)
	if !reflect.DeepEqual(b.rec.Epochs, want) {
		t.Errorf("%d epochs, want %d: %v … %v", len(b.rec.Epochs), len(want), b.rec.Epochs[:3], want[:3])
	}
	if !bytes.Equal(b.rec.LastBarrier, a.stored[len(a.stored)-1]) {
		t.Error("the last barrier is another record")
	}
}

func TestBarrierCodec(t *testing.T) {
	b := Barrier{
		Epoch: 7, Master: 3, Boot: 9, Store: "00112233445566778899aabbccddeeff", Start: 1 << 40, Clean: true,
		Recent: ha.Epochs{{Epoch: 1, Start: 0}, {Epoch: 5, Start: 5, Unclean: true}, {Epoch: 6, Start: 5}},
	}
	enc := EncodeBarrier(b)
	got, err := DecodeBarrier(enc)
	if err != nil || !reflect.DeepEqual(got, b) {
		t.Fatalf("%+v %v", got, err)
	}
	for i := range enc {
		if _, err := DecodeBarrier(enc[:i]); err == nil {
			t.Errorf("the first %d bytes decode", i)
		}
	}
	if _, err := DecodeBarrier(append(enc, 0)); err == nil {
		t.Error("a byte behind the end passes")
	}
	enc[0] = 2
	if _, err := DecodeBarrier(enc); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("version 2: %v", err)
	}
}

func TestEpochFile(t *testing.T) {
	list := ha.Epochs{{Epoch: 1, Start: 0}, {Epoch: 2, Start: 100}, {Epoch: 5, Start: 100}}
	// CRC-32 of the three entry lines, without its top bit, by zlib.
	want := "3\n1437034137\n1-0\n2-100\n5-100\n"
	if got := string(EncodeEpochFile(list)); got != want {
		t.Errorf("encoded %q, want %q", got, want)
	}
	if got, err := DecodeEpochFile(EncodeEpochFile(nil)); err != nil || len(got) != 0 {
		t.Errorf("empty list: %v %v", got, err)
	}
	for text, want := range map[string]string{
		"":                               "line 1 is missing",
		"x\n0\n":                         "line 1",
		"1\n0\n":                         "line 3 is missing",
		"1\n5\n1-0\n":                    "checksum 5",
		"1\n0\n1-\n":                     "line 3",
		"1\n0\n1-0\n2-0\n":               "more than the 1 entries",
		"2\n0\n2-0\n1-0\n":               "not ascending",
		"99999999\n0\n":                  "at most 65536",
		"1\n0\n3000000000-0\n":           "at most 2147483647",
		"2\n0\n1-5\n2-4\n":               "not ascending",
		"1\n-1\n1-0\n":                   "line 2",
		"1\n0\n1-99999999999999999999\n": "line 3",
	} {
		if _, err := DecodeEpochFile([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if got, err := DecodeEpochFile([]byte("1\n0\n7-3")); err != nil || got[0] != (ha.EpochStart{Epoch: 7, Start: 3}) {
		t.Errorf("no final line break, no checksum: %v %v", got, err)
	}
}

func TestMergeEpochs(t *testing.T) {
	for _, tc := range []struct {
		name            string
		derived, cached ha.Epochs
		end             ha.LogOffset
		want            ha.Epochs
	}{
		{"barriers win", ha.Epochs{{Epoch: 2, Start: 10}}, ha.Epochs{{Epoch: 2, Start: 50}}, 100, ha.Epochs{{Epoch: 2, Start: 10}}},
		{"the cache fills in", ha.Epochs{{Epoch: 3, Start: 30}}, ha.Epochs{{Epoch: 1, Start: 0}, {Epoch: 4, Start: 60}}, 100, ha.Epochs{{Epoch: 1, Start: 0}, {Epoch: 3, Start: 30}, {Epoch: 4, Start: 60}}},
		{"no byte of it is left", nil, ha.Epochs{{Epoch: 1, Start: 99}, {Epoch: 2, Start: 100}, {Epoch: 3, Start: 101}}, 100, ha.Epochs{{Epoch: 1, Start: 99}}},
		{"does not fit", ha.Epochs{{Epoch: 3, Start: 30}}, ha.Epochs{{Epoch: 2, Start: 40}, {Epoch: 4, Start: 20}}, 100, ha.Epochs{{Epoch: 3, Start: 30}}},
		{"nothing", nil, nil, 0, nil},
	} {
		if got := MergeEpochs(tc.derived, tc.cached, tc.end); !slices.Equal(got, tc.want) || !got.Valid() {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestQueueRestartsWithItsTopic(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	a := openStore(t, fsys, testOptions(1))
	for range 20 {
		a.append(message("T", 0, "old"))
	}
	a.file()
	a.next[queueKey{"T", 0}] = 0 // the topic was deleted and made again
	for range 3 {
		a.append(message("T", 0, "new"))
	}
	a.file()
	if lo, hi := a.s.queues.lookup("T", 0).bounds(); lo != 0 || hi != 3 {
		t.Fatalf("queue holds [%d, %d)", lo, hi)
	}
	got := a.pullAll("T", 0, a.end)
	if len(got) != 3 || !bytes.Contains(got[0], []byte("new")) {
		t.Errorf("%d records", len(got))
	}
	a.entry = append(a.entry, QueueEntry{Topic: "T", Offset: 2, Log: a.end - 120, Size: 120})
	a.next[queueKey{"T", 0}] = 1
	a.append(message("T", 0, "wrong offset"))
	if r := a.do(Op{Kind: OpQueue, Entries: a.entry[1:]}); !errors.Is(r.Err, ErrInvalid) {
		t.Errorf("an offset that was taken: %v", r.Err)
	}
}

func TestQueueRefusesUnsafeTopics(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	a := openStore(t, fsys, testOptions(1))
	a.fill(1)
	for _, topic := range []string{"", ".", "..", "a/b", "../../x", "a\x00", "a b", strings.Repeat("x", 256), "ä", "a."} {
		if r := a.do(Op{Kind: OpQueue, Entries: []QueueEntry{{Topic: topic, Log: 0, Size: 100}}}); !errors.Is(r.Err, ErrInvalid) {
			t.Errorf("topic %q: %v", topic, r.Err)
		}
	}
	for _, topic := range []string{"%RETRY%g", "a|b", "A-b_9", "rmq_sys_x"} {
		if !SafeTopic(topic) {
			t.Errorf("%q is a topic", topic)
		}
	}
}

// TestStaleOperations issues queue entries and a checkpoint from before a cut
// after it, as lanes that run beside each other may.
func TestStaleOperations(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	a := openStore(t, fsys, testOptions(1))
	a.fill(40)
	a.sync()
	stale := Op{ID: a.id, Kind: OpCheckpoint, Off: a.end, Confirm: a.end, Dispatched: a.end, WallMillis: a.wall}
	entries := slices.Clone(a.entry)
	at := physical(a.stored[10])
	a.truncate(at)
	a.entry = nil
	for _, e := range entries[:10] {
		a.entry = append(a.entry, e)
	}
	a.fill(60) // longer than before
	if r := a.s.Do(stale); r.Err != nil {
		t.Fatal(r.Err)
	}
	if m := a.s.floor.last; m.floor > at || m.dispatched > at {
		t.Errorf("a checkpoint from before the cut raised the floor to %+v", m)
	}
	if r := a.s.Do(Op{ID: stale.ID, Kind: OpQueue, Entries: entries}); r.Err != nil {
		t.Fatal(r.Err)
	}
	a.file()
	a.rec.Queues = nil
	a.checkContents(a.stored)
}

func TestOpenFilesAreBounded(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	a := openStore(t, fsys, testOptions(1))
	for i := range 50 {
		a.append(message("T", int32(i), body(i)))
	}
	a.file()
	a.rec.Queues = nil
	a.checkContents(a.stored)
	if n := len(a.s.queues.handles.all); n > 4 || n != len(a.s.queues.handles.byName) {
		t.Errorf("%d queue files are open, the limit is 4", n)
	}
}
