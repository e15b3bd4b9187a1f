package scenarios

import "lockstep/node/client"

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
