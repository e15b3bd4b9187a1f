package broker

import (
	"fmt"
	"slices"
	"strings"

	"lockstep/internal/invariant"
	"lockstep/node"
	"lockstep/node/wire"
)

// offsetCommits holds consumer offsets on their way into the log (M4). A commit
// changes memory at once, where code 14 sees it; after an interval everything
// collected becomes one record. While the broker is not writable they wait here
// (M6): consumers live on, and the offsets go into the log when it is writable
// again. They die with the role, so nothing here is a promise: code 15 is
// answered only when its record satisfied the policy (M5).
type offsetCommits struct {
	pending map[offsetKey]*pendingRow
	dirty   []dirtyOffset   // what pending holds, in order of arrival
	due     node.Time       // when the next record is written; Never when nothing waits
	blocked bool            // due, and the log is not writable
	waiting []commitRequest // code 15 requests to answer after the next record
	rows    int             // rows pending that the replicated table does not have
}

// pendingRow is what is pending for one group and topic.
type pendingRow struct {
	key     offsetKey // texts of its own: those of a frame would keep its buffer
	offsets []int64   // by queue; noOffset where nothing is pending
}

// at is the pending offset of a queue; the row may be nil.
func (r *pendingRow) at(queue int32) int64 {
	if r == nil || int(queue) >= len(r.offsets) {
		return noOffset
	}
	return r.offsets[queue]
}

type dirtyOffset struct {
	row   *pendingRow
	queue int32
}

// commitRequest is one code 15 that waits for its record.
type commitRequest struct {
	session node.SessionID
	opaque  int32
	sealed  bool
}

// maxCommitRequests bounds the code 15 requests of one interval.
const maxCommitRequests = 65536

func newOffsetCommits() offsetCommits {
	return offsetCommits{pending: map[offsetKey]*pendingRow{}, due: node.Never}
}

// deadline is when pending commits are written.
func (c *offsetCommits) deadline() node.Time {
	if c.blocked {
		return node.Never // a fact will make the log writable
	}
	return c.due
}

// put remembers one offset.
func (c *offsetCommits) put(now node.Now, b *Broker, k offsetKey, queue int32, offset int64) {
	row := c.pending[k]
	if row == nil {
		row = &pendingRow{key: offsetKey{strings.Clone(k.group), strings.Clone(k.topic)}}
		c.pending[row.key] = row
		if b.meta.offsets[k] == nil {
			c.rows++
		}
	}
	if row.at(queue) == noOffset {
		c.dirty = append(c.dirty, dirtyOffset{row, queue})
	}
	row.offsets = setOffset(row.offsets, queue, offset)
	c.arm(now, b)
}

// arm makes the next record due one interval after the first commit of it.
func (c *offsetCommits) arm(now node.Now, b *Broker) {
	if c.due == node.Never {
		c.due = now.Mono.Add(b.o.FlushConsumerOffsetInterval)
	}
}

// get is the pending offset of a queue, noOffset when there is none.
func (c *offsetCommits) get(k offsetKey, queue int32) int64 {
	return c.pending[k].at(queue)
}

// drop forgets everything at the end of a role and tells those who wait that
// nothing was promised.
func (c *offsetCommits) drop(b *Broker) {
	c.refuse(b, &refusal{wire.CodeSlaveNotAvailable, "the role of this broker changed before the offset was stored"})
	*c = newOffsetCommits()
}

// forgetGroup and forgetTopic drop pending offsets of what was deleted.
func (c *offsetCommits) forgetGroup(group string) {
	c.forget(func(k offsetKey) bool { return k.group == group })
}

func (c *offsetCommits) forgetTopic(topic string) {
	c.forget(func(k offsetKey) bool { return k.topic == topic })
}

func (c *offsetCommits) forget(gone func(k offsetKey) bool) {
	c.dirty = slices.DeleteFunc(c.dirty, func(d dirtyOffset) bool {
		if gone(d.row.key) {
			delete(c.pending, d.row.key)
			return true
		}
		return false
	})
}

