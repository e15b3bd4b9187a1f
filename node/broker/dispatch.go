package broker

import (
	"fmt"

	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/storage"
)

// Log bytes that arrive on a slave are verified before they are placed: a damaged
// byte is never stored or passed on as good. Only whole records enter the log, so
// its end is always a record's end; a record that has come in part waits in memory
// and is acknowledged by nothing.

// arrive takes body, the log bytes from off on, which must continue what has
// arrived. It places every whole record and keeps the rest. The text says what is
// wrong with the bytes, or is "".
func (b *Broker) arrive(off ha.LogOffset, body []byte) string {
	partial := b.up.partial
	if len(partial) > 0 {
		partial = append(partial, body...)
		body = partial
	}
	used := 0
	for used < len(body) {
		f := storage.Next(body[used:], b.log.end, b.check)
		switch f.Kind {
		case storage.FoundRecord:
			if why := b.arriveRecord(&f.Record); why != "" {
				return why
			}
			used += f.Size
			continue
		case storage.FoundBlank:
			if len(body)-used < f.Size {
				break
			}
			storage.Blank(b.tail.extend(b.log.end, f.Size))
			b.log.end += ha.LogOffset(f.Size)
			b.emit(event.Event{Kind: event.Rolled, Off: b.log.end})
			used += f.Size
			continue
		case storage.FoundMore:
		case storage.FoundUnwritten:
			return fmt.Sprintf("zeros at %d where a record should start", b.log.end)
		default:
			return fmt.Sprintf("record at %d: %s", b.log.end, f.Reason)
		}
		break
	}
	b.up.partial = append(b.up.partial[:0:0], body[used:]...)
	return ""
}

// arriveRecord places one verified record and enters it in all derived state.
func (b *Broker) arriveRecord(r *storage.Record) string {
	e, listed := b.entryOf(r)
	var q *queue
	if listed {
		q = b.openArrived(r)
		if r.QueueOffset != q.next {
			return fmt.Sprintf("record at %d has offset %d in queue %s/%d, expected %d", r.Physical, r.QueueOffset, r.Topic, r.QueueID, q.next)
		}
	}
	at := b.log.end
	dst := b.tail.extend(at, len(r.Raw))
	copy(dst, r.Raw)
	b.log.end += ha.LogOffset(len(r.Raw))
	b.log.quietSince = b.now.Mono
	if listed {
		b.queues.enter(q, e, b.now.Mono)
	}
	if string(r.Topic) == storage.MetaTopic {
		b.applyMeta(dst, at)
	}
	return ""
}

// entryOf is the queue entry of a record; ok is false for records no queue shows.
func (b *Broker) entryOf(r *storage.Record) (queueEntry, bool) {
	if t := r.SysFlag & storage.FlagTransactionMask; t == storage.FlagPrepared || t == storage.FlagRollback {
		return queueEntry{}, false
	}
	e := queueEntry{log: r.Physical, size: int32(r.Size()), tag: storage.TagHash(r.Tag())}
	if string(r.Topic) == storage.ScheduleTopic { // its entries carry the delivery time
		u, _ := storage.EntryOf(r)
		e.tag = u.Tag
	}
	return e, true
}

// openArrived finds the record's queue without allocating for a known one. A queue
// that is new here begins where the master's has got to: its older records have
// expired (P19).
func (b *Broker) openArrived(r *storage.Record) *queue {
	q := b.queues.table[queueKey{string(r.Topic), r.QueueID}]
	if q == nil {
		q = b.queues.open(string(r.Topic), r.QueueID)
	}
	if q.min == q.next && r.QueueOffset > q.next {
		q.min, q.seen, q.next = r.QueueOffset, r.QueueOffset, r.QueueOffset
	}
	return q
}
