package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"lockstep/internal/varint"
	"lockstep/node/wire"
	"lockstep/storage"
)

// The body of a metadata record (rules M1, M3, M8):
//
//	21  storage.MetaHeader (version, delta or checkpoint part)
//	then entries until the end:  1 kind   n length (uvarint)   n payload
//
// Payloads: topics and groups are RocketMQ's JSON of TopicConfig and
// SubscriptionGroupConfig; tombstones are the name; offsets and data versions are
// uvarints behind length-prefixed strings. A record is applied as a whole or not
// at all. A reader that meets a newer version or an unknown kind refuses the
// record: skipping one would silently make its state differ from its master's.

// metaVersion is the format this broker writes.
const metaVersion = 1

// maxMetaBody bounds the body of one metadata record; larger deltas and
// checkpoints are split at entry boundaries. Small segments bound it further.
const maxMetaBody = 256 << 10

// metaRecordRoom is what the record around a body may take, bytes.
const metaRecordRoom = 512

// maxMetaName bounds each name inside an entry.
const maxMetaName = 1024

// metaKind says what an entry changes.
type metaKind uint8

// The entry kinds; numbers are part of the format.
const (
	metaPutTopic      metaKind = 1  // payload: TopicConfig JSON
	metaDropTopic     metaKind = 2  // payload: name; its offsets go too (M8)
	metaPutGroup      metaKind = 3  // payload: SubscriptionGroupConfig JSON
	metaDropGroup     metaKind = 4  // payload: name
	metaPutOffset     metaKind = 5  // group, topic, queue, offset
	metaDropOffsets   metaKind = 6  // group: all its offsets
	metaTopicVersion  metaKind = 7  // DataVersion of the topic table
	metaGroupVersion  metaKind = 8  // DataVersion of the group table
	metaOffsetVersion metaKind = 9  // DataVersion of the offset table
	metaPutFloor      metaKind = 10 // topic, queue, offset: messages below belong to a deleted topic
	metaDropFloors    metaKind = 11 // topic: its floors are behind what is stored
	metaQueueEnd      metaKind = 12 // topic, queue, offset: where the queue ended when the checkpoint was written
)

// metaEntry is one change; which fields count depends on the kind.
type metaEntry struct {
	kind    metaKind
	name    string // topic or group
	topic   string // of an offset
	queue   int32
	offset  int64 // next queue offset to consume; never negative
	config  wire.TopicConfig
	group   wire.SubscriptionGroupConfig
	version wire.DataVersion
}

var errMetaShort = errors.New("metadata entry is cut short")

