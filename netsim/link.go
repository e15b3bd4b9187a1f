package netsim

import (
	"lockstep/internal/decide"
	"lockstep/internal/invariant"
)

// link is the state of the way from one node to another. Faults overlap, so
// each is a count or a sum.
type link struct {
	cut, stall, refuse int
	extra              int64 // nanoseconds added to every frame
	loss, corrupt      int64 // permille
	bandwidth          int64 // bytes per second, 0 unlimited
	free               int64 // when the link has carried all it was given
}

// The sites of the network. Values grow more severe from benign to worst.
var (
	siteDelay      = decide.NewSite("net.delay", "ns", 100_000, 10_000_000_000)
	siteLost       = decide.NewSite("net.lost", "", 0, 3)
	siteRetransmit = decide.NewSite("net.retransmit", "ns", 5_000_000, 60_000_000_000)
	siteCut        = decide.NewSite("net.cut", "B", 0, 1<<40)
	siteWindow     = decide.NewSite("net.window", "B", 0, 1<<16)
	siteCorrupt    = decide.NewSite("net.corrupt", "", 0, 1<<30)
)

// upTo spreads evenly over [0, hi].
func upTo(hi int64) decide.Dist { return decide.Dist{Lo: 0, Hi: hi} }

// link returns the state of the way from a to b.
func (n *Net) link(a, b int) *link { return &n.links[a*len(n.nodes)+b] }

// delay draws the one-way latency of a frame.
func (n *Net) delay(from, to int, k decide.Key) int64 {
	d := n.opts.Delay
	a, b := n.nodes[from], n.nodes[to]
	if a.zone != b.zone && a.zone != "" && b.zone != "" {
		d = n.opts.ZoneDelay
	}
	return n.decider.Decide(siteDelay, k, d)
}

// lost draws how often the frame has to be sent again and returns the time
// that takes.
func (n *Net) lost(l *link, k decide.Key) int64 {
	rate := max(n.opts.LossPermille, l.loss)
	if rate == 0 {
		return 0
	}
	times := n.decider.Decide(siteLost, k, decide.Dist{Tail: 3, TailPermille: rate})
	var wait int64
	for i := range times {
		wait += n.retransmit(k) << i
	}
	return wait
}

// retransmit draws the wait for one retransmission.
func (n *Net) retransmit(k decide.Key) int64 {
	return n.decider.Decide(siteRetransmit, k, n.opts.Retransmit)
}

// blocked reports whether the head of the pipe cannot pass now.
func (n *Net) blocked(s *stream, side int, size int64) bool {
	p := &s.pipe[side]
	from, to := s.node[side], s.node[1-side]
	l, back := n.link(from, to), n.link(to, from)
	if p.black || l.cut > 0 || l.stall > 0 || n.nodes[to].deaf > 0 {
		return true
	}
	return back.cut > 0 && p.ackless < size
}

// stuck notes that data waits behind a cut, so that its sender gives up in time.
func (n *Net) stuck(now int64, id uint32, side int) {
	s := &n.streams[id]
	p := &s.pipe[side]
	if n.link(s.node[side], s.node[1-side]).stall > 0 || p.stuck >= 0 {
		return
	}
	p.stuck = now
	n.timeoutAt(now+n.opts.StreamTimeout, id)
}

// timeoutAt makes sure that the stream's timeouts are looked at by then.
func (n *Net) timeoutAt(at int64, id uint32) {
	s := &n.streams[id]
	if s.timer >= 0 && s.timer <= at {
		return
	}
	s.timer = at
	n.world.Schedule(at, id<<2|refTimeout)
}

// checkTimeout ends the sides that heard nothing for too long.
func (n *Net) checkTimeout(now int64, id uint32) bool {
	s := &n.streams[id]
	if s.timer != now {
		return false
	}
	s.timer = -1
	acted := false
	for side := range s.side {
		p := &s.pipe[side]
		idle := s.cut >= 0 && now-s.cut >= n.opts.KeepAlive
		unacked := p.stuck >= 0 && now-p.stuck >= n.opts.StreamTimeout
		reset := s.probe && s.side[1-side] == gone && !n.blocked(s, side, 0)
		if s.side[side] != open || !(idle || unacked || reset) {
			continue
		}
		acted = true
		reason := "timed out"
		if reset && !idle && !unacked {
			reason = "connection reset"
		}
		n.end(id, side, reason)
		n.drop(p)
	}
	n.nextTimeout(now, id)
	n.release(id)
	return acted
}

