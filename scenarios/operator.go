package scenarios

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"lockstep/sim"
	"lockstep/storage"
	"lockstep/storage/vfs"
)

// What operators do to disks. They take the disk out of the node: no fault that is
// under way there, and no crash that waits for the node's next file operation, has a
// part in what they read and write.

// disk is the disk of a node; an empty one for "", which is what a role is that
// nobody plays.
func (r *Run) disk(node string) *vfs.Mem {
	if node == "" {
		return vfs.NewMem(vfs.MemOptions{})
	}
	return r.World.Node(node).Disk()
}

// lost tells ledger and truth that an operator or fault replaced what a broker's
// disk held.
func (r *Run) lost(node, why string) {
	r.Truth.keep(node)
	r.Judge.Ledger.StoreLost(groupOf(node), r.idOf(node), why)
	r.Judge.Timeline = append(r.Judge.Timeline, TimelineEntry{At: seconds(r.World.Now()), What: why + " " + node})
	r.Truth.forget(node)
}

// restore puts an image back on a node that is down.
func (r *Run) restore(node string, img *vfs.Image) {
	r.lost(node, "an older backup is restored on")
	r.disk(node).Restore(img)
}

// replaceDisk is the operator who gives a node an empty disk and starts it.
func (r *Run) replaceDisk(node string) {
	r.strike(sim.WipeDisk, 500*time.Millisecond, node)
}

// rewipe gives a node that holds an identity an empty disk with the identity file put
// back: the same broker id, another store. A node without one cannot play this part.
func (r *Run) rewipe(node string, lasts time.Duration) {
	img, err := emptyBut(r.disk(node), storage.NameIdentity)
	if err != nil {
		r.fail("plan", "stale", "keep the identity of %s: %v", node, err)
		return
	}
	if r.strike(sim.WipeDisk, lasts, node).Fired > 0 {
		r.disk(node).Restore(img)
	}
}

// reinstall gives a node an empty disk and keeps its identity if there is one to keep:
// a replica whose disk was lost before it had registered again comes as a new one.
func (r *Run) reinstall(node string, lasts time.Duration) {
	if _, err := emptyBut(r.disk(node), storage.NameIdentity); errors.Is(err, fs.ErrNotExist) {
		r.mark("joined as a new broker")
		r.strike(sim.WipeDisk, lasts, node)
		return
	}
	r.rewipe(node, lasts)
}

// emptyBut is the image of an empty disk that keeps some files of another.
func emptyBut(old *vfs.Mem, names ...string) (*vfs.Image, error) {
	old, disk := old.Clone(), vfs.NewMem(vfs.MemOptions{})
	for _, name := range names {
		raw, err := vfs.ReadFile(old, name)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if err := vfs.WriteAtomic(disk, name, raw); err != nil {
			return nil, fmt.Errorf("write %s: %w", name, err)
		}
	}
	return disk.Snapshot(), nil
}

// withFile is an image in which one file is as another disk has it.
func withFile(img *vfs.Image, from *vfs.Mem, name string) (*vfs.Image, error) {
	raw, err := vfs.ReadFile(from.Clone(), name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	disk := vfs.NewMem(vfs.MemOptions{})
	disk.Restore(img)
	if err := vfs.WriteAtomic(disk, name, raw); err != nil {
		return nil, fmt.Errorf("write %s: %w", name, err)
	}
	return disk.Snapshot(), nil
}
