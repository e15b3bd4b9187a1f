package broker

import (
	"fmt"
	"strings"

	"lockstep/internal/event"
	"lockstep/node"
	"lockstep/node/wire"
)

// groupWishes are consumer groups met in use that the replicated table does not
// have yet (M6): they are written as soon as the log is writable. Until then the
// group works with its defaults.
type groupWishes struct {
	names []string // in order of arrival
	known map[string]bool
}

// maxGroupWishes bounds the groups that wait to be created.
const maxGroupWishes = 10_000

func (w *groupWishes) drop() { *w = groupWishes{} }

// group is the configuration of a consumer group: the replicated one, or the
// defaults of a group that always exists or may be created at first use.
func (b *Broker) group(name string) (c wire.SubscriptionGroupConfig, ok bool) {
	if c, ok = b.meta.groups[name]; ok {
		return c, true
	}
	if systemGroup(name) || b.o.AutoCreateSubscriptionGroup && checkGroupName(name) == "" {
		return wire.NewSubscriptionGroup(name), true
	}
	return c, false
}

// wishGroup notes a group that is used. Slaves create nothing (M7).
func (b *Broker) wishGroup(name string) {
	if _, ok := b.meta.groups[name]; !ok {
		b.wish(name)
	}
}

// wishConsumer notes a group that has consumers: it needs its retry topic too,
// also when nothing ever fails, because admin tools find brokers by its route
// (trap 48).
func (b *Broker) wishConsumer(name string) {
	_, group := b.meta.groups[name]
	_, retry := b.meta.topics[retryPrefix+name]
	if !group || !retry {
		b.wish(name)
	}
}

func (b *Broker) wish(name string) {
	w := &b.groups
	if !b.isMaster() || w.known[name] || len(w.names) >= maxGroupWishes {
		return
	}
	if w.known == nil {
		w.known = map[string]bool{}
	}
	name = strings.Clone(name)
	w.known[name] = true
	w.names = append(w.names, name)
}

// settleGroups writes the groups that wait, with their retry topics, as one
// change.
func (b *Broker) settleGroups(now node.Now) {
	w := &b.groups
	if len(w.names) == 0 || b.admit(now) != nil {
		return
	}
	var entries []metaEntry
	groups, topics := 0, 0
	for _, name := range w.names {
		if len(b.meta.groups)+groups >= b.o.MaxGroups || len(b.meta.topics)+topics >= b.o.MaxTopics {
			b.emit(event.Event{Kind: event.RequestRefused, Code: wire.CodeSystemBusy,
				Text: fmt.Sprintf("group %s is not stored: this broker has %d groups and %d topics (maxGroups, maxTopics)", name, len(b.meta.groups), len(b.meta.topics))})
			break
		}
		c, _ := b.group(name)
		if _, ok := b.meta.groups[name]; !ok && !systemGroup(name) {
			entries = append(entries, metaEntry{kind: metaPutGroup, name: name, group: c})
			groups++
		}
		retry := retryPrefix + name
		if _, ok := b.meta.topics[retry]; !ok && b.clients.consumers[name] != nil {
			entries = append(entries, metaEntry{kind: metaPutTopic, name: retry, config: newTopic(retry, max(c.RetryQueueNums, 1), wire.PermRead|wire.PermWrite)})
			topics++
		}
	}
	w.drop()
	if groups > 0 {
		entries = append(entries, metaEntry{kind: metaGroupVersion, version: b.nextVersion(now, b.meta.groupsVersion)})
	}
	if topics > 0 {
		entries = append(entries, metaEntry{kind: metaTopicVersion, version: b.nextVersion(now, b.meta.topicsVersion)})
	}
	if len(entries) > 0 {
		b.writeMeta(now, entries)
	}
}

// serveUpdateGroup answers code 200.
func (b *Broker) serveUpdateGroup(now node.Now, s node.SessionID, f *wire.Frame) {
	c := wire.NewSubscriptionGroup("")
	if !b.body(s, f, &c) {
		return
	}
	r := b.checkGroup(&c)
	if r == nil {
		r = b.admit(now)
	}
	if r != nil {
		b.reject(s, f, r.code, r.remark)
		return
	}
	if old, ok := b.meta.groups[c.GroupName]; !ok || !sameBody(old, c) {
		b.writeMeta(now, []metaEntry{
			{kind: metaPutGroup, name: c.GroupName, group: c},
			{kind: metaGroupVersion, version: b.nextVersion(now, b.meta.groupsVersion)},
		})
	}
	b.answerWhenProven(s, f)
}

