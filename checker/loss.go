package checker

import (
	"fmt"
	"strings"

	"lockstep/internal/ha"
)

// StoreLost notes that a broker's disk was wiped, replaced or rolled back.
func (l *Ledger) StoreLost(group string, b ha.BrokerID, why string) {
	l.damaged[replicaOf{group, b}] = true
	delete(l.latent, replicaOf{group, b})
	delete(l.rotted, replicaOf{group, b})
	l.each(group, b, func(_ *message, c *copyState) { c.died = why })
}

// PowerLost notes a power loss: copies that were only received are gone.
func (l *Ledger) PowerLost(group string, b ha.BrokerID) {
	if l.policy[group].Class < ha.ClassDurable {
		l.damaged[replicaOf{group, b}] = true
	}
	l.unsynced(group, b, ha.ClassReceived, "power loss before it was durable")
}

// SyncDropped notes that a sync failed and the system dropped the pages: copies that
// were only received are gone. Nothing that was durable is.
func (l *Ledger) SyncDropped(group string, b ha.BrokerID) {
	l.damaged[replicaOf{group, b}] = true
	l.unsynced(group, b, ha.ClassReceived, "a failed sync dropped its pages")
}

// LiarLost notes a power loss of a disk whose syncs had made nothing durable; the
// truth must say what really is on the platter.
func (l *Ledger) LiarLost(group string, b ha.BrokerID) {
	l.damaged[replicaOf{group, b}] = true
	l.unsynced(group, b, ha.ClassDurable, "power loss of a disk that lied")
}

// unsynced ends the copies of a broker, up to a class, that are not on its platter.
// A copy may have been synced since it was counted; only the truth knows.
func (l *Ledger) unsynced(group string, b ha.BrokerID, upTo ha.AckClass, why string) {
	l.each(group, b, func(m *message, c *copyState) {
		if c.class > upTo {
			return
		}
		if raw := l.truth.Durable(group, b, m.ack.Log, m.size); raw == nil || hashOf(raw) != m.hash {
			c.died = why
		}
	})
}

// Rotted looks for durable copies of a broker whose bytes have changed on the platter.
// It must be asked before the broker can have cut or written anything since.
func (l *Ledger) Rotted(group string, b ha.BrokerID) {
	l.damaged[replicaOf{group, b}], l.rotted[replicaOf{group, b}] = true, true
	l.noteLatent(group, b)
	l.each(group, b, func(m *message, c *copyState) {
		if raw := l.truth.Durable(group, b, m.ack.Log, m.size); raw != nil && hashOf(raw) != m.hash {
			c.died = "rot"
		}
	})
}

// Began notes that a send reached a broker: its message may be that old. Only where
// messages expire does it matter.
func (l *Ledger) Began(group, key string, at int64) {
	if l.policy[group].Reserved == 0 {
		return
	}
	if _, known := l.began[key]; !known {
		l.began[key] = at
	}
}

// bornAt is the earliest instant at which a message may have been stored: it is
// acknowledged, or read, some time after that.
func (l *Ledger) bornAt(m *message) int64 {
	if at, known := l.began[m.ack.Key]; known {
		return min(at, m.ack.At)
	}
	return m.ack.At
}

// each visits the living copies of a broker.
func (l *Ledger) each(group string, b ha.BrokerID, do func(m *message, c *copyState)) {
	for _, list := range [2][]*message{l.messages[group], l.reads[group]} {
		for _, m := range list {
			for i := range m.copies {
				if c := &m.copies[i]; c.broker == b && c.died == "" {
					do(m, c)
				}
			}
		}
	}
}

// Promotion is a new master taking its role.
type Promotion struct {
	Group     string
	Master    ha.BrokerID
	Epoch     ha.MasterEpoch
	Unclean   bool   // the controller marked the election unclean
	Electable ha.IDs // who could have been elected instead, at the election
	At        int64
}

// Promoted compares the new master's log with every promise of the group.
func (l *Ledger) Promoted(p Promotion) {
	l.promoted[p.Group] = p
	floor := l.truth.MinOffset(p.Group, p.Master)
	l.check(p, floor)
}

// Final checks every promise of the group on the last master.
func (l *Ledger) Final(p Promotion) {
	p.Epoch = 1<<31 - 1
	floor := l.truth.MinOffset(p.Group, p.Master)
	l.check(p, floor)
}

// check compares a log with every promise of earlier epochs.
func (l *Ledger) check(p Promotion, floor ha.LogOffset) {
	for _, list := range [2][]*message{l.messages[p.Group], l.reads[p.Group]} {
		for _, m := range list {
			if !m.lost && !m.expired && m.ack.Epoch < p.Epoch {
				l.verify(m, p, floor)
			}
		}
	}
}

func (l *Ledger) verify(m *message, p Promotion, floor ha.LogOffset) {
	if reserved := l.policy[p.Group].Reserved; m.ack.Log < floor && reserved > 0 && p.At-l.bornAt(m) >= reserved {
		m.expired = true
		l.Counts.Expired++
		return
	}
	if raw := l.truth.Cached(p.Group, p.Master, m.ack.Log, m.size); raw != nil && hashOf(raw) == m.hash {
		return
	}
	m.lost = true
	m.allowed = l.explained(m, p)
	before, seen := l.lostKeys[m.ack.Key]
	l.lostKeys[m.ack.Key] = m.allowed && (before || !seen)
	if m.seen {
		l.Counts.SeenLost++
		if !m.allowed {
			l.fail("seen-lost", p.At, "%s was read by a consumer: %s", m.ack.Key, l.story(m, p))
		}
		return
	}
	l.Counts.Lost++
	l.Counts.LostBytes += int64(m.size)
	if m.allowed {
		l.Counts.LossAllowed++
		return
	}
	l.fail("lost", p.At, "%s: %s", m.ack.Key, l.story(m, p))
}

// explained decides whether exactly this loss is allowed. Truncation by the
// product is never an excuse.
func (l *Ledger) explained(m *message, p Promotion) bool {
	policy := l.policy[m.ack.Group]
	living, couldLead := 0, false
	for _, c := range m.copies {
		if c.died == "" {
			living++
			couldLead = couldLead || p.Electable.Has(c.broker)
		}
	}
	switch {
	case living == 0:
		return true // every copy that stood behind the promise died of a fault
	case policy.All:
		return p.Unclean && !couldLead
	case policy.Count > 1:
		return !couldLead
	}
	// One copy: the master's own. It is gone, or the master was not electable.
	return !p.Electable.Has(m.ack.Master) || m.copyOf(m.ack.Master).died != ""
}

func (m *message) copyOf(b ha.BrokerID) copyState {
	for _, c := range m.copies {
		if c.broker == b {
			return c
		}
	}
	return copyState{broker: b, died: "never held it"}
}

// story is the message's life on one line.
func (l *Ledger) story(m *message, p Promotion) string {
	var b strings.Builder
	what := "acknowledged"
	if m.seen {
		what = "served"
	}
	fmt.Fprintf(&b, what+" at %.3fs by broker %d in epoch %d (log %d, %d bytes)", float64(m.ack.At)/1e9, m.ack.Master, m.ack.Epoch, m.ack.Log, m.size)
	for _, c := range m.copies {
		fmt.Fprintf(&b, "; broker %d held it %v", c.broker, c.class)
		if c.died != "" {
			fmt.Fprintf(&b, " until %s", c.died)
		}
	}
	fmt.Fprintf(&b, "; broker %d, master of epoch %d, lacks it", p.Master, p.Epoch)
	return b.String()
}
