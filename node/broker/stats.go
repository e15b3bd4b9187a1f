package broker

import (
	"slices"
	"strings"

	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
)

// timesRead collects the store times of single messages, from memory and from
// disk; when all are known they go to its user. A message that cannot be read has
// time 0, as in RocketMQ.
type timesRead struct {
	times []int64
	left  int
	user  timesUser
}

// timesUser is a request that waits for store times.
type timesUser interface {
	timesKnown(b *Broker, times []int64)
}

// timeWanted names one message.
type timeWanted struct {
	que    *queue
	offset int64
}

// oneTime waits for one message of a timesRead.
type oneTime struct {
	all *timesRead
	at  int
}

func (o *oneTime) done(b *Broker, now node.Now, r storage.Result) {
	if rec, reason := storage.DecodeRecord(firstRecord(r.Bytes)); r.Err == nil && reason == "" {
		o.all.times[o.at] = rec.StoreMillis
	}
	o.all.one(b)
}

// one counts one more known time.
func (t *timesRead) one(b *Broker) {
	if t.left--; t.left == 0 {
		t.user.timesKnown(b, t.times)
	}
}

// readTimes finds the store times of messages for user, at once when all are in
// memory. Beyond MaxDiskReads times stay 0: they are for display.
func (b *Broker) readTimes(wanted []timeWanted, user timesUser) {
	all := &timesRead{times: make([]int64, len(wanted)), left: 1, user: user}
	for i, w := range wanted {
		if w.que == nil || w.offset < b.minOf(w.que) || w.offset >= b.visible(w.que) {
			continue
		}
		if e, ok := w.que.entry(w.offset); ok {
			if rec, reason := storage.DecodeRecord(b.hot(e.log, e.size)); reason == "" {
				all.times[i] = rec.StoreMillis
				continue
			}
		}
		if b.reads.full(b) {
			continue
		}
		all.left++
		b.reads.start(b, storage.Op{Kind: storage.OpPull, Pull: storage.PullArgs{Topic: w.que.topic, Queue: w.que.id,
			Offset: w.offset, MaxMsgs: 1, MaxBytes: 1, Limit: b.confirmOffset()}}, &oneTime{all, i})
	}
	all.one(b)
}

// topicStats is a request 202 that waits for store times.
type topicStats struct {
	session node.SessionID
	frame   wire.Frame
	topic   string
	queues  []timeWanted // by queue id
}

// serveTopicStats answers code 202.
func (b *Broker) serveTopicStats(now node.Now, s node.SessionID, f *wire.Frame) {
	var h wire.TopicRequest
	if !b.header(s, f, &h) {
		return
	}
	c, ok := b.topic(h.Topic)
	if !ok {
		b.reject(s, f, wire.CodeTopicNotExist, "topic["+h.Topic+"] not exist")
		return
	}
	st := &topicStats{session: s, frame: *f, topic: h.Topic}
	st.frame.Body = nil
	for id := range max(c.ReadQueueNums, c.WriteQueueNums) {
		w := timeWanted{que: b.queueOf(h.Topic, id)}
		if w.que != nil {
			w.offset = b.visible(w.que) - 1
		}
		st.queues = append(st.queues, w)
	}
	b.readTimes(st.queues, st)
}

func (st *topicStats) timesKnown(b *Broker, times []int64) {
	out := wire.TopicStats{OffsetTable: map[wire.MessageQueue]wire.TopicOffset{}}
	for id, w := range st.queues {
		row := wire.TopicOffset{LastUpdateTimestamp: times[id]}
		if w.que != nil {
			row.MinOffset, row.MaxOffset = b.minOf(w.que), b.visible(w.que)
		}
		out.OffsetTable[wire.MessageQueue{BrokerName: b.o.BrokerName, QueueID: int32(id), Topic: st.topic}] = row
	}
	b.replyBody(st.session, &st.frame, out)
}

// consumeStats is a request 208 that waits for store times.
type consumeStats struct {
	session node.SessionID
	frame   wire.Frame
	queues  []wire.MessageQueue
	rows    []wire.ConsumeOffset // one a queue
}

// serveConsumeStats answers code 208. An unknown group has an empty table.
func (b *Broker) serveConsumeStats(now node.Now, s node.SessionID, f *wire.Frame) {
	var h wire.ConsumeStatsRequest
	if !b.header(s, f, &h) {
		return
	}
	st := &consumeStats{session: s, frame: *f}
	st.frame.Body = nil
	var wanted []timeWanted
	for _, topic := range b.statTopics(&h) {
		c, ok := b.topic(topic)
		if !ok {
			continue
		}
		for id := range c.ReadQueueNums {
			que := b.queueOf(topic, id)
			row := wire.ConsumeOffset{ConsumerOffset: max(b.committed(offsetKey{h.ConsumerGroup, topic}, id), 0)}
			if que != nil {
				row.BrokerOffset = b.visible(que)
			}
			row.PullOffset = row.ConsumerOffset
			st.queues = append(st.queues, wire.MessageQueue{BrokerName: b.o.BrokerName, QueueID: id, Topic: topic})
			st.rows = append(st.rows, row)
			wanted = append(wanted, timeWanted{que, row.ConsumerOffset - 1})
		}
	}
	b.readTimes(wanted, st)
}

func (st *consumeStats) timesKnown(b *Broker, times []int64) {
	out := wire.ConsumeStats{OffsetTable: map[wire.MessageQueue]wire.ConsumeOffset{}}
	for i, q := range st.queues {
		st.rows[i].LastTimestamp = times[i]
		out.OffsetTable[q] = st.rows[i]
	}
	b.replyBody(st.session, &st.frame, out)
}

// statTopics are the topics a request for consume statistics means: those it
// lists, the one it names, or all on which the group has offsets. What the group
// no longer subscribes is left out while it is online, unless it was listed.
func (b *Broker) statTopics(h *wire.ConsumeStatsRequest) []string {
	var topics []string
	switch {
	case h.TopicList != "":
		for topic := range strings.SplitSeq(h.TopicList, ";") {
			topics = append(topics, topic)
		}
		return topics
	case h.Topic != "":
		topics = []string{h.Topic}
	default:
		for _, k := range b.meta.offsetKeys() {
			if k.group == h.ConsumerGroup {
				topics = append(topics, k.topic)
			}
		}
		for _, d := range b.commits.dirty {
			if d.row.key.group == h.ConsumerGroup && !slices.Contains(topics, d.row.key.topic) {
				topics = append(topics, d.row.key.topic)
			}
		}
	}
	if g := b.clients.consumers[h.ConsumerGroup]; g != nil {
		topics = slices.DeleteFunc(topics, func(t string) bool { return g.subscription(t) == nil })
	}
	return topics
}
