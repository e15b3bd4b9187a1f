package live

import (
	"errors"
	"testing"

	"lockstep/internal/prng"
	"lockstep/sim"
	"lockstep/storage/vfs"
	"lockstep/storage/vfs/vfstest"
)

func openDisk(t *testing.T) (*disk, *files) {
	t.Helper()
	d := newDisk(t.TempDir(), func() int64 { return 0 })
	must(t, d.materialise())
	f := d.begin()
	t.Cleanup(f.closeAll)
	return d, f
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write makes a file of one line; with durable it and its name are synced.
func write(t *testing.T, f *files, name, data string, durable bool) vfs.File {
	t.Helper()
	file, err := f.Create(name)
	must(t, err)
	_, err = file.WriteAt([]byte(data), 0)
	must(t, err)
	if durable {
		must(t, file.Sync())
		must(t, f.SyncDir("."))
	}
	return file
}

// onDisk is what the real file holds.
func onDisk(t *testing.T, d *disk, name string) string {
	t.Helper()
	b, err := vfs.ReadFile(vfs.OS(d.path), name)
	must(t, err)
	return string(b)
}

func TestDiskConforms(t *testing.T) {
	vfstest.Run(t, func(t *testing.T) vfs.FS {
		_, f := openDisk(t)
		return f
	})
}

func TestFaultyDiskConforms(t *testing.T) {
	vfstest.Run(t, func(t *testing.T) vfs.FS {
		d, f := openDisk(t)
		d.obey()
		return f
	})
}

func TestProcessExitKeepsTheCache(t *testing.T) {
	d, f := openDisk(t)
	write(t, f, "a", "unsynced", false)
	d.crash(func(m *vfs.Mem) { m.Crash(vfs.ProcessExit, nil) })
	f.closeAll()
	if got := onDisk(t, d, "a"); got != "unsynced" {
		t.Fatalf("the file holds %q", got)
	}
	if s := d.differs(); s != "" {
		t.Fatal(s)
	}
}

func TestPowerLossTakesWhatIsNotSynced(t *testing.T) {
	d, f := openDisk(t)
	file := write(t, f, "a", "synced..", true)
	_, err := file.WriteAt([]byte("lost"), 8)
	must(t, err)
	write(t, f, "b", "never synced", false)
	d.crash(func(m *vfs.Mem) { m.Crash(vfs.PowerLoss, vfs.KeepNothing) })
	f.closeAll()
	must(t, d.materialise())
	if got := onDisk(t, d, "a"); got != "synced.." {
		t.Fatalf("a holds %q", got)
	}
	if _, err := vfs.OS(d.path).Stat("b"); err == nil {
		t.Fatal("b is still there")
	}
	if s := d.differs(); s != "" {
		t.Fatal(s)
	}
}

func TestAnEndedLifeDoesNothing(t *testing.T) {
	d, f := openDisk(t)
	file := write(t, f, "a", "before", true)
	lock, err := f.Lock("lock")
	must(t, err)
	d.crash(func(m *vfs.Mem) { m.Crash(vfs.ProcessExit, nil) })
	_, err = file.WriteAt([]byte("after!"), 0)
	for what, err := range map[string]error{"write": err, "sync": file.Sync(), "truncate": file.Truncate(0), "remove": f.Remove("a"),
		"rename": f.Rename("a", "b"), "sync of names": f.SyncDir(".")} {
		if !errors.Is(err, vfs.ErrStale) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := f.Create("c"); !errors.Is(err, vfs.ErrStale) {
		t.Errorf("create: %v", err)
	}
	if got := onDisk(t, d, "a"); got != "before" {
		t.Fatalf("the file holds %q", got)
	}
	f.closeAll()
	next := d.begin()
	defer next.closeAll()
	if lock, err := next.Lock("lock"); err != nil {
		t.Fatalf("the lock of a dead process: %v", err)
	} else {
		closeQuietly(lock)
	}
	closeQuietly(lock)
}

func TestRotShowsOnceTheCacheIsDropped(t *testing.T) {
	d, f := openDisk(t)
	file := write(t, f, "a", "good", true)
	must(t, d.shadow.Rot("a", 1, 0x20))
	read := func() string {
		b := make([]byte, 4)
		_, err := file.ReadAt(b, 0)
		must(t, err)
		return string(b)
	}
	if got := read(); got != "good" {
		t.Fatalf("the cache holds %q", got)
	}
	must(t, file.DropCache(0, 4))
	if got := read(); got != "gOod" || onDisk(t, d, "a") != "gOod" {
		t.Fatalf("read %q, the real file holds %q", got, onDisk(t, d, "a"))
	}
	if s := d.differs(); s != "" {
		t.Fatal(s)
	}
}

func TestUnreadableSector(t *testing.T) {
	d, f := openDisk(t)
	file := write(t, f, "a", "good", true)
	must(t, d.shadow.BadSector("a", 0))
	must(t, file.DropCache(0, 4))
	if _, err := file.ReadAt(make([]byte, 4), 0); !errors.Is(err, vfs.ErrIO) {
		t.Fatalf("read: %v", err)
	}
}

func TestFaultsOfTheShadowHappenForReal(t *testing.T) {
	d, f := openDisk(t)
	file := write(t, f, "a", "........", true)
	fault := &sim.Fault{Kind: sim.DiskEIO, Text: "write:a", Arg: 1}
	d.obey()
	d.damage.set(d.shadow, fault, true, prng.New(1))
	n, err := file.WriteAt([]byte("WRITTEN!"), 0)
	if !errors.Is(err, vfs.ErrIO) || n == 8 {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if want := "WRITTEN!"[:n] + "........"[n:]; onDisk(t, d, "a") != want {
		t.Fatalf("the file holds %q, want %q", onDisk(t, d, "a"), want)
	}
	d.damage.set(d.shadow, fault, false, prng.New(1))
	d.damage.set(d.shadow, &sim.Fault{Kind: sim.DiskSyncDrop}, true, prng.New(1))
	_, err = file.WriteAt([]byte("DROPPED!"), 0)
	must(t, err)
	if err := file.Sync(); !errors.Is(err, vfs.ErrIO) {
		t.Fatalf("sync: %v", err)
	}
	must(t, file.Sync())
	d.shadow.SetReadOnly(true)
	if _, err := file.WriteAt([]byte("x"), 0); !errors.Is(err, vfs.ErrReadOnly) {
		t.Fatalf("write: %v", err)
	}
	if s := d.differs(); s != "" {
		t.Fatal(s)
	}
}

func TestDifferencesAreFound(t *testing.T) {
	for name, tamper := range map[string]func(fsys vfs.FS) error{
		"byte": func(fsys vfs.FS) error {
			f, err := fsys.Open("dir/a")
			if err != nil {
				return err
			}
			_, err = f.WriteAt([]byte{'X'}, 1)
			return errors.Join(err, f.Close())
		},
		"size": func(fsys vfs.FS) error {
			f, err := fsys.Open("dir/a")
			if err != nil {
				return err
			}
			return errors.Join(f.Truncate(2), f.Close())
		},
		"missing": func(fsys vfs.FS) error { return fsys.Remove("dir/a") },
		"extra":   func(fsys vfs.FS) error { return fsys.MkdirAll("dir/b") },
		"kind": func(fsys vfs.FS) error {
			return errors.Join(fsys.Remove("dir/a"), fsys.MkdirAll("dir/a"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, f := openDisk(t)
			must(t, f.MkdirAll("dir"))
			write(t, f, "dir/a", "content", false)
			if s := d.differs(); s != "" {
				t.Fatal(s)
			}
			must(t, tamper(vfs.OS(d.path)))
			if d.differs() == "" {
				t.Fatal("not found")
			}
			must(t, d.materialise())
			if s := d.differs(); s != "" {
				t.Fatal(s)
			}
		})
	}
}
