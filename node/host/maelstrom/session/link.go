package session

import (
	"fmt"
	"slices"
	"time"

	"lockstep/internal/invariant"
	"lockstep/node"
)

// link is this end of the link to one peer, in its present attempt.
type link struct {
	m    *Mux
	peer string

	self  uint64 // this end's attempt
	far   uint64 // the newest of the peer that was seen, 0 none
	known bool   // the peer has shown that it knows self: items may go

	heard  node.Time // newest packet of this pair, or when a peer was first wanted
	spoke  node.Time // newest packet sent
	helloN uint      // hellos without an answer
	answer bool      // the peer should hear who this end is
	told   node.Time // newest answer of that kind

	// Sending: queue holds items acked+1, acked+2, …
	queue   []Item
	pushed  []node.Time // when each item of queue was first sent; 0 not yet
	bytes   int         // of queue
	acked   uint64
	sent    uint64 // the highest item sent
	flight  int    // bytes of items acked+1..sent
	rto     time.Duration
	srtt    time.Duration // smoothed round trip, 0 unknown
	rttvar  time.Duration
	tries   uint
	againAt node.Time // when the oldest item is sent again
	resent  uint64    // items up to here give no round trip: they were sent twice

	// Receiving.
	got    uint64
	held   map[uint64]Item // beyond the next, waiting for a gap to fill
	heldSz int
	ackAt  node.Time // when an acknowledgement has to go; Never when none is owed

	mine, theirs map[uint32]*stream
	opened       uint32 // streams this end opened in this attempt
}

func (m *Mux) newLink(peer string) *link {
	l := &link{m: m, peer: peer}
	l.begin()
	return l
}

// begin starts a new attempt with nothing known.
func (l *link) begin() {
	m, peer := l.m, l.peer
	*l = link{m: m, peer: peer, self: m.nextAttempt(), ackAt: node.Never, againAt: node.Never,
		held: map[uint64]Item{}, mine: map[uint32]*stream{}, theirs: map[uint32]*stream{}, rto: m.firstRTO()}
}

// firstRTO is the time to send again while no round trip is known.
func (m *Mux) firstRTO() time.Duration {
	return min(max(250*time.Millisecond, m.o.ResendMin), m.o.ResendMax)
}

// side is the table of the streams that this end opened, or the peer.
func (l *link) side(mine bool) map[uint32]*stream {
	if mine {
		return l.mine
	}
	return l.theirs
}

func (l *link) streams() int { return len(l.mine) + len(l.theirs) }

// want starts the clock of silence when the first stream comes.
func (l *link) want(now node.Time) {
	if l.streams() == 0 && len(l.queue) == 0 {
		l.heard, l.spoke = now, max(l.spoke, now)
		l.helloN = 0
	}
}

// push queues an item.
func (l *link) push(now node.Time, it Item) {
	l.queue, l.pushed = append(l.queue, it), append(l.pushed, 0)
	l.bytes += len(it.Data) + itemCost
}

// end gives the attempt up: all its streams are down and nothing of it is believed
// any more.
func (l *link) end(now node.Time, reason string) {
	for _, mine := range [...]bool{true, false} {
		side := l.side(mine)
		numbers := make([]uint32, 0, len(side))
		for n := range side { // tidy:unordered the numbers are sorted below
			numbers = append(numbers, n)
		}
		slices.Sort(numbers)
		for _, n := range numbers {
			l.m.down(side[n], reason)
		}
	}
	tell := l.known
	l.begin()
	l.heard, l.spoke = now, now
	// A word to the peer, which may still believe in the old attempt. If it is lost the
	// peer finds out by silence.
	l.answer, l.told = tell, 0
}

// receive takes a packet.
func (l *link) receive(now node.Time, p *Packet) {
	switch {
	case p.From < l.far:
		return // of an attempt that is over
	case p.From > l.far:
		if l.known {
			l.end(now, l.peer+" began anew")
		}
		l.far = p.From
		l.answer, l.told = true, 0
	}
	if p.To != l.self {
		l.answer = true // it does not know this attempt
		return
	}
	if !l.known {
		l.known = true
		l.ackAt = now // so that the peer knows that it is known
	}
	l.heard, l.answer, l.helloN = now, false, 0
	l.acknowledged(now, p.Ack)
	l.take(now, p)
}

