package controller

import (
	"encoding/binary"
	"errors"
	"fmt"

	"lockstep/internal/ha"
)

// Bounds of what commands and snapshots may hold. They are checked where requests
// enter and again by every decoder.
const (
	// maxText bounds names, addresses and check codes, in bytes.
	maxText = 512
	// maxMembers bounds the members of one group.
	maxMembers = 256
	// maxGroups bounds the broker groups, and apart from them the tombstones.
	maxGroups = 4096
	// maxBrokers bounds the members of all groups together, so that the largest state
	// still fits a snapshot (raftstore.MaxSnapshotBytes).
	maxBrokers = 4096
	// maxControllers bounds the controllers of a cluster.
	maxControllers = 64
)

// errShort marks text that ends too early or breaks a bound.
var errShort = errors.New("cut short or out of bounds")

// writer appends values in the layout of commands and snapshots: unsigned and
// zigzag varints; text and lists behind their length.
type writer struct{ b []byte }

func (w *writer) uint(v uint64)  { w.b = binary.AppendUvarint(w.b, v) }
func (w *writer) int(v int64)    { w.b = binary.AppendVarint(w.b, v) }
func (w *writer) byte(v byte)    { w.b = append(w.b, v) }
func (w *writer) text(s string)  { w.uint(uint64(len(s))); w.b = append(w.b, s...) }
func (w *writer) key(k Key)      { w.text(k.Cluster); w.text(k.Group) }
func (w *writer) fixed(v uint64) { w.b = binary.BigEndian.AppendUint64(w.b, v) }
func (w *writer) member(m ha.Incarnation) {
	w.int(int64(m.Broker))
	w.text(string(m.Store))
	w.uint(uint64(m.Boot))
}

func (w *writer) bool(v bool) {
	if v {
		w.byte(1)
	} else {
		w.byte(0)
	}
}

func (w *writer) ids(s ha.IDs) {
	w.uint(uint64(len(s)))
	for _, id := range s {
		w.int(int64(id))
	}
}

// reader is the inverse of writer. After the first error every value is zero.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail() {
	if r.err == nil {
		r.err = errShort
	}
	r.b = nil
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail()
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) bool() bool {
	v := r.byte()
	if v > 1 {
		r.fail()
	}
	return v == 1
}

func (r *reader) fixed() uint64 {
	if len(r.b) < 8 {
		r.fail()
		return 0
	}
	v := binary.BigEndian.Uint64(r.b)
	r.b = r.b[8:]
	return v
}

func (r *reader) text() string {
	n := r.uint()
	if n > maxText || n > uint64(len(r.b)) {
		r.fail()
		return ""
	}
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

// count reads a length of at most limit.
func (r *reader) count(limit int) int {
	n := r.uint()
	if n > uint64(limit) || n > uint64(len(r.b)) {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *reader) int32() int32 {
	v := r.int()
	if int64(int32(v)) != v {
		r.fail()
		return 0
	}
	return int32(v)
}

func (r *reader) key() Key { return Key{r.text(), r.text()} }

func (r *reader) member() ha.Incarnation {
	return ha.Incarnation{Broker: ha.BrokerID(r.int()), Store: ha.StoreID(r.text()), Boot: ha.Boot(r.uint32())}
}

func (r *reader) ids() ha.IDs {
	n := r.count(maxMembers)
	if n == 0 {
		return nil
	}
	s := make(ha.IDs, n)
	for i := range s {
		s[i] = ha.BrokerID(r.int())
		if i > 0 && s[i] <= s[i-1] {
			r.fail()
		}
	}
	if r.err != nil {
		return nil
	}
	return s
}

func (r *reader) uint32() uint32 {
	v := r.uint()
	if v > 1<<32-1 {
		r.fail()
	}
	return uint32(v)
}

// enum reads a byte of at most limit.
func (r *reader) enum(limit byte) byte {
	v := r.byte()
	if v > limit {
		r.fail()
		return 0
	}
	return v
}

// end returns the first error, or one when bytes are left over.
func (r *reader) end(what string) error {
	if r.err == nil && len(r.b) > 0 {
		r.err = fmt.Errorf("%d bytes too many", len(r.b))
	}
	if r.err != nil {
		return fmt.Errorf("%s: %w", what, r.err)
	}
	return nil
}
