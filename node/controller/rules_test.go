package controller

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage/raftstore"
)

// The protocol rules on the pure state: each test plays commands and looks at the
// record.

var gKey = Key{"c", "g"}

// book is a state and the brokers that act on it.
type book struct {
	t *testing.T
	s State
}

func newBook(t *testing.T, minInSync int32, ids ...ha.BrokerID) *book {
	b := &book{t: t, s: State{Cluster: "x"}}
	for _, id := range ids {
		b.must(&applyID{gKey, id, fmt.Sprintf("b%d:1;0", id)})
		b.must(b.reg(id, "s", 1, ha.ClaimHolds, func(r *register) { r.report.minInSync = minInSync }))
	}
	return b
}

func (b *book) must(c command) {
	b.t.Helper()
	if out := b.s.apply(c); !out.ok() {
		b.t.Fatalf("%T: %d %s", c, out.code, out.remark)
	}
}

func (b *book) refused(c command, code int32, text string) {
	b.t.Helper()
	before := b.s.encode()
	out := b.s.apply(c)
	if out.code != code || !strings.Contains(out.remark, text) {
		b.t.Errorf("%T: got %d %q, want %d about %q", c, out.code, out.remark, code, text)
	}
	if string(before) != string(b.s.encode()) {
		b.t.Errorf("%T was refused and changed the state", c)
	}
}

func (b *book) rec() *Record { return b.s.group(gKey) }

// reg is a registration of store name+id at a boot.
func (b *book) reg(id ha.BrokerID, store string, boot ha.Boot, claim ha.Claim, adjust ...func(*register)) *register {
	r := &register{key: gKey, id: id, addr: fmt.Sprintf("b%d:1", id), report: report{
		store: ha.StoreID(fmt.Sprintf("%s%d", store, id)), boot: boot, nonce: uint64(boot)*100 + uint64(id), claim: claim,
		ready: wire.ReadyYes, minInSync: 2, replicas: 3,
	}}
	for _, f := range adjust {
		f(r)
	}
	return r
}

// cand is the registered life of a member with a log end.
func (b *book) cand(id ha.BrokerID, end ha.LogOffset) candidate {
	return candidate{life: b.rec().member(id).Incarnation(), ready: wire.ReadyYes, lastEpoch: b.rec().Epoch, end: end, highest: b.rec().Epoch}
}

func (b *book) elect(cs ...candidate) *elect {
	return &elect{key: gKey, base: b.rec().Epoch, candidates: cs, exclude: ha.NoBroker, designated: ha.NoBroker, gated: true}
}

// alter is a correct alter by the present master.
func (b *book) alter(ids ...ha.BrokerID) *alter {
	r := b.rec()
	c := &alter{key: gKey, master: r.Master, store: r.MasterAt.Store, boot: r.MasterAt.Boot, epoch: r.Epoch, base: r.SetEpoch, set: ha.NewIDs(ids...), minInSync: r.MinInSync, alive: ha.NewIDs(1, 2, 3)}
	for _, id := range ids {
		if m := r.member(id); m != nil {
			c.members = append(c.members, m.Incarnation())
		}
	}
	return c
}

// led returns a book with master 1 and set {1 2 3}.
func led(t *testing.T, minInSync int32) *book {
	b := newBook(t, minInSync, 1, 2, 3)
	b.must(b.elect(b.cand(1, 0), b.cand(2, 0), b.cand(3, 0)))
	b.must(b.alter(1, 2, 3))
	return b
}

func TestApplyID(t *testing.T) {
	b := newBook(t, 2)
	b.must(&applyID{gKey, 1, "a:1;7"})
	b.must(&applyID{gKey, 1, "a:1;7"}) // the answer was lost
	b.refused(&applyID{gKey, 1, "b:1;7"}, wire.CodeBrokerIDInvalid, "taken by a:1")
	b.refused(&applyID{gKey, 0, "a:1;7"}, wire.CodeBrokerIDInvalid, "ids are")
	b.must(&applyID{gKey, 5, "e:1;7"})
	if b.rec().NextID != 6 {
		t.Errorf("next id %d after id 5", b.rec().NextID)
	}
	b.must(&applyID{Key{"c2", "g"}, 1, "z:1;7"}) // another cluster, same group name
	if _, err := b.s.resolve(Key{Group: "g"}); err == nil {
		t.Error("an ambiguous group name was resolved")
	}
	for id := ha.BrokerID(10); len(b.rec().Members) < maxMembers; id++ {
		b.must(&applyID{gKey, id, "x:1;7"})
	}
	b.refused(&applyID{gKey, 9000, "x:1;7"}, wire.CodeBrokerIDInvalid, "limit")
}

// TestLongTexts: the check code that a broker with an identity is taken in again under
// is made of two texts. Whatever the state takes, a snapshot of it reads again.
func TestLongTexts(t *testing.T) {
	b := newBook(t, 2)
	long := strings.Repeat("x", maxText/2)
	r := b.reg(1, "s", 1, ha.ClaimHolds, func(r *register) { r.addr, r.report.store = long, ha.StoreID(long) })
	b.refused(r, wire.CodeBrokerNeedsRegister, "too long")
	r.report.store = r.report.store[1:]
	b.must(r)
	if _, err := decodeState(b.s.encode()); err != nil {
		t.Fatalf("a snapshot of the state does not read: %v", err)
	}
}

