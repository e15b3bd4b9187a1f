package scenarios

import (
	"encoding/binary"
	"testing"

	"lockstep/checker"
	"lockstep/internal/prng"
	"lockstep/storage/vfs"
)

// TestTablesDiffer names the first row that only one side has.
func TestTablesDiffer(t *testing.T) {
	for _, c := range []struct {
		want, got []string
		text      string
	}{
		{[]string{"a", "b"}, []string{"a", "b"}, ""},
		{nil, nil, ""},
		{[]string{"a", "b"}, []string{"a"}, "missing: b"},
		{[]string{"a", "b"}, []string{"b"}, "missing: a"},
		{[]string{"a"}, []string{"a", "b"}, "extra: b"},
		{[]string{"b"}, []string{"a", "b"}, "extra: a"},
		{[]string{"offset g T 0: 5"}, []string{"offset g T 0: 4"}, "extra: offset g T 0: 4"},
	} {
		if got := tablesDiffer(c.want, c.got); got != c.text {
			t.Errorf("%v and %v: %q, want %q", c.want, c.got, got, c.text)
		}
	}
}

// TestUnitDiffers: an entry that is missing, of another message, size or tag is told.
func TestUnitDiffers(t *testing.T) {
	rec := &checker.Record{Size: 120, Log: 4096, QueueOffset: 3}
	unit := func(log uint64, size uint32, tag uint64) []byte {
		b := make([]byte, unitBytes)
		binary.BigEndian.PutUint64(b, log)
		binary.BigEndian.PutUint32(b[8:], size)
		binary.BigEndian.PutUint64(b[12:], tag)
		return b
	}
	if why := unitDiffers(unit(4096, 120, 0), true, rec); why != "" {
		t.Errorf("the right entry: %s", why)
	}
	for name, raw := range map[string][]byte{"empty": make([]byte, unitBytes), "another message": unit(8192, 120, 0), "another size": unit(4096, 121, 0), "another tag": unit(4096, 120, 9)} {
		if unitDiffers(raw, true, rec) == "" {
			t.Errorf("%s passes", name)
		}
	}
	if unitDiffers(nil, false, rec) == "" {
		t.Error("a missing file passes")
	}
	if got := tagHash("drill"); got != 95852635 {
		t.Errorf("hash of drill: %d", got)
	}
}

// TestCommittedLeast: what was answered holds, but for a commit that may still be
// under way and set it back.
func TestCommittedLeast(t *testing.T) {
	c := committed{done: 40}
	if c.least(0) != 40 {
		t.Errorf("%d, want 40", c.least(0))
	}
	c.doubt = []doubtful{{offset: 30, at: 5e9}, {offset: 50, at: 6e9}}
	if got := c.least(7e9); got != 30 {
		t.Errorf("while in doubt: %d, want 30", got)
	}
	if got := c.least(5e9 + doubtLasts); got != 40 {
		t.Errorf("when doubt is over: %d, want 40", got)
	}
}

// corrupted runs a quiet world and damages one thing in it before it is judged.
func corrupted(t *testing.T, damage func(r *Run)) *Run {
	t.Helper()
	d, err := Find("S0")
	if err != nil {
		t.Fatal(err)
	}
	small := *d
	small.Pin = func(_ *prng.Source, s *Setup) {
		*s = StandardSetup()
		s.Groups = 1
	}
	r, err := prepare(&small, 1, RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.World.Close()
	r.act()
	if len(r.Findings) > 0 {
		t.Fatalf("before any damage: %v", r.Findings)
	}
	r.healed = r.nodes // the judges look at all of them
	damage(r)
	return r
}

// TestJudgesSeeDamage: each comparison of the end of a run fails when one thing in
// it is not as it should be, and passes when all is.
func TestJudgesSeeDamage(t *testing.T) {
	entry := func(disk *vfs.Mem) error {
		const name = "consumequeue/" + Topic + "/0/00000000000000000000"
		raw, err := vfs.ReadFile(disk, name)
		if err != nil {
			return err
		}
		raw[7]++
		return vfs.WriteAtomic(disk, name, raw)
	}
	corrupted(t, func(r *Run) {
		if why := r.underived(0); why != "" {
			t.Errorf("undamaged: %s", why)
		}
		group := GroupName(0)
		rec := r.Truth.refresh(group)
		master, slave := r.Truth.Node(group, rec.Master), r.one("@slave/a/0")
		queue := r.Load.queueName(group, Topic, 0)
		told := r.Load.Offsets[queue]
		if told == nil || told.done <= 0 {
			t.Fatalf("nothing was committed: %+v", told)
		}
		r.checkOffsets(group, master, 2)
		if len(r.Findings) != 0 || r.Judge.Marks["committed offset kept across a failover"] == 0 {
			t.Errorf("kept offsets: %v, marks %v", r.Findings, r.Judge.Marks)
		}
		told.done += 1000
		r.checkOffsets(group, master, 2)
		if len(r.Findings) != 1 || r.Findings[0].Name != "offset-lost" {
			t.Errorf("a commit that was answered and is not there: %v", r.Findings)
		}
		told.done -= 1000
		if err := entry(r.World.Node(slave).Disk()); err != nil {
			t.Fatal(err)
		}
		if why := r.underived(0); why == "" {
			t.Error("a damaged consume queue entry of a slave passes")
		}
	})
}
