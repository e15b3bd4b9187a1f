package checker

import "lockstep/internal/ha"

// Served notes a message that a broker gives to a consumer, at the instant it
// leaves the broker: what has been visible stays, whether or not its producer was
// promised anything. raw is the record as served.
func (l *Ledger) Served(group string, master ha.BrokerID, epoch ha.MasterEpoch, raw []byte, at int64) {
	r, err := ParseRecord(raw)
	if err != nil {
		l.fail("served-garbage", at, "broker %d serves what is no message: %v", master, err)
		return
	}
	where := promise{r.Key(), group, r.Log}
	if l.byPlace[where] != nil || l.visible[where] != nil {
		return
	}
	m := &message{ack: Ack{Key: where.key, Group: group, Master: master, Epoch: epoch, Log: r.Log, QueueOffset: r.QueueOffset, At: at},
		size: r.Size, raw: raw[:r.Size], hash: hashOf(raw[:r.Size]), seen: true}
	l.gather(m)
	l.gatherPast(m)
	m.raw = nil
	l.visible[where] = m
	l.reads[group] = append(l.reads[group], m)
	l.Counts.Seen++
	if m.class(master) == ha.ClassUnknown {
		l.fail("served-unstored", at, "broker %d serves %s (log %d), and its disk does not hold it", master, m.ack.Key, r.Log)
	}
	if p, ok := l.promoted[group]; ok && epoch < p.Epoch {
		l.verify(m, p, l.truth.MinOffset(p.Group, p.Master))
	}
}

// Heard checks that no client was told of a success that the ledger never saw leave
// a broker: what the ledger is blind to it cannot judge.
func (l *Ledger) Heard(ops []Op) {
	for i := range ops {
		if op := &ops[i]; op.Kind == Send && op.Status == Done && !l.heard[op.Key] {
			l.fail("unheard", op.Return, "the client was told that %s is stored, and no SEND_OK for it was seen", op.Key)
			return
		}
	}
}
