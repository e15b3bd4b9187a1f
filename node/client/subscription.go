package client

import (
	"fmt"
	"slices"
	"strings"

	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
)

// From says where a group without a committed offset starts.
type From uint8

// The starts (wire contracts 5.2): retry topics always start at the first.
const (
	FromLast From = iota
	FromFirst
)

// QueueRef names one queue.
type QueueRef struct {
	Broker string // broker group
	Queue  int32
}

// Subscription is a topic to consume without end.
type Subscription struct {
	Topic string
	// Queues are the queues assigned to this client; empty means all readable ones,
	// those that appear later included.
	Queues []QueueRef
	From   From
	// Tags is "*" or "" for everything, or tags joined with "||".
	Tags string
	// NoCommit leaves the committed offset of the group alone.
	NoCommit bool
	// Confirm makes commits cover what Consumed reported, not all that was taken: for
	// callers that may end between taking a message and using it.
	Confirm bool
}

// subscription is a Subscription at work.
type subscription struct {
	ticket  Ticket
	arg     Subscription
	version int64
	seen    *wire.RouteData // the route whose queues are in
	queues  []*queue
}

// maxSubscriptions bounds subscriptions of one client, maxAssigned their queues.
const (
	maxSubscriptions = 64
	maxAssigned      = 4096
)

// queuePhase is how far a queue has come.
type queuePhase uint8

const (
	needOffset queuePhase = iota // the group's offset (14)
	needBound                    // there is none: the queue's end or beginning (30, 31)
	pulling
)

// queue is one assigned queue.
type queue struct {
	sub    *subscription
	ref    QueueRef
	phase  queuePhase
	first  bool // needBound: the beginning
	from   int64
	paused node.Time

	position  int64 // next offset to pull
	delivered int64 // end of the last delivery
	consumed  int64 // everything below it was taken (with Confirm: used), or matched nothing
	committed int64 // last offset the broker is known to hold; -1 for none
	untaken   int   // deliveries that wait for Take
	op        *operation
	commit    *operation
	commitAt  node.Time
}

// Subscribe begins to pull the queues of a topic. Messages come as outcomes of
// OpDeliver under the returned ticket, in the order of each queue.
func (c *Client) Subscribe(now node.Now, s Subscription) (Ticket, error) {
	c.now = now
	switch {
	case c.stopping:
		return 0, fmt.Errorf("subscribe: the client is stopping")
	case !validTopic(s.Topic):
		return 0, fmt.Errorf("subscribe: %.80q is not a topic name", s.Topic)
	case c.opt.ConsumerGroup == "":
		return 0, fmt.Errorf("subscribe to %s: the client has no consumerGroup; set one", s.Topic)
	case len(c.subs) >= maxSubscriptions || len(s.Queues) > maxAssigned:
		return 0, fmt.Errorf("subscribe to %s: %d subscriptions, %d queues; at most %d and %d", s.Topic, len(c.subs)+1, len(s.Queues), maxSubscriptions, maxAssigned)
	case slices.ContainsFunc(s.Queues, func(q QueueRef) bool { return q.Broker == "" || q.Queue < 0 }):
		return 0, fmt.Errorf("subscribe to %s: every queue needs a broker group and an id from 0", s.Topic)
	}
	c.nextTicket++
	sub := &subscription{ticket: c.nextTicket, arg: s, version: now.Wall}
	for _, ref := range s.Queues {
		sub.assign(c, ref)
	}
	c.subs = append(c.subs, sub)
	c.beatSoon()
	return sub.ticket, nil
}

// Unsubscribe ends a subscription: its last offsets are committed without waiting
// for the answer. What was delivered and not taken stays to be taken.
func (c *Client) Unsubscribe(now node.Now, t Ticket) error {
	c.now = now
	i := slices.IndexFunc(c.subs, func(s *subscription) bool { return s.ticket == t })
	if i < 0 {
		return fmt.Errorf("unsubscribe: ticket %d is no subscription", t)
	}
	s := c.subs[i]
	c.subs = slices.Delete(c.subs, i, i+1)
	for _, op := range slices.Clone(c.order) {
		if op.queue != nil && op.queue.sub == s {
			c.finish(op, "unsubscribed")
		}
	}
	c.lastCommit(s)
	c.beatSoon()
	return nil
}

