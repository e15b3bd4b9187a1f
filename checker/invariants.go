package checker

import (
	"lockstep/internal/event"
	"lockstep/internal/ha"
)

// Invariants watches typed events for what must never happen (HA contract
// section 10): epochs and set epochs of the committed record never go down, the
// master is always in its set, an epoch has one master, a replica's truncation
// never undercuts what it must keep, a broker is fenced until it has taken up a
// role in this life, no name server goes back to a deposed master, and where a lease
// is required two brokers are never writable at once.
type Invariants struct {
	// ExclusiveWriters demands that no two brokers of a group are writable at one
	// instant of true time (lease required, clocks inside the drift bound).
	ExclusiveWriters bool
	// Forgotten says that all controllers lost their data: in the first epoch of the
	// rebuilt record set epochs begin anew, because no broker remembers them. Epochs
	// still never go down.
	Forgotten bool

	groups map[string]*groupFacts
	nodes  map[string]*nodeFacts
	routes map[route]ha.MasterEpoch // by name server: epoch of the master it names
	frozen map[string]int           // faults under way that keep a node from running
	out    []Finding
}

type groupFacts struct {
	epoch    ha.MasterEpoch
	setEpoch ha.SetEpoch
	masters  map[ha.MasterEpoch]ha.BrokerID
	serving  map[ha.MasterEpoch]string
	writable map[string]ha.MasterEpoch // node → epoch
	newest   ha.MasterEpoch            // highest epoch that was ever writable
}

type nodeFacts struct {
	group   string
	epoch   ha.MasterEpoch
	started bool           // its life was seen from the beginning
	serving ha.MasterEpoch // 0: fenced
}

type route struct{ node, group string }

// NewInvariants returns a watcher.
func NewInvariants(exclusive bool) *Invariants {
	return &Invariants{ExclusiveWriters: exclusive, groups: map[string]*groupFacts{}, nodes: map[string]*nodeFacts{}, routes: map[route]ha.MasterEpoch{}, frozen: map[string]int{}}
}

// Findings returns the breaches so far.
func (v *Invariants) Findings() []Finding { return v.out }

func (v *Invariants) fail(e event.Event, name, format string, args ...any) {
	v.out = append(v.out, finding("invariant", name, e.At, format, args...))
}

func (v *Invariants) group(name string) *groupFacts {
	g := v.groups[name]
	if g == nil {
		g = &groupFacts{masters: map[ha.MasterEpoch]ha.BrokerID{}, serving: map[ha.MasterEpoch]string{}, writable: map[string]ha.MasterEpoch{}}
		v.groups[name] = g
	}
	return g
}

// NodeDown forgets what a node that ended was doing.
func (v *Invariants) NodeDown(node string) {
	for _, name := range sortedKeys(v.groups) {
		delete(v.groups[name].writable, node)
	}
	delete(v.nodes, node)
	for r := range v.routes {
		if r.node == node {
			delete(v.routes, r)
		}
	}
}

// Frozen notes that something began or ceased to keep a node from running: while it
// does not run it cannot say that its lease has ended, and it cannot write either.
// Such faults overlap; the node runs again when the last of them has ended.
func (v *Invariants) Frozen(node string, on bool) {
	if on {
		v.frozen[node]++
	} else {
		v.frozen[node]--
	}
}

// Acknowledged notes a SEND_OK at its emission: in true time none may come from
// an older epoch once a newer one was writable.
func (v *Invariants) Acknowledged(node, group string, epoch ha.MasterEpoch, at int64) {
	if g := v.group(group); v.ExclusiveWriters && epoch < g.newest {
		v.fail(event.Event{At: at}, "lease-overlap", "%s acknowledges in epoch %d of %s, epoch %d was writable before", node, epoch, group, g.newest)
	}
}

// See takes one event. Events of the controllers describe the committed record
// and must come from one controller at a time in commit order (the world passes
// each committed change once).
func (v *Invariants) See(e event.Event) {
	switch e.Kind {
	case event.Elected:
		v.elected(e)
	case event.SetAltered:
		v.altered(e)
	case event.RoleApplied:
		v.roleApplied(e)
	case event.Serving:
		g := v.group(e.Group)
		if by := g.serving[e.Epoch]; by != "" {
			v.fail(e, "served-twice", "epoch %d of %s is served by %s after %s", e.Epoch, e.Group, e.Node, by)
		}
		g.serving[e.Epoch] = e.Node
		v.node(e).serving = e.Epoch
	case event.Started:
		v.node(e).started = true
	case event.Writable:
		v.writable(e)
	case event.Demoted:
		v.node(e).serving = 0
		delete(v.group(e.Group).writable, e.Node)
	case event.NotWritable:
		delete(v.group(e.Group).writable, e.Node)
	case event.RouteChanged:
		v.routed(e)
	}
}

