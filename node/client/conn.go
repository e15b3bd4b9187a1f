package client

import (
	"slices"

	"lockstep/internal/invariant"
	"lockstep/node"
	"lockstep/node/wire"
)

// conn is the one stream to an address.
type conn struct {
	id      node.SessionID
	addr    string
	up      bool
	lost    bool // down; whoever still refers to it must look elsewhere
	reason  string
	dialled node.Time
	// unansweredSince is when the oldest request was sent since the peer was last
	// heard; Never when nothing waits.
	unansweredSince node.Time
	broker          bool // takes heartbeats
	nextHeartbeat   node.Time
}

// request is one frame whose answer is awaited: by a try of an operation, or by a
// route.
type request struct {
	opaque int32
	conn   *conn
	op     *operation
	try    int
	route  *route
}

// connTo returns the stream to addr, dialling one when there is none; nil when
// the limit is reached.
func (c *Client) connTo(addr string) *conn {
	if k := c.byAddr[addr]; k != nil {
		return k
	}
	if len(c.conns) >= c.opt.MaxSessions {
		return nil
	}
	c.nextSession++
	k := &conn{id: node.Dialled | node.SessionID(c.nextSession), addr: addr, dialled: c.now.Mono, unansweredSince: node.Never}
	c.conns = append(c.conns, k)
	c.byID[k.id], c.byAddr[addr] = k, k
	c.dials = append(c.dials, node.Dial{Session: k.id, Link: wire.Remoting, Addr: addr})
	return k
}

// transmit hands a request to the host; from here on its effect is possible.
func (c *Client) transmit(r *request, f wire.Frame) {
	invariant.That(r.conn.up && !r.conn.lost, "client: frame for a stream that is not up")
	c.nextOpaque = c.freeOpaque()
	r.opaque, f.Head.Opaque = c.nextOpaque, c.nextOpaque
	wire.Seal(&f)
	c.pending[r.opaque] = r
	c.sends = append(c.sends, node.Send{To: r.conn.id, Frame: f})
	r.conn.unansweredSince = min(r.conn.unansweredSince, c.now.Mono)
}

// freeOpaque is the next request id that no awaited request has.
func (c *Client) freeOpaque() int32 {
	n := c.nextOpaque
	for {
		if n++; n < 0 {
			n = 1
		}
		if c.pending[n] == nil {
			return n
		}
	}
}

// touchConn looks again at everything that waits for k.
func (c *Client) touchConn(k *conn) {
	for _, op := range c.order {
		if op.conn == k {
			c.touch(op)
		}
	}
}

// connLost forgets k and tells whoever had something on it, oldest first.
func (c *Client) connLost(k *conn, reason string) {
	wasUp := k.up
	k.lost, k.up, k.reason = true, false, reason
	delete(c.byID, k.id)
	delete(c.byAddr, k.addr)
	c.conns = slices.DeleteFunc(c.conns, func(o *conn) bool { return o == k })
	owed := c.opaquesOf(k)
	if !wasUp || len(owed) > 0 {
		c.failed(k.addr, true) // the end of an idle stream says nothing about its peer
	}
	for _, opaque := range owed {
		r := c.pending[opaque]
		delete(c.pending, opaque)
		if r.op != nil {
			c.trySilent(r.op, r.try, "session lost: "+reason)
		}
	}
	c.touchConn(k)
}

func (c *Client) opaquesOf(k *conn) []int32 {
	var out []int32
	for opaque, r := range c.pending { // tidy:unordered sorted below
		if r.conn == k {
			out = append(out, opaque)
		}
	}
	slices.Sort(out)
	return out
}

// drop closes k from this side: it is half-open, or was told to go away.
func (c *Client) drop(k *conn, reason string) {
	c.closes = append(c.closes, k.id)
	c.connLost(k, reason)
}

// settleConns gives up dials that take too long.
func (c *Client) settleConns() {
	for i := 0; i < len(c.conns); i++ {
		if k := c.conns[i]; !k.up && c.now.Mono >= k.dialled.Add(c.opt.ConnectTimeout) {
			c.drop(k, "connect time-out")
			i = -1 // the list changed
		}
	}
}

// suspect is called when a request on k has timed out: a stream on which nothing
// has come back for limit is taken for half-open.
func (c *Client) suspect(k *conn, limit node.Time) {
	if !k.lost && k.unansweredSince <= limit {
		c.drop(k, "silent")
	}
}

func (k *conn) deadline(c *Client) node.Time {
	switch {
	case !k.up:
		return k.dialled.Add(c.opt.ConnectTimeout)
	case k.broker && c.heartbeats():
		return k.nextHeartbeat
	}
	return node.Never
}
