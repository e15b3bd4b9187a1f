package controller

import (
	"cmp"
	"slices"
	"strings"

	"lockstep/internal/ha"
	"lockstep/node/wire"
)

// applyID asks for a broker id (code 1013). It is idempotent: the check code
// tells a repeated application from a second broker that wants the same id, so a
// lost answer burns no id.
type applyID struct {
	key       Key
	id        ha.BrokerID
	checkCode string // "address;timestamp"
}

func (c *applyID) kind() commandKind { return kindApplyID }

func (c *applyID) put(w *writer) {
	w.key(c.key)
	w.int(int64(c.id))
	w.text(c.checkCode)
}

func readApplyID(r *reader) *applyID {
	return &applyID{key: r.key(), id: ha.BrokerID(r.int()), checkCode: r.text()}
}

func (c *applyID) apply(s *State) outcome {
	rec := s.group(c.key)
	if c.id < 1 || c.id > 1<<31-1 {
		return refused(wire.CodeBrokerIDInvalid, "broker id %d: ids are 1 to %d", c.id, 1<<31-1)
	}
	if rec != nil {
		if m := rec.member(c.id); m != nil {
			if m.CheckCode == c.checkCode {
				return outcome{} // the answer of the first application was lost
			}
			return refused(wire.CodeBrokerIDInvalid, "broker id %d of %s is taken by %s", c.id, c.key, m.Addr)
		}
		if len(rec.Members) >= maxMembers {
			return refused(wire.CodeBrokerIDInvalid, "%s has %d members already, the limit", c.key, maxMembers)
		}
	} else {
		if len(s.Groups) >= maxGroups {
			return refused(wire.CodeBrokerIDInvalid, "there are %d broker groups already, the limit: clean unused ones", maxGroups)
		}
		// Java accepts only id 1 for a new group. Any free id is right here: after the
		// controllers lost their data the brokers still hold their ids (P17).
		rec = s.create(c.key)
	}
	addr, _, _ := strings.Cut(c.checkCode, ";")
	at, _ := slices.BinarySearchFunc(rec.Members, c.id, func(m Member, id ha.BrokerID) int { return cmp.Compare(m.ID, id) })
	rec.Members = slices.Insert(rec.Members, at, Member{ID: c.id, Addr: addr, CheckCode: c.checkCode})
	rec.NextID = max(rec.NextID, c.id+1)
	return outcome{}
}
