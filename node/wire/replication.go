package wire

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"lockstep/internal/ha"
)

// ReplicaMagic begins every replication frame. Java's streams begin with a state
// of 0 to 4 in four bytes, so both can be told apart on one port (rule P20).
const ReplicaMagic = "LSR\x01"

// The replication header is a 32-bit set of the fields that are present, then
// those fields in the order of the bits. A field at its zero value is absent;
// booleans are their bit alone; texts and lists have a length of two bytes. An
// epoch is its number in four bytes, with the sign bit for "unclean", and its
// start in eight.
const (
	hasCluster uint32 = 1 << iota
	hasGroup
	hasBroker
	hasStore
	hasBoot
	hasNonce
	hasTerm
	hasEpoch
	hasEpochStart
	hasOffset
	hasMin
	hasConfirm
	hasClass
	hasLearner
	hasPropCRC
	hasOutOfRange
	hasSegmentBytes
	hasEpochs
	hasReason
	hasMember
	replicaFieldEnd
)

// maxReplicaText bounds the texts of a replication header.
const maxReplicaText = 1 << 10

func appendReplication(dst []byte, f *Frame) ([]byte, error) {
	if f.Replica == nil {
		return dst, fmt.Errorf("no header")
	}
	if err := checkReplica(f.Replica, len(f.Body)); err != nil {
		return dst, err
	}
	start := len(dst)
	dst = append(dst, ReplicaMagic...)
	dst = append(dst, byte(f.Replica.Kind), 0, 0, 0, 0, 0, 0, 0, 0)
	dst = appendReplicaHeader(dst, f.Replica)
	header := len(dst) - start - replicaPrefix
	binary.BigEndian.PutUint32(dst[start+5:], uint32(header))
	binary.BigEndian.PutUint32(dst[start+9:], uint32(len(f.Body)))
	dst = append(dst, f.Body...)
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli)), nil
}

// checkReplica refuses what no honest peer sends, on both sides of the wire.
func checkReplica(r *Replica, body int) error {
	switch {
	case r.Kind < ReplicaHello || r.Kind > ReplicaAck:
		return fmt.Errorf("kind %d is unknown", r.Kind)
	case body > 0 && r.Kind != ReplicaAppend:
		return fmt.Errorf("kind %d with a body of %d bytes: only appends have one", r.Kind, body)
	case body > MaxReplicaBodyBytes:
		return fmt.Errorf("body of %d bytes: the limit is %d", body, MaxReplicaBodyBytes)
	case r.Term < 0 || r.Epoch < 0:
		return fmt.Errorf("term %d, epoch %d: neither can be negative", r.Term, r.Epoch)
	case r.EpochStart < 0 || r.Offset < 0 || r.Min < 0 || r.Confirm < 0 || r.SegmentBytes < 0:
		return fmt.Errorf("epoch start %d, offset %d, min %d, confirm %d, segment %d: none can be negative",
			r.EpochStart, r.Offset, r.Min, r.Confirm, r.SegmentBytes)
	case int64(r.Offset) > int64(ha.LogOffset(1<<63-1))-int64(body):
		return fmt.Errorf("offset %d and %d bytes pass the largest offset", r.Offset, body)
	case r.Class > ha.ClassDurable:
		return fmt.Errorf("acknowledgement class %d is unknown", r.Class)
	case len(r.Epochs) > MaxEpochs:
		return fmt.Errorf("%d epochs: the limit is %d", len(r.Epochs), MaxEpochs)
	case !r.Epochs.Valid():
		return fmt.Errorf("the epoch list is out of order")
	}
	for _, s := range []string{r.Cluster, r.Group, string(r.Self.Store), r.Reason} {
		if len(s) > maxReplicaText {
			return fmt.Errorf("text %q of %d bytes: the limit is %d", cutText(s), len(s), maxReplicaText)
		}
	}
	return nil
}

