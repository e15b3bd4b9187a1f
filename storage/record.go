package storage

import (
	"encoding/binary"
	"hash/crc32"

	"lockstep/internal/ha"
)

// Magic codes of the commit log (HA contract 5.2). Version 2 differs only in a
// two-byte topic length, for topics longer than 127 bytes.
const (
	MagicV1    uint32 = 0xDAA320A7
	MagicV2    uint32 = 0xDAA320AB
	MagicBlank uint32 = 0xCBD43194 // padding to the end of a segment
)

// Bits of a record's SYSFLAG (wire contract 4.2).
const (
	FlagCompressed      = 0x1
	FlagMultiTags       = 0x2
	FlagPrepared        = 0x4
	FlagCommit          = 0x8
	FlagRollback        = 0xC
	FlagTransactionMask = 0xC
	FlagBornHostV6      = 0x10
	FlagStoreHostV6     = 0x20
)

// Sizes and fixed positions of a record, in bytes.
const (
	MinRecord    = 91 // IPv4 hosts, everything else empty
	BlankHeader  = 8  // size and magic of a blank record
	MaxTopic     = 255
	posMagic     = 4
	posBodyCRC   = 8
	posQueueID   = 12
	posFlag      = 16
	posQueueOff  = 20
	posPhysical  = 28
	posSysFlag   = 36
	posBornTime  = 40
	posBornHost  = 48
	hostV4Bytes  = 8
	hostV6Bytes  = 20
	crcTailBytes = len(PropCRC) + 1 + crcDigits + 1
	crcDigits    = 10
	maxV1Topic   = 127
)

// DefaultMaxRecord is the largest record in bytes that a store takes unless its
// options say otherwise: RocketMQ's 4 MiB body limit and 64 KiB for the rest.
const DefaultMaxRecord = 4<<20 + 64<<10

// Record is a decoded view of one stored message. Its byte slices alias the
// bytes it was decoded from: they are valid as long as those are, and must not
// be changed.
type Record struct {
	Raw            []byte // the whole stored record
	Magic          uint32
	BodyCRC        uint32
	QueueID        int32
	Flag           int32
	QueueOffset    int64
	Physical       ha.LogOffset
	SysFlag        int32
	BornMillis     int64
	BornHost       Host
	StoreMillis    int64
	StoreHost      Host
	ReconsumeTimes int32
	PreparedOffset int64
	Body           []byte
	Topic          []byte
	Properties     []byte
}

// Size is the stored size in bytes.
func (r *Record) Size() int { return len(r.Raw) }

// End is the log offset after the record.
func (r *Record) End() ha.LogOffset { return r.Physical + ha.LogOffset(len(r.Raw)) }

// MessageID is the record's offset message id.
func (r *Record) MessageID() string { return MessageID(r.StoreHost, r.Physical) }

// Tag is the value of the TAGS property, nil when there is none.
func (r *Record) Tag() []byte {
	tag, _ := Property(r.Properties, PropTags)
	return tag
}

// DecodeRecord reads the record that fills b exactly. It checks lengths and
// bounds only; checksums and position are Verify's. The reason is "" on success
// and a constant text otherwise, so that scanning damaged bytes is cheap.
func DecodeRecord(b []byte) (r Record, reason string) {
	if len(b) < MinRecord {
		return r, "shorter than the smallest record"
	}
	if int64(binary.BigEndian.Uint32(b)) != int64(len(b)) {
		return r, "size field differs from the record's length"
	}
	r.Raw = b
	r.Magic = binary.BigEndian.Uint32(b[posMagic:])
	if r.Magic != MagicV1 && r.Magic != MagicV2 {
		return r, "unknown magic code"
	}
	r.BodyCRC = binary.BigEndian.Uint32(b[posBodyCRC:])
	r.QueueID = int32(binary.BigEndian.Uint32(b[posQueueID:]))
	r.Flag = int32(binary.BigEndian.Uint32(b[posFlag:]))
	r.QueueOffset = int64(binary.BigEndian.Uint64(b[posQueueOff:]))
	r.Physical = ha.LogOffset(binary.BigEndian.Uint64(b[posPhysical:]))
	r.SysFlag = int32(binary.BigEndian.Uint32(b[posSysFlag:]))
	r.BornMillis = int64(binary.BigEndian.Uint64(b[posBornTime:]))
	if reason = r.decodeHosts(); reason != "" {
		return r, reason
	}
	if r.QueueID < 0 || r.QueueOffset < 0 || r.Physical < 0 {
		return r, "negative queue id or offset"
	}
	return r, ""
}

