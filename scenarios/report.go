package scenarios

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Verdict is how a run ended.
type Verdict string

// The verdicts. Everything but Pass fails a sweep.
const (
	Pass    Verdict = "pass"
	Fail    Verdict = "fail"    // a judge or an assertion of the drill found a breach
	Vacuous Verdict = "vacuous" // the run was too quiet to show anything
	Stale   Verdict = "stale"   // a plan's entries did not fire
	Broken  Verdict = "broken"  // the run itself could not be carried out
	// NotLive is a drill about something that only the simulator has; it was not run.
	NotLive Verdict = "not live"
)

// Report is one run in the schema of DRILLS.md; the simulator and the real
// processes write the same.
type Report struct {
	Seed             uint64           `json:"seed"`
	Drill            string           `json:"drill"`
	Host             string           `json:"host"` // "sim", "live", "pure", "process"
	Verdict          Verdict          `json:"verdict"`
	Reason           string           `json:"reason"` // first finding; "" on pass
	Findings         []string         `json:"findings,omitempty"`
	Assertions       []AssertionMade  `json:"assertions"`
	Hash             string           `json:"hash"`
	SimulatedSeconds float64          `json:"simulatedSeconds"`
	WallSeconds      float64          `json:"wallSeconds"`
	Events           uint64           `json:"events"`
	Sent             int              `json:"sent"`
	Acknowledged     int              `json:"acknowledged"`
	Unknown          int              `json:"unknown"`
	Refused          int              `json:"refused"`
	Lost             int              `json:"lost"`
	LossAllowed      int              `json:"lossAllowed"`
	Duplicates       int              `json:"duplicates"`
	Consumed         int              `json:"consumed"`
	ResultCodes      map[string]int   `json:"resultCodes"`
	RTOMillis        map[string]int64 `json:"rtoMillis"` // by stage, since the first fault; absent stages were not reached
	SendMillis       Latencies        `json:"sendMillis"`
	WriteGapMillis   int64            `json:"writeGapMillis"`   // longest time without an acknowledged send
	ConsumeGapMillis int64            `json:"consumeGapMillis"` // longest time without a delivery
	TruncatedBytes   int64            `json:"truncatedBytes"`
	Options          []Option         `json:"options"`
	Set              []Option         `json:"set,omitempty"` // those that the command line set
	Timeline         []TimelineEntry  `json:"timeline"`
	Roles            []RoleChange     `json:"roles"`
	Marks            map[string]int   `json:"marks,omitempty"`
	Pace             int64            `json:"pace,omitempty"`   // of a live run: seconds of the nodes in a real one
	Mapped           []string         `json:"mapped,omitempty"` // of a live run: how faults were carried out
	// StallMillis is the longest time, real, for which the computer held up the nodes of
	// a live run; Disturbed are earlier runs that failed by times alone and were held up
	// for too long to be judged.
	StallMillis int64       `json:"stallMillis,omitempty"`
	Disturbed   []string    `json:"disturbed,omitempty"`
	Unlike      bool        `json:"unlike,omitempty"` // the run was made twice and the two differ
	Answers     FourAnswers `json:"answers"`
}

// Option is one drawn option.
type Option struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// TimelineEntry is one fault beginning or ending, in T+ seconds of the run.
type TimelineEntry struct {
	At   float64 `json:"at"`
	What string  `json:"what"`
}

// RoleChange is one committed change of a group's master or set.
type RoleChange struct {
	At       float64 `json:"at"`
	Group    string  `json:"group"`
	Master   int64   `json:"master"`
	Epoch    int32   `json:"epoch"`
	SetEpoch int32   `json:"setEpoch"`
	Set      string  `json:"set"`
	Why      string  `json:"why,omitempty"`
}

// AssertionMade is one named assertion of the drill and how it came out.
type AssertionMade struct {
	Name   string `json:"name"`
	Holds  bool   `json:"holds"`
	Moot   bool   `json:"moot,omitempty"` // its premise did not come about: nothing was tested
	Detail string `json:"detail,omitempty"`
}

// Latencies of acknowledged sends, milliseconds, around the fault.
type Latencies struct {
	Before Percentiles `json:"before"`
	During Percentiles `json:"during"`
	After  Percentiles `json:"after"`
}

// Percentiles of one phase.
type Percentiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// FourAnswers are the questions of chapter 13.18: "a new master appeared" is not
// a verdict.
type FourAnswers struct {
	AckReached string `json:"ackReached"` // where did an acknowledgement reach
	CouldLead  string `json:"couldLead"`  // who could succeed
	WasCut     string `json:"wasCut"`     // was data cut
	TimeItems  string `json:"timeItems"`  // which time items made up the recovery
}

// WriteJSON writes the report as one object on one line.
func (r *Report) WriteJSON(w io.Writer) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("report of %s seed %d: %w", r.Drill, r.Seed, err)
	}
	if _, err := w.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// Repeat is the command that brings the run back, with everything that the command
// line said about it.
func (r *Report) Repeat() string {
	var b strings.Builder
	switch {
	case r.Unlike: // one run by itself may well pass
		fmt.Fprintf(&b, "go run ./cmd/drill sweep --drill %s --seeds %d..%d --twice 1", r.Drill, r.Seed, r.Seed)
	case r.Host == "live":
		fmt.Fprintf(&b, "go run ./cmd/drill live %s --seed %d", r.Drill, r.Seed)
	case r.Host == "process":
		return fmt.Sprintf("go run ./cmd/drill chaos --bin LOCKSTEP --client INTEROP --data EMPTY --seed %d", r.Seed)
	default:
		fmt.Fprintf(&b, "go run ./cmd/drill run %s --seed %d", r.Drill, r.Seed)
	}
	for _, o := range r.Set {
		fmt.Fprintf(&b, " --set %s=%s", o.Name, o.Value)
	}
	if r.Pace > 0 {
		fmt.Fprintf(&b, " --pace %d", r.Pace)
	}
	return b.String()
}

// Breach reports whether the run found something wrong, as against having been
// too quiet to find anything.
func (r *Report) Breach() bool { return r.Verdict == Fail || r.Verdict == Broken }
