package storage

import "encoding/binary"

// MetaHeader is the fixed start of the body of every MetaTopic record; what
// follows belongs to the broker. Storage needs it to find the newest complete
// checkpoint (OpLoadMeta, Recovered.Meta).
//
//	3  magic "LSM"   1  format version   1  kind (1 delta, 2 checkpoint)
//	8  checkpoint id   4  part (from 1)   4  parts
//
// The parts of one checkpoint carry the same id and follow each other without
// another metadata record between them; a delta has id, part and parts 0.
type MetaHeader struct {
	Version    uint8
	Checkpoint bool
	ID         uint64
	Part       uint32
	Parts      uint32
}

// MetaHeaderBytes is the encoded size of a MetaHeader.
const MetaHeaderBytes = 21

const (
	metaMagic      = "LSM"
	metaDelta      = 1
	metaCheckpoint = 2
)

// Append appends the encoded header to b.
func (h MetaHeader) Append(b []byte) []byte {
	b = append(b, metaMagic...)
	kind := byte(metaDelta)
	if h.Checkpoint {
		kind = metaCheckpoint
	}
	b = append(b, h.Version, kind)
	b = binary.BigEndian.AppendUint64(b, h.ID)
	b = binary.BigEndian.AppendUint32(b, h.Part)
	return binary.BigEndian.AppendUint32(b, h.Parts)
}

// ParseMetaHeader reads the header of a metadata record's body and returns the
// rest. ok is false when the bytes are no such header: a foreign record, or a
// part number outside 1…parts.
func ParseMetaHeader(body []byte) (h MetaHeader, rest []byte, ok bool) {
	if len(body) < MetaHeaderBytes || string(body[:3]) != metaMagic {
		return h, nil, false
	}
	h.Version = body[3]
	kind := body[4]
	h.ID = binary.BigEndian.Uint64(body[5:])
	h.Part = binary.BigEndian.Uint32(body[13:])
	h.Parts = binary.BigEndian.Uint32(body[17:])
	h.Checkpoint = kind == metaCheckpoint
	if h.Checkpoint {
		ok = h.Part >= 1 && h.Part <= h.Parts
	} else {
		ok = kind == metaDelta && h.Part == 0 && h.Parts == 0 && h.ID == 0
	}
	return h, body[MetaHeaderBytes:], ok
}
