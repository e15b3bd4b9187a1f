package broker

import (
	"slices"

	"lockstep/internal/ha"
	"lockstep/internal/invariant"
	"lockstep/node"
	"lockstep/storage"
)

// queueEntry is one consume queue unit whose record may still be in memory.
type queueEntry struct {
	log  ha.LogOffset // physical offset of the record
	size int32        // record size, bytes
	tag  int64        // tag hash
}

// end is the log offset after the record.
func (e queueEntry) end() ha.LogOffset { return e.log + ha.LogOffset(e.size) }

// queue is one message queue of one topic: min ≤ seen ≤ next.
type queue struct {
	topic  string
	id     int32
	min    int64 // first queue offset still stored
	seen   int64 // queue offset up to which records are confirmed
	next   int64 // queue offset of the next record
	recent fifo[queueEntry]
	grown  bool // on the list of takeGrown
}

// entry returns the unit at off while its record may be in memory.
func (q *queue) entry(off int64) (queueEntry, bool) {
	first := q.next - int64(q.recent.len())
	if off < first || off >= q.next {
		return queueEntry{}, false
	}
	return *q.recent.at(q.recent.first + uint64(off-first)), true
}

type queueKey struct {
	topic string
	id    int32
}

// placedEntry names one recent entry in the order of the log.
type placedEntry struct {
	q   *queue
	off int64
}

// queueTable is the topic-queue table: a function of the log up to its end (M1),
// built at open and by dispatch, never by scanning at promotion. All recent
// entries also stand in one list in log order, with three marks on it: filed (in
// the queue files), shown (confirmed) and the front (evicted with the tail).
type queueTable struct {
	table map[queueKey]*queue // looked up, never ranged over
	all   []*queue            // in order of first appearance
	order fifo[placedEntry]
	shown uint64 // sequence number of the first entry not yet visible
	sent  uint64 // … not yet handed to the disk
	done  uint64 // … not yet in the queue files

	// hidden are queues whose recovered end is above their recovered visible end;
	// they show all of it when confirm reaches hiddenEnd.
	hidden    []*queue
	hiddenEnd ha.LogOffset

	growing, taken []*queue

	op    uint64 // outstanding OpQueue
	batch []storage.QueueEntry
	since node.Time // when the oldest entry not yet sent was entered
	retry node.Time // after a full disk
}

// maxQueueBatch bounds the entries of one OpQueue.
const maxQueueBatch = 4096

// reset rebuilds the table from what the store holds up to log offset end.
func (t *queueTable) reset(bounds []storage.QueueBounds, end ha.LogOffset) {
	*t = queueTable{table: make(map[queueKey]*queue, len(bounds)), hiddenEnd: end, batch: t.batch[:0]}
	for _, x := range bounds {
		q := &queue{topic: x.Topic, id: x.Queue, min: x.Min, seen: max(x.Visible, x.Min), next: x.Max}
		t.add(q)
		if q.seen < q.next {
			t.hidden = append(t.hidden, q)
		}
	}
}

func (t *queueTable) add(q *queue) {
	t.table[queueKey{q.topic, q.id}] = q
	t.all = append(t.all, q)
}

// open returns the queue, making it when it has no record yet. Topics and queue
// ids are bounded where topics are created.
func (t *queueTable) open(topic string, id int32) *queue {
	q := t.table[queueKey{topic, id}]
	if q == nil {
		q = &queue{topic: topic, id: id}
		t.add(q)
	}
	return q
}

// enter adds the entry of a record that was just appended.
func (t *queueTable) enter(q *queue, e queueEntry, now node.Time) {
	if t.sent == t.order.next {
		t.since = now
	}
	q.recent.push(e)
	t.order.push(placedEntry{q, q.next})
	q.next++
}

// show makes the entries visible whose records end at or below confirm.
func (t *queueTable) show(confirm ha.LogOffset) {
	if len(t.hidden) > 0 && confirm >= t.hiddenEnd {
		for _, q := range t.hidden {
			// Nothing of q can have been shown in between: later records lie higher.
			q.seen = q.next - int64(q.recent.len())
			t.grew(q)
		}
		t.hidden = nil
	}
	for ; t.shown < t.order.next; t.shown++ {
		p := t.order.at(t.shown)
		e, ok := p.q.entry(p.off)
		if !ok {
			invariant.That(false, "queue %s/%d: entry %d left before it was shown", p.q.topic, p.q.id, p.off)
		}
		if e.end() > confirm {
			return
		}
		p.q.seen = p.off + 1
		t.grew(p.q)
	}
}

func (t *queueTable) grew(q *queue) {
	if !q.grown {
		q.grown = true
		t.growing = append(t.growing, q)
	}
}

// filed is the log offset up to which every record has its queue entry in the
// queue files; end when all have.
func (t *queueTable) filed(end ha.LogOffset) ha.LogOffset {
	if t.done == t.order.next {
		return end
	}
	p := t.order.at(t.done)
	e, _ := p.q.entry(p.off)
	return e.log
}

