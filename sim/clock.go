package sim

import (
	"math"

	"lockstep/node"
)

// wallEpoch is the wall clock of every node at the start of a world, in
// milliseconds since 1970: a round number that no code can take for a real now.
const wallEpoch = 1_700_000_000_000

// never is the true time that does not come.
const never = math.MaxInt64

// million is the unit of drift.
const million = 1_000_000

// clock maps the true time of the world to what one node sees. Its monotonic
// part is piecewise linear: a rate in parts per million since the last change.
type clock struct {
	baseTrue, baseMono int64
	ppm                int64 // added to the rate of 1; -1,000,000 stands still
	wall               int64 // milliseconds added to the monotonic time
	frozen             int   // faults that make it stand still
}

// rate is what is added to the rate of 1 now.
func (c *clock) rate() int64 {
	if c.frozen > 0 {
		return -million
	}
	return c.ppm
}

// mono is the node's monotonic clock at the true time t ≥ baseTrue.
func (c *clock) mono(t int64) int64 {
	d := t - c.baseTrue
	return c.baseMono + d + d/million*c.rate() + d%million*c.rate()/million
}

// now samples both clocks.
func (c *clock) now(t int64) node.Now {
	m := c.mono(t)
	return node.Now{Mono: node.Time(m), Wall: c.wall + m/million}
}

// trueAt is the earliest true time, from the last change on, at which the
// monotonic clock shows at least m; never when the clock stands still.
func (c *clock) trueAt(m node.Time) int64 {
	if int64(m) <= c.baseMono {
		return c.baseTrue
	}
	rate := million + c.rate()
	if m == node.Never || rate <= 0 || int64(m)-c.baseMono > never/4 {
		return never
	}
	d := int64(m) - c.baseMono
	t := c.baseTrue + d/rate*million + d%rate*million/rate
	for c.mono(t) < int64(m) {
		t++
	}
	for t > c.baseTrue && c.mono(t-1) >= int64(m) {
		t--
	}
	return t
}

// setRate changes the drift from the true time t on.
func (c *clock) setRate(t, ppm int64) {
	c.baseMono, c.baseTrue = c.mono(t), t
	c.ppm = ppm
}

// freeze makes the clock stand still from the true time t on (by is 1), or ends
// one such fault (by is -1).
func (c *clock) freeze(t int64, by int) {
	c.baseMono, c.baseTrue = c.mono(t), t
	c.frozen += by
}
