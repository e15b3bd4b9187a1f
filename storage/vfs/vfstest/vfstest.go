// Package vfstest is the conformance suite of storage/vfs: what every FS must do, run
// alike on real files and on the crashable memory, so that what is proven on the
// one holds on the other.
package vfstest

import (
	"errors"
	"io"
	"io/fs"
	"slices"
	"sync"
	"testing"

	"lockstep/storage/vfs"
)

// Run runs the whole suite; open returns a fresh empty FS each time.
func Run(t *testing.T, open func(t *testing.T) vfs.FS) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, fsys vfs.FS)
	}{
		{"ReadWrite", readWrite},
		{"ReadPastEnd", readPastEnd},
		{"Holes", holes},
		{"Reopen", reopen},
		{"CreateEmpties", createEmpties},
		{"TruncateRegrow", truncateRegrow},
		{"TruncateRegrowSynced", truncateRegrowSynced},
		{"Allocate", allocate},
		{"RenameReplaces", renameReplaces},
		{"RenameAcross", renameAcross},
		{"RenameDirectory", renameDirectory},
		{"RemoveOpen", removeOpen},
		{"Directories", directories},
		{"ListOrder", listOrder},
		{"Stat", stat},
		{"Missing", missing},
		{"WrongKind", wrongKind},
		{"NamesStayInside", namesStayInside},
		{"NegativeOffsets", negativeOffsets},
		{"Closed", closed},
		{"Lock", lock},
		{"DropCache", dropCache},
		{"Usage", usage},
		{"Atomic", atomicFile},
		{"Concurrent", concurrent},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t *testing.T, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("%s: got error %v, want %v", what, err, target)
	}
}

func create(t *testing.T, fsys vfs.FS, name, data string) vfs.File {
	t.Helper()
	f, err := fsys.Create(name)
	must(t, err)
	n, err := f.WriteAt([]byte(data), 0)
	must(t, err)
	if n != len(data) {
		t.Fatalf("write of %d bytes returned %d", len(data), n)
	}
	return f
}

func put(t *testing.T, fsys vfs.FS, name, data string) {
	t.Helper()
	must(t, create(t, fsys, name, data).Close())
}

func wantFile(t *testing.T, fsys vfs.FS, name, want string) {
	t.Helper()
	got, err := vfs.ReadFile(fsys, name)
	must(t, err)
	if string(got) != want {
		t.Fatalf("%s holds %q, want %q", name, got, want)
	}
}

func wantSize(t *testing.T, f vfs.File, want int64) {
	t.Helper()
	if got, err := f.Size(); err != nil || got != want {
		t.Fatalf("size %d, %v; want %d", got, err, want)
	}
}

func readWrite(t *testing.T, fsys vfs.FS) {
	f := create(t, fsys, "a", "hello world")
	defer f.Close()
	_, err := f.WriteAt([]byte("W"), 6)
	must(t, err)
	_, err = f.WriteAt(nil, 1000) // writes nothing and so grows nothing
	must(t, err)
	wantSize(t, f, 11)
	p := make([]byte, 5)
	n, err := f.ReadAt(p, 6)
	if n != 5 || err != nil && err != io.EOF || string(p) != "World" {
		t.Fatalf("read %d %q %v", n, p, err)
	}
	// A run of odd-sized appends over several pages.
	var want []byte
	for i := range 40 {
		part := make([]byte, 317+i)
		for k := range part {
			part[k] = byte(i + 1)
		}
		_, err := f.WriteAt(part, int64(len(want)))
		must(t, err)
		must(t, f.Sync())
		want = append(want, part...)
	}
	wantFile(t, fsys, "a", string(want))
}

func readPastEnd(t *testing.T, fsys vfs.FS) {
	f := create(t, fsys, "a", "abc")
	defer f.Close()
	p := make([]byte, 5)
	if n, err := f.ReadAt(p, 1); n != 2 || err != io.EOF {
		t.Fatalf("read over the end: %d, %v; want 2, EOF", n, err)
	}
	if n, err := f.ReadAt(p, 3); n != 0 || err != io.EOF {
		t.Fatalf("read at the end: %d, %v; want 0, EOF", n, err)
	}
	if n, err := f.ReadAt(p, 1<<40); n != 0 || err != io.EOF {
		t.Fatalf("read far behind the end: %d, %v; want 0, EOF", n, err)
	}
	if n, err := f.ReadAt(nil, 0); n != 0 || err != nil {
		t.Fatalf("empty read: %d, %v", n, err)
	}
}

