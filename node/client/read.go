package client

import (
	"fmt"
	"time"

	"lockstep/node"
	"lockstep/node/wire"
)

// PullRequest asks for messages of one queue.
type PullRequest struct {
	Topic  string
	Broker string // broker group
	Queue  int32
	Offset int64 // first queue offset wanted
	Max    int   // messages; 0 means Options.PullBatchSize
	// Suspend lets the broker hold the pull until something arrives, for
	// Options.BrokerSuspendMaxTime at most.
	Suspend bool
	// Tags is "*" or "" for everything, or tags joined with "||".
	Tags string
}

// Pull begins a pull. It ends Done with code 0 (messages), 19 (nothing there
// yet), 20 (nothing matched) or 21 (the offset is outside the queue); Outcome.Next
// is where to go on in every case.
func (c *Client) Pull(now node.Now, p PullRequest) (Ticket, error) {
	c.now = now
	if err := c.admitQueue("pull", p.Topic, p.Broker, p.Queue, true); err != nil {
		return 0, err
	}
	if p.Offset < 0 || p.Max < 0 || p.Max > maxPullBatch {
		return 0, fmt.Errorf("pull of %s: offset %d, max %d; offset 0 or more, max 0 to %d", p.Topic, p.Offset, p.Max, maxPullBatch)
	}
	op := c.pullOp(p)
	return c.beginPull(op), nil
}

func (c *Client) pullOp(p PullRequest) *operation {
	if p.Max == 0 {
		p.Max = c.opt.PullBatchSize
	}
	if p.Tags == "" {
		p.Tags = "*"
	}
	return &operation{kind: OpPull, pull: &pullArgs{max: int32(p.Max), suspend: p.Suspend, tags: p.Tags, version: c.now.Wall},
		out: Outcome{Topic: p.Topic, Group: c.opt.ConsumerGroup, Broker: p.Broker, Queue: p.Queue, Offset: p.Offset, Next: p.Offset}}
}

// beginPull gives a held pull the time that the broker may take, twice in case the
// first broker dies holding it.
func (c *Client) beginPull(op *operation) Ticket {
	if !op.pull.suspend {
		return c.begin(op, node.Time(c.opt.RequestTimeout), node.Time(c.opt.RequestTryTimeout))
	}
	try := c.opt.BrokerSuspendMaxTime + c.opt.PullGrace
	return c.begin(op, node.Time(2*try), node.Time(try))
}

