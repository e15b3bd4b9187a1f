package controller

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/node/wire"
)

// candidate is a live member as its newest heartbeat describes it.
type candidate struct {
	life      ha.Incarnation
	ready     wire.Readiness // may its store be promoted
	lastEpoch ha.MasterEpoch // of its last whole record
	end       ha.LogOffset   // durable end
	highest   ha.MasterEpoch
	priority  int32 // smaller wins; only breaks ties
}

// elect chooses a new master (code 1002, and the leader's own scan). It applies
// only to the epoch it was proposed for, so that a late copy changes nothing.
type elect struct {
	key        Key
	base       ha.MasterEpoch // committed epoch when it was proposed
	candidates []candidate    // ascending by id; only members heard from
	exclude    ha.BrokerID    // a master that hands over, or NoBroker
	designated ha.BrokerID    // the operator's choice, or NoBroker
	cause      string         // why the present master ends, for the log
	unclean    bool           // enableElectUncleanMaster
	// unknownReady: a store that does not say whether it may be promoted (Java) counts
	// as promotable.
	unknownReady bool
	gated        bool // the old authority's lease had surely ended at the proposal
}

func (c *elect) kind() commandKind { return kindElect }

func (c *elect) put(w *writer) {
	w.key(c.key)
	w.int(int64(c.base))
	w.uint(uint64(len(c.candidates)))
	for i := range c.candidates {
		x := &c.candidates[i]
		w.member(x.life)
		w.byte(byte(x.ready))
		w.int(int64(x.lastEpoch))
		w.int(int64(x.end))
		w.int(int64(x.highest))
		w.int(int64(x.priority))
	}
	w.int(int64(c.exclude))
	w.int(int64(c.designated))
	w.text(c.cause)
	w.bool(c.unclean)
	w.bool(c.unknownReady)
	w.bool(c.gated)
}

func readElect(r *reader) *elect {
	c := &elect{key: r.key(), base: ha.MasterEpoch(r.int32())}
	for range r.count(maxMembers) {
		c.candidates = append(c.candidates, candidate{
			life: r.member(), ready: wire.Readiness(r.enum(byte(wire.ReadyNo))), lastEpoch: ha.MasterEpoch(r.int32()),
			end: ha.LogOffset(r.Int()), highest: ha.MasterEpoch(r.int32()), priority: r.int32(),
		})
	}
	c.exclude, c.designated = ha.BrokerID(r.Int()), ha.BrokerID(r.Int())
	c.cause = r.text()
	c.unclean, c.unknownReady, c.gated = r.bool(), r.bool(), r.bool()
	return c
}

func (c *elect) apply(s *State) outcome {
	rec := s.group(c.key)
	if rec == nil {
		return refused(wire.CodeBrokerNeedsRegister, "broker group %s is unknown", c.key)
	}
	if rec.Epoch != c.base {
		return refused(wire.CodeMasterStillExist, "the epoch of %s is %d by now, the election was for %d", c.key, rec.Epoch, c.base)
	}
	ch := c.choose(rec)
	if ch.winner == nil {
		return refused(wire.CodeElectMasterFailed, "%s", ch.why).with(event.Event{
			Kind: event.ElectionFailed, Group: c.key.Group, Epoch: rec.Epoch, Text: ch.why,
		})
	}
	c.install(rec, ch)
	return outcome{}.with(event.Event{
		Kind: event.Elected, Group: c.key.Group, Broker: rec.Master, Epoch: rec.Epoch, SetEpoch: rec.SetEpoch,
		Set: slices.Clone(rec.Set), Off: ch.winner.end, Text: ch.why,
	})
}

// choice is who wins and by which rule, or why nobody does.
type choice struct {
	winner  *candidate
	why     string // "clean", "retained", "all-back", "unclean", "designated", "first"; else the reason for nobody
	unclean bool
}

func nobody(format string, args ...any) choice { return choice{why: fmt.Sprintf(format, args...)} }

// choose evaluates the election on the record. The leader also calls it before it
// proposes, so that elections that would fail are not written to the log; what
// counts is the evaluation when the command is applied.
func (c *elect) choose(rec *Record) choice {
	pool := c.pool(rec)
	if !rec.Elected() {
		return c.first(rec, pool)
	}
	best := choice{why: "clean", winner: c.best(pool, func(x *candidate, m *Member) bool {
		return rec.Set.Has(m.ID) && m.Electable && x.end >= rec.Floor
	}, rec)}
	if best.winner == nil {
		best = choice{why: "retained", winner: c.best(pool, func(x *candidate, m *Member) bool {
			return rec.Retained.Has(m.ID) && m.Electable && x.end >= rec.Floor
		}, rec)}
	}
	if best.winner == nil && c.designated == ha.NoBroker {
		best = c.allBack(rec, pool)
	}
	if best.winner == nil && c.unclean {
		anybody := choice{why: "unclean", unclean: true, winner: c.best(pool, func(*candidate, *Member) bool { return true }, rec)}
		if anybody.winner != nil {
			return anybody
		}
	}
	if best.winner == nil && c.designated != ha.NoBroker {
		return nobody("broker %d is not electable: %s", c.designated, c.explain(rec, c.designated))
	}
	if best.winner != nil && c.designated != ha.NoBroker {
		best.why = "designated"
	}
	return best
}