// TestLimits: groups and brokers are bounded, and the largest state there can be fits a
// snapshot.
func TestLimits(t *testing.T) {
	b := newBook(t, 2)
	long := strings.Repeat("x", maxText/2-8)
	for i := range maxBrokers {
		k := Key{long, fmt.Sprintf("%s%06d", long, i)}
		b.s.Groups = append(b.s.Groups, Record{Key: k, Master: ha.NoBroker, NextID: 2, Members: []Member{{
			ID: 1, Addr: long, HAAddr: long, CheckCode: long, Store: ha.StoreID(long), SetStore: ha.StoreID(long), Why: long + long, Registered: true,
		}}})
		b.s.Tombs = append(b.s.Tombs, Tombstone{Key: k})
	}
	b.refused(&applyID{b.s.Groups[0].Key, 2, "a:1;1"}, wire.CodeBrokerIDInvalid, "4096 brokers already")
	b.refused(&applyID{Key{"c", "one more"}, 1, "a:1;1"}, wire.CodeBrokerIDInvalid, "4096 broker groups already")
	if n := len(b.s.encode()); n > raftstore.MaxSnapshotBytes {
		t.Errorf("the largest state has %d bytes", n)
	}
}

// TestBrokenLives: what ends a member's electability in the very command that
// registers it, and that only a join begins it again (P1).
func TestBrokenLives(t *testing.T) {
	cases := []struct {
		name      string
		reg       func(b *book) *register
		electable bool
		why       string
	}{
		{"clean restart", func(b *book) *register { return b.reg(2, "s", 2, ha.ClaimHolds) }, true, ""},
		{"same life again", func(b *book) *register { return b.reg(2, "s", 1, ha.ClaimHolds) }, true, ""},
		{"wiped disk", func(b *book) *register { return b.reg(2, "fresh", 1, ha.ClaimHolds) }, false, "another one"},
		{"unclean restart", func(b *book) *register { return b.reg(2, "s", 2, ha.ClaimBroken) }, false, "may have lost"},
		{"silent claim", func(b *book) *register { return b.reg(2, "s", 2, ha.ClaimUnknown) }, false, "does not say"},
		{"silent claim allowed", func(b *book) *register {
			return b.reg(2, "s", 2, ha.ClaimUnknown, func(r *register) { r.unknownClaim = true })
		}, true, ""},
		{"rolled back", func(b *book) *register {
			return b.reg(2, "s", 1, ha.ClaimHolds, func(r *register) { r.report.nonce = 999 })
		}, false, "used before"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := led(t, 2)
			b.must(c.reg(b))
			m := b.rec().member(2)
			if m.Electable != c.electable || !strings.Contains(m.Why, c.why) {
				t.Fatalf("electable %v %q", m.Electable, m.Why)
			}
			e := b.elect(b.cand(2, 1000))
			if ch := e.choose(b.rec()); (ch.winner != nil) != c.electable {
				t.Fatalf("choice %+v", ch)
			}
			if c.electable {
				return
			}
			b.must(b.reg(2, "s", 9, ha.ClaimHolds)) // a good restart does not heal it
			if b.rec().member(2).Electable {
				t.Fatal("a restart healed a broken member")
			}
			b.must(b.alter(1, 2, 3))
			if !b.rec().member(2).Electable {
				t.Fatal("joining again did not make it electable")
			}
		})
	}
}

// TestRepeatedBoot: a rolled-back store may be in no set until its boot is above
// every one its store used, because a proposal may still name the old life.
func TestRepeatedBoot(t *testing.T) {
	b := led(t, 2)
	b.must(b.reg(2, "s", 7, ha.ClaimHolds))
	b.must(b.reg(2, "s", 4, ha.ClaimHolds))
	b.refused(b.alter(1, 2, 3), wire.CodeInvalidReplicas, "raise its boot above 7")
	b.must(b.reg(2, "s", 6, ha.ClaimHolds))
	b.refused(b.alter(1, 2, 3), wire.CodeInvalidReplicas, "raise its boot above 7")
	b.must(b.reg(2, "s", 8, ha.ClaimHolds))
	if b.rec().member(2).Electable {
		t.Fatal("electable without joining")
	}
	b.must(b.alter(1, 2, 3))
	if m := b.rec().member(2); !m.Electable || m.Reused {
		t.Fatalf("member %+v", m)
	}
}

