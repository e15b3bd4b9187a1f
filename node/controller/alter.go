package controller

import (
	"slices"

	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/node/wire"
)

// alter replaces the SyncStateSet (code 1001). It is a conditional write on
// (master, its life, master epoch, set epoch); a set equal to the stored one is
// allowed and raises the set epoch, which is how a master ends an unresolved
// proposal (P3).
type alter struct {
	key       Key
	master    ha.BrokerID
	store     ha.StoreID // the master's own life
	boot      ha.Boot
	epoch     ha.MasterEpoch
	base      ha.SetEpoch
	set       ha.IDs
	members   []ha.Incarnation // the life of each proposed member (P2)
	floor     ha.LogOffset     // the master's confirm offset
	minInSync int32            // the master's floor; 0 leaves the committed one
	alive     ha.IDs           // members not proven silent when it was proposed
}

func (c *alter) kind() commandKind { return kindAlter }

func (c *alter) put(w *writer) {
	w.key(c.key)
	w.int(int64(c.master))
	w.text(string(c.store))
	w.uint(uint64(c.boot))
	w.int(int64(c.epoch))
	w.int(int64(c.base))
	w.ids(c.set)
	w.uint(uint64(len(c.members)))
	for _, m := range c.members {
		w.member(m)
	}
	w.int(int64(c.floor))
	w.int(int64(c.minInSync))
	w.ids(c.alive)
}

func readAlter(r *reader) *alter {
	c := &alter{
		key: r.key(), master: ha.BrokerID(r.Int()), store: ha.StoreID(r.text()), boot: ha.Boot(r.uint32()),
		epoch: ha.MasterEpoch(r.int32()), base: ha.SetEpoch(r.int32()), set: r.ids(),
	}
	for range r.count(maxMembers) {
		c.members = append(c.members, r.member())
	}
	c.floor, c.minInSync, c.alive = ha.LogOffset(r.Int()), r.int32(), r.ids()
	return c
}

func (c *alter) apply(s *State) outcome {
	rec := s.group(c.key)
	out := c.fence(rec)
	if out.ok() {
		out = c.checkMembers(rec)
	}
	if !out.ok() {
		return out.with(event.Event{Kind: event.AlterRefused, Group: c.key.Group, Broker: c.master, Epoch: c.epoch, SetEpoch: c.base, Set: c.set, Code: out.code, Text: out.remark})
	}
	c.commit(rec)
	return out.with(event.Event{
		Kind: event.SetAltered, Group: c.key.Group, Broker: rec.Master, Epoch: rec.Epoch, SetEpoch: rec.SetEpoch, Set: slices.Clone(rec.Set), Off: rec.Floor,
	})
}

// fence compares the request with the stored authority, before anything else: a
// deposed master must hear that it is deposed, whatever it asks for (HA contracts
// 6.4; Java answers 2013 first when the sets are equal).
func (c *alter) fence(rec *Record) outcome {
	switch {
	case c.epoch <= 0 || c.base < 0:
		return refused(wire.CodeInvalidRequest, "master epoch %d and set epoch %d must be positive", c.epoch, c.base)
	case !c.set.Has(c.master):
		return refused(wire.CodeAlterSetFailed, "the set %v does not contain its master %d", c.set, c.master)
	case rec == nil:
		return refused(wire.CodeAlterSetFailed, "broker group %s is unknown", c.key)
	case rec.Master != c.master:
		return refused(wire.CodeInvalidMaster, "the master of %s is %d, not %d", c.key, rec.Master, c.master)
	case rec.Lost || rec.MasterAt != (ha.Incarnation{Broker: c.master, Store: c.store, Boot: c.boot}):
		return refused(wire.CodeInvalidMaster, "the authority of %s belongs to %s; a restarted master needs a new epoch", c.key, rec.MasterAt)
	case rec.Epoch != c.epoch:
		return refused(wire.CodeFencedMasterEpoch, "the master epoch of %s is %d, not %d", c.key, rec.Epoch, c.epoch)
	case rec.SetEpoch != c.base:
		return refused(wire.CodeFencedSetEpoch, "the set epoch of %s is %d, not %d", c.key, rec.SetEpoch, c.base)
	}
	return outcome{}
}

// checkMembers checks each proposed member in order: known, this very life, alive.
func (c *alter) checkMembers(rec *Record) outcome {
	for _, id := range c.set {
		m := rec.member(id)
		switch {
		case m == nil || !m.Registered:
			return refused(wire.CodeInvalidReplicas, "broker %d of %s is not registered", id, c.key)
		case m.Learner:
			return refused(wire.CodeInvalidReplicas, "broker %d of %s is a learner", id, c.key)
		case m.Store != "" && !slices.Contains(c.members, m.Incarnation()):
			return refused(wire.CodeInvalidReplicas, "broker %d of %s is registered as %s; the request names another life or none", id, c.key, m.Incarnation())
		case m.Reused:
			return refused(wire.CodeInvalidReplicas, "broker %d repeats boot %d of its store: it must raise its boot above %d and register again", id, m.Boot, m.BootFloor)
		case id != c.master && !c.alive.Has(id):
			return refused(wire.CodeBrokerNotAlive, "broker %d of %s is not alive", id, c.key)
		}
	}
	return outcome{}
}

func (c *alter) commit(rec *Record) {
	removed := rec.history()
	if c.minInSync > 0 {
		if c.minInSync < rec.MinInSync {
			// A lower floor lets confirm move with fewer replicas than the retained members
			// were promised: they stop being safe to elect (P6).
			rec.Retained = nil
			removed = nil
		}
		rec.MinInSync = c.minInSync
	}
	for _, id := range c.set {
		m := rec.member(id)
		m.Electable, m.Why, m.SetStore = true, "", m.Store
		removed = removed.Without(id)
	}
	rec.Retained = nil
	if int32(len(c.set)) < rec.MinInSync {
		rec.Retained = removed
	}
	rec.Set = slices.Clone(c.set)
	rec.SetEpoch++
	rec.Floor = max(rec.Floor, c.floor)
}
