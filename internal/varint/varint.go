// Package varint reads what is encoded as variable-length numbers and bytes behind
// their length, with bounds and one sticky error, so that a decoder states its
// fields in order and checks once. encoding/binary writes them.
package varint

import (
	"encoding/binary"
	"errors"
)

// ErrShort marks bytes that end early or break a bound.
var ErrShort = errors.New("cut short or out of bounds")

// Reader takes values off the front of Rest. After the first error every value is
// zero and Rest is empty.
type Reader struct {
	Rest []byte // not read yet
	Err  error  // the first error, nil while all is well
}

// Fail makes the reader fail with ErrShort, unless it has failed before: for bounds
// that only the decoder knows.
func (r *Reader) Fail() {
	if r.Err == nil {
		r.Err = ErrShort
	}
	r.Rest = nil
}

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if len(r.Rest) == 0 {
		r.Fail()
		return 0
	}
	b := r.Rest[0]
	r.Rest = r.Rest[1:]
	return b
}

// Uint reads an unsigned number of at most limit.
func (r *Reader) Uint(limit uint64) uint64 {
	v, n := binary.Uvarint(r.Rest)
	if n <= 0 || v > limit {
		r.Fail()
		return 0
	}
	r.Rest = r.Rest[n:]
	return v
}

// Int reads a signed number in zigzag form.
func (r *Reader) Int() int64 {
	v, n := binary.Varint(r.Rest)
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.Rest = r.Rest[n:]
	return v
}

// Bytes reads a length of at most limit and that many bytes, which are a part of
// what is read.
func (r *Reader) Bytes(limit uint64) []byte {
	n := r.Uint(limit)
	if n > uint64(len(r.Rest)) {
		r.Fail()
		return nil
	}
	b := r.Rest[:n:n]
	r.Rest = r.Rest[n:]
	return b
}
