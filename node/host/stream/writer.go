package stream

import (
	"fmt"
	"sync"

	"lockstep/node/wire"
)

const (
	// writeBytes is the size at which the writer stops encoding and writes.
	writeBytes = 256 << 10
	// keepBytes is the largest write buffer kept for the next wake-up.
	keepBytes = 64 << 10
	// frameCost is what a queued frame counts beside its body, bytes.
	frameCost = 256
)

// outbox is what waits to be written to one stream.
type outbox struct {
	mu        sync.Mutex
	frames    []wire.Frame
	bytes     int // of frames, those being written included
	finishing bool
	over      bool          // nothing waits any more, and nothing will
	wake      chan struct{} // holds one token
}

// signal wakes the writer.
func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default: // it is already awake
	}
}

// take returns what waits, in exchange for an empty slice.
func (o *outbox) take(spare []wire.Frame) (frames []wire.Frame, last bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	frames, o.frames = o.frames, spare
	return frames, o.finishing
}

// waits adds to what waits for the peer. The caller holds mu.
func (s *Stream) waits(bytes int) {
	s.out.bytes += bytes
	s.o.Counters.Waiting.Add(int64(bytes))
}

// Waiting is how many bytes wait to be written.
func (s *Stream) Waiting() int {
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	return s.out.bytes
}

// Send gives frames to the writer and empties the slice, whose memory it may take
// in exchange. A stream that does not drain is closed; frames for one that has
// ended are dropped.
func (s *Stream) Send(frames *[]wire.Frame) {
	if len(*frames) == 0 {
		return
	}
	size := 0
	for i := range *frames {
		size += len((*frames)[i].Body) + frameCost
	}
	o := &s.out
	o.mu.Lock()
	switch {
	case o.over:
		clear(*frames)
		*frames = (*frames)[:0]
		o.mu.Unlock()
		return
	case len(o.frames) == 0:
		o.frames, *frames = *frames, o.frames
	default:
		o.frames = append(o.frames, *frames...)
		clear(*frames)
		*frames = (*frames)[:0]
	}
	s.waits(size)
	slow := o.bytes > s.o.OutBytes
	o.mu.Unlock()
	if slow {
		s.o.Counters.Slow.Add(1)
		s.Close(fmt.Errorf("the peer reads too slowly: more than %d bytes wait for it", s.o.OutBytes))
		return
	}
	o.signal()
}

// write encodes everything that waits into one buffer and writes it, once a
// wake-up.
func (s *Stream) write() {
	var frames []wire.Frame
	var buf []byte
	for {
		select {
		case <-s.out.wake:
		case <-s.done:
			return
		}
		var last bool
		frames, last = s.out.take(frames)
		var err error
		if buf, err = s.writeAll(buf, frames); err != nil {
			s.Close(err)
			return
		}
		clear(frames)
		frames = frames[:0]
		if cap(buf) > keepBytes {
			buf = nil // one big answer does not keep its memory
		}
		if last {
			s.linger()
			return
		}
	}
}

func (s *Stream) writeAll(buf []byte, frames []wire.Frame) ([]byte, error) {
	buf = buf[:0]
	held := 0
	for i := range frames {
		var err error
		if buf, err = wire.AppendFrame(buf, &frames[i], wire.JSON); err != nil {
			return buf, fmt.Errorf("frame cannot be encoded: %w", err)
		}
		held += len(frames[i].Body) + frameCost
		if len(buf) < writeBytes && i < len(frames)-1 {
			continue
		}
		if _, err := s.conn.Write(buf); err != nil {
			return buf, err
		}
		s.active.Add(1)
		s.o.Counters.BytesOut.Add(int64(len(buf)))
		s.o.Counters.Writes.Add(1)
		s.out.mu.Lock()
		if !s.out.over {
			s.waits(-held)
		}
		s.out.mu.Unlock()
		buf, held = buf[:0], 0
	}
	return buf, nil
}
