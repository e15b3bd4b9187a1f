package client

import (
	"fmt"
	"strings"

	"lockstep/internal/event"
	"lockstep/internal/invariant"
	"lockstep/node"
	"lockstep/node/wire"
)

// opState is where an operation stands.
type opState uint8

const (
	opGated      opState = iota // a send in front of MaxInFlight
	opIdle                      // needs a try: a target, a pause to end, a route
	opConnecting                // a try waits for its stream
	opInFlight                  // a try's frame was handed over
	opDone
)

// operation is one logical request and its tries. Tries before the current one
// may still be answered: they stay in pending until the operation ends.
type operation struct {
	kind  Op
	out   Outcome // what is known; its Tries grow
	state opState

	opaques  []int32   // of out.Tries; 0 when never sent
	deadline node.Time // end of the total budget
	perTry   node.Time // length of one try's budget
	tryUntil node.Time
	conn     *conn // of the current try
	wakeAt   node.Time
	isDirty  bool

	reached  int    // tries that reached a broker (sent)
	maxReach int    // limit of those; 0: only the budget limits
	avoid    string // broker group of the last failed try

	send   *wire.SendMessageRequest // OpSend: header without queue
	body   []byte
	fixed  bool // the caller chose the queue
	pull   *pullArgs
	create *creation
	from   int64  // role id that reads prefer; 0 is the master
	queue  *queue // subscription queue it works for; nil for the caller's own

	// Memory of the usual operation, which needs one try.
	firstTry     [1]Try
	firstOpaque  [1]int32
	firstRequest request
}

// pullArgs are the parts of a pull that Outcome does not hold.
type pullArgs struct {
	max     int32
	suspend bool
	tags    string
	version int64
}

// maxTries bounds the tries recorded of one operation; the last ones of an outage
// of the whole budget are then longer apart.
const maxTries = 128

// begin enters an operation.
func (c *Client) begin(op *operation, budget, perTry node.Time) Ticket {
	c.nextTicket++
	op.out.Ticket, op.out.Op, op.out.Started = c.nextTicket, op.kind, c.now.Mono
	op.out.Code, op.out.Log = NoCode, -1
	op.deadline, op.perTry = c.now.Mono+budget, perTry
	op.wakeAt = node.Never
	op.state = opIdle
	op.out.Tries, op.opaques = op.firstTry[:0:1], op.firstOpaque[:0]
	c.ops[op.out.Ticket] = op
	c.order = append(c.order, op)
	if op.queue == nil {
		c.begun++
	}
	if op.kind == OpSend {
		op.state = opGated
		c.gate = append(c.gate, op)
	}
	c.touch(op) // its first look sets when the next is due
	return op.out.Ticket
}

// touch puts an operation on the list that Settle works off.
func (c *Client) touch(op *operation) {
	if !op.isDirty && op.state != opDone {
		op.isDirty = true
		c.dirty = append(c.dirty, op)
	}
}

// settleOperations opens the gate for sends and moves what was touched.
func (c *Client) settleOperations() {
	for {
		for len(c.gate) > 0 && c.sending < c.opt.MaxInFlight {
			op := c.gate[0]
			c.gate = c.gate[1:]
			if op.state == opGated {
				op.state = opIdle
				c.sending++
				c.touch(op)
			}
		}
		if len(c.dirty) == 0 {
			return
		}
		work := c.dirty
		c.dirty = c.spare[:0]
		for _, op := range work {
			op.isDirty = false
			c.advance(op)
		}
		clear(work)
		c.spare = work
	}
}

// advance moves one operation until it has to wait.
func (c *Client) advance(op *operation) {
	for op.state != opDone {
		if c.now.Mono >= op.deadline {
			c.finish(op, "time-out")
			return
		}
		switch op.state {
		case opGated:
			c.wakeOp(op, op.deadline)
			return
		case opIdle:
			if wait, ok := c.beginTry(op); !ok {
				if op.state != opDone {
					c.wakeOp(op, min(wait, op.deadline))
				}
				return
			}
		case opConnecting:
			if !c.connectTry(op) {
				return
			}
		case opInFlight:
			if c.now.Mono < op.tryUntil {
				c.wakeOp(op, min(op.tryUntil, op.deadline))
				return
			}
			c.tryTimedOut(op)
		}
	}
}

