package storage

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"lockstep/internal/ha"
	"lockstep/storage/vfs"
)

// javaStore writes what a Java broker leaves: native files only, records without
// property CRC, blanks with old bytes behind their header.
type javaStore struct {
	t       *testing.T
	fsys    *vfs.Mem
	log     []byte
	units   []byte
	stored  [][]byte
	wall    int64
	segment int
}

func newJavaStore(t *testing.T) *javaStore {
	return &javaStore{t: t, fsys: vfs.NewMem(vfs.MemOptions{}), wall: 5_000_000, segment: testSegment}
}

func (j *javaStore) add(n int) {
	for range n {
		d := message("J", 0, body(len(j.stored)%30+1))
		d.BornHost, d.StoreHost = mustHost(j.t, "10.0.0.1:1"), mustHost(j.t, "10.0.0.2:10911")
		p, err := PrepareRecord(nil, &d)
		if err != nil {
			j.t.Fatal(err)
		}
		if rest, blank := NeedsBlank(ha.LogOffset(len(j.log)), p.Size(), testSegment); blank {
			b := make([]byte, rest)
			for i := range b {
				b[i] = 0xEE
			}
			binary.BigEndian.PutUint32(b, uint32(rest))
			binary.BigEndian.PutUint32(b[4:], MagicBlank)
			j.log = append(j.log, b...)
		}
		b := make([]byte, p.Size())
		j.wall += 10
		p.Place(b, int64(len(j.stored)), ha.LogOffset(len(j.log)), j.wall)
		u := unit{log: int64(len(j.log)), size: int32(len(b)), tag: TagHash([]byte("t1"))}
		j.units = u.append(j.units)
		j.log, j.stored = append(j.log, b...), append(j.stored, b)
	}
}

func (j *javaStore) file(name string, b []byte, size int) {
	j.t.Helper()
	dir := name[:strings.LastIndexByte(name, '/')+1]
	if dir != "" {
		if err := j.fsys.MkdirAll(strings.TrimSuffix(dir, "/")); err != nil {
			j.t.Fatal(err)
		}
	}
	f, err := j.fsys.Create(name)
	if err != nil {
		j.t.Fatal(err)
	}
	_, err = f.WriteAt(b, 0)
	if err = errors.Join(err, f.Truncate(int64(size)), f.Close()); err != nil {
		j.t.Fatal(err)
	}
}

// write puts the files down. queues is how many of the records have their unit.
func (j *javaStore) write(clean bool, queues int) {
	for base := 0; base < len(j.log); base += testSegment {
		j.file(segmentName(dirCommitLog, int64(base)), j.log[base:min(base+testSegment, len(j.log))], testSegment)
	}
	per := 16 * queueUnit
	for base := 0; base < queues*queueUnit; base += per {
		j.file(segmentName(queueDir("J", 0), int64(base)), j.units[base:min(base+per, queues*queueUnit)], per)
	}
	cp := nativeCheckpoint{physicMillis: j.wall, logicsMillis: j.wall, indexMillis: j.wall, confirm: ha.LogOffset(len(j.log) / 2)}
	j.file(nameCheckpoint, cp.encode(), nativeCheckpointBytes)
	j.file(NameEpochFile, EncodeEpochFile(ha.Epochs{{Epoch: 2, Start: 0}, {Epoch: 5, Start: 1000}}), len(EncodeEpochFile(ha.Epochs{{Epoch: 2, Start: 0}, {Epoch: 5, Start: 1000}})))
	j.file("config/topics.json.bak", []byte(`{"topicConfigTable":{}}`), 23)
	if !clean {
		j.file(nameAbort, []byte("123"), 3)
	}
}

func (j *javaStore) check(rec Recovered, s *Store, want [][]byte) {
	j.t.Helper()
	a := newAppender(j.t, s, rec, testOptions(1))
	off := rec.Min
	for _, b := range want {
		if physical(b) < off {
			j.t.Fatal("records overlap")
		}
		r := a.do(Op{Kind: OpRead, Off: physical(b), Max: len(b)})
		if r.Err != nil || string(r.Bytes) != string(b) {
			j.t.Fatalf("read at %d: %v", physical(b), r.Err)
		}
		off = physical(b)
	}
	pulled := a.pullAll("J", 0, rec.End)
	if len(pulled) != len(want) {
		j.t.Fatalf("queue gives %d records, want %d", len(pulled), len(want))
	}
}

