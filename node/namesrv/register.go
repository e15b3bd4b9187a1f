package namesrv

import (
	"fmt"
	"hash/crc32"
	"slices"
	"strings"

	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/node"
	"lockstep/node/wire"
)

// registration is one decoded and checked code 103.
type registration struct {
	head  wire.RegisterBrokerRequest
	body  wire.RegisterBrokerBody
	names []string // topics, sorted
	claim claim
}

// register serves code 103. A bad one changes nothing; a stale one is answered as
// RocketMQ does, with an empty success, and changes nothing either.
func (n *NameServer) register(s *session, f *wire.Frame) answer {
	r, refused := n.readRegistration(s, f)
	if refused != nil {
		return *refused
	}
	g := n.groups.byName[r.head.BrokerName]
	if why := stale(g, r); why != "" {
		n.stats.ignored++
		n.emit(event.Event{Kind: event.RegistrationIgnored, Group: r.head.BrokerName, Broker: ha.BrokerID(r.head.BrokerID),
			Epoch: r.claim.epoch, Text: why})
		return success().withRemark("registration ignored: " + why)
	}
	if refused := n.admit(g, r); refused != nil {
		return *refused
	}
	n.stats.registrations++
	r.keep()
	if g == nil {
		g = n.groups.add(r.head.BrokerName, r.head.ClusterName)
	}
	n.apply(g, r, s)
	return n.registered(g, r)
}

// readRegistration decodes and checks what can be checked without the table.
func (n *NameServer) readRegistration(s *session, f *wire.Frame) (*registration, *answer) {
	r := &registration{}
	if err := f.Header(&r.head); err != nil {
		return nil, refuse(wire.CodeSystemError, "register broker failed: %v", err)
	}
	h := &r.head
	if why := brokerFault(h.BrokerName, h.ClusterName, h.BrokerAddr, h.BrokerID); why != "" {
		return nil, refuse(wire.CodeInvalidParameter, "register broker failed: %s", why)
	}
	if h.HeartbeatTimeoutMillis < 0 {
		return nil, refuse(wire.CodeInvalidParameter, "register broker failed: heartbeatTimeoutMillis %d is negative", h.HeartbeatTimeoutMillis)
	}
	if h.HAServerAddr != "" && strings.ContainsFunc(h.HAServerAddr, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return nil, refuse(wire.CodeInvalidParameter, "register broker failed: haServerAddr %q is not an address", h.HAServerAddr)
	}
	if h.BodyCRC32 != 0 && int32(crc32.ChecksumIEEE(f.Body)&0x7fffffff) != h.BodyCRC32 {
		return nil, refuse(wire.CodeSystemError, "crc32 not match")
	}
	if h.Compressed {
		return nil, refuse(wire.CodeSystemError, "register broker failed: compressed bodies are not read; set compressedRegister=false at the broker")
	}
	if len(f.Body) > 0 {
		if err := wire.UnmarshalBody(f.Body, &r.body); err != nil {
			return nil, refuse(wire.CodeSystemError, "register broker failed: body: %v", err)
		}
	}
	if why := r.readTopics(); why != "" {
		return nil, refuse(wire.CodeInvalidParameter, "register broker failed: %s", why)
	}
	r.claim = claim{epoch: h.MasterEpoch, id: h.Identity, gen: s.gen}
	if r.claim.epoch == 0 {
		v := r.body.Topics.DataVersion.StateVersion
		if v < 0 || v > int64(1)<<31-1 {
			return nil, refuse(wire.CodeInvalidParameter, "register broker failed: stateVersion %d is not an epoch", v)
		}
		r.claim.epoch = ha.MasterEpoch(v)
	}
	if r.claim.epoch < 0 {
		return nil, refuse(wire.CodeInvalidParameter, "register broker failed: epoch %d is negative", r.claim.epoch)
	}
	return r, nil
}

// brokerFault checks the members of every header that names a broker.
func brokerFault(name, cluster, addr string, role int64) string {
	if why := nameFault(name); why != "" {
		return "brokerName " + why
	}
	if why := nameFault(cluster); why != "" {
		return "clusterName " + why
	}
	if why := addrFault(addr); why != "" {
		return fmt.Sprintf("brokerAddr %q %s; set brokerIP1 and listenPort", addr, why)
	}
	if role < 0 {
		return fmt.Sprintf("brokerId %d is negative", role)
	}
	return ""
}

// Bounds of one topic's registration: a queue count above it is a mistake and
// would make every client build that many queues.
const maxQueueNums = 65536

