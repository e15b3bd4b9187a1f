package live

import (
	"sync"

	"lockstep/node"
	"lockstep/node/host"
)

// million is the unit of drift.
const million = 1_000_000

// pacer tells the true time of a world: what has passed since it began on the
// real clock, so many times as fast.
type pacer struct {
	clock host.Clock
	began node.Now
	pace  int64
}

func newPacer(pace int64) pacer {
	c := host.BootClock()
	return pacer{clock: c, began: c(), pace: pace}
}

// now is the true time, nanoseconds.
func (p *pacer) now() int64 { return int64(p.clock().Mono-p.began.Mono) * p.pace }

// real is how long a time of the world lasts.
func (p *pacer) real(nanos int64) int64 { return nanos / p.pace }

// nodeClock is the clock of one node: it runs at a rate, in parts per million more
// than the true time, since a moment, as a real clock does. Many goroutines read it.
type nodeClock struct {
	true *pacer

	mu          sync.Mutex // held while it is read, so that nobody sees it go back
	since, mono int64      // true time of the last change, and what the clock showed then
	ppm         int64
	wall        int64 // milliseconds that the wall clock is off
}

// show is what the clock shows at a true time.
func (c *nodeClock) show(t int64) int64 {
	d, ppm := t-c.since, max(c.ppm, -million) // a clock that is slow and then frozen stands still
	return c.mono + d + d/million*ppm + d%million*ppm/million
}

// now samples the clocks. The wall clock runs at the pace of the world too: the age
// of a file and a retention time must agree.
func (c *nodeClock) now() node.Now {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.true.now()
	return node.Now{Mono: node.Time(c.show(t)), Wall: c.true.began.Wall + t/million + c.wall}
}

// drift changes the rate by so many parts per million from now on.
func (c *nodeClock) drift(ppm int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.true.now()
	c.mono, c.since = c.show(t), t
	c.ppm += ppm
}

// step moves the wall clock.
func (c *nodeClock) step(millis int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall += millis
}
