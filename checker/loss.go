package checker

import (
	"fmt"
	"strings"

	"lockstep/internal/ha"
)

// StoreLost notes that a broker's disk was wiped, replaced or rolled back.
func (l *Ledger) StoreLost(group string, b ha.BrokerID, why string) {
	l.damaged[replicaOf{group, b}] = true
	l.kill(group, b, ha.ClassDurable, 0, 1<<62, why)
}

// PowerLost notes a power loss: copies that were only received are gone.
func (l *Ledger) PowerLost(group string, b ha.BrokerID) {
	if l.policy[group].Class < ha.ClassDurable {
		l.damaged[replicaOf{group, b}] = true
	}
	for _, m := range l.messages[group] {
		for i := range m.copies {
			c := &m.copies[i]
			if c.broker != b || c.died != "" || c.class == ha.ClassDurable {
				continue
			}
			// It may have been synced since; only the truth knows.
			if raw := l.truth.Durable(group, b, m.ack.Log, m.size); raw == nil || hashOf(raw) != m.hash {
				c.died = "power loss before it was durable"
			}
		}
	}
}

// Rotted notes damage to bytes [off, end) of a broker's log.
func (l *Ledger) Rotted(group string, b ha.BrokerID, off, end ha.LogOffset) {
	l.kill(group, b, ha.ClassDurable, off, end, "rot")
}

func (l *Ledger) kill(group string, b ha.BrokerID, upTo ha.AckClass, off, end ha.LogOffset, why string) {
	for _, m := range l.messages[group] {
		if m.ack.Log >= end || m.ack.Log+ha.LogOffset(m.size) <= off {
			continue
		}
		for i := range m.copies {
			c := &m.copies[i]
			if c.broker == b && c.class <= upTo && c.died == "" {
				c.died = why
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
	for _, m := range l.messages[p.Group] {
		if !m.lost && !m.expired && m.ack.Epoch < p.Epoch {
			l.verify(m, p, floor)
		}
	}
}

// Final checks every promise of the group on the last master.
func (l *Ledger) Final(p Promotion) {
	p.Epoch = 1<<31 - 1
	floor := l.truth.MinOffset(p.Group, p.Master)
	for _, m := range l.messages[p.Group] {
		if !m.lost && !m.expired {
			l.verify(m, p, floor)
		}
	}
}

func (l *Ledger) verify(m *message, p Promotion, floor ha.LogOffset) {
	if m.ack.Log < floor {
		m.expired = true
		l.Counts.Expired++
		return
	}
	if raw := l.truth.Cached(p.Group, p.Master, m.ack.Log, m.size); raw != nil && hashOf(raw) == m.hash {
		return
	}
	m.lost = true
	m.allowed = l.explained(m, p)
	l.Counts.Lost++
	l.Counts.LostBytes += int64(m.size)
	before, seen := l.lostKeys[m.ack.Key]
	l.lostKeys[m.ack.Key] = m.allowed && (before || !seen)
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
	fmt.Fprintf(&b, "acknowledged at %.3fs by broker %d in epoch %d (log %d, %d bytes)", float64(m.ack.At)/1e9, m.ack.Master, m.ack.Epoch, m.ack.Log, m.size)
	for _, c := range m.copies {
		fmt.Fprintf(&b, "; broker %d held it %v", c.broker, c.class)
		if c.died != "" {
			fmt.Fprintf(&b, " until %s", c.died)
		}
	}
	fmt.Fprintf(&b, "; broker %d, master of epoch %d, lacks it", p.Master, p.Epoch)
	return b.String()
}
