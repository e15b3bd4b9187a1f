package controller

import (
	"fmt"

	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/node"
)

// settleElections looks at every group: level-triggered, so that no missed moment
// leaves a group without a master. Silence of masters is only looked for at the scan
// interval; everything else at once.
func (c *Controller) settleElections(now node.Now) (acted bool) {
	scan := now.Mono >= c.lead.nextScan
	if scan {
		c.lead.nextScan = now.Mono.Add(c.o.ScanNotActiveBrokerInterval)
	}
	for i := range c.state.Groups {
		rec := &c.state.Groups[i]
		w := c.lead.watch(rec.Key)
		c.watchMaster(now, rec, w, scan)
		acted = c.consider(now, rec, w) || acted
	}
	return acted
}

// watchMaster follows whether the master is silent. A sign of life ends the silence
// at once; it begins only when a scan, or a request to elect, looks.
func (c *Controller) watchMaster(now node.Now, rec *Record, w *watch, look bool) {
	m := rec.member(rec.Master)
	if m == nil {
		return
	}
	silent := c.silent(now.Mono, rec.Key, m)
	if silent && look && !w.silent {
		w.silent = true
		c.emit(event.Event{Kind: event.BrokerSilent, Group: rec.Group, Broker: m.ID})
	}
	if !silent {
		w.silent = false
	}
	// A master that stops says so while it drains: that is no reason to hurry. One that
	// goes on saying it is replaced like a silent one.
	o := c.registeredLife(rec.Key, m)
	w.unready = o != nil && o.unready > 0 && now.Mono > o.unready.Add(o.timeout)
}

// need says why the group needs an election, and whom to leave out; "" for none.
func (c *Controller) need(rec *Record, w *watch) (cause string, exclude ha.BrokerID) {
	if !rec.Elected() {
		if rec.registered() == 0 {
			return "", ha.NoBroker
		}
		return "first election", ha.NoBroker
	}
	m := rec.member(rec.Master)
	o := c.registeredLife(rec.Key, m)
	switch {
	case rec.Lost:
		return "the master restarted", ha.NoBroker
	case w.silent:
		return "the master is silent", ha.NoBroker
	case w.fenced == (ha.Authority{Broker: rec.Master, Epoch: rec.Epoch}):
		if o != nil && o.handOver {
			return "the master hands over", rec.Master
		}
		return "the master gave up its authority", ha.NoBroker
	case w.unready:
		return "the master's store may not be promoted", ha.NoBroker
	}
	return "", ha.NoBroker
}

// consider proposes an election where one is needed and possible, or notes why it is
// not. It reports whether it proposed.
func (c *Controller) consider(now node.Now, rec *Record, w *watch) bool {
	cause, exclude := c.need(rec, w)
	if cause == "" {
		w.blocked = ""
		return false
	}
	if w.electing != 0 {
		return false
	}
	e, why := c.prepare(now, rec, w, cause, exclude)
	if why != "" {
		c.block(rec, w, why, e != nil)
		return false
	}
	return c.proposeElection(now, rec, w, e, nil)
}

// prepare builds the election command from what is known now. why says what it has
// to wait for; with a command it is why nobody would win.
func (c *Controller) prepare(now node.Now, rec *Record, w *watch, cause string, exclude ha.BrokerID) (e *elect, why string) {
	over, since := c.leaseOver(now.Mono, rec, w)
	if !over {
		return nil, cause + ": waiting for its lease to end"
	}
	if why := c.awaitFirst(now, rec, w); why != "" {
		return nil, why
	}
	e = &elect{
		key: rec.Key, base: rec.Epoch, exclude: exclude, designated: ha.NoBroker, cause: cause,
		unclean: c.o.EnableElectUncleanMaster, unknownReady: c.o.ElectUnknownReadiness,
		gated: c.o.leaseOf(rec.Group) != LeaseOff || !rec.Elected(),
	}
	var late ha.IDs
	e.candidates, late = c.candidates(now.Mono, rec, since)
	if len(late) > 0 && now.Mono < since.Add(3*c.o.BrokerHeartbeatInterval) {
		return nil, fmt.Sprintf("%s: waiting for a report of %v sent after the lease ended", cause, late)
	}
	if ch := e.choose(rec); ch.winner == nil {
		return e, ch.why
	}
	return e, ""
}

// candidates are the members heard from whose newest report was sent at or after
// since; late are live members of the history without such a report.
func (c *Controller) candidates(now node.Time, rec *Record, since node.Time) (out []candidate, late ha.IDs) {
	for i := range rec.Members {
		m := &rec.Members[i]
		o := c.registeredLife(rec.Key, m)
		if o == nil || c.silent(now, rec.Key, m) {
			continue
		}
		if o.notBefore < since {
			if rec.history().Has(m.ID) {
				late = append(late, m.ID)
			}
			continue
		}
		out = append(out, candidate{
			life: o.life, ready: o.report.ready, lastEpoch: o.report.lastEpoch, end: o.report.end,
			highest: max(o.report.highest, o.epoch), priority: o.priority,
		})
	}
	return out, late
}

// awaitFirst holds back the first election of a group until all its replicas are
// registered and heard from, or a wait is over: whoever comes first may be empty while
// the data comes second.
func (c *Controller) awaitFirst(now node.Now, rec *Record, w *watch) string {
	if rec.Elected() {
		return ""
	}
	if w.firstAt == 0 {
		w.firstAt = max(now.Mono, 1)
	}
	heard := 0
	for i := range rec.Members {
		if m := &rec.Members[i]; !m.Learner && c.registeredLife(rec.Key, m) != nil {
			heard++
		}
	}
	if n := rec.replicas(); heard < max(n, 1) && now.Mono < w.firstAt.Add(c.o.FirstElectionWait) {
		return fmt.Sprintf("first election: waiting for %d replicas, %d are here", max(n, 1), heard)
	}
	return ""
}

// block notes why a needed election does not happen; a failed one is announced once a
// reason. The epoch is not raised: the old master, if it comes back, may go on.
func (c *Controller) block(rec *Record, w *watch, why string, failed bool) {
	if w.blocked == why {
		return
	}
	w.blocked = why
	if failed {
		c.emit(event.Event{Kind: event.ElectionFailed, Group: rec.Group, Epoch: rec.Epoch, Text: why})
	}
}

// proposeElection writes the command to the log. While it has no result no lease of
// the old authority is granted, also after the requester was told "unknown".
func (c *Controller) proposeElection(now node.Now, rec *Record, w *watch, e *elect, from *read) bool {
	seq, ok := c.propose(now, e, from)
	if ok {
		w.electing, w.blocked = seq, ""
	}
	return ok
}
