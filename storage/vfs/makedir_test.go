//go:build unix

package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestMakeDir: the name of every directory that was made is synced in its parent,
// the outermost first, and that of one that was there.
func TestMakeDir(t *testing.T) {
	top := t.TempDir()
	in := func(names ...string) (out []string) {
		for _, n := range names {
			out = append(out, filepath.Join(top, n))
		}
		return out
	}
	for _, c := range []struct {
		name, dir string
		fail      error
		want      []string
		err       error
	}{
		{"three", "a/b/c", nil, in("", "a", "a/b"), nil},
		{"again", "a/b/c", nil, in("a/b"), nil},
		{"there, in a directory that cannot be read", "a/b/c/", fs.ErrPermission, in("a/b"), nil},
		{"new, in a directory that cannot be read", "a/d", fs.ErrPermission, in("a"), fs.ErrPermission},
		{"there, but the disk fails", "a/b", fs.ErrInvalid, in("a"), fs.ErrInvalid},
	} {
		var synced []string
		err := makeDir(top+"/"+c.dir, func(dir string) error {
			synced = append(synced, dir)
			return c.fail
		})
		if !errors.Is(err, c.err) || !slices.Equal(synced, c.want) {
			t.Errorf("%s: %v, synced %q, want %v and %q", c.name, err, synced, c.err, c.want)
		}
		if s, err := os.Stat(filepath.Join(top, c.dir)); err != nil || !s.IsDir() {
			t.Errorf("%s: no directory: %v", c.name, err)
		}
	}
	if err := MakeDir(top + "/x/y"); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(top+"/file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := MakeDir(top + "/file/y"); err == nil {
		t.Error("a directory inside of a file")
	}
}