func holes(t *testing.T, fsys vfs.FS) {
	f := create(t, fsys, "a", "x")
	defer f.Close()
	_, err := f.WriteAt([]byte("y"), 10000)
	must(t, err)
	want := make([]byte, 10001)
	want[0], want[10000] = 'x', 'y'
	wantFile(t, fsys, "a", string(want))
}

func reopen(t *testing.T, fsys vfs.FS) {
	must(t, fsys.MkdirAll("d/e"))
	f := create(t, fsys, "d/e/a", "one")
	g, err := fsys.Open("d/e/a")
	must(t, err)
	_, err = f.WriteAt([]byte("two"), 3)
	must(t, err)
	wantSize(t, g, 6) // two handles see one file
	must(t, f.Sync())
	must(t, f.Close())
	must(t, g.Close())
	must(t, fsys.SyncDir("d/e"))
	wantFile(t, fsys, "d/e/a", "onetwo")
}

func createEmpties(t *testing.T, fsys vfs.FS) {
	f := create(t, fsys, "a", "old content")
	must(t, f.Sync())
	g, err := fsys.Create("a")
	must(t, err)
	wantSize(t, g, 0)
	wantSize(t, f, 0) // the same file, as O_TRUNC does
	must(t, f.Close())
	must(t, g.Close())
	wantFile(t, fsys, "a", "")
}

func truncateRegrow(t *testing.T, fsys vfs.FS) { regrow(t, fsys, false) }

func truncateRegrowSynced(t *testing.T, fsys vfs.FS) { regrow(t, fsys, true) }

func regrow(t *testing.T, fsys vfs.FS, synced bool) {
	data := make([]byte, 20000)
	for i := range data {
		data[i] = 'd'
	}
	f := create(t, fsys, "a", string(data))
	defer f.Close()
	sync := func() {
		if synced {
			must(t, f.Sync())
		}
	}
	sync()
	must(t, f.Truncate(5000))
	wantSize(t, f, 5000)
	sync()
	must(t, f.Truncate(9000))
	sync()
	_, err := f.WriteAt([]byte("end"), 15000)
	must(t, err)
	want := make([]byte, 15003)
	copy(want, data[:5000])
	copy(want[15000:], "end")
	wantFile(t, fsys, "a", string(want))
	must(t, f.Truncate(0))
	wantFile(t, fsys, "a", "")
}

func allocate(t *testing.T, fsys vfs.FS) {
	f := create(t, fsys, "a", "abc")
	defer f.Close()
	must(t, f.Allocate(1<<20))
	wantSize(t, f, 1<<20)
	must(t, f.Allocate(100)) // never shrinks
	wantSize(t, f, 1<<20)
	p := make([]byte, 4096)
	_, err := f.ReadAt(p, 0)
	must(t, err)
	if string(p[:4]) != "abc\x00" {
		t.Fatalf("allocate changed old bytes: %q", p[:4])
	}
	if _, err := f.ReadAt(p, 1<<20-4096); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	if slices.ContainsFunc(p, func(b byte) bool { return b != 0 }) {
		t.Fatal("allocated bytes are not zero")
	}
	_, err = f.WriteAt([]byte("tail"), 1<<20-4)
	must(t, err)
	must(t, f.Sync())
	wantSize(t, f, 1<<20)
}

func renameReplaces(t *testing.T, fsys vfs.FS) {
	put(t, fsys, "old", "1")
	put(t, fsys, "new", "2")
	must(t, fsys.Rename("old", "new"))
	wantFile(t, fsys, "new", "1")
	_, err := fsys.Open("old")
	wantErr(t, "open of the old name", err, fs.ErrNotExist)
	must(t, fsys.Rename("new", "new"))
	wantFile(t, fsys, "new", "1")
	wantErr(t, "rename of a missing file", fsys.Rename("old", "new"), fs.ErrNotExist)
	wantFile(t, fsys, "new", "1")
	wantErr(t, "rename into a missing directory", fsys.Rename("new", "d/x"), fs.ErrNotExist)
}

