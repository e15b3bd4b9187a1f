package storage

import (
	"fmt"
	"slices"

	"lockstep/internal/ha"
)

// maxMetaBytes limits what loading metadata returns: one complete checkpoint and
// the changes since. A master writes a checkpoint each segment (rule M3).
const maxMetaBytes = 1 << 30

// loadMeta returns the records of MetaTopic that end at or below limit, in log
// order, from the newest complete checkpoint on; all of them when there is no
// complete checkpoint.
func (p *puller) loadMeta(limit ha.LogOffset) ([][]byte, error) {
	q := p.queues.lookup(MetaTopic, MetaQueue)
	if q == nil {
		return nil, nil
	}
	lo, hi := q.bounds()
	hi, err := q.search(lo, hi, func(u unit) bool {
		return u.before(int64(limit)) && (!u.message() || u.log+int64(u.size) <= int64(limit))
	})
	if err != nil {
		return nil, err
	}
	first, err := p.checkpointStart(q, lo, hi)
	if err != nil {
		return nil, err
	}
	var out [][]byte
	var w logWindow
	total := 0
	for off := first; off < hi; off++ {
		u, err := q.unitAt(off)
		if err != nil {
			return nil, err
		}
		if !u.message() {
			continue
		}
		raw, err := p.add(nil, q, off, u, &w)
		if err != nil {
			return nil, err
		}
		if total += len(raw); total > maxMetaBytes {
			return nil, fmt.Errorf("%w: metadata records from queue offset %d on exceed %d bytes", ErrRange, first, maxMetaBytes)
		}
		out = append(out, raw)
	}
	return out, nil
}

// checkpointStart walks back to the offset where the newest complete checkpoint
// begins. It is lo when there is none. Records are read one by one: reading
// ahead is of no use backwards.
func (p *puller) checkpointStart(q *queue, lo, hi int64) (int64, error) {
	var search checkpointSearch
	for off := hi - 1; off >= lo; off-- {
		u, err := q.unitAt(off)
		if err != nil {
			return 0, err
		}
		if !u.message() {
			continue
		}
		raw, err := p.add(nil, q, off, u, &logWindow{exact: true})
		if err != nil {
			return 0, err
		}
		rec, _ := DecodeRecord(raw)
		if h, _, ok := ParseMetaHeader(rec.Body); ok && search.offer(h) {
			return off, nil
		}
	}
	return lo, nil
}

// barriers derives the epoch list from the barrier records (rule P9): newest
// first, as far back as each barrier's own list does not already tell.
func (p *puller) barriers() (list ha.Epochs, newest []byte, err error) {
	q := p.queues.lookup(BarrierTopic, MetaQueue)
	if q == nil {
		return nil, nil, nil
	}
	lo, hi := q.bounds()
	w := logWindow{exact: true}
	for off := hi - 1; off >= lo && len(list) < MaxEpochs; off-- {
		u, err := q.unitAt(off)
		if err != nil {
			return nil, nil, err
		}
		if !u.message() || (len(list) > 0 && u.log >= int64(list[0].Start)) {
			continue // covered by the list of a newer barrier
		}
		raw, err := p.add(nil, q, off, u, &w)
		if err != nil {
			return nil, nil, err
		}
		rec, _ := DecodeRecord(raw)
		b, err := DecodeBarrier(rec.Body)
		if err != nil {
			return nil, nil, fmt.Errorf("record at log offset %d: %w", u.log, err)
		}
		if newest == nil {
			newest = raw
		}
		list = slices.Concat(b.Epochs().CutAt(firstStart(list)), list)
	}
	return list, newest, nil
}

// firstStart is where a list begins, or beyond everything for an empty one.
func firstStart(list ha.Epochs) ha.LogOffset {
	if len(list) == 0 {
		return 1<<63 - 1
	}
	return list[0].Start
}
