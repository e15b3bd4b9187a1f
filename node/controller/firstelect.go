package controller

import (
	"fmt"
	"slices"
	"strings"

	"lockstep/internal/ha"
)

// first chooses the first master of a group (P17). Three cases are told apart,
// because two of them are not first elections at all:
//
//   - brokers report epochs: the controllers lost the record. Only with every
//     replica there is the best log known to hold everything acknowledged.
//   - exactly one log is not empty: it is the data, so its owner leads.
//   - several logs without epochs are not empty: nobody can tell which is right;
//     the operator designates.
func (c *elect) first(rec *Record, pool []*candidate) choice {
	if c.designated != ha.NoBroker {
		win := c.best(pool, func(*candidate, *Member) bool { return true }, rec)
		if win == nil {
			return nobody("broker %d cannot be the first master: %s", c.designated, c.explain(rec, c.designated))
		}
		return choice{winner: win, why: "designated"}
	}
	if epochs := reportedEpochs(rec, pool); epochs > 0 {
		return c.reconstruct(rec, pool, epochs)
	}
	var full []string
	for i := range rec.Members {
		m := &rec.Members[i]
		at := slices.IndexFunc(pool, func(x *candidate) bool { return x.life.Broker == m.ID })
		switch {
		case at >= 0 && pool[at].end > 0, at < 0 && m.Registered && !m.Learner && m.End > 0:
			full = append(full, fmt.Sprintf("%d", m.ID))
		}
	}
	if len(full) > 1 {
		return nobody("brokers %s have logs without epochs and nothing says which is right: designate one (electMaster with designateElect)", strings.Join(full, ", "))
	}
	win := c.best(pool, func(x *candidate, _ *Member) bool { return x.end > 0 }, rec)
	if win == nil && len(full) == 1 {
		return nobody("broker %s has the only log that is not empty; waiting for it", full[0])
	}
	if win == nil {
		win = c.best(pool, func(*candidate, *Member) bool { return true }, rec)
	}
	if win == nil {
		return nobody("no registered broker of %s is alive with a promotable store", c.key)
	}
	return choice{winner: win, why: "first"}
}

// reportedEpochs is the highest epoch that any member of a group without record
// says it has seen.
func reportedEpochs(rec *Record, pool []*candidate) ha.MasterEpoch {
	high := ha.MasterEpoch(0)
	for i := range rec.Members {
		high = max(high, rec.Members[i].Highest, rec.Members[i].LastEpoch)
	}
	for _, x := range pool {
		high = max(high, x.highest, x.lastEpoch)
	}
	return high
}

// reconstruct elects the best log of a group whose record was lost, once all its
// replicas are there.
func (c *elect) reconstruct(rec *Record, pool []*candidate, epochs ha.MasterEpoch) choice {
	var missing []string
	broken := false
	for i := range rec.Members {
		m := &rec.Members[i]
		if m.Registered && !m.Learner && !slices.ContainsFunc(pool, func(x *candidate) bool { return x.life.Broker == m.ID }) {
			missing = append(missing, fmt.Sprintf("%d (%s)", m.ID, c.explain(rec, m.ID)))
		}
		broken = broken || m.Claim != ha.ClaimHolds
	}
	n, want := rec.registered(), rec.replicas()
	if n < want || len(missing) > 0 {
		text := fmt.Sprintf("the record of %s is lost (its brokers report epoch %d): all %d replicas are needed, %d are registered", c.key, epochs, want, n)
		if len(missing) > 0 {
			text += "; missing " + strings.Join(missing, ", ")
		}
		return nobody("%s; or designate one", text)
	}
	win := c.best(pool, func(*candidate, *Member) bool { return true }, rec)
	if win == nil {
		return nobody("no registered broker of %s is alive with a promotable store", c.key)
	}
	return choice{winner: win, why: "rebuilt", unclean: broken}
}
