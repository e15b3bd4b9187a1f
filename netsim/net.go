package netsim

import (
	"slices"
	"strings"

	"lockstep/internal/decide"
	"lockstep/internal/invariant"
	"lockstep/node"
	"lockstep/node/wire"
)

// World is what a Net needs of the simulation around it.
type World interface {
	// Schedule asks for Fire(at, ref).
	Schedule(at int64, ref uint32)
	// Deliver hands a fact to the kernel of its node. It must not call the Net back
	// in the same call.
	Deliver(f Fact)
}

// FactKind says what a node's kernel reports.
type FactKind uint8

// The facts.
const (
	SessionUp FactKind = 1 + iota
	Receive
	SessionDown
)

// Fact is one report for one node.
type Fact struct {
	Kind    FactKind
	Node    int // index of Add
	Session node.SessionID
	Peer    node.Peer   // SessionUp
	Frame   *wire.Frame // Receive: the receiver's own copy
	Reason  string      // SessionDown
	Bytes   int64       // Receive: counts against the receive buffer until Read
	stream  uint32
	serial  uint32
	side    uint8
}

// Stats count what a net did.
type Stats struct {
	Frames      uint64 // sent by machines
	Delivered   uint64
	Dropped     uint64 // sent on sessions that were gone
	Resets      uint64 // streams that ended by a reset
	Corrupted   uint64 // frames with a flipped bit
	Undecodable uint64 // frames that did not decode
}

// endpoint is one node's kernel.
type endpoint struct {
	name, host, zone string
	actor            decide.Actor
	// up: a process runs and its listeners are open.
	up bool
	// deaf > 0: no packet is answered or taken (host silent, suspended).
	deaf      int
	silent    bool // the host lost its kernel state; HostUp ends it
	listeners []node.Listener
	sessions  map[node.SessionID]uint32 // stream index; looked up, never ranged over
	live      []uint32                  // streams of the node in the order they came, pruned lazily
	accepted  node.SessionID            // last id given to an accepted stream of this life
	dials     []uint32                  // dials made so far, by target: ordinals of sessions
	enc       wire.HeaderEncoding
	nicFree   int64 // when the sending side of the node is free again
}

// Net is a network of nodes.
type Net struct {
	opts    Options
	world   World
	decider *decide.Decider
	nodes   []*endpoint
	links   []link // from*len(nodes)+to
	streams []stream
	free    []uint32
	arena   arena
	stats   Stats
}

// New returns an empty network.
func New(opts Options, world World, decider *decide.Decider) *Net {
	return &Net{opts: opts, world: world, decider: decider}
}

// Add makes a node and returns its index, counted from 0. All nodes are added
// before the first dial.
func (n *Net) Add(name, host, zone string) int {
	invariant.That(len(n.streams) == 0, "node %s added to a network in use", name)
	n.nodes = append(n.nodes, &endpoint{name: name, host: host, zone: zone, actor: n.decider.Actor(name),
		sessions: map[node.SessionID]uint32{}})
	n.links = make([]link, len(n.nodes)*len(n.nodes))
	for _, e := range n.nodes {
		e.dials = make([]uint32, len(n.nodes))
	}
	return len(n.nodes) - 1
}

// Stats returns the counts so far.
func (n *Net) Stats() Stats { return n.stats }

// Up opens the listeners of a new life of the node.
func (n *Net) Up(id int, listeners []node.Listener) {
	e := n.nodes[id]
	e.up, e.accepted = true, 0
	if n.opts.Codec {
		e.enc = wire.HeaderEncoding(n.decider.Decide(siteBinary, decide.Key{From: e.actor}, decide.Chance(300)))
	}
	e.listeners = slices.Clone(listeners)
}

// resolve finds the node an address leads to.
func (n *Net) resolve(addr string) int {
	host, _, _ := strings.Cut(addr, ":")
	for i, e := range n.nodes {
		if e.host == host {
			return i
		}
	}
	return -1
}

// listener finds the index of the listener of an address, -1 when closed.
func (e *endpoint) listener(addr string) int {
	return slices.IndexFunc(e.listeners, func(l node.Listener) bool { return l.Addr == addr })
}

