package live

import (
	"sync/atomic"

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

// skew is how one node's clocks differ from the true time: a rate in parts per
// million since a moment, as a real clock's, and a wall clock that is off.
type skew struct {
	since, mono int64 // true time of the last change and what the clock showed then
	ppm         int64
	wall        int64 // milliseconds
}

func (s *skew) at(t int64) int64 {
	d := t - s.since
	return s.mono + d + d/million*s.ppm + d%million*s.ppm/million
}

// nodeClock is the clock of one node; it is read from many goroutines.
type nodeClock struct {
	true  *pacer
	state atomic.Pointer[skew]
}

func newClock(p *pacer, s skew) *nodeClock {
	c := &nodeClock{true: p}
	c.state.Store(&s)
	return c
}

// now samples the clocks. The wall clock runs at the pace of the world too: the age
// of a file and a retention time must agree.
func (c *nodeClock) now() node.Now {
	t, s := c.true.now(), c.state.Load()
	return node.Now{Mono: node.Time(s.at(t)), Wall: c.true.began.Wall + t/million + s.wall}
}

// setRate changes the drift from now on.
func (c *nodeClock) setRate(ppm int64) {
	t, s := c.true.now(), *c.state.Load()
	s.mono, s.since, s.ppm = s.at(t), t, ppm
	c.state.Store(&s)
}

// drift is the present rate, parts per million.
func (c *nodeClock) drift() int64 { return c.state.Load().ppm }

// step moves the wall clock.
func (c *nodeClock) step(millis int64) {
	s := *c.state.Load()
	s.wall += millis
	c.state.Store(&s)
}
