package controller

import (
	"encoding/binary"
	"fmt"
	"math"

	"lockstep/internal/ha"
	"lockstep/internal/varint"
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
type reader struct{ varint.Reader }

func newReader(b []byte) reader { return reader{varint.Reader{Rest: b}} }

func (r *reader) uint() uint64 { return r.Uint(math.MaxUint64) }
func (r *reader) text() string { return string(r.Bytes(maxText)) }

func (r *reader) bool() bool {
	v := r.Byte()
	if v > 1 {
		r.Fail()
	}
	return v == 1
}

func (r *reader) fixed() uint64 {
	if len(r.Rest) < 8 {
		r.Fail()
		return 0
	}
	v := binary.BigEndian.Uint64(r.Rest)
	r.Rest = r.Rest[8:]
	return v
}

// count reads a length of at most limit.
func (r *reader) count(limit int) int {
	n := r.uint()
	if n > uint64(limit) || n > uint64(len(r.Rest)) {
		r.Fail()
		return 0
	}
	return int(n)
}

func (r *reader) int32() int32 {
	v := r.Int()
	if int64(int32(v)) != v {
		r.Fail()
		return 0
	}
	return int32(v)
}

func (r *reader) key() Key { return Key{r.text(), r.text()} }

func (r *reader) member() ha.Incarnation {
	return ha.Incarnation{Broker: ha.BrokerID(r.Int()), Store: ha.StoreID(r.text()), Boot: ha.Boot(r.uint32())}
}

func (r *reader) ids() ha.IDs {
	n := r.count(maxMembers)
	if n == 0 {
		return nil
	}
	s := make(ha.IDs, n)
	for i := range s {
		s[i] = ha.BrokerID(r.Int())
		if i > 0 && s[i] <= s[i-1] {
			r.Fail()
		}
	}
	if r.Err != nil {
		return nil
	}
	return s
}

func (r *reader) uint32() uint32 {
	v := r.uint()
	if v > 1<<32-1 {
		r.Fail()
	}
	return uint32(v)
}

// enum reads a byte of at most limit.
func (r *reader) enum(limit byte) byte {
	v := r.Byte()
	if v > limit {
		r.Fail()
		return 0
	}
	return v
}

// end returns the first error, or one when bytes are left over.
func (r *reader) end(what string) error {
	if r.Err == nil && len(r.Rest) > 0 {
		r.Err = fmt.Errorf("%d bytes too many", len(r.Rest))
	}
	if r.Err != nil {
		return fmt.Errorf("%s: %w", what, r.Err)
	}
	return nil
}
