package storage

import "strconv"

// ScheduleTopic holds delayed messages; its queue entries carry the delivery
// time where others carry a tag hash.
const ScheduleTopic = "SCHEDULE_TOPIC_XXXX"

// delaySeconds are RocketMQ's default delay levels 1 to 18 (messageDelayLevel).
var delaySeconds = [...]int64{1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200}

// EntryOf derives the consume queue entry of a stored record. ok is false for
// records that no queue shows: prepared and rolled back transaction messages,
// whose queue offset is not an index. It allocates the topic string only.
func EntryOf(r *Record) (e QueueEntry, ok bool) {
	if t := r.SysFlag & FlagTransactionMask; t == FlagPrepared || t == FlagRollback {
		return QueueEntry{}, false
	}
	return QueueEntry{
		Topic: string(r.Topic), Queue: r.QueueID, Offset: r.QueueOffset,
		Log: r.Physical, Size: int32(r.Size()), Tag: entryTag(r),
	}, true
}

// entryTag is the third field of a queue entry.
func entryTag(r *Record) int64 {
	if string(r.Topic) == ScheduleTopic {
		if v, ok := Property(r.Properties, PropDelay); ok {
			if level, err := strconv.Atoi(string(v)); err == nil && level > 0 {
				level = min(level, len(delaySeconds))
				return r.StoreMillis + delaySeconds[level-1]*1000
			}
		}
	}
	return TagHash(r.Tag())
}
