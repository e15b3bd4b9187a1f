package controller

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lockstep/internal/ha"
	"lockstep/node/wire"
)

// drawCommand draws a command that is plausible for the state: sometimes right,
// sometimes stale.
func drawCommand(t *rapid.T, s *State) command {
	id := ha.BrokerID(rapid.IntRange(1, 4).Draw(t, "id"))
	rec := s.group(gKey)
	kind := rapid.IntRange(0, 11).Draw(t, "kind")
	if kind > 9 {
		name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
		value := rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "value")
		if kind == 10 {
			return &writeRegister{name, value}
		}
		return &swapRegister{name, rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "expected"), value}
	}
	if rec == nil || kind == 0 {
		return &applyID{gKey, id, rapid.SampledFrom([]string{"a:1;1", "b:1;1"}).Draw(t, "check")}
	}
	life := func(m *Member) ha.Incarnation {
		l := m.Incarnation()
		if rapid.IntRange(0, 9).Draw(t, "stale") == 0 {
			l.Boot++
		}
		return l
	}
	switch {
	case kind <= 3:
		m := rec.member(id)
		boot := ha.Boot(1)
		if m != nil {
			boot = m.Boot + ha.Boot(rapid.IntRange(0, 2).Draw(t, "boot"))
		}
		return &register{key: gKey, id: id, addr: "x:1", alive: rapid.Bool().Draw(t, "alive"), report: report{
			store: ha.StoreID(rapid.SampledFrom([]string{"s", "s", "s", "t"}).Draw(t, "store")), boot: boot,
			nonce: rapid.Uint64Range(0, 1).Draw(t, "nonce"), claim: ha.Claim(rapid.IntRange(0, 2).Draw(t, "claim")), ready: wire.ReadyYes,
			lastEpoch: rec.Epoch, highest: rec.Epoch + ha.MasterEpoch(rapid.IntRange(0, 2).Draw(t, "highest")),
			end: ha.LogOffset(rapid.IntRange(0, 50).Draw(t, "end")), minInSync: int32(rapid.IntRange(1, 3).Draw(t, "min")), replicas: 3,
		}}
	case kind <= 6:
		c := &alter{
			key: gKey, master: rec.Master, store: rec.MasterAt.Store, boot: rec.MasterAt.Boot, epoch: rec.Epoch,
			base: rec.SetEpoch - ha.SetEpoch(rapid.IntRange(0, 1).Draw(t, "base")), floor: ha.LogOffset(rapid.IntRange(0, 50).Draw(t, "floor")),
			minInSync: int32(rapid.IntRange(0, 3).Draw(t, "min")), alive: ha.NewIDs(1, 2, 3, 4), set: ha.NewIDs(rec.Master),
		}
		for i := range rec.Members {
			if m := &rec.Members[i]; rapid.Bool().Draw(t, "in") {
				c.set = c.set.With(m.ID)
			}
			c.members = append(c.members, life(&rec.Members[i]))
		}
		return c
	case kind <= 8:
		c := &elect{key: gKey, base: rec.Epoch - ha.MasterEpoch(rapid.IntRange(0, 1).Draw(t, "base")), exclude: ha.NoBroker, designated: ha.NoBroker,
			unclean: rapid.IntRange(0, 5).Draw(t, "unclean") == 0, gated: true}
		for i := range rec.Members {
			if rapid.Bool().Draw(t, "heard") {
				c.candidates = append(c.candidates, candidate{life: life(&rec.Members[i]), ready: wire.ReadyYes, lastEpoch: rec.Epoch, end: ha.LogOffset(rapid.IntRange(0, 60).Draw(t, "end"))})
			}
		}
		return c
	}
	return &clean{key: gKey, ids: ha.NewIDs(id), living: rapid.Bool().Draw(t, "living")}
}

// TestStateProperties: whatever commands are applied in whatever order, a refused one
// changes nothing, epochs and set epochs never go down and rise exactly with visible
// changes, a broken member is never elected cleanly, commands and states survive
// their encodings, and two controllers that apply the same bytes agree.
func TestStateProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s, twin State
		for range rapid.IntRange(1, 40).Draw(t, "n") {
			cmd := drawCommand(t, &s)
			data := encodeCommand(origin{1, 2, 3}, cmd)
			_, again, err := decodeCommand(data)
			if err != nil {
				t.Fatalf("%T does not decode: %v", cmd, err)
			}
			before := s.encode()
			var old Record
			if r := s.group(gKey); r != nil {
				old = r.clone()
			}
			out := s.apply(cmd)
			twin.apply(again)
			after := s.encode()
			if !bytes.Equal(after, twin.encode()) {
				t.Fatalf("%T: two controllers differ", cmd)
			}
			back, err := decodeState(after)
			if err != nil || !bytes.Equal(back.encode(), after) {
				t.Fatalf("state does not survive its encoding: %v", err)
			}
			if !out.ok() {
				if !bytes.Equal(before, after) {
					t.Fatalf("%T was refused (%s) and changed the state", cmd, out.remark)
				}
				continue
			}
			if r := s.group(gKey); r != nil {
				checkStep(t, cmd, &old, r)
			}
		}
	})
}