// refuse answers every waiting request with r.
func (c *offsetCommits) refuse(b *Broker, r *refusal) {
	for _, w := range c.waiting {
		b.fx.Send(w.session, wire.Frame{Link: wire.Remoting, Head: wire.Head{Code: r.code, Language: wire.LanguageGo,
			Version: brokerVersion, Opaque: w.opaque, Flag: wire.FlagResponse, Remark: r.remark, Sealed: w.sealed}})
	}
	c.waiting = c.waiting[:0]
}

// settleCommits writes the pending commits as one record when they are due and
// the log is writable.
func (b *Broker) settleCommits(now node.Now) {
	c := &b.commits
	if now.Mono < c.due {
		return
	}
	if r := b.admit(now); r != nil {
		c.blocked = true
		c.refuse(b, &refusal{r.code, "the offset is kept in memory only: " + r.remark})
		if len(c.dirty) == 0 {
			c.due, c.blocked = node.Never, false
		}
		return
	}
	b.flushCommits(now)
}

// flushCommits writes what is pending. Offsets the log already has cost nothing.
func (b *Broker) flushCommits(now node.Now) {
	c := &b.commits
	var entries []metaEntry
	for _, d := range c.dirty {
		k, offset := d.row.key, d.row.at(d.queue)
		invariant.That(offset >= 0, "dirty offset of queue %d has no value", int64(d.queue))
		if offset != b.meta.offset(k, d.queue) {
			entries = append(entries, metaEntry{kind: metaPutOffset, name: k.group, topic: k.topic, queue: d.queue, offset: offset})
		}
	}
	if len(entries) > 0 {
		entries = append(entries, metaEntry{kind: metaOffsetVersion, version: b.nextVersion(now, b.meta.offsetsVersion)})
		b.writeMeta(now, entries)
	}
	if len(c.waiting) > 0 {
		b.changed() // what is proven already is answered in this Settle, not in the next
	}
	for _, w := range c.waiting {
		b.await(waiter{end: b.endOffset(), session: w.session, opaque: w.opaque, kind: waitCode, epoch: b.currentEpoch(), sealed: w.sealed})
	}
	clear(c.pending)
	c.dirty, c.waiting, c.due, c.blocked, c.rows = c.dirty[:0], c.waiting[:0], node.Never, false, 0
}

// committed is the offset of a group on a queue as of now, noOffset when none.
func (b *Broker) committed(k offsetKey, queue int32) int64 {
	if off := b.commits.get(k, queue); off != noOffset {
		return off
	}
	return b.meta.offset(k, queue)
}

// checkCommit returns why an offset may not be committed. Offsets are compared
// with the queue's end, not with what is visible: after a failover a consumer may
// be ahead of this master's confirm (P7). Any smaller value is fine.
func (b *Broker) checkCommit(k offsetKey, queue int32, offset int64) *refusal {
	if _, ok := b.group(k.group); !ok {
		return &refusal{wire.CodeGroupNotExist, "Group " + k.group + " not exist!"}
	}
	if _, ok := b.topic(k.topic); !ok {
		return &refusal{wire.CodeTopicNotExist, "Topic " + k.topic + " not exist!"}
	}
	if queue < 0 || queue >= maxQueues {
		return &refusal{wire.CodeInvalidParameter, fmt.Sprintf("QueueId %d is not in 0..%d", queue, maxQueues-1)}
	}
	var end int64
	if q := b.queueOf(k.topic, queue); q != nil {
		end = q.next
	}
	if offset < 0 || offset > end {
		return &refusal{wire.CodeInvalidParameter, fmt.Sprintf("Offset %d is not in 0..%d, the end of queue %s/%d", offset, end, k.topic, queue)}
	}
	if b.meta.offsets[k] == nil && b.commits.pending[k] == nil && len(b.meta.offsets)+b.commits.rows >= b.o.MaxOffsetRows {
		return &refusal{wire.CodeSystemBusy, fmt.Sprintf("this broker holds offsets for %d pairs of group and topic (maxOffsetRows)", b.o.MaxOffsetRows)}
	}
	return nil
}

