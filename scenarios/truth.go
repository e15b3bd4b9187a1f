package scenarios

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lockstep/checker"
	"lockstep/internal/ha"
	"lockstep/node/controller"
	"lockstep/storage/vfs"
)

// Truth looks at the simulated disks and at the committed controller record: it
// is what the ledger compares the product's words with.
type Truth struct {
	setup  *Setup
	disk   func(node string) *vfs.Mem
	up     func(node string) bool
	record func(group string) (controller.Record, bool) // of the controller that applied most

	ids  map[string]ha.BrokerID // node → id, read from the node's own disk
	sets map[string]map[ha.MasterEpoch]ha.IDs
	last map[string]controller.Record
}

var _ checker.Truth = (*Truth)(nil)

func newTruth(s *Setup) *Truth {
	return &Truth{setup: s, ids: map[string]ha.BrokerID{}, sets: map[string]map[ha.MasterEpoch]ha.IDs{}, last: map[string]controller.Record{}}
}

// groupIndex is the index of a group by its name.
func groupIndex(group string) int { return int(group[len(group)-1] - 'a') }

// ID is the broker id in the node's identity file, 0 while it has none.
func (t *Truth) ID(node string) ha.BrokerID {
	if id := t.ids[node]; id != 0 {
		return id
	}
	raw, ok := t.disk(node).CachedAt("brokerIdentity", 0, 256)
	if !ok {
		return 0
	}
	parts := strings.Split(strings.TrimSpace(strings.TrimRight(string(raw), "\x00")), "#")
	if len(parts) < 3 {
		return 0
	}
	n, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil {
		return 0
	}
	t.ids[node] = ha.BrokerID(n)
	return t.ids[node]
}

// forget drops what was known of a node whose disk was replaced.
func (t *Truth) forget(node string) { delete(t.ids, node) }

// Node is the node that holds the broker id of the group; "" when none does.
func (t *Truth) Node(group string, b ha.BrokerID) string {
	g := groupIndex(group)
	for i := range t.setup.Replicas {
		if t.ID(BrokerNode(g, i)) == b {
			return BrokerNode(g, i)
		}
	}
	return ""
}

type reader func(m *vfs.Mem, name string, off int64, n int) ([]byte, bool)

func (t *Truth) log(group string, b ha.BrokerID, off ha.LogOffset, n int, read reader) []byte {
	node := t.Node(group, b)
	if node == "" {
		return nil
	}
	seg := t.setup.SegmentBytes
	start := int64(off) / seg * seg
	raw, ok := read(t.disk(node), fmt.Sprintf("commitlog/%020d", start), int64(off)-start, n)
	if !ok || len(raw) < n {
		return nil
	}
	return raw
}

// Cached is what the broker's operating system would read now.
func (t *Truth) Cached(group string, b ha.BrokerID, off ha.LogOffset, n int) []byte {
	return t.log(group, b, off, n, (*vfs.Mem).CachedAt)
}

// Durable is what a power loss now would leave.
func (t *Truth) Durable(group string, b ha.BrokerID, off ha.LogOffset, n int) []byte {
	return t.log(group, b, off, n, (*vfs.Mem).DurableAt)
}

// MinOffset is the start of the oldest segment on the broker's disk.
func (t *Truth) MinOffset(group string, b ha.BrokerID) ha.LogOffset {
	node := t.Node(group, b)
	if node == "" {
		return 0
	}
	names, err := t.disk(node).List("commitlog")
	if err != nil || len(names) == 0 {
		return 0
	}
	n, err := strconv.ParseInt(names[0], 10, 64)
	if err != nil {
		return 0
	}
	return ha.LogOffset(n)
}

// refresh takes the committed record of a group and remembers its set by epoch.
func (t *Truth) refresh(group string) controller.Record {
	rec, ok := t.record(group)
	if !ok {
		return t.last[group]
	}
	old := t.last[group]
	if rec.SetEpoch < old.SetEpoch {
		return old
	}
	t.last[group] = rec
	if rec.Epoch > 0 {
		if t.sets[group] == nil {
			t.sets[group] = map[ha.MasterEpoch]ha.IDs{}
		}
		t.sets[group][rec.Epoch] = slices.Clone(rec.Set)
	}
	return rec
}

// Set is the newest committed set of the epoch.
func (t *Truth) Set(group string, epoch ha.MasterEpoch) ha.IDs {
	t.refresh(group)
	return t.sets[group][epoch]
}

// Newest is the epoch in force and its set.
func (t *Truth) Newest(group string) (ha.MasterEpoch, ha.IDs) {
	rec := t.refresh(group)
	return rec.Epoch, rec.Set
}

// Brokers are the ids of the group's replicas.
func (t *Truth) Brokers(group string) ha.IDs {
	var out ha.IDs
	for i := range t.setup.Replicas {
		if id := t.ID(BrokerNode(groupIndex(group), i)); id != 0 {
			out = append(out, id)
		}
	}
	return ha.NewIDs(out...)
}

// Electable are the replicas that are up and that the committed record allows.
func (t *Truth) Electable(group string) ha.IDs {
	rec := t.refresh(group)
	var out ha.IDs
	for i := range rec.Members {
		m := &rec.Members[i]
		in := rec.Set.Has(m.ID) || rec.Retained.Has(m.ID)
		if in && m.Electable && t.up(t.Node(group, m.ID)) {
			out = append(out, m.ID)
		}
	}
	return ha.NewIDs(out...)
}
