package broker

import (
	"fmt"
	"strconv"
	"strings"

	"lockstep/node"
	"lockstep/node/wire"
)

// topicTable is the table for name server registration and code 21: the
// replicated topics and those that exist by configuration. A table that another
// master of the group registered must not look newer than this one's.
func (b *Broker) topicTable() wire.TopicConfigWrapper {
	out := wire.TopicConfigWrapper{DataVersion: b.meta.topicsVersion, TopicConfigTable: b.allTopics()}
	out.DataVersion.StateVersion = max(out.DataVersion.StateVersion, int64(b.currentEpoch()))
	return out
}

// registrationGeneration rises whenever the table has to be registered again.
func (b *Broker) registrationGeneration() uint64 { return b.topicsGen }

func (b *Broker) allTopics() map[string]wire.TopicConfig {
	all := make(map[string]wire.TopicConfig, len(b.meta.topics)+8)
	for name, c := range b.systemTopics() { // tidy:unordered copied into another table
		all[name] = c
	}
	for name, c := range b.meta.topics { // tidy:unordered copied into another table
		all[name] = c
	}
	return all
}

// createTopics writes new topics as one change. The caller admitted.
func (b *Broker) createTopics(now node.Now, configs ...wire.TopicConfig) {
	var entries []metaEntry
	for _, c := range configs {
		entries = append(entries, metaEntry{kind: metaPutTopic, name: c.TopicName, config: c})
	}
	entries = append(entries, metaEntry{kind: metaTopicVersion, version: b.nextVersion(now, b.meta.topicsVersion)})
	b.writeMeta(now, entries)
}

// serveCreateTopic answers code 17: create a topic or change it.
func (b *Broker) serveCreateTopic(now node.Now, s node.SessionID, f *wire.Frame) {
	var h wire.CreateTopicRequest
	if !b.header(s, f, &h) {
		return
	}
	c, r := b.checkTopic(&h)
	if r == nil {
		r = b.admit(now)
	}
	if r != nil {
		b.reject(s, f, r.code, r.remark)
		return
	}
	if old, ok := b.meta.topics[c.TopicName]; !ok || !sameBody(old, c) {
		b.createTopics(now, c)
	}
	b.answerWhenProven(s, f)
}

// checkTopic makes the configuration a request asks for, or says why not.
func (b *Broker) checkTopic(h *wire.CreateTopicRequest) (c wire.TopicConfig, r *refusal) {
	invalid := func(format string, args ...any) (wire.TopicConfig, *refusal) {
		return c, &refusal{wire.CodeInvalidParameter, fmt.Sprintf(format, args...)}
	}
	if why := checkTopicName(h.Topic); why != "" {
		return invalid("%s", why)
	}
	if b.systemTopic(h.Topic) {
		return invalid("The topic[%s] is conflict with system topic.", h.Topic)
	}
	for _, n := range [...]int32{h.ReadQueueNums, h.WriteQueueNums} {
		if n < 0 || n > maxQueues {
			return invalid("topic %s: %d queues are not in 0..%d", h.Topic, n, maxQueues)
		}
	}
	if h.ReadQueueNums == 0 && h.WriteQueueNums == 0 {
		return invalid("topic %s has no queue at all: set readQueueNums or writeQueueNums", h.Topic)
	}
	if h.Perm < 0 || h.Perm > wire.PermRead|wire.PermWrite|wire.PermInherit {
		return invalid("topic %s: perm %d is not made of 4 (read), 2 (write) and 1 (inherit)", h.Topic, h.Perm)
	}
	if h.TopicFilterType != wire.FilterTypeSingleTag && h.TopicFilterType != wire.FilterTypeMultiTag {
		return invalid("topic %s: topicFilterType %s is neither SINGLE_TAG nor MULTI_TAG", h.Topic, quoteShort(h.TopicFilterType))
	}
	old, known := b.meta.topics[h.Topic]
	if !known && len(b.meta.topics) >= b.o.MaxTopics {
		return c, &refusal{wire.CodeSystemBusy, fmt.Sprintf("this broker has %d topics (maxTopics)", b.o.MaxTopics)}
	}
	attributes, why := alterAttributes(old.Attributes, h.Attributes, !known)
	if why != "" {
		return c, &refusal{wire.CodeSystemError, "topic " + h.Topic + ": " + why}
	}
	return wire.TopicConfig{TopicName: h.Topic, ReadQueueNums: h.ReadQueueNums, WriteQueueNums: h.WriteQueueNums, Perm: h.Perm,
		TopicFilterType: h.TopicFilterType, TopicSysFlag: h.TopicSysFlag, Order: h.Order, Attributes: attributes}, nil
}

// topicAttributes are the attributes a topic may have and their values; nil means
// a number. What only one value is served for cannot be set to another.
var topicAttributes = []struct {
	key    string
	values []string
}{
	{"queue.type", []string{"SimpleCQ"}},
	{"cleanup.policy", []string{"DELETE"}},
	{"message.type", []string{"UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION"}},
	{"reserve.time", nil},
}