func checkStep(t *rapid.T, cmd command, old, r *Record) {
	if r.Epoch < old.Epoch || r.SetEpoch < old.SetEpoch {
		t.Fatalf("%T: epoch %d after %d, set epoch %d after %d", cmd, r.Epoch, old.Epoch, r.SetEpoch, old.SetEpoch)
	}
	visible := r.Master != old.Master && old.Key != Key{} && old.Elected() || !r.Set.Equal(old.Set)
	switch c := cmd.(type) {
	case *elect:
		if r.Epoch <= old.Epoch || r.SetEpoch != old.SetEpoch+1 || len(r.Set) != 1 {
			t.Fatalf("election: %s", cmp.Diff(*old, *r))
		}
		m := old.member(r.Master)
		if !r.Unclean && old.Elected() && !(m.Electable && old.history().Has(m.ID)) {
			t.Fatalf("a clean election chose %+v", m)
		}
		if !c.unclean && r.Unclean && len(c.candidates) < len(old.history()) {
			t.Fatal("all-back without everybody")
		}
	case *alter:
		if r.Epoch != old.Epoch || r.SetEpoch != old.SetEpoch+1 || r.Master != old.Master {
			t.Fatalf("alter: %s", cmp.Diff(*old, *r))
		}
	default:
		if visible || r.Epoch != old.Epoch || r.SetEpoch != old.SetEpoch {
			t.Fatalf("%T changed what only elections and alters may: %s", cmd, cmp.Diff(*old, *r))
		}
	}
}

// FuzzCommand: no command of any bytes panics the decoder, and what it accepts can be
// applied and encodes to the same bytes.
func FuzzCommand(f *testing.F) {
	o := origin{1, 2, 3}
	f.Add(encodeCommand(o, &applyID{gKey, 1, "a:1;2"}))
	f.Add(encodeCommand(o, &register{key: gKey, id: 1, addr: "a", report: report{store: "s", boot: 1}}))
	f.Add(encodeCommand(o, &alter{key: gKey, master: 1, set: ha.NewIDs(1, 2), members: []ha.Incarnation{{Broker: 1, Store: "s", Boot: 2}}}))
	f.Add(encodeCommand(o, &elect{key: gKey, candidates: []candidate{{life: ha.Incarnation{Broker: 1, Store: "s", Boot: 1}, end: 9}}}))
	f.Add(encodeCommand(o, &clean{key: gKey, ids: ha.NewIDs(1)}))
	f.Fuzz(func(t *testing.T, b []byte) {
		from, c, err := decodeCommand(b)
		if err != nil {
			return
		}
		again := encodeCommand(from, c)
		from2, c2, err := decodeCommand(again)
		if err != nil || from2 != from || !bytes.Equal(encodeCommand(from2, c2), again) {
			t.Fatalf("%T does not survive its encoding: %v", c, err)
		}
		s := State{}
		s.apply(&applyID{gKey, 1, "a:1;2"})
		s.apply(&register{key: gKey, id: 1, addr: "a", report: report{store: "s", boot: 1, claim: ha.ClaimHolds}})
		s.apply(c)
	})
}

// FuzzSnapshot: the same for snapshots and for the frames between controllers.
func FuzzSnapshot(f *testing.F) {
	s := State{Cluster: "c", Voters: []Voter{{1, "n0", "s"}}, Tombs: []Tombstone{{gKey, 4, 5}}}
	s.apply(&applyID{gKey, 1, "a:1;2"})
	s.apply(&register{key: gKey, id: 1, addr: "a", report: report{store: "s", boot: 1, claim: ha.ClaimHolds}})
	f.Add(s.encode())
	h := hello{group: "g", node: "n0", to: "n1", store: "s", cluster: "c", raftID: 1, yours: 2}
	f.Add(h.encode())
	x := refusal{"c", true, "because"}
	f.Add(x.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := decodeState(b); err == nil {
			again := s.encode()
			if s2, err := decodeState(again); err != nil || !bytes.Equal(s2.encode(), again) {
				t.Errorf("a state does not survive its encoding: %v", err)
			}
		}
		if h, err := decodeHello(b); err == nil {
			if h2, err := decodeHello(h.encode()); err != nil || h2 != h {
				t.Errorf("a hello does not survive its encoding: %v", err)
			}
		}
		if x, err := decodeRefusal(b); err == nil {
			if x2, err := decodeRefusal(x.encode()); err != nil || x2 != x {
				t.Errorf("a refusal does not survive its encoding: %v", err)
			}
		}
		frame := wire.Frame{Link: wire.Raft, Body: b}
		if _, _, err := openPeerFrame(&frame); err == nil && len(b) < peerFrameHead {
			t.Error("a short frame was opened")
		}
	})
}
