package session

import (
	"encoding/binary"
	"errors"
	"fmt"
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
	r := reader{b: b}
	p := Packet{From: r.uint(), To: r.uint(), First: r.uint(), Ack: r.uint()}
	n := r.uint()
	if n > maxItems || n > uint64(len(r.b)) || p.From == 0 || p.First == 0 && n > 0 || p.First > 1<<62 {
		return Packet{}, errPacket
	}
	p.Items = make([]Item, 0, n)
	for range n {
		it, ok := r.item()
		if !ok {
			return Packet{}, errPacket
		}
		p.Items = append(p.Items, it)
	}
	if r.bad || len(r.b) > 0 {
		return Packet{}, fmt.Errorf("%w: %d bytes are left", errPacket, len(r.b))
	}
	return p, nil
}

// reader takes values off a packet; once bad, everything is zero.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) item() (it Item, ok bool) {
	if len(r.b) == 0 {
		return it, false
	}
	head := r.b[0]
	r.b = r.b[1:]
	stream, size := r.uint(), r.uint()
	it.Kind, it.Mine, it.Stream = Kind(head>>1), head&1 == 1, uint32(stream)
	if r.bad || stream == 0 || stream > 1<<32-1 || size > uint64(len(r.b)) || it.Kind < kindOpen || it.Kind > kindClose {
		return it, false
	}
	if it.Kind != kindData && size > maxLabel {
		return it, false
	}
	it.Data, r.b = r.b[:size:size], r.b[size:]
	return it, true
}