// node is what is known of the node's present life.
func (v *Invariants) node(e event.Event) *nodeFacts {
	n := v.nodes[e.Node]
	if n == nil {
		n = &nodeFacts{group: e.Group}
		v.nodes[e.Node] = n
	}
	return n
}

// routed follows which master a name server names: registrations that come late
// must not bring a deposed one back. Role 0 is the master; no address means that it
// is gone, epoch 0 a peer that gives none.
func (v *Invariants) routed(e event.Event) {
	r := route{e.Node, e.Group}
	if e.Broker != 0 || e.Text == "" || e.Epoch == 0 {
		return
	}
	if e.Epoch < v.routes[r] {
		v.fail(e, "route-epoch-down", "%s names %s, master of epoch %d, for %s after the one of epoch %d", e.Node, e.Text, e.Epoch, e.Group, v.routes[r])
	}
	v.routes[r] = max(v.routes[r], e.Epoch)
}

func (v *Invariants) elected(e event.Event) {
	g := v.group(e.Group)
	if e.Epoch <= g.epoch {
		v.fail(e, "epoch-down", "%s elects epoch %d after %d", e.Group, e.Epoch, g.epoch)
	}
	again := v.Forgotten && e.Text == "rebuilt"
	if e.SetEpoch <= g.setEpoch && !again {
		v.fail(e, "set-epoch-down", "%s elects set epoch %d after %d", e.Group, e.SetEpoch, g.setEpoch)
	}
	if !e.Set.Equal(ha.NewIDs(e.Broker)) {
		v.fail(e, "new-set", "%s elects %d with set %v, the set of a new epoch is its master alone", e.Group, e.Broker, e.Set)
	}
	g.epoch, g.setEpoch = max(g.epoch, e.Epoch), max(g.setEpoch, e.SetEpoch)
	if again {
		g.setEpoch = e.SetEpoch
	}
	g.masters[e.Epoch] = e.Broker
}

func (v *Invariants) altered(e event.Event) {
	g := v.group(e.Group)
	if e.Epoch != g.epoch {
		v.fail(e, "stale-alter", "%s commits a set for epoch %d while %d is in force", e.Group, e.Epoch, g.epoch)
	}
	if e.SetEpoch != g.setEpoch+1 {
		v.fail(e, "set-epoch-skip", "%s commits set epoch %d after %d", e.Group, e.SetEpoch, g.setEpoch)
	}
	if m, ok := g.masters[e.Epoch]; ok && !e.Set.Has(m) {
		v.fail(e, "set-without-master", "%s commits set %v without its master %d", e.Group, e.Set, m)
	}
	g.setEpoch = max(g.setEpoch, e.SetEpoch)
}

func (v *Invariants) roleApplied(e event.Event) {
	n := v.node(e)
	if e.Epoch < n.epoch {
		v.fail(e, "role-epoch-down", "%s applies epoch %d after %d", e.Node, e.Epoch, n.epoch)
	}
	n.epoch = e.Epoch
	if m, ok := v.group(e.Group).masters[e.Epoch]; ok && m != e.Broker {
		v.fail(e, "two-masters", "%s applies master %d for epoch %d, elected was %d", e.Node, e.Broker, e.Epoch, m)
	}
}

func (v *Invariants) writable(e event.Event) {
	g := v.group(e.Group)
	if n := v.node(e); n.started && n.serving != e.Epoch {
		v.fail(e, "writable-unfenced", "%s is writable in epoch %d of %s, which it has not taken up in this life", e.Node, e.Epoch, e.Group)
	}
	for _, other := range sortedKeys(g.writable) {
		epoch := g.writable[other]
		if other == e.Node {
			continue
		}
		if epoch == e.Epoch {
			v.fail(e, "two-writers", "%s and %s are writable in epoch %d of %s", other, e.Node, epoch, e.Group)
		} else if v.ExclusiveWriters && v.frozen[other] == 0 {
			v.fail(e, "lease-overlap", "%s (epoch %d) is writable while %s (epoch %d) still is, in %s", e.Node, e.Epoch, other, epoch, e.Group)
		}
	}
	g.writable[e.Node] = e.Epoch
	g.newest = max(g.newest, e.Epoch)
}
