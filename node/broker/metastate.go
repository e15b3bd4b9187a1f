package broker

import (
	"fmt"

	"lockstep/internal/ha"
	"lockstep/node/wire"
	"lockstep/storage"
)

// metaState is the replicated metadata of a broker group: topics, consumer groups
// and consumer offsets. It is a pure function of the metadata records in the log
// up to its end (M1): master, slave, recovery and truncation all arrive at it by
// applying the same records, so nothing is ever copied between brokers and
// nothing has to be undone (M2).
type metaState struct {
	topics  map[string]wire.TopicConfig
	groups  map[string]wire.SubscriptionGroupConfig
	offsets map[offsetKey][]int64 // by queue id; noOffset where nothing was committed
	// floors are the queue ends of topics at the moment they were deleted, by queue
	// id: a topic created again under the name does not show what was before.
	floors map[string][]int64
	// ends are the queue ends that came with the newest checkpoint, until the broker
	// has taken them in.
	ends []metaEntry

	topicsVersion  wire.DataVersion
	groupsVersion  wire.DataVersion
	offsetsVersion wire.DataVersion

	// assembly is the checkpoint whose parts are arriving; nil between checkpoints.
	assembly *checkpointAssembly
	// checkpoint is the newest complete checkpoint in the log, previous the one
	// before; zero when there is none.
	checkpoint, previous checkpointRange
	// records counts what was applied since the state was empty: 0 means the log
	// holds no metadata (a new store, or one that Java wrote).
	records int64
}

// checkpointRange is where a complete checkpoint lies: [start, end).
type checkpointRange struct{ start, end ha.LogOffset }

// checkpointAssembly collects the parts of one checkpoint.
type checkpointAssembly struct {
	id    uint64
	next  uint32 // part expected
	parts uint32
	start ha.LogOffset
	state metaState
}

// offsetKey names a row of the offset table.
type offsetKey struct{ group, topic string }

// noOffset marks a queue without a committed offset.
const noOffset int64 = -1

func newMetaState() metaState {
	return metaState{topics: map[string]wire.TopicConfig{}, groups: map[string]wire.SubscriptionGroupConfig{},
		offsets: map[offsetKey][]int64{}, floors: map[string][]int64{}}
}

// apply brings the record body at log offset at into the state. On an error the
// state is as before: the record is newer than this broker, or no metadata.
func (st *metaState) apply(body []byte, at, end ha.LogOffset) error {
	h, rest, ok := storage.ParseMetaHeader(body)
	if !ok {
		return fmt.Errorf("record at %d has no metadata header", at)
	}
	entries, err := decodeEntries(h.Version, rest)
	if err != nil {
		return fmt.Errorf("metadata record at %d: %w", at, err)
	}
	st.records++
	if !h.Checkpoint {
		st.assembly = nil // a delta between two parts: the checkpoint was cut off
		st.applyEntries(entries)
		return nil
	}
	st.applyPart(h, entries, at, end)
	return nil
}

// applyPart adds one part; the last one replaces the whole state. Parts that do
// not continue the checkpoint under way end it without effect: its rest was cut
// by a truncation.
func (st *metaState) applyPart(h storage.MetaHeader, entries []metaEntry, at, end ha.LogOffset) {
	a := st.assembly
	switch {
	case h.Part == 1:
		a = &checkpointAssembly{id: h.ID, next: 1, parts: h.Parts, start: at, state: newMetaState()}
	case a == nil || a.id != h.ID || a.next != h.Part || a.parts != h.Parts:
		st.assembly = nil
		return
	}
	a.state.applyEntries(entries)
	a.next++
	st.assembly = a
	if h.Part < h.Parts {
		return
	}
	whole := a.state
	whole.records, whole.previous, whole.checkpoint = st.records, st.checkpoint, checkpointRange{a.start, end}
	*st = whole
}

// applyEntries changes the tables.
func (st *metaState) applyEntries(entries []metaEntry) {
	for i := range entries {
		e := &entries[i]
		switch e.kind {
		case metaPutTopic:
			st.topics[e.name] = e.config
		case metaDropTopic:
			st.dropTopic(e.name)
		case metaPutGroup:
			st.groups[e.name] = e.group
		case metaDropGroup:
			delete(st.groups, e.name)
		case metaPutOffset:
			st.putOffset(offsetKey{e.name, e.topic}, e.queue, e.offset)
		case metaDropOffsets:
			st.dropOffsets(e.name)
		case metaPutFloor:
			st.floors[e.name] = setOffset(st.floors[e.name], e.queue, e.offset)
		case metaDropFloors:
			delete(st.floors, e.name)
		case metaQueueEnd:
			st.ends = append(st.ends, *e)
		case metaTopicVersion:
			st.topicsVersion = e.version
		case metaGroupVersion:
			st.groupsVersion = e.version
		case metaOffsetVersion:
			st.offsetsVersion = e.version
		}
	}
}

// dropTopic removes a topic and every offset on it: a topic created again under
// the same name must not inherit positions in queues that are gone.
func (st *metaState) dropTopic(topic string) {
	delete(st.topics, topic)
	for _, k := range st.offsetKeys() {
		if k.topic == topic {
			delete(st.offsets, k)
		}
	}
}

// dropOffsets removes every offset of a group.
func (st *metaState) dropOffsets(group string) {
	for _, k := range st.offsetKeys() {
		if k.group == group {
			delete(st.offsets, k)
		}
	}
}

func (st *metaState) putOffset(k offsetKey, queue int32, offset int64) {
	st.offsets[k] = setOffset(st.offsets[k], queue, offset)
}

// setOffset sets one queue's offset in a row, growing it.
func setOffset(row []int64, queue int32, offset int64) []int64 {
	for int(queue) >= len(row) {
		row = append(row, noOffset)
	}
	row[queue] = offset
	return row
}

// floor is the first offset of a queue that belongs to the topic as it is now.
func (st *metaState) floor(topic string, queue int32) int64 {
	if len(st.floors) == 0 {
		return 0
	}
	row := st.floors[topic]
	if queue < 0 || int(queue) >= len(row) {
		return 0
	}
	return max(row[queue], 0)
}

// offset returns what is committed, noOffset when nothing is.
func (st *metaState) offset(k offsetKey, queue int32) int64 {
	row := st.offsets[k]
	if queue < 0 || int(queue) >= len(row) {
		return noOffset
	}
	return row[queue]
}
