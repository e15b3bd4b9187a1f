package live

import (
	"slices"
	"strings"
	"sync"

	"lockstep/internal/prng"
	"lockstep/sim"
	"lockstep/storage/vfs"
)

// damage is what faults presently do to a node's file operations.
type damage struct {
	mu     sync.Mutex
	rnd    *prng.Source
	active []*struck
}

// struck is one active fault and how often it has hit.
type struck struct {
	fault *sim.Fault
	hits  int64
}

// set adds or removes an active fault.
func (d *damage) set(m *vfs.Mem, f *sim.Fault, on bool, rnd *prng.Source) {
	d.mu.Lock()
	d.rnd = rnd
	if on {
		d.active = append(d.active, &struck{fault: f})
	} else {
		d.active = slices.DeleteFunc(d.active, func(x *struck) bool { return x.fault == f })
	}
	none := len(d.active) == 0
	d.mu.Unlock()
	if none {
		m.SetFaults(nil)
		return
	}
	m.SetFaults(d)
}

// Fault answers the shadow before each file operation.
func (d *damage) Fault(op vfs.Op) vfs.Fault {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, x := range d.active {
		f := x.fault
		switch {
		case f.Kind == sim.DiskEIO && matches(f.Text, op) && (f.Arg == 0 || x.hits < f.Arg):
			x.hits++
			return vfs.Fault{Err: vfs.ErrIO, Done: d.rnd.Intn(max(op.Len, 1))}
		case f.Kind == sim.DiskSyncDrop && op.Kind == vfs.OpSync && x.hits < max(f.Arg, 1) && strings.Contains(op.Name, f.Text):
			x.hits++
			return vfs.Fault{Err: vfs.ErrIO, Drop: true, Pages: d.rnd.Intn(9)}
		case f.Kind == sim.DiskLies && (op.Kind == vfs.OpSync || op.Kind == vfs.OpSyncDir):
			return vfs.Fault{Lie: true}
		}
	}
	return vfs.Fault{}
}

// matches reports whether text, "class:substring" or a substring of the name alone,
// selects the operation. Classes: read, write, sync.
func matches(text string, op vfs.Op) bool {
	class, name, found := strings.Cut(text, ":")
	if !found {
		class, name = "", text
	}
	kind := ""
	switch op.Kind {
	case vfs.OpRead:
		kind = "read"
	case vfs.OpWrite, vfs.OpAllocate, vfs.OpTruncate, vfs.OpCreate, vfs.OpRename, vfs.OpRemove:
		kind = "write"
	case vfs.OpSync, vfs.OpSyncDir:
		kind = "sync"
	}
	return kind != "" && (class == "" || class == kind) && strings.Contains(op.Name, name)
}