func (s *subscription) assign(c *Client, ref QueueRef) {
	if len(s.queues) >= maxAssigned || slices.ContainsFunc(s.queues, func(q *queue) bool { return q.ref == ref }) {
		return
	}
	s.queues = append(s.queues, &queue{sub: s, ref: ref, committed: -1, commitAt: c.now.Mono.Add(c.opt.PersistConsumerOffsetInterval)})
}

// data is the subscription as heartbeats tell it.
func (s *subscription) data() wire.SubscriptionData {
	d := wire.SubscriptionData{Topic: s.arg.Topic, SubString: s.arg.Tags, TagsSet: tagsOf(s.arg.Tags), SubVersion: s.version, ExpressionType: wire.ExpressionTag}
	if d.TagsSet == nil {
		d.SubString = "*"
	}
	for _, t := range d.TagsSet {
		d.CodeSet = append(d.CodeSet, int32(storage.TagHash([]byte(t))))
	}
	return d
}

// settleSubscriptions keeps one request going for each queue.
func (c *Client) settleSubscriptions() {
	if c.stopping {
		return
	}
	for _, s := range c.subs {
		r := c.routeOf(s.arg.Topic)
		if r == nil {
			continue // the queues' own requests say so
		}
		if r.data == nil {
			r.wanted = true
			continue
		}
		if r.data != s.seen {
			s.seen = r.data
			s.assignAll(c)
		}
		for _, q := range s.queues {
			c.stepQueue(q)
		}
	}
}

// assignAll adds the readable queues of the route when the caller named none.
// Queues that a route no longer has stay: routes lose groups for a while in every
// failover.
func (s *subscription) assignAll(c *Client) {
	if len(s.arg.Queues) > 0 {
		return
	}
	for _, d := range s.seen.QueueDatas {
		if d.Perm&wire.PermRead == 0 {
			continue
		}
		for id := range d.ReadQueueNums {
			s.assign(c, QueueRef{d.BrokerName, id})
		}
	}
}

// stepQueue begins whatever request the queue lacks.
func (c *Client) stepQueue(q *queue) {
	s := q.sub
	if q.phase == pulling && q.commit == nil && !s.arg.NoCommit && q.consumed != q.committed && c.now.Mono >= q.commitAt {
		q.commitAt = c.now.Mono.Add(c.opt.PersistConsumerOffsetInterval)
		q.commit = &operation{kind: OpCommit, queue: q}
		c.beginOffset(q.commit, s.arg.Topic, q.ref.Broker, q.ref.Queue, q.consumed)
	}
	if q.op != nil || c.now.Mono < q.paused {
		return
	}
	switch q.phase {
	case needOffset:
		q.op = &operation{kind: OpQueryOffset, queue: q}
		c.beginOffset(q.op, s.arg.Topic, q.ref.Broker, q.ref.Queue, -1)
	case needBound:
		q.op = &operation{kind: OpMaxOffset, queue: q}
		if q.first {
			q.op.kind = OpMinOffset
		}
		c.beginOffset(q.op, s.arg.Topic, q.ref.Broker, q.ref.Queue, -1)
	case pulling:
		if c.backlog >= c.opt.MaxDelivered {
			return
		}
		q.op = c.pullOp(PullRequest{Topic: s.arg.Topic, Broker: q.ref.Broker, Queue: q.ref.Queue, Offset: q.position, Suspend: true, Tags: s.arg.Tags})
		q.op.queue, q.op.from, q.op.pull.version = q, q.from, s.version
		c.beginPull(q.op)
	}
}

// finished takes the end of one of the queue's own requests.
func (q *queue) finished(c *Client, op *operation) {
	done := op.out.Status == Done
	if op == q.commit {
		q.commit = nil
		if done {
			q.committed = op.out.Offset
		} else {
			q.commitAt = max(q.commitAt, c.now.Mono.Add(c.opt.RetryBackoffMax))
		}
		return
	}
	q.op = nil
	if !done {
		q.paused, q.from = c.now.Mono.Add(c.opt.RetryBackoffMax), masterRole
		return
	}
	switch op.kind {
	case OpPull:
		q.pulled(c, op)
	case OpQueryOffset:
		if op.out.Code == wire.CodeQueryNotFound {
			q.phase, q.first = needBound, q.sub.arg.From == FromFirst || strings.HasPrefix(q.sub.arg.Topic, "%RETRY%")
			return
		}
		q.committed = op.out.Offset
		q.start(op.out.Offset)
	default:
		q.start(op.out.Offset)
	}
}

