package broker

import (
	"errors"

	"lockstep/internal/event"
	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
)

// pullHot serves a pull whose first message is still in memory: it looks at the
// queue's entries, then copies the wanted records once. ok is false when the
// data has to come from the disk.
func (b *Broker) pullHot(que *queue, q *pullQuery) (out pullOutcome, ok bool) {
	limits := b.limits(q, b.o.MaxTransferCountOnMessageInMemory, b.o.MaxTransferBytesOnMessageInMemory)
	end := min(b.visible(que), q.offset+maxScanEntries)
	next, count, size := q.offset, 0, 0
	for ; next < end; next++ {
		e, hot := que.entry(next)
		if !hot || b.hot(e.log, e.size) == nil {
			break
		}
		if !q.filter.matches(e.tag) {
			continue
		}
		if count > 0 && (count == limits.msgs || size+int(e.size) > limits.bytes) {
			break
		}
		count, size = count+1, size+int(e.size)
	}
	if next == q.offset {
		return out, false
	}
	out = pullOutcome{code: wire.CodeSuccess, remark: "FOUND", next: next, suggest: q.usual}
	if count == 0 {
		out.code, out.remark = wire.CodePullRetryImmediately, "NO_MATCHED_MESSAGE"
		return out, true
	}
	out.body = make([]byte, 0, size)
	for off := q.offset; off < next; off++ {
		if e, _ := que.entry(off); q.filter.matches(e.tag) {
			out.body = append(out.body, b.hot(e.log, e.size)...)
		}
	}
	b.counts.pulled += int64(count)
	return out, true
}

// pullLimits bound one answer; the first message always fits.
type pullLimits struct{ msgs, bytes int }

func (b *Broker) limits(q *pullQuery, msgs, bytes int) pullLimits {
	l := pullLimits{msgs: min(q.maxMsgs, msgs, b.o.MaxMsgsNumBatch), bytes: min(bytes, maxPullAnswerBytes)}
	if q.maxBytes > 0 {
		l.bytes = min(l.bytes, q.maxBytes)
	}
	return l
}

// pullCold asks the disk.
func (b *Broker) pullCold(now node.Now, que *queue, q *pullQuery) {
	if b.reads.full(b) {
		b.failPull(q, wire.CodeSystemBusy, "[OVERLOAD]system busy, start flow control for a while: too many disk reads")
		return
	}
	b.counts.cold++
	limits := b.limits(q, b.o.MaxTransferCountOnMessageInDisk, b.o.MaxTransferBytesOnMessageInDisk)
	args := storage.PullArgs{Topic: q.key.topic, Queue: q.key.id, Offset: q.offset, MaxMsgs: limits.msgs,
		MaxBytes: limits.bytes, Limit: b.confirmOffset(), Tags: q.filter.tags}
	b.reads.start(b, storage.Op{Kind: storage.OpPull, Pull: args}, &coldPull{query: *q})
}

// coldPull is a pull that waits for the disk.
type coldPull struct{ query pullQuery }

// done answers with what the disk found. A log that was cut meanwhile may have
// given records that exist no more: the consumer asks again.
func (c *coldPull) done(b *Broker, now node.Now, r storage.Result) {
	q := &c.query
	que := b.queueOf(q.key.topic, q.key.id)
	out := pullOutcome{suggest: q.slow, next: q.offset, code: wire.CodePullRetryImmediately, remark: "NO_MATCHED_MESSAGE"}
	switch {
	case r.Op.Gen != b.log.gen || que == nil:
		out.remark = "MESSAGE_WAS_REMOVING"
	case errors.Is(r.Err, storage.ErrRange): // expired while we read
		out.code, out.remark, out.next = wire.CodePullNotFound, "OFFSET_FOUND_NULL", max(q.offset, b.minOf(que))
	case r.Err != nil:
		b.emit(event.Event{Kind: event.DiskFailed, Text: "pull " + q.key.topic + ": " + r.Err.Error()})
		b.failPull(q, wire.CodeSystemError, "store getMessage failed: "+r.Err.Error())
		return
	case r.Pull.Matched > 0:
		out.code, out.remark, out.next, out.body = wire.CodeSuccess, "FOUND", r.Pull.Next, r.Bytes
		b.counts.pulled += int64(r.Pull.Matched)
	case r.Pull.Scanned > 0:
		out.next = r.Pull.Next
	default: // nothing below the confirm offset yet
		out.code, out.remark = wire.CodePullNotFound, "OFFSET_FOUND_NULL"
	}
	b.answerPull(que, q, out)
}

// failPull answers a pull with an error.
func (b *Broker) failPull(q *pullQuery, code int32, remark string) {
	b.emit(event.Event{Kind: event.RequestRefused, Code: code, Count: int64(wire.ReqPull), Text: remark})
	b.fx.Send(q.session, wire.Frame{Link: wire.Remoting, Head: wire.Head{Code: code, Language: wire.LanguageGo,
		Version: brokerVersion, Opaque: q.opaque, Flag: wire.FlagResponse, Remark: remark, Sealed: q.sealed}})
}
