package varint

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"
)

// encoded holds one value of each kind.
func encoded() []byte {
	b := []byte{7}
	b = binary.AppendUvarint(b, math.MaxUint64)
	b = binary.AppendVarint(b, math.MinInt64)
	b = binary.AppendUvarint(b, 3)
	return append(b, "abc"...)
}

// TestReader: values come back; whatever is cut off, or above its bound, is an error
// that stays.
func TestReader(t *testing.T) {
	r := Reader{Rest: encoded()}
	one, u, i, s := r.Byte(), r.Uint(math.MaxUint64), r.Int(), r.Bytes(3)
	if one != 7 || u != math.MaxUint64 || i != math.MinInt64 || string(s) != "abc" || cap(s) != 3 || r.Err != nil || len(r.Rest) != 0 {
		t.Fatalf("%d %d %d %q, %+v", one, u, i, s, r)
	}
	for n := range encoded() {
		r := Reader{Rest: encoded()[:n]}
		r.Byte()
		r.Uint(math.MaxUint64)
		r.Int()
		if got := r.Bytes(3); !errors.Is(r.Err, ErrShort) || got != nil || r.Rest != nil {
			t.Errorf("%d bytes: %q, %+v", n, got, r)
		}
		if r.Byte() != 0 || r.Uint(9) != 0 || r.Int() != 0 || r.Bytes(0) != nil {
			t.Errorf("%d bytes: values after an error", n)
		}
	}
	for name, f := range map[string]func(r *Reader) bool{
		"number above its bound":     func(r *Reader) bool { return r.Uint(4) == 0 },
		"length above its bound":     func(r *Reader) bool { return r.Bytes(4) == nil },
		"length above what is there": func(r *Reader) bool { return r.Bytes(5) == nil },
	} {
		r := Reader{Rest: []byte{5, 1, 2, 3, 4}}
		if !f(&r) || !errors.Is(r.Err, ErrShort) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	r = Reader{Rest: []byte{1}, Err: errors.New("mine")}
	if r.Fail(); r.Err.Error() != "mine" {
		t.Errorf("the first error is lost: %v", r.Err)
	}
}
