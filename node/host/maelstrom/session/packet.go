package session

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"lockstep/internal/varint"
)

// Kind says what an item does to its stream.
type Kind uint8

// The kinds. Numbers are part of the packet's layout.
const (
	kindOpen   Kind = 1 // Data is the label
	kindAccept Kind = 2
	kindData   Kind = 3
	kindClose  Kind = 4 // Data is the reason
)

// Item is one step of one stream. Items of a link are numbered from 1 and arrive
// in that order, whatever the network does.
type Item struct {
	Kind Kind
	// Mine: the sender of the packet opened the stream. Streams of the two ends are
	// numbered apart.
	Mine   bool
	Stream uint32
	Data   []byte
}

// Packet is what one end sends to the other: any number of items in a row, and how
// far it has received.
type Packet struct {
	From  uint64 // the sender's name for this attempt; a later attempt has a higher one
	To    uint64 // the receiver's, as far as the sender knows; 0 asks for it
	First uint64 // number of the first item
	Ack   uint64 // everything up to this item has arrived
	Items []Item
}

// Bounds of a packet that is read.
const (
	// maxItems bounds the items of one packet.
	maxItems = 4096
	// maxLabel bounds labels and reasons, bytes.
	maxLabel = 512
)

// Append appends the packet's bytes: five numbers (the last one the count of
// items), then for each item kind and side in one byte, stream, length and data.
// Numbers are unsigned varints.
func (p *Packet) Append(b []byte) []byte {
	for _, n := range [...]uint64{p.From, p.To, p.First, p.Ack, uint64(len(p.Items))} {
		b = binary.AppendUvarint(b, n)
	}
	for i := range p.Items {
		it := &p.Items[i]
		head := byte(it.Kind) << 1
		if it.Mine {
			head |= 1
		}
		b = append(b, head)
		b = binary.AppendUvarint(b, uint64(it.Stream))
		b = binary.AppendUvarint(b, uint64(len(it.Data)))
		b = append(b, it.Data...)
	}
	return b
}

var errPacket = errors.New("the packet is cut short or out of bounds")

// ParsePacket is the inverse of Append. Data of items points into b.
func ParsePacket(b []byte) (Packet, error) {
	r := varint.Reader{Rest: b}
	const most = math.MaxUint64
	p := Packet{From: r.Uint(most), To: r.Uint(most), First: r.Uint(most), Ack: r.Uint(most)}
	n := r.Uint(maxItems)
	if r.Err != nil || n > uint64(len(r.Rest)) || p.From == 0 || p.First == 0 && n > 0 || p.First > 1<<62 {
		return Packet{}, errPacket
	}
	p.Items = make([]Item, 0, n)
	for range n {
		p.Items = append(p.Items, takeItem(&r))
		if r.Err != nil {
			return Packet{}, errPacket
		}
	}
	if len(r.Rest) > 0 {
		return Packet{}, fmt.Errorf("%w: %d bytes are left", errPacket, len(r.Rest))
	}
	return p, nil
}

// takeItem reads one item; the reader says whether it is one.
func takeItem(r *varint.Reader) (it Item) {
	head := r.Byte()
	it.Kind, it.Mine, it.Stream = Kind(head>>1), head&1 == 1, uint32(r.Uint(math.MaxUint32))
	limit := uint64(maxLabel)
	if it.Kind == kindData {
		limit = math.MaxUint64
	}
	if it.Data = r.Bytes(limit); it.Stream == 0 || it.Kind < kindOpen || it.Kind > kindClose {
		r.Fail()
	}
	return it
}
