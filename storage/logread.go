package storage

import (
	"errors"
	"fmt"

	"lockstep/internal/ha"
	"lockstep/storage/vfs"
)

// storedLimit is the largest record or blank in bytes that readers believe in. It
// does not follow the configured message limit down, because a log keeps the
// records of older configurations; it bounds what a damaged size field can make
// a reader allocate.
func storedLimit(segment int64, maxRecord int) int {
	return int(min(segment, max(int64(maxRecord), 64<<20)))
}

// logReader reads verified records of a commit log.
type logReader struct {
	log     *commitLog
	limit   int          // see storedLimit
	crcFrom ha.LogOffset // records from here on must carry a property CRC; negative: none must
	strict  bool         // crcFrom counts
}

// check is what a record at off has to pass.
func (r *logReader) check(off int64) Check {
	c := Check{MaxRecord: r.limit, Segment: r.log.size}
	if r.strict && r.crcFrom >= 0 && logOff(off) >= r.crcFrom {
		c.PropCRC = PropCRCRequired
	}
	return c
}

// fill reads len(b) bytes at off, which lie in one segment.
func (r *logReader) fill(b []byte, off int64) error {
	seg, err := r.log.acquire(off)
	if err != nil {
		return err
	}
	if seg == nil {
		return r.log.absent(off)
	}
	err = readFullAt(seg.file, b, off-seg.base)
	if err != nil {
		err = fmt.Errorf("read %s at byte %d: %w", r.log.segmentFile(seg.base), off-seg.base, err)
	}
	return errors.Join(err, r.log.release(seg))
}

// written lists the ranges of [off, end), which lies in one segment, that may hold
// anything but zeros.
func (r *logReader) written(off, end int64) ([]vfs.Range, error) {
	seg, err := r.log.acquire(off)
	if err != nil {
		return nil, err
	}
	whole := []vfs.Range{{Off: off, End: end}}
	if seg == nil {
		return whole, nil // the read says so
	}
	sparse, ok := seg.file.(vfs.Sparse)
	if !ok {
		return whole, r.log.release(seg)
	}
	list, err := sparse.Written(off-seg.base, end-seg.base)
	if err != nil {
		err = fmt.Errorf("look for data in %s from byte %d: %w", r.log.segmentFile(seg.base), off-seg.base, err)
	}
	for i := range list {
		list[i].Off, list[i].End = list[i].Off+seg.base, list[i].End+seg.base
	}
	return list, errors.Join(err, r.log.release(seg))
}

// span returns verified log bytes from off: whole records, at most limit bytes
// of them unless the first one alone is longer, inside one segment. A blank is
// returned with zeros behind its header, whatever a foreign broker left there.
// At the end of the log it returns nothing.
func (r *logReader) span(off int64, limit int) ([]byte, error) {
	lo, end, cuts := r.log.bounds()
	if off < lo || off > end {
		return nil, fmt.Errorf("%w: log offset %d, the log holds [%d, %d)", ErrRange, off, lo, end)
	}
	rest := min(end, off-off%r.log.size+r.log.size) - off
	if rest == 0 {
		return nil, nil
	}
	n := min(rest, max(int64(limit), BlankHeader))
	for {
		buf := make([]byte, n)
		if err := r.fill(buf, off); err != nil {
			return nil, r.overtaken(cuts, err)
		}
		whole, need, err := r.verify(buf, off)
		if err != nil {
			return nil, r.overtaken(cuts, err)
		}
		if whole > 0 {
			return buf[:whole:whole], r.overtaken(cuts, nil)
		}
		if int64(need) > rest {
			return nil, r.overtaken(cuts, r.log.damageAt(off, "record runs over the end of the log"))
		}
		n = int64(need) // the first record is longer than the limit
	}
}

// verify checks the records in buf and returns the length of the whole ones, or
// the bytes the first one needs.
func (r *logReader) verify(buf []byte, off int64) (whole, need int, err error) {
	for whole < len(buf) {
		f := Next(buf[whole:], logOff(off)+ha.LogOffset(whole), r.check(off+int64(whole)))
		switch f.Kind {
		case FoundRecord:
			whole += f.Size
		case FoundBlank:
			if whole+f.Size > len(buf) {
				return whole, f.Size, nil
			}
			Blank(buf[whole : whole+f.Size])
			whole += f.Size
		case FoundMore:
			return whole, f.Size, nil
		case FoundUnwritten:
			return 0, 0, r.log.damageAt(off+int64(whole), "zeros where a record was written")
		default:
			return 0, 0, r.log.damageAt(off+int64(whole), f.Reason)
		}
	}
	return whole, 0, nil
}