// serveUpdateOffset answers code 15.
func (b *Broker) serveUpdateOffset(now node.Now, s node.SessionID, f *wire.Frame) {
	var h wire.UpdateOffsetRequest
	if err := f.Header(&h); err != nil {
		b.reject(s, f, wire.CodeInvalidParameter, err.Error())
		return
	}
	if !b.isMaster() {
		b.reject(s, f, wire.CodeSlaveNotAvailable, "this broker is no master: commit the offset there")
		return
	}
	k := offsetKey{h.ConsumerGroup, h.Topic}
	r := b.checkCommit(k, h.QueueID, h.CommitOffset)
	if r == nil && len(b.commits.waiting) >= maxCommitRequests {
		r = &refusal{wire.CodeSystemBusy, "[OVERLOAD]system busy, start flow control for a while"}
	}
	if r != nil {
		b.reject(s, f, r.code, r.remark)
		return
	}
	b.wishGroup(h.ConsumerGroup)
	b.counts.commits++
	b.commits.put(now, b, k, h.QueueID, h.CommitOffset)
	if !f.Head.Oneway() {
		b.commits.waiting = append(b.commits.waiting, commitRequest{s, f.Head.Opaque, f.Head.Sealed})
	}
}

// commitFromPull stores the offset that rides on a pull: no promise, and a bad
// value is not the pull's fault.
func (b *Broker) commitFromPull(now node.Now, h *wire.PullRequest) {
	k := offsetKey{h.ConsumerGroup, h.Topic}
	if b.committed(k, h.QueueID) == h.CommitOffset || b.checkCommit(k, h.QueueID, h.CommitOffset) != nil {
		return
	}
	b.counts.commits++
	b.commits.put(now, b, k, h.QueueID, h.CommitOffset)
}

// serveQueryOffset answers code 14. A group without an offset starts at 0 (where
// the topic begins) on a queue that is young (all of it still stored, its first message near the log's
// end) or empty: starting at the end would skip what arrives between this answer
// and the first pull. On an old queue the group decides itself (22).
func (b *Broker) serveQueryOffset(now node.Now, s node.SessionID, f *wire.Frame) {
	var h wire.QueryOffsetRequest
	if !b.header(s, f, &h) {
		return
	}
	if off := b.committed(offsetKey{h.ConsumerGroup, h.Topic}, h.QueueID); off != noOffset {
		b.replyOK(s, f, &wire.OffsetResponse{Offset: off})
		return
	}
	que := b.queueOf(h.Topic, h.QueueID)
	switch {
	case h.KeepUnset || que != nil && que.min > b.meta.floor(h.Topic, h.QueueID):
		b.offsetUnset(s, f)
	case que == nil:
		b.replyOK(s, f, &wire.OffsetResponse{})
	case b.minOf(que) == que.next || b.wholeLogIsYoung():
		b.replyOK(s, f, &wire.OffsetResponse{Offset: b.minOf(que)})
	default:
		b.readFirst(now, s, f, que, firstForOffset)
	}
}

// offsetUnset answers that the group has no offset.
func (b *Broker) offsetUnset(s node.SessionID, f *wire.Frame) {
	b.reply(s, f, wire.CodeQueryNotFound, "Not found, maybe this group consumer boot first", nil, nil)
}

// wholeLogIsYoung: no stored message is further from the end than the window.
func (b *Broker) wholeLogIsYoung() bool {
	return int64(b.endOffset()-b.minOffset()) <= b.o.YoungTopicBytes
}

// serveAllOffsets answers code 43: the whole offset table, pending commits included.
func (b *Broker) serveAllOffsets(s node.SessionID, f *wire.Frame) {
	b.replyBody(s, f, b.offsetTable())
}

// offsetTable is the offset table in Java's layout.
func (b *Broker) offsetTable() wire.ConsumerOffsets {
	out := wire.ConsumerOffsets{DataVersion: b.meta.offsetsVersion, OffsetTable: map[string]map[int32]int64{}}
	row := func(k offsetKey, offsets []int64) {
		name := k.topic + "@" + k.group
		for q, off := range offsets {
			if off == noOffset {
				continue
			}
			if out.OffsetTable[name] == nil {
				out.OffsetTable[name] = map[int32]int64{}
			}
			out.OffsetTable[name][int32(q)] = off
		}
	}
	for _, k := range b.meta.offsetKeys() {
		row(k, b.meta.offsets[k])
	}
	for _, d := range b.commits.dirty {
		row(d.row.key, d.row.offsets)
	}
	return out
}
