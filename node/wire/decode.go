package wire

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
)

// Limits of headers, beside MaxFrameBytes.
const (
	MaxHeaderBytes        = 512 << 10 // remoting header
	MaxExtFields          = 128       // fields of a remoting header
	MaxReplicaHeaderBytes = 256 << 10 // replication header
	MaxReplicaBodyBytes   = 8 << 20   // bytes of log in one replication frame
	MaxEpochs             = 16 << 10  // epochs in one replication header
)

// TLSHandshake is the first byte of a TLS stream. Every plain stream of this
// package begins otherwise: remoting with 0, because a legal length is below
// 2^24; replication with its magic.
const TLSHandshake = 0x16

// frame prefixes: what must be present to know a frame's size.
const (
	remotingPrefix = 8
	replicaPrefix  = 13
	raftPrefix     = 8
)

// Decoder reads the frames of one stream. The zero value with Link set is ready.
//
// Ownership: a decoded frame's Body and texts are parts of buf. The caller gives
// the decoded bytes away: they must never be written again. Read into a fresh
// buffer once the old one is full, or use DecodeCopy.
type Decoder struct {
	Link Link
	// MaxFrame is a tighter size limit than MaxFrameBytes, for streams whose peer
	// has not shown who it is; 0 is none.
	MaxFrame int

	fields  []Field // room for one header's fields
	arena   []byte  // texts that had escapes
	chunk   int     // size of the arena's newest chunk
	sends   slab[SendMessageRequest]
	sendOKs slab[SendMessageResponse]
	pulls   slab[PullRequest]
	pullOKs slab[PullResponse]
}

// Decode reads one frame of a stream that has no Decoder of its own.
func Decode(link Link, buf []byte) (Frame, int, error) {
	d := Decoder{Link: link}
	return d.Decode(buf)
}

// Decode reads the frame at the start of buf and returns how many bytes it took;
// 0 without an error means that more are needed. An error is final: the stream
// has lost its frame boundaries or its peer cannot be trusted, so close it.
func (d *Decoder) Decode(buf []byte) (Frame, int, error) {
	size, err := d.Size(buf)
	if err != nil || size == 0 || len(buf) < size {
		return Frame{}, 0, err
	}
	f := Frame{Link: d.Link}
	switch d.Link {
	case Remoting:
		err = d.remoting(&f, buf[:size:size])
	case Replication:
		err = decodeReplication(&f, buf[:size:size])
	default:
		err = decodeRaft(&f, buf[:size:size])
	}
	if err != nil {
		return Frame{}, 0, fmt.Errorf("decode %v frame: %w", d.Link, err)
	}
	return f, size, nil
}

// DecodeCopy is Decode for a buffer that will be reused: the frame owns a copy of
// its bytes.
func (d *Decoder) DecodeCopy(buf []byte) (Frame, int, error) {
	size, err := d.Size(buf)
	if err != nil || size == 0 || len(buf) < size {
		return Frame{}, 0, err
	}
	return d.Decode(slices.Clone(buf[:size]))
}

// Size returns the size of the frame at the start of buf as soon as its prefix is
// there; 0 without an error means that more bytes are needed. Wrong bytes are
// refused as early as they can be told.
func (d *Decoder) Size(buf []byte) (int, error) {
	var size int
	var err error
	switch d.Link {
	case Remoting:
		size, err = remotingSize(buf)
	case Replication:
		size, err = replicaSize(buf)
	default:
		size, err = raftSize(buf)
	}
	if limit := d.limit(); err == nil && size > limit {
		err = fmt.Errorf("frame of %d bytes: the limit is %d", size, limit)
	}
	if err != nil {
		return 0, fmt.Errorf("decode %v frame: %w", d.Link, err)
	}
	return size, nil
}

func (d *Decoder) limit() int {
	if d.MaxFrame > 0 {
		return min(d.MaxFrame, MaxFrameBytes)
	}
	return MaxFrameBytes
}

