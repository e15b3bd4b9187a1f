package scenarios

import (
	"fmt"

	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/node/controller"
)

// holding follows who counts for the acknowledged messages: which life of which
// replica the committed set names, and when it was proposed.
type holding struct {
	lives    map[string]map[ha.BrokerID]ha.Incarnation // by group, of the newest committed set
	proposed map[string]int                            // proposal → messages acknowledged when it was first made
}

func newHolding() holding {
	return holding{lives: map[string]map[ha.BrokerID]ha.Incarnation{}, proposed: map[string]int{}}
}

// proposal names what a conditional write would make of the set.
func proposal(e event.Event, base ha.SetEpoch) string {
	return fmt.Sprintf("%s/%d/%d/%s", e.Group, e.Epoch, base, e.Set)
}

// offered notes a proposal; copies of it count from the first.
func (j *Judge) offered(e event.Event) {
	key := proposal(e, e.SetEpoch)
	if _, again := j.holding.proposed[key]; again {
		return
	}
	j.holding.proposed[key] = j.Ledger.Acked(e.Group)
	for _, id := range e.Set {
		j.Ledger.Proposed(e.Group, id)
	}
}

// entered lets the ledger look at every life that a committed set names anew.
func (j *Judge) entered(e event.Event, rec controller.Record) {
	old, now := j.holding.lives[e.Group], map[ha.BrokerID]ha.Incarnation{}
	for i := range rec.Members {
		if m := &rec.Members[i]; e.Set.Has(m.ID) {
			now[m.ID] = m.Incarnation()
		}
	}
	j.holding.lives[e.Group] = now
	if e.Kind != event.SetAltered {
		return
	}
	proposed, known := j.holding.proposed[proposal(e, e.SetEpoch-1)]
	for _, id := range e.Set {
		if known && id != e.Broker && old[id] != now[id] && j.truth.up(j.truth.Node(e.Group, id)) {
			j.Ledger.Joined(e.Group, id, proposed, j.now())
		}
	}
}

// cut lets the ledger look at a truncation by somebody the committed set names.
func (j *Judge) cut(e event.Event) {
	id := j.truth.ID(e.Node)
	if rec := j.truth.refresh(e.Group); rec.Set.Has(id) && !rec.Unclean {
		j.Ledger.Cut(e.Group, id, e.Off, j.now())
	}
}