// TestTwoLives: while the registered life is alive only a higher boot of its store
// replaces it; a clone with a lower or equal boot, or another store, is refused (P18).
func TestTwoLives(t *testing.T) {
	b := led(t, 2)
	alive := func(r *register) { r.alive = true }
	b.must(b.reg(2, "s", 5, ha.ClaimHolds, alive))
	b.refused(b.reg(2, "s", 4, ha.ClaimHolds, alive), wire.CodeBrokerIDInvalid, "which is alive")
	b.refused(b.reg(2, "s", 5, ha.ClaimHolds, alive, func(r *register) { r.report.nonce = 1 }), wire.CodeBrokerIDInvalid, "which is alive")
	b.refused(b.reg(2, "fresh", 9, ha.ClaimHolds, alive), wire.CodeBrokerIDInvalid, "which is alive")
	b.must(b.reg(2, "s", 5, ha.ClaimHolds, alive))
	b.must(b.reg(2, "s", 6, ha.ClaimHolds, alive))
	b.refused(b.reg(2, "s", 7, ha.ClaimHolds, func(r *register) { r.report.highest = 1 << 30 }), wire.CodeBrokerIDInvalid, "not believed")
	b.refused(&register{key: gKey, id: 9}, wire.CodeBrokerNeedsRegister, "unknown")
	b.refused(b.reg(9, "s", 1, ha.ClaimHolds, func(r *register) { r.report.highest = 1 << 30 }), wire.CodeBrokerNeedsRegister, "unknown")
	b.must(b.reg(9, "s", 1, ha.ClaimHolds)) // it has an identity: these controllers lost theirs
	b.refused(&applyID{gKey, 9, "someone:1;1"}, wire.CodeBrokerIDInvalid, "taken")
	b.refused(&register{key: Key{"c", "other"}, id: 1}, wire.CodeBrokerNeedsRegister, "unknown")
}

// TestAlterFencing: every combination of a stale master, life, epoch, set epoch, and
// of unknown, other, dead members: fencing is told before anything else (C7).
func TestAlterFencing(t *testing.T) {
	cases := []struct {
		name string
		mod  func(b *book, c *alter)
		code int32
		text string
	}{
		{"zero epoch", func(b *book, c *alter) { c.epoch = 0 }, wire.CodeInvalidRequest, "positive"},
		{"master missing", func(b *book, c *alter) { c.set = ha.NewIDs(2, 3) }, wire.CodeAlterSetFailed, "does not contain its master"},
		{"unknown group", func(b *book, c *alter) { c.key.Group = "zz" }, wire.CodeAlterSetFailed, "unknown"},
		{"not the master", func(b *book, c *alter) { c.master = 2 }, wire.CodeInvalidMaster, "is 1, not 2"},
		{"older life", func(b *book, c *alter) { c.boot = 0 }, wire.CodeInvalidMaster, "belongs to"},
		{"other store", func(b *book, c *alter) { c.store = "" }, wire.CodeInvalidMaster, "belongs to"},
		{"older epoch", func(b *book, c *alter) { c.epoch-- }, wire.CodeInvalidRequest, ""},
		{"newer epoch", func(b *book, c *alter) { c.epoch++ }, wire.CodeFencedMasterEpoch, "is 1, not 2"},
		{"older set epoch", func(b *book, c *alter) { c.base-- }, wire.CodeFencedSetEpoch, "is 2, not 1"},
		{"newer set epoch", func(b *book, c *alter) { c.base++ }, wire.CodeFencedSetEpoch, "is 2, not 3"},
		{"unknown member", func(b *book, c *alter) { c.set = ha.NewIDs(1, 8) }, wire.CodeInvalidReplicas, "not registered"},
		{"unnamed life", func(b *book, c *alter) { c.members = c.members[:2] }, wire.CodeInvalidReplicas, "another life"},
		{"other life", func(b *book, c *alter) { c.members[1].Boot++ }, wire.CodeInvalidReplicas, "another life"},
		{"dead member", func(b *book, c *alter) { c.alive = ha.NewIDs(1, 2) }, wire.CodeBrokerNotAlive, "broker 3"},
		{"deposed, same set", func(b *book, c *alter) {
			b.must(b.elect(b.cand(2, 5)))
		}, wire.CodeInvalidMaster, "is 2, not 1"},
		{"restarted master", func(b *book, c *alter) { b.must(b.reg(1, "s", 2, ha.ClaimHolds)) }, wire.CodeInvalidMaster, "needs a new epoch"},
		{"learner", func(b *book, c *alter) {
			b.must(b.reg(3, "s", 2, ha.ClaimHolds, func(r *register) { r.report.learner = true }))
			c.members[2].Boot = 2
		}, wire.CodeInvalidReplicas, "learner"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := led(t, 2)
			cmd := b.alter(1, 2, 3)
			c.mod(b, cmd)
			b.refused(cmd, c.code, c.text)
		})
	}
}

// TestIncarnationNamed: a member that restarted between proposal and commit is not
// taken in on the strength of its earlier life (P2).
func TestIncarnationNamed(t *testing.T) {
	b := newBook(t, 2, 1, 2, 3)
	b.must(b.elect(b.cand(1, 0)))
	late := b.alter(1, 2)
	b.must(b.reg(2, "s", 2, ha.ClaimBroken))
	b.refused(late, wire.CodeInvalidReplicas, "another life")
	// Nor does an unrelated shrink that names the new life by hearsay of an old join.
	b = led(t, 2)
	shrink := b.alter(1, 2)
	b.must(b.reg(2, "s", 2, ha.ClaimBroken))
	b.refused(shrink, wire.CodeInvalidReplicas, "another life")
}

// TestSameSetRaisesEpoch: affirming the set is allowed and ends every proposal made at
// the old base (P3).
func TestSameSetRaisesEpoch(t *testing.T) {
	b := led(t, 2)
	slow := b.alter(1, 2)
	b.must(b.alter(1, 2, 3))
	b.refused(slow, wire.CodeFencedSetEpoch, "")
	if r := b.rec(); r.SetEpoch != 3 || len(r.Set) != 3 {
		t.Fatalf("record %+v", r)
	}
}

