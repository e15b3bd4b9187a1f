package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"lockstep/internal/ha"
	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
)

// serveQueueOffset answers 30 (max), 31 (min) and 32 (earliest store time). An
// unknown queue is an empty one.
func (b *Broker) serveQueueOffset(now node.Now, s node.SessionID, f *wire.Frame) {
	var h wire.QueueOffsetRequest
	if !b.header(s, f, &h) {
		return
	}
	que := b.queueOf(h.Topic, h.QueueID)
	switch {
	case f.Head.Code == wire.ReqGetEarliestStoreTime:
		if que == nil || b.minOf(que) >= b.visible(que) {
			b.replyOK(s, f, &wire.TimestampResponse{Timestamp: -1})
			return
		}
		b.readFirst(now, s, f, que, firstForTime)
	case que == nil:
		b.replyOK(s, f, &wire.OffsetResponse{})
	case f.Head.Code == wire.ReqGetMinOffset:
		b.replyOK(s, f, &wire.OffsetResponse{Offset: b.minOf(que)})
	case h.Uncommitted:
		b.replyOK(s, f, &wire.OffsetResponse{Offset: que.next})
	default:
		b.replyOK(s, f, &wire.OffsetResponse{Offset: b.visible(que)})
	}
}

// firstUse says what the first message of a queue is read for.
type firstUse uint8

const (
	firstForOffset firstUse = iota // code 14: is the queue young
	firstForTime                   // code 32: its store time
)

// firstRead waits for the first message of a queue.
type firstRead struct {
	session node.SessionID
	frame   wire.Frame
	use     firstUse
	min     int64 // its queue offset
}

// readFirst answers f from the first message of que, in memory or on disk.
func (b *Broker) readFirst(now node.Now, s node.SessionID, f *wire.Frame, que *queue, use firstUse) {
	first := &firstRead{session: s, frame: *f, use: use}
	first.frame.Body = nil
	first.min = b.minOf(que)
	if e, ok := que.entry(first.min); ok {
		if record := b.hot(e.log, e.size); record != nil {
			first.answer(b, record)
			return
		}
	}
	if b.reads.full(b) {
		b.reject(s, f, wire.CodeSystemBusy, overloaded)
		return
	}
	b.reads.start(b, storage.Op{Kind: storage.OpPull, Pull: storage.PullArgs{Topic: que.topic, Queue: que.id,
		Offset: first.min, MaxMsgs: 1, MaxBytes: 1, Limit: b.endOffset()}}, first)
}

// overloaded is the remark when too much already waits for the disk.
const overloaded = "[OVERLOAD]system busy, start flow control for a while: too many disk reads"

func (r *firstRead) done(b *Broker, now node.Now, res storage.Result) {
	switch {
	case errors.Is(res.Err, storage.ErrRange), res.Err == nil && len(res.Bytes) == 0:
		r.nothing(b)
	case res.Err != nil:
		b.reject(r.session, &r.frame, wire.CodeSystemError, "read the first message: "+res.Err.Error())
	default:
		r.answer(b, res.Bytes)
	}
}

// nothing answers when the message expired while it was read.
func (r *firstRead) nothing(b *Broker) {
	if r.use == firstForTime {
		b.replyOK(r.session, &r.frame, &wire.TimestampResponse{Timestamp: -1})
		return
	}
	b.offsetUnset(r.session, &r.frame)
}

func (r *firstRead) answer(b *Broker, record []byte) {
	rec, reason := storage.DecodeRecord(firstRecord(record))
	switch {
	case reason != "":
		b.reject(r.session, &r.frame, wire.CodeSystemError, "the first message does not decode: "+reason)
	case r.use == firstForTime:
		b.replyOK(r.session, &r.frame, &wire.TimestampResponse{Timestamp: rec.StoreMillis})
	case int64(b.endOffset()-rec.Physical) <= b.o.YoungTopicBytes:
		b.replyOK(r.session, &r.frame, &wire.OffsetResponse{Offset: r.min})
	default:
		b.offsetUnset(r.session, &r.frame)
	}
}

// firstRecord cuts the first record out of log bytes.
func firstRecord(b []byte) []byte {
	if len(b) < 4 {
		return b
	}
	return b[:min(len(b), int(binary.BigEndian.Uint32(b)))]
}

