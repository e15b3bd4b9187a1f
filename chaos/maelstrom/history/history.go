// Package history is what the clients of a Maelstrom run saw: one record an
// operation, with the order of its beginning and its end among all others.
package history

import (
	"slices"
	"sync"
	"time"
)

// Outcome is how an operation ended.
type Outcome uint8

// Outcomes. The zero value is an operation that still runs.
const (
	Running Outcome = iota
	OK              // it happened
	Fail            // it did not and never will
	Info            // it may have happened or may still happen
)

// String is the name Maelstrom prints.
func (o Outcome) String() string { return [...]string{"running", "ok", "fail", "info"}[o] }

// Never is the End of an operation that may act for ever.
const Never = int(^uint(0) >> 1)

// Names of operations.
const (
	Send      = "send"
	Poll      = "poll"
	Assign    = "assign"
	Crash     = "crash"
	Read      = "read"
	Write     = "write"
	CAS       = "cas"
	Broadcast = "broadcast"
	Echo      = "echo"
	Generate  = "generate"
)

// Pair is one message of a log with its offset.
type Pair struct{ Offset, Msg int64 }

// Op is one operation of one process. Which of the value fields are set depends
// on F; all are final once the operation is complete.
type Op struct {
	Index   int // order of invocation, from 0
	Thread  int
	Process int // logical process: replaced after Info
	Node    int
	F       string
	Final   bool // of the final phase, after everything was healed
	Type    Outcome
	Err     string

	Invoked   time.Duration // since the start of the run
	Completed time.Duration
	Begin     int // place of the invocation among all beginnings and ends
	End       int // place of the completion; Never while running or after Info

	Key    string // send: the log; lin-kv: the register
	Msg    int64  // send, broadcast: the message; write: the value; cas: the new value
	From   int64  // cas: the expected value
	Offset int64  // send: the offset that was answered
	Value  *int64 // read of lin-kv: the answer, nil for null

	Keys      []string         // assign
	Seek      bool             // assign: everything from offset 0
	Committed map[string]int64 // assign: the committed offsets that were answered
	Positions map[string]int64 // assign and poll: where each key was to be read from
	Fresh     map[string]bool  // poll: keys whose position does not come from an earlier poll
	Msgs      map[string][]Pair
	Commit    map[string]int64 // poll: what was committed after it
	CommitOK  Outcome          // how that commit ended; Running when there was none
	CommitAt  int              // its place among the beginnings

	Elements []int64 // read of broadcast
	Text     string  // echo: what was asked; generate: the id as JSON
	Answer   string  // echo: what came back
}

// Recorder gives operations their places. It is safe for concurrent use.
type Recorder struct {
	mu    sync.Mutex
	began time.Time
	place int
	ops   []*Op
}

// NewRecorder returns an empty history whose clock starts now.
func NewRecorder() *Recorder { return &Recorder{began: time.Now()} }

// Now is the time since the start of the run.
func (r *Recorder) Now() time.Duration { return time.Since(r.began) }

// Began is the moment the clock started.
func (r *Recorder) Began() time.Time { return r.began }

// Invoke enters an operation that is about to be sent.
func (r *Recorder) Invoke(op *Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	op.Index, op.Begin, op.End = len(r.ops), r.place, Never
	op.Invoked = r.Now()
	r.place++
	r.ops = append(r.ops, op)
}

// Place takes one place in the order, for a part of an operation.
func (r *Recorder) Place() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.place++
	return r.place - 1
}

// Complete ends an operation, whose Type has been set.
func (r *Recorder) Complete(op *Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	op.Completed = r.Now()
	if op.Type != Info {
		op.End = r.place
	}
	r.place++
}

// Ops is the history so far, in order of invocation. Call it when all operations
// are complete.
func (r *Recorder) Ops() []*Op {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ops)
}

// Len is the number of operations invoked.
func (r *Recorder) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ops)
}
