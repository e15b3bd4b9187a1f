package broker

import "lockstep/internal/ha"

// queueEntry is one consume queue unit whose record may still be in memory.
type queueEntry struct {
	log  ha.LogOffset // physical offset of the record
	size int32        // record size, bytes
	tag  int64        // tag hash
}

// end is the log offset after the record.
func (e queueEntry) end() ha.LogOffset { return e.log + ha.LogOffset(e.size) }

// queue is one message queue of one topic.
type queue struct {
	topic string
	id    int32
	min   int64 // first queue offset still stored
	next  int64 // queue offset of the next record
}

// entry returns the unit at off when it is still in memory.
func (q *queue) entry(off int64) (queueEntry, bool) { return queueEntry{}, false }

// queueOf returns a queue, nil when it has no record yet.
func (b *Broker) queueOf(topic string, id int32) *queue { return nil }

// visible is the queue offset consumers may see up to, bounded by confirm.
func (b *Broker) visible(q *queue) int64 { return 0 }

// takeGrown returns the queues whose visible end moved since the last call. The
// slice is valid until the next call.
func (b *Broker) takeGrown() []*queue { return nil }
