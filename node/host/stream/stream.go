// Package stream carries frames over one connection: a reader that decodes what
// arrives, bounded by credit, and a writer that encodes whatever has gathered and
// writes it at once. It knows no machine and no node.
package stream

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/node/wire"
)

// Options say how a stream behaves. All are required.
type Options struct {
	Link     wire.Link
	Credit   int           // frames delivered and not yet taken
	InBytes  int64         // bytes of them; one frame always may be under way
	OutBytes int           // bytes that may wait to be written
	Idle     time.Duration // silence both ways that ends the stream; 0 is no limit
	// Frame is how long one frame may take from its first byte to its last, beside a
	// second for each minFrameRate bytes of it; 0 is no limit.
	Frame    time.Duration
	Counters *Counters
	// Go runs f on a goroutine of its own.
	Go func(f func())
}

// FlushTime is what a stream gets to write what was queued and to see the peer's
// end, once Finish was called.
const FlushTime = time.Second

// Counters add up over all streams that share them.
type Counters struct {
	BytesIn, BytesOut atomic.Int64
	Writes            atomic.Int64 // system calls: frames are coalesced
	Slow              atomic.Int64 // streams closed because they did not drain
	Waiting           atomic.Int64 // bytes that wait to be written
}

// Received is a decoded frame and its size on the wire, bytes, which Took gives
// back.
type Received struct {
	Frame *wire.Frame
	Size  int32
}

// Sink gets what arrives, from the reading goroutine.
type Sink interface {
	// Deliver takes frames in the order of the stream. The slice is the reader's; the
	// frames are the sink's to keep, their bytes immutable.
	Deliver(batch []Received)
	// Ended is the last call: why the stream is over, and whether the peer sent
	// something that is no frame.
	Ended(reason string, rejected bool)
}

// Stream is one connection, or one being dialled.
type Stream struct {
	o      Options
	sink   Sink
	credit credit
	out    outbox
	active atomic.Uint32 // counts reads and writes, for the idle check

	conn   net.Conn // nil before Run; guarded by out.mu
	once   sync.Once
	done   chan struct{} // closed when the stream is
	reason string        // written before done is closed
}

// New returns a stream that is not connected yet.
func New(o Options, sink Sink) *Stream {
	s := &Stream{o: o, sink: sink, done: make(chan struct{})}
	s.credit.init(o.Credit, o.InBytes)
	s.out.wake = make(chan struct{}, 1)
	return s
}

// Run begins to read and write. It reports false, and closes conn, when the
// stream was ended before.
func (s *Stream) Run(conn net.Conn) bool {
	s.out.mu.Lock()
	over := s.out.finishing
	if !over {
		s.conn = conn
	}
	s.out.mu.Unlock()
	if over {
		conn.Close() // nothing was sent on it
		return false
	}
	s.o.Go(s.read)
	s.o.Go(s.write)
	return true
}

// Took gives back the credit of one delivered frame.
func (s *Stream) Took(size int32) { s.credit.give(int64(size)) }

// Starved reports whether the reader waits for credit.
func (s *Stream) Starved() bool { return s.credit.starved.Load() }

// Done is closed when the stream has ended.
func (s *Stream) Done() <-chan struct{} { return s.done }

// Reason is why a stream ended that never ran; others tell their sink.
func (s *Stream) Reason() string {
	<-s.done
	return s.reason
}

// Closed is the reason of a stream that this side ended.
const Closed = "closed"

var errClosed = errors.New(Closed)

// Finish ends the stream once what was sent is written, at the latest after
// FlushTime.
func (s *Stream) Finish() {
	s.out.mu.Lock()
	s.out.finishing = true
	connected := s.conn != nil
	s.out.mu.Unlock()
	if !connected {
		s.Close(errClosed)
		return
	}
	s.out.signal()
	time.AfterFunc(FlushTime, func() { s.Close(errClosed) })
}

// linger ends the sending half after the last byte and leaves the reader to see
// the peer's end: closing at once would reset the connection while the peer's
// bytes are unread, and take our last frames with it.
func (s *Stream) linger() {
	if half, ok := s.conn.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		s.Close(errClosed)
	}
}

// Close ends both directions at once; the first reason is kept. A nil or EOF
// reason means that the peer closed.
func (s *Stream) Close(err error) {
	s.once.Do(func() {
		s.reason = "closed by peer"
		if err != nil && !errors.Is(err, io.EOF) {
			s.reason = err.Error()
		}
		close(s.done)
		s.out.mu.Lock()
		s.out.finishing, s.out.over, s.out.frames = true, true, nil
		s.waits(-s.out.bytes)
		conn := s.conn
		s.out.mu.Unlock()
		if conn != nil {
			conn.Close() // the reason is known; an error here adds nothing
		}
	})
}

// Abort resets the connection, as the kernel does for a killed process.
func (s *Stream) Abort() {
	s.out.mu.Lock()
	c, ok := s.conn.(*net.TCPConn)
	s.out.mu.Unlock()
	if ok {
		c.SetLinger(0) // best effort: without it the peer sees an orderly end
	}
	s.Close(errors.New("killed"))
}
