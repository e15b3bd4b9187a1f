package netsim

import (
	"time"

	"lockstep/internal/decide"
)

// Options are the fixed properties of a network. Times in nanoseconds.
type Options struct {
	// Delay spreads the one-way latency of a frame inside a zone; ZoneDelay is used
	// between zones.
	Delay, ZoneDelay decide.Dist
	// LossPermille of frames are lost once or more and come after retransmissions;
	// what follows on the stream waits behind them.
	LossPermille int64
	// Retransmit spreads the wait for one retransmission, also after a cut healed.
	Retransmit decide.Dist
	// Bandwidth of a node's sending side in bytes per second; 0 is unlimited.
	Bandwidth int64
	// DialTimeout ends an attempt that hears nothing.
	DialTimeout int64
	// StreamTimeout ends a stream whose data was not acknowledged for so long;
	// KeepAlive one that is idle behind a cut.
	StreamTimeout, KeepAlive int64
	// SendBuffer and ReceiveBuffer bound the bytes of one direction of a stream that
	// are unsent and unread; beyond the first the stream is reset, beyond the
	// second the sender waits.
	SendBuffer, ReceiveBuffer int64
	// Codec encodes and decodes every frame; otherwise frames are deep-copied.
	Codec bool
}

// DefaultOptions are a quiet local network.
func DefaultOptions() Options {
	us, ms, s := int64(time.Microsecond), int64(time.Millisecond), int64(time.Second)
	return Options{
		Delay:         decide.Dist{Lo: 50 * us, Hi: 300 * us},
		ZoneDelay:     decide.Dist{Lo: 500 * us, Hi: 2 * ms},
		Retransmit:    decide.Dist{Lo: 5 * ms, Hi: 200 * ms, Tail: s, TailPermille: 50},
		DialTimeout:   3 * s,
		StreamTimeout: 30 * s,
		KeepAlive:     60 * s,
		SendBuffer:    64 << 20,
		ReceiveBuffer: 4 << 20,
	}
}
