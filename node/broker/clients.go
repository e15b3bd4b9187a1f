package broker

import (
	"slices"
	"strings"

	"lockstep/node"
	"lockstep/node/wire"
)

// clientTable holds who is connected: the members of consumer and producer
// groups with the session they heart-beat on. It is volatile and each broker's
// own; clients heart-beat to master and slaves alike (M7). A client leaves when
// its session ends, when it unregisters, or after ClientExpiry of silence.
type clientTable struct {
	consumers map[string]*consumerGroup
	producers map[string]*producerGroup
	// sessions lists what each session registered, so that its end finds it.
	sessions map[node.SessionID][]registration
	count    int       // members of all groups
	nextScan node.Time // not after the earliest expiry; Never when nobody is here
	// changed are groups whose members have to be told (code 40), in order.
	changed []string
}

// registration is one membership of a session.
type registration struct {
	group    string
	clientID string
	producer bool
}

// member is one client of a group.
type member struct {
	clientID    string
	session     node.SessionID
	addr        string
	language    string
	version     int32
	seen        node.Time // last heartbeat
	fingerprint int64     // of its subscriptions, heartbeat version 2; 0 unknown
}

// members are kept in order of their client ids.
type members []member

// find returns the index of a client, or where it belongs.
func (m members) find(clientID string) (int, bool) {
	return slices.BinarySearchFunc(m, clientID, func(x member, id string) int { return strings.Compare(x.clientID, id) })
}

// producerGroup is a group of producers.
type producerGroup struct{ members members }

// consumerGroup is a group of consumers and what it subscribes.
type consumerGroup struct {
	members     members
	consumeType string
	model       string
	from        string
	subs        []subscription // by topic, in order
}

// subscription is one topic of a group with its filter, computed once.
type subscription struct {
	data    wire.SubscriptionData
	filter  tagFilter
	refused string // why pulls through it are refused: an expression that is not served
}

func (g *consumerGroup) broadcasting() bool { return g.model == wire.ModelBroadcasting }

// subscription returns the group's subscription of a topic, nil when none.
func (g *consumerGroup) subscription(topic string) *subscription {
	if i, ok := g.findSub(topic); ok {
		return &g.subs[i]
	}
	return nil
}

func (g *consumerGroup) findSub(topic string) (int, bool) {
	return slices.BinarySearchFunc(g.subs, topic, func(x subscription, t string) int { return strings.Compare(x.data.Topic, t) })
}

// subscribe makes subs the group's subscriptions and reports whether that changed
// anything: a newer version wins, what is absent is removed. Two clients of one
// group with different subscriptions therefore take turns, as in RocketMQ.
func (g *consumerGroup) subscribe(subs []wire.SubscriptionData) (changed bool) {
	for i := range subs {
		d := &subs[i]
		at, known := g.findSub(d.Topic)
		if known && g.subs[at].data.SubVersion >= d.SubVersion {
			continue
		}
		filter, why := filterOf(d)
		s := subscription{data: *d, filter: filter, refused: why}
		if !known {
			g.subs = slices.Insert(g.subs, at, s)
			changed = true
			continue
		}
		changed = changed || g.subs[at].data.SubString != d.SubString || g.subs[at].data.ExpressionType != d.ExpressionType
		g.subs[at] = s
	}
	before := len(g.subs)
	g.subs = slices.DeleteFunc(g.subs, func(s subscription) bool {
		return !slices.ContainsFunc(subs, func(d wire.SubscriptionData) bool { return d.Topic == s.data.Topic })
	})
	return changed || len(g.subs) < before
}

func newClientTable() clientTable {
	return clientTable{consumers: map[string]*consumerGroup{}, producers: map[string]*producerGroup{},
		sessions: map[node.SessionID][]registration{}, nextScan: node.Never}
}