// decodeHosts reads the part whose positions depend on the address families,
// then the variable parts behind it.
func (r *Record) decodeHosts() string {
	bornV6, storeV6 := r.SysFlag&FlagBornHostV6 != 0, r.SysFlag&FlagStoreHostV6 != 0
	born, store := hostWidth(bornV6), hostWidth(storeV6)
	b := r.Raw
	// Everything up to the body length has to be there before it is read.
	if len(b) < posBornHost+born+8+store+4+8+4 {
		return "shorter than its hosts need"
	}
	r.BornHost = decodeHost(b[posBornHost:], bornV6)
	p := posBornHost + born
	r.StoreMillis = int64(binary.BigEndian.Uint64(b[p:]))
	p += 8
	r.StoreHost = decodeHost(b[p:], storeV6)
	p += store
	r.ReconsumeTimes = int32(binary.BigEndian.Uint32(b[p:]))
	r.PreparedOffset = int64(binary.BigEndian.Uint64(b[p+4:]))
	return r.decodeVariable(p + 12)
}

// decodeVariable reads body, topic and properties, which must end exactly at
// the record's end.
func (r *Record) decodeVariable(p int) string {
	b := r.Raw
	n := int64(binary.BigEndian.Uint32(b[p:]))
	p += 4
	if n > int64(len(b)-p) {
		return "body runs over the record's end"
	}
	r.Body, p = b[p:p+int(n):p+int(n)], p+int(n)
	width := 1
	if r.Magic == MagicV2 {
		width = 2
	}
	if len(b)-p < width {
		return "topic length is missing"
	}
	t := int(b[p])
	if width == 2 {
		t = t<<8 | int(b[p+1])
	}
	p += width
	if t == 0 || t > MaxTopic || (width == 1 && t > maxV1Topic) || t > len(b)-p {
		return "topic length out of range"
	}
	r.Topic, p = b[p:p+t:p+t], p+t
	if len(b)-p < 2 {
		return "properties length is missing"
	}
	q := int(binary.BigEndian.Uint16(b[p:]))
	p += 2
	if q > MaxProperties || q != len(b)-p {
		return "properties do not end at the record's end"
	}
	r.Properties = b[p:]
	return ""
}

func hostWidth(v6 bool) int {
	if v6 {
		return hostV6Bytes
	}
	return hostV4Bytes
}

// CRC is the checksum of bodies and records: CRC-32 (IEEE) without the top bit,
// because Java keeps it in a signed int.
func CRC(b []byte) uint32 { return crc32.ChecksumIEEE(b) & 0x7FFFFFFF }

// HasPropCRC reports whether the record carries a property CRC.
func (r *Record) HasPropCRC() bool {
	n := len(r.Properties)
	return n >= crcTailBytes && string(r.Properties[n-crcTailBytes:n-crcTailBytes+len(PropCRC)]) == PropCRC &&
		r.Properties[n-crcDigits-2] == NameValueSeparator && r.Properties[n-1] == PropertySeparator
}

// propCRC returns the stored property CRC; ok is false when its digits are not
// ten decimal digits of a 31-bit number.
func (r *Record) propCRC() (sum uint32, ok bool) {
	digits := r.Raw[len(r.Raw)-crcDigits-1 : len(r.Raw)-1]
	var v uint64
	for i := crcDigits - 1; i >= 0; i-- { // least significant first
		if digits[i] < '0' || digits[i] > '9' {
			return 0, false
		}
		v = v*10 + uint64(digits[i]-'0')
	}
	return uint32(v), v <= 0x7FFFFFFF
}

// putPropCRC writes the property CRC over the last bytes of a placed record.
func putPropCRC(rec []byte) {
	n := len(rec) - crcTailBytes
	sum := CRC(rec[:n])
	tail := append(rec[:n], PropCRC...)
	tail = append(tail, NameValueSeparator)
	for range crcDigits {
		tail = append(tail, byte('0'+sum%10))
		sum /= 10
	}
	_ = append(tail, PropertySeparator)
}