// serveSearchOffset answers code 29.
func (b *Broker) serveSearchOffset(now node.Now, s node.SessionID, f *wire.Frame) {
	var h wire.SearchOffsetRequest
	if !b.header(s, f, &h) {
		return
	}
	upper := strings.EqualFold(h.BoundaryType, "UPPER")
	if !upper && h.BoundaryType != "" && !strings.EqualFold(h.BoundaryType, "LOWER") {
		b.reject(s, f, wire.CodeInvalidParameter, "boundaryType "+quoteShort(h.BoundaryType)+" is neither LOWER nor UPPER")
		return
	}
	que := b.queueOf(h.Topic, h.QueueID)
	if que == nil || b.minOf(que) >= b.visible(que) {
		b.replyOK(s, f, &wire.OffsetResponse{})
		return
	}
	find := &seekRead{session: s, frame: *f, upper: upper, millis: h.Timestamp}
	find.frame.Body = nil
	if upper && find.millis < 1<<62 {
		find.millis++ // the largest ≤ t is the one before the smallest ≥ t + 1
	}
	if off, ok := b.seekHot(que, find.millis); ok {
		find.answer(b, que, off)
		return
	}
	if b.reads.full(b) {
		b.reject(s, f, wire.CodeSystemBusy, overloaded)
		return
	}
	b.reads.start(b, storage.Op{Kind: storage.OpSeek, WallMillis: find.millis,
		Pull: storage.PullArgs{Topic: que.topic, Queue: que.id, Offset: b.minOf(que), Limit: b.confirmOffset()}}, find)
}

// seekHot looks among the messages in memory for the first that was stored at
// millis or later. ok is false when an older message may qualify too. Store times
// do not fall along the queue by more than clock steps between masters.
func (b *Broker) seekHot(que *queue, millis int64) (off int64, ok bool) {
	end := b.visible(que)
	first := end
	for first > b.minOf(que) {
		e, hot := que.entry(first - 1)
		record := b.hot(e.log, e.size)
		if !hot || record == nil {
			return 0, false
		}
		if r, reason := storage.DecodeRecord(record); reason != "" || r.StoreMillis < millis {
			return first, true
		}
		first--
	}
	return first, true
}

// seekRead waits for a search by store time.
type seekRead struct {
	session node.SessionID
	frame   wire.Frame
	upper   bool
	millis  int64
}

func (r *seekRead) done(b *Broker, now node.Now, res storage.Result) {
	var h wire.SearchOffsetRequest
	if err := r.frame.Header(&h); err != nil || res.Err != nil {
		b.reject(r.session, &r.frame, wire.CodeSystemError, fmt.Sprintf("search offset by time: %v", res.Err))
		return
	}
	que := b.queueOf(h.Topic, h.QueueID)
	if que == nil { // its records were cut away meanwhile
		b.replyOK(r.session, &r.frame, &wire.OffsetResponse{})
		return
	}
	r.answer(b, que, res.Offset)
}

// answer turns "first stored at millis or later" into the boundary asked for.
func (r *seekRead) answer(b *Broker, que *queue, off int64) {
	if r.upper {
		off--
	}
	off = max(b.minOf(que), min(off, b.visible(que)))
	b.replyOK(r.session, &r.frame, &wire.OffsetResponse{Offset: off})
}

// serveViewMessage answers code 33: the record at a commit log offset, once
// consumers may see it.
func (b *Broker) serveViewMessage(now node.Now, s node.SessionID, f *wire.Frame) {
	var h wire.ViewMessageRequest
	if !b.header(s, f, &h) {
		return
	}
	at := ha.LogOffset(h.Offset)
	if at < b.minOffset() || at >= b.confirmOffset() {
		b.reject(s, f, wire.CodeSystemError, noMessageAt(h.Offset))
		return
	}
	if b.reads.full(b) {
		b.reject(s, f, wire.CodeSystemBusy, overloaded)
		return
	}
	view := &viewRead{session: s, frame: *f, at: at}
	view.frame.Body = nil
	if record := b.hotRecord(at); record != nil {
		view.answer(b, record)
		return
	}
	b.reads.start(b, storage.Op{Kind: storage.OpRead, Off: at, Max: b.o.maxRecordBytes()}, view)
}

func noMessageAt(off int64) string {
	return fmt.Sprintf("can not find message by the offset, %d", off)
}

// hotRecord returns the record that starts at a log offset, if it is in memory.
func (b *Broker) hotRecord(at ha.LogOffset) []byte {
	head := b.hot(at, 4)
	if head == nil {
		return nil
	}
	size := binary.BigEndian.Uint32(head)
	if size > uint32(b.o.maxRecordBytes()) {
		return nil // not the start of a record
	}
	return b.hot(at, int32(size))
}

// viewRead waits for the record at a log offset.
type viewRead struct {
	session node.SessionID
	frame   wire.Frame
	at      ha.LogOffset
}

func (r *viewRead) done(b *Broker, now node.Now, res storage.Result) {
	if res.Err != nil {
		b.reject(r.session, &r.frame, wire.CodeSystemError, noMessageAt(int64(r.at))+": "+res.Err.Error())
		return
	}
	r.answer(b, firstRecord(res.Bytes))
}

// answer checks that a visible record really starts at the offset.
func (r *viewRead) answer(b *Broker, record []byte) {
	rec, reason := storage.DecodeRecord(record)
	if reason == "" {
		reason = rec.Verify(r.at, storage.PropCRCPresent)
	}
	if reason != "" || rec.End() > b.confirmOffset() {
		b.reject(r.session, &r.frame, wire.CodeSystemError, noMessageAt(int64(r.at)))
		return
	}
	b.reply(r.session, &r.frame, wire.CodeSuccess, "", nil, append([]byte(nil), record...))
}
