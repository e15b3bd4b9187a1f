package broker

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"lockstep/internal/ha"
	"lockstep/internal/invariant"
	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
)

// serveSend answers codes 10, 310 and 320: checks in the order of wire contracts
// 2.1, append, and an answer once the policy is satisfied. Whatever is refused
// here was not stored.
func (b *Broker) serveSend(now node.Now, s node.SessionID, f *wire.Frame) {
	p, ok := f.Prepared.(*preparedSend)
	if !ok {
		p = b.prepareSend(now, f, node.Peer{})
	}
	t, r := b.admitSend(now, p)
	if r != nil {
		b.counts.sendsRefused++
		b.reject(s, f, r.code, r.remark)
		return
	}
	target := t.config
	if t.create {
		b.createTopics(now, target)
		// The table's own text: a queue that kept the frame's would keep its buffer.
		target, _ = b.topic(target.TopicName)
	}
	queue := p.header.QueueID
	if queue < 0 {
		queue = b.pickQueue(&target)
	}
	b.store(now, s, f, p, &target, queue)
}

// sendTarget is where an admitted send goes.
type sendTarget struct {
	config wire.TopicConfig
	create bool // the topic does not exist yet
}

// admitSend decides whether a send may be stored. Its order is the contract's:
// flow control and role first, then name, topic, queue, group, the message
// itself, and last what the store says.
func (b *Broker) admitSend(now node.Now, p *preparedSend) (t sendTarget, r *refusal) {
	if waited := now.Mono.Sub(p.arrived); waited > b.o.WaitTimeMillsInSendQueue {
		return t, &refusal{wire.CodeSystemBusy, fmt.Sprintf("[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: %dms, size of queue: %d",
			waited.Milliseconds(), b.waiters.queue.len())}
	}
	store := b.admit(now)
	if store != nil && (store.code == wire.CodeSystemBusy || !b.isMaster()) {
		return t, store
	}
	if p.malformed != "" {
		return t, &refusal{wire.CodeSystemError, p.malformed}
	}
	if t, r = b.sendTopic(p); r != nil {
		return t, r
	}
	if r = b.checkRetry(now, p, &t); r != nil {
		return t, r
	}
	if p.illegal != nil {
		return t, p.illegal
	}
	return t, store
}

// sendTopic finds or plans the topic of a send and checks its queue.
func (b *Broker) sendTopic(p *preparedSend) (t sendTarget, r *refusal) {
	h := &p.header
	var known bool
	t.config, known = b.topic(h.Topic)
	if b.o.BrokerPermission&wire.PermWrite == 0 && known && t.config.Order {
		return t, &refusal{wire.CodeNoPermission, "the broker[" + b.storeAddress() + "] sending message is forbidden"}
	}
	if !known {
		if why := checkTopicName(h.Topic); why != "" {
			return t, &refusal{wire.CodeInvalidParameter, why}
		}
	}
	if sendForbidden(h.Topic) {
		return t, &refusal{wire.CodeNoPermission, "Sending message to topic[" + h.Topic + "] is forbidden."}
	}
	if !known {
		if t.config, r = b.planTopic(h); r != nil {
			return t, r
		}
		t.create = true
	}
	if queues := max(t.config.ReadQueueNums, t.config.WriteQueueNums); h.QueueID >= queues {
		return t, &refusal{wire.CodeInvalidParameter, fmt.Sprintf("request queueId[%d] is illegal, topic %s has %d queues", h.QueueID, h.Topic, queues)}
	}
	if h.QueueID < 0 && t.config.WriteQueueNums <= 0 {
		return t, &refusal{wire.CodeInvalidParameter, "topic " + h.Topic + " has no write queue to choose from"}
	}
	return t, nil
}

// planTopic is the topic that auto-creation would make for a send (wire
// contracts 4.10), or why there is none.
func (b *Broker) planTopic(h *wire.SendMessageRequest) (c wire.TopicConfig, r *refusal) {
	if len(b.meta.topics) >= b.o.MaxTopics {
		return c, &refusal{wire.CodeTopicNotExist, fmt.Sprintf("topic[%s] not exist, and this broker already has %d topics (maxTopics)", h.Topic, b.o.MaxTopics)}
	}
	if _, retry := retryGroup(h.Topic); retry {
		return newTopic(h.Topic, 1, wire.PermRead|wire.PermWrite), nil
	}
	template, ok := b.topic(h.DefaultTopic)
	if !ok || template.Perm&wire.PermInherit == 0 || strings.HasPrefix(h.Topic, dlqPrefix) {
		return c, &refusal{wire.CodeTopicNotExist, "topic[" + h.Topic + "] not exist, apply first please!"}
	}
	queues := max(1, min(h.DefaultTopicQueueNums, template.WriteQueueNums))
	c = newTopic(h.Topic, queues, template.Perm&^wire.PermInherit)
	c.TopicFilterType = template.TopicFilterType
	return c, nil
}

// checkRetry applies the rules of a consumer's own retry path: the group must
// exist, batches are illegal, and a message that was tried often enough, or that
// an ordered consumer gave up, goes to the dead-letter topic.
func (b *Broker) checkRetry(now node.Now, p *preparedSend, t *sendTarget) *refusal {
	h := &p.header
	name, retry := retryGroup(h.Topic)
	if !retry {
		return nil
	}
	group, ok := b.group(name)
	if !ok {
		return &refusal{wire.CodeGroupNotExist, "subscription group not exist, " + name}
	}
	if h.Batch {
		return &refusal{wire.CodeMessageIllegal, "batch is not supported on retry topic " + h.Topic}
	}
	if p.illegal != nil {
		return nil
	}
	limit := group.RetryMaxTimes
	if h.MaxReconsumeTimes > 0 {
		limit = h.MaxReconsumeTimes
	}
	if h.ReconsumeTimes <= limit && !b.locks.holds(now, name) {
		return nil
	}
	return b.redirect(p, t, dlqPrefix+name)
}

