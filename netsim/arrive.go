package netsim

import (
	"strconv"

	"lockstep/internal/decide"
	"lockstep/node"
	"lockstep/node/wire"
)

// arrive hands one packet to the kernel of the receiving side.
func (n *Net) arrive(now int64, id uint32, side int, pk *packet) {
	s := &n.streams[id]
	r := 1 - side
	switch pk.kind {
	case pkSyn:
		n.accept(now, id)
	case pkSynAck:
		if s.side[0] != connecting {
			n.push(now, id, 0, packet{kind: pkRst, size: headerBytes})
			return
		}
		s.side[0] = open
		n.world.Deliver(Fact{Kind: SessionUp, Node: s.node[0], Session: s.session[0],
			Peer: node.Peer{Link: s.link, Addr: s.addr}, stream: id, serial: s.serial, side: 0})
	case pkRefused:
		n.end(id, 0, "connection refused")
		n.release(id)
	case pkData:
		n.data(now, id, side, pk)
	case pkFin:
		n.end(id, r, "closed by peer")
		n.drop(&s.pipe[r])
		n.release(id)
	case pkRst:
		n.stats.Resets++
		n.end(id, r, "connection reset")
		n.drop(&s.pipe[r])
		if s.side[side] == open { // it came from the middle: the other end gets its own
			n.push(now, id, r, packet{kind: pkRst, size: headerBytes})
		}
		n.release(id)
	}
}

// accept answers a SYN as the kernel of the dialled node does, whether or not
// its process is running just now.
func (n *Net) accept(now int64, id uint32) {
	s := &n.streams[id]
	e := n.nodes[s.node[1]]
	i := -1
	if e.up {
		i = e.listener(s.addr)
	}
	if i < 0 || n.link(s.node[0], s.node[1]).refuse > 0 {
		s.side[1] = gone
		n.push(now, id, 1, packet{kind: pkRefused, size: headerBytes})
		n.release(id)
		return
	}
	if len(e.live) > 64+4*len(e.sessions) {
		n.prune(s.node[1])
	}
	e.accepted++
	s.session[1], s.side[1] = e.accepted, open
	e.sessions[e.accepted] = id
	e.live = append(e.live, id)
	n.world.Deliver(Fact{Kind: SessionUp, Node: s.node[1], Session: s.session[1],
		Peer:   node.Peer{Link: e.listeners[i].Link, Addr: n.source(s), Local: s.addr},
		stream: id, serial: s.serial, side: 1})
	n.push(now, id, 1, packet{kind: pkSynAck, size: headerBytes})
}

// source is the address that the acceptor sees: the dialling host and a port of
// this stream alone, as far as ports reach.
func (n *Net) source(s *stream) string {
	port := 32768 + (uint32(s.node[1])*4096+s.ordinal)%28000
	return n.nodes[s.node[0]].host + ":" + strconv.Itoa(int(port))
}

// data gives a frame to its receiver, or answers with a reset when that end is
// gone.
func (n *Net) data(now int64, id uint32, side int, pk *packet) {
	s := &n.streams[id]
	r := 1 - side
	if s.side[r] != open {
		n.drop(&s.pipe[side])
		if s.side[side] == open {
			n.drop(&s.pipe[r])
			n.push(now, id, r, packet{kind: pkRst, size: headerBytes, again: true})
		}
		return
	}
	if reason := n.frames(s, side, pk, id); reason != "" {
		n.undecodable(now, id, r, reason)
	}
}

// frames delivers what a packet completes; it returns why the stream cannot go
// on, "" when it can.
func (n *Net) frames(s *stream, side int, pk *packet, id uint32) string {
	if pk.frame != nil && pk.frame.Link != s.link {
		return "frame of link " + pk.frame.Link.String() + " on a stream of " + s.link.String()
	}
	if pk.frame != nil && len(s.pipe[side].reader.rest) == 0 {
		n.deliver(s, side, id, pk.frame, pk.size)
		return ""
	}
	if pk.frame != nil { // behind damaged bytes: it counts as bytes too
		if why := n.encode(pk, pk.frame, n.nodes[s.node[side]], decide.Key{}, 0); why != "" {
			return why
		}
	}
	size := pk.size
	return n.decode(s, side, pk, func(f *wire.Frame) {
		n.deliver(s, side, id, f, size)
		size = 0
	})
}

// deliver hands a frame to the machine's kernel buffer.
func (n *Net) deliver(s *stream, side int, id uint32, f *wire.Frame, size int64) {
	r := 1 - side
	n.stats.Delivered++
	s.pipe[side].unread += size
	n.world.Deliver(Fact{Kind: Receive, Node: s.node[r], Session: s.session[r], Frame: f, Bytes: size,
		stream: id, serial: s.serial, side: uint8(r)})
}

// BadFrame begins the reason of a SessionDown whose bytes made no frame.
const BadFrame = "bad frame: "

// undecodable closes a session whose bytes make no frame, as every host does.
func (n *Net) undecodable(now int64, id uint32, r int, reason string) {
	s := &n.streams[id]
	n.stats.Undecodable++
	n.drop(&s.pipe[1-r])
	n.drop(&s.pipe[r])
	n.end(id, r, BadFrame+reason)
	n.push(now, id, r, packet{kind: pkRst, size: headerBytes})
}

// breakStream ends both sides at once from the sender's own kernel.
func (n *Net) breakStream(now int64, id uint32, reason string) {
	s := &n.streams[id]
	for side := range s.side {
		if s.side[side] == open && s.pipe[side].queued > n.opts.SendBuffer {
			n.end(id, side, reason)
			n.cutPipe(now, id, side)
		}
	}
}

// cutPipe keeps a drawn number of the bytes in flight on the pipe, drops the
// rest, and lets a reset follow: the sender never learns how much arrived. A
// frame of which only a part arrives does not exist for the receiver.
func (n *Net) cutPipe(now int64, id uint32, side int) {
	s := &n.streams[id]
	n.truncate(s, side)
	if s.side[1-side] != gone {
		n.push(now, id, side, packet{kind: pkRst, size: headerBytes})
	}
}

// truncate cuts what is in flight at a drawn byte.
func (n *Net) truncate(s *stream, side int) {
	p := &s.pipe[side]
	if p.head == len(p.queue) {
		return
	}
	keep := n.decider.Decide(siteCut, n.rawKey(s, side, kindControl+100), upTo(p.queued))
	if p.waiting || n.blocked(s, side, p.queue[p.head].size) {
		keep = 0 // nobody sends it again
	}
	i, at := p.head, int64(0)
	for ; i < len(p.queue) && at+p.queue[i].size <= keep; i++ {
		at += p.queue[i].size
	}
	if i < len(p.queue) && p.queue[i].bytes != nil {
		mustBePartial(s, &p.queue[i], keep-at)
	}
	clear(p.queue[i:])
	p.queue, p.queued, p.waiting = p.queue[:i], at, false
	p.last = 0
	if i > p.head {
		p.last = p.queue[i-1].arrive
	}
}
