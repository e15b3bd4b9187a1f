package checker

import "math"

// OpKind is what a client did.
type OpKind uint8

// The operations of a client history.
const (
	Send OpKind = iota + 1
	Read        // one message delivered by a pull
)

// Status is how an operation ended for its client. Unknown is never failed.
type Status uint8

// The outcomes.
const (
	Done    Status = iota + 1
	Unknown        // may or may not have happened, now or later
	Refused        // definitely did not happen and never will
)

// Open is the Return of an operation that may still act.
const Open int64 = math.MaxInt64

// Op is one operation of one client, in world time (never a node's clock).
type Op struct {
	Client int
	Kind   OpKind
	Key    string // unique per logical message
	Queue  string // broker group, topic and queue: one append-only log
	Offset int64  // queue offset: result of a Done send, place of a Read
	Invoke int64  // nanoseconds
	Return int64  // nanoseconds; Open while unknown
	Status Status
	// UnknownTries is how many tries of a send ended unknown: each may have left
	// one copy.
	UnknownTries int
}

// Entry is one place of a queue at the end of a run.
type Entry struct {
	Offset int64
	Key    string
}

// History is everything the queue judges look at.
type History struct {
	Ops []Op
	// Final is each queue as the last master serves it, ascending offsets.
	Final map[string][]Entry
	// LossAllowed says that the ledger accepts the loss of this key.
	LossAllowed func(key string) bool
	// MinClients and MinOverlap guard against histories that cannot show anything:
	// fewer clients than that, or fewer pairs of overlapping operations, is vacuous.
	MinClients int
	MinOverlap int
	// Expires says that retention may have removed the beginning of a queue; otherwise
	// each begins at offset 0.
	Expires bool
}

func (h *History) allowed(key string) bool { return h.LossAllowed != nil && h.LossAllowed(key) }