// TestRetained: members removed while the set is below minInSync stay electable, by
// election or by shrink, until a sufficient set commits; a broken claim takes one out
// (P6).
func TestRetained(t *testing.T) {
	b := led(t, 2)
	b.must(b.alter(1, 2)) // 3 leaves while the set suffices: it is out
	if r := b.rec(); len(r.Retained) != 0 {
		t.Fatalf("retained %v", r.Retained)
	}
	b.must(b.alter(1)) // 2 leaves below the floor
	if r := b.rec(); !r.Retained.Equal(ha.NewIDs(2)) {
		t.Fatalf("retained %v", r.Retained)
	}
	if ch := b.elect(b.cand(2, 9), b.cand(3, 99)).choose(b.rec()); ch.winner == nil || ch.why != "retained" || ch.winner.life.Broker != 2 {
		t.Fatalf("choice %+v: only 2 is retained", ch)
	}
	b.must(b.elect(b.cand(2, 9)))
	if r := b.rec(); r.Master != 2 || !r.Retained.Equal(ha.NewIDs(1)) || r.Unclean {
		t.Fatalf("record %+v", r)
	}
	b.must(b.reg(1, "s", 2, ha.ClaimBroken))
	if ids := b.rec().electableRetained(); len(ids) != 0 {
		t.Fatalf("electable retained %v after a broken claim", ids)
	}
	b.must(b.alter(2, 3))
	if r := b.rec(); len(r.Retained) != 0 || len(r.Set) != 2 {
		t.Fatalf("record %+v", r)
	}
}

// TestMinInSyncChange: raising is at once, lowering clears who was retained (P6).
func TestMinInSyncChange(t *testing.T) {
	b := led(t, 2)
	b.must(b.alter(1, 2))
	up := b.alter(1, 2)
	up.minInSync = 3
	b.must(up)
	if b.rec().MinInSync != 3 {
		t.Fatal("not raised")
	}
	b.must(b.alter(1))
	if !b.rec().Retained.Equal(ha.NewIDs(2)) {
		t.Fatalf("retained %v", b.rec().Retained)
	}
	down := b.alter(1)
	down.minInSync = 2
	b.must(down)
	if r := b.rec(); r.MinInSync != 2 || len(r.Retained) != 0 {
		t.Fatalf("record %+v", r)
	}
	none := b.alter(1)
	none.minInSync = 0
	b.must(none)
	if b.rec().MinInSync != 2 {
		t.Fatal("an alter without a floor changed it")
	}
}

// TestFloor: a candidate whose log ends below the confirm offset of the last alter is
// refused: it forgot what it had (P1).
func TestFloor(t *testing.T) {
	b := led(t, 2)
	c := b.alter(1, 2, 3)
	c.floor = 500
	b.must(c)
	low := b.alter(1, 2, 3)
	low.floor = 100 // a new master's confirm may lag: the floor stays
	b.must(low)
	if b.rec().Floor != 500 {
		t.Fatalf("floor %d", b.rec().Floor)
	}
	if ch := b.elect(b.cand(2, 499)).choose(b.rec()); ch.winner != nil {
		t.Fatalf("choice %+v", ch)
	}
	if ch := b.elect(b.cand(2, 499), b.cand(3, 500)).choose(b.rec()); ch.winner == nil || ch.winner.life.Broker != 3 {
		t.Fatalf("choice %+v", ch)
	}
}

// TestCompare: last epoch first, then the durable end in 64 bits, then priority, then
// id; a longer log of an older epoch never wins.
func TestCompare(t *testing.T) {
	b := led(t, 2)
	mk := func(id ha.BrokerID, epoch ha.MasterEpoch, end ha.LogOffset, prio int32) candidate {
		c := b.cand(id, end)
		c.lastEpoch, c.priority = epoch, prio
		return c
	}
	cases := []struct {
		name string
		cs   []candidate
		want ha.BrokerID
	}{
		{"epoch over length", []candidate{mk(1, 1, 9_000_000_000, 0), mk(2, 2, 10, 9)}, 2},
		{"more than 2 GiB apart", []candidate{mk(1, 2, 0, 0), mk(2, 2, 3_000_000_000, 9)}, 2},
		{"priority breaks ties", []candidate{mk(1, 2, 10, 5), mk(2, 2, 10, 1)}, 2},
		{"never beats a longer end", []candidate{mk(1, 2, 11, 5), mk(2, 2, 10, 1)}, 1},
		{"id last", []candidate{mk(2, 2, 10, 5), mk(3, 2, 10, 5)}, 2},
	}
	for _, c := range cases {
		if ch := b.elect(c.cs...).choose(b.rec()); ch.winner == nil || ch.winner.life.Broker != c.want {
			t.Errorf("%s: %+v", c.name, ch)
		}
	}
	no := b.cand(2, 99)
	no.ready = wire.ReadyNo
	silent := b.cand(3, 99)
	silent.ready = wire.ReadyUnknown
	if ch := b.elect(no, silent).choose(b.rec()); ch.winner != nil {
		t.Errorf("a store that may not be promoted won: %+v", ch)
	}
	e := b.elect(no, silent)
	e.unknownReady = true
	if ch := e.choose(b.rec()); ch.winner == nil || ch.winner.life.Broker != 3 {
		t.Errorf("unknown readiness by option: %+v", ch)
	}
}

