package storage

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"lockstep/internal/ha"
	"lockstep/internal/prng"
	"lockstep/storage/vfs"
)

const testSegment = 16 << 10

func testOptions(seed uint64) Options {
	return Options{
		Cluster: "c", Group: "g", Segment: testSegment, QueueUnits: 16, MaxRecord: 8 << 10,
		RequirePropCRC: true, QueueSync: 4 << 10, OpenFiles: 4, Entropy: prng.New(seed),
	}
}

// tester is what helpers need of a test, whatever runs it.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// appender drives a store as a broker does: it keeps the positions, makes
// records and issues operations.
type appender struct {
	t      tester
	s      *Store
	rec    Recovered
	end    ha.LogOffset
	synced ha.LogOffset
	filed  ha.LogOffset
	next   map[queueKey]int64
	wall   int64
	id     uint64
	seg    int64
	entry  []QueueEntry // not yet filed
	stored [][]byte     // records in log order
}

func openStore(t tester, fsys vfs.FS, o Options) *appender {
	t.Helper()
	s, rec, err := Open(fsys, o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return newAppender(t, s, rec, o)
}

func newAppender(t tester, s *Store, rec Recovered, o Options) *appender {
	a := &appender{t: t, s: s, rec: rec, end: rec.End, synced: rec.End, filed: rec.End, next: map[queueKey]int64{}, wall: 1_000_000, seg: o.withDefaults().Segment}
	for _, q := range rec.Queues {
		a.next[queueKey{q.Topic, q.Queue}] = q.Max
	}
	return a
}

func (a *appender) do(op Op) Result {
	a.id++
	op.ID = a.id
	return a.s.Do(op)
}

func (a *appender) must(op Op) Result {
	a.t.Helper()
	r := a.do(op)
	if r.Err != nil {
		a.t.Fatalf("operation %d at %d: %v", op.Kind, op.Off, r.Err)
	}
	return r
}

// build lays out a message at the end of the log, with a blank in front when it
// does not fit.
func (a *appender) build(d Draft) [][]byte {
	a.t.Helper()
	d.BornMillis, d.PropCRC = a.wall, true
	d.BornHost, d.StoreHost = mustHost(a.t, "10.0.0.1:1"), mustHost(a.t, "10.0.0.2:10911")
	p, err := PrepareRecord(nil, &d)
	if err != nil {
		a.t.Fatal(err)
	}
	var out [][]byte
	if rest, blank := NeedsBlank(a.end, p.Size(), a.seg); blank {
		b := make([]byte, rest)
		Blank(b)
		out, a.end = append(out, b), a.end+ha.LogOffset(rest)
	}
	k := queueKey{d.Topic, d.QueueID}
	b := make([]byte, p.Size())
	a.wall++
	p.Place(b, a.next[k], a.end, a.wall)
	a.next[k]++
	r, reason := DecodeRecord(b)
	if reason != "" {
		a.t.Fatal(reason)
	}
	e, _ := EntryOf(&r)
	a.entry = append(a.entry, e)
	a.stored = append(a.stored, b)
	a.end += ha.LogOffset(p.Size())
	return append(out, b)
}

func message(topic string, queue int32, body string) Draft {
	return Draft{Topic: topic, QueueID: queue, Body: []byte(body), Properties: AppendProperty(nil, PropTags, "t"+body[:1])}
}

// append writes messages in one operation.
func (a *appender) append(drafts ...Draft) {
	a.t.Helper()
	off := a.end
	var data [][]byte
	for _, d := range drafts {
		data = append(data, a.build(d)...)
	}
	a.must(Op{Lane: LaneLog, Kind: OpAppend, Off: off, Data: data})
}

func (a *appender) sync() {
	a.t.Helper()
	end := a.end
	a.must(Op{Lane: LaneSync, Kind: OpSync, Off: end})
	a.synced = end
}

func (a *appender) file() {
	a.t.Helper()
	a.must(Op{Lane: LaneQueue, Kind: OpQueue, Entries: a.entry})
	a.entry, a.filed = nil, a.end
}

func (a *appender) checkpoint() {
	a.t.Helper()
	a.must(Op{Lane: LaneMeta, Kind: OpCheckpoint, Off: a.synced, Confirm: a.synced, Dispatched: a.filed, WallMillis: a.wall})
}

func (a *appender) truncate(off ha.LogOffset) Result {
	a.t.Helper()
	r := a.must(Op{Lane: LaneLog, Kind: OpTruncate, Off: off, Confirm: off})
	a.end, a.synced, a.filed = off, min(a.synced, off), min(a.filed, off)
	a.entry = slices.DeleteFunc(a.entry, func(e QueueEntry) bool { return e.Log >= off })
	keep := a.stored[:0]
	for _, b := range a.stored {
		if rec, _ := DecodeRecord(b); rec.End() <= off {
			keep = append(keep, b)
		}
	}
	a.stored = keep
	clear(a.next)
	for _, b := range a.stored {
		r, _ := DecodeRecord(b)
		a.next[queueKey{string(r.Topic), r.QueueID}] = r.QueueOffset + 1
	}
	for _, q := range r.Queues {
		k := queueKey{q.Topic, q.Queue}
		a.next[k] = max(a.next[k], q.Max)
	}
	return r
}

func (a *appender) stop() {
	a.t.Helper()
	a.must(Op{Lane: LaneMeta, Kind: OpCleanStop, Confirm: a.end})
	if err := a.s.Close(); err != nil {
		a.t.Fatal(err)
	}
}

// readLog returns all bytes from the log's start, through OpRead.
func (a *appender) readLog() []byte {
	a.t.Helper()
	var out []byte
	for off := a.rec.Min; off < a.end; {
		r := a.must(Op{Lane: LaneRead, Kind: OpRead, Off: off, Max: 3000})
		if len(r.Bytes) == 0 {
			a.t.Fatalf("nothing at %d of %d", off, a.end)
		}
		out = append(out, r.Bytes...)
		off += ha.LogOffset(len(r.Bytes))
	}
	return out
}

// records splits log bytes that begin at off.
func records(t tester, b []byte, off ha.LogOffset, segment int64) (out [][]byte) {
	t.Helper()
	for len(b) > 0 {
		f := Next(b, off, Check{Segment: segment, PropCRC: PropCRCRequired})
		switch f.Kind {
		case FoundRecord:
			out = append(out, f.Record.Raw)
		case FoundBlank:
		default:
			t.Fatalf("kind %d at %d: %s", f.Kind, off, f.Reason)
		}
		b, off = b[f.Size:], off+ha.LogOffset(f.Size)
	}
	return out
}

// pullAll returns the records of a queue through OpPull.
func (a *appender) pullAll(topic string, queue int32, limit ha.LogOffset) (out [][]byte) {
	a.t.Helper()
	q := a.s.queues.lookup(topic, queue)
	if q == nil {
		return nil
	}
	lo, hi := q.bounds()
	for lo < hi {
		r := a.must(Op{Lane: LaneRead, Kind: OpPull, Pull: PullArgs{Topic: topic, Queue: queue, Offset: lo, MaxMsgs: 7, MaxBytes: 4096, Limit: limit}})
		for b := r.Bytes; len(b) > 0; {
			f := Next(b, physical(b), Check{})
			if f.Kind != FoundRecord {
				a.t.Fatalf("pulled %d: %s", f.Kind, f.Reason)
			}
			out, b = append(out, f.Record.Raw), b[f.Size:]
		}
		if r.Pull.Next == lo {
			return out
		}
		lo = r.Pull.Next
	}
	return out
}

func physical(b []byte) ha.LogOffset {
	var v uint64
	for _, c := range b[posPhysical : posPhysical+8] {
		v = v<<8 | uint64(c)
	}
	return ha.LogOffset(v)
}

// checkContents compares log and queues with the records the store should hold.
func (a *appender) checkContents(want [][]byte) {
	a.t.Helper()
	got := records(a.t, a.readLog(), a.rec.Min, a.seg)
	if len(got) != len(want) {
		a.t.Fatalf("log has %d records, want %d", len(got), len(want))
	}
	perQueue := map[queueKey][][]byte{}
	for i := range want {
		if !bytes.Equal(got[i], want[i]) {
			a.t.Fatalf("record %d differs", i)
		}
		r, _ := DecodeRecord(want[i])
		k := queueKey{string(r.Topic), r.QueueID}
		perQueue[k] = append(perQueue[k], want[i])
	}
	for k, list := range perQueue {
		pulled := a.pullAll(k.topic, k.id, a.end)
		if len(pulled) != len(list) {
			a.t.Fatalf("queue %v gives %d records, want %d", k, len(pulled), len(list))
		}
		for i := range list {
			if !bytes.Equal(pulled[i], list[i]) {
				a.t.Fatalf("queue %v record %d differs", k, i)
			}
		}
	}
	for _, q := range a.rec.Queues {
		if n := len(perQueue[queueKey{q.Topic, q.Queue}]); int64(n) != q.Max-q.Min && q.Max != q.Min {
			a.t.Fatalf("queue %s/%d holds [%d, %d), the log has %d of its records", q.Topic, q.Queue, q.Min, q.Max, n)
		}
	}
}

func body(i int) string { return fmt.Sprintf("%d:%s", i, strings.Repeat("x", i*37%700)) }

// fill appends n messages over three queues of two topics.
func (a *appender) fill(n int) {
	a.t.Helper()
	for i := range n {
		a.append(message([]string{"A", "B"}[i%2], int32(i%3), body(i)))
	}
}

func TestCleanStopAndReopen(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	a := openStore(t, fsys, testOptions(1))
	if a.rec.Clean != true || a.rec.Claim != ha.ClaimHolds || a.rec.Identity.Boot != 1 || !ValidStoreID(a.rec.Identity.Store) {
		t.Fatalf("new store: %+v", a.rec)
	}
	a.fill(100)
	a.sync()
	a.file()
	want := a.stored
	first := a.rec.Identity
	a.stop()
	b := openStore(t, fsys, testOptions(2))
	if !b.rec.Clean || b.rec.Claim != ha.ClaimHolds || b.rec.End != a.end || b.rec.Suspect != "" || b.rec.TornBytes != 0 {
		t.Fatalf("reopened: %+v", b.rec)
	}
	if b.rec.Identity.Store != first.Store || b.rec.Identity.Boot != 2 || b.rec.Identity.Nonce == first.Nonce {
		t.Fatalf("identity %+v after %+v", b.rec.Identity, first)
	}
	if b.rec.Confirm != a.end {
		t.Errorf("confirm %d, want %d", b.rec.Confirm, a.end)
	}
	b.checkContents(want)
	b.fill(20)
	b.file()
	b.rec.Queues = nil
	b.checkContents(append(want, b.stored...))
}

func TestUncleanKeepsWhatWasSynced(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	a := openStore(t, fsys, testOptions(1))
	a.fill(60)
	a.sync()
	a.file()
	a.checkpoint()
	a.fill(10)
	a.sync()
	want := a.stored
	end := a.end
	a.fill(3) // never synced
	fsys.Crash(vfs.PowerLoss, vfs.KeepNothing)
	b := openStore(t, fsys, testOptions(2))
	if b.rec.Clean || b.rec.Claim != ha.ClaimHolds || b.rec.End != end || b.rec.Suspect != "" {
		t.Fatalf("recovered %+v, want end %d", b.rec, end)
	}
	b.checkContents(want)
}

func TestReceivedAcksBreakTheClaim(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	a := openStore(t, fsys, testOptions(1))
	a.must(Op{Lane: LaneMeta, Kind: OpSave, Name: NameReceivedAcks, Blob: []byte("x")})
	a.fill(5)
	a.sync()
	fsys.Crash(vfs.ProcessExit, nil)
	b := openStore(t, fsys, testOptions(2))
	if b.rec.Claim != ha.ClaimBroken {
		t.Fatalf("claim %v after an unclean stop with received acks", b.rec.Claim)
	}
	// It stays broken, clean stop or not, until the broker says that it joined.
	b.stop()
	c := openStore(t, fsys, testOptions(3))
	if c.rec.Claim != ha.ClaimBroken || !c.rec.Clean {
		t.Fatalf("claim %v, clean %v: want it broken still", c.rec.Claim, c.rec.Clean)
	}
	c.must(Op{Lane: LaneMeta, Kind: OpSave, Name: NameBrokenClaim})
	c.must(Op{Lane: LaneMeta, Kind: OpSave, Name: NameReceivedAcks, Blob: []byte("x")})
	c.fill(5)
	c.stop()
	d := openStore(t, fsys, testOptions(4))
	if d.rec.Claim != ha.ClaimHolds {
		t.Fatalf("claim %v after joining and a clean stop", d.rec.Claim)
	}
}

func TestOwnership(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	a := openStore(t, fsys, testOptions(1))
	a.must(Op{Lane: LaneMeta, Kind: OpSave, Name: NameIdentity, Blob: EncodeIdentity("c", "g", 7)})
	if _, _, err := Open(fsys, testOptions(2)); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("second process: %v", err)
	}
	a.stop()
	for _, tc := range []struct {
		name string
		edit func(*Options)
		want error
		text string
	}{
		{"cluster", func(o *Options) { o.Cluster = "d" }, ErrForeignStore, "correct brokerClusterName"},
		{"group", func(o *Options) { o.Group = "h" }, ErrForeignStore, "correct brokerClusterName"},
		{"segment size", func(o *Options) { o.Segment = 32 << 10 }, ErrForeignStore, "set it to 16384"},
		{"no entropy", func(o *Options) { o.Entropy = nil }, ErrInvalid, "random bytes"},
		{"tiny segment", func(o *Options) { o.Segment = 100 }, ErrInvalid, "mappedFileSizeCommitLog = 100: want 4096"},
		{"bad name", func(o *Options) { o.Group = "a#b" }, ErrInvalid, "brokerName"},
		{"queue file", func(o *Options) { o.QueueUnits = 1 }, ErrInvalid, "mappedFileSizeConsumeQueue"},
		{"record", func(o *Options) { o.MaxRecord = 16 << 10 }, ErrInvalid, "largest record"},
	} {
		o := testOptions(3)
		tc.edit(&o)
		if _, _, err := Open(fsys, o); !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%s: %v, want %v with %q", tc.name, err, tc.want, tc.text)
		}
	}
	b := openStore(t, fsys, testOptions(4))
	if b.rec.Identity.Broker != 7 || !b.rec.Clean {
		t.Errorf("refusals left %+v", b.rec)
	}
}

