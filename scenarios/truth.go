package scenarios

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockstep/checker"
	"lockstep/internal/ha"
	"lockstep/node/controller"
	"lockstep/sim"
	"lockstep/storage/vfs"
)

// Truth looks at the simulated disks and at the committed controller record: it
// is what the ledger compares the product's words with.
type Truth struct {
	setup *Setup
	disk  func(node string) *vfs.Mem
	up    func(node string) bool
	// committed is the running controller that applied most of the log, and how far.
	committed func() (*controller.Controller, uint64)

	now      func() int64
	unwell   map[*sim.Fault]bool // faults under way that keep nodes from the controllers
	wellFrom map[string]int64    // node → since when none has touched it and it runs

	before []*past         // disks as they were before faults that were a short time ago
	liars  map[string]bool // nodes whose disk said "synced" and did not
	lying  map[string]int  // how many faults make them lie now

	ids   map[string]ha.BrokerID // node → id, read from the node's own disk
	at    map[string][]seat      // by group, the other way round: a place an id
	all   map[string]ha.IDs      // by group, once every replica has its id
	sets  map[string]map[ha.MasterEpoch]ha.IDs
	last  map[string]controller.Record
	seen  map[string]uint64 // log index that last covers
	files map[int64]string  // names of segments by their start
}

var _ checker.Truth = (*Truth)(nil)

func newTruth(s *Setup) *Truth {
	return &Truth{setup: s, ids: map[string]ha.BrokerID{}, at: map[string][]seat{}, all: map[string]ha.IDs{}, sets: map[string]map[ha.MasterEpoch]ha.IDs{}, last: map[string]controller.Record{}, seen: map[string]uint64{}, files: map[int64]string{},
		unwell: map[*sim.Fault]bool{}, wellFrom: map[string]int64{}, liars: map[string]bool{}, lying: map[string]int{}}
}

// groupIndex is the index of a group by its name.
func groupIndex(group string) int { return int(group[len(group)-1] - 'a') }

