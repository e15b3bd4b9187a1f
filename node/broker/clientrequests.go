package broker

import (
	"fmt"

	"lockstep/node"
	"lockstep/node/wire"
)

// preparedHeartbeat is the body of a heartbeat, decoded on the session's goroutine.
type preparedHeartbeat struct {
	data wire.HeartbeatData
	err  error
	addr string // of the client
}

// serveHeartbeat answers code 34. Everything is checked before anything is
// registered. A group that cannot be created is skipped silently with code 0, as
// in RocketMQ.
func (b *Broker) serveHeartbeat(now node.Now, s node.SessionID, f *wire.Frame) {
	p, ok := f.Prepared.(*preparedHeartbeat)
	if !ok {
		p = &preparedHeartbeat{}
		p.err = wire.UnmarshalBody(f.Body, &p.data)
	}
	if p.err != nil {
		b.reject(s, f, wire.CodeSystemError, p.err.Error())
		return
	}
	if r := b.checkHeartbeat(&p.data); r != nil {
		b.reject(s, f, r.code, r.remark)
		return
	}
	m := member{clientID: p.data.ClientID, session: s, addr: p.addr, language: f.Head.Language,
		version: f.Head.Version, seen: now.Mono, fingerprint: p.data.HeartbeatFingerprint}
	subChange := p.data.HeartbeatFingerprint == 0
	for i := range p.data.ConsumerDataSet {
		if b.enterConsumer(m, &p.data.ConsumerDataSet[i], p.data.WithoutSub) {
			subChange = true
		}
	}
	for _, d := range p.data.ProducerDataSet {
		b.enterProducer(m, d.GroupName)
	}
	b.clients.scanAt(now.Mono.Add(b.o.ClientExpiry))
	b.replyOK(s, f, &wire.ClientHeartbeatResponse{HeartbeatV2: true, SubChange: subChange})
}

// checkHeartbeat returns why a heartbeat is refused as a whole.
func (b *Broker) checkHeartbeat(d *wire.HeartbeatData) *refusal {
	if d.ClientID == "" || len(d.ClientID) > maxClientID {
		return &refusal{wire.CodeInvalidParameter, fmt.Sprintf("clientID of %d bytes, want 1 to %d", len(d.ClientID), maxClientID)}
	}
	if n := len(d.ConsumerDataSet) + len(d.ProducerDataSet); b.clients.count+n > b.o.MaxClients && !b.clients.knows(d) {
		return &refusal{wire.CodeSystemBusy, fmt.Sprintf("[OVERLOAD]system busy: this broker serves %d clients already (maxClients)", b.clients.count)}
	}
	for i := range d.ConsumerDataSet {
		c := &d.ConsumerDataSet[i]
		if why := checkGroupName(c.GroupName); why != "" {
			return &refusal{wire.CodeInvalidParameter, why}
		}
		if len(c.Subscriptions) > b.o.MaxSubscriptions {
			return &refusal{wire.CodeInvalidParameter, fmt.Sprintf("group %s subscribes %d topics, at most %d (maxSubscriptions)", c.GroupName, len(c.Subscriptions), b.o.MaxSubscriptions)}
		}
		for j := range c.Subscriptions {
			if why := checkTopicName(c.Subscriptions[j].Topic); why != "" {
				return &refusal{wire.CodeInvalidParameter, "group " + c.GroupName + ": " + why}
			}
		}
	}
	for _, p := range d.ProducerDataSet {
		if p.GroupName == "" || len(p.GroupName) > maxSystemTopicName {
			return &refusal{wire.CodeInvalidParameter, fmt.Sprintf("producer group of %d bytes, want 1 to %d", len(p.GroupName), maxSystemTopicName)}
		}
	}
	return nil
}

// knows reports whether a heartbeat only refreshes what is registered.
func (t *clientTable) knows(d *wire.HeartbeatData) bool {
	for i := range d.ConsumerDataSet {
		g := t.consumers[d.ConsumerDataSet[i].GroupName]
		if g == nil {
			return false
		}
		if _, ok := g.members.find(d.ClientID); !ok {
			return false
		}
	}
	for _, p := range d.ProducerDataSet {
		g := t.producers[p.GroupName]
		if g == nil {
			return false
		}
		if _, ok := g.members.find(d.ClientID); !ok {
			return false
		}
	}
	return true
}