// acknowledged drops what has arrived at the peer.
func (l *link) acknowledged(now node.Time, ack uint64) {
	if ack <= l.acked || ack > l.sent {
		return
	}
	n := int(ack - l.acked)
	if ack > l.resent {
		l.roundTrip(now.Sub(l.pushed[n-1]))
	}
	for i := range n {
		size := len(l.queue[i].Data) + itemCost
		l.bytes -= size
		l.flight -= size
	}
	clear(l.queue[:n])
	l.queue, l.pushed = l.queue[n:], l.pushed[n:]
	l.acked, l.tries = ack, 0
	l.againAt = node.Never
	if l.acked < l.sent {
		l.againAt = now.Add(l.rto)
	}
}

// roundTrip follows the time that acknowledgements take, as TCP does, with the
// deviation counted twice instead of four times: a packet too many costs less here
// than a stream that waits.
func (l *link) roundTrip(rtt time.Duration) {
	if l.srtt == 0 {
		l.srtt, l.rttvar = rtt, rtt/2
	} else {
		diff := rtt - l.srtt
		l.rttvar += (max(diff, -diff) - l.rttvar) / 4
		l.srtt += diff / 8
	}
	l.rto = min(max(l.srtt+2*l.rttvar+l.m.o.AckDelay, l.m.o.ResendMin), l.m.o.ResendMax)
}

// take puts the packet's items in their places and delivers those whose turn it is.
func (l *link) take(now node.Time, p *Packet) {
	if len(p.Items) == 0 {
		return
	}
	l.ackAt = min(l.ackAt, now.Add(l.m.o.AckDelay))
	attempt := l.self
	for i := range p.Items {
		seq := p.First + uint64(i)
		switch {
		case seq <= l.got || seq > l.got+window:
		case seq == l.got+1:
			l.got++
			l.m.deliver(now, l, &p.Items[i])
			l.fill(now)
		default:
			l.hold(seq, &p.Items[i])
		}
		invariant.That(l.self == attempt, "session: an item of %s ended its own attempt", l.peer)
	}
}

// hold keeps an item that came early.
func (l *link) hold(seq uint64, it *Item) {
	if _, twice := l.held[seq]; twice || l.heldSz+len(it.Data)+itemCost > windowBytes {
		return
	}
	l.held[seq] = *it
	l.heldSz += len(it.Data) + itemCost
}

// fill delivers what waited for a gap that is filled now.
func (l *link) fill(now node.Time) {
	for len(l.held) > 0 {
		it, ok := l.held[l.got+1]
		if !ok {
			return
		}
		l.got++
		delete(l.held, l.got)
		l.heldSz -= len(it.Data) + itemCost
		l.m.deliver(now, l, &it)
	}
}

// silent says why the attempt has failed, or "".
func (l *link) silent(now node.Time) string {
	limit := l.m.o.GiveUp
	switch {
	case l.streams() == 0 && len(l.queue) == 0:
		return ""
	case now >= l.heard.Add(limit):
		return fmt.Sprintf("nothing was heard of %s for %v", l.peer, limit)
	case l.acked < l.sent && now >= l.pushed[0].Add(limit):
		return fmt.Sprintf("%s acknowledged nothing for %v", l.peer, limit)
	case l.bytes > maxQueueBytes:
		return fmt.Sprintf("more than %d bytes wait for %s", maxQueueBytes, l.peer)
	}
	return ""
}

// settle derives the packets to the peer.
func (l *link) settle(now node.Time, fx *Effects) {
	if why := l.silent(now); why != "" {
		l.end(now, why)
	}
	if !l.known {
		l.hello(now, fx)
		return
	}
	l.sendNew(now, fx)
	if l.acked < l.sent && now >= l.againAt {
		l.sendAgain(now, fx)
	}
	if now >= l.ackAt || l.answer && now >= l.answerAt() || l.streams() > 0 && now >= l.spoke.Add(l.m.o.KeepAlive) {
		l.packet(now, fx, 0, 0)
	}
}

