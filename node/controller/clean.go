package controller

import (
	"slices"

	"lockstep/internal/ha"
	"lockstep/node/wire"
)

// clean forgets members, or with no ids the whole group, whose epochs then live on
// in a tombstone: a group of the same name continues above them. Unlike Java it
// never removes a member that may hold acknowledged data while the group stays.
type clean struct {
	key    Key
	ids    ha.IDs
	living bool   // also while members are alive
	alive  ha.IDs // members not proven silent when it was proposed
}

func (c *clean) kind() commandKind { return kindClean }

func (c *clean) put(w *writer) {
	w.key(c.key)
	w.ids(c.ids)
	w.bool(c.living)
	w.ids(c.alive)
}

func readClean(r *reader) *clean {
	return &clean{key: r.key(), ids: r.ids(), living: r.bool(), alive: r.ids()}
}

func (c *clean) apply(s *State) outcome {
	i, ok := s.find(c.key)
	if !ok {
		return refused(wire.CodeInvalidCleanBrokerData, "broker group %s is unknown", c.key)
	}
	rec := &s.Groups[i]
	for _, id := range c.alive {
		if !c.living && rec.member(id) != nil && (len(c.ids) == 0 || c.ids.Has(id)) {
			return refused(wire.CodeInvalidCleanBrokerData, "broker %d of %s is alive", id, c.key)
		}
	}
	if len(c.ids) > 0 {
		return c.cleanMembers(rec)
	}
	if len(s.Tombs) >= maxGroups {
		return refused(wire.CodeInvalidCleanBrokerData, "%d cleaned groups are remembered already, the limit", maxGroups)
	}
	t := Tombstone{c.key, max(rec.Epoch, rec.Highest), rec.SetEpoch}
	s.Groups = slices.Delete(s.Groups, i, i+1)
	s.Tombs = slices.DeleteFunc(s.Tombs, func(t Tombstone) bool { return t.Key == c.key })
	at, _ := slices.BinarySearchFunc(s.Tombs, c.key, func(t Tombstone, k Key) int { return compareKeys(t.Key, k) })
	s.Tombs = slices.Insert(s.Tombs, at, t)
	return outcome{}
}

func (c *clean) cleanMembers(rec *Record) outcome {
	for _, id := range c.ids {
		switch {
		case rec.member(id) == nil:
			return refused(wire.CodeInvalidCleanBrokerData, "broker %d of %s is unknown", id, c.key)
		case rec.history().Has(id):
			return refused(wire.CodeInvalidCleanBrokerData, "broker %d of %s is in the set or may hold acknowledged data", id, c.key)
		}
	}
	rec.Members = slices.DeleteFunc(rec.Members, func(m Member) bool { return c.ids.Has(m.ID) })
	return outcome{}
}
