package wire

import (
	"encoding/hex"
	"fmt"
)

// OffsetMessageID is the id a broker gives a stored message: the host that
// stored it and its commit log offset (wire contracts 4.5).
type OffsetMessageID struct {
	IP     [16]byte
	IPLen  uint8 // 4 or 16; 0 is "no id"
	Port   int32
	Offset int64
}

// AppendText appends the id as upper-case hex digits: 32 for IPv4, 56 for IPv6.
func (m OffsetMessageID) AppendText(dst []byte) []byte {
	dst = appendHex(dst, m.IP[:min(int(m.IPLen), len(m.IP))])
	dst = appendHex(dst, []byte{byte(m.Port >> 24), byte(m.Port >> 16), byte(m.Port >> 8), byte(m.Port)})
	o := uint64(m.Offset)
	return appendHex(dst, []byte{
		byte(o >> 56), byte(o >> 48), byte(o >> 40), byte(o >> 32),
		byte(o >> 24), byte(o >> 16), byte(o >> 8), byte(o),
	})
}

// String is the id as text.
func (m OffsetMessageID) String() string { return string(m.AppendText(nil)) }

func appendHex(dst, src []byte) []byte {
	const digits = "0123456789ABCDEF"
	for _, b := range src {
		dst = append(dst, digits[b>>4], digits[b&15])
	}
	return dst
}

// ParseOffsetMessageID reads an id of 32 or 56 hex digits in either case.
func ParseOffsetMessageID(s string) (OffsetMessageID, error) {
	var m OffsetMessageID
	if len(s) != 32 && len(s) != 56 {
		return m, fmt.Errorf("offset message id %.60q: want 32 or 56 hex digits, have %d characters", s, len(s))
	}
	raw, err := hex.DecodeString(s)
	if err != nil {
		return m, fmt.Errorf("offset message id %q: %w", s, err)
	}
	m.IPLen = uint8(len(raw) - 12)
	copy(m.IP[:], raw[:m.IPLen])
	for _, b := range raw[m.IPLen : m.IPLen+4] {
		m.Port = m.Port<<8 | int32(b)
	}
	for _, b := range raw[m.IPLen+4:] {
		m.Offset = m.Offset<<8 | int64(b)
	}
	return m, nil
}