// admitQueue checks a request about one queue.
func (c *Client) admitQueue(what, topic, broker string, queue int32, group bool) error {
	if err := c.admit(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	switch {
	case !validTopic(topic):
		return fmt.Errorf("%s: %.80q is not a topic name", what, topic)
	case broker == "" || queue < 0:
		return fmt.Errorf("%s of %s: broker group %q and queue %d; name the group and a queue from 0", what, topic, broker, queue)
	case group && c.opt.ConsumerGroup == "":
		return fmt.Errorf("%s of %s: the client has no consumerGroup; set one", what, topic)
	}
	return nil
}

// CommitOffset begins to store the group's offset of a queue at its broker.
func (c *Client) CommitOffset(now node.Now, topic, broker string, queue int32, offset int64) (Ticket, error) {
	c.now = now
	if offset < 0 {
		return 0, fmt.Errorf("commit of %s: offset %d is negative", topic, offset)
	}
	return c.offsetOp(OpCommit, topic, broker, queue, offset)
}

// QueryOffset begins to ask for the group's committed offset. Done with code 0 has
// it in Outcome.Offset; Done with code 22 means that there is none.
func (c *Client) QueryOffset(now node.Now, topic, broker string, queue int32) (Ticket, error) {
	c.now = now
	return c.offsetOp(OpQueryOffset, topic, broker, queue, -1)
}

// MaxOffset begins to ask for the next offset to be written, as consumers may see
// it.
func (c *Client) MaxOffset(now node.Now, topic, broker string, queue int32) (Ticket, error) {
	c.now = now
	return c.offsetOp(OpMaxOffset, topic, broker, queue, -1)
}

// MinOffset begins to ask for the first offset still stored.
func (c *Client) MinOffset(now node.Now, topic, broker string, queue int32) (Ticket, error) {
	c.now = now
	return c.offsetOp(OpMinOffset, topic, broker, queue, -1)
}

func (c *Client) offsetOp(kind Op, topic, broker string, queue int32, offset int64) (Ticket, error) {
	if err := c.admitQueue(kind.String(), topic, broker, queue, kind == OpCommit || kind == OpQueryOffset); err != nil {
		return 0, err
	}
	return c.beginOffset(&operation{kind: kind}, topic, broker, queue, offset), nil
}

func (c *Client) beginOffset(op *operation, topic, broker string, queue int32, offset int64) Ticket {
	op.out = Outcome{Topic: topic, Group: c.opt.ConsumerGroup, Broker: broker, Queue: queue, Offset: offset}
	return c.begin(op, node.Time(c.opt.RequestTimeout), node.Time(c.opt.RequestTryTimeout))
}

// frame is the frame of the current try.
func (c *Client) frame(op *operation) wire.Frame {
	o, broker := &op.out, op.current().Broker
	switch op.kind {
	case OpSend:
		return op.sendFrame()
	case OpCreateTopic:
		return wire.NewRequest(wire.ReqCreateTopic, 0, &op.create.head, nil)
	case OpPull:
		return c.pullFrame(op)
	case OpCommit:
		return wire.NewRequest(wire.ReqUpdateConsumerOffset, 0, &wire.UpdateOffsetRequest{ConsumerGroup: o.Group, Topic: o.Topic,
			QueueID: o.Queue, CommitOffset: o.Offset, BrokerName: broker}, nil)
	case OpQueryOffset:
		return wire.NewRequest(wire.ReqQueryConsumerOffset, 0, &wire.QueryOffsetRequest{ConsumerGroup: o.Group, Topic: o.Topic,
			QueueID: o.Queue, BrokerName: broker}, nil)
	case OpMinOffset:
		return wire.NewRequest(wire.ReqGetMinOffset, 0, &wire.QueueOffsetRequest{Topic: o.Topic, QueueID: o.Queue, BrokerName: broker}, nil)
	}
	return wire.NewRequest(wire.ReqGetMaxOffset, 0, &wire.QueueOffsetRequest{Topic: o.Topic, QueueID: o.Queue, BrokerName: broker}, nil)
}

func (c *Client) pullFrame(op *operation) wire.Frame {
	o := &op.out
	h := &wire.PullRequest{ConsumerGroup: o.Group, Topic: o.Topic, QueueID: o.Queue, QueueOffset: o.Offset, MaxMsgNums: op.pull.max,
		SysFlag: wire.PullSubscription, SubVersion: op.pull.version, Subscription: op.pull.tags, ExpressionType: wire.ExpressionTag,
		BrokerName: o.Broker}
	if op.pull.suspend {
		h.SysFlag |= wire.PullSuspend
		h.SuspendTimeoutMillis = int64(c.opt.BrokerSuspendMaxTime / time.Millisecond)
	}
	return wire.NewRequest(wire.ReqPull, 0, h, nil)
}

// judgeCommit: codes that say the request itself is wrong end it; a system error
// leaves open what was stored, and the same offset may be sent again.
func judgeCommit(code int32) verdict {
	switch code {
	case wire.CodeSuccess:
		return verdict{end: TryDone, final: true}
	case wire.CodeGroupNotExist, wire.CodeTopicNotExist, wire.CodeInvalidParameter, wire.CodeNoPermission, wire.CodeRequestCodeNotSupported:
		return verdict{end: TryRefused, final: true}
	case wire.CodeSystemBusy, wire.CodeServiceNotAvailable, wire.CodeSlaveNotAvailable, wire.CodeGoAway:
		return verdict{end: TryRefused}
	}
	return verdict{end: TryDoubtful}
}

// judgeRead: reads have no effect, so that every failure may be tried again while
// the budget lasts, unless it says that the request itself is wrong.
func (c *Client) judgeRead(op *operation, f *wire.Frame) verdict {
	switch code := f.Head.Code; code {
	case wire.CodeTopicNotExist, wire.CodeGroupNotExist, wire.CodeInvalidParameter, wire.CodeNoPermission, wire.CodeSubscriptionParseFailed,
		wire.CodeFilterDataNotExist, wire.CodeFilterDataNotLatest, wire.CodeRequestCodeNotSupported:
		return verdict{end: TryRefused, final: true}
	case wire.CodePullNotFound, wire.CodePullRetryImmediately, wire.CodePullOffsetMoved:
		if op.kind == OpPull {
			return c.takePull(op, f)
		}
	case wire.CodeQueryNotFound:
		if op.kind == OpQueryOffset {
			return verdict{end: TryDone, final: true}
		}
	case wire.CodeSuccess:
		if op.kind == OpPull {
			return c.takePull(op, f)
		}
		var h wire.OffsetResponse
		if err := f.Header(&h); err != nil {
			f.Head.Remark = err.Error()
			return verdict{end: TryDoubtful}
		}
		op.out.Offset = h.Offset
		return verdict{end: TryDone, final: true}
	}
	return verdict{end: TryRefused}
}

// takePull takes the answer to a pull. One that cannot be read is tried again;
// nothing of it is delivered.
func (c *Client) takePull(op *operation, f *wire.Frame) verdict {
	h, err := f.PullResponse()
	if err != nil {
		f.Head.Remark = err.Error()
		return verdict{end: TryDoubtful}
	}
	var messages []Received
	if f.Head.Code == wire.CodeSuccess {
		if messages, err = decodeMessages(f.Body, op.out.Broker); err != nil {
			f.Head.Remark = err.Error()
			return verdict{end: TryDoubtful}
		}
	}
	op.out.Messages = matching(messages, op.pull.tags)
	op.out.Next, op.out.Min, op.out.Max = h.NextBeginOffset, h.MinOffset, h.MaxOffset
	op.from = h.SuggestWhichBrokerID
	return verdict{end: TryDone, final: true}
}