func TestMissingSegment(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	a := openStore(t, fsys, testOptions(1))
	a.fill(200)
	a.sync()
	a.stop()
	names, err := fsys.List(dirCommitLog)
	if err != nil || len(names) < 4 {
		t.Fatalf("segments %v %v", names, err)
	}
	if err := fsys.Remove(dirCommitLog + "/" + names[1]); err != nil {
		t.Fatal(err)
	}
	_, _, err = Open(fsys, testOptions(2))
	if !errors.Is(err, ErrMissingSegment) || !strings.Contains(err.Error(), names[1]) {
		t.Fatalf("gap: %v", err)
	}
	// The first segment gone is retention's doing.
	if err := fsys.Remove(dirCommitLog + "/" + names[0]); err != nil {
		t.Fatal(err)
	}
	b := openStore(t, fsys, testOptions(3))
	if b.rec.Min != 2*testSegment || b.rec.Suspect != "" {
		t.Fatalf("after the first segments went: %+v", b.rec)
	}
}

func TestTruncate(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	a := openStore(t, fsys, testOptions(1))
	a.fill(150)
	a.sync()
	a.file()
	a.checkpoint()
	at, _ := DecodeRecord(a.stored[40])
	a.truncate(at.Physical)
	if len(a.stored) != 40 {
		t.Fatalf("%d records left in the model", len(a.stored))
	}
	a.rec.Queues = nil
	a.checkContents(a.stored)
	// Other history in its place, shorter than the old one: nothing old may return.
	a.append(message("A", 0, "new"))
	a.sync()
	want, end := a.stored, a.end
	fsys.Crash(vfs.PowerLoss, vfs.KeepNothing)
	b := openStore(t, fsys, testOptions(2))
	if b.rec.End != end || b.rec.Claim != ha.ClaimHolds || b.rec.Suspect != "" {
		t.Fatalf("recovered %+v, want end %d", b.rec, end)
	}
	b.checkContents(want)
	// To the very start, and again from it.
	b.truncate(0)
	b.append(message("A", 0, "first"))
	b.sync()
	fsys.Crash(vfs.PowerLoss, vfs.KeepNothing)
	c := openStore(t, fsys, testOptions(3))
	c.checkContents(b.stored)
	if r := c.do(Op{Kind: OpTruncate, Off: c.end}); r.Err != nil {
		t.Errorf("cut at the end: %v", r.Err)
	}
}

