package storage

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"

	"lockstep/internal/ha"
)

// Host is the address of a producer or a broker as records store it: four or
// sixteen address bytes and a 32-bit port. The zero value is 0.0.0.0:0.
type Host struct {
	Addr [16]byte // an IPv4 address fills the first four bytes
	V6   bool
	Port uint32
}

// ParseHost reads "1.2.3.4:10911" or "[2001:db8::1]:10911". IPv4 addresses
// written as IPv6 become IPv4, as Java's socket addresses do.
func ParseHost(s string) (Host, error) {
	ap, err := netip.ParseAddrPort(s)
	if err != nil {
		return Host{}, fmt.Errorf("host %q: want ADDRESS:PORT with a numeric address: %w", s, err)
	}
	h := Host{Port: uint32(ap.Port())}
	addr := ap.Addr().Unmap()
	if addr.Is4() {
		a := addr.As4()
		copy(h.Addr[:], a[:])
		return h, nil
	}
	h.V6, h.Addr = true, addr.As16()
	return h, nil
}

// String prints ADDRESS:PORT, with brackets around IPv6.
func (h Host) String() string {
	addr := netip.AddrFrom16(h.Addr)
	if !h.V6 {
		addr = netip.AddrFrom4([4]byte(h.Addr[:4]))
		return fmt.Sprintf("%s:%d", addr, h.Port)
	}
	return fmt.Sprintf("[%s]:%d", addr, h.Port)
}

// width is the stored size in bytes.
func (h Host) width() int {
	if h.V6 {
		return hostV6Bytes
	}
	return hostV4Bytes
}

func (h Host) append(b []byte) []byte {
	b = append(b, h.Addr[:h.width()-4]...)
	return binary.BigEndian.AppendUint32(b, h.Port)
}

// decodeHost reads a host of the given family. The caller checked the length.
func decodeHost(b []byte, v6 bool) Host {
	h := Host{V6: v6}
	n := h.width() - 4
	copy(h.Addr[:], b[:n])
	h.Port = binary.BigEndian.Uint32(b[n:])
	return h
}

// MessageID is the offset message id: store host address, port and physical
// offset in upper-case hex, 32 or 56 characters (wire contract 4.5).
func MessageID(store Host, physical ha.LogOffset) string {
	b := store.append(make([]byte, 0, hostV6Bytes+8))
	b = binary.BigEndian.AppendUint64(b, uint64(physical))
	return strings.ToUpper(hex.EncodeToString(b))
}

// ParseMessageID splits an offset message id; it is the inverse of MessageID
// and accepts both letter cases.
func ParseMessageID(id string) (Host, ha.LogOffset, error) {
	var text [2 * (hostV6Bytes + 8)]byte
	var bin [hostV6Bytes + 8]byte
	n, err := hex.Decode(bin[:], text[:copy(text[:], id)])
	b := bin[:n]
	if err != nil || len(id) > len(text) || len(b) != hostV4Bytes+8 && len(b) != hostV6Bytes+8 {
		return Host{}, 0, fmt.Errorf("message id %.64q: want 32 or 56 hex digits", id)
	}
	n -= 8
	off := int64(binary.BigEndian.Uint64(b[n:]))
	if off < 0 {
		return Host{}, 0, fmt.Errorf("message id %.64q: negative log offset", id)
	}
	return decodeHost(b, n == hostV6Bytes), ha.LogOffset(off), nil
}
