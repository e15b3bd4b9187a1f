package controller

import (
	"cmp"
	"slices"
	"time"

	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/node"
	"lockstep/node/wire"
)

// notice is the leader's duty to tell one broker of an election (code 1008). It is
// level-triggered: it is repeated with growing pauses until the broker's heartbeat
// shows the epoch, so a lost notice costs a pause and not a poll interval.
type notice struct {
	id      ha.BrokerID
	session node.SessionID // dialled to the broker, 0 none
	up      bool
	at      node.Time // next copy not before
	pause   time.Duration
	opaque  int32
}

func (w *watch) notice(id ha.BrokerID) *notice {
	i, ok := slices.BinarySearchFunc(w.notices, id, func(n *notice, id ha.BrokerID) int { return cmp.Compare(n.id, id) })
	if !ok {
		w.notices = slices.Insert(w.notices, i, &notice{id: id})
	}
	return w.notices[i]
}

// settleNotices tells every live member whose heartbeat does not show the committed
// epoch yet, and ends the sessions of those who know.
func (c *Controller) settleNotices(now node.Now) {
	if !c.o.NotifyBrokerRoleChanged {
		return
	}
	for i := range c.state.Groups {
		rec := &c.state.Groups[i]
		if !rec.Elected() {
			continue
		}
		w := c.lead.watch(rec.Key)
		for j := range rec.Members {
			m := &rec.Members[j]
			o := c.registeredLife(rec.Key, m)
			if o == nil {
				continue
			}
			if o.epoch >= rec.Epoch || rec.Lost || c.silent(now.Mono, rec.Key, m) {
				c.endNotice(w, m.ID)
				continue
			}
			c.tell(now, rec, m, w.notice(m.ID))
		}
	}
}

// endNotice closes the session of a notice that is no longer due.
func (c *Controller) endNotice(w *watch, id ha.BrokerID) {
	i, ok := slices.BinarySearchFunc(w.notices, id, func(n *notice, id ha.BrokerID) int { return cmp.Compare(n.id, id) })
	if !ok {
		return
	}
	if s := w.notices[i].session; s != 0 {
		c.hangUp(s)
	}
	w.notices = slices.Delete(w.notices, i, i+1)
}

// tell dials the broker, or sends it a copy when one is due.
func (c *Controller) tell(now node.Now, rec *Record, m *Member, n *notice) {
	if now.Mono < n.at {
		return
	}
	if n.session == 0 {
		c.dials++
		n.session = node.Dialled | node.SessionID(c.dials)
		c.out.Dials = append(c.out.Dials, node.Dial{Session: n.session, Link: wire.Remoting, Addr: m.Addr})
		return
	}
	if !n.up {
		return
	}
	n.pause = min(max(2*n.pause, c.o.NotifyInterval), maxNotifyPause)
	n.at = now.Mono.Add(n.pause)
	n.opaque++
	h := wire.RoleChanged{
		MasterEpoch: rec.Epoch, SyncStateSetEpoch: rec.SetEpoch, MasterBrokerID: rec.Master, BrokerName: rec.Group, MasterView: c.view(rec),
	}
	if master := rec.member(rec.Master); master != nil {
		h.MasterAddress = master.Addr
	}
	c.out.Send(n.session, wire.Frame{Link: wire.Remoting, Body: setBody(rec), Head: wire.Head{
		Code: wire.ReqRoleChanged, Language: "GO", Version: protocolVersion, Opaque: n.opaque, Flag: wire.FlagOneway,
		Ext: wire.EncodeExt(h), Sealed: m.Store != "",
	}})
	c.emit(event.Event{Kind: event.RoleNotified, Group: rec.Group, Broker: m.ID, Epoch: rec.Epoch, SetEpoch: rec.SetEpoch})
}

// noticeOf finds the notice that dialled a session.
func (c *Controller) noticeOf(id node.SessionID) *notice {
	if c.lead == nil {
		return nil
	}
	for i := range c.state.Groups {
		for _, n := range c.lead.watch(c.state.Groups[i].Key).notices {
			if n.session == id {
				return n
			}
		}
	}
	return nil
}

func (c *Controller) noticeUp(id node.SessionID) {
	if n := c.noticeOf(id); n != nil {
		n.up = true
		return
	}
	c.hangUp(id) // its term is over
}

func (c *Controller) noticeDown(now node.Now, id node.SessionID) {
	if n := c.noticeOf(id); n != nil {
		n.session, n.up = 0, false
		n.at = max(n.at, now.Mono.Add(c.o.RedialPause))
	}
}