func TestExpire(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	a := openStore(t, fsys, testOptions(1))
	a.fill(200)
	a.sync()
	a.file()
	r := a.must(Op{Kind: OpExpire, Off: 2*testSegment + 5, Confirm: a.end})
	if r.Offset != 2*testSegment {
		t.Fatalf("expired to %d", r.Offset)
	}
	keep := [][]byte{}
	for _, b := range a.stored {
		if physical(b) >= 2*testSegment {
			keep = append(keep, b)
		}
	}
	a.rec.Min, a.rec.Queues = 2*testSegment, r.Queues
	a.checkContents(keep)
	if r := a.do(Op{Kind: OpRead, Off: 0, Max: 100}); !errors.Is(r.Err, ErrRange) {
		t.Errorf("expired read: %v", r.Err)
	}
	if r := a.do(Op{Kind: OpTruncate, Off: testSegment}); !errors.Is(r.Err, ErrRange) {
		t.Errorf("cut below the first segment: %v", r.Err)
	}
	r = a.must(Op{Kind: OpExpire, Off: 1 << 40})
	if int64(r.Offset) != int64(a.end)/testSegment*testSegment {
		t.Errorf("everything expired: first offset %d of a log that ends at %d", r.Offset, a.end)
	}
	a.stop()
	b := openStore(t, fsys, testOptions(2))
	if int64(b.rec.Min) != r.Offset || b.rec.End != a.end {
		t.Errorf("reopened [%d, %d)", b.rec.Min, b.rec.End)
	}
}

