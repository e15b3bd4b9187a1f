//go:build unix

package vfs

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func symlink(t *testing.T, to, at string) {
	t.Helper()
	must(t, os.Symlink(to, at))
}

func TestOSErrorMarks(t *testing.T) {
	for _, c := range []struct {
		errno syscall.Errno
		want  error
	}{{unix.ENOSPC, ErrNoSpace}, {unix.EDQUOT, ErrNoSpace}, {unix.EIO, ErrIO}, {unix.EROFS, ErrReadOnly}} {
		err := opError(OpWrite, "a", mapError(&fs.PathError{Op: "pwrite", Path: "a", Err: c.errno}))
		if !errors.Is(err, c.want) || !errors.Is(err, c.errno) {
			t.Errorf("%v became %v", c.errno, err)
		}
	}
	if err := mapError(unix.EACCES); errors.Is(err, ErrIO) || errors.Is(err, ErrNoSpace) {
		t.Errorf("EACCES became %v", err)
	}
}

// TestOSDeviceFull writes to the device that is always full.
func TestOSDeviceFull(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	f, err := OS("/dev").Open("full")
	must(t, err)
	defer f.Close()
	_, err = f.WriteAt([]byte("x"), 0)
	wantErr(t, "write", err, ErrNoSpace)
}

// TestOSZeroFill covers file systems without fallocate.
func TestOSZeroFill(t *testing.T) {
	fsys := OS(t.TempDir())
	f, err := fsys.Create("a")
	must(t, err)
	defer f.Close()
	write(t, f, 0, "abc")
	must(t, f.(*osFile).zeroFill(3<<20+7))
	got := content(t, fsys, "a")
	if len(got) != 3<<20+7 || got[:4] != "abc\x00" || got[3:] != fill(0, 3<<20+4) {
		t.Fatalf("%d bytes, %q", len(got), got[:4])
	}
}

func TestOSAllocateReserves(t *testing.T) {
	dir := t.TempDir()
	f, err := OS(dir).Create("a")
	must(t, err)
	defer f.Close()
	must(t, f.Allocate(1<<20))
	var st unix.Stat_t
	must(t, unix.Stat(dir+"/a", &st))
	if st.Blocks*512 < 1<<20 {
		t.Skipf("this file system reserved %d bytes only", st.Blocks*512)
	}
}

func TestOSRefusesSymlinksOut(t *testing.T) {
	dir := t.TempDir()
	fsys := OS(dir + "/root")
	_, err := fsys.List(".")
	wantErr(t, "missing root", err, fs.ErrNotExist)
	must(t, fsys.MkdirAll("."))
	symlink(t, dir, dir+"/root/out")
	if _, err := fsys.Create("out/escaped"); err == nil {
		t.Fatal("a symbolic link led out of the root")
	}
	if _, err := fsys.List("out"); err == nil {
		t.Fatal("a symbolic link led out of the root")
	}
}

// TestOSWritten: whatever is left out reads as zero, and nothing that was written is.
func TestOSWritten(t *testing.T) {
	fsys := OS(t.TempDir())
	f, err := fsys.Create("a")
	must(t, err)
	defer f.Close()
	sparse, ok := f.(Sparse)
	if !ok {
		t.Skip("files here do not know their holes")
	}
	const size = 1 << 20
	must(t, f.Allocate(size))
	for _, off := range []int64{70_000, 70_001, 400_000, size - 1} {
		write(t, f, off, "x")
	}
	for _, c := range []Range{{0, size}, {69_999, 70_001}, {70_001, 300_000}, {300_000, 400_000}, {500_000, size}, {size - 1, size}, {size, size}, {5, 5}} {
		list, err := sparse.Written(c.Off, c.End)
		must(t, err)
		at := c.Off
		for _, r := range list {
			if r.Off < at || r.End <= r.Off || r.End > c.End {
				t.Fatalf("%v: ranges %v", c, list)
			}
			wantZeros(t, fsys, at, r.Off)
			at = r.End
		}
		wantZeros(t, fsys, at, c.End)
	}
	_, err = sparse.Written(-1, 5)
	wantErr(t, "negative offset", err, fs.ErrInvalid)
}

func wantZeros(t *testing.T, fsys FS, off, end int64) {
	t.Helper()
	all := content(t, fsys, "a")
	for i := off; i < end; i++ {
		if all[i] != 0 {
			t.Fatalf("[%d, %d) is left out, byte %d is not zero", off, end, i)
		}
	}
}