// TestAllBack: after a blackout that broke every claim the best log is elected once
// everybody who may hold acknowledged data is there on its own store; one missing or
// replaced keeps the group down and is named (P16).
func TestAllBack(t *testing.T) {
	b := led(t, 2)
	for id := ha.BrokerID(1); id <= 3; id++ {
		b.must(b.reg(id, "s", 2, ha.ClaimBroken))
	}
	if ch := b.elect(b.cand(1, 10), b.cand(2, 20)).choose(b.rec()); ch.winner != nil || !strings.Contains(ch.why, "3 (not heard from)") {
		t.Fatalf("with one missing: %+v", ch)
	}
	full := b.elect(b.cand(1, 10), b.cand(2, 20), b.cand(3, 15))
	b2 := State{Cluster: "x", Groups: []Record{b.rec().clone()}}
	b.must(full)
	if r := b.rec(); r.Master != 2 || !r.Unclean {
		t.Fatalf("record %+v", r)
	}
	b.s = b2
	b.must(b.reg(3, "fresh", 1, ha.ClaimHolds))
	if ch := b.elect(b.cand(1, 10), b.cand(2, 20), b.cand(3, 15)).choose(b.rec()); ch.winner != nil || !strings.Contains(ch.why, "3 (its store was replaced)") {
		t.Fatalf("with one replaced: %+v", ch)
	}
}

// TestUnclean: outside the electable members only by option, and marked.
func TestUnclean(t *testing.T) {
	b := led(t, 2)
	b.must(b.alter(1, 2))
	if ch := b.elect(b.cand(3, 900)).choose(b.rec()); ch.winner != nil {
		t.Fatalf("elected outside the set: %+v", ch)
	}
	e := b.elect(b.cand(3, 900))
	e.unclean = true
	b.must(e)
	if r := b.rec(); r.Master != 3 || !r.Unclean || len(r.Retained) != 0 {
		t.Fatalf("record %+v", r)
	}
	b.must(b.alter(3, 2))
	e = b.elect(b.cand(2, 900))
	e.unclean = true
	b.must(e)
	if r := b.rec(); r.Unclean {
		t.Fatal("a clean election was marked unclean because the option is on")
	}
}

// TestFirstElection: the three cases of a group that never had a master (P17).
func TestFirstElection(t *testing.T) {
	reg := func(b *book, id ha.BrokerID, end ha.LogOffset, epoch ha.MasterEpoch) {
		b.must(b.reg(id, "s", 2, ha.ClaimHolds, func(r *register) { r.report.end, r.report.lastEpoch, r.report.highest = end, epoch, epoch }))
	}
	b := newBook(t, 2, 1, 2, 3)
	if ch := b.elect().choose(b.rec()); ch.winner != nil {
		t.Fatal("elected nobody's candidate")
	}
	if ch := b.elect(b.cand(1, 0), b.cand(3, 70)).choose(b.rec()); ch.winner == nil || ch.winner.life.Broker != 3 {
		t.Fatalf("the only log with data: %+v", ch)
	}
	reg(b, 2, 40, 0)
	if ch := b.elect(b.cand(1, 0)).choose(b.rec()); ch.winner != nil || !strings.Contains(ch.why, "broker 2 has the only log") {
		t.Fatalf("the only log with data is away: %+v", ch)
	}
	two := b.elect(b.cand(2, 40), b.cand(3, 70))
	if ch := two.choose(b.rec()); ch.winner != nil || !strings.Contains(ch.why, "designate") {
		t.Fatalf("two logs without epochs: %+v", ch)
	}
	two.designated = 2
	if ch := two.choose(b.rec()); ch.winner == nil || ch.winner.life.Broker != 2 || ch.why != "designated" {
		t.Fatalf("designated: %+v", ch)
	}
	two.designated = 1
	if ch := two.choose(b.rec()); ch.winner != nil || !strings.Contains(ch.why, "not heard from") {
		t.Fatalf("designated and away: %+v", ch)
	}
	b = newBook(t, 2, 1, 2, 3)
	reg(b, 1, 10, 4)
	some := []candidate{b.cand(1, 10), b.cand(2, 0)}
	some[0].lastEpoch = 4
	if ch := b.elect(some...).choose(b.rec()); ch.winner != nil || !strings.Contains(ch.why, "record of c/g is lost") {
		t.Fatalf("rebuilt without all replicas: %+v", ch)
	}
	all := append(some, b.cand(3, 500))
	b.must(b.elect(all...))
	if r := b.rec(); r.Master != 1 || r.Epoch != 5 {
		t.Fatalf("rebuilt: %+v", r)
	}
}