// checkGroup returns why a group configuration is refused.
func (b *Broker) checkGroup(c *wire.SubscriptionGroupConfig) *refusal {
	if why := checkGroupName(c.GroupName); why != "" {
		return &refusal{wire.CodeInvalidParameter, why}
	}
	switch {
	case c.RetryQueueNums < 0 || c.RetryQueueNums > maxQueues:
		return &refusal{wire.CodeInvalidParameter, fmt.Sprintf("retryQueueNums %d is not in 0..%d", c.RetryQueueNums, maxQueues)}
	case c.RetryMaxTimes < -1:
		return &refusal{wire.CodeInvalidParameter, fmt.Sprintf("retryMaxTimes %d is below -1", c.RetryMaxTimes)}
	case c.BrokerID < 0 || c.WhichBrokerWhenConsumeSlowly < 0:
		return &refusal{wire.CodeInvalidParameter, "brokerId and whichBrokerWhenConsumeSlowly may not be negative"}
	}
	if why := checkAttributes(c.Attributes); why != "" {
		return &refusal{wire.CodeSystemError, why}
	}
	if _, ok := b.meta.groups[c.GroupName]; !ok && len(b.meta.groups) >= b.o.MaxGroups {
		return &refusal{wire.CodeSystemBusy, fmt.Sprintf("this broker has %d groups (maxGroups)", b.o.MaxGroups)}
	}
	return nil
}

// checkAttributes bounds attributes.
func checkAttributes(attributes map[string]string) string {
	if len(attributes) > maxAttributes {
		return fmt.Sprintf("%d attributes, at most %d", len(attributes), maxAttributes)
	}
	for _, k := range sortedKeys(attributes) {
		if len(k) > maxMetaName || len(attributes[k]) > maxMetaName {
			return "attribute " + quoteShort(k) + " is longer than " + fmt.Sprint(maxMetaName) + " bytes"
		}
	}
	return ""
}

// sameBody reports whether two rows have the same JSON.
func sameBody(a, b any) bool { return string(wire.MarshalBody(a)) == string(wire.MarshalBody(b)) }

// serveDeleteGroup answers code 207. A group that does not exist is no error.
func (b *Broker) serveDeleteGroup(now node.Now, s node.SessionID, f *wire.Frame) {
	var h wire.DeleteGroupRequest
	if !b.header(s, f, &h) {
		return
	}
	if h.GroupName == "" || systemGroup(h.GroupName) {
		b.reject(s, f, wire.CodeInvalidParameter, "the group "+quoteShort(h.GroupName)+" cannot be deleted")
		return
	}
	if r := b.admit(now); r != nil {
		b.reject(s, f, r.code, r.remark)
		return
	}
	var entries []metaEntry
	if _, ok := b.meta.groups[h.GroupName]; ok {
		entries = append(entries, metaEntry{kind: metaDropGroup, name: h.GroupName},
			metaEntry{kind: metaGroupVersion, version: b.nextVersion(now, b.meta.groupsVersion)})
	}
	if h.CleanOffset {
		b.commits.forgetGroup(h.GroupName)
		entries = append(entries, metaEntry{kind: metaDropOffsets, name: h.GroupName},
			metaEntry{kind: metaOffsetVersion, version: b.nextVersion(now, b.meta.offsetsVersion)})
	}
	if len(entries) > 0 {
		b.writeMeta(now, entries)
	}
	b.answerWhenProven(s, f)
}

// serveGroupConfig answers code 352.
func (b *Broker) serveGroupConfig(s node.SessionID, f *wire.Frame) {
	var h wire.GroupConfigRequest
	if !b.header(s, f, &h) {
		return
	}
	c, ok := b.meta.groups[h.Group]
	if !ok && systemGroup(h.Group) {
		c, ok = b.group(h.Group)
	}
	if !ok {
		b.reject(s, f, wire.CodeGroupNotExist, "No group in this broker. group: "+h.Group)
		return
	}
	b.replyBody(s, f, c)
}

// serveAllGroups answers code 201, in pages when asked.
func (b *Broker) serveAllGroups(s node.SessionID, f *wire.Frame) {
	var h wire.AllGroupConfigRequest
	if !b.header(s, f, &h) {
		return
	}
	all := b.groupTable()
	names := page(sortedKeys(all), h.GroupSeq, h.MaxGroupNum)
	out := wire.GroupConfigWrapper{DataVersion: b.meta.groupsVersion, Groups: map[string]wire.SubscriptionGroupConfig{}}
	for _, name := range names {
		out.Groups[name] = all[name]
	}
	b.replyTyped(s, f, &wire.AllGroupConfigResponse{TotalGroupNum: int32(len(all))}, out)
}

// groupTable is the group table with the groups that always exist.
func (b *Broker) groupTable() map[string]wire.SubscriptionGroupConfig {
	all := make(map[string]wire.SubscriptionGroupConfig, len(b.meta.groups)+len(systemGroups))
	for _, name := range systemGroups {
		all[name] = wire.NewSubscriptionGroup(name)
	}
	for name, c := range b.meta.groups { // tidy:unordered copied into another table
		all[name] = c
	}
	return all
}

// page cuts one page out of a sorted list; limit 0 means everything.
func page(names []string, from, limit int32) []string {
	names = names[min(int(max(from, 0)), len(names)):]
	if limit > 0 && int(limit) < len(names) {
		names = names[:limit]
	}
	return names
}
