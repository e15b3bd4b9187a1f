package controller

import (
	"slices"

	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/node"
	"lockstep/node/wire"
)

// answerCommand answers the requester of an applied command.
func (c *Controller) answerCommand(now node.Now, p *proposal, out outcome) {
	var a answer
	switch cmd := p.cmd.(type) {
	case *applyID:
		a.ext = wire.EncodeExt(wire.ApplyBrokerIDResponse{ClusterName: cmd.key.Cluster, BrokerName: cmd.key.Group})
	case *register:
		a = c.registerAnswer(now, p.from, cmd, out)
	case *alter:
		if rec := c.state.group(cmd.key); rec != nil && out.ok() {
			a.ext = wire.EncodeExt(wire.AlterSyncStateSetResponse{NewSyncStateSetEpoch: rec.SetEpoch, MasterView: c.view(rec)})
			a.body = setBody(rec)
		}
	case *elect:
		if rec := c.state.group(cmd.key); rec != nil && (out.ok() || out.code == wire.CodeMasterStillExist) {
			a = c.electAnswer(now, rec, out.code, out.remark)
		}
	}
	a.code, a.remark = out.code, out.remark
	if !out.ok() {
		c.emit(event.Event{Kind: event.RequestRefused, Code: out.code, Count: int64(p.from.kind), Text: out.remark})
	}
	c.reply(p.from.session, p.from.frame, a)
}

// registerAnswer reports the record to a broker that registered, and takes its
// report as a first sign of life.
func (c *Controller) registerAnswer(now node.Now, r *read, cmd *register, out outcome) answer {
	rec := c.state.group(cmd.key)
	if rec == nil || !out.ok() {
		return answer{}
	}
	m := rec.member(cmd.id)
	k := memberKey{cmd.key, cmd.id}
	if o := c.registeredLife(cmd.key, m); o == nil {
		c.observe(now, r.session, k, observation{
			life: m.Incarnation(), report: cmd.report, priority: priorityOf(cmd.priority), notBefore: r.at.Add(-c.o.BrokerHeartbeatInterval),
		})
	}
	h := wire.RegisterToControllerResponse{ClusterName: cmd.key.Cluster, BrokerName: cmd.key.Group, MasterBrokerID: ha.NoBroker, MasterView: c.view(rec)}
	if m.Reused {
		h.BootFloor = m.BootFloor
	}
	// A newcomer must not become the slave of a corpse: no master unless it is alive.
	if master := rec.member(rec.Master); master != nil && !rec.Lost && c.lead != nil && !c.silent(now.Mono, rec.Key, master) {
		h.MasterBrokerID, h.MasterAddress, h.MasterEpoch, h.SyncStateSetEpoch = rec.Master, master.Addr, rec.Epoch, rec.SetEpoch
	}
	return answer{ext: wire.EncodeExt(h), body: setBody(rec)}
}

// electAnswer reports the record after an election, or the master that stays. The
// group's addresses are present on success only.
func (c *Controller) electAnswer(now node.Now, rec *Record, code int32, remark string) answer {
	h := wire.ElectMasterResponse{MasterBrokerID: rec.Master, MasterEpoch: rec.Epoch, SyncStateSetEpoch: rec.SetEpoch, MasterView: c.view(rec)}
	if m := rec.member(rec.Master); m != nil {
		h.MasterAddress = m.Addr
	}
	b := wire.ElectMasterBody{SyncStateSet: slices.Clone(rec.Set)}
	if code == wire.CodeSuccess {
		b.Group = &wire.BrokerMemberGroup{Cluster: rec.Cluster, BrokerName: rec.Group, BrokerAddrs: map[int64]string{}}
		for i := range rec.Members {
			b.Group.BrokerAddrs[int64(rec.Members[i].ID)] = rec.Members[i].Addr
		}
	}
	return answer{code: code, remark: remark, ext: wire.EncodeExt(h), body: wire.MarshalBody(b)}
}

// view is what every answer and notice about a master carries.
func (c *Controller) view(rec *Record) wire.MasterView {
	v := wire.MasterView{
		MinInSync: rec.MinInSync, Floor: rec.Floor, Unclean: rec.Unclean, Retained: rec.electableRetained(), Term: c.term,
	}
	if rec.Elected() {
		v.Store, v.Boot = rec.MasterAt.Store, rec.MasterAt.Boot
	}
	if m := rec.member(rec.Master); m != nil {
		v.HAAddress = m.HAAddr
	}
	for i := range rec.Members {
		if m := &rec.Members[i]; m.Registered && m.Store != "" {
			v.Members = append(v.Members, m.Incarnation())
		}
	}
	return v
}

func setBody(rec *Record) []byte {
	return wire.MarshalBody(wire.SyncStateSetBody{SyncStateSet: slices.Clone(rec.Set), SyncStateSetEpoch: rec.SetEpoch})
}
