// Package client is Lockstep's own RocketMQ client as a machine: producer,
// consumer and topic administration for the simulator's applications, chaos runs
// and tools. Its one rule is exactness: an operation ends done only on a broker's
// word, not done only when no try can have had an effect, and unknown in every
// other case (wire contracts 3.2, 3.3).
//
// The caller begins operations with the verbs (Send, Pull, …) between facts, on
// the loop that owns the machine, and drains their ends with Take.
package client

import (
	"fmt"
	"slices"

	"lockstep/internal/event"
	"lockstep/internal/invariant"
	"lockstep/internal/prng"
	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
)

// Client is the machine.
type Client struct {
	opt Options
	now node.Now

	nextTicket  Ticket
	nextSession uint64
	nextOpaque  int32

	ops     map[Ticket]*operation // unfinished, the client's own included
	order   []*operation          // the same in ticket order; finished ones are swept
	swept   int                   // finished ones in order
	begun   int                   // the caller's unfinished ones
	sending int                   // sends past the gate of MaxInFlight
	gate    []*operation          // sends in front of it, oldest first
	dirty   []*operation          // to be looked at by Settle
	spare   []*operation          // memory of dirty
	wakes   wakeHeap

	conns   []*conn // dialled and not down, in dialling order
	byID    map[node.SessionID]*conn
	byAddr  map[string]*conn
	pending map[int32]*request // requests whose answer is still of use
	health  healthTable
	routes  routeTable
	subs    []*subscription

	outcomes []outcome
	backlog  int // messages in outcomes that came from subscriptions

	sends    []node.Send
	dials    []node.Dial
	closes   []node.SessionID
	events   []event.Event
	stopping bool
	exited   bool

	stats counters
}

// counters are what the gauges report.
type counters struct{ done, notDone, unknown, tries, retries, late, routes, delivered int64 }

// outcome is an Outcome on its way to Take.
type outcome struct {
	Outcome
	queue *queue // whose position it moves when taken; nil for the caller's own
}

var _ node.Machine = (*Client)(nil)

// New returns a client, or the faults of its options.
func New(o Options) (*Client, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("client options: %w", err)
	}
	c := &Client{
		opt: o.withDefaults(), ops: map[Ticket]*operation{}, byID: map[node.SessionID]*conn{}, byAddr: map[string]*conn{},
		pending: map[int32]*request{},
	}
	c.health.init()
	c.routes.init(prng.Hash(c.opt.Seed, prng.HashString(c.opt.ClientID)))
	return c, nil
}

// Take returns the outcomes since the last call, in the order in which they came
// to be; they are the caller's. Taking a delivery is consuming it: its position is
// what the next offset commit of its subscription covers.
func (c *Client) Take() []Outcome {
	if len(c.outcomes) == 0 {
		return nil
	}
	out := make([]Outcome, len(c.outcomes))
	for i := range c.outcomes {
		o := &c.outcomes[i]
		out[i] = o.Outcome
		if o.queue != nil {
			o.queue.taken(&o.Outcome)
			c.backlog -= len(o.Messages)
		}
	}
	clear(c.outcomes)
	c.outcomes = c.outcomes[:0]
	return out
}

// Ended is the number of outcomes that wait for Take.
func (c *Client) Ended() int { return len(c.outcomes) }

// Unfinished is the number of the caller's operations that have not ended.
func (c *Client) Unfinished() int { return c.begun }

// SessionUp: a dial succeeded.
func (c *Client) SessionUp(now node.Now, s node.SessionID, p node.Peer) {
	c.now = now
	if k := c.byID[s]; k != nil {
		k.up = true
		c.touchConn(k)
	}
}

// Receive takes an answer, or refuses a broker's own request: this client keeps
// no state that a server could ask for.
func (c *Client) Receive(now node.Now, s node.SessionID, f *wire.Frame) {
	c.now = now
	k := c.byID[s]
	if k == nil || f.Link != wire.Remoting {
		return
	}
	k.unansweredSince = node.Never
	if !f.Head.Response() {
		c.serverRequest(k, f)
		return
	}
	r := c.pending[f.Head.Opaque]
	if r == nil || r.conn != k {
		return // its operation has ended
	}
	delete(c.pending, f.Head.Opaque)
	if r.op != nil {
		c.answered(r.op, r.try, f)
		return
	}
	c.routeAnswered(r.route, f)
}

// serverRequest handles what brokers ask clients. Rebalance notices (40) carry
// nothing this client needs; the rest is refused, so that the asker need not wait.
func (c *Client) serverRequest(k *conn, f *wire.Frame) {
	if f.Head.Oneway() || f.Head.Code == wire.ReqConsumerIDsChanged {
		return
	}
	remark := fmt.Sprintf(" request type %d not supported", f.Head.Code)
	c.sends = append(c.sends, node.Send{To: k.id, Frame: wire.NewFailure(&f.Head, wire.CodeRequestCodeNotSupported, remark)})
}

// SessionDown: a dial failed or a stream ended. Whatever was in flight on it is
// unknown, unless it never left.
func (c *Client) SessionDown(now node.Now, s node.SessionID, reason string) {
	c.now = now
	if k := c.byID[s]; k != nil {
		c.connLost(k, reason)
	}
}