// TestEpochsNeverGoDown: across elections, reports from brokers, clean and re-creation;
// a report beyond belief moves nothing.
func TestEpochsNeverGoDown(t *testing.T) {
	b := led(t, 2)
	high := b.cand(2, 5)
	high.highest = 40
	b.must(b.elect(high, b.cand(3, 1)))
	if e := b.rec().Epoch; e != 41 {
		t.Fatalf("epoch %d after a report of 40", e)
	}
	liar := b.cand(3, 5)
	liar.highest = 1<<31 - 1
	b.must(b.elect(b.cand(2, 5), liar))
	if e := b.rec().Epoch; e != 42 {
		t.Fatalf("epoch %d after a lie", e)
	}
	set := b.rec().SetEpoch
	stale := b.elect(b.cand(2, 5))
	stale.base = 41
	b.refused(stale, wire.CodeMasterStillExist, "by now")
	b.refused(&clean{key: gKey, alive: ha.NewIDs(1)}, wire.CodeInvalidCleanBrokerData, "alive")
	b.refused(&clean{key: gKey, ids: ha.NewIDs(2)}, wire.CodeInvalidCleanBrokerData, "acknowledged data")
	b.refused(&clean{key: gKey, ids: ha.NewIDs(7)}, wire.CodeInvalidCleanBrokerData, "unknown")
	b.refused(&clean{key: Key{"c", "zz"}}, wire.CodeInvalidCleanBrokerData, "unknown")
	b.must(&clean{key: gKey})
	if b.rec() != nil {
		t.Fatal("the group is still there")
	}
	b.must(&applyID{gKey, 1, "a:1;1"})
	b.must(b.reg(1, "s", 1, ha.ClaimHolds))
	if r := b.rec(); r.Epoch != 42 || r.Elected() {
		t.Fatalf("re-created at %+v", r)
	}
	first := b.elect(b.cand(1, 0))
	first.designated = 1
	b.must(first)
	if r := b.rec(); r.Epoch != 43 || r.SetEpoch <= set {
		t.Fatalf("re-created and elected at epoch %d, set epoch %d", r.Epoch, r.SetEpoch)
	}
	b.must(&applyID{gKey, 4, "d:1;1"})
	b.must(&clean{key: gKey, ids: ha.NewIDs(4)})
	if b.rec().member(4) != nil {
		t.Error("member 4 was not cleaned")
	}
}