// overtaken replaces the outcome of a read by ErrStale when the log was cut
// meanwhile: its bytes, or the damage it saw, may be those of either history.
func (r *logReader) overtaken(cuts uint64, err error) error {
	if _, _, now := r.log.bounds(); now != cuts {
		return ErrStale
	}
	return err
}

// record returns the verified record of size bytes at off. window, when it holds
// the record already, saves the read; it is refilled otherwise.
func (r *logReader) record(off int64, size int, w *logWindow) (Record, error) {
	lo, end, cuts := r.log.bounds()
	if off < lo || size < MinRecord || size > r.limit || off+int64(size) > end {
		return Record{}, fmt.Errorf("%w: record of %d bytes at %d, the log holds [%d, %d)", ErrRange, size, off, lo, end)
	}
	b, err := w.get(r, off, size, end)
	if err != nil {
		return Record{}, r.overtaken(cuts, err)
	}
	f := Next(b, logOff(off), r.check(off))
	if f.Kind == FoundRecord && f.Size == size {
		return f.Record, r.overtaken(cuts, nil)
	}
	reason := f.Reason
	if reason == "" {
		reason = "not the record its queue entry describes"
	}
	return Record{}, r.overtaken(cuts, r.log.damageAt(off, reason))
}

// windowBytes is how much a window reads ahead.
const windowBytes = 64 << 10

// logWindow is read-ahead for records fetched in ascending order.
type logWindow struct {
	buf   []byte
	off   int64
	exact bool // read no more than asked for
}

func (w *logWindow) get(r *logReader, off int64, size int, end int64) ([]byte, error) {
	if off >= w.off && off+int64(size) <= w.off+int64(len(w.buf)) {
		i := off - w.off
		return w.buf[i : i+int64(size)], nil
	}
	segEnd := off - off%r.log.size + r.log.size
	n := min(int64(size), min(end, segEnd)-off)
	if !w.exact {
		n = min(max(n, windowBytes), min(end, segEnd)-off)
	}
	if n < int64(size) {
		return nil, r.log.damageAt(off, "record crosses the segment's end")
	}
	if int64(cap(w.buf)) < n {
		w.buf = make([]byte, n)
	}
	w.buf, w.off = w.buf[:n], off
	if err := r.fill(w.buf, off); err != nil {
		w.buf = w.buf[:0]
		return nil, err
	}
	return w.buf[:size], nil
}

// logScanner walks the records of a log in order, reading ahead in chunks.
type logScanner struct {
	reader *logReader
	off    int64 // of the next record
	stop   int64 // exclusive: bytes at or above it do not exist
	buf    []byte
	at     int64 // log offset of buf[0]
	chunk  int
}

// next judges what lies at the scanner's position and moves behind a record or a
// blank. The record's bytes are valid until the next call. done is true at stop.
// Positions that no file covers are unwritten.
func (s *logScanner) next() (f Found, at int64, done bool, err error) {
	at = s.off
	if at >= s.stop {
		return Found{}, at, true, nil
	}
	want := BlankHeader
	for {
		b, err := s.window(want)
		if err != nil {
			return Found{}, at, false, err
		}
		f = Next(b, logOff(at), s.reader.check(at))
		if f.Kind != FoundMore {
			break
		}
		if len(b) < want || f.Size <= len(b) {
			return corrupt("record runs over the end of its segment"), at, false, nil
		}
		want = f.Size
	}
	if f.Kind == FoundRecord || f.Kind == FoundBlank {
		s.off = at + int64(f.Size)
	}
	return f, at, false, nil
}

// chunkBytes is how much a scan of the log reads at once.
func chunkBytes(segment int64) int { return int(min(recoveryChunkBytes, segment)) }

// window returns at least want bytes from the scanner's position on, fewer only
// at the end of the segment or of the log.
func (s *logScanner) window(want int) ([]byte, error) {
	size := s.reader.log.size
	segEnd := min(s.off-s.off%size+size, s.stop)
	have := s.at + int64(len(s.buf)) - s.off
	if s.off < s.at || have < 0 || (have < int64(want) && s.at+int64(len(s.buf)) < segEnd) {
		n := min(max(int64(want), int64(s.chunk)), segEnd-s.off)
		if int64(cap(s.buf)) < n {
			s.buf = make([]byte, n)
		}
		s.buf, s.at = s.buf[:n], s.off
		if err := s.reader.fill(s.buf, s.off); err != nil {
			s.buf = s.buf[:0]
			return nil, err
		}
	}
	i := s.off - s.at
	b := s.buf[i:]
	if limit := segEnd - s.off; int64(len(b)) > limit {
		b = b[:limit]
	}
	return b, nil
}
