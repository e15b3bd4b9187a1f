package raftstore

import pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

// PebbleDisk is a disk in memory for Pebble stores that can lose what was not
// synced: drills and tests open a store on it, crash it and open it again.
type PebbleDisk struct{ files *pebblevfs.MemFS }

// NewPebbleDisk returns an empty disk.
func NewPebbleDisk() PebbleDisk { return PebbleDisk{pebblevfs.NewCrashableMem()} }

// Open opens or creates the store on the disk.
func (d PebbleDisk) Open(o Options) (Store, Recovered, error) {
	return wrap(OpenPebble("db", d.files, o))
}

// Crash is the disk as a power loss now would leave it: only what was synced. The
// store that is open on d goes on with d alone.
func (d PebbleDisk) Crash() PebbleDisk {
	return PebbleDisk{d.files.CrashClone(pebblevfs.CrashCloneCfg{})}
}
