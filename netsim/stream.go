package netsim

import (
	"lockstep/internal/decide"
	"lockstep/node"
	"lockstep/node/wire"
)

// sideState is what one end knows of its stream.
type sideState uint8

const (
	none       sideState = iota // acceptor: nothing heard yet
	connecting                  // dialler: SYN sent
	open
	gone // this end is closed, dead or gave up
)

// packetKind is what travels.
type packetKind uint8

const (
	pkSyn packetKind = iota
	pkSynAck
	pkRefused // answer of a kernel without that listener
	pkData
	pkFin
	pkRst
)

// headerBytes is the size of a packet without payload, for bandwidth.
const headerBytes = 64

// packet is one thing in flight. Data travels as a frame, or as bytes when the
// codec is in the loop.
type packet struct {
	kind   packetKind
	size   int64
	arrive int64
	frame  *wire.Frame
	bytes  []byte
	again  bool // a reset that answers data, which its sender repeats until it hears
}

// pipe is one direction of a stream: a queue in which nothing overtakes.
type pipe struct {
	queue  []packet
	head   int
	queued int64 // bytes in the queue
	last   int64 // arrival of the newest packet
	hold   int64 // nothing arrives before: retransmission after a cut
	armed  int64 // time of the outstanding Fire, -1 none
	unread int64 // bytes delivered and not yet Read
	// waiting: the receive buffer is full.
	waiting bool
	// black: a half-open stream; nothing passes this way any more.
	black bool
	// ackless is how many bytes may still pass while the way back is cut: no
	// acknowledgement returns, so the window closes.
	ackless int64
	// stuck is since when the head waits behind a cut, -1 when it does not.
	stuck  int64
	counts []kindCount
	reader reader
}

// kindCount counts the frames of one kind in one direction.
type kindCount struct {
	kind int32
	n    int64
}

// stream is one connection. Side 0 dialled, side 1 accepted; pipe i carries
// what side i sends.
type stream struct {
	used    bool
	serial  uint32 // grows with each reuse of the slot
	node    [2]int
	session [2]node.SessionID
	side    [2]sideState
	pipe    [2]pipe
	ordinal uint32 // of the dials from node 0 to node 1
	link    wire.Link
	addr    string
	dialEnd int64
	cut     int64 // since when the path is cut either way, -1 when it is not
	timer   int64 // time of the outstanding timeout check, -1 none
	probe   bool  // a keep-alive is due after the peer's host came back
}

// References of Fire: stream index * 4 + one of these; 0 and 1 are pipes.
const (
	refTimeout = 2
	refDial    = 3
)

// newStream takes a free slot.
func (n *Net) newStream() uint32 {
	var id uint32
	if k := len(n.free); k > 0 {
		id, n.free = n.free[k-1], n.free[:k-1]
	} else {
		id = uint32(len(n.streams))
		n.streams = append(n.streams, stream{})
	}
	s := &n.streams[id]
	serial := s.serial + 1
	q0, q1, c0, c1 := s.pipe[0].queue[:0], s.pipe[1].queue[:0], s.pipe[0].counts[:0], s.pipe[1].counts[:0]
	*s = stream{used: true, serial: serial, cut: -1, timer: -1}
	s.pipe[0] = pipe{queue: q0, counts: c0, armed: -1, stuck: -1}
	s.pipe[1] = pipe{queue: q1, counts: c1, armed: -1, stuck: -1}
	return id
}

// release frees the slot once no end and no packet is left that matters.
func (n *Net) release(id uint32) {
	s := &n.streams[id]
	if !s.used || s.side[0] != gone || s.side[1] != gone && s.side[1] != none {
		return
	}
	if s.side[1] == none && s.pipe[0].head < len(s.pipe[0].queue) {
		return // the SYN may still arrive
	}
	s.used = false
	for i := range s.pipe {
		n.drop(&s.pipe[i])
	}
	n.free = append(n.free, id)
}

// drop empties a pipe.
func (n *Net) drop(p *pipe) {
	clear(p.queue)
	p.queue, p.head, p.queued, p.stuck = p.queue[:0], 0, 0, -1
}

// end makes one side gone and tells its machine why.
func (n *Net) end(id uint32, side int, reason string) {
	s := &n.streams[id]
	if s.side[side] == gone || s.side[side] == none {
		s.side[side] = gone
		return
	}
	s.side[side] = gone
	e := n.nodes[s.node[side]]
	delete(e.sessions, s.session[side])
	n.world.Deliver(Fact{Kind: SessionDown, Node: s.node[side], Session: s.session[side], Reason: reason,
		stream: id, serial: s.serial, side: uint8(side)})
}