// beginTry chooses a target and starts a try at it. Not ok: nothing can be tried
// before wait (or before a route arrives); the operation may also have ended.
func (c *Client) beginTry(op *operation) (wait node.Time, ok bool) {
	if op.maxReach > 0 && op.reached >= op.maxReach || len(op.out.Tries) >= maxTries {
		if !op.outstanding() {
			c.finish(op, "no tries left")
		}
		return node.Never, false // a late answer may still decide
	}
	t, wait := c.choose(op)
	if t.addr == "" {
		return wait, false
	}
	op.out.Tries = append(op.out.Tries, Try{Broker: t.broker, Addr: t.addr, Queue: t.queue, Began: c.now.Mono})
	op.opaques = append(op.opaques, 0)
	c.stats.tries++
	if len(op.out.Tries) > 1 {
		c.stats.retries++
		prev := &op.out.Tries[len(op.out.Tries)-2]
		c.emit(event.Event{Kind: event.ClientRetry, Group: t.broker, Count: int64(op.out.Ticket), Code: prev.Code,
			Text: fmt.Sprintf("%s try %d after %s at %s: %s", op.kind, len(op.out.Tries), prev.End, prev.Addr, prev.Remark)})
	}
	op.tryUntil = c.now.Mono + op.perTry
	op.state, op.conn = opConnecting, c.connTo(t.addr)
	return node.Never, true
}

// connectTry sends the current try once its stream is up. False: wait.
func (c *Client) connectTry(op *operation) bool {
	k := op.conn
	switch {
	case k == nil:
		c.tryNeverSent(op, fmt.Sprintf("no stream: %d are open, the limit (maxSessions)", c.opt.MaxSessions))
		c.failed(op.current().Addr, false)
		return true
	case k.lost:
		c.tryNeverSent(op, "no connection: "+k.reason)
		return true
	case k.up:
		n := len(op.out.Tries) - 1
		r := &op.firstRequest
		if n > 0 {
			r = &request{}
		}
		*r = request{conn: k, op: op, try: n}
		k.takesHeartbeats(c)
		c.transmit(r, c.frame(op))
		op.opaques[n] = r.opaque
		op.reached++
		op.state = opInFlight
		return true
	case c.now.Mono >= op.tryUntil:
		c.tryNeverSent(op, "no connection within the try's budget")
		c.failed(op.current().Addr, true)
		return true
	}
	c.wakeOp(op, min(op.tryUntil, op.deadline))
	return false
}

func (op *operation) current() *Try { return &op.out.Tries[len(op.out.Tries)-1] }

// outstanding reports whether an answer may still come.
func (op *operation) outstanding() bool {
	for i := range op.out.Tries {
		if op.out.Tries[i].End == TrySilent && op.opaques[i] != 0 {
			return true
		}
	}
	return false
}

// endTry closes the current try and asks for a fresh route, which is what a
// failure most often means.
func (c *Client) endTry(op *operation, end TryEnd, code int32, remark string) {
	t := op.current()
	t.End, t.Code, t.Remark, t.Ended = end, code, remark, c.now.Mono
	op.leave(t)
	c.wantRoute(op)
}

// leave puts the operation back to choosing a target, preferably another one;
// reads go back to the master.
func (op *operation) leave(t *Try) {
	op.avoid, op.state, op.conn, op.from = t.Broker, opIdle, nil, masterRole
}

func (c *Client) tryNeverSent(op *operation, why string) { c.endTry(op, TryNeverSent, NoCode, why) }

// tryTimedOut leaves the current try unknown; its answer is still taken when it
// comes before the operation ends.
func (c *Client) tryTimedOut(op *operation) {
	k, addr := op.conn, op.current().Addr
	c.endTry(op, TrySilent, NoCode, "time-out")
	c.failed(addr, true)
	if k != nil {
		c.suspect(k, c.now.Mono-node.Time(c.opt.SessionSilence))
	}
}

// trySilent: the stream of try n ended with its answer outstanding.
func (c *Client) trySilent(op *operation, n int, why string) {
	if op.state == opDone {
		return
	}
	op.opaques[n] = 0
	if op.state == opInFlight && n == len(op.out.Tries)-1 {
		c.endTry(op, TrySilent, NoCode, why)
	} else if t := &op.out.Tries[n]; t.End == TrySilent {
		t.Remark = why
	}
	c.touch(op)
}

// answered takes the answer to try n.
func (c *Client) answered(op *operation, n int, f *wire.Frame) {
	invariant.That(op.state != opDone, "client: answer for the finished operation %d", op.out.Ticket)
	late := op.state != opInFlight || n != len(op.out.Tries)-1
	if late {
		c.stats.late++
	}
	op.opaques[n] = 0
	t := &op.out.Tries[n]
	v := c.judge(op, t, f)
	// A frame's texts are parts of a larger read buffer, and outcomes may be kept.
	t.End, t.Code, t.Remark, t.Ended = v.end, f.Head.Code, strings.Clone(f.Head.Remark), c.now.Mono
	switch {
	case v.end == TryDone || v.end == TryUnproven:
		c.health.ok(t.Addr)
	case v.goAway:
		c.connGoAway(t.Addr)
	default:
		c.failed(t.Addr, false)
	}
	if v.final {
		c.finish(op, "")
		return
	}
	if !late {
		op.leave(t)
	}
	c.wantRoute(op)
	c.touch(op)
}

