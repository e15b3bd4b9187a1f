package stream

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"lockstep/node/wire"
)

// Sizes of a stream's read buffer, bytes. It grows with what arrives and shrinks
// again; a larger frame gets a buffer of its own.
const (
	minReadBytes = 4 << 10
	maxReadBytes = 128 << 10
	// fewReads and manyReads: a buffer filled by so few reads was too small, by so
	// many too large.
	fewReads  = 2
	manyReads = 64
	// maxFrameSlab is how many frames are allocated at once under load.
	maxFrameSlab = 16
	// minFrameRate is what a large frame has to arrive at, bytes a second.
	minFrameRate = 64 << 10
)

// credit bounds the frames of one stream that were delivered and not taken, in
// number and bytes: the reader stops at the limit, and the peer feels it through
// TCP.
type credit struct {
	maxFrames, maxBytes int64
	frames, bytes       atomic.Int64
	starved             atomic.Bool
	resume              chan struct{} // holds one token
}

func (c *credit) init(frames int, bytes int64) {
	c.maxFrames, c.maxBytes, c.resume = int64(frames), bytes, make(chan struct{}, 1)
}

// full reports whether a frame of size must wait; one frame always may enter.
func (c *credit) full(size int64) bool {
	k := c.frames.Load()
	return k >= c.maxFrames || k > 0 && c.bytes.Load()+size > c.maxBytes
}

// take waits for room; false when the stream ended first.
func (c *credit) take(size int64, done <-chan struct{}) bool {
	for c.full(size) {
		c.starved.Store(true)
		if c.full(size) { // not given back in between
			select {
			case <-c.resume:
			case <-done:
				return false
			}
		}
		c.starved.Store(false)
	}
	c.frames.Add(1)
	c.bytes.Add(size)
	return true
}

// give returns what one frame took.
func (c *credit) give(size int64) {
	c.frames.Add(-1)
	c.bytes.Add(-size)
	if c.starved.Load() {
		select {
		case c.resume <- struct{}{}:
		default: // a token is already there
		}
	}
}

// reader is the state of a stream's reading goroutine.
type reader struct {
	*Stream
	dec   wire.Decoder
	batch []Received
	slab  []wire.Frame
	grown int // size of the last slab

	armed  time.Time // when the next check is; zero: never
	seen   uint32    // activity at the last check
	silent time.Time // the first of the checks in a row without any; zero: none

	// The frame under way: its bytes so far, 0 when there is none, when the first of
	// them came, and the checks that have found it unfinished.
	rest   int
	begun  time.Time
	checks int
}

// errNoFrame marks bytes that do not decode.
var errNoFrame = errors.New("not a frame")

// read decodes frames until the stream ends.
func (s *Stream) read() {
	r := reader{Stream: s, dec: wire.Decoder{Link: s.o.Link}}
	err := errBroken // unless frames returns
	defer func() {
		s.Close(err)
		s.sink.Ended(s.reason, errors.Is(err, errNoFrame))
	}()
	err = r.frames()
}

// errBroken is the end of a stream whose reader panicked.
var errBroken = errors.New("broken")

// frames keeps no byte twice: decoded frames are slices of the buffer they were
// read into. When it is full the unfinished rest moves to a fresh one.
func (r *reader) frames() error {
	r.arm(time.Now())
	size, reads := minReadBytes, 0
	buf := make([]byte, 0, size)
	start := 0 // of the unfinished rest
	for {
		k, err := r.fill(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+k]
		reads++
		if err != nil {
			return endOf(err, len(buf)-start)
		}
		used, err := r.deliver(buf[start:])
		if err != nil {
			return err
		}
		start += used
		r.unfinished(len(buf)-start, used > 0)
		if cap(buf)-len(buf) >= cap(buf)/8 {
			continue
		}
		switch {
		case reads <= fewReads:
			size = min(2*size, maxReadBytes)
		case reads >= manyReads:
			size = max(size/2, minReadBytes)
		}
		reads = 0
		buf = append(make([]byte, 0, r.roomFor(buf[start:], size)), buf[start:]...)
		start = 0
	}
}