// enterConsumer registers a client in a consumer group. It reports whether the
// client has to send its full subscriptions: it left them out, and this broker
// does not hold the ones it means.
func (b *Broker) enterConsumer(m member, d *wire.ConsumerData, withoutSub bool) (subChange bool) {
	if _, ok := b.group(d.GroupName); !ok {
		return false // skipped silently (trap 40)
	}
	b.wishConsumer(d.GroupName)
	t := &b.clients
	g := t.consumers[d.GroupName]
	if g == nil {
		g = &consumerGroup{}
		t.consumers[d.GroupName] = g
	}
	g.consumeType, g.model, g.from = d.ConsumeType, d.MessageModel, d.ConsumeFromWhere
	if withoutSub {
		i, known := g.members.find(m.clientID)
		subChange = !known || g.members[i].fingerprint != m.fingerprint
		if subChange {
			m.fingerprint = 0 // not confirmed before the full form came
		}
	} else if g.subscribe(d.Subscriptions) {
		t.change(d.GroupName)
	}
	if t.enter(&g.members, m, registration{group: d.GroupName, clientID: m.clientID}) {
		t.change(d.GroupName)
	}
	return subChange
}

func (b *Broker) enterProducer(m member, group string) {
	t := &b.clients
	g := t.producers[group]
	if g == nil {
		g = &producerGroup{}
		t.producers[group] = g
	}
	t.enter(&g.members, m, registration{group: group, clientID: m.clientID, producer: true})
}

// serveUnregister answers code 35.
func (b *Broker) serveUnregister(now node.Now, s node.SessionID, f *wire.Frame) {
	var h wire.UnregisterClientRequest
	if !b.header(s, f, &h) {
		return
	}
	for _, r := range [...]registration{{h.ProducerGroup, h.ClientID, true}, {h.ConsumerGroup, h.ClientID, false}} {
		if r.group != "" {
			b.clients.leave(r, s)
			b.clients.forget(s, r)
		}
	}
	b.replyOK(s, f, nil)
}

// serveConsumerList answers code 38.
func (b *Broker) serveConsumerList(s node.SessionID, f *wire.Frame) {
	var h wire.ConsumerGroupRequest
	if !b.header(s, f, &h) {
		return
	}
	g := b.clients.consumers[h.ConsumerGroup]
	if g == nil {
		b.reject(s, f, wire.CodeSystemError, "no consumer for this group, "+h.ConsumerGroup)
		return
	}
	out := wire.ConsumerList{}
	for _, m := range g.members {
		out.ConsumerIDs = append(out.ConsumerIDs, m.clientID)
	}
	b.replyBody(s, f, out)
}

// serveCheckClient answers code 46: may a consumer use this expression.
func (b *Broker) serveCheckClient(s node.SessionID, f *wire.Frame) {
	var body wire.CheckClientRequest
	if !b.body(s, f, &body) {
		return
	}
	if d := body.Subscription; d != nil {
		if d.ExpressionType == wire.ExpressionSQL92 {
			b.reject(s, f, wire.CodeSystemError, sqlRefused)
			return
		}
		if _, why := filterOf(d); why != "" || !tagExpression(d.ExpressionType) {
			b.reject(s, f, wire.CodeSubscriptionParseFailed, "the expression "+quoteShort(d.SubString)+" of type "+quoteShort(d.ExpressionType)+" does not compile "+why)
			return
		}
	}
	b.replyOK(s, f, nil)
}

// connections lists members as admin tools show them.
func (m members) connections() []wire.Connection {
	var out []wire.Connection
	for _, x := range m {
		out = append(out, wire.Connection{ClientAddr: x.addr, ClientID: x.clientID, Language: x.language, Version: x.version})
	}
	return out
}

// serveConsumerConnections answers code 203.
func (b *Broker) serveConsumerConnections(s node.SessionID, f *wire.Frame) {
	var h wire.ConsumerGroupRequest
	if !b.header(s, f, &h) {
		return
	}
	g := b.clients.consumers[h.ConsumerGroup]
	if g == nil {
		b.reject(s, f, wire.CodeConsumerNotOnline, "the consumer group["+h.ConsumerGroup+"] not online")
		return
	}
	out := wire.ConsumerConnection{ConnectionSet: g.members.connections(), ConsumeFromWhere: g.from, ConsumeType: g.consumeType,
		MessageModel: g.model, SubscriptionTable: map[string]wire.SubscriptionData{}}
	for _, sub := range g.subs {
		out.SubscriptionTable[sub.data.Topic] = sub.data
	}
	b.replyBody(s, f, out)
}

// serveProducerConnections answers code 204.
func (b *Broker) serveProducerConnections(s node.SessionID, f *wire.Frame) {
	var h wire.ProducerGroupRequest
	if !b.header(s, f, &h) {
		return
	}
	g := b.clients.producers[h.ProducerGroup]
	if g == nil {
		b.reject(s, f, wire.CodeSystemError, "the producer group["+h.ProducerGroup+"] not exist")
		return
	}
	b.replyBody(s, f, wire.ProducerConnection{ConnectionSet: g.members.connections()})
}