func TestNewReplicaStartsInTheMiddle(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	a := openStore(t, fsys, testOptions(1))
	a.must(Op{Kind: OpReset, Off: 5 * testSegment})
	if r := a.do(Op{Kind: OpReset, Off: 17}); !errors.Is(r.Err, ErrInvalid) {
		t.Errorf("reset into a segment: %v", r.Err)
	}
	a.end, a.rec.Min = 5*testSegment, 5*testSegment
	a.next[queueKey{"A", 0}] = 1000
	a.fill(30)
	a.sync()
	a.file()
	a.checkContents(a.stored)
	a.stop()
	b := openStore(t, fsys, testOptions(2))
	if b.rec.Min != 5*testSegment || b.rec.End != a.end {
		t.Fatalf("reopened [%d, %d)", b.rec.Min, b.rec.End)
	}
	b.checkContents(a.stored)
	for _, q := range b.rec.Queues {
		if q.Topic == "A" && q.Queue == 0 && (q.Min != 1000 || q.Visible != q.Max) {
			t.Errorf("queue A/0: %+v", q)
		}
	}
}

func TestResetDrawsANewStore(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	a := openStore(t, fsys, testOptions(1))
	a.fill(60)
	a.sync()
	a.file()
	if r := a.do(Op{Kind: OpReset, Off: 0}); !errors.Is(r.Err, ErrInvalid) {
		t.Errorf("reset of a full log without a reason: %v", r.Err)
	}
	a.must(Op{Kind: OpReset, Off: 2 * testSegment, Name: "the master has expired what we miss"})
	if r := a.do(Op{Kind: OpAppend, Off: 2 * testSegment}); r.Err == nil {
		t.Error("the emptied store took an append in its old life")
	}
	if err := a.s.Close(); err != nil {
		t.Fatal(err)
	}
	b := openStore(t, fsys, testOptions(2))
	if b.rec.Identity.Store == a.rec.Identity.Store || b.rec.Identity.Boot != 2 {
		t.Errorf("identity %+v after %+v", b.rec.Identity, a.rec.Identity)
	}
	if b.rec.Min != 2*testSegment || b.rec.End != b.rec.Min || b.rec.Claim != ha.ClaimBroken || len(b.rec.Queues) != 0 {
		t.Errorf("after the reset: %+v", b.rec)
	}
	b.must(Op{Kind: OpBoot, Max: 9})
	b.must(Op{Kind: OpBoot, Max: 3})
	b.stop()
	if c := openStore(t, fsys, testOptions(3)); c.rec.Identity.Boot != 10 || !c.rec.Clean {
		t.Errorf("boot %d, clean %v after it was raised to 9", c.rec.Identity.Boot, c.rec.Clean)
	}
}

