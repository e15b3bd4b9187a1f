// Package session makes streams out of a network of datagrams that arrive in any
// order, twice, late, or not at all, and that is cut without a word, perhaps in one
// direction only. It is what TCP is to the other hosts: a machine's SessionUp and
// SessionDown facts, and frames in order between them.
//
// All streams between two nodes share one link. Its items have one sequence; a
// packet carries the next items and acknowledges, cumulatively, what has come; what
// is not acknowledged is sent again. So one packet serves whatever the streams have
// to say in one batch.
//
// A link lives in attempts. Each end names its own attempt by a number that only
// rises, also over restarts; a packet names both. Nothing of another pair of
// attempts is believed, so a packet of an earlier life cannot come back. An attempt
// ends, and with it all streams of the link, when the peer begins a new one (it
// restarted, or gave up), when nothing is heard for GiveUp, or when an item is not
// acknowledged for that long: the last finds the cut that only the other end could
// notice. A gap in the sequence is filled by sending again or ends that way; nothing
// is ever skipped.
//
// The package is pure: facts go in with their time, packets and facts come out of
// Settle, and Deadline says when to call it next.
package session

import (
	"fmt"
	"slices"
	"time"

	"lockstep/internal/invariant"
	"lockstep/node"
)

// ID names a stream of this end. It is never reused.
type ID uint64

// Options say how a Mux behaves; all are required.
type Options struct {
	// Peers are the nodes there are links to, at most maxPeers.
	Peers []string
	// Life is a number that is higher in each life of the node, below 1<<43.
	Life uint64
	// Accept says whether this end serves streams with the label.
	Accept func(label string) bool

	KeepAlive time.Duration // longest silence towards a peer with streams
	GiveUp    time.Duration // silence, or age of an item without acknowledgement, that ends an attempt
	AckDelay  time.Duration // how long an acknowledgement may wait for something to ride on
	ResendMin time.Duration // bounds of the time after which an item is sent again; in between
	ResendMax time.Duration // it follows the round trips seen
}

// Limits of a link.
const (
	// maxPeers bounds the links of a node.
	maxPeers = 1024
	// window is how many items may be sent and not acknowledged, and how many may be
	// held beyond a gap.
	window = 4096
	// windowBytes bounds their data.
	windowBytes = 8 << 20
	// maxQueueBytes bounds what waits to be sent or acknowledged; a peer that lets more
	// gather is given up.
	maxQueueBytes = 64 << 20
	// itemCost is what an item counts beside its data, bytes.
	itemCost = 64
	// maxPacketBytes is the size at which a packet is full; a single item may be larger.
	maxPacketBytes = 128 << 10
	// maxResendBytes bounds what is sent again at once.
	maxResendBytes = 64 << 10
	// maxStreams bounds the streams that a peer may have open at a time.
	maxStreams = 4096
)

// FactKind says what happened to a stream.
type FactKind uint8

// The facts.
const (
	Up   FactKind = iota // the stream stands: the peer accepted it, or opened it
	Data                 // Payload arrived
	Down                 // it is over; the last fact of a stream
)

// Fact is what a stream's owner is told.
type Fact struct {
	Kind    FactKind
	ID      ID
	Peer    string
	Label   string // Up
	Opened  bool   // Up: this end opened it
	Payload []byte // Data
	Reason  string // Down
}

// Outgoing is a packet for a peer.
type Outgoing struct {
	To     string
	Packet Packet
}

// Effects are the facts for the streams' owners, in order, and the packets to send.
// Items' data is the Mux's until the packet is encoded.
type Effects struct {
	Facts   []Fact
	Packets []Outgoing
}

// Reset empties the effects and keeps their memory.
func (fx *Effects) Reset() {
	clear(fx.Facts)
	clear(fx.Packets)
	fx.Facts, fx.Packets = fx.Facts[:0], fx.Packets[:0]
}

// Mux is one node's end of all its links.
type Mux struct {
	o       Options
	links   []*link // in order of names
	streams map[ID]*stream
	lastID  ID
	attempt uint64 // the newest one given out
	facts   []Fact // not handed out yet
}

// stream is one stream of this end.
type stream struct {
	id   ID
	link *link
	n    uint32 // number on the link
	mine bool   // this end opened it
	up   bool
}

// New returns a Mux without streams. Nothing is sent before something is to be said.
func New(o Options) *Mux {
	invariant.That(len(o.Peers) <= maxPeers, "session: %d peers, at most %d", len(o.Peers), maxPeers)
	invariant.That(o.Life < 1<<43, "session: life %d is too high", o.Life)
	m := &Mux{o: o, streams: map[ID]*stream{}, attempt: o.Life << 20}
	peers := slices.Clone(o.Peers)
	slices.Sort(peers)
	for _, p := range slices.Compact(peers) {
		m.links = append(m.links, m.newLink(p))
	}
	return m
}

func (m *Mux) link(peer string) *link {
	i, ok := slices.BinarySearchFunc(m.links, peer, func(l *link, name string) int {
		switch {
		case l.peer < name:
			return -1
		case l.peer > name:
			return 1
		}
		return 0
	})
	if !ok {
		return nil
	}
	return m.links[i]
}

