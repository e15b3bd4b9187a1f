package sim

import (
	"slices"
	"strings"

	"lockstep/internal/decide"
	"lockstep/internal/prng"
	"lockstep/storage/vfs"
)

// The sites of disk faults.
var (
	siteSyncPages = decide.NewSite("disk.sync-pages", "", 1<<20, 0)
	siteShort     = decide.NewSite("disk.short", "B", 0, 1<<24)
	siteRot       = decide.NewSite("disk.rot", "", 0, 1<<30)
)

// damage is what faults presently do to a node's file operations.
type damage struct {
	w      *World
	n      *host
	active []*diskFault
}

// diskFault is one active fault and how often it has hit.
type diskFault struct {
	fault *Fault
	hits  int64
}

// applyDisk starts or ends a fault of the node's disk.
func (w *World) applyDisk(n *host, f *Fault, on bool) {
	switch f.Kind {
	case DiskSlow:
		n.diskTimes = scale(n.diskTimes, f.Arg, on)
	case DiskStall:
		w.stall(n, on)
	case DiskReadOnly:
		n.disk.SetReadOnly(on)
	case DiskFull:
		size := w.opts.DiskBytes
		if u, err := n.disk.Usage("."); on && err == nil {
			size = u.Total - u.Free + f.Arg
		}
		n.disk.SetCapacity(size)
	case DiskRot:
		if on {
			w.rot(n, f)
		}
	default:
		n.damage.set(f, on)
	}
}

// set adds or removes an active fault.
func (d *damage) set(f *Fault, on bool) {
	if on {
		d.active = append(d.active, &diskFault{fault: f})
	} else {
		d.active = slices.DeleteFunc(d.active, func(x *diskFault) bool { return x.fault == f })
	}
	if len(d.active) == 0 {
		d.n.disk.SetFaults(nil)
		return
	}
	d.n.disk.SetFaults(d)
}

// Fault answers the disk before each file operation.
func (d *damage) Fault(op vfs.Op) vfs.Fault {
	for _, x := range d.active {
		f := x.fault
		switch f.Kind {
		case DiskEIO:
			if !matchOp(f.Text, op) || f.Arg > 0 && x.hits >= f.Arg {
				continue
			}
			x.hits++
			return vfs.Fault{Err: vfs.ErrIO, Done: d.short(op)}
		case DiskSyncDrop:
			if op.Kind != vfs.OpSync || x.hits >= max(f.Arg, 1) || !strings.Contains(op.Name, f.Text) {
				continue
			}
			x.hits++
			pages := d.w.decider.Decide(siteSyncPages, d.key(op), decide.Dist{Lo: 0, Hi: 8})
			return vfs.Fault{Err: vfs.ErrIO, Drop: true, Pages: int(pages)}
		case DiskLies:
			if op.Kind == vfs.OpSync || op.Kind == vfs.OpSyncDir {
				return vfs.Fault{Lie: true}
			}
		}
	}
	return vfs.Fault{}
}

// key names a file operation by file, kind and offset.
func (d *damage) key(op vfs.Op) decide.Key {
	return d.n.key(int32(op.Kind), int64(prng.Hash(prng.HashString(op.Name), uint64(op.Off))>>1))
}

// short draws how much of a failing read or write happened.
func (d *damage) short(op vfs.Op) int {
	if op.Len == 0 {
		return 0
	}
	return int(d.w.decider.Decide(siteShort, d.key(op), decide.Dist{Lo: 0, Hi: int64(op.Len) - 1}))
}

// matchOp reports whether text, "class:substring" or a substring of the file
// name alone, selects the operation. Classes: read, write, sync.
func matchOp(text string, op vfs.Op) bool {
	class, name, found := strings.Cut(text, ":")
	if !found {
		class, name = "", text
	}
	var ok bool
	switch op.Kind {
	case vfs.OpRead:
		ok = class == "" || class == "read"
	case vfs.OpWrite, vfs.OpAllocate, vfs.OpTruncate, vfs.OpCreate, vfs.OpRename, vfs.OpRemove:
		ok = class == "" || class == "write"
	case vfs.OpSync, vfs.OpSyncDir:
		ok = class == "" || class == "sync"
	}
	return ok && strings.Contains(op.Name, name)
}

// rot changes durable bytes of the node's files.
func (w *World) rot(n *host, f *Fault) {
	files := w.files(n, ".", f.Text)
	for i := range max(f.Arg, 1) {
		if len(files) == 0 {
			f.Refused = "no file to rot"
			return
		}
		k := n.key(0, i)
		bits := w.decider.Bits(siteRot, k)
		w.decider.Decide(siteRot, k, decide.Dist{Lo: int64(bits >> 34), Hi: int64(bits >> 34)})
		name := files[bits%uint64(len(files))]
		off, ok := n.disk.PickDurable(name, 0, bits)
		if !ok {
			f.Refused = "no durable byte in " + name
			continue
		}
		if err := n.disk.Rot(name, off, byte(1)<<(bits>>20&7)); err != nil {
			f.Refused = err.Error()
		}
	}
}

// files lists the node's files whose name contains text, in ascending order.
func (w *World) files(n *host, dir, text string) []string {
	names, err := n.disk.List(dir)
	if err != nil {
		return nil
	}
	var out []string
	for _, name := range names {
		path := name
		if dir != "." {
			path = dir + "/" + name
		}
		info, err := n.disk.Stat(path)
		switch {
		case err != nil:
		case info.IsDir():
			out = append(out, w.files(n, path, text)...)
		case strings.Contains(path, text):
			out = append(out, path)
		}
	}
	return out
}