func TestJavaStore(t *testing.T) {
	for _, tc := range []struct {
		name  string
		clean bool
		unit  int // of 100 records
		edit  func(j *javaStore)
		want  int
		claim ha.Claim
	}{
		{"clean", true, 100, nil, 100, ha.ClaimHolds},
		{"clean, queues behind", true, 70, nil, 100, ha.ClaimHolds},
		{"clean, no queues", true, 0, nil, 100, ha.ClaimHolds},
		{"unclean", false, 95, nil, 100, ha.ClaimBroken},
		{"unclean, no queues", false, 0, nil, 100, ha.ClaimBroken},
		{"unclean, torn tail", false, 100, func(j *javaStore) { j.log = j.log[:len(j.log)-50] }, 99, ha.ClaimBroken},
		{"old bytes behind the end", true, 100, func(j *javaStore) {
			// Java cuts by moving positions: the bytes stay.
			j.log = append(j.log, j.stored[3]...)
		}, 100, ha.ClaimHolds},
	} {
		t.Run(tc.name, func(t *testing.T) {
			j := newJavaStore(t)
			j.add(100)
			if tc.edit != nil {
				tc.edit(j)
			}
			j.write(tc.clean, tc.unit)
			o := testOptions(1)
			s, rec, err := Open(j.fsys, o)
			if err != nil {
				t.Fatal(err)
			}
			if rec.Clean != tc.clean || rec.Claim != tc.claim || rec.Suspect != "" {
				t.Errorf("clean %v claim %v suspect %q", rec.Clean, rec.Claim, rec.Suspect)
			}
			if len(rec.Epochs) != 2 || rec.HighestEpoch != 5 || rec.LastBarrier != nil {
				t.Errorf("epochs %v, highest %d", rec.Epochs, rec.HighestEpoch)
			}
			if len(rec.Config) != 1 || rec.Config[0].Name != "topics.json" {
				t.Errorf("config %v", rec.Config)
			}
			if rec.Confirm > rec.End || rec.Confirm == 0 {
				t.Errorf("confirm %d of a log that ends at %d", rec.Confirm, rec.End)
			}
			j.check(rec, s, j.stored[:tc.want])
			// Lockstep goes on in it, with property CRCs from here on.
			a := newAppender(t, s, rec, o)
			a.fill(50)
			a.sync()
			a.file()
			j.fsys.Crash(vfs.PowerLoss, vfs.KeepNothing)
			s, rec, err = Open(j.fsys, testOptions(2))
			if err != nil {
				t.Fatal(err)
			}
			if rec.End != a.end || rec.Suspect != "" {
				t.Errorf("second start ends at %d, want %d: %s", rec.End, a.end, rec.Suspect)
			}
			j.check(rec, s, j.stored[:tc.want])
			b := newAppender(t, s, rec, o)
			if got := b.pullAll("A", 0, rec.End); len(got) == 0 {
				t.Error("Lockstep's records are gone")
			}
		})
	}
}

// TestJavaReadsIt checks what a Java broker looks for at its start: whole native
// files, the abort file, a checkpoint.
func TestJavaReadsIt(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	o := testOptions(1)
	o.ProcessID = 4711
	a := openStore(t, fsys, o)
	if b, err := vfs.ReadFile(fsys, nameAbort); err != nil || string(b) != "4711" {
		t.Errorf("abort file %q %v", b, err)
	}
	a.fill(100)
	a.sync()
	a.file()
	a.checkpoint()
	a.stop()
	if ok, err := vfs.Exists(fsys, nameAbort); ok || err != nil {
		t.Errorf("abort file after a clean stop: %v %v", ok, err)
	}
	for dir, size := range map[string]int64{dirCommitLog: testSegment, queueDir("A", 0): 320} {
		names, err := fsys.List(dir)
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v %v", dir, names, err)
		}
		for i, n := range names {
			st, err := fsys.Stat(dir + "/" + n)
			if err != nil || st.Size() != size || n != segmentName("", int64(i)*size)[1:] {
				t.Errorf("%s/%s: %v %v", dir, n, st, err)
			}
		}
	}
	b, err := vfs.ReadFile(fsys, nameCheckpoint)
	if err != nil || len(b) != nativeCheckpointBytes {
		t.Fatalf("checkpoint of %d bytes: %v", len(b), err)
	}
	c, _ := decodeNativeCheckpoint(b)
	if c.confirm != a.end || c.masterFlushed != a.end || c.physicMillis != a.wall || c.logicsMillis != a.wall {
		t.Errorf("checkpoint %+v, want end %d and time %d", c, a.end, a.wall)
	}
}

// TestJavaCrashedAfterUs is a store on which another broker ran after a clean
// stop, and crashed.
func TestJavaCrashedAfterUs(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	a := openStore(t, fsys, testOptions(1))
	a.fill(10)
	a.stop()
	if err := vfs.WriteAtomic(fsys, nameAbort, []byte("1")); err != nil {
		t.Fatal(err)
	}
	if b := openStore(t, fsys, testOptions(2)); b.rec.Clean || b.rec.Claim != ha.ClaimBroken {
		t.Errorf("%+v", b.rec)
	}
}