func appendReplicaHeader(dst []byte, r *Replica) []byte {
	w := replicaWriter{dst: append(dst, 0, 0, 0, 0)}
	w.text(hasCluster, r.Cluster)
	w.text(hasGroup, r.Group)
	w.long(hasBroker, int64(r.Self.Broker))
	w.text(hasStore, string(r.Self.Store))
	w.word(hasBoot, uint32(r.Self.Boot))
	w.long(hasNonce, int64(r.Nonce))
	w.word(hasTerm, uint32(r.Term))
	w.word(hasEpoch, uint32(r.Epoch))
	w.long(hasEpochStart, int64(r.EpochStart))
	w.long(hasOffset, int64(r.Offset))
	w.long(hasMin, int64(r.Min))
	w.long(hasConfirm, int64(r.Confirm))
	if w.has(hasClass, r.Class != 0) {
		w.dst = append(w.dst, byte(r.Class))
	}
	w.has(hasLearner, r.Learner)
	w.has(hasPropCRC, r.PropCRC)
	w.has(hasOutOfRange, r.OutOfRange)
	w.long(hasSegmentBytes, r.SegmentBytes)
	if w.has(hasEpochs, len(r.Epochs) > 0) {
		w.dst = binary.BigEndian.AppendUint16(w.dst, uint16(len(r.Epochs)))
		for _, e := range r.Epochs {
			w.dst = binary.BigEndian.AppendUint32(w.dst, epochWord(e))
			w.dst = binary.BigEndian.AppendUint64(w.dst, uint64(e.Start))
		}
	}
	w.text(hasReason, r.Reason)
	w.has(hasMember, r.Member)
	binary.BigEndian.PutUint32(w.dst[len(dst):], w.set)
	return w.dst
}

// uncleanBit marks an unclean epoch in its word; epochs are positive, so the sign
// bit is free.
const uncleanBit = 1 << 31

func epochWord(e ha.EpochStart) uint32 {
	if e.Unclean {
		return uint32(e.Epoch) | uncleanBit
	}
	return uint32(e.Epoch)
}

// replicaWriter writes the fields that are present.
type replicaWriter struct {
	dst []byte
	set uint32
}

func (w *replicaWriter) has(bit uint32, present bool) bool {
	if present {
		w.set |= bit
	}
	return present
}

func (w *replicaWriter) word(bit, n uint32) {
	if w.has(bit, n != 0) {
		w.dst = binary.BigEndian.AppendUint32(w.dst, n)
	}
}

func (w *replicaWriter) long(bit uint32, n int64) {
	if w.has(bit, n != 0) {
		w.dst = binary.BigEndian.AppendUint64(w.dst, uint64(n))
	}
}

func (w *replicaWriter) text(bit uint32, s string) {
	if w.has(bit, s != "") {
		w.dst = binary.BigEndian.AppendUint16(w.dst, uint16(len(s)))
		w.dst = append(w.dst, s...)
	}
}

func replicaSize(buf []byte) (int, error) {
	for i := range min(len(buf), len(ReplicaMagic)) {
		if buf[i] != ReplicaMagic[i] {
			return 0, fmt.Errorf("begins with % x, want %q: the peer is no Lockstep broker", buf[:min(len(buf), 4)], ReplicaMagic)
		}
	}
	if len(buf) < replicaPrefix {
		return 0, nil
	}
	header, body := binary.BigEndian.Uint32(buf[5:]), binary.BigEndian.Uint32(buf[9:])
	if header > MaxReplicaHeaderBytes {
		return 0, fmt.Errorf("header of %d bytes: the limit is %d", header, MaxReplicaHeaderBytes)
	}
	if body > MaxReplicaBodyBytes {
		return 0, fmt.Errorf("body of %d bytes: the limit is %d", body, MaxReplicaBodyBytes)
	}
	return replicaPrefix + int(header) + int(body) + 4, nil
}

