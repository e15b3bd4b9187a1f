package sim

import (
	"time"

	"lockstep/internal/decide"
	"lockstep/netsim"
)

// Options are the fixed properties of a world, drawn from the seed by
// DrawOptions or set by hand. All spreads are in nanoseconds.
type Options struct {
	Net netsim.Options

	// Disk latencies by what an operation does; WriteNanosPerKiB is added per KiB
	// of data written or read.
	DiskWrite, DiskSync, DiskRead decide.Dist
	DiskNanosPerKiB               int64
	// ReadLanes bounds the reads of one node that run beside each other; 1..64.
	ReadLanes int

	// Batch is the time a machine needs for one batch; inputs that come meanwhile
	// wait. BatchMax bounds the inputs before one Settle, drawn in 1..BatchMax.
	Batch    decide.Dist
	BatchMax int64
	// Linger is how long an idle machine waits for more input before it settles.
	Linger decide.Dist
	// Boot is how long a start takes; Restart how long a supervisor waits.
	Boot, Restart decide.Dist

	// ClockOffset spreads the nodes' monotonic origins, WallOffsetMillis their wall
	// clocks (both ways), DriftPPM their rates (both ways).
	ClockOffset      int64
	WallOffsetMillis int64
	DriftPPM         int64

	// SettleTwice calls Settle again after each batch and wants no new effect.
	SettleTwice bool
	// Poison hands buffers whose contract ends early to stores and scribbles on
	// them afterwards, spoils recycled effects, and checks that neither the data of
	// operations nor sent frames change while a host may still read them.
	Poison bool
	// CheckEvery calls CheckInvariants after every n-th batch of a node; 1 is
	// every batch, 0 never.
	CheckEvery int
	// DiskBytes is the capacity of each disk.
	DiskBytes int64
	// MaxInbox bounds the undelivered inputs of one node; more is a finding.
	MaxInbox int
	// MaxEvents bounds the events of a run; more is a finding (a hang).
	MaxEvents uint64
}

// DefaultOptions are quiet and fast: small even latencies, no tails, exact
// clocks.
func DefaultOptions() Options {
	us, ms := int64(time.Microsecond), int64(time.Millisecond)
	return Options{
		Net:             netsim.DefaultOptions(),
		DiskWrite:       decide.Dist{Lo: 5 * us, Hi: 40 * us},
		DiskSync:        decide.Dist{Lo: 400 * us, Hi: 2 * ms},
		DiskRead:        decide.Dist{Lo: 50 * us, Hi: 300 * us},
		DiskNanosPerKiB: 2000,
		ReadLanes:       8,
		Batch:           decide.Dist{Lo: 2 * us, Hi: 20 * us},
		BatchMax:        64,
		Boot:            decide.Dist{Lo: 50 * ms, Hi: 400 * ms},
		Restart:         decide.Dist{Lo: 500 * ms, Hi: 2000 * ms},
		CheckEvery:      1,
		DiskBytes:       1 << 34,
		MaxInbox:        1 << 16,
		MaxEvents:       1 << 40,
	}
}