// connGoAway closes the stream to a broker that is shutting down.
func (c *Client) connGoAway(addr string) {
	c.failed(addr, true)
	if k := c.byAddr[addr]; k != nil {
		c.drop(k, "told to go away")
	}
}

// verdict is what an answer means for its try.
type verdict struct {
	end    TryEnd
	final  bool // the operation ends with it
	goAway bool
}

// finish ends an operation with what its tries say. why is the remark of an
// operation that ran out of time or tries.
func (c *Client) finish(op *operation, why string) {
	if op.state == opDone {
		return
	}
	if op.kind == OpSend && op.state != opGated {
		c.sending--
	}
	op.state = opDone
	c.swept++
	delete(c.ops, op.out.Ticket)
	for _, opaque := range op.opaques {
		delete(c.pending, opaque)
	}
	c.conclude(op, why)
	op.conn = nil
	if r := c.routes.byTopic[op.out.Topic]; op.kind == OpCreateTopic && r != nil {
		r.wanted, r.notBefore, r.fruitless = true, c.now.Mono, 0
	}
	if op.queue != nil {
		op.queue.finished(c, op)
		return
	}
	c.begun--
	switch op.out.Status {
	case Done:
		c.stats.done++
	case NotDone:
		c.stats.notDone++
	default:
		c.stats.unknown++
	}
	c.outcomes = append(c.outcomes, outcome{Outcome: op.out})
}

// conclude derives the status: the strongest statement that is true of all tries.
func (c *Client) conclude(op *operation, why string) {
	o := &op.out
	o.Finished = c.now.Mono
	decided := -1
	for i := range o.Tries {
		t := &o.Tries[i]
		if t.End == TryPending {
			t.End, t.Code, t.Remark, t.Ended = TryNeverSent, NoCode, why, c.now.Mono
			if op.opaques[i] != 0 {
				t.End = TrySilent
			}
		}
		if decided < 0 || weight(t.End) >= weight(o.Tries[decided].End) {
			decided = i
		}
	}
	o.Status = NotDone
	if decided >= 0 {
		t := &o.Tries[decided]
		o.Code, o.Remark, o.Broker, o.Queue = t.Code, t.Remark, t.Broker, t.Queue
		o.Status = statusOf(op.kind, t.End)
	}
	if op.create != nil {
		op.create.conclude(o)
	}
	switch {
	case op.reached == 0:
		code, remark := c.routeFault(op)
		o.Code, o.Remark = code, joinRemarks(o.Remark, why, remark)
	case o.Code == NoCode:
		o.Remark = joinRemarks(o.Remark, why)
	}
}

// weight orders the ends of tries by how much they say about the whole.
func weight(e TryEnd) int { return [...]int{0, 1, 2, 3, 5, 4, 6}[e%7] }

// statusOf is the status that a try's end gives its operation. Reads have no
// effect, so that nothing about them is unknown.
func statusOf(kind Op, e TryEnd) Status {
	switch {
	case e == TryDone:
		return Done
	case e == TryNeverSent || e == TryRefused || !kind.writes():
		return NotDone
	}
	return Unknown
}

// writes reports whether the operation changes something at a broker.
func (o Op) writes() bool { return o == OpSend || o == OpCommit || o == OpCreateTopic }

func joinRemarks(parts ...string) string {
	out := ""
	for _, p := range parts {
		switch {
		case p == "":
		case out == "":
			out = p
		case out != p:
			out += "; " + strings.TrimSpace(p) // RocketMQ's remark for an unknown request begins with a blank
		}
	}
	return out
}

// sweep drops finished operations from order once they are the larger part.
func (c *Client) sweep() {
	if c.swept < 16 || c.swept*2 < len(c.order) {
		return
	}
	kept := c.order[:0]
	for _, op := range c.order {
		if op.state != opDone {
			kept = append(kept, op)
		}
	}
	clear(c.order[len(kept):])
	c.order, c.swept = kept, 0
}

// check asserts what holds for an unfinished operation after Settle.
func (op *operation) check(c *Client) {
	switch op.state {
	case opConnecting:
		invariant.That(op.conn != nil && op.current().End == TryPending, "client: operation %d connects without a stream", op.out.Ticket)
	case opInFlight:
		n := len(op.out.Tries) - 1
		r := c.pending[op.opaques[n]]
		invariant.That(r != nil && r.op == op && r.try == n, "client: operation %d is in flight without a request", op.out.Ticket)
	}
	invariant.That(op.isDirty || op.wakeAt <= op.deadline, "client: operation %d would not wake", op.out.Ticket)
}