// evict forgets recent entries whose records are no longer in memory.
func (t *queueTable) evict(start ha.LogOffset) {
	for t.order.len() > 0 && t.order.first < min(t.shown, t.done) {
		p := t.order.front()
		e, _ := p.q.entry(p.off)
		if e.log >= start {
			return
		}
		p.q.recent.pop()
		p.q.recent.shrink()
		t.order.pop()
	}
	t.order.shrink()
}

// collect fills batch with entries whose records end at or below limit.
func (t *queueTable) collect(limit ha.LogOffset) []storage.QueueEntry {
	t.batch = t.batch[:0]
	for ; t.sent < t.order.next && len(t.batch) < maxQueueBatch; t.sent++ {
		p := t.order.at(t.sent)
		e, _ := p.q.entry(p.off)
		if e.end() > limit {
			break
		}
		t.batch = append(t.batch, storage.QueueEntry{
			Topic: p.q.topic, Queue: p.q.id, Offset: p.off, Log: e.log, Size: e.size, Tag: e.tag,
		})
	}
	return t.batch
}

// settleQueues hands queue entries to the disk in batches: when a batch is full,
// when the oldest has waited long enough, or at once while a cut or a stop waits
// for them. Only entries of durable records go, so that the queue files never
// point beyond what a crash leaves.
func (b *Broker) settleQueues() {
	t := &b.queues
	t.show(b.confirm)
	if t.op != 0 || t.sent == t.order.next || b.sealed() || b.now.Mono < t.retry {
		return
	}
	full := t.order.next-t.sent >= maxQueueBatch
	if !full && !b.draining() && b.now.Mono < t.since.Add(b.o.QueueFlushInterval) {
		return
	}
	entries := t.collect(b.log.durable)
	if len(entries) == 0 {
		return
	}
	t.since = b.now.Mono
	t.op = b.disk(storage.Op{Lane: storage.LaneQueue, Kind: storage.OpQueue, Entries: entries}, ownerQueues)
}

// queuesDone records the end of an OpQueue.
func (b *Broker) queuesDone(r storage.Result) {
	t := &b.queues
	t.op = 0
	if b.diskFull(r) {
		t.sent, t.retry = t.done, b.now.Mono.Add(b.o.DiskRetryPause)
		return
	}
	if b.diskFailed(r) {
		return
	}
	t.done = t.sent
	b.diskRoom()
}

// queuesDeadline is when collected entries are due. Entries of records that are
// not durable yet wait for the disk, not for time.
func (b *Broker) queuesDeadline() node.Time {
	t := &b.queues
	if t.op != 0 || t.sent == t.order.next || b.sealed() {
		return node.Never
	}
	p := t.order.at(t.sent)
	if e, _ := p.q.entry(p.off); e.end() > b.log.durable {
		return node.Never
	}
	return max(t.since.Add(b.o.QueueFlushInterval), t.retry)
}

// bounds adopts new minimum offsets after segments were removed.
func (t *queueTable) bounds(list []storage.QueueBounds) {
	for _, x := range list {
		if q := t.table[queueKey{x.Topic, x.Queue}]; q != nil {
			q.min = min(max(q.min, x.Min), q.next)
			q.seen = max(q.seen, q.min)
		}
	}
}

// queueOf returns a queue, nil when it has no record yet.
func (b *Broker) queueOf(topic string, id int32) *queue {
	return b.queues.table[queueKey{topic, id}]
}

// visible is the queue offset consumers may see up to, bounded by confirm.
func (b *Broker) visible(q *queue) int64 { return q.seen }

// takeGrown returns the queues whose visible end moved since the last call. The
// slice is valid until the next call.
func (b *Broker) takeGrown() []*queue {
	t := &b.queues
	t.growing, t.taken = t.taken[:0], t.growing
	for _, q := range t.taken {
		q.grown = false
	}
	return t.taken
}

// check asserts the order of the table's marks and offsets.
func (t *queueTable) check(confirm ha.LogOffset) {
	invariant.That(t.done <= t.sent && t.sent <= t.order.next, "queue marks: filed %d, sent %d, entered %d", t.done, t.sent, t.order.next)
	invariant.That(t.shown <= t.order.next && t.order.first <= min(t.shown, t.done),
		"queue marks: first %d, shown %d, filed %d", t.order.first, t.shown, t.done)
	for _, q := range t.all {
		invariant.That(0 <= q.min && q.min <= q.seen && q.seen <= q.next, "queue %s/%d: min %d, seen %d, next %d", q.topic, q.id, q.min, q.seen, q.next)
		if e, ok := q.entry(q.seen - 1); ok {
			invariant.That(e.end() <= confirm || slices.Contains(t.hidden, q), "queue %s/%d shows %d, above confirm %d", q.topic, q.id, e.end(), confirm)
		}
	}
}
