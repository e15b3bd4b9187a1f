package model

func (w *Walk) deliver(m message) {
	switch m.kind {
	case alter:
		w.onAlter(m)
	case alterReply:
		b := &w.brokers[m.to]
		if b.up && b.boot == m.boot && b.role == master && b.epoch == m.epoch && m.ok && m.setEpoch > b.setEpoch {
			b.set, b.setEpoch, b.proposals = m.set, m.setEpoch, nil
		}
	case ack:
		b := &w.brokers[m.to]
		if b.up && b.role == master && b.session[m.from] == m.session && m.off > b.acks[m.from] && m.off <= len(b.log) {
			b.acks[m.from] = m.off
		}
	case info:
		w.onInfo(m)
	case register:
		w.onRegister(m)
	}
}

func (w *Walk) onAlter(m message) {
	c := &w.ctl
	ok := m.from == c.master && m.epoch == c.epoch && m.setEpoch == c.setEpoch && m.set.has(m.from)
	if w.rules.MemberBoot {
		for j := range c.boot {
			ok = ok && !(m.set.has(j) && m.boots[j] != c.boot[j])
		}
	}
	if ok {
		removed := c.set &^ m.set
		c.retained = (c.retained | removed) &^ m.set
		if m.set.size() >= w.rules.MinInSync {
			c.retained = 0
		}
		c.broken &^= m.set
		c.set = m.set
		c.setEpoch++
		w.tracef("commit set %03b epoch %d retained %03b", c.set, c.setEpoch, c.retained)
	}
	w.send(message{kind: alterReply, to: m.from, boot: m.boot, ok: ok, epoch: m.epoch, setEpoch: c.setEpoch, set: m.set})
}

func (w *Walk) onInfo(m message) {
	b := &w.brokers[m.to]
	if !b.up || m.epoch == 0 {
		return
	}
	switch {
	case m.epoch > b.epoch || b.role == none && m.epoch >= b.epoch:
		w.applyRole(b, m)
	case m.epoch == b.epoch && b.role == master && m.master == m.to:
		if m.setEpoch > b.setEpoch {
			b.set, b.setEpoch, b.proposals = m.set, m.setEpoch, nil
		} else if m.setEpoch == b.setEpoch && !w.rules.UnionByEpoch {
			b.proposals = nil
		}
	}
}

func (w *Walk) applyRole(b *broker, m message) {
	if m.master != m.to {
		b.role, b.follows, b.mySession, b.epoch = slave, m.master, 0, m.epoch
		return
	}
	if w.rules.NewEpoch && m.masterBoot != b.boot {
		return
	}
	b.role = master
	w.tracef("master %d epoch %d length %d", m.to, m.epoch, len(b.log))
	w.checkLoss(m.to)
	if lastEpoch(b.log) < m.epoch {
		b.start = len(b.log)
		b.log = append(b.log[:len(b.log):len(b.log)], entry{m.epoch, -m.epoch})
	}
	b.set, b.setEpoch, b.proposals = m.set, m.setEpoch, nil
	if w.rules.DropAcks {
		b.acks, b.session = [Brokers]int{}, [Brokers]int{}
		b.memberBoot, b.sessionBoot = [Brokers]int{}, [Brokers]int{}
	}
	b.epoch = m.epoch
}

func (w *Walk) onRegister(m message) {
	c := &w.ctl
	if m.boot < c.boot[m.from] {
		return
	}
	fresh := m.boot > c.boot[m.from]
	c.boot[m.from] = m.boot
	if fresh && (!m.claim || w.rules.StoreID && c.store[m.from] != m.store) {
		c.broken |= 1 << m.from
	}
	c.store[m.from] = m.store
}