// alterAttributes applies "+key=value,-key" to the attributes a topic has.
func alterAttributes(old map[string]string, text string, create bool) (out map[string]string, why string) {
	out = map[string]string{}
	for _, k := range sortedKeys(old) {
		out[k] = old[k]
	}
	if text == "" {
		return out, ""
	}
	for item := range strings.SplitSeq(text, ",") {
		key, value, set := strings.Cut(strings.TrimSpace(item), "=")
		switch {
		case strings.HasPrefix(key, "+") && set:
			if why = checkAttribute(key[1:], value); why != "" {
				return nil, why
			}
			out[key[1:]] = value
		case strings.HasPrefix(key, "-") && !set && !create:
			delete(out, key[1:])
		default:
			return nil, "attribute " + quoteShort(item) + " is neither +key=value nor, on an existing topic, -key"
		}
	}
	return out, ""
}

func checkAttribute(key, value string) string {
	for _, a := range topicAttributes {
		if a.key != key {
			continue
		}
		if a.values == nil {
			if n, err := strconv.ParseInt(value, 10, 64); err != nil || n < 0 {
				return "attribute " + key + ": " + quoteShort(value) + " is no number of milliseconds"
			}
			return ""
		}
		for _, v := range a.values {
			if v == value {
				return ""
			}
		}
		return "attribute " + key + " cannot be " + quoteShort(value) + ", only one of " + strings.Join(a.values, ", ")
	}
	return "attribute " + quoteShort(key) + " is unknown"
}

// floorsOf marks the present ends of a topic's queues. Queues go on counting from
// there when the topic is created again, and show nothing from below.
func (b *Broker) floorsOf(topic string) (out []metaEntry) {
	for _, q := range b.queues.all {
		if q.topic == topic && q.next > 0 && q.id < maxQueues {
			out = append(out, metaEntry{kind: metaPutFloor, name: topic, queue: q.id, offset: q.next})
		}
	}
	return out
}

// spentFloors lists the topics whose floors lie below everything still stored.
func (b *Broker) spentFloors() (out []metaEntry) {
	for _, topic := range sortedKeys(b.meta.floors) {
		spent := true
		for id, floor := range b.meta.floors[topic] {
			q := b.queueOf(topic, int32(id))
			spent = spent && (q == nil || q.min >= floor)
		}
		if spent {
			out = append(out, metaEntry{kind: metaDropFloors, name: topic})
		}
	}
	return out
}

// minOf is the first queue offset consumers may ask for: the first stored one, or
// the topic's floor, never above what they may see.
func (b *Broker) minOf(q *queue) int64 {
	return max(q.min, min(b.meta.floor(q.topic, q.id), b.visible(q)))
}

// serveDeleteTopic answers code 215. A topic that does not exist is no error. Its
// records stay in the log until retention removes them, out of sight; its offsets
// go at once.
func (b *Broker) serveDeleteTopic(now node.Now, s node.SessionID, f *wire.Frame) {
	var h wire.TopicRequest
	if !b.header(s, f, &h) {
		return
	}
	if strings.TrimSpace(h.Topic) == "" || b.systemTopic(h.Topic) {
		b.reject(s, f, wire.CodeInvalidParameter, "The topic["+h.Topic+"] is blank or a system topic.")
		return
	}
	if r := b.admit(now); r != nil {
		b.reject(s, f, r.code, r.remark)
		return
	}
	if _, ok := b.meta.topics[h.Topic]; ok {
		b.commits.forgetTopic(h.Topic)
		delete(b.robin, h.Topic)
		entries := []metaEntry{
			{kind: metaDropTopic, name: h.Topic},
			{kind: metaTopicVersion, version: b.nextVersion(now, b.meta.topicsVersion)},
			{kind: metaOffsetVersion, version: b.nextVersion(now, b.meta.offsetsVersion)},
		}
		b.writeMeta(now, append(entries, b.floorsOf(h.Topic)...))
	}
	b.answerWhenProven(s, f)
}

// serveAllTopics answers code 21, in pages when asked.
func (b *Broker) serveAllTopics(s node.SessionID, f *wire.Frame) {
	var h wire.AllTopicConfigRequest
	if !b.header(s, f, &h) {
		return
	}
	out := b.topicTable()
	all := out.TopicConfigTable
	if h.TopicSeq > 0 || h.MaxTopicNum > 0 {
		out.TopicConfigTable = map[string]wire.TopicConfig{}
		for _, name := range page(sortedKeys(all), h.TopicSeq, h.MaxTopicNum) {
			out.TopicConfigTable[name] = all[name]
		}
	}
	b.replyTyped(s, f, &wire.AllTopicConfigResponse{TotalTopicNum: int32(len(all))}, out)
}

// serveTopicConfig answers code 351. Admin commands accept only 0 and 17 (trap 46).
func (b *Broker) serveTopicConfig(s node.SessionID, f *wire.Frame) {
	var h wire.TopicRequest
	if !b.header(s, f, &h) {
		return
	}
	c, ok := b.topic(h.Topic)
	if !ok {
		b.reject(s, f, wire.CodeTopicNotExist, "No topic in this broker. topic: "+h.Topic)
		return
	}
	b.replyBody(s, f, c)
}