// DiskDone is never due: a client writes nothing.
func (c *Client) DiskDone(now node.Now, r storage.Result) {
	c.now = now
	invariant.That(false, "client: result of operation %d, but it issues none", r.Op.ID)
}

// Stop ends every operation as it stands, commits what was consumed, unregisters
// and exits. Outcomes can still be taken.
func (c *Client) Stop(now node.Now) {
	c.now = now
	c.stopping = true
}

// Settle moves every operation as far as the facts allow.
func (c *Client) Settle(now node.Now, fx *node.Effects) {
	c.now = now
	c.settleConns()
	c.settleWakes()
	for {
		c.settleSubscriptions()
		c.settleOperations()
		c.settleRoutes()
		if len(c.dirty) == 0 {
			break
		}
	}
	c.settleHeartbeats()
	c.settleStop(fx)
	c.sweep()
	c.wakes.trim(c)
	fx.Sends = append(fx.Sends, c.sends...)
	fx.Dials = append(fx.Dials, c.dials...)
	fx.Closes = append(fx.Closes, c.closes...)
	fx.Events = append(fx.Events, c.events...)
	clear(c.sends)
	c.sends, c.dials, c.closes, c.events = c.sends[:0], c.dials[:0], c.closes[:0], c.events[:0]
}

// settleStop says goodbye. Sends go out before the closes of the same batch.
func (c *Client) settleStop(fx *node.Effects) {
	if !c.stopping || c.exited {
		return
	}
	c.exited = true
	for _, op := range slices.Clone(c.order) {
		c.finish(op, "client stopped")
	}
	c.dirty = nil
	for _, s := range c.subs {
		c.lastCommit(s)
	}
	for _, k := range c.conns {
		if k.up && k.broker {
			c.unregister(k)
		}
		c.closes = append(c.closes, k.id)
	}
	fx.Exit = &node.Exit{Code: node.ExitClean, Reason: "stopped"}
}

// Deadline is the earliest time at which something is due.
func (c *Client) Deadline() node.Time {
	switch {
	case c.exited:
		return node.Never
	case len(c.dirty) > 0 || c.stopping:
		return c.now.Mono
	}
	d := c.wakes.next()
	for _, k := range c.conns {
		d = min(d, k.deadline(c))
	}
	for _, r := range c.routes.list {
		d = min(d, r.deadline())
	}
	for _, s := range c.subs {
		d = min(d, s.deadline(c))
	}
	return d
}

// Listeners: a client serves nobody.
func (c *Client) Listeners() []node.Listener { return nil }

// Conditions says whether a route is known for all that is in use.
func (c *Client) Conditions() []node.Condition {
	missing := ""
	for _, r := range c.routes.list {
		if r.data == nil && r.info == nil {
			missing += " " + r.name()
		}
	}
	detail := ""
	if missing != "" {
		detail = "no route for" + missing
	}
	return []node.Condition{{Name: "routes", Ready: true, OK: missing == "", Detail: detail}}
}

// Gauges reports sizes and counts.
func (c *Client) Gauges(report func(string, float64)) {
	report("client_operations", float64(len(c.ops)))
	report("client_sends_waiting", float64(len(c.gate)))
	report("client_sessions", float64(len(c.conns)))
	report("client_outcomes_waiting", float64(len(c.outcomes)))
	report("client_done_total", float64(c.stats.done))
	report("client_not_done_total", float64(c.stats.notDone))
	report("client_unknown_total", float64(c.stats.unknown))
	report("client_tries_total", float64(c.stats.tries))
	report("client_retries_total", float64(c.stats.retries))
	report("client_late_answers_total", float64(c.stats.late))
	report("client_route_answers_total", float64(c.stats.routes))
	report("client_messages_delivered_total", float64(c.stats.delivered))
}

// CheckInvariants asserts that the tables agree.
func (c *Client) CheckInvariants() {
	invariant.That(len(c.order)-c.swept == len(c.ops), "client: %d operations in order, %d swept, %d known", len(c.order), c.swept, len(c.ops))
	begun, sending := 0, 0
	for i, op := range c.order {
		invariant.That(i == 0 || c.order[i-1].out.Ticket < op.out.Ticket, "client: tickets out of order at %d", op.out.Ticket)
		if op.state == opDone {
			continue
		}
		invariant.That(c.ops[op.out.Ticket] == op, "client: operation %d is not known", op.out.Ticket)
		invariant.That(len(op.opaques) == len(op.out.Tries), "client: operation %d: tries and requests differ", op.out.Ticket)
		if op.queue == nil {
			begun++
		}
		if op.kind == OpSend && op.state != opGated {
			sending++
		}
		op.check(c)
	}
	invariant.That(begun == c.begun && sending == c.sending, "client: %d begun, counted %d; %d sending, counted %d", begun, c.begun, sending, c.sending)
	invariant.That(c.sending <= c.opt.MaxInFlight, "client: %d sends in flight, at most %d", c.sending, c.opt.MaxInFlight)
	invariant.That(len(c.conns) == len(c.byID) && len(c.conns) == len(c.byAddr), "client: %d conns, %d by id, %d by address", len(c.conns), len(c.byID), len(c.byAddr))
	invariant.That(len(c.conns) <= c.opt.MaxSessions, "client: %d sessions, at most %d", len(c.conns), c.opt.MaxSessions)
}

func (c *Client) emit(e event.Event) { c.events = append(c.events, e) }