func remotingSize(buf []byte) (int, error) {
	if len(buf) == 0 {
		return 0, nil
	}
	if buf[0] == TLSHandshake {
		return 0, fmt.Errorf("a TLS handshake on a plain stream: enable TLS on this listener or disable it at the client")
	}
	if buf[0] != 0 {
		return 0, fmt.Errorf("first byte is 0x%02x, want 0: the peer does not speak remoting", buf[0])
	}
	if len(buf) < 4 {
		return 0, nil
	}
	length := int(binary.BigEndian.Uint32(buf))
	if length < 4 {
		return 0, fmt.Errorf("length %d: the least is 4", length)
	}
	if len(buf) < remotingPrefix {
		return 0, nil
	}
	mark := binary.BigEndian.Uint32(buf[4:])
	header := int(mark & 0xffffff)
	switch {
	case mark>>24 > uint32(Binary):
		return 0, fmt.Errorf("header encoding %d is unknown", mark>>24)
	case header > length-4:
		return 0, fmt.Errorf("header of %d bytes in a frame of %d", header, length+4)
	case header > MaxHeaderBytes:
		return 0, fmt.Errorf("header of %d bytes: the limit is %d", header, MaxHeaderBytes)
	}
	return length + 4, nil
}

func raftSize(buf []byte) (int, error) {
	if len(buf) < 4 {
		return 0, nil
	}
	length := binary.BigEndian.Uint32(buf)
	if length < 4 || length > MaxFrameBytes-4 {
		return 0, fmt.Errorf("length %d: want 4 to %d", length, MaxFrameBytes-4)
	}
	return int(length) + 4, nil
}

func raftSum(body []byte) uint32 {
	var n [4]byte
	binary.BigEndian.PutUint32(n[:], uint32(len(body)))
	return crc32.Update(crc32.Update(0, castagnoli, n[:]), castagnoli, body)
}

func decodeRaft(f *Frame, buf []byte) error {
	f.Body = bodyOf(buf[raftPrefix:])
	if have, want := raftSum(f.Body), binary.BigEndian.Uint32(buf[4:]); have != want {
		return fmt.Errorf("checksum %08x, want %08x: bytes were damaged on the way", have, want)
	}
	return nil
}

// bodyOf makes an empty body nil: the wire cannot tell them apart.
func bodyOf(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

func (d *Decoder) remoting(f *Frame, buf []byte) error {
	mark := binary.BigEndian.Uint32(buf[4:])
	raw := buf[remotingPrefix : remotingPrefix+int(mark&0xffffff)]
	f.Body = bodyOf(buf[remotingPrefix+len(raw):])
	var fields []Field
	var err error
	if HeaderEncoding(mark>>24) == JSON {
		fields, err = d.jsonHeader(raw, &f.Head)
	} else {
		fields, err = d.binaryHeader(raw, &f.Head)
	}
	if err != nil {
		return err
	}
	fields, err = checkSeal(&f.Head, fields, f.Body)
	if err != nil {
		return err
	}
	if !d.typed(f, fields) {
		f.Head.Ext = ownFields(fields)
	}
	clear(d.fields) // do not keep the old buffer alive
	return nil
}

// jsonHeader reads a header with the fast scanner, or, when it holds anything
// unusual, with the tolerant reader.
func (d *Decoder) jsonHeader(raw []byte, h *Head) ([]Field, error) {
	if fields, ok := d.scanHead(raw, h); ok {
		return fields, nil
	}
	*h = Head{}
	return d.treeHead(raw, h)
}

// ownFields copies fields out of the decoder's room. Of fields with one name the
// last counts.
func ownFields(fields []Field) Ext {
	if len(fields) == 0 {
		return nil
	}
	ext := make(Ext, 0, len(fields))
	for i := range fields {
		ext.Set(fields[i].Key, fields[i].Value)
	}
	return ext
}

// maxArenaChunk is the size to which the chunks for unescaped texts grow.
const maxArenaChunk = 4 << 10

// room returns the arena's tail with space for n bytes. Chunks double, so that a
// decoder used once wastes nothing and a busy one allocates rarely.
func (d *Decoder) room(n int) []byte {
	if cap(d.arena)-len(d.arena) < n {
		d.chunk = min(2*d.chunk, maxArenaChunk)
		d.chunk = max(d.chunk, n)
		d.arena = make([]byte, 0, d.chunk)
	}
	return d.arena[len(d.arena):]
}

// slab hands out values from small arrays that double in size.
type slab[T any] struct {
	free []T
	size int
}

const maxSlab = 32

// next is the value that keep will hand out; it is zero.
func (s *slab[T]) next() *T {
	if len(s.free) == 0 {
		s.size = min(max(1, 2*s.size), maxSlab)
		s.free = make([]T, s.size)
	}
	return &s.free[0]
}

// keep hands out next's value when good, and clears it for another try when not.
func (s *slab[T]) keep(good bool) *T {
	p := &s.free[0]
	if !good {
		var zero T
		*p = zero
		return nil
	}
	s.free = s.free[1:]
	return p
}
