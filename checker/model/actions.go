package model

const numActions = 14

// actions are the walk's steps with their base weights.
var actions = [numActions]struct {
	name   string
	weight int
	do     func(w *Walk, i int, b *broker)
}{
	{"append", 150, (*Walk).append},
	{"fsync", 150, (*Walk).fsync},
	{"replicate", 250, (*Walk).replicate},
	{"ack", 250, (*Walk).sendAck},
	{"handshake", 150, (*Walk).handshake},
	{"propose", 60, (*Walk).propose},
	{"deliver", 600, (*Walk).deliverOne},
	{"info", 40, (*Walk).sendInfo},
	{"elect", 5, (*Walk).elect},
	{"session break", 10, (*Walk).breakSession},
	{"process crash", 6, (*Walk).crash},
	{"power loss", 4, (*Walk).powerLoss},
	{"wipe", 2, (*Walk).wipe},
	{"restart", 60, (*Walk).restart},
}

func (w *Walk) append(i int, b *broker) {
	if b.up && b.role == master && b.set.size() >= w.rules.MinInSync {
		w.values++
		b.log = append(b.log, entry{b.epoch, w.values})
		w.tracef("append %d at %d", w.values, i)
	}
}

func (w *Walk) fsync(_ int, b *broker) {
	if b.up {
		b.durable = len(b.log)
		b.platter = b.durable
	}
}

func (w *Walk) replicate(i int, b *broker) {
	if !b.up || b.role != slave || b.mySession == 0 {
		return
	}
	m := &w.brokers[b.follows]
	if !m.up || m.role != master || m.session[i] != b.mySession || len(b.log) >= len(m.log) {
		return
	}
	if consistentPoint(b.log, m.log) != len(b.log) {
		return
	}
	n := len(b.log) + 1 + w.rnd.Intn(len(m.log)-len(b.log))
	b.log = append(b.log[:len(b.log):len(b.log)], m.log[len(b.log):n]...)
}

func (w *Walk) sendAck(i int, b *broker) {
	if !b.up || b.role != slave || b.mySession == 0 {
		return
	}
	off := b.durable
	if w.rules.ClassReceived {
		off = len(b.log)
	}
	w.send(message{kind: ack, from: i, to: b.follows, off: off, session: b.mySession})
}

func (w *Walk) handshake(i int, b *broker) {
	if !b.up || b.role != slave {
		return
	}
	m := &w.brokers[b.follows]
	if !m.up || m.role != master || m.epoch != b.epoch || b.mySession != 0 && m.session[i] == b.mySession {
		return
	}
	p := consistentPoint(b.log, m.log)
	if p < len(b.log) {
		w.tracef("truncate %d: %d to %d", i, len(b.log), p)
	}
	b.log = b.log[:p]
	b.durable, b.platter, b.confirm = min(b.durable, p), min(b.platter, p), min(b.confirm, p)
	w.sessions++
	b.mySession = w.sessions
	m.session[i], m.acks[i], m.sessionBoot[i] = w.sessions, 0, b.boot
}

func (w *Walk) propose(i int, b *broker) {
	if !b.up || b.role != master || len(b.proposals) >= 3 {
		return
	}
	j := w.rnd.Intn(Brokers)
	if j == i {
		return
	}
	next := b.set ^ 1<<j
	if next.has(j) {
		if b.session[j] == 0 {
			return
		}
		if w.rules.JoinTest && (b.acks[j] < b.confirm || b.acks[j] <= b.start || b.acks[j] < w.ackedEnd(b)) {
			return
		}
		b.memberBoot[j] = b.sessionBoot[j]
	}
	b.proposals = append(b.proposals, proposal{next})
	boots := b.memberBoot
	if !w.rules.ProvenBoot {
		boots = b.sessionBoot
	}
	boots[i] = b.boot
	w.tracef("propose %d epoch %d base %d: %03b to %03b", i, b.epoch, b.setEpoch, b.set, next)
	w.send(message{kind: alter, from: i, epoch: b.epoch, setEpoch: b.setEpoch, set: next, boots: boots, boot: b.boot})
}

// ackedEnd is the offset after the last acknowledged entry of the log.
func (w *Walk) ackedEnd(b *broker) int {
	end := 0
	for k, e := range b.log {
		if w.acked[e.value] {
			end = k + 1
		}
	}
	return end
}