func renameAcross(t *testing.T, fsys vfs.FS) {
	must(t, fsys.MkdirAll("a"))
	must(t, fsys.MkdirAll("b/c"))
	f := create(t, fsys, "a/x", "data")
	must(t, fsys.Rename("a/x", "b/c/y"))
	_, err := f.WriteAt([]byte("D"), 0) // the handle follows the file
	must(t, err)
	must(t, f.Close())
	wantFile(t, fsys, "b/c/y", "Data")
	names, err := fsys.List("a")
	must(t, err)
	if len(names) != 0 {
		t.Fatalf("a still lists %v", names)
	}
}

func renameDirectory(t *testing.T, fsys vfs.FS) {
	must(t, fsys.MkdirAll("a/b"))
	put(t, fsys, "a/b/f", "1")
	must(t, fsys.Rename("a", "z"))
	wantFile(t, fsys, "z/b/f", "1")
	if err := fsys.Rename("z", "z/b/in"); err == nil {
		t.Fatal("a directory was moved into itself")
	}
	must(t, fsys.MkdirAll("full/x"))
	if err := fsys.Rename("z", "full"); err == nil {
		t.Fatal("a directory that is not empty was replaced")
	}
	put(t, fsys, "f", "")
	if err := fsys.Rename("z", "f"); err == nil {
		t.Fatal("a directory replaced a file")
	}
	if err := fsys.Rename("f", "z"); err == nil {
		t.Fatal("a file replaced a directory")
	}
}

func removeOpen(t *testing.T, fsys vfs.FS) {
	f := create(t, fsys, "a", "still here")
	must(t, fsys.Remove("a"))
	put(t, fsys, "a", "another")
	p := make([]byte, 5)
	_, err := f.ReadAt(p, 0)
	must(t, err)
	if string(p) != "still" {
		t.Fatalf("an open removed file reads %q", p)
	}
	must(t, f.Close())
	wantFile(t, fsys, "a", "another")
}

func directories(t *testing.T, fsys vfs.FS) {
	must(t, fsys.MkdirAll("a/b/c"))
	must(t, fsys.MkdirAll("a/b/c")) // again is fine
	must(t, fsys.MkdirAll("."))
	put(t, fsys, "a/f", "")
	if err := fsys.MkdirAll("a/f"); err == nil {
		t.Fatal("mkdir over a file succeeded")
	}
	if err := fsys.MkdirAll("a/f/g"); err == nil {
		t.Fatal("mkdir under a file succeeded")
	}
	if err := fsys.Remove("a/b"); err == nil {
		t.Fatal("a directory that is not empty was removed")
	}
	must(t, fsys.Remove("a/b/c"))
	must(t, fsys.Remove("a/b"))
	must(t, fsys.Remove("a/f"))
	names, err := fsys.List("a")
	must(t, err)
	if len(names) != 0 {
		t.Fatalf("an emptied directory lists %v", names)
	}
	must(t, fsys.SyncDir("a"))
	must(t, fsys.SyncDir("."))
	must(t, vfs.MkdirAllSync(fsys, "x/y/z"))
	must(t, fsys.SyncDir("x/y/z"))
}

func listOrder(t *testing.T, fsys vfs.FS) {
	for _, n := range []string{"b", "a", "c10", "c9", "B", "a.tmp"} {
		put(t, fsys, n, "")
	}
	must(t, fsys.MkdirAll("aa/inner"))
	want := []string{"B", "a", "a.tmp", "aa", "b", "c10", "c9"}
	for _, root := range []string{".", ""} {
		got, err := fsys.List(root)
		must(t, err)
		if !slices.Equal(got, want) {
			t.Fatalf("list %q: %v, want %v", root, got, want)
		}
	}
}

func stat(t *testing.T, fsys vfs.FS) {
	must(t, fsys.MkdirAll("d"))
	put(t, fsys, "d/f", "12345")
	info, err := fsys.Stat("d/f")
	must(t, err)
	if info.Name() != "f" || info.Size() != 5 || info.IsDir() || !info.Mode().IsRegular() {
		t.Fatalf("stat of a file: %v %v %v", info.Name(), info.Size(), info.Mode())
	}
	info, err = fsys.Stat("d")
	must(t, err)
	if info.Name() != "d" || !info.IsDir() || !info.Mode().IsDir() {
		t.Fatalf("stat of a directory: %v %v", info.Name(), info.Mode())
	}
	if ok, err := vfs.Exists(fsys, "d/f"); !ok || err != nil {
		t.Fatalf("exists: %v %v", ok, err)
	}
	if ok, err := vfs.Exists(fsys, "d/g"); ok || err != nil {
		t.Fatalf("exists of a missing name: %v %v", ok, err)
	}
}

