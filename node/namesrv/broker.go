package namesrv

import (
	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/internal/invariant"
	"lockstep/node"
	"lockstep/node/wire"
)

// unregister serves code 104. It ends exactly the registration it names; one that
// a newer life of the broker has replaced stays.
func (n *NameServer) unregister(s *session, f *wire.Frame) answer {
	var h wire.UnregisterBrokerRequest
	if err := f.Header(&h); err != nil {
		return *refuse(wire.CodeSystemError, "unregister broker failed: %v", err)
	}
	if why := brokerFault(h.BrokerName, h.ClusterName, h.BrokerAddr, h.BrokerID); why != "" {
		return *refuse(wire.CodeInvalidParameter, "unregister broker failed: %s", why)
	}
	m := n.known(h.BrokerName, h.ClusterName, h.BrokerAddr)
	if m == nil || m.role != h.BrokerID {
		return success().withRemark("not registered")
	}
	c := claim{epoch: h.MasterEpoch, id: h.Identity, gen: s.gen}
	if n.late(m, c, "unregistration") {
		return success().withRemark("unregistration ignored: a newer registration of the broker is there")
	}
	n.remove(m, "unregistered")
	return success()
}

// known finds a registered broker by what a header says of it.
func (n *NameServer) known(name, cluster, addr string) *member {
	g := n.groups.byName[name]
	if g == nil || g.cluster != cluster {
		return nil
	}
	return g.at(addr)
}

// late reports whether a frame about m comes from an earlier life of its broker.
// A peer that gives no epoch (Java) is judged by its session alone.
func (n *NameServer) late(m *member, c claim, what string) bool {
	if c.epoch == 0 {
		c.epoch = m.claim.epoch
	}
	if !c.older(m.claim) {
		return false
	}
	n.stats.ignored++
	n.emit(event.Event{Kind: event.RegistrationIgnored, Group: m.group.name, Broker: m.eventID(), Epoch: c.epoch, Text: what + " from an older session or life"})
	return true
}

// alive is a sign of life of m on session s. It moves the registration to a newer
// session, so that the end of the old one does not end it.
func (n *NameServer) alive(m *member, s *session) {
	if s.gen > m.claim.gen {
		m.claim.gen = s.gen
		n.bind(m, s)
	}
	n.renew(m)
}

// heartbeat serves code 904.
func (n *NameServer) heartbeat(s *session, f *wire.Frame) answer {
	var h wire.BrokerHeartbeat
	if err := f.Header(&h); err != nil {
		return *refuse(wire.CodeSystemError, "heartbeat refused: %v", err)
	}
	m := n.known(h.BrokerName, h.ClusterName, h.BrokerAddr)
	if m == nil {
		return success().withRemark("not registered")
	}
	if n.late(m, claim{epoch: h.Epoch, id: h.Identity, gen: s.gen}, "heartbeat") {
		return success().withRemark("heartbeat ignored: a newer registration of the broker is there")
	}
	if h.HeartbeatTimeoutMillis > 0 {
		m.timeout = max(minExpiry, millis(h.HeartbeatTimeoutMillis))
	}
	n.alive(m, s)
	return success()
}

// dataVersion serves code 322: does the name server hold another version of the
// broker's topics than the broker; also a sign of life.
func (n *NameServer) dataVersion(s *session, f *wire.Frame) answer {
	var h wire.DataVersionRequest
	if err := f.Header(&h); err != nil {
		return *refuse(wire.CodeSystemError, "query data version refused: %v", err)
	}
	var v wire.DataVersion
	if err := wire.UnmarshalBody(f.Body, &v); err != nil {
		return *refuse(wire.CodeSystemError, "query data version refused: body: %v", err)
	}
	m := n.known(h.BrokerName, h.ClusterName, h.BrokerAddr)
	resp := wire.DataVersionResponse{Changed: m == nil || m.role != h.BrokerID || m.version != v}
	a := success()
	a.ext = wire.EncodeExt(&resp)
	if m == nil {
		return a
	}
	c := claim{epoch: h.MasterEpoch, id: h.Identity, gen: s.gen}
	if c.epoch == 0 && v.StateVersion > 0 && v.StateVersion < int64(1)<<31 {
		c.epoch = ha.MasterEpoch(v.StateVersion)
	}
	if !n.late(m, c, "data version query") {
		n.alive(m, s)
	}
	return a.withBody(&m.version)
}

