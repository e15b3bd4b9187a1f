//go:build unix && !linux

package vfs

import "golang.org/x/sys/unix"

// datasync makes a file durable with the strongest call the system has (F_FULLFSYNC on
// darwin), which package os knows.
func (f *osFile) datasync() error { return f.f.Sync() }

// fallocate is not available in one form on these systems: the caller writes zeros.
func fallocate(int, int64) error { return unix.ENOSYS }

// dropCache has no counterpart here.
func dropCache(int, int64, int64) error { return unix.ENOSYS }