// roomFor is the size of the next buffer. A large frame gets room as its bytes
// come, so that a length alone costs nothing.
func (r *reader) roomFor(rest []byte, size int) int {
	need, err := r.dec.Size(rest)
	if err != nil { // Decode has said so before
		need = 0
	}
	return max(size, min(need, 2*len(rest)), len(rest)+minReadBytes/2)
}

func endOf(err error, rest int) error {
	if errors.Is(err, io.EOF) && rest > 0 {
		return fmt.Errorf("closed by peer inside a frame, of which %d bytes had come", rest)
	}
	return err
}

// fill reads once, and looks at the stream whenever a check is due.
func (r *reader) fill(b []byte) (int, error) {
	for {
		k, err := r.conn.Read(b)
		if k > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			r.active.Add(1)
			r.o.Counters.BytesIn.Add(int64(k))
			return k, err
		}
		now := time.Now()
		if err := r.check(now); err != nil {
			return 0, err
		}
		r.arm(now)
	}
}

// check ends a stream that is idle or whose frame does not get on. Neither is
// decided by one check alone: the first one after this process stood still sees an
// old clock and bytes that nobody read.
func (r *reader) check(now time.Time) error {
	if active := r.active.Load(); active != r.seen {
		r.seen, r.silent = active, now
	} else if r.silent.IsZero() {
		r.silent = now
	} else if r.o.Idle > 0 && now.Sub(r.silent) >= r.o.Idle {
		return fmt.Errorf("idle for %v", r.o.Idle)
	}
	if r.rest == 0 || r.o.Frame <= 0 {
		return nil
	}
	r.checks++
	allowed := r.o.Frame + time.Duration(r.rest)*time.Second/minFrameRate
	if took := now.Sub(r.begun); r.checks >= 2 && took >= allowed {
		return fmt.Errorf("a frame has not ended %v after its first byte, %d bytes of it have come", took.Round(time.Millisecond), r.rest)
	}
	return nil
}

// unfinished notes how many bytes of a frame wait for more; fresh when the frame
// before it was delivered. What the stream waited for credit is not on its account.
func (r *reader) unfinished(rest int, fresh bool) {
	begins := rest > 0 && (fresh || r.rest == 0)
	r.rest = rest
	if !begins || r.o.Frame <= 0 {
		return
	}
	r.begun, r.checks = time.Now(), 0
	if r.armed.IsZero() || r.armed.Sub(r.begun) > r.o.Frame/2 {
		r.arm(r.begun)
	}
}

// arm sets when the next check is: after half an idle time, and after half a
// frame's time while one is under way.
func (r *reader) arm(now time.Time) {
	wait := r.o.Idle / 2
	if r.rest > 0 && r.o.Frame > 0 && (wait == 0 || wait > r.o.Frame/2) {
		wait = r.o.Frame / 2
	}
	if r.armed = (time.Time{}); wait > 0 {
		r.armed = now.Add(wait)
	}
	// It fails on a closed connection, as Read then does, and on streams over gRPC,
	// whose keep-alive finds dead peers: there nothing is checked.
	r.conn.SetReadDeadline(r.armed)
}

// deliver hands over every whole frame at the start of b and returns how many
// bytes they took.
func (r *reader) deliver(b []byte) (used int, err error) {
	defer r.flush()
	for used < len(b) {
		f, k, err := r.dec.Decode(b[used:])
		if err != nil {
			return used, fmt.Errorf("%w: %w", errNoFrame, err)
		}
		if k == 0 {
			break
		}
		used += k
		if r.credit.full(int64(k)) {
			r.flush() // what we hold ourselves must not be what we wait for
		}
		if !r.credit.take(int64(k), r.done) {
			return used, errClosed
		}
		p := r.room()
		*p = f
		r.batch = append(r.batch, Received{p, int32(k)})
	}
	return used, nil
}

// flush delivers what was decoded.
func (r *reader) flush() {
	if len(r.batch) == 0 {
		return
	}
	r.sink.Deliver(r.batch)
	clear(r.batch)
	r.batch = r.batch[:0]
}

// room is the place of the next frame. Slabs grow with use, so that an idle
// stream holds little.
func (r *reader) room() *wire.Frame {
	if len(r.slab) == 0 {
		r.grown = min(max(1, 2*r.grown), maxFrameSlab)
		r.slab = make([]wire.Frame, r.grown)
	}
	p := &r.slab[0]
	r.slab = r.slab[1:]
	return p
}