// memberGroup serves code 901; an unknown group has no addresses.
func (n *NameServer) memberGroup(f *wire.Frame) answer {
	var h wire.MemberGroupRequest
	if err := f.Header(&h); err != nil {
		return *refuse(wire.CodeSystemError, "get broker member group refused: %v", err)
	}
	b := wire.MemberGroupBody{Group: wire.BrokerMemberGroup{BrokerAddrs: map[int64]string{}, BrokerName: h.BrokerName, Cluster: h.ClusterName}}
	if g := n.groups.byName[h.BrokerName]; g != nil && g.cluster == h.ClusterName {
		b.Group.BrokerAddrs = g.addrs()
	}
	return success().withBody(&b)
}

// noticeLeast sends 905 to a group of acting masters whose smallest role id is
// another than before; offline is the address that went, "" when one came. The new
// smallest one itself is told only when somebody went or it is alone.
func (n *NameServer) noticeLeast(g *group, before *member, offline string) {
	least := g.least()
	if !n.opt.NotifyMinBrokerIDChanged || !g.acting || least == nil || before != nil && before.role == least.role {
		return
	}
	h := wire.MinBrokerIDChanged{MinBrokerID: least.role, BrokerName: g.name, MinBrokerAddr: least.addr, OfflineBrokerAddr: offline, HABrokerAddr: least.haAddr}
	if master := g.slot(masterRole); offline != "" && master != nil {
		h.HABrokerAddr = master.haAddr
	}
	for _, m := range g.members {
		if m == least && offline == "" && len(g.members) > 1 {
			continue
		}
		notice := wire.NewRequest(wire.ReqMinBrokerIDChanged, 0, &h, nil)
		notice.Head.Flag = wire.FlagOneway
		n.sends = append(n.sends, node.Send{To: m.session, Frame: notice})
	}
}

// CheckInvariants asserts the shape of the tables.
func (n *NameServer) CheckInvariants() {
	members, topics := 0, 0
	for _, g := range n.groups.sorted() {
		g.check(n)
		members += len(g.members)
		topics += len(g.topics)
	}
	invariant.That(members == n.groups.members, "%d members, counted %d", members, n.groups.members)
	invariant.That(topics == n.groups.topics, "%d topic entries, counted %d", topics, n.groups.topics)
	invariant.That(topics <= n.opt.MaxTopics && len(n.groups.names) <= n.opt.MaxGroups, "%d topics, %d groups: over a limit", topics, len(n.groups.names))
}

func (g *group) check(n *NameServer) {
	for i, m := range g.members {
		invariant.That(i == 0 || g.members[i-1].role < m.role, "group %s: roles out of order at %d", g.name, m.role)
		invariant.That(!m.gone && m.group == g, "group %s: role %d is a removed member", g.name, m.role)
		invariant.That(g.at(m.addr) == m, "group %s: %s is registered twice", g.name, m.addr)
		invariant.That(m.claim.epoch <= g.floor, "group %s: epoch %d above the floor %d", g.name, m.claim.epoch, g.floor)
		invariant.That(m.deadline >= n.liveness.earliest, "group %s: role %d expires before the next look", g.name, m.role)
		s := n.sessions[m.session]
		invariant.That(s != nil, "group %s: role %d is bound to a closed session", g.name, m.role)
		bound := false
		for _, o := range s.bound {
			bound = bound || o == m
		}
		invariant.That(bound, "group %s: the session of role %d does not know it", g.name, m.role)
	}
	invariant.That(len(g.members) > 0 || len(g.topics) == 0 && !g.emptyUntil.zero(), "group %s: empty with topics", g.name)
}
