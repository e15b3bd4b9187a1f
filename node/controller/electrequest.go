package controller

import (
	"lockstep/internal/ha"
	"lockstep/node"
	"lockstep/node/wire"
)

// electRequest handles code 1002: a broker that finds no master, or an operator that
// names one. It waits for a barrier, so that the answer is about the present record.
func (c *Controller) electRequest(now node.Now, id node.SessionID, f *wire.Frame) {
	var h wire.ElectMasterRequest
	if !c.decode(id, f, &h) || !c.checkNames(id, f, h.BrokerName) {
		return
	}
	c.queueRead(now, &read{session: id, frame: f, kind: f.Head.Code, key: Key{h.ClusterName, h.BrokerName}, elect: &h})
}

// electAfterBarrier decides what an elect request gets: the present master, an
// election, or why there is none now.
func (c *Controller) electAfterBarrier(now node.Now, r *read) {
	h := r.elect
	k, err := c.state.resolve(r.key)
	if err != nil {
		c.refuse(r.session, r.frame, wire.CodeInvalidRequest, "%v", err)
		return
	}
	rec := c.state.group(k)
	if rec == nil {
		c.refuse(r.session, r.frame, wire.CodeBrokerNeedsRegister, "broker group %s is unknown: register first", k)
		return
	}
	r.key = k
	if m := rec.member(h.BrokerID); h.BrokerID != ha.NoBroker && (m == nil || !m.Registered) {
		c.refuse(r.session, r.frame, wire.CodeBrokerNeedsRegister, "broker %d of %s is not registered: register first", h.BrokerID, k)
		return
	}
	w := c.lead.watch(k)
	if h.DesignateElect {
		c.designate(now, r, rec, w)
		return
	}
	c.watchMaster(now, rec, w, true)
	cause, exclude := c.need(rec, w)
	switch {
	case cause == "":
		c.reply(r.session, r.frame, c.electAnswer(now, rec, wire.CodeMasterStillExist, "the master is alive"))
	case w.electing != 0:
		c.electRefused(r, "an election is under way: ask again")
	default:
		e, why := c.prepare(now, rec, w, cause, exclude)
		if why != "" {
			c.block(rec, w, why, e != nil)
			c.electRefused(r, why)
			return
		}
		c.proposeElection(now, rec, w, e, r)
	}
}

// electRefused answers that nobody was elected: nothing changed.
func (c *Controller) electRefused(r *read, why string) {
	code := wire.CodeElectMasterFailed
	if r.elect.BrokerID == ha.NoBroker {
		code = wire.CodeMasterNotAvailable
	}
	c.refuse(r.session, r.frame, code, "%s", why)
}

// designate serves an operator's choice. While the present master may still hold a
// lease it is refused with the way to go: stopping the master hands over without a
// wait.
func (c *Controller) designate(now node.Now, r *read, rec *Record, w *watch) {
	id := r.elect.BrokerID
	if rec.Elected() && rec.Master == id && !rec.Lost {
		c.reply(r.session, r.frame, c.electAnswer(now, rec, wire.CodeMasterStillExist, "it is the master"))
		return
	}
	over, since := c.leaseOver(now.Mono, rec, w)
	switch {
	case w.electing != 0:
		c.electRefused(r, "an election is under way: ask again")
		return
	case !over:
		c.electRefused(r, "the present master may still hold a lease: stop it, it hands over before it exits")
		return
	}
	e := &elect{
		key: rec.Key, base: rec.Epoch, exclude: ha.NoBroker, designated: id, cause: "designated",
		unclean: c.o.EnableElectUncleanMaster, unknownReady: c.o.ElectUnknownReadiness,
		gated: c.o.leaseOf(rec.Group) != LeaseOff || !rec.Elected(),
	}
	e.candidates, _ = c.candidates(now.Mono, rec, since)
	if ch := e.choose(rec); ch.winner == nil {
		c.electRefused(r, ch.why)
		return
	}
	c.proposeElection(now, rec, w, e, r)
}
