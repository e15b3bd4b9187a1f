package controller

import (
	"fmt"

	"lockstep/internal/ha"
)

// The first byte of an encoded State. A later version must keep reading the earlier
// ones. Registers came with the second, which is written only when there are some:
// a build that does not know them reads everything else.
const (
	stateVersion     = 1
	stateOfRegisters = 2
)

// encode lays the state out for a snapshot: equal states give equal bytes.
func (s *State) encode() []byte {
	w := writer{b: []byte{stateVersion}}
	if len(s.Registers) > 0 {
		w.b[0] = stateOfRegisters
	}
	w.text(s.Cluster)
	w.uint(uint64(len(s.Voters)))
	for _, v := range s.Voters {
		w.uint(v.RaftID)
		w.text(v.Node)
		w.text(string(v.Store))
	}
	w.uint(uint64(len(s.Groups)))
	for i := range s.Groups {
		w.record(&s.Groups[i])
	}
	w.uint(uint64(len(s.Tombs)))
	for _, t := range s.Tombs {
		w.key(t.Key)
		w.int(int64(t.Epoch))
		w.int(int64(t.SetEpoch))
	}
	if len(s.Registers) > 0 {
		w.uint(uint64(len(s.Registers)))
		for _, x := range s.Registers {
			w.text(x.Name)
			w.text(x.Value)
		}
	}
	return w.b
}

func (w *writer) record(r *Record) {
	w.key(r.Key)
	w.int(int64(r.NextID))
	w.int(int64(r.Master))
	w.member(r.MasterAt)
	w.int(int64(r.Epoch))
	w.int(int64(r.SetEpoch))
	w.ids(r.Set)
	w.ids(r.Retained)
	w.int(int64(r.MinInSync))
	w.int(int64(r.Floor))
	w.int(int64(r.Highest))
	w.bool(r.Lost)
	w.bool(r.Unclean)
	w.bool(r.Gated)
	w.uint(uint64(len(r.Members)))
	for i := range r.Members {
		w.memberRow(&r.Members[i])
	}
}

func (w *writer) memberRow(m *Member) {
	w.member(m.Incarnation())
	w.text(m.Addr)
	w.text(m.HAAddr)
	w.text(m.CheckCode)
	w.bool(m.Registered)
	w.fixed(m.Nonce)
	w.uint(uint64(m.BootFloor))
	w.bool(m.Reused)
	w.byte(byte(m.Claim))
	w.byte(byte(m.Class))
	w.bool(m.Learner)
	w.int(int64(m.Replicas))
	w.int(int64(m.MinInSync))
	w.int(int64(m.LastEpoch))
	w.int(int64(m.End))
	w.int(int64(m.Highest))
	w.int(int64(m.Priority))
	w.bool(m.Electable)
	w.text(m.Why)
	w.text(string(m.SetStore))
}

// decodeState is the inverse of encode.
func decodeState(b []byte) (State, error) {
	r := newReader(b)
	version := r.Byte()
	if r.Err == nil && version != stateVersion && version != stateOfRegisters {
		return State{}, fmt.Errorf("controller state has version %d, this build reads up to %d", version, stateOfRegisters)
	}
	s := State{Cluster: r.text()}
	for range r.count(maxControllers) {
		s.Voters = append(s.Voters, Voter{r.uint(), r.text(), ha.StoreID(r.text())})
	}
	for range r.count(maxGroups) {
		rec := r.record()
		if n := len(s.Groups); n > 0 && compareKeys(s.Groups[n-1].Key, rec.Key) >= 0 {
			r.Fail()
		}
		s.Groups = append(s.Groups, rec)
		if r.Err != nil {
			break
		}
	}
	for range r.count(maxGroups) {
		s.Tombs = append(s.Tombs, Tombstone{r.key(), ha.MasterEpoch(r.int32()), ha.SetEpoch(r.int32())})
	}
	if version == stateOfRegisters {
		s.Registers = r.registers()
	}
	if err := r.end("controller state"); err != nil {
		return State{}, err
	}
	for i := range s.Groups {
		if flaw := s.Groups[i].flaw(); flaw != "" {
			return State{}, fmt.Errorf("controller state: %s: %s", s.Groups[i].Key, flaw)
		}
	}
	return s, nil
}

func (r *reader) registers() (out []Register) {
	for range r.count(maxRegisters) {
		x := Register{r.text(), r.text()}
		if n := len(out); n > 0 && out[n-1].Name >= x.Name {
			r.Fail()
		}
		out = append(out, x)
	}
	if len(out) == 0 {
		r.Fail() // without registers the first version is written
	}
	return out
}

func (r *reader) record() Record {
	rec := Record{
		Key: r.key(), NextID: ha.BrokerID(r.Int()), Master: ha.BrokerID(r.Int()), MasterAt: r.member(),
		Epoch: ha.MasterEpoch(r.int32()), SetEpoch: ha.SetEpoch(r.int32()), Set: r.ids(), Retained: r.ids(),
		MinInSync: r.int32(), Floor: ha.LogOffset(r.Int()), Highest: ha.MasterEpoch(r.int32()),
		Lost: r.bool(), Unclean: r.bool(), Gated: r.bool(),
	}
	for range r.count(maxMembers) {
		m := r.memberRow()
		if n := len(rec.Members); n > 0 && rec.Members[n-1].ID >= m.ID {
			r.Fail()
		}
		if r.Err != nil {
			break
		}
		rec.Members = append(rec.Members, m)
	}
	return rec
}

func (r *reader) memberRow() Member {
	inc := r.member()
	m := Member{
		ID: inc.Broker, Store: inc.Store, Boot: inc.Boot, Addr: r.text(), HAAddr: r.text(), CheckCode: r.text(),
		Registered: r.bool(), Nonce: r.fixed(), BootFloor: ha.Boot(r.uint32()), Reused: r.bool(),
		Claim: ha.Claim(r.enum(byte(ha.ClaimBroken))), Class: ha.AckClass(r.enum(byte(ha.ClassDurable))), Learner: r.bool(),
		Replicas: r.int32(), MinInSync: r.int32(), LastEpoch: ha.MasterEpoch(r.int32()), End: ha.LogOffset(r.Int()),
		Highest: ha.MasterEpoch(r.int32()), Priority: r.int32(), Electable: r.bool(), Why: r.text(),
		SetStore: ha.StoreID(r.text()),
	}
	return m
}
