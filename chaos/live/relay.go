package live

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// relay is one connection between two nodes: the dialler's half, the acceptor's
// half, and a pipe each way.
type relay struct {
	net        *network
	from, to   int // who dialled whom
	near, far  *net.TCPConn
	there      *pipe
	back       *pipe
	once       sync.Once
	done       chan struct{} // closed when the relay is over
	left       atomic.Int32  // ends that left a relay in which nothing passes
	goroutines sync.WaitGroup
}

func newRelay(t *network, from, to int, near, far *net.TCPConn) *relay {
	r := &relay{net: t, from: from, to: to, near: near, far: far, done: make(chan struct{})}
	r.there = newPipe(r, from, to, near, far)
	r.back = newPipe(r, to, from, far, near)
	return r
}

func (r *relay) start() {
	for _, p := range []*pipe{r.there, r.back} {
		r.goroutines.Go(p.read)
		r.goroutines.Go(p.write)
	}
	r.net.work.Go(func() {
		r.goroutines.Wait() // both ways have ended, or the relay was reset
		r.reset()
		r.net.mu.Lock()
		delete(r.net.relays, r)
		r.net.mu.Unlock()
	})
}

// reset ends both halves at once; whoever reads them finds the connection reset.
func (r *relay) reset() {
	r.once.Do(func() {
		close(r.done)
		for _, c := range []*net.TCPConn{r.near, r.far} {
			c.SetLinger(0) // best effort: without it the peer sees an orderly end
			closeQuietly(c)
		}
	})
}

// mute makes the connection half-open for good: nothing passes, nothing ends.
func (r *relay) mute() {
	r.there.drop()
	r.back.drop()
}

// orphan is told that the host at one end went silent.
func (r *relay) orphan(host int) {
	for _, p := range []*pipe{r.there, r.back} {
		if p.src == host {
			p.drop()
		} else {
			p.orphaned()
		}
	}
}

// Limits of a pipe.
const (
	// pipeBytes is what may be on the way in one direction, beside what the sockets
	// hold; the sender feels more than that.
	pipeBytes = 256 << 10
	readBytes = 32 << 10
	// retransmit is how long a lost piece takes to come again, nanoseconds of the
	// world; what follows waits for it.
	retransmit = int64(200 * time.Millisecond)
)

// piece is some bytes on their way, or the end of the stream.
type piece struct {
	data  []byte
	due   int64 // not before, true time
	end   bool
	reset bool // of an end: the connection was reset
}

// pipe is one direction of a relay. Pieces arrive in order, none before its time,
// and none while the way is cut.
type pipe struct {
	relay    *relay
	src, dst int
	in, out  *net.TCPConn
	wake     chan struct{} // the writer's; holds one token
	room     chan struct{} // the reader's; holds one token

	mu      sync.Mutex
	queue   []piece
	bytes   int
	last    int64 // due time of the newest piece
	free    int64 // when the line is free again, by its bandwidth
	dropped bool  // nothing passes any more
	lonely  bool  // the host at dst has forgotten the connection
}

func newPipe(r *relay, src, dst int, in, out *net.TCPConn) *pipe {
	return &pipe{relay: r, src: src, dst: dst, in: in, out: out, wake: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// poke makes the writer look again.
func (p *pipe) poke() { token(p.wake) }

func token(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // one is there already
	}
}

// drop loses what is on the way and everything to come.
func (p *pipe) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropped, p.queue, p.bytes = true, nil, 0
	token(p.room)
}

// orphaned notes that the receiving host has forgotten the connection.
func (p *pipe) orphaned() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lonely = true
}

// forgotten reports whether the receiving host has lost the connection.
func (p *pipe) forgotten() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lonely
}

// read takes what the sender writes.
func (p *pipe) read() {
	buf := make([]byte, readBytes)
	for {
		n, err := p.in.Read(buf)
		if n > 0 && !p.put(piece{data: append([]byte(nil), buf[:n]...)}) {
			return
		}
		if err == nil {
			continue
		}
		if !p.put(piece{end: true, reset: !errors.Is(err, io.EOF)}) && p.relay.left.Add(1) == 2 {
			p.relay.reset() // nobody is left who could end it
		}
		return
	}
}

// put queues a piece and reports whether it will arrive; it waits for room.
func (p *pipe) put(x piece) bool {
	due, perByte := p.travel(&x)
	if !p.lock(!x.end) {
		return false
	}
	defer p.mu.Unlock()
	if p.dropped {
		return !x.end
	}
	if perByte > 0 {
		p.free = max(p.free, due) + int64(len(x.data))*perByte
		due = p.free
	}
	p.last = max(p.last, due)
	x.due = p.last
	p.queue = append(p.queue, x)
	p.bytes += len(x.data)
	p.poke()
	return true
}

// lock takes the pipe when it has room, if that is asked for; false when the relay
// is over.
func (p *pipe) lock(room bool) bool {
	for {
		p.mu.Lock()
		if !room || p.dropped || p.bytes < pipeBytes {
			return true
		}
		p.mu.Unlock()
		select {
		case <-p.room:
		case <-p.relay.done:
			return false
		}
	}
}

// travel draws when a piece arrives that is sent now, and damages it where the link
// does; perByte is the time that each byte takes, 0 where the line is wide.
func (p *pipe) travel(x *piece) (due, perByte int64) {
	t := p.relay.net
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.link(p.src, p.dst)
	due = t.pacer.now() + l.delay
	if l.loss > 0 && t.rnd.Between(0, 999) < l.loss {
		due += retransmit
	}
	if l.corrupt > 0 && len(x.data) > 0 && t.rnd.Between(0, 999) < l.corrupt {
		x.data[t.rnd.Intn(len(x.data))] ^= 1 << t.rnd.Intn(8)
	}
	if l.bandwidth > 0 {
		perByte = int64(time.Second) / l.bandwidth
	}
	return due, perByte
}

// write gives the receiver what has arrived.
func (p *pipe) write() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		x, wait, refused := p.next()
		switch {
		case refused:
			p.relay.reset()
			return
		case x == nil:
			timer.Reset(wait)
			select {
			case <-p.wake:
			case <-timer.C:
			case <-p.relay.done:
				return
			}
		case x.reset:
			p.relay.reset()
			return
		case x.end:
			p.out.CloseWrite() // the receiver sees the end, or has gone itself
			return
		default:
			if _, err := p.out.Write(x.data); err != nil && !p.forgotten() {
				return // the receiver has gone: its end comes the other way
			}
		}
	}
}

// idle is how long a writer sleeps with nothing to wait for.
const idle = time.Hour

// next takes the piece that has arrived; otherwise it says how long to wait. The
// kernel of a host that forgot the connection refuses whatever comes.
func (p *pipe) next() (x *piece, wait time.Duration, refused bool) {
	t := p.relay.net
	t.mu.Lock()
	open, now := t.passes(p.src, p.dst), t.pacer.now()
	t.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case len(p.queue) == 0 || !open:
		return nil, idle, false
	case p.lonely:
		return nil, 0, true
	case p.queue[0].due > now:
		return nil, time.Duration(t.pacer.real(p.queue[0].due-now)) + time.Microsecond, false
	}
	first := p.queue[0]
	p.queue[0] = piece{}
	p.queue = p.queue[1:]
	p.bytes -= len(first.data)
	token(p.room)
	return &first, 0, false
}
