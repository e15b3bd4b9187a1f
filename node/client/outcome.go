package client

import (
	"fmt"

	"lockstep/internal/ha"
	"lockstep/node"
)

// Ticket names one operation in its client; never reused, ascending from 1.
type Ticket uint64

// Op is the kind of an operation.
type Op uint8

// The operations. Deliver is not begun by the caller: a subscription's messages
// arrive as outcomes of that kind under the subscription's ticket.
const (
	OpSend Op = 1 + iota
	OpPull
	OpCommit
	OpQueryOffset
	OpMaxOffset
	OpMinOffset
	OpCreateTopic
	OpDeliver // messages of a subscription; Offset, Next bound them
	OpMoved   // a subscription's position was moved by its broker (code 21): Offset → Next
	numOps
)

var opNames = [numOps]string{"?", "send", "pull", "commit", "query-offset", "max-offset", "min-offset", "create-topic", "deliver", "moved"}

// String names the operation.
func (o Op) String() string { return opNames[o%numOps] }

// Status is what is known of an operation's effect.
type Status uint8

// The statuses. They are exact: NotDone is said only when no try can have had
// an effect, Done only on a broker's own word.
const (
	// NotDone: refused before anything was stored, or never handed to a stream.
	NotDone Status = 1 + iota
	// Unknown: it may or may not have happened, or may still happen.
	Unknown
	// Done: answered with success.
	Done
)

// String names the status.
func (s Status) String() string { return [...]string{"?", "not-done", "unknown", "done"}[s%4] }

// TryEnd is how one try stands.
type TryEnd uint8

// The ends of a try.
const (
	TryPending   TryEnd = iota // in flight
	TryNeverSent               // no stream took the frame: no effect
	TryRefused                 // answered by a definite refusal: no effect
	TrySilent                  // time-out or session lost after the frame was handed over: unknown
	TryUnproven                // answered 10, 11 or 12: stored, the promise is unproven
	TryDoubtful                // answered by an error that does not say whether it was stored
	TryDone                    // answered with success
)

// String names the end.
func (e TryEnd) String() string {
	return [...]string{"pending", "never-sent", "refused", "silent", "unproven", "doubtful", "done"}[e%7]
}

// Try is one attempt of an operation at one broker.
type Try struct {
	Broker string // broker group
	Addr   string
	Queue  int32
	End    TryEnd
	Code   int32  // response code, when answered
	Remark string // of the answer, or why it failed
	Began  node.Time
	Ended  node.Time // 0 while pending
}

// Outcome is the end of one operation, or a delivery of a subscription.
type Outcome struct {
	Ticket Ticket
	Op     Op
	Status Status
	// Code and Remark of the answer that decided, or of the last try; Code is -1
	// when no broker answered. 10, 11, 12 come with Unknown: stored, unproven.
	Code   int32
	Remark string

	Topic  string
	Group  string // consumer group of offset operations
	Broker string // broker group
	Queue  int32
	Key    string // the caller's key of a send
	// Offset: queue offset of a sent message, the offset asked for or committed, or
	// the first offset of a pull. Next, Min, Max: a pull's answer.
	Offset, Next, Min, Max int64
	// MsgID is the broker's offset message id; Log the commit log offset in it, -1
	// when there is none.
	MsgID string
	Log   ha.LogOffset
	// Durability is what the broker says a done send proves: "local",
	// "replicated-received" or "replicated"; "" when it does not say (Java).
	Durability string
	Messages   []Received

	Tries             []Try
	Started, Finished node.Time
}

// NoCode is Outcome.Code when no broker answered.
const NoCode int32 = -1

// UnknownTries counts the tries that may have had an effect without the caller
// being told: each can be one more copy of the message.
func (o *Outcome) UnknownTries() int {
	n := 0
	for i := range o.Tries {
		switch o.Tries[i].End {
		case TryPending, TrySilent, TryDoubtful:
			n++
		case TryUnproven:
			if o.Status == Done {
				n++
			}
		}
	}
	return n
}

// String prints the outcome on one line.
func (o *Outcome) String() string {
	return fmt.Sprintf("%d %s %s code=%d %s/%s/%d offset=%d next=%d tries=%d %q", o.Ticket, o.Op, o.Status, o.Code,
		o.Topic, o.Broker, o.Queue, o.Offset, o.Next, len(o.Tries), o.Remark)
}