// nextTimeout asks for the next look at the stream's timeouts, if one is due.
func (n *Net) nextTimeout(now int64, id uint32) {
	s := &n.streams[id]
	if s.side[0] != open && s.side[1] != open {
		return
	}
	if s.cut >= 0 {
		n.timeoutAt(s.cut+n.opts.KeepAlive, id)
	}
	if s.probe && (s.side[0] == gone || s.side[1] == gone) {
		n.timeoutAt(now+n.opts.KeepAlive, id)
	}
	for i := range s.pipe {
		if p := &s.pipe[i]; p.stuck >= 0 && s.side[i] == open {
			n.timeoutAt(p.stuck+n.opts.StreamTimeout, id)
		}
	}
}

// between calls do for every stream of a that leads to b, in a fixed order.
func (n *Net) between(a, b int, do func(id uint32)) {
	for _, id := range n.prune(a) {
		s := &n.streams[id]
		if s.node[0] == b || s.node[1] == b {
			do(id)
		}
	}
}

// prune forgets the streams of a node that are over and returns the others.
func (n *Net) prune(a int) []uint32 {
	e := n.nodes[a]
	live := e.live[:0]
	for _, id := range e.live {
		s := &n.streams[id]
		if s.used && (s.node[0] == a || s.node[1] == a) && !contains(live, id) {
			live = append(live, id)
		}
	}
	e.live = live
	return append([]uint32(nil), live...)
}

// contains reports whether list holds id; slots are reused, so the list may
// name one twice.
func contains(list []uint32, id uint32) bool {
	for _, x := range list {
		if x == id {
			return true
		}
	}
	return false
}

// Cut makes all packets from a to b lost, or lets them pass again.
func (n *Net) Cut(now int64, a, b int, on bool) {
	l := n.link(a, b)
	if on {
		l.cut++
		if l.cut == 1 {
			n.between(a, b, func(id uint32) { n.cutStarts(now, id, a) })
		}
		return
	}
	l.cut--
	invariant.That(l.cut >= 0, "cut from %s to %s healed twice", n.nodes[a].name, n.nodes[b].name)
	if l.cut == 0 {
		n.between(a, b, func(id uint32) { n.heals(now, id) })
	}
}

// cutStarts notes on one stream that nothing passes from node a any more.
func (n *Net) cutStarts(now int64, id uint32, a int) {
	s := &n.streams[id]
	back := 0 // the pipe towards a
	if s.node[0] == a {
		back = 1
	}
	s.pipe[back].ackless = n.decider.Decide(siteWindow, n.rawKey(s, back, kindControl+101), upTo(1<<16))
	if s.cut < 0 {
		s.cut = now
		n.timeoutAt(now+n.opts.KeepAlive, id)
	}
}

// heals lets a stream flow again if nothing else cuts it: what waited is sent
// again after a drawn wait and comes as a burst.
func (n *Net) heals(now int64, id uint32) {
	s := &n.streams[id]
	if !n.severed(s) {
		s.cut = -1
	}
	for side := range s.pipe {
		p := &s.pipe[side]
		if p.head < len(p.queue) && !n.blocked(s, side, p.queue[p.head].size) {
			if p.stuck >= 0 {
				p.hold = max(p.hold, now+n.retransmit(n.rawKey(s, side, kindControl+102)))
			}
			p.stuck = -1
			n.arm(now, id, side)
		}
	}
}

// severed reports whether packets are lost either way.
func (n *Net) severed(s *stream) bool {
	a, b := s.node[0], s.node[1]
	return n.link(a, b).cut > 0 || n.link(b, a).cut > 0 || n.nodes[a].deaf > 0 || n.nodes[b].deaf > 0 ||
		s.pipe[0].black || s.pipe[1].black
}

// Stall holds all packets from a to b, or lets them go in a burst.
func (n *Net) Stall(now int64, a, b int, on bool) {
	l := n.link(a, b)
	if on {
		l.stall++
		return
	}
	l.stall--
	invariant.That(l.stall >= 0, "stall from %s to %s ended twice", n.nodes[a].name, n.nodes[b].name)
	n.between(a, b, func(id uint32) { n.heals(now, id) })
}
