package wire

import (
	"encoding/binary"
	"fmt"
	"math"
)

// MaxBatchEntries bounds the messages of one batch.
const MaxBatchEntries = 1 << 15

// batchFixed is the size of an entry without body and properties.
const batchFixed = 22

// BatchEntry is one message of the body of a batch send. Body is a part of the
// batch's bytes.
type BatchEntry struct {
	Flag       int32
	Body       []byte
	Properties string
}

// SplitBatch appends the entries of a batch body to entries (wire contracts 2.1).
// Entries carry total size, magic, CRC, flag, body and properties; magic and CRC
// are ignored, as brokers do. The error names the entry.
func SplitBatch(body []byte, entries []BatchEntry) ([]BatchEntry, error) {
	for n := 0; len(body) > 0; n++ {
		if n == MaxBatchEntries {
			return entries, fmt.Errorf("batch: more than %d messages", MaxBatchEntries)
		}
		e, size, err := batchEntry(body)
		if err != nil {
			return entries, fmt.Errorf("batch: message %d: %w", n, err)
		}
		entries = append(entries, e)
		body = body[size:]
	}
	return entries, nil
}

func batchEntry(b []byte) (e BatchEntry, size int, err error) {
	if len(b) < batchFixed {
		return e, 0, fmt.Errorf("%d bytes are left, the least is %d", len(b), batchFixed)
	}
	size = int(int32(binary.BigEndian.Uint32(b)))
	if size < batchFixed || size > len(b) {
		return e, 0, fmt.Errorf("size %d, want %d to %d", size, batchFixed, len(b))
	}
	e.Flag = int32(binary.BigEndian.Uint32(b[12:]))
	length := int(int32(binary.BigEndian.Uint32(b[16:])))
	if length < 0 || length > size-batchFixed {
		return e, 0, fmt.Errorf("body of %d bytes in a message of %d", length, size)
	}
	e.Body = b[20 : 20+length : 20+length]
	rest := b[20+length : size]
	props := int(int16(binary.BigEndian.Uint16(rest)))
	if props < 0 || props != len(rest)-2 {
		return e, 0, fmt.Errorf("properties of %d bytes where %d are left", props, len(rest)-2)
	}
	e.Properties = alias(rest[2:])
	return e, size, nil
}

// AppendBatchEntry appends one message to a batch body. The properties must fit
// 32767 bytes.
func AppendBatchEntry(dst []byte, e BatchEntry) ([]byte, error) {
	if len(e.Properties) > math.MaxInt16 {
		return dst, fmt.Errorf("batch: properties of %d bytes: the limit is %d", len(e.Properties), math.MaxInt16)
	}
	size := batchFixed + len(e.Body) + len(e.Properties)
	dst = binary.BigEndian.AppendUint32(dst, uint32(size))
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0) // magic and CRC, which nobody reads
	dst = binary.BigEndian.AppendUint32(dst, uint32(e.Flag))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(e.Body)))
	dst = append(dst, e.Body...)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(e.Properties)))
	return append(dst, e.Properties...), nil
}
