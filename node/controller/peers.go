package controller

import (
	"cmp"
	"slices"

	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/internal/invariant"
	"lockstep/internal/prng"
	"lockstep/node"
	"lockstep/node/wire"
)

// peer is one configured other controller and the session dialled to it.
type peer struct {
	Peer
	number  uint64 // by its configured id; its raft id differs once it was re-added
	out     node.SessionID
	up      bool       // the dialled stream stands
	dialAt  node.Time  // not before
	said    hello      // newest hello sent on out
	heard   hello      // newest welcome on out
	welcome bool       // heard answers the newest hello
	claims  hello      // newest hello that it said itself and that was accepted
	refused refusal    // newest refusal; reason "" when the last answer was a welcome
	againAt node.Time  // a refused hello is repeated then
	objects string     // why this controller refused the peer last, for its event
	spokeAt node.Time  // newest raft message of the member it is
	rejoin  ha.StoreID // the new store of a peer that lost its own and asks to be taken in anew; "" none
}

// session is one stream that is up.
type session struct {
	link   wire.Link
	addr   string
	peer   *peer  // of a raft session whose far end is known
	dialed bool   // this node dialled
	raftID uint64 // of an inbound raft session, once verified
}

func (c *Controller) addPeers() {
	for _, p := range c.o.Peers {
		if p.Node == c.o.SelfID {
			continue
		}
		n, _ := raftID(p.Node)
		c.peers = append(c.peers, &peer{Peer: p, number: n})
	}
	slices.SortFunc(c.peers, func(a, b *peer) int { return cmp.Compare(a.number, b.number) })
}

// listHash tells two configurations of the same controllers apart: only
// controllers that mean the same cluster may initialise it together.
func (c *Controller) listHash() uint64 {
	nodes := make([]string, 0, len(c.o.Peers))
	for _, p := range c.o.Peers {
		nodes = append(nodes, p.Node)
	}
	slices.Sort(nodes)
	h := uint64(len(nodes))
	for _, n := range nodes {
		h = prng.Hash(h, prng.HashString(n))
	}
	return h
}

func (c *Controller) peerOf(nodeID string) *peer {
	for _, p := range c.peers {
		if p.Node == nodeID {
			return p
		}
	}
	return nil
}

// cluster is the cluster this controller belongs to, "" for none.
func (c *Controller) cluster() string {
	if c.state.Cluster != "" {
		return c.state.Cluster
	}
	return c.identity.Cluster
}

func (c *Controller) helloTo(p *peer) hello {
	h := hello{group: c.o.ControllerGroup, list: c.list, node: c.o.SelfID, to: p.Node, store: c.identity.Store}
	if c.phase == phaseMember {
		h.cluster, h.raftID = c.cluster(), c.raftID
	} else {
		h.rejoin = c.o.Rejoin
	}
	return h
}

// settlePeers keeps a session to every peer and says hello again whenever what it
// would say has changed.
func (c *Controller) settlePeers(now node.Now) {
	for _, p := range c.peers {
		if p.out == 0 && now.Mono >= p.dialAt {
			c.dials++
			p.out = node.Dialled | node.SessionID(c.dials)
			c.out.Dials = append(c.out.Dials, node.Dial{Session: p.out, Link: wire.Raft, Addr: p.Raft})
		}
		h := c.helloTo(p)
		again := p.refused.reason != "" || p.outdated()
		if p.up && (p.said != h || again && now.Mono >= p.againAt) {
			p.againAt = now.Mono.Add(2 * c.o.RedialPause)
			c.sayHello(p, h)
		}
	}
}

// outdated reports whether the peer says of itself, on its own session, other than
// it answered here: it has become a member since, or the answer was on its way while
// it did. Its answer decides whether it gets raft messages, so it is asked again.
func (p *peer) outdated() bool {
	return p.welcome && p.claims.node != "" && !p.heard.same(p.claims)
}

// same reports whether both hellos are of one life of one member.
func (h hello) same(x hello) bool {
	return h.cluster == x.cluster && h.raftID == x.raftID && h.store == x.store
}

