package vfstest

import (
	"testing"

	"lockstep/storage/vfs"
)

func TestOS(t *testing.T) {
	Run(t, func(t *testing.T) vfs.FS { return vfs.OS(t.TempDir()) })
}

func TestMem(t *testing.T) {
	Run(t, func(*testing.T) vfs.FS { return vfs.NewMem(vfs.MemOptions{}) })
}
