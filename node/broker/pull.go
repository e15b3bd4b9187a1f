package broker

import (
	"fmt"
	"time"

	"lockstep/node"
	"lockstep/node/wire"
)

// pullQuery is a pull that passed the checks: a plain value that can be served
// now, held, or served when the disk has answered.
type pullQuery struct {
	session  node.SessionID
	opaque   int32
	sealed   bool
	key      queueKey
	offset   int64
	maxMsgs  int
	maxBytes int // 0: no wish
	filter   tagFilter
	suspend  time.Duration // may be held for so long; 0: not at all
	deadline node.Time     // end of the hold
	slow     int64         // role id to suggest when data is far behind
	usual    int64         // role id to suggest otherwise
	topicSys int32
	groupSys int32
}

// pullOutcome is the answer to a pull.
type pullOutcome struct {
	code    int32
	remark  string // name of RocketMQ's store status
	next    int64
	suggest int64
	body    []byte
}

// servePull answers codes 11 and 361.
func (b *Broker) servePull(now node.Now, s node.SessionID, f *wire.Frame) {
	h, err := f.PullRequest()
	if err != nil {
		b.reject(s, f, wire.CodeSystemError, err.Error())
		return
	}
	if p, ok := f.Prepared.(*preparedPull); ok && now.Mono.Sub(p.arrived) > b.o.WaitTimeMillsInPullQueue {
		b.reject(s, f, wire.CodeSystemBusy, fmt.Sprintf("[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: %dms",
			now.Mono.Sub(p.arrived).Milliseconds()))
		return
	}
	q := pullQuery{session: s, opaque: f.Head.Opaque, sealed: f.Head.Sealed}
	if r := b.checkPull(now, &h, &q); r != nil {
		b.reject(s, f, r.code, r.remark)
		return
	}
	if h.SysFlag&wire.PullCommitOffset != 0 && b.isMaster() {
		b.commitFromPull(now, &h)
	}
	if f.Head.Oneway() {
		return
	}
	b.counts.pulls++
	b.runPull(now, &q)
}

// checkPull checks a pull in the contract's order and fills q.
func (b *Broker) checkPull(now node.Now, h *wire.PullRequest, q *pullQuery) *refusal {
	if !b.isMaster() && !b.o.SlaveReadEnable {
		return &refusal{wire.CodeSystemBusy, "[REJECTREQUEST]system busy, start flow control for a while: this broker is no master and slaveReadEnable is off"}
	}
	if b.o.BrokerPermission&wire.PermRead == 0 {
		return &refusal{wire.CodeNoPermission, "the broker[" + b.storeAddress() + "] pulling message is forbidden"}
	}
	group, ok := b.group(h.ConsumerGroup)
	if !ok {
		return &refusal{wire.CodeGroupNotExist, "subscription group [" + h.ConsumerGroup + "] does not exist"}
	}
	if !group.ConsumeEnable {
		return &refusal{wire.CodeNoPermission, "subscription group no permission, " + h.ConsumerGroup}
	}
	topic, ok := b.topic(h.Topic)
	if !ok {
		return &refusal{wire.CodeTopicNotExist, "topic[" + h.Topic + "] not exist, apply first please!"}
	}
	if topic.Perm&wire.PermRead == 0 {
		return &refusal{wire.CodeNoPermission, "the topic[" + h.Topic + "] pulling message is forbidden"}
	}
	if h.QueueID < 0 || h.QueueID >= topic.ReadQueueNums {
		return &refusal{wire.CodeInvalidParameter, fmt.Sprintf("queueId[%d] is illegal, topic:[%s] topicConfig.readQueueNums:[%d] consumer:[%s]",
			h.QueueID, h.Topic, topic.ReadQueueNums, h.ConsumerGroup)}
	}
	if r := b.pullFilter(h, &group, q); r != nil {
		return r
	}
	b.wishGroup(h.ConsumerGroup)
	q.key = queueKey{topic.TopicName, h.QueueID} // not the frame's text, which would keep its whole buffer
	q.offset, q.maxMsgs, q.maxBytes = h.QueueOffset, int(max(h.MaxMsgNums, 1)), int(max(h.MaxMsgBytes, 0))
	q.usual, q.slow = group.BrokerID, group.WhichBrokerWhenConsumeSlowly
	q.topicSys, q.groupSys = topic.TopicSysFlag, group.GroupSysFlag
	if h.SysFlag&wire.PullSuspend != 0 {
		q.suspend = b.suspendFor(h.SuspendTimeoutMillis)
		q.deadline = now.Mono.Add(q.suspend)
	}
	return nil
}

// suspendFor is how long a pull may be held.
func (b *Broker) suspendFor(millis int64) time.Duration {
	if !b.o.LongPollingEnable {
		return b.o.ShortPollingTime
	}
	return time.Duration(max(0, min(millis, int64(maxSuspend/time.Millisecond)))) * time.Millisecond
}