func (w *Walk) deliverOne(int, *broker) {
	if len(w.inFlight) == 0 {
		return
	}
	n := w.rnd.Intn(len(w.inFlight))
	m := w.inFlight[n]
	w.inFlight = append(w.inFlight[:n:n], w.inFlight[n+1:]...)
	if w.rnd.Intn(8) != 0 { // one in eight is lost
		w.deliver(m)
	}
}

func (w *Walk) sendInfo(i int, b *broker) {
	c := &w.ctl
	w.send(message{kind: info, to: i, boot: b.boot, master: c.master, masterBoot: c.masterBoot, epoch: c.epoch, setEpoch: c.setEpoch, set: c.set})
}

func (w *Walk) breakSession(_ int, b *broker) {
	if b.up && b.role == slave {
		b.mySession = 0
	}
}

func (w *Walk) crash(i int, b *broker) {
	if b.up {
		b.up, b.role = false, none
		w.tracef("crash %d", i)
	}
}

func (w *Walk) powerLoss(i int, b *broker) {
	if w.rules.ClassReceived && i != w.victim { // the fault budget: one lost cache
		return
	}
	b.up, b.role = false, none
	keep := b.platter
	if keep < len(b.log) {
		keep += w.rnd.Intn(len(b.log) - keep + 1)
		w.tracef("power loss %d: %d to %d", i, len(b.log), keep)
	}
	b.log = b.log[:keep]
	b.durable = min(b.durable, keep)
}

func (w *Walk) wipe(i int, b *broker) {
	if i != w.victim || w.wipes >= 2 {
		return
	}
	w.wipes++
	b.up, b.role, b.log = false, none, nil
	b.durable, b.platter, b.confirm, b.epoch = 0, 0, 0, 0
	b.store += 10
	w.tracef("wipe %d", i)
}

func (w *Walk) restart(i int, b *broker) {
	if !b.up {
		*b = broker{up: true, store: b.store, boot: b.boot + 1, log: b.log, durable: len(b.log), platter: b.platter,
			epoch: lastEpoch(b.log), confirm: min(b.confirm, len(b.log))}
		if w.rules.RecoverySyncs {
			b.platter = b.durable
		}
		w.tracef("restart %d length %d", i, len(b.log))
		w.register(i, b)
	} else if w.rnd.Intn(3) == 0 {
		w.register(i, b)
	}
}

func (w *Walk) register(i int, b *broker) {
	claim := !(w.rules.ClassReceived && w.rules.UncleanBroken)
	w.send(message{kind: register, from: i, boot: b.boot, store: b.store, claim: claim})
}

func (w *Walk) send(m message) { w.inFlight = append(w.inFlight, m) }

func (w *Walk) elect(int, *broker) {
	c := &w.ctl
	eligible := c.set
	if w.rules.Retained {
		eligible |= c.retained
	}
	candidates, allBack := w.candidates(eligible)
	if len(candidates) == 0 && allBack && w.rules.ClassReceived {
		candidates = w.bestOf(eligible) // P16: every electable member is back, nothing better exists
	}
	if len(candidates) == 0 {
		return
	}
	j := candidates[w.rnd.Intn(len(candidates))]
	old := c.set | c.retained
	c.master, c.masterBoot = j, c.boot[j]
	c.epoch++
	c.setEpoch++
	c.set, c.retained = 1<<j, 0
	if w.rules.MinInSync > 1 {
		c.retained = old &^ c.set
	}
	c.broken &^= 1 << j
	w.Elected++
	w.tracef("elect %d epoch %d retained %03b", j, c.epoch, c.retained)
}

func (w *Walk) candidates(eligible set) (out []int, allBack bool) {
	c := &w.ctl
	allBack = true
	for j := range w.brokers {
		b := &w.brokers[j]
		switch {
		case !eligible.has(j):
		case !b.up || b.boot != c.boot[j]:
			allBack = false
		case c.broken.has(j), w.rules.StoreID && c.store[j] != b.store:
		default:
			out = append(out, j)
		}
	}
	return out, allBack
}

func (w *Walk) bestOf(eligible set) []int {
	best := -1
	for j := range w.brokers {
		if !eligible.has(j) || w.brokers[j].store >= 10 {
			continue
		}
		if best < 0 || longer(w.brokers[j].log, w.brokers[best].log) {
			best = j
		}
	}
	if best < 0 {
		return nil
	}
	return []int{best}
}

func longer(x, y []entry) bool {
	if lastEpoch(x) != lastEpoch(y) {
		return lastEpoch(x) > lastEpoch(y)
	}
	return len(x) > len(y)
}
