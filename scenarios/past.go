package scenarios

import (
	"fmt"
	"time"

	"lockstep/checker"
	"lockstep/internal/ha"
	"lockstep/sim"
	"lockstep/storage/vfs"
)

var _ checker.Past = (*Truth)(nil)

// past is a disk as it was just before a fault took it or what it cached.
type past struct {
	holder
	node  string
	disk  *vfs.Mem
	until int64 // 0: as long as the node is down
}

// pastGrace is how long after the node came up again acknowledgements of its
// earlier life may still arrive somewhere.
const pastGrace = int64(time.Second)

// keep remembers the disk of a broker that a fault is about to strike.
func (t *Truth) keep(node string) {
	id := t.ID(node)
	if id == 0 {
		return
	}
	t.before = append(t.before, &past{holder: holder{groupOf(node), id}, node: node, disk: t.disk(node).Clone()})
}

// pastLife lets go of a remembered disk some time after the node came up again.
func (t *Truth) pastLife(l sim.LifeChange, at int64) {
	if l.Phase != sim.Up {
		return
	}
	keep := t.before[:0]
	for _, p := range t.before {
		if p.node == l.Node && p.until == 0 {
			p.until = at + pastGrace
		}
		if p.until == 0 || p.until > at {
			keep = append(keep, p)
		}
	}
	t.before = keep
}

// Gone are the brokers whose disk or cache a fault took a short time ago.
func (t *Truth) Gone(group string) ha.IDs {
	var out ha.IDs
	for _, p := range t.before {
		if p.group == group && (p.until == 0 || p.until > t.now()) {
			out = append(out, p.id)
		}
	}
	return ha.NewIDs(out...)
}

// Before is what such a broker held just before.
func (t *Truth) Before(group string, b ha.BrokerID, off ha.LogOffset, n int) (durable, cached []byte) {
	seg := t.setup.SegmentBytes
	start := int64(off) / seg * seg
	name := fmt.Sprintf("commitlog/%020d", start)
	for _, p := range t.before {
		if p.group != group || p.id != b || p.until != 0 && p.until <= t.now() {
			continue
		}
		if raw, ok := p.disk.DurableAt(name, int64(off)-start, n); ok && len(raw) == n {
			durable = raw
		}
		if raw, ok := p.disk.CachedAt(name, int64(off)-start, n); ok && len(raw) == n {
			cached = raw
		}
	}
	return durable, cached
}

// forgotten says that the controllers lost their data: what they come to hold is
// another log.
func (t *Truth) forgotten() { clear(t.seen) }
