package namesrv

import (
	"slices"
	"strings"
	"time"

	"lockstep/internal/ha"
	"lockstep/internal/invariant"
	"lockstep/node"
	"lockstep/node/wire"
)

// masterRole is the role id of a group's master in registrations and routes.
const masterRole int64 = 0

// claim is what orders registrations: who may replace whom.
type claim struct {
	epoch ha.MasterEpoch // DataVersion.stateVersion, or lsEpoch
	id    wire.Identity  // unknown for Java brokers
	gen   uint64         // generation of the session
}

// older reports whether a must not replace b: an older epoch; the same store in an
// earlier boot; or, nothing of that being known, an older session.
func (a claim) older(b claim) bool {
	if a.epoch != b.epoch {
		return a.epoch < b.epoch
	}
	if a.id.Known() && a.id.Store == b.id.Store && a.id.Boot != b.id.Boot {
		return a.id.Boot < b.id.Boot
	}
	return a.gen < b.gen
}

// member is one registered broker.
type member struct {
	group    *group
	role     int64 // role id: 0 is the master
	addr     string
	haAddr   string
	claim    claim
	session  node.SessionID
	version  wire.DataVersion
	timeout  time.Duration
	deadline node.Time
	gone     bool // removed; a session may still remember it
}

// eventID is the id that events carry: the role id.
func (m *member) eventID() ha.BrokerID { return ha.BrokerID(m.role) }

// group is one broker group: the brokers of one name.
type group struct {
	name    string
	cluster string
	members []*member // by role id, ascending
	// floor is the highest epoch of any registration that was taken: role 0 below it
	// is a deposed master.
	floor ha.MasterEpoch
	// acting: the brokers registered with enableActingMaster=true.
	acting bool
	topics map[string]wire.QueueData
	// emptyUntil is when an empty group is forgotten; unset while it has members.
	emptyUntil instant
}

// slot returns the member with a role id, or nil.
func (g *group) slot(role int64) *member {
	if i, ok := g.find(role); ok {
		return g.members[i]
	}
	return nil
}

func (g *group) find(role int64) (int, bool) {
	return slices.BinarySearchFunc(g.members, role, func(m *member, r int64) int {
		switch {
		case m.role < r:
			return -1
		case m.role > r:
			return 1
		}
		return 0
	})
}

// at returns the member with an address, or nil.
func (g *group) at(addr string) *member {
	for _, m := range g.members {
		if m.addr == addr {
			return m
		}
	}
	return nil
}

// least returns the member with the smallest role id, or nil.
func (g *group) least() *member {
	if len(g.members) == 0 {
		return nil
	}
	return g.members[0]
}

// addrs returns the addresses by role id.
func (g *group) addrs() map[int64]string {
	out := make(map[int64]string, len(g.members))
	for _, m := range g.members {
		out[m.role] = m.addr
	}
	return out
}

// groupTable holds the groups by name, and counts what they hold.
type groupTable struct {
	byName  map[string]*group
	names   []string // sorted
	members int
	topics  int // (topic, group) pairs
}

func newGroupTable() groupTable { return groupTable{byName: map[string]*group{}} }

// sorted lists the groups by name. The slice is fresh: callers may drop groups.
func (t *groupTable) sorted() []*group {
	out := make([]*group, len(t.names))
	for i, name := range t.names {
		out[i] = t.byName[name]
	}
	return out
}

// add creates an empty group.
func (t *groupTable) add(name, cluster string) *group {
	g := &group{name: name, cluster: cluster, topics: map[string]wire.QueueData{}}
	t.byName[name] = g
	i, found := slices.BinarySearch(t.names, name)
	invariant.That(!found, "name server: group %s added twice", name)
	t.names = slices.Insert(t.names, i, name)
	return g
}

// drop forgets a group without members.
func (t *groupTable) drop(g *group) {
	invariant.That(len(g.members) == 0, "name server: group %s dropped with %d members", g.name, len(g.members))
	t.clearTopics(g)
	delete(t.byName, g.name)
	if i, found := slices.BinarySearch(t.names, g.name); found {
		t.names = slices.Delete(t.names, i, i+1)
	}
}

// place puts m into its slot, which must be free.
func (t *groupTable) place(m *member) {
	i, found := m.group.find(m.role)
	invariant.That(!found, "name server: slot %d of %s is taken", m.role, m.group.name)
	m.group.members = slices.Insert(m.group.members, i, m)
	m.group.emptyUntil = 0
	t.members++
}

// take removes m from its slot.
func (t *groupTable) take(m *member) {
	i, found := m.group.find(m.role)
	invariant.That(found && m.group.members[i] == m, "name server: %s is not in slot %d of %s", m.addr, m.role, m.group.name)
	m.group.members = slices.Delete(m.group.members, i, i+1)
	m.gone = true
	t.members--
}

// setTopic stores or replaces a topic's queues in g.
func (t *groupTable) setTopic(g *group, topic string, q wire.QueueData) {
	if _, had := g.topics[topic]; !had {
		t.topics++
		topic = strings.Clone(topic) // not a part of the registration's buffer
	}
	g.topics[topic] = q
}

// deleteTopic removes a topic from g.
func (t *groupTable) deleteTopic(g *group, topic string) {
	if _, had := g.topics[topic]; had {
		t.topics--
		delete(g.topics, topic)
	}
}

func (t *groupTable) clearTopics(g *group) {
	t.topics -= len(g.topics)
	clear(g.topics)
}
