package main

import (
	"os"
	"time"

	"lockstep/node"
	"lockstep/node/host"
)

// echoTime is how long after the first signal another one of the same kind is taken
// for the same request: GNU timeout sends SIGTERM to its child and then to the whole
// process group.
const echoTime = 100 * time.Millisecond

// firstSignal is the signal that asked a process to stop, and when it came.
type firstSignal struct {
	signal os.Signal
	at     node.Time
}

// echo reports whether a later signal says no more than the first: it is of the same
// kind and hardly later. Any other asks to stop at once.
func (f *firstSignal) echo(s os.Signal, at node.Time) bool {
	return s == f.signal && at.Sub(f.at) < echoTime
}

// second waits for the signal that asks to stop at once.
func (f *firstSignal) second(signals <-chan os.Signal, clock host.Clock) os.Signal {
	for {
		if s := <-signals; !f.echo(s, clock().Mono) {
			return s
		}
	}
}
