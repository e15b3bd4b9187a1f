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
	for _, b := range m.IP[:min(int(m.IPLen), len(m.IP))] {
		dst = appendHex(dst, uint64(b), 2)
	}
	return appendHex(appendHex(dst, uint64(uint32(m.Port)), 8), uint64(m.Offset), 16)
}

// String is the id as text.
func (m OffsetMessageID) String() string {
	var text [56]byte
	return string(m.AppendText(text[:0]))
}

// appendHex appends the low digits of n.
func appendHex(dst []byte, n uint64, digits int) []byte {
	const upper = "0123456789ABCDEF"
	for shift := 4 * (digits - 1); shift >= 0; shift -= 4 {
		dst = append(dst, upper[n>>shift&15])
	}
	return dst
}

// ParseOffsetMessageID reads an id of 32 or 56 hex digits in either case.
func ParseOffsetMessageID(s string) (OffsetMessageID, error) {
	var m OffsetMessageID
	if len(s) != 32 && len(s) != 56 {
		return m, fmt.Errorf("offset message id %.60q: want 32 or 56 hex digits, have %d characters", s, len(s))
	}
	var text [56]byte
	var bin [28]byte
	raw := bin[:len(s)/2]
	if _, err := hex.Decode(raw, text[:copy(text[:], s)]); err != nil {
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
