package storage

import (
	"errors"
	"fmt"
	"slices"
)

// Limits of one pull.
const (
	// MaxPullScan is how many queue entries one pull looks at before it answers with
	// what it has, so that a filter that matches nothing cannot hold a lane.
	MaxPullScan = 16_000
	// MaxPullBytes and MaxPullMsgs bound the answer whatever was asked for.
	MaxPullBytes = 32 << 20
	MaxPullMsgs  = 4096
	pullChunk    = 256 // units read at once
)

// puller performs cold pulls.
type puller struct {
	queues *queueSet
	reader *logReader
}

// pull scans a queue from a.Offset, keeps the entries whose tag is wanted, and
// returns their records, verified and whole, up to the limits. The first wanted
// record is returned even when it alone exceeds MaxBytes.
func (p *puller) pull(a PullArgs) (bytes []byte, res PullResult, err error) {
	q := p.queues.lookup(a.Topic, a.Queue)
	res.Next = a.Offset
	if q == nil {
		return nil, res, fmt.Errorf("%w: no queue %s/%d", ErrRange, a.Topic, a.Queue)
	}
	lo, hi := q.bounds()
	if a.Offset < lo || a.Offset > hi {
		return nil, res, fmt.Errorf("%w: queue offset %d, %s/%d holds [%d, %d)", ErrRange, a.Offset, a.Topic, a.Queue, lo, hi)
	}
	maxBytes, maxMsgs := min(a.MaxBytes, MaxPullBytes), min(a.MaxMsgs, MaxPullMsgs)
	var window logWindow
	units := make([]byte, min(pullChunk, max(hi-a.Offset, 1))*queueUnit)
	for res.Next < hi && res.Scanned < MaxPullScan {
		n, err := q.read(units[:min(int64(len(units)), (hi-res.Next)*queueUnit)], res.Next)
		if err != nil {
			return nil, res, err
		}
		for i := range n {
			u := decodeUnit(units[i*queueUnit:])
			if u.message() && u.log+int64(u.size) > int64(a.Limit) {
				return bytes, res, nil
			}
			wanted := u.message() && (len(a.Tags) == 0 || slices.Contains(a.Tags, u.tag))
			if wanted {
				if res.Matched >= maxMsgs || (res.Matched > 0 && len(bytes)+int(u.size) > maxBytes) {
					return bytes, res, nil
				}
				if bytes, err = p.add(bytes, q, res.Next, u, &window); err != nil {
					return nil, res, err
				}
				res.Matched++
			}
			res.Next++
			res.Scanned++
		}
	}
	return bytes, res, nil
}

// add appends the record a unit points to, once it proved to be that queue's.
func (p *puller) add(bytes []byte, q *queue, off int64, u unit, w *logWindow) ([]byte, error) {
	r, err := p.reader.record(u.log, int(u.size), w)
	if err != nil {
		return nil, err
	}
	if r.QueueID != q.id || r.QueueOffset != off || string(r.Topic) != q.topic {
		pos := off * queueUnit
		return nil, &DamageError{
			File: q.fileName(pos - pos%q.set.fileBytes), Offset: pos % q.set.fileBytes, Log: r.Physical,
			Reason: fmt.Sprintf("entry points to the record of %s/%d offset %d", r.Topic, r.QueueID, r.QueueOffset),
			Remedy: "stop the broker and remove the directory " + q.dir + ": it is rebuilt from the log",
		}
	}
	return append(bytes, r.Raw...), nil
}

// seek returns the smallest offset of a queue whose record was stored at or after
// millis: the queue's end when there is none, its start when all are later
// (code 29, boundary LOWER). An unknown queue is 0.
func (p *puller) seek(topic string, id int32, millis int64) (int64, error) {
	q := p.queues.lookup(topic, id)
	if q == nil {
		return 0, nil
	}
	lo, hi := q.bounds()
	for lo < hi {
		mid := lo + (hi-lo)/2
		at, err := p.storeTime(q, mid)
		if err != nil {
			return 0, err
		}
		if at < millis {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, nil
}

// storeTime is the store time of a queue's record. An entry without a record
// (filler, or expired meanwhile) counts as older than anything.
func (p *puller) storeTime(q *queue, off int64) (int64, error) {
	u, err := q.unitAt(off)
	if errors.Is(err, ErrRange) {
		return -1, nil
	}
	if err != nil || !u.message() {
		return -1, err
	}
	r, err := p.reader.record(u.log, int(u.size), &logWindow{exact: true})
	if errors.Is(err, ErrRange) {
		return -1, nil
	}
	return r.StoreMillis, err
}
