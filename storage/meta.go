package storage

import "lockstep/internal/ha"

// MetaQueue is the only queue of MetaTopic and BarrierTopic.
const MetaQueue = 0

// checkpointSearch finds the newest complete checkpoint while metadata records
// are offered newest first. The parts of one checkpoint carry one id and follow
// each other, so anything else between them means that it never was complete.
type checkpointSearch struct {
	id   uint64
	left uint32 // the part that has to come next; 0: no checkpoint in hand
}

// offer takes the next older record's header and reports whether it is the first
// part of a complete checkpoint.
func (s *checkpointSearch) offer(h MetaHeader) bool {
	switch {
	case !h.Checkpoint:
		s.left = 0
	case s.left > 0 && h.ID == s.id && h.Part == s.left:
		s.left--
	case h.Part == h.Parts:
		s.id, s.left = h.ID, h.Part-1
	default:
		s.left = 0
		return false
	}
	return h.Checkpoint && s.left == 0
}

// BarrierDraft is a draft for a barrier record.
func BarrierDraft(b Barrier, host Host, bornMillis int64) Draft {
	return Draft{
		Topic: BarrierTopic, QueueID: MetaQueue, BornMillis: bornMillis, BornHost: host, StoreHost: host,
		Body: EncodeBarrier(b), PropCRC: true,
	}
}

// entryEnd is the log offset behind the record a queue entry points to.
func entryEnd(log ha.LogOffset, size int32) ha.LogOffset { return log + ha.LogOffset(size) }