// hello says who this end is, to a peer that is wanted or that asked. The peer
// answers a packet that does not name it, and that it is named it has to hear.
func (l *link) hello(now node.Time, fx *Effects) {
	asked := l.answer && now >= l.answerAt()
	if !asked && (!l.wanted() || now < l.helloAt()) {
		return
	}
	l.helloN++
	far := l.far
	if !asked {
		l.far = 0
	}
	l.packet(now, fx, 0, 0)
	l.far = far
}

func (l *link) wanted() bool { return l.streams() > 0 || len(l.queue) > 0 }

// helloAt is when the next hello goes: at once, then at growing intervals.
func (l *link) helloAt() node.Time {
	if l.helloN == 0 {
		return 0
	}
	return l.spoke.Add(min(l.m.o.ResendMin<<min(l.helloN-1, 8), l.m.o.ResendMax))
}

// answerAt keeps answers to packets of old attempts, of which there may be many,
// apart.
func (l *link) answerAt() node.Time {
	if l.told == 0 {
		return 0
	}
	return l.told.Add(l.m.o.ResendMin)
}

// sendNew sends what was not sent yet, as far as the window goes.
func (l *link) sendNew(now node.Time, fx *Effects) {
	for {
		from := int(l.sent - l.acked)
		to, size := from, 0
		for to < len(l.queue) && to < window && to-from < maxItems {
			n := len(l.queue[to].Data) + itemCost
			if to > from && size+n > maxPacketBytes || to > 0 && l.flight+size+n > windowBytes {
				break
			}
			size += n
			to++
		}
		if to == from {
			return
		}
		for i := from; i < to; i++ {
			l.pushed[i] = now
		}
		l.sent += uint64(to - from)
		l.flight += size
		if l.againAt == node.Never {
			l.againAt = now.Add(l.rto)
		}
		l.packet(now, fx, from, to)
	}
}

// sendAgain repeats the oldest items and doubles the time until the next time.
func (l *link) sendAgain(now node.Time, fx *Effects) {
	to, size := 0, 0
	for to < int(l.sent-l.acked) && to < maxItems && (to == 0 || size+len(l.queue[to].Data)+itemCost <= maxResendBytes) {
		size += len(l.queue[to].Data) + itemCost
		to++
	}
	l.resent = max(l.resent, l.acked+uint64(to))
	l.tries++
	l.againAt = now.Add(min(l.rto<<min(l.tries, 8), l.m.o.ResendMax))
	l.packet(now, fx, 0, to)
}

// packet sends items from..to of the queue with whatever else there is to say.
func (l *link) packet(now node.Time, fx *Effects, from, to int) {
	p := Packet{From: l.self, To: l.far, Ack: l.got}
	if to > from {
		p.First = l.acked + 1 + uint64(from)
		p.Items = slices.Clone(l.queue[from:to])
	}
	fx.Packets = append(fx.Packets, Outgoing{l.peer, p})
	if l.answer {
		l.told = now
	}
	l.answer, l.ackAt, l.spoke = false, node.Never, now
}

// deadline is when settle would do something.
func (l *link) deadline() node.Time {
	t := node.Never
	if l.wanted() {
		t = min(t, l.heard.Add(l.m.o.GiveUp))
		if !l.known {
			t = min(t, l.helloAt())
		}
	}
	if l.answer {
		t = min(t, l.answerAt())
	}
	if !l.known {
		return t
	}
	if l.acked < l.sent {
		t = min(t, l.againAt, l.pushed[0].Add(l.m.o.GiveUp))
	}
	if int(l.sent-l.acked) < len(l.queue) && l.sent == l.acked {
		t = 0
	}
	if l.streams() > 0 {
		t = min(t, l.spoke.Add(l.m.o.KeepAlive))
	}
	return min(t, l.ackAt)
}