func (r *registration) readTopics() string {
	table := r.body.Topics.TopicConfigTable
	r.names = make([]string, 0, len(table))
	for name := range table { // tidy:unordered the names are sorted below
		r.names = append(r.names, name)
	}
	slices.Sort(r.names)
	for _, name := range r.names {
		t := table[name]
		if why := nameFault(name); why != "" {
			return fmt.Sprintf("topic %.80q %s", name, why)
		}
		if t.ReadQueueNums < 0 || t.WriteQueueNums < 0 || t.ReadQueueNums > maxQueueNums || t.WriteQueueNums > maxQueueNums {
			return fmt.Sprintf("topic %s has %d read and %d write queues; 0 to %d", name, t.ReadQueueNums, t.WriteQueueNums, maxQueueNums)
		}
		if t.Perm < 0 || t.Perm > 15 {
			return fmt.Sprintf("topic %s has permission %d; 0 to 15", name, t.Perm)
		}
	}
	return ""
}

// stale says why a registration must not replace what is there, or "".
func stale(g *group, r *registration) string {
	if g == nil {
		return ""
	}
	if r.head.BrokerID == masterRole && r.claim.epoch < g.floor {
		return fmt.Sprintf("master epoch %d is below %d, which the group has reached", r.claim.epoch, g.floor)
	}
	for _, m := range []*member{g.slot(r.head.BrokerID), g.at(r.head.BrokerAddr)} {
		if m != nil && r.claim.older(m.claim) {
			return fmt.Sprintf("%s as role %d with epoch %d is older than %s as role %d with epoch %d", r.head.BrokerAddr,
				r.head.BrokerID, r.claim.epoch, m.addr, m.role, m.claim.epoch)
		}
	}
	return ""
}

// admit checks the limits and rules that depend on the table.
func (n *NameServer) admit(g *group, r *registration) *answer {
	if g == nil && len(n.groups.names) >= n.opt.MaxGroups {
		return refuse(wire.CodeSystemError, "register broker failed: %d broker groups are known, the limit (maxGroups)", n.opt.MaxGroups)
	}
	if g != nil && g.cluster != r.head.ClusterName && !onlyFrom(g, r.head.BrokerAddr) {
		return refuse(wire.CodeInvalidParameter, "register broker failed: brokerName %s belongs to cluster %s, not %s; broker names are unique over all clusters",
			g.name, g.cluster, r.head.ClusterName)
	}
	fresh := g == nil || g.slot(r.head.BrokerID) == nil
	if fresh && len(r.names) == 1 {
		// A table of one topic is an incremental update of a broker that registered
		// before; taken as the whole table it would hide the other topics.
		return refuse(wire.CodeSystemError, "register broker failed: role %d of %s is not registered yet and the table has one topic; send the whole table first",
			r.head.BrokerID, r.head.BrokerName)
	}
	if g != nil && fresh && g.at(r.head.BrokerAddr) == nil && len(g.members) >= n.opt.MaxGroupMembers {
		return refuse(wire.CodeSystemError, "register broker failed: group %s has %d members, the limit (maxGroupMembers)", g.name, n.opt.MaxGroupMembers)
	}
	added := 0
	for _, name := range r.names {
		if g == nil {
			added = len(r.names)
			break
		}
		if _, had := g.topics[name]; !had {
			added++
		}
	}
	if n.groups.topics+added > n.opt.MaxTopics {
		return refuse(wire.CodeSystemError, "register broker failed: %d more topic entries would exceed %d (maxTopics)", added, n.opt.MaxTopics)
	}
	return nil
}

// keep copies the texts that the tables will hold: those of a frame are parts of a
// larger read buffer, which they would keep alive.
func (r *registration) keep() {
	h := &r.head
	for _, s := range []*string{&h.BrokerName, &h.ClusterName, &h.BrokerAddr, &h.HAServerAddr} {
		*s = strings.Clone(*s)
	}
	h.Store = ha.StoreID(strings.Clone(string(h.Store)))
	r.claim.id = h.Identity
}

// onlyFrom reports whether the group has no member but the one at addr.
func onlyFrom(g *group, addr string) bool {
	for _, m := range g.members {
		if m.addr != addr {
			return false
		}
	}
	return true
}

