package storage

import (
	"bytes"
	"encoding/binary"
)

// tornSector is the smallest piece that a crash can lose of an unsynced write.
const tornSector = 512

// tail is where a log ends and what lies behind.
type tail struct {
	end    int64        // after the last good record
	start  int64        // where that record or blank starts; -1 when there is none
	last   int64        // after the last byte that is not zero; end when there is none
	later  int64        // first valid record behind a bad one, -1 when there is none
	lost   bool         // with nothing behind: what is bad is what a torn write leaves
	reason string       // why the scan stopped, "" at a clean end
	damage *DamageError // set when nothing behind end may be touched
}

// findTail scans records from a record boundary and judges what stops it, by
// rule P5b:
//
//   - nothing but zeros behind: the log simply ends there;
//   - behind the floor, bytes of lost pieces and no valid record after them: the
//     last write was torn; they are cut;
//   - behind the floor, anything else: valid records after the bad one, or bytes
//     that lost pieces do not explain. Several unsynced writes in flight leave
//     that, and so does rot of acknowledged bytes; nobody can tell. The store no
//     longer claims to hold what it acknowledged, so it is not electable until it
//     has joined again, and what is cut is kept aside;
//   - below the floor: corruption. Nothing is cut, nothing is written.
func findTail(r *logReader, x extent) (tail, error) {
	for {
		t, err := scanTail(r, x)
		if err != nil || t.start >= 0 || x.from <= r.log.min {
			return t, err
		}
		// Not even the record it was to begin with is there: the log lost more than
		// its tail, and where it ends is further down.
		x.from = max(int64(segmentBefore(logOff(x.from), r.log.size)), r.log.min)
	}
}

func scanTail(r *logReader, x extent) (tail, error) {
	s := logScanner{reader: r, off: x.from, stop: x.stop, chunk: chunkBytes(r.log.size)}
	t := tail{start: -1, later: -1}
	for {
		f, at, done, err := s.next()
		t.end, t.last, t.reason = at, at, f.Reason
		switch {
		case err != nil:
			// The device cannot read it: latent errors are damage like any other.
			t.reason, t.damage = err.Error(), r.log.damageAt(at, err.Error())
			return t, nil
		case done, at == x.sealed && f.Kind == FoundUnwritten:
			return t, nil
		case f.Kind == FoundRecord || f.Kind == FoundBlank:
			t.start = at
		default:
			return t, t.judge(r, x)
		}
	}
}

// extent says what to scan and what is known about it.
type extent struct {
	from    int64 // a record boundary
	stop    int64 // where the files end
	floor   int64 // everything below was durable
	sealed  int64 // where a clean stop says the log ends; -1 when it does not say
	foreign bool  // other brokers leave old bytes behind their end
}

func (t *tail) judge(r *logReader, x extent) error {
	if err := t.lookBehind(r, x.stop); err != nil {
		t.reason, t.damage = err.Error(), r.log.damageAt(t.end, err.Error())
		return nil
	}
	if t.last == t.end {
		t.reason = ""
		return nil
	}
	if t.reason == "" {
		t.reason = "zeros in front of written bytes"
	}
	var err error
	if t.later < 0 { // with records behind it the question does not arise
		if t.lost, err = t.lostPieces(r, x.stop); err != nil {
			return err
		}
	}
	switch {
	case x.foreign:
	case t.end < x.floor:
		t.damage = r.log.damageAt(t.end, t.reason+", below the durable floor")
	case t.doubtful() && t.last-t.end > maxSalvage:
		t.damage = r.log.damageAt(t.end, t.reason+", in front of more written bytes than can be kept aside")
	}
	return nil
}

// doubtful reports that what lies behind the end may have been acknowledged.
func (t *tail) doubtful() bool { return t.last > t.end && (t.later >= 0 || !t.lost) }

// headOverlap is how many bytes of a record tell that it is one: reads overlap by
// that much, and begin that much before written bytes, because a record may begin
// with zeros.
const headOverlap = posPhysical + 8

// lookBehind searches [end, stop) for the last byte written and the first valid
// record. Where the file system knows that nothing was ever written it reads
// nothing; it is asked before the first read, which fills its cache with zeros.
func (t *tail) lookBehind(r *logReader, stop int64) error {
	buf := make([]byte, chunkBytes(r.log.size))
	for off := t.end; off < stop; {
		segEnd := min(off-off%r.log.size+r.log.size, stop)
		list, err := r.written(off, segEnd)
		if err != nil {
			return err
		}
		for _, w := range list {
			if err := t.lookAt(r, buf, max(off, w.Off-headOverlap), min(segEnd, w.End+headOverlap)); err != nil {
				return err
			}
		}
		off = segEnd
	}
	return nil
}

