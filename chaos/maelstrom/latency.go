package maelstrom

import (
	"math"
	"time"

	"lockstep/internal/prng"
)

// delay is that of the k-th message from src to dest, from 0, when neither
// end is a client. It depends on nothing else, so that a seed repeats it.
func (o *Options) delay(src, dest string, k uint64) time.Duration {
	if o.Latency == 0 {
		return 0
	}
	draw := prng.Hash(o.Seed, prng.HashString("latency"), prng.HashString(src), prng.HashString(dest), k)
	millis := o.Latency
	switch o.LatencyDist {
	case "uniform":
		millis = float64(prng.Range(draw, 0, int64(2*o.Latency)-1))
	case "exponential":
		millis = -o.Latency * math.Log(unit(draw))
	}
	return time.Duration(millis * float64(time.Millisecond))
}

// unit maps a draw onto (0, 1].
func unit(draw uint64) float64 { return (float64(draw>>11) + 1) / (1 << 53) }

// duplicateShare is one message in so many that is delivered twice while the
// duplicate fault is on.
const duplicateShare = 4

// duplicated draws whether the k-th message of a link is delivered twice.
func (o *Options) duplicated(src, dest string, k uint64) bool {
	return prng.Hash(o.Seed, prng.HashString("duplicate"), prng.HashString(src), prng.HashString(dest), k)%duplicateShare == 0
}
