package client

import (
	"time"

	"lockstep/internal/prng"
	"lockstep/node"
)

// wakeHeap is a binary min-heap of instants at which an operation wants to be
// looked at. Entries are not removed when an operation moves on; an entry counts
// only while it is the operation's current one.
type wakeHeap []wake

type wake struct {
	at     node.Time
	ticket Ticket
}

func (h wakeHeap) less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return h[i].ticket < h[j].ticket
}

func (h *wakeHeap) push(w wake) {
	*h = append(*h, w)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if !s.less(i, up) {
			return
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
}

func (h *wakeHeap) pop() wake {
	s := *h
	top, last := s[0], len(s)-1
	s[0] = s[last]
	s = s[:last]
	*h = s
	for i := 0; ; {
		least := i
		for k := 2*i + 1; k <= 2*i+2 && k < last; k++ {
			if s.less(k, least) {
				least = k
			}
		}
		if least == i {
			return top
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
}

// trim drops entries at the top that count no more, so that the deadline is one
// at which something happens, and all such once they are by far the larger part.
func (h *wakeHeap) trim(c *Client) {
	if len(*h) > 64+4*len(c.ops) {
		old := *h
		*h = old[:0]
		for _, w := range old { // push writes at or before the place being read
			if op := c.ops[w.ticket]; op != nil && op.wakeAt == w.at {
				h.push(w)
			}
		}
	}
	for len(*h) > 0 {
		op := c.ops[(*h)[0].ticket]
		if op != nil && op.wakeAt == (*h)[0].at {
			return
		}
		h.pop()
	}
}

func (h wakeHeap) next() node.Time {
	if len(h) == 0 {
		return node.Never
	}
	return h[0].at
}

// wakeOp schedules the next look at op, t at the latest.
func (c *Client) wakeOp(op *operation, t node.Time) {
	if op.wakeAt == t {
		return
	}
	op.wakeAt = t
	c.wakes.push(wake{t, op.out.Ticket})
}

// settleWakes marks the operations whose time has come.
func (c *Client) settleWakes() {
	for len(c.wakes) > 0 && c.wakes[0].at <= c.now.Mono {
		w := c.wakes.pop()
		if op := c.ops[w.ticket]; op != nil && op.wakeAt == w.at {
			op.wakeAt = node.Never
			c.touch(op)
		}
	}
}

// health is what is remembered of an address while it fails.
type health struct {
	failures int
	retryAt  node.Time // no try before
	avoid    node.Time // others are preferred until then
}

// healthTable holds the addresses that failed lately; a success removes one.
type healthTable struct{ byAddr map[string]*health }

// maxHealth bounds the table; above it, those that may be used again are forgotten.
const maxHealth = 1024

func (t *healthTable) init() { t.byAddr = map[string]*health{} }

func (t *healthTable) ok(addr string) { delete(t.byAddr, addr) }

// retryAt is when addr may be tried again; 0 when at once.
func (t *healthTable) retryAt(addr string) node.Time {
	if h := t.byAddr[addr]; h != nil {
		return h.retryAt
	}
	return 0
}

// avoided reports whether others are to be preferred to addr now.
func (t *healthTable) avoided(addr string, now node.Time) bool {
	h := t.byAddr[addr]
	return h != nil && (now < h.avoid || now < h.retryAt)
}

// failed notes a failure of addr. Hard ones (silence, no connection) make the
// client prefer others for AvoidanceTime; soft ones (refusals) only pause. Many
// requests that fail together count once.
func (c *Client) failed(addr string, hard bool) {
	h := c.health.byAddr[addr]
	if h == nil {
		c.health.makeRoom(c.now.Mono)
		h = &health{}
		c.health.byAddr[addr] = h
	}
	if c.now.Mono >= h.retryAt {
		h.failures++
		h.retryAt = c.now.Mono.Add(c.backoff(h.failures, addr))
	}
	if hard {
		h.avoid = max(h.avoid, c.now.Mono.Add(c.opt.AvoidanceTime))
	}
}

func (t *healthTable) makeRoom(now node.Time) {
	if len(t.byAddr) < maxHealth {
		return
	}
	for addr, h := range t.byAddr { // tidy:unordered every expired entry goes, whatever the order
		if now >= h.avoid && now >= h.retryAt {
			delete(t.byAddr, addr)
		}
	}
	if len(t.byAddr) >= maxHealth {
		clear(t.byAddr) // forgetting a pause is harmless
	}
}

// backoff is the pause after n failures in a row: doubling, and spread by a
// quarter so that clients that failed together do not return together.
func (c *Client) backoff(n int, salt string) time.Duration {
	d := c.opt.RetryBackoffMin
	for ; n > 1 && d < c.opt.RetryBackoffMax; n-- {
		d *= 2
	}
	d = min(d, c.opt.RetryBackoffMax)
	h := prng.Hash(c.opt.Seed, prng.HashString(salt), uint64(n), uint64(c.now.Mono))
	return d - time.Duration(prng.Range(h, 0, int64(d/4)))
}
