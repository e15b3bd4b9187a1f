package namesrv

import (
	"time"

	"lockstep/internal/event"
	"lockstep/node"
)

// liveness says when to look for silent brokers. earliest is a lower bound of all
// members' deadlines: signs of life only move deadlines back, so it is corrected
// when it is reached, not at each heartbeat.
type liveness struct {
	last     node.Time // the latest call
	earliest node.Time
}

// stallTolerance is how late a due look may come before the delay counts as "the
// loop did not run".
const stallTolerance = time.Second

// forgiveStall moves all deadlines back by the time in which this process was not
// running (paused, suspended, starved): the brokers' heartbeats of that time lie
// unread in the sockets, so it says nothing about them. How long the loop stood
// before the look was due is not known; the doubt is in the brokers' favour.
func (n *NameServer) forgiveStall(now node.Time) {
	due := max(n.liveness.earliest, n.liveness.last)
	if n.liveness.earliest == node.Never || now <= due.Add(stallTolerance) {
		return
	}
	gap := now.Sub(n.liveness.last)
	for _, g := range n.groups.sorted() {
		for _, m := range g.members {
			m.deadline = m.deadline.Add(gap)
		}
		if !g.emptyUntil.zero() {
			g.emptyUntil = instant(node.Time(g.emptyUntil).Add(gap))
		}
	}
	n.liveness.earliest = n.liveness.earliest.Add(gap)
}

// instant is a time that may be unset (0).
type instant node.Time

func (i instant) zero() bool { return i == 0 }

// expect moves the bound down to t.
func (l *liveness) expect(t node.Time) { l.earliest = min(l.earliest, t) }

// settleExpiry removes brokers that have been silent past their deadline, and
// groups that have been empty for long.
func (n *NameServer) settleExpiry() {
	if n.now.Mono < n.liveness.earliest {
		return
	}
	n.liveness.earliest = node.Never
	for _, g := range n.groups.sorted() {
		for i := len(g.members) - 1; i >= 0; i-- {
			m := g.members[i]
			if m.deadline > n.now.Mono {
				n.liveness.expect(m.deadline)
				continue
			}
			n.expire(m)
		}
		if len(g.members) == 0 {
			n.settleEmpty(g)
		}
	}
}

// expire removes a silent broker and closes its stream, unless another broker
// lives on it, so that a peer that only fell asleep connects and registers anew.
func (n *NameServer) expire(m *member) {
	n.stats.expired++
	n.emit(event.Event{Kind: event.BrokerExpired, Group: m.group.name, Broker: m.eventID(), Text: m.addr})
	s := n.sessions[m.session]
	n.remove(m, "silent for "+m.timeout.String())
	if s == nil {
		return
	}
	for _, other := range s.bound {
		if !other.gone && other.session == s.id {
			return
		}
	}
	delete(n.sessions, s.id)
	n.closes = append(n.closes, s.id)
}

// settleEmpty drops an empty group once nobody of it has been heard of for
// BrokerExpiry. Until then it remembers the highest epoch, so that a deposed
// master cannot slip into the gap that a failover leaves.
func (n *NameServer) settleEmpty(g *group) {
	if node.Time(g.emptyUntil) <= n.now.Mono {
		n.groups.drop(g)
		return
	}
	n.liveness.expect(node.Time(g.emptyUntil))
}
