package maelstrom

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lockstep/node"
	"lockstep/node/host/maelstrom/session"
	"lockstep/node/wire"
)

// party owns ends of streams: a machine's seat, or the gateway.
type party interface {
	up(now node.Now, e *end)
	receive(now node.Now, e *end, f *wire.Frame)
	down(now node.Now, e *end, reason string)
}

// end is one end of a stream.
type end struct {
	owner party
	id    node.SessionID
	peer  node.Peer
	far   session.ID // across the network; 0 for a stream inside the process
	other *end       // inside the process
	isUp  bool
	over  bool
}

// links are the streams of the node: those to other nodes, made by session, and
// those between the parties of this process, which hand frames over as they are.
type links struct {
	h     *Host
	mux   *session.Mux
	far   map[session.ID]*end
	local []localFact // not delivered yet
	spare []localFact
	fx    session.Effects
	dec   [3]wire.Decoder
	out   []byte
}

// localFact is what an end inside the process is told.
type localFact struct {
	to     *end
	kind   session.FactKind
	frame  *wire.Frame
	reason string
}

// packetBody is the message that carries a packet between nodes.
type packetBody struct {
	Type string `json:"type"`
	Data []byte `json:"data"`
}

const packetType = "link"

func newLinks(h *Host) *links {
	n := &links{h: h, far: map[session.ID]*end{}}
	for i := range n.dec {
		n.dec[i] = wire.Decoder{Link: wire.Link(i)}
	}
	var peers []string
	for _, p := range h.nodes {
		if p != h.self {
			peers = append(peers, p)
		}
	}
	n.mux = session.New(h.o.Profile.sessionOptions(peers, h.dir.life, func(label string) bool {
		port, err := strconv.Atoi(label)
		return err == nil && h.seatOf(port) != nil
	}))
	return n
}

// split finds the node and the port of an address.
func (h *Host) split(addr string) (index, port int, ok bool) {
	host, text, found := strings.Cut(addr, ":")
	port, err := strconv.Atoi(text)
	if !found || err != nil {
		return 0, 0, false
	}
	index = -1
	for i := range h.nodes {
		if name, _, _ := strings.Cut(addrOf(i, port), ":"); name == host {
			index = i
		}
	}
	return index, port, index >= 0
}

// linkOf is the framing of a port.
func linkOf(port int) wire.Link {
	switch port {
	case portReplicas:
		return wire.Replication
	case portRaft:
		return wire.Raft
	}
	return wire.Remoting
}

// dial opens a stream for its owner, who is told up or down.
func (n *links) dial(now node.Now, owner party, d node.Dial) *end {
	e := &end{owner: owner, id: d.Session, peer: node.Peer{Link: d.Link, Addr: d.Addr}}
	index, port, ok := n.h.split(d.Addr)
	switch {
	case !ok:
		n.tell(localFact{to: e, kind: session.Down, reason: "no node has the address " + d.Addr})
	case index != n.h.index:
		e.far = n.mux.Open(now.Mono, n.h.nodes[index], strconv.Itoa(port))
		n.far[e.far] = e
	default:
		n.dialLocal(e, port)
	}
	return e
}

func (n *links) dialLocal(e *end, port int) {
	s := n.h.seatOf(port)
	if s == nil {
		n.tell(localFact{to: e, kind: session.Down, reason: fmt.Sprintf("nothing listens on port %d", port)})
		return
	}
	e.other = &end{owner: s, id: s.nextID(), other: e, peer: node.Peer{Link: e.peer.Link, Addr: addrOf(n.h.index, 0), Local: e.peer.Addr}}
	n.tell(localFact{to: e.other, kind: session.Up})
	n.tell(localFact{to: e, kind: session.Up})
}

func (s *seat) nextID() node.SessionID {
	s.lastID++
	return s.lastID
}

func (n *links) tell(f localFact) { n.local = append(n.local, f) }

// send hands a frame over; one for a stream that is over, or not up yet, is dropped.
func (n *links) send(now node.Now, e *end, f *wire.Frame) {
	switch {
	case e == nil || e.over || !e.isUp:
	case e.other != nil:
		own := *f
		n.tell(localFact{to: e.other, kind: session.Data, frame: &own})
	default:
		text, err := wire.AppendFrame(nil, f, wire.JSON)
		if err != nil {
			n.h.o.Log.Error("a frame does not encode; its stream ends", "node", n.h.self, "error", err)
			n.hangUp(now, e, "frame cannot be encoded: "+err.Error())
			return
		}
		n.mux.Send(now.Mono, e.far, text)
	}
}

