package broker

import (
	"time"

	"lockstep/node"
	"lockstep/node/wire"
)

// call is an outstanding request: a field, at most one of a kind. Its answer is
// matched by session and opaque; anything else is late and ignored.
type call struct {
	open    bool
	session node.SessionID
	opaque  int32
	sent    node.Time
}

func (c *call) begin(opaque int32, s node.SessionID, now node.Time) {
	*c = call{open: true, session: s, opaque: opaque, sent: now}
}

// answers reports whether f is the answer.
func (c *call) answers(s node.SessionID, f *wire.Frame) bool {
	return c.open && c.session == s && c.opaque == f.Head.Opaque && f.Head.Response()
}

// expired reports that no answer came in time: the outcome is unknown.
func (c *call) expired(now node.Time, timeout time.Duration) bool {
	return c.open && now >= c.sent.Add(timeout)
}

// deadline is when the call expires.
func (c *call) deadline(timeout time.Duration) node.Time {
	if !c.open {
		return node.Never
	}
	return c.sent.Add(timeout)
}

// nextOpaque numbers the requests of this life.
func (b *Broker) nextOpaque() int32 {
	b.lastOpaque = b.lastOpaque%(1<<31-1) + 1
	return b.lastOpaque
}

// request sends a request to a controller, a name server or another broker. They
// are sealed: a damaged frame between Lockstep nodes is dropped, not believed.
func (b *Broker) request(s node.SessionID, opaque, code int32, header any, body []byte) {
	f := wire.NewRequest(code, opaque, header, body)
	f.Head.Sealed = true
	b.fx.Send(s, f)
}

// dial opens an outgoing stream and returns its id.
func (b *Broker) dial(link wire.Link, addr string, kind sessionKind) node.SessionID {
	b.lastDial++
	s := node.Dialled | node.SessionID(b.lastDial)
	b.sessions[s] = kind
	b.fx.Dials = append(b.fx.Dials, node.Dial{Session: s, Link: link, Addr: addr})
	return s
}

// identity is what this broker says of its store's life.
func (b *Broker) identity() wire.Identity {
	return wire.Identity{Store: b.id.Store, Boot: b.id.Boot, Nonce: b.id.Nonce}
}
