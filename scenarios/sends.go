package scenarios

import (
	"fmt"

	"lockstep/node/client"
)

// sendEnded is how a client's send ended, for drills that ask who answered.
type sendEnded struct {
	at     int64
	status client.Status
	code   int32
	group  string // of the last try
	addr   string // of the last try
	tried  string // group of the first try
	free   bool   // it might go to any group
}

// recordEnds keeps how each send of the run ends; Begin calls it.
func (r *Run) recordEnds() {
	r.Load.OnDone = func(o *client.Outcome, at int64) {
		e := sendEnded{at: at, status: o.Status, code: o.Code, group: o.Broker, free: r.Load.Free[o.Key]}
		if n := len(o.Tries); n > 0 {
			e.addr, e.tried = o.Tries[n-1].Addr, o.Tries[0].Broker
		}
		r.sends = append(r.sends, e)
	}
}

// onlyUnknown finds a send to group a that ended in the interval and was told success
// or failure; some must have ended.
func (r *Run) onlyUnknown(from, to int64) string {
	unknown := 0
	for i := range r.sends {
		e := &r.sends[i]
		switch {
		case e.group != GroupName(0) || e.at < from || e.at > to:
		case e.status != client.Unknown:
			return fmt.Sprintf("a send ends %v with code %d at %s", e.status, e.code, at(e.at))
		default:
			unknown++
		}
	}
	if unknown == 0 {
		return "no send ended"
	}
	return ""
}