// TestResponseCodes: what each request gets on the wire, over a live cluster.
func TestResponseCodes(t *testing.T) {
	b := newBench(t, 3, nil).startAll()
	brs := b.group()
	b.run(2 * time.Second)
	m, s := brs[0], brs[1]
	body := func(base ha.SetEpoch, ids ...ha.BrokerID) []byte {
		return wire.MarshalBody(wire.SyncStateSetBody{SyncStateSet: ids, SyncStateSetEpoch: base})
	}
	alter := func(mod func(*wire.AlterSyncStateSetRequest)) (any, []byte) {
		h, bd := m.alterRequest(b.record().SetEpoch, 0, 1, 2, 3)
		mod(&h)
		return h, bd
	}
	elect := func(id ha.BrokerID, designate bool) wire.ElectMasterRequest {
		return wire.ElectMasterRequest{ClusterName: "c", BrokerName: "g", BrokerID: id, DesignateElect: designate}
	}
	cases := []struct {
		name string
		code int32
		ask  func() (int32, any, []byte)
		text string
	}{
		{"metadata", wire.CodeSuccess, func() (int32, any, []byte) { return wire.ReqGetControllerMetadata, nil, nil }, ""},
		{"unsupported", wire.CodeRequestCodeNotSupported, func() (int32, any, []byte) { return 10, nil, nil }, "request type 10 not supported"},
		{"clean is for later", wire.CodeRequestCodeNotSupported, func() (int32, any, []byte) { return wire.ReqCleanBrokerData, nil, nil }, ""},
		{"missing field", wire.CodeSystemError, func() (int32, any, []byte) {
			return wire.ReqRegisterToController, wire.ReplicaInfoRequest{BrokerName: "g"}, nil
		}, "required field"},
		{"empty name", wire.CodeInvalidRequest, func() (int32, any, []byte) { return wire.ReqGetReplicaInfo, wire.ReplicaInfoRequest{}, nil }, "empty"},
		{"long name", wire.CodeInvalidRequest, func() (int32, any, []byte) {
			return wire.ReqGetReplicaInfo, wire.ReplicaInfoRequest{BrokerName: strings.Repeat("x", 300)}, nil
		}, "longer"},
		{"replica info", wire.CodeSuccess, func() (int32, any, []byte) {
			return wire.ReqGetReplicaInfo, wire.ReplicaInfoRequest{BrokerName: "g"}, nil
		}, ""},
		{"unknown group", wire.CodeBrokerMetadataNotExist, func() (int32, any, []byte) {
			return wire.ReqGetReplicaInfo, wire.ReplicaInfoRequest{BrokerName: "zz"}, nil
		}, "zz"},
		{"next id", wire.CodeSuccess, func() (int32, any, []byte) {
			return wire.ReqGetNextBrokerID, wire.NextBrokerIDRequest{ClusterName: "c", BrokerName: "g"}, nil
		}, ""},
		{"id taken", wire.CodeBrokerIDInvalid, func() (int32, any, []byte) {
			return wire.ReqApplyBrokerID, wire.ApplyBrokerIDRequest{ClusterName: "c", BrokerName: "g", AppliedBrokerID: 2, RegisterCheckCode: "z;9"}, nil
		}, "taken"},
		{"register unknown id", wire.CodeBrokerNeedsRegister, func() (int32, any, []byte) {
			return wire.ReqRegisterToController, wire.RegisterToControllerRequest{ClusterName: "c", BrokerName: "g", BrokerID: 77, BrokerAddress: "a:1"}, nil
		}, "77"},
		{"register a second life", wire.CodeBrokerIDInvalid, func() (int32, any, []byte) {
			return wire.ReqRegisterToController, wire.RegisterToControllerRequest{ClusterName: "c", BrokerName: "g", BrokerID: 2, BrokerAddress: "a:1", ReplicaReport: wire.ReplicaReport{Identity: wire.Identity{Store: "clone", Boot: 9}}}, nil
		}, "alive"},
		{"heartbeat without id", wire.CodeInvalidRequest, func() (int32, any, []byte) {
			return wire.ReqBrokerHeartbeat, wire.BrokerHeartbeat{ClusterName: "c", BrokerAddr: "a", BrokerName: "g", BrokerID: ha.NoBroker}, nil
		}, "empty brokerId"},
		{"heartbeat of another life", wire.CodeBrokerNeedsRegister, func() (int32, any, []byte) {
			return wire.ReqBrokerHeartbeat, wire.BrokerHeartbeat{ClusterName: "c", BrokerAddr: "a", BrokerName: "g", BrokerID: 2}, nil
		}, "register first"},
		{"heartbeat", wire.CodeSuccess, func() (int32, any, []byte) {
			return wire.ReqBrokerHeartbeat, wire.BrokerHeartbeat{ClusterName: "c", BrokerAddr: "a", BrokerName: "g", BrokerID: 2, ReplicaReport: s.life, Sequence: 1 << 40}, nil
		}, "Heart beat success"},
		{"elect with a live master", wire.CodeMasterStillExist, func() (int32, any, []byte) { return wire.ReqElectMaster, elect(2, false), nil }, "alive"},
		{"elect the master", wire.CodeMasterStillExist, func() (int32, any, []byte) { return wire.ReqElectMaster, elect(1, true), nil }, "is the master"},
		{"designate under a lease", wire.CodeElectMasterFailed, func() (int32, any, []byte) { return wire.ReqElectMaster, elect(2, true), nil }, "hold a lease"},
		{"elect in an unknown group", wire.CodeBrokerNeedsRegister, func() (int32, any, []byte) {
			return wire.ReqElectMaster, wire.ElectMasterRequest{ClusterName: "c", BrokerName: "zz", BrokerID: 1}, nil
		}, "register first"},
		{"elect an unknown broker", wire.CodeBrokerNeedsRegister, func() (int32, any, []byte) { return wire.ReqElectMaster, elect(66, false), nil }, "register first"},
		{"alter without body", wire.CodeInvalidRequest, func() (int32, any, []byte) {
			h, _ := alter(func(*wire.AlterSyncStateSetRequest) {})
			return wire.ReqAlterSyncStateSet, h, nil
		}, "body"},
		{"alter with garbage", wire.CodeInvalidRequest, func() (int32, any, []byte) {
			h, _ := alter(func(*wire.AlterSyncStateSetRequest) {})
			return wire.ReqAlterSyncStateSet, h, []byte("{]")
		}, ""},
		{"alter negative floor", wire.CodeInvalidRequest, func() (int32, any, []byte) {
			h, bd := alter(func(h *wire.AlterSyncStateSetRequest) { h.Floor = -1 })
			return wire.ReqAlterSyncStateSet, h, bd
		}, "floor"},
		{"alter by a slave", wire.CodeInvalidMaster, func() (int32, any, []byte) {
			h, bd := alter(func(h *wire.AlterSyncStateSetRequest) { h.MasterBrokerID = 2 })
			return wire.ReqAlterSyncStateSet, h, bd
		}, ""},
		{"alter, old epoch", wire.CodeFencedMasterEpoch, func() (int32, any, []byte) {
			h, bd := alter(func(h *wire.AlterSyncStateSetRequest) { h.MasterEpoch = 9 })
			return wire.ReqAlterSyncStateSet, h, bd
		}, ""},
		{"alter, old set epoch", wire.CodeFencedSetEpoch, func() (int32, any, []byte) {
			h, _ := alter(func(*wire.AlterSyncStateSetRequest) {})
			return wire.ReqAlterSyncStateSet, h, body(1, 1, 2)
		}, ""},
		{"alter, unknown member", wire.CodeInvalidReplicas, func() (int32, any, []byte) {
			h, _ := alter(func(*wire.AlterSyncStateSetRequest) {})
			return wire.ReqAlterSyncStateSet, h, body(b.record().SetEpoch, 1, 99)
		}, ""},
		{"alter without master", wire.CodeAlterSetFailed, func() (int32, any, []byte) {
			h, _ := alter(func(*wire.AlterSyncStateSetRequest) {})
			return wire.ReqAlterSyncStateSet, h, body(b.record().SetEpoch, 2)
		}, ""},
		{"alter", wire.CodeSuccess, func() (int32, any, []byte) {
			h, bd := alter(func(*wire.AlterSyncStateSetRequest) {})
			return wire.ReqAlterSyncStateSet, h, bd
		}, ""},
	}
	for _, c := range cases {
		code, h, bd := c.ask()
		f, ok := m.ask(code, h, bd)
		if !ok || f.Head.Code != c.code || !strings.Contains(f.Head.Remark, c.text) {
			t.Errorf("%s: got %+v, want %d about %q", c.name, f, c.code, c.text)
		}
	}
	// A dead member, and nobody to elect.
	brs[2].crash()
	b.run(16 * time.Second)
	if h, bd := alter(func(*wire.AlterSyncStateSetRequest) {}); true {
		if f, ok := m.ask(wire.ReqAlterSyncStateSet, h, bd); !ok || f.Head.Code != wire.CodeBrokerNotAlive {
			t.Errorf("dead member: %+v", f)
		}
	}
	m.alter(b.record().SetEpoch, 0, 1)
	s.life.Ready, m.silent = wire.ReadyNo, true
	b.run(20 * time.Second)
	for id, code := range map[ha.BrokerID]int32{2: wire.CodeElectMasterFailed, ha.NoBroker: wire.CodeMasterNotAvailable} {
		if f, ok := s.ask(wire.ReqElectMaster, elect(id, false), nil); !ok || f.Head.Code != code {
			t.Errorf("nobody electable, asked by %d: %+v", id, f)
		}
	}
	if n := b.count(event.ElectionFailed, "waiting for"); n == 0 || n > 6 {
		t.Errorf("%d failed elections announced", n)
	}
	if e := b.record().Epoch; e != 1 {
		t.Errorf("failed elections raised the epoch to %d", e)
	}
}