func (c *Controller) sayHello(p *peer, h hello) {
	p.said, p.welcome = h, false
	c.out.Send(p.out, peerFrame(frameHello, h.encode()))
}

// SessionUp records a stream.
func (c *Controller) SessionUp(now node.Now, id node.SessionID, far node.Peer) {
	s := &session{link: far.Link, addr: far.Addr, dialed: id&node.Dialled != 0}
	c.sessions[id] = s
	if !s.dialed {
		return
	}
	for _, p := range c.peers {
		if p.out == id {
			s.peer, p.up, p.said = p, true, hello{}
			return
		}
	}
	c.noticeUp(id)
}

// SessionDown forgets a stream. A heartbeat session that closed starts the grace of
// its brokers; it is no failure by itself.
func (c *Controller) SessionDown(now node.Now, id node.SessionID, reason string) {
	delete(c.sessions, id)
	if id&node.Dialled != 0 {
		for _, p := range c.peers {
			if p.out == id {
				p.out, p.up, p.welcome, p.said, p.heard = 0, false, false, hello{}, hello{}
				p.dialAt = now.Mono.Add(c.o.RedialPause)
				return
			}
		}
		c.noticeDown(now, id)
		return
	}
	c.brokerSessionDown(now, id)
}

// Receive takes a frame of a peer, or a request.
func (c *Controller) Receive(now node.Now, id node.SessionID, f *wire.Frame) {
	s := c.sessions[id]
	if s == nil || c.exit != nil {
		return
	}
	if s.link == wire.Remoting {
		if !f.Head.Response() {
			c.request(now, id, f)
		}
		return
	}
	if err := c.peerFrame(now, id, s, f); err != nil {
		c.emit(event.Event{Kind: event.FrameRejected, Text: err.Error()})
		c.hangUp(id)
	}
}

// hangUp closes a session; SessionDown follows.
func (c *Controller) hangUp(id node.SessionID) { c.out.Closes = append(c.out.Closes, id) }

func (c *Controller) peerFrame(now node.Now, id node.SessionID, s *session, f *wire.Frame) error {
	kind, payload, err := openPeerFrame(f)
	if err != nil {
		return err
	}
	switch {
	case kind == frameHello && !s.dialed:
		h, err := decodeHello(payload)
		if err != nil {
			return err
		}
		return c.greeted(id, s, h)
	case kind == frameWelcome && s.dialed && s.peer != nil:
		h, err := decodeHello(payload)
		if err != nil {
			return err
		}
		c.welcomed(s.peer, h)
		return nil
	case kind == frameRefuse && s.dialed && s.peer != nil:
		x, err := decodeRefusal(payload)
		if err != nil {
			return err
		}
		s.peer.refused, s.peer.welcome = x, false
		return nil
	case kind == frameRaft && !s.dialed && s.raftID != 0 && c.rn != nil:
		s.peer.spokeAt = now.Mono
		return c.receiveRaft(s, payload)
	case kind == frameRaft && !s.dialed:
		return errNotGreeted
	}
	return errUnexpected
}

// peerError is a fixed reason to close a session between controllers.
type peerError string

// Error implements error.
func (e peerError) Error() string { return string(e) }

const (
	errNotGreeted = peerError("raft message before a hello was accepted")
	errUnexpected = peerError("controller frame of a kind that does not belong here")
)

