package checker

import "lockstep/internal/ha"

// replicaOf names one replica's store.
type replicaOf struct {
	group  string
	broker ha.BrokerID
}

// Proposed notes that a replica has been proposed for the set: whatever happened to
// its store before, it has passed the join test since.
func (l *Ledger) Proposed(group string, b ha.BrokerID) { delete(l.damaged, replicaOf{group, b}) }

// Acked is how many messages of a group were acknowledged so far.
func (l *Ledger) Acked(group string) int { return len(l.messages[group]) }

// Joined checks a replica that a committed set names for the first time in this
// life: it may be elected from now on, so it must hold what was acknowledged. Under
// all-in-sync that is everything; where fewer copies are promised it is what was
// acknowledged before the set was proposed, because later acknowledgements need not
// wait for it: before is how many Acked said then. A time would not do, since a batch
// that proposes may acknowledge more at the same instant.
func (l *Ledger) Joined(group string, b ha.BrokerID, before int, at int64) {
	if l.damaged[replicaOf{group, b}] {
		return // a fault came between the proposal and its commit
	}
	p, floor := l.policy[group], l.truth.MinOffset(group, b)
	missing, first := 0, (*message)(nil)
	for i, m := range l.messages[group] {
		if m.lost || m.expired || m.ack.Log < floor || !p.All && i >= before {
			continue
		}
		if l.classAt(m, b) < p.Class && !l.latent[replicaOf{group, b}][m] {
			missing++
			if first == nil {
				first = m
			}
		}
	}
	if first != nil {
		l.fail("joined-lacking", at, "broker %d enters the committed set and lacks %d acknowledged messages, the first is %s (log %d, acknowledged at %.3fs)",
			b, missing, first.ack.Key, first.ack.Log, float64(first.ack.At)/1e9)
	}
}

// noteLatent notes which messages rot has damaged in a store that goes on: until it
// reads them, or its disk is replaced, nobody above the device can know.
func (l *Ledger) noteLatent(group string, b ha.BrokerID) {
	r := replicaOf{group, b}
	if l.latent[r] == nil {
		l.latent[r] = map[*message]bool{}
	}
	for _, m := range l.messages[group] {
		raw := l.truth.Durable(group, b, m.ack.Log, m.size)
		if raw != nil && hashOf(raw) != m.hash && !blank(raw) {
			l.latent[r][m] = true
		}
	}
}

// maxRot is how many bytes of one record a fault changes at most.
const maxRot = 3

// rotUnderWay reports whether a broker's durable copy was changed by rot between its
// acknowledgement and the master's: few bytes differ on a disk that has rotted.
func (l *Ledger) rotUnderWay(m *message, b ha.BrokerID) bool {
	r := replicaOf{m.ack.Group, b}
	if !l.rotted[r] {
		return false
	}
	raw := l.truth.Durable(r.group, b, m.ack.Log, m.size)
	if len(raw) != len(m.raw) || len(raw) == 0 {
		return false
	}
	differ := 0
	for i := range raw {
		if raw[i] != m.raw[i] {
			differ++
		}
	}
	if differ == 0 || differ > maxRot {
		return false
	}
	if l.latent[r] == nil {
		l.latent[r] = map[*message]bool{}
	}
	l.latent[r][m] = true
	return true
}

// blank reports whether nothing was ever written there.
func blank(raw []byte) bool {
	for _, x := range raw {
		if x != 0 {
			return false
		}
	}
	return true
}

// Cut checks a truncation by a member of the committed set: it counts for what it
// holds, so it must never throw away an acknowledged message (P10).
func (l *Ledger) Cut(group string, b ha.BrokerID, off ha.LogOffset, at int64) {
	for _, m := range l.messages[group] {
		if m.lost || m.expired || m.ack.Log+ha.LogOffset(m.size) <= off {
			continue
		}
		if c := m.copyOf(b); c.died == "" {
			l.fail("cut-acknowledged", at, "member %d cuts its log to %d and with it %s, acknowledged at %d", b, off, m.ack.Key, m.ack.Log)
			return
		}
	}
}
