package host

import (
	"sync"

	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
)

type factKind uint8

const (
	factUp factKind = iota
	factReceive
	factDown
	factDisk
	factStop
	factCall
)

// fact is one thing that happened, waiting for the loop.
type fact struct {
	kind     factKind
	rejected bool  // factDown: the peer sent something that is no frame
	size     int32 // factReceive: bytes on the wire
	session  *session
	frame    *wire.Frame
	reason   string
	disk     *storage.Result
	call     func(now node.Now)
}

// mailbox hands facts from many goroutines to the loop in batches. Its length is
// bounded by what may put into it: each session holds at most Credit frames
// inside and ends once, each lane operation has one result.
type mailbox struct {
	mu    sync.Mutex
	in    []fact
	spare []fact
	wake  chan struct{} // holds one token
}

func (b *mailbox) put(facts ...fact) {
	b.mu.Lock()
	b.in = append(b.in, facts...)
	b.mu.Unlock()
	b.signal()
}

// signal wakes the loop.
func (b *mailbox) signal() {
	select {
	case b.wake <- struct{}{}:
	default: // a wake-up is already waiting
	}
}

// keepFacts is the length of a batch whose memory is kept for the next.
const keepFacts = 4096

// take returns everything that waits; the slice is valid until the next take.
func (b *mailbox) take() []fact {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.spare) // the batch before: its frames are the machine's now
	if cap(b.spare) > keepFacts {
		b.spare = nil
	}
	got := b.in
	b.in, b.spare = b.spare[:0], got
	return got
}

// gate holds up goroutines while it is closed.
type gate struct {
	mu     sync.Mutex
	cond   *sync.Cond
	closed bool
	over   bool // never closes again
}

func (g *gate) init() { g.cond = sync.NewCond(&g.mu) }

func (g *gate) close() {
	g.mu.Lock()
	g.closed = !g.over
	g.mu.Unlock()
}

func (g *gate) open() {
	g.mu.Lock()
	g.closed = false
	g.mu.Unlock()
	g.cond.Broadcast()
}

// release opens the gate for good: the node ends.
func (g *gate) release() {
	g.mu.Lock()
	g.over = true
	g.mu.Unlock()
	g.open()
}

// pass waits until the gate is open.
func (g *gate) pass() {
	g.mu.Lock()
	for g.closed {
		g.cond.Wait()
	}
	g.mu.Unlock()
}
