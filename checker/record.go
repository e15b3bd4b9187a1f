package checker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"lockstep/internal/ha"
)

// Record is what the judge reads of a stored message, by its own decoder: the
// RocketMQ layout of HA contracts 5.2, written apart from the product's.
type Record struct {
	Size        int
	Queue       int32
	QueueOffset int64
	Log         ha.LogOffset
	Topic       []byte // part of the bytes that were decoded, as is Body
	Body        []byte

	properties []byte // the text as stored, read when asked for
}

const (
	magicV1 = 0xDAA320A7
	magicV2 = 0xDAA320AB
)

var errRecord = errors.New("not a stored message")

// ParseRecord decodes the record at the start of b.
func ParseRecord(b []byte) (Record, error) {
	if len(b) < 91 {
		return Record{}, fmt.Errorf("%w: %d bytes", errRecord, len(b))
	}
	r := Record{Size: int(binary.BigEndian.Uint32(b)), Queue: int32(binary.BigEndian.Uint32(b[12:])),
		QueueOffset: int64(binary.BigEndian.Uint64(b[20:])), Log: ha.LogOffset(binary.BigEndian.Uint64(b[28:]))}
	magic := binary.BigEndian.Uint32(b[4:])
	if magic != magicV1 && magic != magicV2 || r.Size < 91 || r.Size > len(b) {
		return Record{}, fmt.Errorf("%w: magic %08x size %d of %d", errRecord, magic, r.Size, len(b))
	}
	flags := binary.BigEndian.Uint32(b[36:])
	c := cursor{b: b[:r.Size], at: 48}
	c.skip(hostSize(flags, 0x10))
	c.skip(8) // store time
	c.skip(hostSize(flags, 0x20))
	c.skip(4 + 8) // reconsume times, prepared transaction offset
	r.Body = c.take(int(c.uint(4)))
	topicWidth := 1
	if magic == magicV2 {
		topicWidth = 2
	}
	r.Topic = c.take(int(c.uint(topicWidth)))
	r.properties = c.take(int(c.uint(2)))
	if c.bad {
		return Record{}, fmt.Errorf("%w: fields run over its %d bytes", errRecord, r.Size)
	}
	return r, nil
}

func hostSize(flags, bit uint32) int {
	if flags&bit != 0 {
		return 20
	}
	return 8
}

// Property is the value of a property, the last one when it occurs more than
// once; "" when there is none.
func (r *Record) Property(name string) string { return string(r.property(name)) }

func (r *Record) property(name string) (value []byte) {
	for rest := r.properties; len(rest) > 0; {
		var pair []byte
		pair, rest, _ = bytes.Cut(rest, []byte{2})
		if k, v, ok := bytes.Cut(pair, []byte{1}); ok && string(k) == name {
			value = v
		}
	}
	return value
}

// cursor reads fields and remembers an overrun.
type cursor struct {
	b   []byte
	at  int
	bad bool
}

func (c *cursor) take(n int) []byte {
	if n < 0 || c.bad || n > len(c.b)-c.at {
		c.bad = true
		return nil
	}
	c.at += n
	return c.b[c.at-n : c.at]
}

func (c *cursor) skip(n int) { c.take(n) }

func (c *cursor) uint(width int) uint64 {
	var v uint64
	for _, x := range c.take(width) {
		v = v<<8 | uint64(x)
	}
	return v
}

// keyed reports whether Key is the given one.
func (r *Record) keyed(key string) bool {
	word, _, _ := bytes.Cut(r.property("KEYS"), []byte{' '})
	return string(word) == key
}

// Key is the producer's key of the message: the first word of KEYS.
func (r *Record) Key() string {
	k, _, _ := strings.Cut(r.Property("KEYS"), " ")
	return k
}
