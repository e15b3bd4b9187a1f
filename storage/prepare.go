package storage

import (
	"encoding/binary"
	"fmt"

	"lockstep/internal/ha"
	"lockstep/internal/invariant"
)

// Draft is a message on its way into the log: everything but the three values
// that only the appender knows (queue offset, physical offset, store time).
type Draft struct {
	Topic          string
	QueueID        int32
	Flag           int32
	SysFlag        int32 // the host family bits are set by PrepareRecord
	BornMillis     int64
	BornHost       Host
	StoreHost      Host
	ReconsumeTimes int32
	PreparedOffset int64
	Body           []byte
	Properties     []byte // properties text, without a property CRC
	PropCRC        bool   // append the native property CRC (enabledAppendPropCRC)
	MaxRecord      int    // largest stored size in bytes; 0 means DefaultMaxRecord
}

// Prepared is a stored record with three holes. It is a plain value: the bytes
// may be shared and are not changed by Place.
type Prepared struct {
	Bytes    []byte
	PropCRC  bool
	storePos int // position of the store time, behind a born host of either family
}

// PrepareRecord lays out the stored record of a draft behind buf, which may be
// nil, and returns it. It is the work of a session's goroutine; the loop then
// only copies and fills holes (performance list, item 5). A draft that has no
// stored form is refused with the reason.
func PrepareRecord(buf []byte, d *Draft) (Prepared, error) {
	props := len(d.Properties)
	if d.PropCRC {
		if props > 0 && d.Properties[props-1] != PropertySeparator {
			props++ // Java adds the missing separator before its CRC
		}
		props += crcTailBytes
	}
	size := posBornHost + d.BornHost.width() + 8 + d.StoreHost.width() + 16 + len(d.Body) +
		topicWidth(d.Topic) + len(d.Topic) + 2 + props
	if err := checkDraft(d, props, size); err != nil {
		return Prepared{}, err
	}
	start := len(buf)
	b := appendFixed(buf, d, size)
	storePos := len(b) - start
	b = binary.BigEndian.AppendUint64(b, 0) // hole: store time
	b = d.StoreHost.append(b)
	b = binary.BigEndian.AppendUint32(b, uint32(d.ReconsumeTimes))
	b = binary.BigEndian.AppendUint64(b, uint64(d.PreparedOffset))
	b = binary.BigEndian.AppendUint32(b, uint32(len(d.Body)))
	b = append(b, d.Body...)
	if topicWidth(d.Topic) == 2 {
		b = append(b, byte(len(d.Topic)>>8))
	}
	b = append(b, byte(len(d.Topic)))
	b = append(b, d.Topic...)
	b = binary.BigEndian.AppendUint16(b, uint16(props))
	b = append(b, d.Properties...)
	if d.PropCRC {
		if n := len(d.Properties); n > 0 && d.Properties[n-1] != PropertySeparator {
			b = append(b, PropertySeparator)
		}
		b = append(b, make([]byte, crcTailBytes)...)
	}
	invariant.That(len(b)-start == size, "prepared %d bytes, computed %d", len(b)-start, size)
	return Prepared{Bytes: b[start:], PropCRC: d.PropCRC, storePos: storePos}, nil
}

func topicWidth(topic string) int {
	if len(topic) > maxV1Topic {
		return 2
	}
	return 1
}

func checkDraft(d *Draft, props, size int) error {
	limit := d.MaxRecord
	if limit == 0 {
		limit = DefaultMaxRecord
	}
	switch {
	case d.Topic == "" || len(d.Topic) > MaxTopic:
		return fmt.Errorf("topic of %d bytes: want 1 to %d", len(d.Topic), MaxTopic)
	case d.QueueID < 0:
		return fmt.Errorf("queue id %d of topic %s is negative", d.QueueID, d.Topic)
	case props > MaxProperties:
		return fmt.Errorf("properties of %d bytes exceed the limit of %d", props, MaxProperties)
	case size > limit:
		return fmt.Errorf("record of %d bytes exceeds the limit of %d (maxMessageSize)", size, limit)
	}
	return nil
}

// appendFixed writes the fields up to the born host, with the holes of queue
// and physical offset.
func appendFixed(b []byte, d *Draft, size int) []byte {
	magic := MagicV1
	if topicWidth(d.Topic) == 2 {
		magic = MagicV2
	}
	flags := d.SysFlag &^ (FlagBornHostV6 | FlagStoreHostV6)
	if d.BornHost.V6 {
		flags |= FlagBornHostV6
	}
	if d.StoreHost.V6 {
		flags |= FlagStoreHostV6
	}
	b = binary.BigEndian.AppendUint32(b, uint32(size))
	b = binary.BigEndian.AppendUint32(b, magic)
	b = binary.BigEndian.AppendUint32(b, CRC(d.Body))
	b = binary.BigEndian.AppendUint32(b, uint32(d.QueueID))
	b = binary.BigEndian.AppendUint32(b, uint32(d.Flag))
	b = binary.BigEndian.AppendUint64(b, 0) // hole: queue offset
	b = binary.BigEndian.AppendUint64(b, 0) // hole: physical offset
	b = binary.BigEndian.AppendUint32(b, uint32(flags))
	b = binary.BigEndian.AppendUint64(b, uint64(d.BornMillis))
	return d.BornHost.append(b)
}

// Size is the stored size in bytes.
func (p *Prepared) Size() int { return len(p.Bytes) }

// Place copies the record to dst, which must be exactly as long, fills its three
// holes and computes the property CRC when it has one. It does not allocate.
func (p *Prepared) Place(dst []byte, queueOffset int64, physical ha.LogOffset, storeMillis int64) {
	if len(dst) != len(p.Bytes) { // the arguments of an assertion are boxed even when it holds
		invariant.That(false, "room of %d bytes for a record of %d", len(dst), len(p.Bytes))
	}
	copy(dst, p.Bytes)
	binary.BigEndian.PutUint64(dst[posQueueOff:], uint64(queueOffset))
	binary.BigEndian.PutUint64(dst[posPhysical:], uint64(physical))
	binary.BigEndian.PutUint64(dst[p.storePos:], uint64(storeMillis))
	if p.PropCRC {
		putPropCRC(dst)
	}
}

// Blank fills dst with a blank record: its size, its magic, then zeros, so that
// replicas are equal byte for byte (rule P20). dst is the rest of a segment and
// holds at least BlankHeader bytes.
func Blank(dst []byte) {
	invariant.That(len(dst) >= BlankHeader, "blank record of %d bytes", len(dst))
	clear(dst)
	binary.BigEndian.PutUint32(dst, uint32(len(dst)))
	binary.BigEndian.PutUint32(dst[posMagic:], MagicBlank)
}

// NeedsBlank reports whether a record of size bytes no longer fits at off and
// the rest of off's segment has to become a blank record: a record is placed
// only where it leaves room for a blank header behind it (HA contract 5.2).
func NeedsBlank(off ha.LogOffset, size int, segment int64) (rest int, blank bool) {
	rest64 := segment - int64(off)%segment
	return int(rest64), int64(size)+BlankHeader > rest64
}