// ID is the broker id in the node's identity file, 0 while it has none.
func (t *Truth) ID(node string) ha.BrokerID {
	if id := t.ids[node]; id != 0 {
		return id
	}
	raw, err := vfs.ReadFile(t.disk(node), "brokerIdentity")
	if err != nil {
		return 0
	}
	parts := strings.Split(strings.TrimSpace(string(raw)), "#")
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

// holder names a broker of a group.
type holder struct {
	group string
	id    ha.BrokerID
}

// seat is the node of a broker id, and its disk.
type seat struct {
	node string
	disk *vfs.Mem
}

// maxPlaces bounds the ids that are remembered; others are looked for.
const maxPlaces = 64

// forget drops what was known of a node whose disk was replaced.
func (t *Truth) forget(node string) {
	delete(t.ids, node)
	t.liars[node] = t.lying[node] > 0
	clear(t.at)
	clear(t.all)
}

// Node is the node that holds the broker id of the group; "" when none does.
func (t *Truth) Node(group string, b ha.BrokerID) string { return t.seat(group, b).node }

// seat finds who holds the broker id; nobody when no node does.
func (t *Truth) seat(group string, b ha.BrokerID) seat {
	places := t.at[group]
	if b >= 0 && int(b) < len(places) && places[b].node != "" {
		return places[b]
	}
	g := groupIndex(group)
	for i := range t.setup.Replicas {
		n := BrokerNode(g, i)
		if t.ID(n) != b {
			continue
		}
		h := seat{n, t.disk(n)}
		if b >= 0 && b < maxPlaces {
			if len(places) == 0 {
				places = make([]seat, maxPlaces)
				t.at[group] = places
			}
			places[b] = h
		}
		return h
	}
	return seat{}
}

type reader func(m *vfs.Mem, name string, off int64, n int) ([]byte, bool)

func (t *Truth) log(group string, b ha.BrokerID, off ha.LogOffset, n int, read reader) []byte {
	h := t.seat(group, b)
	if h.node == "" {
		return nil
	}
	seg := t.setup.SegmentBytes
	start := int64(off) / seg * seg
	raw, ok := read(h.disk, t.segment(start), int64(off)-start, n)
	if !ok || len(raw) < n {
		return nil
	}
	return raw
}

// segment is the file name of the segment that starts at an offset.
func (t *Truth) segment(start int64) string {
	name := t.files[start]
	if name == "" {
		name = fmt.Sprintf("commitlog/%020d", start)
		t.files[start] = name
	}
	return name
}

// Cached is what the broker's operating system would read now.
func (t *Truth) Cached(group string, b ha.BrokerID, off ha.LogOffset, n int) []byte {
	return t.log(group, b, off, n, (*vfs.Mem).CachedAt)
}

// Durable is what a power loss now would leave.
func (t *Truth) Durable(group string, b ha.BrokerID, off ha.LogOffset, n int) []byte {
	if len(t.liars) > 0 && t.liars[t.Node(group, b)] { // nobody above the device can tell
		return t.Cached(group, b, off, n)
	}
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
	c, index := t.committed()
	old := t.last[group]
	if c == nil || index <= t.seen[group] {
		return old
	}
	rec, ok := c.Record(group)
	if !ok || rec.Epoch < old.Epoch || rec.Epoch == old.Epoch && rec.SetEpoch < old.SetEpoch {
		return old
	}
	t.last[group], t.seen[group] = rec, index
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
	if all := t.all[group]; all != nil {
		return all
	}
	var out ha.IDs
	for i := range t.setup.Replicas {
		if id := t.ID(BrokerNode(groupIndex(group), i)); id != 0 {
			out = append(out, id)
		}
	}
	ids := ha.NewIDs(out...)
	if len(ids) == t.setup.Replicas {
		t.all[group] = ids
	}
	return ids
}

// settled is how long a broker must have run, reachable for the controllers,
// before they can be blamed for not electing it: start, registration, heartbeat.
const settled = int64(5 * time.Second)

// Electable are the replicas that the committed record allows and that have been
// running, unpaused and in reach of a majority of the controllers for a while. It
// must be asked before the record moves on, at an election.
func (t *Truth) Electable(group string) ha.IDs {
	rec := t.last[group]
	var out ha.IDs
	for i := range rec.Members {
		m := &rec.Members[i]
		in := rec.Set.Has(m.ID) || rec.Retained.Has(m.ID)
		if n := t.Node(group, m.ID); in && m.Electable && t.up(n) && t.reaches(n) {
			out = append(out, m.ID)
		}
	}
	return ha.NewIDs(out...)
}

// Present are the members and retained members that run.
func (t *Truth) Present(group string) ha.IDs {
	rec := t.last[group]
	var out ha.IDs
	for _, id := range t.Brokers(group) {
		if (rec.Set.Has(id) || rec.Retained.Has(id)) && t.up(t.Node(group, id)) {
			out = append(out, id)
		}
	}
	return ha.NewIDs(out...)
}

// fault keeps track of who is out of the controllers' reach.
func (t *Truth) fault(f *sim.Fault, ended bool, at int64) {
	switch f.Kind {
	case sim.Cut, sim.Stall, sim.HalfOpen, sim.Refuse, sim.Loss, sim.Delay, sim.Corrupt, sim.Reset, sim.Bandwidth,
		sim.Pause, sim.Suspend, sim.SlowCPU, sim.DiskStall, sim.DiskSlow, sim.ClockFreeze, sim.ClockDrift:
	default:
		return
	}
	if ended {
		delete(t.unwell, f)
	} else if f.For > 0 {
		t.unwell[f] = true
	}
	if f.Kind == sim.HalfOpen {
		at += halfOpen
	}
	for _, n := range touched(f) {
		t.wellFrom[n] = at
	}
}

// halfOpen is how long a stream that fell silent may look open to both ends.
const halfOpen = int64(30 * time.Second)

// touched are all nodes a fault names.
func touched(f *sim.Fault) []string {
	out := slices.Clone(f.Nodes)
	for _, s := range f.Sides {
		out = append(out, s...)
	}
	return out
}

func (t *Truth) life(l sim.LifeChange, at int64) {
	if l.Phase == sim.Up {
		t.wellFrom[l.Node] = at
	}
	t.pastLife(l, at)
}

// reaches reports whether the node has been well for a while and no fault keeps
// it, or a majority of the controllers, apart.
func (t *Truth) reaches(node string) bool {
	if t.now()-t.wellFrom[node] < settled {
		return false
	}
	well := 0
	for i := range t.setup.Controllers {
		if c := ControllerNode(i); t.up(c) && t.now()-t.wellFrom[c] >= settled {
			well++
		}
	}
	for f := range t.unwell {
		if slices.Contains(touched(f), node) {
			return false
		}
	}
	return well > t.setup.Controllers/2
}