// appendEntry appends the encoding of e to b.
func appendEntry(b []byte, e metaEntry) []byte {
	var payload []byte
	switch e.kind {
	case metaPutTopic:
		payload = wire.MarshalBody(e.config)
	case metaPutGroup:
		payload = wire.MarshalBody(e.group)
	case metaDropTopic, metaDropGroup, metaDropOffsets, metaDropFloors:
		payload = []byte(e.name)
	case metaPutOffset, metaPutFloor, metaQueueEnd:
		payload = appendText(nil, e.name)
		if e.kind == metaPutOffset {
			payload = appendText(payload, e.topic)
		}
		payload = binary.AppendUvarint(payload, uint64(uint32(e.queue)))
		payload = binary.AppendUvarint(payload, uint64(e.offset))
	default:
		payload = appendVersion(nil, e.version)
	}
	b = append(b, byte(e.kind))
	b = binary.AppendUvarint(b, uint64(len(payload)))
	return append(b, payload...)
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendVersion(b []byte, v wire.DataVersion) []byte {
	b = binary.AppendUvarint(b, uint64(v.StateVersion))
	b = binary.AppendUvarint(b, uint64(v.Timestamp))
	return binary.AppendUvarint(b, uint64(v.Counter))
}

// decodeEntries reads every entry of a record body behind its header.
func decodeEntries(version uint8, b []byte) ([]metaEntry, error) {
	if version != metaVersion {
		return nil, fmt.Errorf("metadata format %d, this broker reads %d: run the same version on all members", version, metaVersion)
	}
	var out []metaEntry
	for r := (varint.Reader{Rest: b}); len(r.Rest) > 0; {
		kind, payload := metaKind(r.Byte()), r.Bytes(math.MaxUint64)
		if r.Err != nil {
			return nil, errMetaShort
		}
		e, err := decodeEntry(kind, payload)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

func decodeEntry(kind metaKind, p []byte) (e metaEntry, err error) {
	e.kind = kind
	switch kind {
	case metaPutTopic:
		err = wire.UnmarshalBody(p, &e.config)
		e.name = e.config.TopicName
	case metaPutGroup:
		e.group = wire.NewSubscriptionGroup("") // members an older version did not write keep their default
		err = wire.UnmarshalBody(p, &e.group)
		e.name = e.group.GroupName
	case metaDropTopic, metaDropGroup, metaDropOffsets, metaDropFloors:
		e.name = string(p)
	case metaPutOffset, metaPutFloor, metaQueueEnd:
		return decodeOffset(e, p)
	case metaTopicVersion, metaGroupVersion, metaOffsetVersion:
		return decodeVersion(e, p)
	default:
		return e, fmt.Errorf("metadata entry kind %d is unknown to this version", kind)
	}
	if err == nil && (e.name == "" || len(e.name) > maxMetaName) {
		err = fmt.Errorf("metadata entry kind %d has a name of %d bytes", kind, len(e.name))
	}
	return e, err
}

func decodeOffset(e metaEntry, p []byte) (metaEntry, error) {
	r := varint.Reader{Rest: p}
	e.name = string(r.Bytes(maxMetaName))
	if e.kind == metaPutOffset {
		e.topic = string(r.Bytes(maxMetaName))
	}
	queue, offset := r.Uint(maxQueues-1), r.Uint(math.MaxInt64)
	if r.Err != nil || len(r.Rest) > 0 || e.name == "" || e.kind == metaPutOffset && e.topic == "" {
		return e, errMetaShort
	}
	e.queue, e.offset = int32(queue), int64(offset)
	return e, nil
}

func decodeVersion(e metaEntry, p []byte) (metaEntry, error) {
	r := varint.Reader{Rest: p}
	e.version.StateVersion = int64(r.Uint(math.MaxUint64))
	e.version.Timestamp = int64(r.Uint(math.MaxUint64))
	e.version.Counter = int64(r.Uint(math.MaxUint64))
	if r.Err != nil || len(r.Rest) > 0 {
		return e, errMetaShort
	}
	return e, nil
}

// deltaBodies encodes entries as one or more delta bodies of at most limit bytes.
// Splitting is harmless: entries are independent, and their records follow each
// other in the log.
func deltaBodies(entries []metaEntry, limit int) [][]byte {
	return splitBodies(entries, storage.MetaHeader{Version: metaVersion}, limit)
}

// checkpointOf encodes a whole state, given as entries, as the parts of one checkpoint.
// The id only has to differ between neighbouring checkpoints: the log offset it is
// written at.
func checkpointOf(entries []metaEntry, id uint64, limit int) [][]byte {
	bodies := splitBodies(entries, storage.MetaHeader{Version: metaVersion, Checkpoint: true, ID: id, Part: 1, Parts: 1}, limit)
	for i := range bodies { // the number of parts is known only now
		h := storage.MetaHeader{Version: metaVersion, Checkpoint: true, ID: id, Part: uint32(i + 1), Parts: uint32(len(bodies))}
		copy(bodies[i], h.Append(nil))
	}
	return bodies
}

func splitBodies(entries []metaEntry, h storage.MetaHeader, limit int) [][]byte {
	var out [][]byte
	body := h.Append(nil)
	for _, e := range entries {
		before := len(body)
		body = appendEntry(body, e)
		if len(body) > limit && before > storage.MetaHeaderBytes {
			tail := slices.Clone(body[before:])
			out = append(out, body[:before])
			body = append(h.Append(nil), tail...)
		}
	}
	return append(out, body)
}

// dump lists the state as entries in canonical order: equal states give equal
// lists. It is what a checkpoint holds and what tests compare.
func (st *metaState) dump() []metaEntry {
	out := []metaEntry{
		{kind: metaTopicVersion, version: st.topicsVersion},
		{kind: metaGroupVersion, version: st.groupsVersion},
		{kind: metaOffsetVersion, version: st.offsetsVersion},
	}
	for _, name := range sortedKeys(st.topics) {
		out = append(out, metaEntry{kind: metaPutTopic, name: name, config: st.topics[name]})
	}
	for _, name := range sortedKeys(st.groups) {
		out = append(out, metaEntry{kind: metaPutGroup, name: name, group: st.groups[name]})
	}
	for _, k := range st.offsetKeys() {
		for q, off := range st.offsets[k] {
			if off != noOffset {
				out = append(out, metaEntry{kind: metaPutOffset, name: k.group, topic: k.topic, queue: int32(q), offset: off})
			}
		}
	}
	for _, topic := range sortedKeys(st.floors) {
		for q, off := range st.floors[topic] {
			if off != noOffset {
				out = append(out, metaEntry{kind: metaPutFloor, name: topic, queue: int32(q), offset: off})
			}
		}
	}
	return out
}

// offsetKeys returns the keys of the offset table in order.
func (st *metaState) offsetKeys() []offsetKey {
	keys := make([]offsetKey, 0, len(st.offsets))
	for k := range st.offsets { // tidy:unordered the keys are sorted below
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b offsetKey) int {
		if c := strings.Compare(a.group, b.group); c != 0 {
			return c
		}
		return strings.Compare(a.topic, b.topic)
	})
	return keys
}

// sortedKeys returns the keys of a table in order.
func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m { // tidy:unordered the keys are sorted below
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
