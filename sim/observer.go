package sim

import (
	"fmt"

	"lockstep/internal/event"
	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
)

// Observer is a judge or recorder. All calls are made at true simulated time,
// in the order things happen; what is handed over must not be changed or kept
// beyond the call unless its contract says that it is immutable.
type Observer interface {
	// OnEvent: a machine emitted e. Node and At (true time) are filled in.
	OnEvent(e event.Event)
	// OnSend: a machine sent f; the network has not touched it yet. Only frames
	// that leave the node are shown.
	OnSend(from string, s node.SessionID, f *wire.Frame)
	// OnDeliver: f is about to be given to the machine.
	OnDeliver(to string, s node.SessionID, f *wire.Frame)
	// OnDisk: r took effect on the node's disk (or failed); the machine hears of it
	// later, if it lives.
	OnDisk(node string, r *storage.Result)
	// OnFault: a fault of the plan fired, or its duration ended.
	OnFault(f *Fault, ended bool)
	// OnLife: a node started, came up or went down.
	OnLife(l LifeChange)
}

// Phase is a step of a node's life.
type Phase uint8

// The phases.
const (
	Booting Phase = iota // Boot is about to run
	Up                   // the machine runs
	Refused              // Boot returned an error; Reason has it
	Down                 // the life ended; Reason and Code say how
)

// String names the phase.
func (p Phase) String() string { return [...]string{"booting", "up", "refused", "down"}[p%4] }

// LifeChange is a step of one life of a node.
type LifeChange struct {
	Node    string
	Ordinal int
	Phase   Phase
	Code    int // exit code, for a life that ended by itself; -1 for a fault
	Reason  string
}

// Deaf is an Observer that ignores everything: embed it and override.
type Deaf struct{}

// OnEvent ignores the event.
func (Deaf) OnEvent(event.Event) {}

// OnSend ignores the frame.
func (Deaf) OnSend(string, node.SessionID, *wire.Frame) {}

// OnDeliver ignores the frame.
func (Deaf) OnDeliver(string, node.SessionID, *wire.Frame) {}

// OnDisk ignores the result.
func (Deaf) OnDisk(string, *storage.Result) {}

// OnFault ignores the fault.
func (Deaf) OnFault(*Fault, bool) {}

// OnLife ignores the change.
func (Deaf) OnLife(LifeChange) {}

// Finding is something a world found wrong by itself: a broken invariant, a
// panic, a Settle that is not idempotent, a machine that spins.
type Finding struct {
	At   int64  // true nanoseconds
	Node string // "" for the world
	// Kind is a stable name: "invariant", "panic", "settle-twice", "spin",
	// "in-flight-data-changed", "inbox", "hang", "plan", or a judge's.
	Kind string
	Text string
	// Stack is where a panic came from, for a reader; no part of any hash.
	Stack string
}

// String prints the finding on one line.
func (f Finding) String() string {
	return fmt.Sprintf("T+%s %s %s: %s", seconds(f.At), f.Node, f.Kind, f.Text)
}

// seconds prints nanoseconds as seconds with six digits.
func seconds(ns int64) string { return fmt.Sprintf("%d.%06ds", ns/1e9, ns%1e9/1000) }