// lookAt searches [off, end), which lies in one segment.
func (t *tail) lookAt(r *logReader, buf []byte, off, end int64) error {
	for off < end {
		b := buf[:min(int64(len(buf)), end-off)]
		if err := r.fill(b, off); err != nil {
			return err
		}
		if !allZero(b) {
			for n := len(b); n > 0; n-- {
				if b[n-1] != 0 {
					t.last = off + int64(n)
					break
				}
			}
			if t.later < 0 {
				if err := t.searchRecord(r, b, off); err != nil {
					return err
				}
			}
		}
		if off += int64(len(b)); off < end {
			off -= headOverlap // a header may lie across two chunks
		}
	}
	return nil
}

// searchRecord looks for a record in b that says it lies where it does, or for
// the blank that ends the segment.
func (t *tail) searchRecord(r *logReader, b []byte, off int64) error {
	blank := binary.BigEndian.AppendUint32(nil, MagicBlank)
	if i := bytes.Index(b, blank); i >= posMagic {
		at := off + int64(i) - posMagic
		size := int64(binary.BigEndian.Uint32(b[i-posMagic:]))
		if at > t.end && size == r.log.size-at%r.log.size {
			t.later = at
		}
	}
	magic := []byte{byte(MagicV1 >> 24), byte(MagicV1 >> 16 & 0xFF), byte(MagicV1 >> 8 & 0xFF)}
	for i := 0; ; i++ {
		k := bytes.Index(b[i:], magic)
		if k < 0 {
			return nil
		}
		i += k
		at := i - posMagic
		if at < 0 || off+int64(at) <= t.end || at+posPhysical+8 > len(b) ||
			int64(binary.BigEndian.Uint64(b[at+posPhysical:])) != off+int64(at) {
			continue
		}
		s := logScanner{reader: r, off: off + int64(at), stop: off + int64(at) + int64(r.limit), chunk: windowBytes}
		f, _, _, err := s.next()
		if err != nil {
			return err
		}
		if f.Kind == FoundRecord && f.Size > 0 {
			t.later = off + int64(at)
			return nil
		}
	}
}

// lostPieces reports whether the bytes at end can be what is left of writes of
// which some pieces never reached the device. Segments are zeros before they
// are written, so a lost piece shows as a sector, or the part of it behind
// older bytes, that is all zeros; and a write that stopped half-way as a record
// without its last bytes. Rot leaves neither, unless the zeros were the body's.
func (t *tail) lostPieces(r *logReader, stop int64) (bool, error) {
	segEnd := min(t.end-t.end%r.log.size+r.log.size, stop)
	gap := min(segEnd, t.end+int64(r.limit), t.last)
	b := make([]byte, gap-t.end)
	if err := r.fill(b, t.end); err != nil {
		return false, err
	}
	need, whole := int64(MinRecord), false
	if len(b) >= BlankHeader {
		size := int64(binary.BigEndian.Uint32(b))
		if plausible(size, binary.BigEndian.Uint32(b[posMagic:]), logOff(t.end), r.check(t.end)) == "" {
			need, whole = size, true
		}
	}
	if t.last < t.end+need && !endsLikeRecord(b) {
		return true, nil // stopped half-way
	}
	if whole {
		b = b[:min(int64(len(b)), need)]
	}
	return zeroPiece(b, t.end%r.log.size), nil
}

// endsLikeRecord reports whether b ends with a property CRC: then the record was
// written to its end, whatever its size field says.
func endsLikeRecord(b []byte) bool {
	n := len(b) - crcTailBytes
	return n >= 0 && bytes.HasPrefix(b[n:], []byte(PropCRC)) && b[len(b)-1] == PropertySeparator
}

// zeroPiece reports whether a sector of the bytes at file offset off is all
// zeros, or ends with so many of them that only its first half was written. A
// part of a sector counts from where every record has a magic byte.
func zeroPiece(b []byte, off int64) bool {
	const part, half = posMagic + 1, 64
	for len(b) > 0 {
		n := min(int64(len(b)), tornSector-off%tornSector)
		if n >= part && allZero(b[max(0, n-half):n]) {
			return true
		}
		b, off = b[n:], off+n
	}
	return false
}
