package storage

import (
	"encoding/binary"

	"lockstep/internal/ha"
)

// FoundKind classifies the bytes at a log position.
type FoundKind uint8

// What Next can find.
const (
	FoundRecord    FoundKind = iota // a whole, verified record
	FoundBlank                      // padding to the end of the segment
	FoundMore                       // a plausible start; Size bytes are needed to judge
	FoundUnwritten                  // zeros where a record would start: nothing was written here
	FoundCorrupt                    // damaged or foreign bytes; Reason says why
)

// PropCRCRule says how the property CRC of records is judged.
type PropCRCRule uint8

// The rules. Under PropCRCRequired every single byte of a record is covered;
// the others are for records that other brokers wrote.
const (
	PropCRCPresent  PropCRCRule = iota // verified where a record carries one
	PropCRCRequired                    // a record without one is corrupt
	PropCRCIgnored                     // never verified
)

// Check says what Next verifies beside lengths and the body CRC.
type Check struct {
	PropCRC PropCRCRule
	// MaxRecord is the largest believable record in bytes; 0 means DefaultMaxRecord.
	MaxRecord int
	// Segment is the segment size in bytes: no record crosses a multiple of it,
	// and a blank ends on one. 0 switches both checks off.
	Segment int64
}

// Found is what Next saw.
type Found struct {
	Kind   FoundKind
	Size   int    // bytes of the record or blank; bytes needed for FoundMore
	Reason string // FoundCorrupt: a constant text
	Record Record // FoundRecord
}

// Next judges the bytes b that lie at log offset at. It is the only reader of
// stored records: recovery, replication, pulls and verification all use it. The
// record's own PHYSICALOFFSET must equal at, so that stale bytes of a recycled
// or truncated region are never taken for data.
func Next(b []byte, at ha.LogOffset, c Check) Found {
	if len(b) < BlankHeader {
		return Found{Kind: FoundMore, Size: BlankHeader}
	}
	size := int64(binary.BigEndian.Uint32(b))
	magic := binary.BigEndian.Uint32(b[posMagic:])
	if size == 0 && magic == 0 {
		return Found{Kind: FoundUnwritten}
	}
	if magic == MagicBlank {
		return nextBlank(size, at, c)
	}
	if reason := plausible(size, magic, at, c); reason != "" {
		return corrupt(reason)
	}
	if int64(len(b)) < size {
		return Found{Kind: FoundMore, Size: int(size)}
	}
	rec, reason := DecodeRecord(b[:size:size])
	if reason == "" {
		reason = rec.Verify(at, c.PropCRC)
	}
	if reason != "" {
		return corrupt(reason)
	}
	return Found{Kind: FoundRecord, Size: int(size), Record: rec}
}

func corrupt(reason string) Found { return Found{Kind: FoundCorrupt, Reason: reason} }

// nextBlank judges a blank's header. The bytes behind it are undefined in the
// native format, so they are neither needed nor read.
func nextBlank(size int64, at ha.LogOffset, c Check) Found {
	if size < BlankHeader {
		return corrupt("blank record shorter than its header")
	}
	if c.Segment > 0 && size != c.Segment-int64(at)%c.Segment {
		return corrupt("blank record does not end at the segment's end")
	}
	return Found{Kind: FoundBlank, Size: int(size)}
}

// plausible rejects a header whose record cannot exist, before its bytes are
// asked for.
func plausible(size int64, magic uint32, at ha.LogOffset, c Check) string {
	limit := int64(c.MaxRecord)
	if limit == 0 {
		limit = DefaultMaxRecord
	}
	switch {
	case magic != MagicV1 && magic != MagicV2:
		return "unknown magic code"
	case size < MinRecord:
		return "size below the smallest record"
	case size > limit:
		return "size above the largest record"
	case c.Segment > 0 && size > c.Segment-int64(at)%c.Segment:
		return "record crosses the segment's end"
	}
	return ""
}

// Verify checks a decoded record's position and checksums and returns "" or
// what is wrong. The property CRC covers the whole record (HA contract 5.2).
func (r *Record) Verify(at ha.LogOffset, rule PropCRCRule) string {
	if r.Physical != at {
		return "physical offset field differs from the position"
	}
	if CRC(r.Body) != r.BodyCRC {
		return "body checksum differs"
	}
	if rule == PropCRCIgnored {
		return ""
	}
	if !r.HasPropCRC() {
		if rule == PropCRCRequired {
			return "property checksum is missing"
		}
		return ""
	}
	sum, ok := r.propCRC()
	if !ok || sum != CRC(r.Raw[:len(r.Raw)-crcTailBytes]) {
		return "property checksum differs"
	}
	return ""
}