// redirect lays a message out again for another topic, queue 0.
func (b *Broker) redirect(p *preparedSend, t *sendTarget, topic string) *refusal {
	old, reason := storage.DecodeRecord(p.messages[0].record.Bytes)
	invariant.That(reason == "", "prepared record does not decode: %s", reason)
	// Edited properties end in a separator; what follows is room for the property CRC.
	props := old.Properties[:bytes.LastIndexByte(old.Properties, storage.PropertySeparator)+1]
	p.header.Topic, p.header.QueueID = topic, 0
	p.messages = p.single[:0]
	b.layOut(p, nil, old.Body, props)
	if t.config, t.create = b.topic(topic); !t.create {
		t.config = newTopic(topic, 1, wire.PermRead|wire.PermWrite)
	}
	t.create = !t.create
	return p.illegal
}

// pickQueue chooses a write queue for a send that left the choice to the broker:
// in turn, so that a run with the same requests chooses the same queues.
func (b *Broker) pickQueue(c *wire.TopicConfig) int32 {
	n := b.robin[c.TopicName]
	b.robin[c.TopicName] = n + 1
	return int32(n % uint32(c.WriteQueueNums))
}

// store appends the messages of an admitted send and queues its answer.
func (b *Broker) store(now node.Now, s node.SessionID, f *wire.Frame, p *preparedSend, c *wire.TopicConfig, queue int32) {
	w := waiter{session: s, opaque: f.Head.Opaque, kind: waitSend,
		epoch: b.currentEpoch(), queue: queue, count: int32(len(p.messages)), txid: p.uniqKey, sealed: f.Head.Sealed}
	multi := c.TopicFilterType == wire.FilterTypeMultiTag
	var ids []byte
	for i := range p.messages {
		m := &p.messages[i]
		m.setQueue(queue)
		if multi {
			m.setMultiTags()
		}
		at := b.append(now, placement{topic: c.TopicName, queue: queue, record: m.record, tag: m.tag, noWait: !p.wait})
		if i == 0 {
			w.log, w.queueOffset = at.log, at.queueOffset
		}
		if w.count > 1 {
			ids = b.appendID(ids, at.log)
		}
		w.end = at.end
		b.counts.sendBytes += int64(len(m.record.Bytes))
	}
	b.counts.sends += int64(len(p.messages))
	w.batchIDs = string(ids)
	switch {
	case f.Head.Oneway(): // nobody waits
	case p.wait:
		b.await(w)
	default: // waitStoreMsgOK=false: appended under authority, nothing more is promised
		b.answer(now, w, proven)
	}
}

// appendID adds a message id to a comma-separated list.
func (b *Broker) appendID(ids []byte, log ha.LogOffset) []byte {
	if len(ids) > 0 {
		ids = append(ids, ',')
	}
	return b.messageID(log).AppendText(ids)
}

// messageID is the offset message id of the record at log.
func (b *Broker) messageID(log ha.LogOffset) wire.OffsetMessageID {
	if b.host.IPLen == 0 {
		h := b.storeHost
		b.host = wire.OffsetMessageID{IP: h.Addr, IPLen: 4, Port: int32(h.Port)}
		if h.V6 {
			b.host.IPLen = 16
		}
	}
	id := b.host
	id.Offset = int64(log)
	return id
}

// answer ends a wait (seam). After an append there are only SEND_OK and the two
// outcomes that mean "stored here, the rest is unknown"; their fields are valid.
func (b *Broker) answer(now node.Now, w waiter, v verdict) {
	code := [...]int32{wire.CodeSuccess, wire.CodeFlushDiskTimeout, wire.CodeFlushSlaveTimeout}[v]
	h := wire.Head{Code: code, Language: wire.LanguageGo, Version: brokerVersion, Opaque: w.opaque,
		Flag: wire.FlagResponse, Sealed: w.sealed}
	if v != proven {
		h.Remark = wire.ResponseName(code)
	}
	before := node.Time(0)
	if v == proven {
		before = b.lease.end()
	}
	if w.kind == waitCode {
		b.fx.SendBefore(w.session, wire.Frame{Link: wire.Remoting, Head: h}, before)
		return
	}
	r := b.newSendResponse()
	r.QueueID, r.QueueOffset, r.TransactionID = w.queue, w.queueOffset, w.txid
	r.Region, r.TraceOn = b.o.RegionID, strconv.FormatBool(b.o.TraceOn)
	if v == proven && w.durability != 0 {
		r.Durability = w.durability.String()
	}
	if w.count > 1 {
		r.MsgID = w.batchIDs
	} else {
		r.Stored = b.messageID(w.log)
	}
	b.fx.SendBefore(w.session, wire.Frame{Link: wire.Remoting, Head: h, SendOK: r}, before)
}

// sendSlab is how many send answers are allocated at once.
const sendSlab = 64

// newSendResponse hands out an answer from a block, so that the machine does not
// allocate for each message. Answers belong to the host once sent.
func (b *Broker) newSendResponse() *wire.SendMessageResponse {
	if len(b.slab) == 0 {
		b.slab = make([]wire.SendMessageResponse, sendSlab)
	}
	r := &b.slab[0]
	b.slab = b.slab[1:]
	return r
}