// push queues a packet that is not a machine's frame.
func (n *Net) push(now int64, id uint32, side int, pk packet) {
	s := &n.streams[id]
	n.pushAfter(now, id, side, pk, n.rawKey(s, side, kindControl+int32(pk.kind)))
}

// pushAfter queues a packet with the latency that its key draws.
func (n *Net) pushAfter(now int64, id uint32, side int, pk packet, k decide.Key) {
	s := &n.streams[id]
	p := &s.pipe[side]
	from, to := s.node[side], s.node[1-side]
	l := n.link(from, to)
	at := n.depart(now, from, l, pk.size) + l.extra + n.delay(from, to, k) + n.lost(l, k)
	pk.arrive = max(at, p.last)
	p.last = pk.arrive
	p.queue = append(p.queue, pk)
	p.queued += pk.size
	n.arm(now, id, side)
}

// depart is when the packet leaves the node: the sending side and the link
// carry one byte after the other.
func (n *Net) depart(now int64, from int, l *link, size int64) int64 {
	if n.opts.Bandwidth > 0 {
		e := n.nodes[from]
		e.nicFree = max(e.nicFree, now) + size*1e9/n.opts.Bandwidth
		now = e.nicFree
	}
	if l.bandwidth > 0 {
		l.free = max(l.free, now) + size*1e9/l.bandwidth
		now = l.free
	}
	return now
}

// arm makes sure that the head of the pipe will be looked at in time.
func (n *Net) arm(now int64, id uint32, side int) {
	p := &n.streams[id].pipe[side]
	if p.head == len(p.queue) || p.waiting {
		return
	}
	at := max(p.queue[p.head].arrive, p.hold, now)
	if p.armed >= now && p.armed <= at {
		return
	}
	p.armed = at
	n.world.Schedule(at, id<<2|uint32(side))
}

// Fire continues what Schedule asked for. A reference that outlived its reason
// is ignored; Fire reports whether anything was due.
func (n *Net) Fire(now int64, ref uint32) bool {
	id := ref >> 2
	s := &n.streams[id]
	if !s.used {
		return false
	}
	switch ref & 3 {
	case refTimeout:
		return n.checkTimeout(now, id)
	case refDial:
		if s.side[0] != connecting || s.dialEnd != now {
			return false
		}
		n.end(id, 0, "dial timed out")
		if p := &s.pipe[0]; p.head < len(p.queue) && p.queue[p.head].arrive <= now {
			n.drop(p) // a SYN that was lost on the way is not sent again
		}
		n.release(id)
		return true
	}
	side := int(ref & 3)
	if s.pipe[side].armed != now {
		return false
	}
	s.pipe[side].armed = -1
	return n.flow(now, id, side)
}

// flow delivers what has arrived on a pipe, in order, until something holds it.
func (n *Net) flow(now int64, id uint32, side int) bool {
	serial, any := n.streams[id].serial, false
	for {
		s := &n.streams[id]
		p := &s.pipe[side]
		if !s.used || s.serial != serial || p.head == len(p.queue) {
			return any
		}
		pk := p.queue[p.head]
		if max(pk.arrive, p.hold) > now {
			n.arm(now, id, side)
			return any
		}
		if n.blocked(s, side, pk.size) {
			if pk.kind == pkRst && !pk.again && n.link(s.node[side], s.node[1-side]).stall == 0 {
				n.loseReset(now, id, side)
			} else {
				n.stuck(now, id, side)
			}
			return any
		}
		if pk.kind == pkData && p.unread >= n.opts.ReceiveBuffer && s.side[1-side] == open {
			p.waiting = true
			return any
		}
		n.pop(s, side, pk.size)
		n.arrive(now, id, side, &pk)
		any = true
	}
}

// loseReset drops a reset that met a cut: it is sent once. The peer finds out by
// its next data or keep-alive.
func (n *Net) loseReset(now int64, id uint32, side int) {
	s := &n.streams[id]
	n.drop(&s.pipe[side])
	if s.side[side] == open { // from the middle: this end has its own
		return
	}
	s.probe = true
	n.timeoutAt(now+n.opts.KeepAlive, id)
}

// pop takes the head off a pipe.
func (n *Net) pop(s *stream, side int, size int64) {
	p := &s.pipe[side]
	p.queue[p.head] = packet{}
	p.head++
	p.queued -= size
	p.stuck = -1
	if n.link(s.node[1-side], s.node[side]).cut > 0 {
		p.ackless -= size
	}
	if p.head == len(p.queue) {
		p.queue, p.head = p.queue[:0], 0
	} else if p.head >= 256 && p.head*2 >= len(p.queue) {
		k := copy(p.queue, p.queue[p.head:])
		clear(p.queue[k:])
		p.queue, p.head = p.queue[:k], 0
	}
}