func missing(t *testing.T, fsys vfs.FS) {
	_, err := fsys.Open("no")
	wantErr(t, "open", err, fs.ErrNotExist)
	_, err = fsys.Create("no/file")
	wantErr(t, "create", err, fs.ErrNotExist)
	_, err = fsys.Stat("no")
	wantErr(t, "stat", err, fs.ErrNotExist)
	_, err = fsys.List("no")
	wantErr(t, "list", err, fs.ErrNotExist)
	wantErr(t, "remove", fsys.Remove("no"), fs.ErrNotExist)
	wantErr(t, "syncdir", fsys.SyncDir("no"), fs.ErrNotExist)
	_, err = fsys.Lock("no/lock")
	wantErr(t, "lock", err, fs.ErrNotExist)
	_, err = fsys.Usage("no")
	wantErr(t, "usage", err, fs.ErrNotExist)
	_, err = vfs.ReadFile(fsys, "no")
	wantErr(t, "read file", err, fs.ErrNotExist)
}

func wrongKind(t *testing.T, fsys vfs.FS) {
	must(t, fsys.MkdirAll("d"))
	put(t, fsys, "f", "")
	calls := map[string]func() error{
		"open a directory":       func() error { _, err := fsys.Open("d"); return err },
		"create over one":        func() error { _, err := fsys.Create("d"); return err },
		"lock one":               func() error { _, err := fsys.Lock("d"); return err },
		"list a file":            func() error { _, err := fsys.List("f"); return err },
		"sync a file's names":    func() error { return fsys.SyncDir("f") },
		"open below a file":      func() error { _, err := fsys.Open("f/x"); return err },
		"create below a file":    func() error { _, err := fsys.Create("f/x"); return err },
		"remove the root":        func() error { return fsys.Remove(".") },
		"create the root":        func() error { _, err := fsys.Create("."); return err },
		"rename onto the root":   func() error { return fsys.Rename("f", ".") },
		"rename the root":        func() error { return fsys.Rename(".", "g") },
		"remove below a file":    func() error { return fsys.Remove("f/x") },
		"rename to below a file": func() error { return fsys.Rename("d", "f/x") },
	}
	for name, call := range calls {
		if call() == nil {
			t.Errorf("%s succeeded", name)
		}
	}
	wantFile(t, fsys, "f", "")
}

func namesStayInside(t *testing.T, fsys vfs.FS) {
	put(t, fsys, "f", "")
	for _, name := range []string{"..", "../x", "/etc/passwd", "a/../../x", "a//b", "a/", "./a", "a\x00b"} {
		_, err := fsys.Open(name)
		wantErr(t, "open "+name, err, fs.ErrInvalid)
		_, err = fsys.Create(name)
		wantErr(t, "create "+name, err, fs.ErrInvalid)
		wantErr(t, "remove "+name, fsys.Remove(name), fs.ErrInvalid)
		wantErr(t, "mkdir "+name, fsys.MkdirAll(name), fs.ErrInvalid)
		wantErr(t, "rename to "+name, fsys.Rename("f", name), fs.ErrInvalid)
		wantErr(t, "rename from "+name, fsys.Rename(name, "f"), fs.ErrInvalid)
		_, err = fsys.Lock(name)
		wantErr(t, "lock "+name, err, fs.ErrInvalid)
		_, err = fsys.List(name)
		wantErr(t, "list "+name, err, fs.ErrInvalid)
		_, err = fsys.Stat(name)
		wantErr(t, "stat "+name, err, fs.ErrInvalid)
		_, err = fsys.Usage(name)
		wantErr(t, "usage "+name, err, fs.ErrInvalid)
		wantErr(t, "syncdir "+name, fsys.SyncDir(name), fs.ErrInvalid)
	}
}

func negativeOffsets(t *testing.T, fsys vfs.FS) {
	f := create(t, fsys, "a", "abc")
	defer f.Close()
	_, err := f.ReadAt(make([]byte, 1), -1)
	wantErr(t, "read", err, fs.ErrInvalid)
	_, err = f.WriteAt([]byte("x"), -1)
	wantErr(t, "write", err, fs.ErrInvalid)
	wantErr(t, "truncate", f.Truncate(-1), fs.ErrInvalid)
	wantErr(t, "allocate", f.Allocate(-1), fs.ErrInvalid)
	wantErr(t, "dropcache", f.DropCache(-1, 1), fs.ErrInvalid)
	wantFile(t, fsys, "a", "abc")
}