// pool keeps the candidates that may be considered at all: the registered life,
// no learner, a promotable store, not the master that hands over.
func (c *elect) pool(rec *Record) []*candidate {
	var out []*candidate
	for i := range c.candidates {
		x := &c.candidates[i]
		m := rec.member(x.life.Broker)
		ready := x.ready == wire.ReadyYes || x.ready == wire.ReadyUnknown && c.unknownReady
		if m == nil || !m.Registered || m.Incarnation() != x.life || m.Learner || !ready || m.ID == c.exclude {
			continue
		}
		if x.end < 0 || !rec.believable(max(x.highest, x.lastEpoch)) {
			continue
		}
		out = append(out, x)
	}
	return out
}

// best returns the best of the pool that pass, by (last epoch, durable end) in 64
// bits, then priority, then id: a longer log of an older epoch never wins.
func (c *elect) best(pool []*candidate, pass func(*candidate, *Member) bool, rec *Record) *candidate {
	var win *candidate
	for _, x := range pool {
		if c.designated != ha.NoBroker && x.life.Broker != c.designated || !pass(x, rec.member(x.life.Broker)) {
			continue
		}
		if win == nil || x.better(win) {
			win = x
		}
	}
	return win
}

func (x *candidate) better(y *candidate) bool {
	return cmp.Or(
		cmp.Compare(y.lastEpoch, x.lastEpoch), cmp.Compare(y.end, x.end),
		cmp.Compare(x.priority, y.priority), cmp.Compare(x.life.Broker, y.life.Broker)) < 0
}

// allBack elects the longest log when every member that may hold acknowledged
// data is there again on the store it had, because then nothing better exists
// (P16): a blackout of the whole group under received acknowledgements. The new
// epoch is marked unclean, so that the loss is counted. With one missing the group
// stays down and the missing are named.
func (c *elect) allBack(rec *Record, pool []*candidate) choice {
	var missing []string
	for _, id := range rec.history() {
		i := slices.IndexFunc(pool, func(x *candidate) bool { return x.life.Broker == id })
		if i < 0 || pool[i].life.Store != rec.member(id).SetStore {
			missing = append(missing, fmt.Sprintf("%d (%s)", id, c.explain(rec, id)))
		}
	}
	if len(missing) > 0 {
		return nobody("nobody of set %v and retained %v is electable; waiting for %s", rec.Set, rec.Retained, strings.Join(missing, ", "))
	}
	win := c.best(pool, func(_ *candidate, m *Member) bool { return rec.history().Has(m.ID) }, rec)
	return choice{winner: win, why: "all-back", unclean: true}
}

// explain says why a member is no candidate.
func (c *elect) explain(rec *Record, id ha.BrokerID) string {
	m := rec.member(id)
	i := slices.IndexFunc(c.candidates, func(x candidate) bool { return x.life.Broker == id })
	switch {
	case m == nil || !m.Registered:
		return "not registered"
	case id == c.exclude:
		return "it is handing over"
	case m.Learner:
		return "a learner"
	case i < 0:
		return "not heard from"
	case c.candidates[i].life != m.Incarnation():
		return "another life is registered"
	case c.candidates[i].ready != wire.ReadyYes && !(c.candidates[i].ready == wire.ReadyUnknown && c.unknownReady):
		return "its store may not be promoted"
	case m.Store != m.SetStore && rec.history().Has(id):
		return "its store was replaced"
	case !m.Electable && m.Why != "":
		return m.Why
	case !rec.history().Has(id):
		return "not in the set"
	}
	return fmt.Sprintf("its log ends at %d, below the floor %d", c.candidates[i].end, rec.Floor)
}

// install makes the winner master: new epoch above everything ever reported, new
// set {winner}; the others stay electable while the set is below the floor (P6).
func (c *elect) install(rec *Record, ch choice) {
	win := ch.winner
	reported := ha.MasterEpoch(0)
	for i := range c.candidates {
		if h := max(c.candidates[i].highest, c.candidates[i].lastEpoch); rec.believable(h) {
			reported = max(reported, h)
		}
	}
	others := rec.history().Without(win.life.Broker)
	rec.Epoch = rec.nextEpoch(reported)
	rec.Highest = rec.Epoch
	rec.SetEpoch++
	rec.Master, rec.MasterAt = win.life.Broker, win.life
	rec.Set = ha.NewIDs(win.life.Broker)
	rec.Retained = nil
	if rec.MinInSync > 1 && ch.why != "unclean" {
		rec.Retained = others
	}
	if ch.unclean {
		// What the floor stood for is lost; keeping it would bar every later candidate.
		rec.Floor = min(rec.Floor, win.end)
	}
	rec.Lost, rec.Unclean, rec.Gated = false, ch.unclean, c.gated
	m := rec.member(win.life.Broker)
	m.Electable, m.Why, m.SetStore = true, "", m.Store
}
