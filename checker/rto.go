package checker

import (
	"lockstep/internal/event"
	"lockstep/internal/ha"
)

// Stage is one part of a recovery (DESIGN 8).
type Stage string

// The stages in the order they follow each other.
const (
	Detect       Stage = "detect"       // fault → the controllers call the master silent
	Elect        Stage = "elect"        // → election committed
	ApplyRole    Stage = "applyRole"    // → the new master serves (own log, barrier)
	CatchUp      Stage = "catchUp"      // → the set is large enough again
	Route        Stage = "route"        // → a name server routes to it
	FirstSend    Stage = "firstSend"    // → first acknowledged send
	FirstConsume Stage = "firstConsume" // → first message of the new epoch consumed
)

// Stages lists all stages in order.
var Stages = []Stage{Detect, Elect, ApplyRole, CatchUp, Route, FirstSend, FirstConsume}

// Recovery measures one group's recovery from one fault: each stage is the time
// from the fault to the end of the stage, nanoseconds; absent when not reached.
type Recovery struct {
	Group string
	Fault int64
	Min   int // minInSyncReplicas
	epoch ha.MasterEpoch
	done  map[Stage]int64
}

// NewRecovery starts measuring at the fault, while epoch is in force.
func NewRecovery(group string, fault int64, epoch ha.MasterEpoch, min int) *Recovery {
	return &Recovery{Group: group, Fault: fault, Min: min, epoch: epoch, done: map[Stage]int64{}}
}

func (r *Recovery) reach(s Stage, at int64) {
	if _, ok := r.done[s]; !ok && at >= r.Fault {
		r.done[s] = at - r.Fault
	}
}

// See takes an event of world time.
func (r *Recovery) See(e event.Event) {
	if e.Group != r.Group {
		return
	}
	newer := e.Epoch > r.epoch
	switch {
	case e.Kind == event.BrokerSilent:
		r.reach(Detect, e.At)
	case e.Kind == event.Elected && newer:
		r.reach(Detect, e.At)
		r.reach(Elect, e.At)
		if len(e.Set) >= r.Min {
			r.reach(CatchUp, e.At)
		}
	case e.Kind == event.Serving && newer:
		r.reach(ApplyRole, e.At)
	case e.Kind == event.SetAltered && newer && len(e.Set) >= r.Min:
		r.reach(CatchUp, e.At)
	case e.Kind == event.RouteChanged && newer && e.Broker == 0:
		r.reach(Route, e.At)
	}
}

// Acknowledged notes a SEND_OK of an epoch.
func (r *Recovery) Acknowledged(epoch ha.MasterEpoch, at int64) {
	if epoch > r.epoch {
		r.reach(FirstSend, at)
	}
}

// Consumed notes a delivery that was stored in an epoch.
func (r *Recovery) Consumed(epoch ha.MasterEpoch, at int64) {
	if epoch > r.epoch {
		r.reach(FirstConsume, at)
	}
}

// Millis returns the stages reached, in milliseconds since the fault.
func (r *Recovery) Millis() map[Stage]int64 {
	out := make(map[Stage]int64, len(r.done))
	for s, d := range r.done {
		out[s] = d / 1e6
	}
	return out
}