func closed(t *testing.T, fsys vfs.FS) {
	f := create(t, fsys, "a", "abc")
	must(t, f.Close())
	wantErr(t, "second close", f.Close(), fs.ErrClosed)
	_, err := f.ReadAt(make([]byte, 1), 0)
	wantErr(t, "read", err, fs.ErrClosed)
	_, err = f.WriteAt([]byte("x"), 0)
	wantErr(t, "write", err, fs.ErrClosed)
	wantErr(t, "sync", f.Sync(), fs.ErrClosed)
	wantErr(t, "truncate", f.Truncate(0), fs.ErrClosed)
	wantErr(t, "allocate", f.Allocate(10), fs.ErrClosed)
	_, err = f.Size()
	wantErr(t, "size", err, fs.ErrClosed)
	wantErr(t, "dropcache", f.DropCache(0, 10), fs.ErrClosed)
}

func lock(t *testing.T, fsys vfs.FS) {
	l, err := fsys.Lock("lock")
	must(t, err)
	_, err = fsys.Lock("lock")
	wantErr(t, "second lock", err, vfs.ErrLocked)
	other, err := fsys.Lock("other")
	must(t, err)
	must(t, l.Close())
	wantErr(t, "second close", l.Close(), fs.ErrClosed)
	l, err = fsys.Lock("lock")
	must(t, err)
	must(t, l.Close())
	must(t, other.Close())
	// The lock file is a file and keeps what others wrote in it.
	put(t, fsys, "pid", "42")
	l, err = fsys.Lock("pid")
	must(t, err)
	wantFile(t, fsys, "pid", "42")
	must(t, l.Close())
}

func dropCache(t *testing.T, fsys vfs.FS) {
	data := make([]byte, 3*4096)
	for i := range data {
		data[i] = byte(i)
	}
	f := create(t, fsys, "a", string(data))
	defer f.Close()
	must(t, f.DropCache(0, int64(len(data)))) // dirty pages stay
	wantFile(t, fsys, "a", string(data))
	must(t, f.Sync())
	must(t, f.DropCache(0, int64(len(data))))
	must(t, f.DropCache(0, 0))
	must(t, f.DropCache(1<<30, 10))
	wantFile(t, fsys, "a", string(data))
}

func usage(t *testing.T, fsys vfs.FS) {
	u, err := fsys.Usage(".")
	must(t, err)
	if u.Total <= 0 || u.Free < 0 || u.Free > u.Total {
		t.Fatalf("usage %+v", u)
	}
}

func atomicFile(t *testing.T, fsys vfs.FS) {
	must(t, fsys.MkdirAll("d"))
	for _, data := range []string{"first", "", "a longer third content"} {
		must(t, vfs.WriteAtomic(fsys, "d/f", []byte(data)))
		wantFile(t, fsys, "d/f", data)
	}
	put(t, fsys, "d/f.tmp", "left over by a crash, and longer than what comes next")
	must(t, vfs.WriteAtomic(fsys, "d/f", []byte("x")))
	wantFile(t, fsys, "d/f", "x")
	names, err := fsys.List("d")
	must(t, err)
	if !slices.Equal(names, []string{"f"}) {
		t.Fatalf("left behind: %v", names)
	}
	wantErr(t, "into a missing directory", vfs.WriteAtomic(fsys, "no/f", nil), fs.ErrNotExist)
}

// concurrent is for the race detector: lanes use one file at once.
func concurrent(t *testing.T, fsys vfs.FS) {
	f := create(t, fsys, "a", "")
	defer f.Close()
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			part := make([]byte, 700)
			for i := range part {
				part[i] = byte(w + 1)
			}
			for i := range 20 {
				if _, err := f.WriteAt(part, int64((i*4+w)*len(part))); err != nil {
					t.Error(err)
				}
				if err := f.Sync(); err != nil {
					t.Error(err)
				}
				if _, err := f.ReadAt(make([]byte, 700), int64((i*4+w)*len(part))); err != nil && err != io.EOF {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got, err := vfs.ReadFile(fsys, "a")
	must(t, err)
	if len(got) != 80*700 {
		t.Fatalf("%d bytes", len(got))
	}
	for i, b := range got {
		if want := byte(i/700%4 + 1); b != want {
			t.Fatalf("byte %d is %d, want %d", i, b, want)
		}
	}
}