func (q *queue) start(offset int64) {
	q.phase, q.position, q.delivered, q.consumed = pulling, offset, offset, offset
}

// pulled moves the position to where the broker says, in every case, and delivers
// what came.
func (q *queue) pulled(c *Client, op *operation) {
	o := &op.out
	q.position, q.from = o.Next, op.from
	switch {
	case o.Code == wire.CodePullOffsetMoved:
		q.deliver(c, op, OpMoved)
	case len(o.Messages) > 0:
		q.deliver(c, op, OpDeliver)
	default:
		q.passFiltered()
	}
}

// passFiltered counts what matched nothing as consumed, once all before it is.
func (q *queue) passFiltered() {
	if q.untaken == 0 && (!q.sub.arg.Confirm || q.consumed == q.delivered) {
		q.consumed = q.position
		q.delivered = q.position
	}
}

func (q *queue) deliver(c *Client, op *operation, kind Op) {
	o := op.out
	o.Ticket, o.Op = q.sub.ticket, kind
	q.untaken++
	q.delivered = o.Next
	c.backlog += len(o.Messages)
	c.stats.delivered += int64(len(o.Messages))
	c.outcomes = append(c.outcomes, outcome{Outcome: o, queue: q})
}

// taken: the caller has the delivery, so that commits may cover it.
func (q *queue) taken(o *Outcome) {
	q.untaken--
	if !q.sub.arg.Confirm {
		q.consumed = o.Next
	}
	q.passFiltered()
}

// Consumed reports that the caller has used everything of a queue below next: a
// delivery's Outcome.Next, or the offset after one of its messages. It is for
// subscriptions with Confirm; the next commit covers it.
func (c *Client) Consumed(now node.Now, t Ticket, ref QueueRef, next int64) error {
	c.now = now
	i := slices.IndexFunc(c.subs, func(s *subscription) bool { return s.ticket == t && s.arg.Confirm })
	if i < 0 {
		return fmt.Errorf("consumed: ticket %d is no subscription with Confirm", t)
	}
	for _, q := range c.subs[i].queues {
		if q.ref == ref {
			q.consumed = min(next, q.delivered) // the broker may have moved the queue back since
			q.passFiltered()
			return nil
		}
	}
	return fmt.Errorf("consumed: %s/%d is not assigned to ticket %d", ref.Broker, ref.Queue, t)
}

// lastCommit sends the offsets that are not committed yet, one-way.
func (c *Client) lastCommit(s *subscription) {
	if s.arg.NoCommit {
		return
	}
	for _, q := range s.queues {
		if q.phase != pulling || q.consumed == q.committed || s.seen == nil {
			continue
		}
		k := c.byAddr[addrOf(s.seen, q.ref.Broker, masterRole)]
		if k == nil || !k.up {
			continue
		}
		f := wire.NewRequest(wire.ReqUpdateConsumerOffset, 0, &wire.UpdateOffsetRequest{ConsumerGroup: c.opt.ConsumerGroup,
			Topic: s.arg.Topic, QueueID: q.ref.Queue, CommitOffset: q.consumed, BrokerName: q.ref.Broker}, nil)
		f.Head.Flag = wire.FlagOneway
		c.post(k, f)
	}
}

// deadline is when a queue has something to do by itself.
func (s *subscription) deadline(c *Client) node.Time {
	d := node.Never
	if s.seen == nil {
		return d // the route's deadline
	}
	for _, q := range s.queues {
		if q.phase == pulling && q.commit == nil && !s.arg.NoCommit && q.consumed != q.committed {
			d = min(d, q.commitAt)
		}
		if q.op == nil && !(q.phase == pulling && c.backlog >= c.opt.MaxDelivered) {
			d = min(d, q.paused)
		}
	}
	return d
}
