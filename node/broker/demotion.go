package broker

import "lockstep/internal/event"

// settleDemotion takes up the role of a slave: the fence came first (loseRole),
// its waiters have been answered with "unknown", and what was appended under the
// old authority is settled on this disk before a byte of another master can land
// behind it (HA contracts trap 17). Then it follows; what the new master does not
// have is cut at the consistent point, durably.
func (b *Broker) settleDemotion() {
	r := &b.role
	if r.kind != roleSlave || r.phase != phaseSettling || b.failed() {
		return
	}
	if b.waiters.queue.len() > 0 || b.cut.wanted || !b.log.quiet() || !b.saved(saveHighest) {
		return
	}
	r.phase = phaseFollowing
	b.changed()
	b.up.begin(b.now.Mono)
	b.emit(event.Event{Kind: event.RoleApplied, Broker: b.view.master, Epoch: r.epoch, SetEpoch: b.view.setEpoch, Text: "slave"})
	b.roleChangedServices(b.now)
	b.reg.hurry()
	b.ns.hurry()
}