// hangUp ends a stream; both owners are told.
func (n *links) hangUp(now node.Now, e *end, reason string) {
	switch {
	case e == nil || e.over:
	case e.other != nil:
		n.tell(localFact{to: e.other, kind: session.Down, reason: reason})
		n.tell(localFact{to: e, kind: session.Down, reason: reason})
	case e.far != 0:
		n.mux.Close(now.Mono, e.far, reason)
	}
}

// closeAll ends the streams of a machine that has ended, without telling it.
func (n *links) closeAll(now node.Now, s *seat, reason string) {
	ids := make([]node.SessionID, 0, len(s.ends))
	for id := range s.ends {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		n.hangUp(now, s.ends[id], reason)
	}
}

// receive takes a packet of a peer.
func (n *links) receive(now node.Now, from string, data []byte) {
	p, err := session.ParsePacket(data)
	if err != nil {
		n.h.o.Log.Warn("a packet was dropped", "node", n.h.self, "from", from, "error", err)
		return
	}
	n.mux.Receive(now.Mono, from, &p)
}

// deliver tells the owners what their streams have for them and sends the packets.
// It reports whether anybody was told anything.
func (n *links) deliver(now node.Now) bool {
	n.fx.Reset()
	n.mux.Settle(now.Mono, &n.fx)
	for i := range n.fx.Packets {
		o := &n.fx.Packets[i]
		n.out = o.Packet.Append(n.out[:0])
		n.h.send(o.To, packetBody{packetType, n.out})
	}
	for i := range n.fx.Facts {
		n.remote(now, &n.fx.Facts[i])
	}
	told := len(n.fx.Facts) + len(n.local)
	n.local, n.spare = n.spare[:0], n.local
	for i := range n.spare {
		n.inside(now, &n.spare[i])
	}
	clear(n.spare)
	return told > 0
}

// remote passes a fact of a stream across the network on.
func (n *links) remote(now node.Now, f *session.Fact) {
	e := n.far[f.ID]
	switch {
	case f.Kind == session.Up && !f.Opened:
		n.accepted(now, f)
	case e == nil:
	case f.Kind == session.Up:
		e.isUp = true
		e.owner.up(now, e)
	case f.Kind == session.Data:
		n.frame(now, e, f.Payload)
	default:
		e.over = true
		delete(n.far, f.ID)
		e.owner.down(now, e, f.Reason)
	}
}

// accepted begins a stream that a peer opened.
func (n *links) accepted(now node.Now, f *session.Fact) {
	port, err := strconv.Atoi(f.Label)
	s := n.h.seatOf(port)
	if err != nil || s == nil {
		n.mux.Close(now.Mono, f.ID, "nothing listens there any more")
		return
	}
	from := slices.Index(n.h.nodes, f.Peer)
	e := &end{owner: s, id: s.nextID(), far: f.ID, isUp: true,
		peer: node.Peer{Link: linkOf(port), Addr: addrOf(from, 0), Local: addrOf(n.h.index, port)}}
	n.far[f.ID] = e
	s.up(now, e)
}

// frame decodes one frame; what is none ends the stream.
func (n *links) frame(now node.Now, e *end, payload []byte) {
	f, used, err := n.dec[e.peer.Link].Decode(payload)
	if err == nil && used != len(payload) {
		err = fmt.Errorf("%d bytes are no whole frame", len(payload))
	}
	if err != nil {
		n.h.o.Log.Error("a frame was rejected; its stream ends", "node", n.h.self, "from", e.peer.Addr, "error", err)
		n.mux.Close(now.Mono, e.far, err.Error())
		return
	}
	e.owner.receive(now, e, &f)
}

// inside passes a fact of a stream inside the process on.
func (n *links) inside(now node.Now, f *localFact) {
	e := f.to
	switch {
	case e.over:
	case f.kind == session.Up:
		e.isUp = true
		e.owner.up(now, e)
	case f.kind == session.Data:
		if e.isUp {
			e.owner.receive(now, e, f.frame)
		}
	default:
		e.over, e.isUp = true, false
		e.owner.down(now, e, f.reason)
	}
}

func (n *links) deadline() node.Time {
	if len(n.local) > 0 {
		return 0
	}
	return n.mux.Deadline()
}