// TestAnswers: the fields that brokers read are there.
func TestAnswers(t *testing.T) {
	b := newBench(t, 3, nil).startAll()
	brs := b.group()
	b.run(2 * time.Second)
	f, ok := brs[1].ask(wire.ReqGetReplicaInfo, wire.ReplicaInfoRequest{BrokerName: "g", ClusterName: "c"}, nil)
	var h wire.ReplicaInfoResponse
	var set wire.SyncStateSetBody
	if !ok || wire.DecodeExt(f.Head.Ext, &h) != nil || wire.UnmarshalBody(f.Body, &set) != nil {
		t.Fatalf("answer %+v", f)
	}
	if h.MasterBrokerID != 1 || h.MasterAddress != brs[0].addr() || h.HAAddress != brs[0].life.HAAddress || h.MasterEpoch != 1 ||
		h.Boot != 1 || h.Store != brs[0].life.Store || h.MinInSync != 2 || len(h.Members) != 3 || h.Term == 0 {
		t.Errorf("header %+v", h)
	}
	if !set.SyncStateSet.Equal(ha.NewIDs(1, 2, 3)) || set.SyncStateSetEpoch != 2 {
		t.Errorf("body %+v", set)
	}
	// A newcomer is told of the master only while that is alive.
	brs[2].crash()
	brs[2].boot(ha.ClaimHolds)
	reg := func() (r wire.RegisterToControllerResponse) {
		f, ok := brs[2].ask(wire.ReqRegisterToController, wire.RegisterToControllerRequest{ClusterName: "c", BrokerName: "g", BrokerID: 3, BrokerAddress: "a:1", ReplicaReport: brs[2].life}, nil)
		if !ok || f.Head.Code != wire.CodeSuccess || wire.DecodeExt(f.Head.Ext, &r) != nil {
			t.Fatalf("register: %+v", f)
		}
		return r
	}
	if r := reg(); r.MasterBrokerID != 1 || r.MasterEpoch != 1 || r.SyncStateSetEpoch != 2 {
		t.Errorf("registration answered %+v", r)
	}
	brs[0].crash()
	brs[1].crash()
	b.run(11 * time.Second)
	if r := reg(); r.MasterBrokerID != ha.NoBroker || r.MasterEpoch != 0 {
		t.Errorf("registration names a dead master: %+v", r)
	}
	// A rolled-back store learns up to which boot its names are used.
	brs[2].life.Boot, brs[2].life.Nonce = 1, 4711
	brs[2].hangUp(b.leader().name)
	if r := reg(); r.BootFloor != 2 {
		t.Errorf("boot floor %d", r.BootFloor)
	}
}

// TestNotices: a lost notice is repeated until the broker's heartbeat shows the epoch,
// and then no more (C6).
func TestNotices(t *testing.T) {
	b := newBench(t, 3, nil).startAll()
	brs := b.group()
	b.run(3 * time.Second)
	brs[1].mute = true // receives and applies nothing
	b.master().crash()
	b.until("election", 30*time.Second, func() bool { return b.record().Epoch == 2 })
	b.run(20 * time.Second)
	if told := len(brs[1].told); told < 4 || told > 12 {
		t.Errorf("a deaf broker was told %d times in 20 s", told)
	}
	brs[1].mute = false
	b.run(12 * time.Second)
	if brs[1].epoch != 2 {
		t.Fatal("the notice never arrived")
	}
	b.run(3 * time.Second)
	told := []int{len(brs[1].told), len(brs[2].told)}
	b.run(30 * time.Second)
	if now := []int{len(brs[1].told), len(brs[2].told)}; !slices.Equal(told, now) {
		t.Errorf("told %v and later %v although everybody knows", told, now)
	}
	l := b.leader()
	if n := l.c.lead.watch(gKey).notices; len(n) > 0 {
		t.Errorf("%d notices are still due", len(n))
	}
	for id, e := range l.sessions {
		if id&node.Dialled != 0 && e.broker != nil {
			t.Errorf("the notice session to broker %d stays open", e.broker.id)
		}
	}
}