func TestSave(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	a := openStore(t, fsys, testOptions(1))
	for _, bad := range []string{"", "x", "../x", "config/../x", "config/", "config/..", "config/a/b", "lockstep/store", "commitlog/00000000000000000000", "config/a b"} {
		if r := a.do(Op{Kind: OpSave, Name: bad, Blob: []byte("x")}); !errors.Is(r.Err, ErrInvalid) {
			t.Errorf("save %q: %v", bad, r.Err)
		}
	}
	a.must(Op{Kind: OpSave, Name: "config/topics.json", Blob: []byte("{}")})
	a.fill(1)
	a.sync()
	one := ha.Epochs{{Epoch: 1, Start: 0}}
	a.must(Op{Kind: OpSave, Name: NameEpochFile, Blob: EncodeEpochFile(one)})
	a.must(Op{Kind: OpSave, Name: NameEpochFile, Blob: EncodeEpochFile(one.Append(ha.EpochStart{Epoch: 3, Start: 1 << 40}))})
	a.must(Op{Kind: OpSave, Name: NameHighestEpoch, Blob: EncodeHighestEpoch(9)})
	if old, err := vfs.ReadFile(fsys, nameEpochBackup); err != nil || !bytes.Equal(old, EncodeEpochFile(one)) {
		t.Errorf("epoch backup %q %v", old, err)
	}
	a.stop()
	b := openStore(t, fsys, testOptions(2))
	if len(b.rec.Epochs) != 1 || b.rec.Epochs[0] != one[0] || b.rec.HighestEpoch != 9 {
		t.Errorf("epochs %v highest %d: want the entry above the end dropped", b.rec.Epochs, b.rec.HighestEpoch)
	}
	if len(b.rec.Config) != 1 || b.rec.Config[0].Name != "topics.json" || string(b.rec.Config[0].Text) != "{}" {
		t.Errorf("config %+v", b.rec.Config)
	}
}

