package host

import (
	"time"

	"golang.org/x/sys/unix"

	"lockstep/node"
)

// Clock samples a node's clocks. It is called from several goroutines.
type Clock func() node.Now

// BootClock is the real clock: CLOCK_BOOTTIME, which runs across suspends, so
// that a lease does not outlive its time on a machine that slept (P12).
func BootClock() Clock {
	return func() node.Now {
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
			panic("CLOCK_BOOTTIME is not readable: " + err.Error()) // every supported kernel has it
		}
		return node.Now{Mono: node.Time(ts.Nano()), Wall: time.Now().UnixMilli()}
	}
}
