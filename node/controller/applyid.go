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
	return &applyID{key: r.key(), id: ha.BrokerID(r.Int()), checkCode: r.text()}
}

func (c *applyID) apply(s *State) outcome {
	rec := s.group(c.key)
	if rec != nil {
		if m := rec.member(c.id); m != nil && m.CheckCode == c.checkCode {
			return outcome{} // the answer of the first application was lost
		}
	}
	if out := c.room(s, rec); !out.ok() {
		return out
	}
	if rec == nil {
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

// room refuses an id that is taken, impossible or one too many.
func (c *applyID) room(s *State, rec *Record) outcome {
	total := 0
	for i := range s.Groups {
		total += len(s.Groups[i].Members)
	}
	switch {
	case c.id < 1 || c.id > 1<<31-1:
		return refused(wire.CodeBrokerIDInvalid, "broker id %d: ids are 1 to %d", c.id, 1<<31-1)
	case rec != nil && rec.member(c.id) != nil:
		return refused(wire.CodeBrokerIDInvalid, "broker id %d of %s is taken by %s", c.id, c.key, rec.member(c.id).Addr)
	case rec != nil && len(rec.Members) >= maxMembers:
		return refused(wire.CodeBrokerIDInvalid, "%s has %d members already, the limit", c.key, maxMembers)
	case rec == nil && len(s.Groups) >= maxGroups:
		return refused(wire.CodeBrokerIDInvalid, "there are %d broker groups already, the limit", maxGroups)
	case total >= maxBrokers:
		return refused(wire.CodeBrokerIDInvalid, "there are %d brokers already, the limit", maxBrokers)
	}
	return outcome{}
}