// Dial opens a stream for session of the node. SessionUp or SessionDown
// follows, whatever happens, unless the node dies first.
func (n *Net) Dial(now int64, from int, d node.Dial) {
	e := n.nodes[from]
	invariant.That(d.Session&node.Dialled != 0, "%s dials with session %x, which lacks the Dialled bit", e.name, uint64(d.Session))
	_, used := e.sessions[d.Session]
	invariant.That(!used, "%s dials with session %x, which is in use", e.name, uint64(d.Session))
	to := n.resolve(d.Addr)
	if to < 0 {
		n.world.Deliver(Fact{Kind: SessionDown, Node: from, Session: d.Session, Reason: "no such host: " + d.Addr})
		return
	}
	e.dials[to]++
	if len(e.live) > 64+4*len(e.sessions) {
		n.prune(from)
	}
	id := n.newStream()
	s := &n.streams[id]
	s.node, s.ordinal, s.link, s.addr = [2]int{from, to}, e.dials[to], d.Link, d.Addr
	s.session[0], s.side[0] = d.Session, connecting
	e.sessions[d.Session] = id
	e.live = append(e.live, id)
	n.push(now, id, 0, packet{kind: pkSyn, size: headerBytes})
	s.dialEnd = now + n.opts.DialTimeout
	n.world.Schedule(s.dialEnd, id<<2|refDial)
}

// End names one end of an open stream, until the next call that could close it.
type End struct {
	stream uint32
	side   int
}

// Find returns the end of the node's session if it is open for sending.
func (n *Net) Find(from int, session node.SessionID) (e End, ok bool) {
	id, ok := n.nodes[from].sessions[session]
	if !ok {
		return End{}, false
	}
	side := n.sideOf(id, from, session)
	return End{id, side}, n.streams[id].side[side] == open
}

// Send puts a frame on a session. A frame for a session that is not open is
// dropped and counted; Send reports whether it left.
func (n *Net) Send(now int64, from int, session node.SessionID, f *wire.Frame) bool {
	e, ok := n.Find(from, session)
	if !ok {
		n.stats.Dropped++
		return false
	}
	n.SendOn(now, e, f)
	return true
}

// SendOn puts a frame on an open end.
func (n *Net) SendOn(now int64, e End, f *wire.Frame) {
	n.stats.Frames++
	id, side := e.stream, e.side
	s := &n.streams[id]
	p := &s.pipe[side]
	pk := packet{kind: pkData, size: frameBytes(f)}
	k := n.key(s, side, f)
	if l := n.link(s.node[side], s.node[1-side]); n.opts.Codec || l.corrupt > 0 {
		if why := n.encode(&pk, f, n.nodes[s.node[side]], k, l.corrupt); why != "" {
			n.end(id, side, "frame cannot be encoded: "+why)
			n.cutPipe(now, id, side)
			return
		}
	} else {
		pk.frame = n.arena.copyFrame(f)
	}
	n.pushAfter(now, id, side, pk, k)
	if p.queued > n.opts.SendBuffer {
		n.breakStream(now, id, "send buffer full")
	}
}

// sideOf tells which end of the stream the node's session is; a node may dial
// itself.
func (n *Net) sideOf(id uint32, from int, session node.SessionID) int {
	s := &n.streams[id]
	if s.node[0] == from && s.session[0] == session {
		return 0
	}
	return 1
}

// Close ends a session from its own side: what was sent before still arrives,
// then the peer sees the end. The closing machine gets its SessionDown too.
func (n *Net) Close(now int64, from int, session node.SessionID) {
	id, ok := n.nodes[from].sessions[session]
	if !ok {
		return
	}
	side := n.sideOf(id, from, session)
	s := &n.streams[id]
	wasOpen := s.side[side] == open
	n.end(id, side, "closed")
	if wasOpen && s.side[1-side] != gone {
		n.push(now, id, side, packet{kind: pkFin, size: headerBytes})
	} else if s.side[1-side] == connecting {
		n.push(now, id, side, packet{kind: pkRst, size: headerBytes})
	}
	n.release(id)
}

// Read gives the bytes of a received frame back to the receive buffer: the
// machine took it.
func (n *Net) Read(now int64, f *Fact) {
	s := &n.streams[f.stream]
	if s.serial != f.serial || !s.used {
		return
	}
	i := 1 - int(f.side)
	p := &s.pipe[i]
	p.unread -= f.Bytes
	if p.waiting && p.unread < n.opts.ReceiveBuffer {
		p.waiting = false
		n.arm(now, f.stream, i)
	}
}