// pullFilter finds what the pull filters by: its own expression, or what its
// group registered in heartbeats.
func (b *Broker) pullFilter(h *wire.PullRequest, group *wire.SubscriptionGroupConfig, q *pullQuery) *refusal {
	if h.SysFlag&wire.PullSubscription != 0 {
		if h.ExpressionType == wire.ExpressionSQL92 {
			return &refusal{wire.CodeSystemError, sqlRefused}
		}
		if !tagExpression(h.ExpressionType) {
			return &refusal{wire.CodeSubscriptionParseFailed, "parse the consumer's subscription failed: unknown expression type " + quoteShort(h.ExpressionType)}
		}
		filter, why := parseTags(h.Subscription)
		if why != "" {
			return &refusal{wire.CodeSubscriptionParseFailed, why}
		}
		q.filter = filter
		return nil
	}
	g := b.clients.consumers[h.ConsumerGroup]
	if g == nil {
		return &refusal{wire.CodeSubscriptionNotExist, "the consumer's group info not exist"}
	}
	if !group.ConsumeBroadcastEnable && g.broadcasting() {
		return &refusal{wire.CodeNoPermission, "the consumer group[" + h.ConsumerGroup + "] can not consume by broadcast way"}
	}
	sub := g.subscription(h.Topic)
	switch {
	case sub == nil:
		return &refusal{wire.CodeSubscriptionNotExist, "the consumer's subscription not exist"}
	case sub.data.SubVersion < h.SubVersion:
		return &refusal{wire.CodeSubscriptionNotLatest, "the consumer's subscription not latest"}
	case sub.refused != "":
		return &refusal{wire.CodeSystemError, sub.refused}
	}
	q.filter = sub.filter
	return nil
}

// runPull serves q by the result table of wire contracts 2.2. A pull that finds
// nothing and may be held is held.
func (b *Broker) runPull(now node.Now, q *pullQuery) {
	que := b.queueOf(q.key.topic, q.key.id)
	if out, empty := b.pullNothing(que, q); empty {
		if out.code == wire.CodePullNotFound && q.suspend > 0 && b.pulls.hold(b, q) {
			b.counts.held++
			return
		}
		b.answerPull(que, q, out)
		return
	}
	if out, hot := b.pullHot(que, q); hot {
		b.answerPull(que, q, out)
		return
	}
	b.pullCold(now, que, q)
}

// pullNothing decides whether there is nothing to read at the offset, and the
// answer then. Offsets between the visible end and the queue's end are normal
// for a while after a failover: the new master's confirm lags behind what the old
// one had shown (P7). They wait; nothing is ever reset because of them.
func (b *Broker) pullNothing(que *queue, q *pullQuery) (out pullOutcome, empty bool) {
	out.suggest = q.usual
	if que == nil || que.next == 0 {
		out.remark = "NO_MESSAGE_IN_QUEUE"
		if q.offset == 0 || b.unproven() {
			out.code, out.next = wire.CodePullNotFound, q.offset
			return out, true
		}
		return b.moved(q, out), true
	}
	visible := b.visible(que)
	switch {
	case q.offset < b.minOf(que):
		out.remark, out.next = "OFFSET_TOO_SMALL", b.minOf(que)
		return b.moved(q, out), true
	case q.offset < visible:
		return out, false
	case q.offset <= que.next || b.unproven():
		out.code, out.remark, out.next = wire.CodePullNotFound, "OFFSET_OVERFLOW_ONE", q.offset
		return out, true
	}
	out.remark, out.next = "OFFSET_OVERFLOW_BADLY", visible
	return b.moved(q, out), true
}

// moved makes the answer for an offset outside the queue. A slave may simply be
// behind: it sends the consumer back to the master with its offset unchanged.
func (b *Broker) moved(q *pullQuery, out pullOutcome) pullOutcome {
	out.code = wire.CodePullOffsetMoved
	if !b.isMaster() {
		out.code, out.next, out.suggest = wire.CodePullRetryImmediately, q.offset, 0
	}
	return out
}

// answerPull sends the answer. que may be nil: a queue without a record.
func (b *Broker) answerPull(que *queue, q *pullQuery, out pullOutcome) {
	r := b.newPullResponse()
	*r = wire.PullResponse{SuggestWhichBrokerID: out.suggest, NextBeginOffset: out.next,
		TopicSysFlag: q.topicSys, GroupSysFlag: q.groupSys}
	if que != nil {
		r.MinOffset, r.MaxOffset = b.minOf(que), b.visible(que)
	}
	if !b.o.SlaveReadEnable {
		r.SuggestWhichBrokerID = 0
	}
	b.counts.pulledBytes += int64(len(out.body))
	b.fx.Send(q.session, wire.Frame{Link: wire.Remoting, Body: out.body, PullOK: r, Head: wire.Head{
		Code: out.code, Language: wire.LanguageGo, Version: brokerVersion, Opaque: q.opaque,
		Flag: wire.FlagResponse, Remark: out.remark, Sealed: q.sealed}})
}

// newPullResponse hands out an answer from a block, as newSendResponse does.
func (b *Broker) newPullResponse() *wire.PullResponse {
	if len(b.pullSlab) == 0 {
		b.pullSlab = make([]wire.PullResponse, sendSlab)
	}
	r := &b.pullSlab[0]
	b.pullSlab = b.pullSlab[1:]
	return r
}
