package broker

import (
	"fmt"
	"sort"
)

// Derived returns the replicated tables, one row a line in ascending order: topics,
// consumer groups, consumer offsets and queue ends. All of it is a function of the
// log up to its end (M1), so brokers with the same log return the same lines. Commits
// that wait for their record are not part of it. It is for judges, tools and tests in
// the same process.
func (b *Broker) Derived() []string {
	var out []string
	for _, t := range b.meta.topics { // tidy:unordered sorted below
		out = append(out, fmt.Sprintf("topic %+v", t))
	}
	for _, g := range b.meta.groups { // tidy:unordered sorted below
		out = append(out, fmt.Sprintf("group %+v", g))
	}
	for k, row := range b.meta.offsets { // tidy:unordered sorted below
		for queue, off := range row {
			if off != noOffset {
				out = append(out, fmt.Sprintf("offset %s %s %d: %d", k.group, k.topic, queue, off))
			}
		}
	}
	for _, q := range b.queues.all {
		out = append(out, fmt.Sprintf("queue %s %d ends at %d", q.topic, q.id, q.next))
	}
	sort.Strings(out)
	return out
}

// ConsumerOffset returns what the log says of a group's place in a queue, and where
// the queue ends; ok is false while the log has no offset of the group.
func (b *Broker) ConsumerOffset(group, topic string, queue int32) (offset, end int64, ok bool) {
	if q := b.queueOf(topic, queue); q != nil {
		end = q.next
	}
	row := b.meta.offsets[offsetKey{group, topic}]
	if queue < 0 || int(queue) >= len(row) || row[queue] == noOffset {
		return 0, end, false
	}
	return row[queue], end, true
}