func TestSuspectMark(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	a := openStore(t, fsys, testOptions(1))
	a.fill(5)
	a.must(Op{Kind: OpSuspect, Name: "fsync failed\nbadly"})
	a.stop()
	b := openStore(t, fsys, testOptions(2))
	if b.rec.Suspect != "fsync failed badly" || b.rec.Claim != ha.ClaimBroken {
		t.Fatalf("%+v", b.rec)
	}
	b.must(Op{Kind: OpSuspect})
	b.must(Op{Kind: OpSave, Name: NameBrokenClaim})
	b.stop()
	if c := openStore(t, fsys, testOptions(3)); c.rec.Suspect != "" || c.rec.Claim != ha.ClaimHolds {
		t.Errorf("after the full verify: %+v", c.rec)
	}
}

func TestDiskFull(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	a := openStore(t, fsys, testOptions(1))
	a.fill(10)
	a.sync()
	u, err := fsys.Usage(".")
	if err != nil {
		t.Fatal(err)
	}
	fsys.SetCapacity(u.Total - u.Free)
	if r := a.do(Op{Kind: OpPrepare, Off: testSegment}); !errors.Is(r.Err, ErrDiskFull) {
		t.Fatalf("prepare on a full disk: %v", r.Err)
	}
	if ok, err := vfs.Exists(fsys, segmentName(dirCommitLog, testSegment)); ok || err != nil {
		t.Errorf("a segment without space is left behind: %v %v", ok, err)
	}
	a.checkContentsLogOnly()
	fsys.SetCapacity(1 << 30)
	a.must(Op{Kind: OpPrepare, Off: testSegment})
	a.fill(60)
	a.sync()
	a.file()
	a.checkContents(a.stored)
}

func (a *appender) checkContentsLogOnly() {
	a.t.Helper()
	got := records(a.t, a.readLog(), a.rec.Min, a.seg)
	if len(got) != len(a.stored) {
		a.t.Fatalf("log has %d records, want %d", len(got), len(a.stored))
	}
}

func TestFailedSyncIsFinal(t *testing.T) {
	rules := vfs.NewRules(vfs.Rule{Kind: vfs.OpSync, Prefix: dirCommitLog, From: 2, Count: 1, Fault: vfs.Fault{Err: errors.New("EIO"), Drop: true}})
	fsys := vfs.NewMem(vfs.MemOptions{Faults: rules})
	a := openStore(t, fsys, testOptions(1))
	a.fill(3)
	if r := a.do(Op{Kind: OpSync}); !errors.Is(r.Err, ErrFailed) {
		t.Fatalf("failed sync: %v", r.Err)
	}
	for _, op := range []Op{{Kind: OpSync}, {Kind: OpAppend, Off: a.end}, {Kind: OpCleanStop}, {Kind: OpCheckpoint, Off: a.end}, {Kind: OpTruncate}} {
		if r := a.do(op); !errors.Is(r.Err, ErrFailed) {
			t.Errorf("operation %d after a failed sync: %v", op.Kind, r.Err)
		}
	}
	a.must(Op{Kind: OpSuspect, Name: "sync failed"})
	// The pages look fine in the cache, but the device never got them.
	fsys.Crash(vfs.ProcessExit, nil)
	b := openStore(t, fsys, testOptions(2))
	if b.rec.End != 0 || b.rec.Suspect == "" {
		t.Errorf("after the failed sync: %+v", b.rec)
	}
}