func decodeReplication(f *Frame, buf []byte) error {
	end := len(buf) - 4
	if have, want := crc32.Checksum(buf[:end], castagnoli), binary.BigEndian.Uint32(buf[end:]); have != want {
		return fmt.Errorf("checksum %08x, want %08x: bytes were damaged on the way", have, want)
	}
	header := int(binary.BigEndian.Uint32(buf[5:]))
	r := replicaReader{in: buf[replicaPrefix : replicaPrefix+header]}
	h := &Replica{Kind: ReplicaKind(buf[4])}
	r.set = r.bits32()
	r.header(h)
	if r.bad || len(r.in) != 0 || r.set >= replicaFieldEnd {
		return fmt.Errorf("header of kind %d is malformed", buf[4])
	}
	f.Replica, f.Body = h, bodyOf(buf[replicaPrefix+header:end:end])
	return checkReplica(h, len(f.Body))
}

// replicaReader reads fields; bad sticks. A present field at its zero value is
// bad, so that every frame has one spelling.
type replicaReader struct {
	in  []byte
	set uint32
	bad bool
}

func (r *replicaReader) header(h *Replica) {
	h.Cluster = r.text(hasCluster)
	h.Group = r.text(hasGroup)
	h.Self.Broker = ha.BrokerID(r.long(hasBroker))
	h.Self.Store = ha.StoreID(r.text(hasStore))
	h.Self.Boot = ha.Boot(r.word(hasBoot))
	h.Nonce = uint64(r.long(hasNonce))
	h.Term = ha.MasterEpoch(r.word(hasTerm))
	h.Epoch = ha.MasterEpoch(r.word(hasEpoch))
	h.EpochStart = ha.LogOffset(r.long(hasEpochStart))
	h.Offset = ha.LogOffset(r.long(hasOffset))
	h.Min = ha.LogOffset(r.long(hasMin))
	h.Confirm = ha.LogOffset(r.long(hasConfirm))
	if r.set&hasClass != 0 {
		b := r.take(1)
		r.bad = r.bad || b[0] == 0
		h.Class = ha.AckClass(b[0])
	}
	h.Learner = r.set&hasLearner != 0
	h.PropCRC = r.set&hasPropCRC != 0
	h.OutOfRange = r.set&hasOutOfRange != 0
	h.SegmentBytes = r.long(hasSegmentBytes)
	if r.set&hasEpochs != 0 {
		h.Epochs = r.epochs()
	}
	h.Reason = r.text(hasReason)
	h.Member = r.set&hasMember != 0
}

var noBytes [12]byte

// take cuts n bytes off; zeros when they are not there.
func (r *replicaReader) take(n int) []byte {
	if r.bad || len(r.in) < n {
		r.bad = true
		return noBytes[:min(n, len(noBytes))]
	}
	b := r.in[:n]
	r.in = r.in[n:]
	return b
}

func (r *replicaReader) bits32() uint32 { return binary.BigEndian.Uint32(r.take(4)) }

func (r *replicaReader) word(bit uint32) uint32 {
	if r.set&bit == 0 {
		return 0
	}
	n := r.bits32()
	r.bad = r.bad || n == 0
	return n
}

func (r *replicaReader) long(bit uint32) int64 {
	if r.set&bit == 0 {
		return 0
	}
	n := int64(binary.BigEndian.Uint64(r.take(8)))
	r.bad = r.bad || n == 0
	return n
}

func (r *replicaReader) text(bit uint32) string {
	if r.set&bit == 0 {
		return ""
	}
	n := int(binary.BigEndian.Uint16(r.take(2)))
	if n == 0 || n > len(r.in) {
		r.bad = true
		return ""
	}
	return string(r.take(n))
}

func (r *replicaReader) epochs() ha.Epochs {
	n := int(binary.BigEndian.Uint16(r.take(2)))
	if n == 0 || n*12 > len(r.in) {
		r.bad = true
		return nil
	}
	list := make(ha.Epochs, n)
	for i := range list {
		b := r.take(12)
		word := binary.BigEndian.Uint32(b)
		list[i] = ha.EpochStart{
			Epoch:   ha.MasterEpoch(word &^ uncleanBit),
			Start:   ha.LogOffset(binary.BigEndian.Uint64(b[4:])),
			Unclean: word&uncleanBit != 0,
		}
	}
	return list
}
