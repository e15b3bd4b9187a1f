package storage

import (
	"testing"

	"lockstep/internal/ha"
	"lockstep/storage/vfs"
)

// A valid record far behind the end is found though the file system says that
// nothing was written in front of it, even when its first bytes, which are zeros,
// lie in a page that never was.
func TestRecordBehindAHole(t *testing.T) {
	const page = 4096
	at := int64(3*page - 2)
	recover := func(fsys vfs.FS) Recovered {
		a := openStore(t, fsys, testOptions(1))
		a.fill(3)
		a.sync()
		a.file()
		a.checkpoint()
		if int64(a.end) > page {
			t.Fatalf("the log ends at %d, not in its first page", a.end)
		}
		p, err := PrepareRecord(nil, &Draft{Topic: "A", Body: []byte("lost"), PropCRC: true})
		if err != nil {
			t.Fatal(err)
		}
		record := make([]byte, p.Size())
		p.Place(record, 9, ha.LogOffset(at), 1)
		if record[0] != 0 || record[1] != 0 {
			t.Fatal("the record does not begin with zeros")
		}
		if err := a.s.Close(); err != nil {
			t.Fatal(err)
		}
		f, err := fsys.Open(segmentName(dirCommitLog, 0))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(record[2:], at+2); err != nil {
			t.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		return openStore(t, fsys, testOptions(2)).rec
	}
	plain, sparse := recover(vfs.NewMem(vfs.MemOptions{})), recover(vfs.OS(t.TempDir()))
	for _, rec := range []Recovered{plain, sparse} {
		if rec.Claim != ha.ClaimBroken || rec.TornBytes == 0 {
			t.Errorf("recovered %+v, want a claim broken by the record at %d", rec, at)
		}
	}
	if plain.End != sparse.End || plain.TornBytes != sparse.TornBytes || plain.Suspect != sparse.Suspect {
		t.Errorf("without holes %+v, with them %+v", plain, sparse)
	}
}
