package broker

import (
	"lockstep/internal/ha"
	"lockstep/internal/invariant"
	"lockstep/node"
)

// Sizes of tail chunks, bytes. A quiet broker holds one small chunk; a busy one
// grows to large chunks, so that a chunk is allocated once per MiB.
const (
	minChunkBytes = 16 << 10
	maxChunkBytes = 1 << 20
)

// chunk is a run of log bytes. It is only ever appended to within its capacity,
// so slices of it that were handed out (to sends, to the disk) stay valid.
type chunk struct {
	base ha.LogOffset
	buf  []byte
}

func (c *chunk) end() ha.LogOffset { return c.base + ha.LogOffset(len(c.buf)) }

// tail is the newest part of the log in memory, in contiguous chunks. Chunks are
// never rewritten: after a truncation new ones begin (P10), and the collector
// frees the old ones when the last send has gone.
type tail struct {
	chunks []chunk
	held   int64 // bytes of capacity of all chunks
	size   int   // capacity of the next chunk
}

// start is the offset of the first byte held; end when nothing is.
func (t *tail) start(end ha.LogOffset) ha.LogOffset {
	if len(t.chunks) == 0 {
		return end
	}
	return t.chunks[0].base
}

// extend returns n contiguous bytes of room at log offset at, which must be the
// tail's end. The caller fills them before anybody else looks.
func (t *tail) extend(at ha.LogOffset, n int) []byte {
	if k := len(t.chunks); k > 0 {
		c := &t.chunks[k-1]
		if c.end() != at {
			invariant.That(false, "tail ends at %d, extended at %d", c.end(), at)
		}
		if cap(c.buf)-len(c.buf) >= n {
			c.buf = c.buf[:len(c.buf)+n]
			return c.buf[len(c.buf)-n:]
		}
	}
	t.size = min(max(t.size*2, minChunkBytes), maxChunkBytes)
	c := chunk{base: at, buf: make([]byte, n, max(n, t.size))}
	t.held += int64(cap(c.buf))
	t.chunks = append(t.chunks, c)
	return c.buf
}

// run returns up to n bytes from off that lie in one chunk; nil when off is not
// held. The capacity is clipped, so nobody can append into the log.
func (t *tail) run(off ha.LogOffset, n int64) []byte {
	i := t.find(off)
	if i < 0 {
		return nil
	}
	c := &t.chunks[i]
	b := c.buf[off-c.base:]
	if int64(len(b)) > n {
		b = b[:n]
	}
	return b[:len(b):len(b)]
}

// find is the index of the chunk that holds the byte at off, or -1.
func (t *tail) find(off ha.LogOffset) int {
	lo, hi := 0, len(t.chunks)
	for lo < hi {
		mid := (lo + hi) / 2
		if t.chunks[mid].end() <= off {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == len(t.chunks) || t.chunks[lo].base > off {
		return -1
	}
	return lo
}

// release drops whole chunks that end at or below off.
func (t *tail) release(off ha.LogOffset) {
	n := 0
	for n < len(t.chunks) && t.chunks[n].end() <= off {
		t.held -= int64(cap(t.chunks[n].buf))
		t.chunks[n] = chunk{}
		n++
	}
	t.chunks = t.chunks[n:]
	if len(t.chunks) == 0 {
		t.chunks, t.size = nil, 0
	}
}

// forget drops everything; the next chunk begins anew.
func (t *tail) forget() { *t = tail{} }

// hot returns record bytes still in memory, nil when they must be read from disk.
// The bytes are immutable and stay valid for ever.
func (b *Broker) hot(off ha.LogOffset, size int32) []byte {
	r := b.tail.run(off, int64(size))
	if len(r) < int(size) {
		return nil
	}
	return r
}

// settleTail bounds the tail: what is written, entered in the queue files and no
// longer within MaxTailBytes goes; all of it goes when the log has been idle.
// Slaves that are behind it read from disk.
func (b *Broker) settleTail() {
	keep := min(b.log.written, b.queues.filed(b.log.end))
	if b.now.Mono >= b.log.quietSince.Add(b.o.TailIdle) {
		b.tail.release(keep)
		b.queues.evict(b.tail.start(b.log.end))
		return
	}
	evicted := false
	for b.tail.held > b.o.MaxTailBytes && len(b.tail.chunks) > 1 && b.tail.chunks[0].end() <= keep {
		b.tail.release(b.tail.chunks[0].end())
		evicted = true
	}
	if evicted {
		b.queues.evict(b.tail.start(b.log.end))
	}
}

// tailDeadline is when an idle tail can be released.
func (b *Broker) tailDeadline() node.Time {
	if len(b.tail.chunks) == 0 || b.tail.chunks[0].end() > min(b.log.written, b.queues.filed(b.log.end)) {
		return node.Never
	}
	return b.log.quietSince.Add(b.o.TailIdle)
}