// nextAttempt is a name never used before, in this life or another.
func (m *Mux) nextAttempt() uint64 {
	m.attempt++
	return m.attempt
}

// Open begins a stream to a peer; Up or Down follows. A peer that is unknown is
// Down at once.
func (m *Mux) Open(now node.Time, peer, label string) ID {
	m.lastID++
	s := &stream{id: m.lastID, mine: true}
	l := m.link(peer)
	if l == nil {
		m.facts = append(m.facts, Fact{Kind: Down, ID: s.id, Peer: peer, Reason: "no node " + peer + " is known"})
		return s.id
	}
	s.link = l
	l.want(now)
	l.opened++
	s.n = l.opened
	m.streams[s.id], l.mine[s.n] = s, s
	l.push(now, Item{Kind: kindOpen, Mine: true, Stream: s.n, Data: []byte(label[:min(len(label), maxLabel)])})
	return s.id
}

// Send queues data on a stream; it is the Mux's from now on. On a stream that is
// over it is dropped.
func (m *Mux) Send(now node.Time, id ID, data []byte) {
	if s := m.streams[id]; s != nil {
		s.link.push(now, Item{Kind: kindData, Mine: s.mine, Stream: s.n, Data: data})
	}
}

// Close ends a stream after what was sent on it; Down follows at both ends.
func (m *Mux) Close(now node.Time, id ID, reason string) {
	s := m.streams[id]
	if s == nil {
		return
	}
	s.link.push(now, Item{Kind: kindClose, Mine: s.mine, Stream: s.n, Data: []byte(reason[:min(len(reason), maxLabel)])})
	m.down(s, reason)
}

// down forgets a stream and tells its owner.
func (m *Mux) down(s *stream, reason string) {
	delete(m.streams, s.id)
	delete(s.link.side(s.mine), s.n)
	m.facts = append(m.facts, Fact{Kind: Down, ID: s.id, Peer: s.link.peer, Reason: reason})
}

// Receive takes a packet of a peer. Packets of nodes without a link are dropped.
func (m *Mux) Receive(now node.Time, from string, p *Packet) {
	if l := m.link(from); l != nil {
		l.receive(now, p)
	}
}

// deliver does what the next item of a link says.
func (m *Mux) deliver(now node.Time, l *link, it *Item) {
	s := l.side(!it.Mine)[it.Stream]
	switch {
	case it.Kind == kindOpen:
		m.opened(now, l, it)
	case s == nil: // closed here meanwhile
	case it.Kind == kindAccept && s.mine && !s.up:
		s.up = true
		m.facts = append(m.facts, Fact{Kind: Up, ID: s.id, Peer: l.peer, Opened: true})
	case it.Kind == kindData:
		m.facts = append(m.facts, Fact{Kind: Data, ID: s.id, Peer: l.peer, Payload: it.Data})
	case it.Kind == kindClose:
		m.down(s, string(it.Data))
	}
}

// opened accepts or refuses a stream of the peer.
func (m *Mux) opened(now node.Time, l *link, it *Item) {
	label := string(it.Data)
	refuse := func(why string) {
		l.push(now, Item{Kind: kindClose, Mine: false, Stream: it.Stream, Data: []byte(why)})
	}
	switch {
	case !it.Mine || l.theirs[it.Stream] != nil:
		return // no end opens a stream of the other, or one twice
	case len(l.theirs) >= maxStreams:
		refuse("too many streams")
		return
	case !m.o.Accept(label):
		refuse("nobody listens there")
		return
	}
	m.lastID++
	l.want(now)
	s := &stream{id: m.lastID, link: l, n: it.Stream, up: true}
	m.streams[s.id], l.theirs[s.n] = s, s
	l.push(now, Item{Kind: kindAccept, Mine: false, Stream: s.n})
	m.facts = append(m.facts, Fact{Kind: Up, ID: s.id, Peer: l.peer, Label: label})
}

// Settle hands out what has happened and what is to be sent. Called again at the
// same time it adds nothing.
func (m *Mux) Settle(now node.Time, fx *Effects) {
	for _, l := range m.links {
		l.settle(now, fx)
	}
	fx.Facts = append(fx.Facts, m.facts...)
	clear(m.facts)
	m.facts = m.facts[:0]
}

// Deadline is when Settle would do something without another fact.
func (m *Mux) Deadline() node.Time {
	if len(m.facts) > 0 {
		return 0
	}
	t := node.Never
	for _, l := range m.links {
		t = min(t, l.deadline())
	}
	return t
}

// Idle reports whether nothing waits to be sent, acknowledged or handed out.
func (m *Mux) Idle() bool {
	for _, l := range m.links {
		if len(l.queue) > 0 {
			return false
		}
	}
	return len(m.facts) == 0
}

// String lists the links for logs and failed tests.
func (m *Mux) String() string {
	out := ""
	for _, l := range m.links {
		out += fmt.Sprintf("%s: %d/%d known %t, %d queued, acked %d sent %d got %d, %d+%d streams\n",
			l.peer, l.self, l.far, l.known, len(l.queue), l.acked, l.sent, l.got, len(l.mine), len(l.theirs))
	}
	return out
}
