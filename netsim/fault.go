package netsim

import "lockstep/internal/invariant"

// Refuse makes the kernel of b refuse dials from a; streams live on.
func (n *Net) Refuse(a, b int, on bool) {
	l := n.link(a, b)
	if on {
		l.refuse++
	} else {
		l.refuse--
	}
	invariant.That(l.refuse >= 0, "refusals from %s to %s ended twice", n.nodes[a].name, n.nodes[b].name)
}

// AddDelay makes every frame from a to b take nanos longer; a negative value
// takes an earlier one back.
func (n *Net) AddDelay(a, b int, nanos int64) {
	l := n.link(a, b)
	l.extra += nanos
	invariant.That(l.extra >= 0, "delay from %s to %s below none", n.nodes[a].name, n.nodes[b].name)
}

// AddLoss makes permille more of the frames from a to b need retransmission.
func (n *Net) AddLoss(a, b int, permille int64) { n.link(a, b).loss += permille }

// AddCorrupt makes permille more of the frames from a to b arrive with a bit
// flipped.
func (n *Net) AddCorrupt(a, b int, permille int64) { n.link(a, b).corrupt += permille }

// SetBandwidth limits the way from a to b to bytes per second; 0 lifts it.
func (n *Net) SetBandwidth(a, b int, bytesPerSecond int64) {
	l := n.link(a, b)
	l.bandwidth, l.free = bytesPerSecond, 0
}

// Reset ends all streams between a and b: each way is cut at a drawn byte.
func (n *Net) Reset(now int64, a, b int) {
	n.between(a, b, func(id uint32) {
		s := &n.streams[id]
		for side := range s.side {
			// The reset comes from the middle: both ends still believe in the stream
			// until it reaches them, and each pipe carries one.
			n.truncate(s, side)
			s.pipe[side].black = false
		}
		for side := range s.side {
			n.push(now, id, side, packet{kind: pkRst, size: headerBytes})
		}
	})
}

// HalfOpen makes the present streams between a and b silent for good, both
// ways, without telling either end.
func (n *Net) HalfOpen(now int64, a, b int) {
	n.between(a, b, func(id uint32) {
		s := &n.streams[id]
		s.pipe[0].black, s.pipe[1].black = true, true
		if s.cut < 0 {
			s.cut = now
			n.timeoutAt(now+n.opts.KeepAlive, id)
		}
	})
}

// Exit ends the node's process while its kernel lives. Graceful sends what is
// queued and then the end of each stream; otherwise each stream is cut at a
// drawn byte and reset.
func (n *Net) Exit(now int64, id int, graceful bool) {
	n.nodes[id].up = false
	for _, sid := range n.prune(id) {
		n.leave(now, sid, id, func(side int) {
			if graceful {
				n.push(now, sid, side, packet{kind: pkFin, size: headerBytes})
				return
			}
			n.cutPipe(now, sid, side)
		})
	}
	n.forget(id)
}

// Silence makes the node's host vanish without a word: nothing is answered,
// no stream is closed, what was on the wire up to a drawn byte still arrives.
func (n *Net) Silence(now int64, id int) {
	e := n.nodes[id]
	if !e.silent {
		e.silent = true
		n.Deaf(now, id, true)
	}
	e.up = false
	for _, sid := range n.prune(id) {
		n.leave(now, sid, id, func(side int) { n.truncate(&n.streams[sid], side) })
	}
	n.forget(id)
}

// leave makes the node's own sides of a stream gone and calls cut for each.
func (n *Net) leave(now int64, sid uint32, id int, cut func(side int)) {
	for side := range 2 {
		s := &n.streams[sid]
		if s.node[side] != id || s.side[side] == gone || s.side[side] == none {
			continue
		}
		wasOpen := s.side[side] == open
		s.side[side] = gone
		if wasOpen && s.side[1-side] != gone {
			cut(side)
		} else if !wasOpen && s.side[1-side] == open {
			n.push(now, sid, side, packet{kind: pkRst, size: headerBytes})
		}
		n.release(sid)
	}
}

// forget drops the node's table of sessions: ids of a later life are new.
func (n *Net) forget(id int) { clear(n.nodes[id].sessions) }

// HostUp brings the kernel of a silent host back, without any of its streams:
// packets of old streams are answered with resets.
func (n *Net) HostUp(now int64, id int) {
	e := n.nodes[id]
	if !e.silent {
		return
	}
	e.silent = false
	n.Deaf(now, id, false)
	for _, sid := range n.prune(id) {
		s := &n.streams[sid]
		s.probe = true
		n.timeoutAt(now+n.opts.KeepAlive, sid)
	}
}

// Deaf makes the node's host take and answer no packet (a suspended machine),
// or wakes it. Packets towards it are sent again after it wakes.
func (n *Net) Deaf(now int64, id int, on bool) {
	e := n.nodes[id]
	if on {
		e.deaf++
	} else {
		e.deaf--
	}
	invariant.That(e.deaf >= 0, "%s woken twice", e.name)
	for _, sid := range n.prune(id) {
		s := &n.streams[sid]
		if on && s.cut < 0 {
			s.cut = now
			n.timeoutAt(now+n.opts.KeepAlive, sid)
		} else if !on {
			n.heals(now, sid)
		}
	}
}