// greeted answers a hello on an inbound session.
func (c *Controller) greeted(id node.SessionID, s *session, h hello) error {
	s.raftID = 0
	if x := c.objection(h); x.reason != "" {
		if p := c.peerOf(h.node); p != nil {
			p.rejoin = ""
			if x.lost && h.rejoin {
				p.rejoin = h.store
			}
		}
		c.out.Send(id, peerFrame(frameRefuse, x.encode()))
		if p := c.peerOf(h.node); p == nil || p.objects != x.reason {
			c.emit(event.Event{Kind: event.HandshakeRefused, Text: "controller " + h.node + ": " + x.reason})
			if p != nil {
				p.objects = x.reason
			}
		}
		return nil
	}
	p := c.peerOf(h.node)
	invariant.That(p != nil, "hello of %q passed without a peer", h.node)
	s.peer, p.objects, p.rejoin, p.claims = p, "", "", h
	answer := c.helloTo(p)
	if c.phase == phaseMember {
		if v, ok := c.state.voterOf(h.node); ok && v.Store == h.store {
			answer.yours = v.RaftID
		}
		if h.cluster == c.cluster() && h.raftID != 0 {
			s.raftID = h.raftID
		}
	}
	c.out.Send(id, peerFrame(frameWelcome, answer.encode()))
	if p.up && p.outdated() {
		c.sayHello(p, c.helloTo(p)) // it is somebody else than when it was last asked
	}
	return nil
}

// objection says why a controller is refused; reason "" accepts it.
func (c *Controller) objection(h hello) refusal {
	x := refusal{}
	if c.phase == phaseMember {
		x.cluster = c.cluster()
	}
	v, known := c.state.voterOf(h.node)
	switch {
	case h.group != c.o.ControllerGroup:
		x.reason = "it belongs to controller group " + h.group + ", this is " + c.o.ControllerGroup
	case h.to != c.o.SelfID:
		x.reason = "it looks for controller " + h.to + " and reached " + c.o.SelfID + ": check the raft addresses in controllerDLegerPeers"
	case c.peerOf(h.node) == nil:
		x.reason = "controller " + h.node + " is not in this controller's controllerDLegerPeers"
	case h.store == "" || h.store == c.identity.Store:
		x.reason = "its store is a copy of " + c.o.SelfID + "'s, or has no identity: every controller needs a store of its own"
	case c.phase == phaseEmpty && h.cluster == "" && h.list != c.list:
		x.reason = "it is configured with other controllers: controllerDLegerPeers must name the same ids everywhere"
	case c.phase == phaseSaving && h.cluster == "":
		x.reason = c.o.SelfID + " is being taken into a cluster right now"
	case c.phase == phaseMember && h.cluster != "" && h.cluster != c.cluster():
		x.reason = "it belongs to cluster " + h.cluster + ", this is cluster " + c.cluster() + ": two clusters were initialised; move the store of the wrong one away"
	case c.phase == phaseMember && len(c.state.Voters) > 0 && !known:
		x.reason = "controller " + h.node + " is not a member of cluster " + c.cluster()
	case c.phase == phaseMember && known && v.Store != h.store:
		x.lost = true
		x.reason = "controller " + h.node + " came back without its store and lost its vote: " + readd
	case c.phase == phaseMember && known && h.raftID != 0 && v.RaftID != h.raftID:
		x.reason = "controller " + h.node + " claims another member number than the committed one"
	}
	return x
}

// welcomed records the answer to our hello.
func (c *Controller) welcomed(p *peer, h hello) {
	if h.node != p.Node || h.to != c.o.SelfID || h.group != c.o.ControllerGroup {
		p.refused, p.welcome = refusal{reason: "another controller answers at " + p.Raft + ": " + h.node}, false
		return
	}
	p.heard, p.welcome, p.refused = h, true, refusal{}
}

// sendPeer sends a raft message on the dialled session; false when there is none
// that the peer has accepted as a fellow member.
func (c *Controller) sendPeer(to uint64, body []byte) bool {
	p := c.peerWith(to)
	if p == nil || !p.up || !p.welcome || p.heard.cluster != c.cluster() || p.heard.cluster == "" {
		return false
	}
	c.out.Send(p.out, peerFrame(frameRaft, body))
	return true
}

// peerWith finds the peer of a raft id: by the committed voters, or before their
// list is known by what the peer itself says.
func (c *Controller) peerWith(id uint64) *peer {
	if v, ok := c.state.voter(id); ok {
		return c.peerOf(v.Node)
	}
	for _, p := range c.peers {
		if p.welcome && p.heard.raftID == id {
			return p
		}
	}
	return nil
}
