// Package node defines what a node is: a Machine that is told facts and answers
// with effects. Machines are single-threaded and own no clock, goroutine, lock,
// file or socket; three hosts run them unchanged (DESIGN section 1).
//
// Facts only record. Settle then derives every effect from the state, top to
// bottom, in the order data flows; calling it twice changes nothing. Effects
// are plain data that the host performs at once and in order; none waits for
// another, so the host carries no protocol.
package node

import (
	"math"
	"time"

	"lockstep/internal/event"
	"lockstep/node/wire"
	"lockstep/storage"
)

// Time is the host's monotonic clock in nanoseconds, running across suspends.
// Only differences mean anything, and only inside one life of one node.
type Time int64

// Never is the deadline of a machine that waits for facts alone.
const Never Time = math.MaxInt64

// Add returns t moved by d, never past Never.
func (t Time) Add(d time.Duration) Time {
	if t == Never || Time(d) > Never-t {
		return Never
	}
	return t + Time(d)
}

// Sub returns the time from u to t.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// Now is one sample of a node's clocks, taken once a batch.
type Now struct {
	Mono Time
	// Wall is milliseconds since 1970 for store timestamps and log lines. It may
	// jump; no rule may depend on it.
	Wall int64
}

// SessionID names one ordered stream of frames; ids are never reused in a life,
// so a late frame cannot be mistaken. Ids the machine dialled have the top bit.
type SessionID uint64

// Dialled is the bit of session ids that the machine itself chose in a Dial.
const Dialled SessionID = 1 << 63

// Peer is what the host knows of the far end of a session.
type Peer struct {
	Link wire.Link
	Addr string // host:port of the far end (the dialled address when dialled)
	// Local is the listener the session came in on; "" when dialled.
	Local string
}

// Machine is one broker, controller, name server or client. The host calls it
// from one goroutine.
type Machine interface {
	// SessionUp: a stream was accepted, or a Dial succeeded.
	SessionUp(now Now, s SessionID, p Peer)
	// Receive: f was decoded and checked. It is the machine's to keep; Body stays
	// immutable.
	Receive(now Now, s SessionID, f *wire.Frame)
	// SessionDown: the stream ended, or a Dial failed. Frames sent may be lost.
	SessionDown(now Now, s SessionID, reason string)
	// DiskDone: an operation finished.
	DiskDone(now Now, r storage.Result)
	// Stop: a graceful stop is wanted. The machine answers with Exit when done.
	Stop(now Now)
	// Settle derives all effects; called after each batch of facts and whenever
	// the Deadline has passed.
	Settle(now Now, fx *Effects)
	// Deadline is the earliest instant at which Settle would do something with no
	// further fact, or Never.
	Deadline() Time
	// Listeners are the addresses the node serves, fixed for its life.
	Listeners() []Listener
	// CheckInvariants runs the expensive assertions; the simulator calls it after
	// every batch. It panics with invariant.Violation.
	CheckInvariants()
	// Conditions lists what readiness and writability depend on.
	Conditions() []Condition
	// Gauges reports numbers for metrics, in a fixed order.
	Gauges(report func(name string, value float64))
}

// Preparer is a machine with work for the session's own goroutine: decoding and
// laying out what the loop will only have to place. Prepare must not touch the
// machine's state; it reads fixed configuration and writes f.Prepared. The
// simulator calls the same function inline.
type Preparer interface {
	Prepare(now Now, f *wire.Frame, p Peer)
}

// Listener is one served address.
type Listener struct {
	Link wire.Link
	Addr string
}

// Condition is one line of /readyz or /writable.
type Condition struct {
	Name string
	// For says which answers need it.
	Ready, Writable bool
	OK              bool
	Detail          string
}

// Effects are the host's orders of one batch, performed in the order of the
// fields and of the slices. The host recycles it.
type Effects struct {
	Sends  []Send
	Disk   []storage.Op
	Dials  []Dial
	Closes []SessionID
	Events []event.Event
	Exit   *Exit
}

// Reset empties the effects and keeps their memory.
func (fx *Effects) Reset() {
	clear(fx.Sends)
	clear(fx.Disk)
	clear(fx.Events)
	fx.Sends, fx.Disk, fx.Dials = fx.Sends[:0], fx.Disk[:0], fx.Dials[:0]
	fx.Closes, fx.Events, fx.Exit = fx.Closes[:0], fx.Events[:0], nil
}

// Send appends a frame for session to.
func (fx *Effects) Send(to SessionID, f wire.Frame) {
	fx.Sends = append(fx.Sends, Send{To: to, Frame: f})
}

// SendBefore appends a frame that must leave before an instant; 0 is whenever.
func (fx *Effects) SendBefore(to SessionID, f wire.Frame, end Time) {
	fx.Sends = append(fx.Sends, Send{To: to, Frame: f, Before: end})
}

// Emit appends an event.
func (fx *Effects) Emit(e event.Event) { fx.Events = append(fx.Events, e) }

// Send is a frame for a session. A frame for a session that is gone is dropped.
type Send struct {
	To    SessionID
	Frame wire.Frame
	// Before, when it is not 0, is the end of what entitled the machine to say this. A
	// host whose clock has got there since the batch began sends nothing and closes the
	// session instead, so that whoever waits learns nothing (P12).
	Before Time
}

// Dial asks for a new outgoing stream. The machine chose the id (with the
// Dialled bit); SessionUp or SessionDown follows.
type Dial struct {
	Session SessionID
	Link    wire.Link
	Addr    string
}

// Exit ends the node's life. All earlier effects of the batch are performed first.
type Exit struct {
	Code   int // process exit code
	Reason string
}

// Exit codes of daemons. Supervisors must not restart on ExitSuspect and ExitRefused.
const (
	ExitClean   = 0  // asked to stop and did
	ExitFailed  = 1  // something unexpected
	ExitRefused = 64 // configuration or store cannot be used; the message has the remedy
	ExitSuspect = 70 // the disk failed; the store carries the suspect mark
)