// apply takes a registration that is neither bad nor stale.
func (n *NameServer) apply(g *group, r *registration, s *session) {
	h := &r.head
	g.cluster = h.ClusterName
	g.acting = h.EnableActingMaster == wire.True
	least := g.least()
	m := g.slot(h.BrokerID)
	if other := g.at(h.BrokerAddr); other != nil && other != m {
		n.groups.take(other) // one address, one role
	}
	if m != nil && m.addr != h.BrokerAddr {
		n.groups.take(m)
		m = nil
	}
	fresh := m == nil
	if fresh {
		m = &member{group: g, role: h.BrokerID, addr: h.BrokerAddr}
		n.groups.place(m)
	}
	newVersion := fresh || m.version != r.body.Topics.DataVersion
	m.haAddr, m.claim, m.version = h.HAServerAddr, r.claim, r.body.Topics.DataVersion
	g.floor = max(g.floor, r.claim.epoch)
	n.bind(m, s)
	m.timeout = n.opt.BrokerExpiry
	if h.HeartbeatTimeoutMillis > 0 {
		m.timeout = max(minExpiry, millis(h.HeartbeatTimeoutMillis))
	}
	n.renew(m)
	if fresh {
		n.emit(event.Event{Kind: event.RouteChanged, Group: g.name, Broker: m.eventID(), Epoch: m.claim.epoch, Text: m.addr})
	}
	n.applyTopics(m, r, newVersion)
	n.noticeLeast(g, least, "")
}

// applyTopics takes the topics of the master, or of the smallest slave of a group
// that says how it stands with acting masters. An unchanged DataVersion suppresses
// the update of topics that are known already (wire contracts 2.6).
func (n *NameServer) applyTopics(m *member, r *registration, newVersion bool) {
	g := m.group
	prime := m.role != masterRole && r.head.EnableActingMaster != wire.Absent && g.least() == m
	if m.role != masterRole && !prime {
		return
	}
	if n.opt.DeleteTopicWithBrokerRegistration && newVersion && len(r.names) > 1 {
		for _, name := range g.topicNames() {
			if _, still := r.body.Topics.TopicConfigTable[name]; !still {
				n.groups.deleteTopic(g, name)
			}
		}
	}
	for _, name := range r.names {
		if _, known := g.topics[name]; known && !newVersion {
			continue
		}
		t := r.body.Topics.TopicConfigTable[name]
		q := wire.QueueData{BrokerName: g.name, Perm: t.Perm, ReadQueueNums: t.ReadQueueNums, WriteQueueNums: t.WriteQueueNums, TopicSysFlag: t.TopicSysFlag}
		if prime && g.acting {
			q.Perm &^= wire.PermWrite
		}
		n.groups.setTopic(g, name, q)
	}
}

// registered answers a taken registration: a slave learns its master.
func (n *NameServer) registered(g *group, r *registration) answer {
	var h wire.RegisterBrokerResponse
	if master := g.slot(masterRole); master != nil && r.head.BrokerID != masterRole {
		h.HAServerAddr, h.MasterAddr = master.haAddr, master.addr
	}
	a := success()
	a.ext = wire.EncodeExt(&h)
	if order := n.config.namespace(orderTopicConfig); len(order) > 0 {
		return a.withBody(&wire.KVTable{Table: order})
	}
	return a
}

// bind notes that m was last heard on s.
func (n *NameServer) bind(m *member, s *session) {
	if m.session == s.id {
		return
	}
	m.session = s.id
	s.bound = slices.DeleteFunc(s.bound, func(o *member) bool { return o.gone || o.session != s.id || o == m })
	s.bound = append(s.bound, m)
}

// renew is a sign of life.
func (n *NameServer) renew(m *member) {
	m.deadline = n.now.Mono.Add(m.timeout)
	n.liveness.expect(m.deadline)
}

// remove takes a broker out of its group and, with the last one, the topics.
func (n *NameServer) remove(m *member, why string) {
	g := m.group
	least := g.least()
	n.groups.take(m)
	n.emit(event.Event{Kind: event.RouteChanged, Group: g.name, Broker: m.eventID(), Epoch: m.claim.epoch})
	if len(g.members) == 0 {
		n.groups.clearTopics(g)
		g.emptyUntil = instant(n.now.Mono.Add(n.opt.BrokerExpiry))
		n.liveness.expect(node.Time(g.emptyUntil))
		return
	}
	if g.acting && g.slot(masterRole) == nil {
		for _, name := range g.topicNames() {
			q := g.topics[name]
			q.Perm &^= wire.PermWrite
			g.topics[name] = q
		}
	}
	n.noticeLeast(g, least, m.addr)
}
