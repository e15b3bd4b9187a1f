package broker

import (
	"hash/crc32"

	"lockstep/node"
	"lockstep/node/wire"
)

// namesrvs keeps this broker registered with every name server: at each period, and
// at once when its role or its topics change, so that a route never waits for the
// period after a failover. A name server that is down costs the others nothing.
type namesrvs struct {
	conns []*namesrvConn
	body  []byte // the registration body of generation
	built builtBody
	leave bool // unregister and register no more
}

// builtBody says what the cached body was made of.
type builtBody struct {
	valid      bool
	generation uint64
	roleID     int64
}

type namesrvConn struct {
	uplink     // next is the next registration when up
	call       call
	registered bool // an answer of success is known to this session
}

func (n *namesrvs) start(addrs []string) {
	for _, a := range addrs {
		n.conns = append(n.conns, &namesrvConn{uplink: uplink{addr: a}})
	}
}

// hurry makes registrations due now.
func (n *namesrvs) hurry() {
	for _, c := range n.conns {
		if c.up {
			c.next = 0
		}
	}
}

func (n *namesrvs) conn(s node.SessionID) *namesrvConn {
	for _, c := range n.conns {
		if c.has(s) {
			return c
		}
	}
	return nil
}

// settleNamesrvs registers where it is due. A broker without a role is nobody's
// route: it does not register at all (fenced).
func (b *Broker) settleNamesrvs() {
	n := &b.ns
	if gen := b.registrationGeneration(); n.built.valid && n.built.generation != gen && b.listed() {
		n.hurry()
	}
	for _, c := range n.conns {
		if n.leave {
			continue
		}
		b.dialUplink(&c.uplink, sessionNamesrv, b.o.ControllerRequestTimeout)
		if c.up && b.listed() && b.now.Mono >= c.next {
			b.registerWith(c)
		}
	}
}

// listed reports whether clients should find this broker: it has taken up a role.
func (b *Broker) listed() bool { return b.role.serving() || b.role.following() }

func (b *Broker) registerWith(c *namesrvConn) {
	n := &b.ns
	c.next = b.now.Mono.Add(b.o.RegisterNameServerPeriod)
	want := builtBody{true, b.registrationGeneration(), b.roleID()}
	if n.built != want {
		n.built = want
		n.body = wire.MarshalBody(wire.RegisterBrokerBody{FilterServerList: []string{}, Topics: b.topicTable()})
	}
	c.call.begin(b.nextOpaque(), c.session, b.now.Mono)
	c.ask(b.now.Mono)
	b.request(c.session, c.call.opaque, wire.ReqRegisterBroker, wire.RegisterBrokerRequest{
		BrokerName: b.o.BrokerName, BrokerAddr: b.o.Address, ClusterName: b.o.BrokerClusterName, HAServerAddr: b.o.HAAddress,
		BrokerID: b.roleID(), BodyCRC32: int32(crc32.ChecksumIEEE(n.body) & 0x7fffffff),
		Identity: b.identity(), MasterEpoch: b.role.epoch, ControllerID: b.id.Broker,
	}, n.body)
}

// registerAnswered takes a name server's answer; one that refused is asked again
// soon, because its reason is usually a moment old.
func (b *Broker) registerAnswered(c *namesrvConn, f *wire.Frame) {
	c.asked = 0
	if !c.call.answers(c.session, f) {
		return
	}
	c.call.open = false
	c.registered = f.Head.Code == wire.CodeSuccess
	if !c.registered {
		c.next = min(c.next, b.now.Mono.Add(b.o.RedialPause))
	}
}

// unregister takes this broker out of the routes before it stops.
func (b *Broker) unregister() {
	b.ns.leave = true
	for _, c := range b.ns.conns {
		if c.up {
			b.request(c.session, b.nextOpaque(), wire.ReqUnregisterBroker, wire.UnregisterBrokerRequest{
				BrokerName: b.o.BrokerName, BrokerAddr: b.o.Address, ClusterName: b.o.BrokerClusterName, BrokerID: b.roleID(),
				Identity: b.identity(), MasterEpoch: b.role.epoch,
			}, nil)
		}
	}
}

// registrarDeadline is when controllers or name servers are due.
func (b *Broker) registrarDeadline() node.Time {
	g, d := &b.reg, node.Never
	for _, c := range g.conns {
		switch {
		case c.session == 0:
			d = min(d, c.next)
		case c.up && b.id.Broker > 0 && g.registered:
			d = min(d, c.next)
		}
		d = min(d, c.spareDue(b.o.controllerSilence()))
	}
	d = min(d, g.nextLookup, g.main.deadline(b.o.ControllerRequestTimeout), g.poll.deadline(b.o.ControllerRequestTimeout))
	if g.leaderSession() != 0 && !b.failed() {
		if !g.main.open && b.stepWaitsForTime() {
			d = min(d, g.nextStep)
		}
		if !g.poll.open && g.step >= stepElect {
			d = min(d, g.nextPoll)
		}
	}
	for _, c := range b.ns.conns {
		if b.ns.leave {
			break
		}
		if c.session == 0 || c.up && b.listed() {
			d = min(d, c.next)
		}
		d = min(d, c.spareDue(b.o.ControllerRequestTimeout))
	}
	return d
}

// stepWaitsForTime reports whether the step's request is only waiting for its
// pause: the others wait for a file, a poll or another condition.
func (b *Broker) stepWaitsForTime() bool {
	switch b.reg.step {
	case stepNextID, stepApplyID:
		return true
	case stepRegister:
		return b.raising == 0
	case stepElect:
		return b.promotable() && !b.o.AsyncLearner
	}
	return false
}