// enter adds or refreshes m in list and reports whether the client or its session
// is new.
func (t *clientTable) enter(list *members, m member, r registration) (fresh bool) {
	i, known := list.find(m.clientID)
	if known && (*list)[i].session == m.session {
		(*list)[i] = m
		return false
	}
	if known { // the client came back on another session; the old one may linger
		t.forget((*list)[i].session, r)
		(*list)[i] = m
	} else {
		*list = slices.Insert(*list, i, m)
		t.count++
	}
	if !slices.Contains(t.sessions[m.session], r) {
		t.sessions[m.session] = append(t.sessions[m.session], r)
	}
	return true
}

// scanAt moves the next look for silent clients no later than at.
func (t *clientTable) scanAt(at node.Time) { t.nextScan = min(t.nextScan, at) }

// leave removes a client from a group if it is there on session s (any session
// when s is 0), and notes that its group must be told.
func (t *clientTable) leave(r registration, s node.SessionID) {
	if r.producer {
		if g := t.producers[r.group]; g != nil && t.remove(&g.members, r.clientID, s) && len(g.members) == 0 {
			delete(t.producers, r.group)
		}
		return
	}
	g := t.consumers[r.group]
	if g == nil || !t.remove(&g.members, r.clientID, s) {
		return
	}
	if len(g.members) == 0 {
		delete(t.consumers, r.group) // its subscriptions go with the last client
		return
	}
	t.change(r.group)
}

func (t *clientTable) remove(list *members, clientID string, s node.SessionID) bool {
	i, ok := list.find(clientID)
	if !ok || s != 0 && (*list)[i].session != s {
		return false
	}
	*list = slices.Delete(*list, i, i+1)
	t.count--
	return true
}

// change notes that the members of a group have to be told.
func (t *clientTable) change(group string) {
	if !slices.Contains(t.changed, group) {
		t.changed = append(t.changed, group)
	}
}

// sessionDown removes everything a session registered.
func (t *clientTable) sessionDown(s node.SessionID) {
	for _, r := range t.sessions[s] {
		t.leave(r, s)
	}
	delete(t.sessions, s)
}

// settleClients drops silent clients and tells groups that changed.
func (b *Broker) settleClients(now node.Now) {
	if now.Mono >= b.clients.nextScan {
		b.clients.expire(now.Mono, b)
	}
	for _, group := range b.clients.changed {
		b.notifyGroup(group)
	}
	b.clients.changed = b.clients.changed[:0]
}

// expire drops clients that have been silent for too long and sets the next scan
// to the earliest time at which another one can be.
func (t *clientTable) expire(now node.Time, b *Broker) {
	t.nextScan = node.Never
	look := func(group string, list members, producer bool) {
		for _, m := range slices.Clone(list) {
			if at := m.seen.Add(b.o.ClientExpiry); at > now {
				t.scanAt(at)
				continue
			}
			t.leave(registration{group, m.clientID, producer}, 0)
			t.forget(m.session, registration{group, m.clientID, producer})
		}
	}
	for _, name := range sortedKeys(t.consumers) {
		look(name, t.consumers[name].members, false)
	}
	for _, name := range sortedKeys(t.producers) {
		look(name, t.producers[name].members, true)
	}
}

// forget drops one registration of a session that stays.
func (t *clientTable) forget(s node.SessionID, r registration) {
	left := slices.DeleteFunc(t.sessions[s], func(x registration) bool { return x == r })
	if len(left) == 0 {
		delete(t.sessions, s)
		return
	}
	t.sessions[s] = left
}

// notifyGroup sends code 40, one-way, to each client of a group. Broadcasting
// groups share nothing, so a change means nothing to their members.
func (b *Broker) notifyGroup(name string) {
	g := b.clients.consumers[name]
	config, ok := b.group(name)
	if g == nil || g.broadcasting() || ok && !config.NotifyConsumerIDsChangedEnable {
		return
	}
	ext := wire.EncodeExt(&wire.ConsumerGroupRequest{ConsumerGroup: name})
	for _, m := range g.members {
		b.fx.Send(m.session, wire.Frame{Link: wire.Remoting, Head: wire.Head{Code: wire.ReqConsumerIDsChanged,
			Language: wire.LanguageGo, Version: brokerVersion, Opaque: b.nextOpaque(), Flag: wire.FlagOneway, Ext: slices.Clone(ext)}})
	}
}
