package broker

import (
	"fmt"

	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/internal/invariant"
)

// roleKind is what the controllers made of this broker.
type roleKind uint8

const (
	roleNone roleKind = iota // fenced: nobody told it what it is, or its authority ended
	roleSlave
	roleMaster
)

// rolePhase is how far a role has been taken up. A role counts for nothing before
// its last phase; each phase is a condition that is checked until it holds, so a
// lost or repeated fact cannot skip one (HA contracts trap 16).
type rolePhase uint8

const (
	phaseSettling  rolePhase = iota // the lanes run dry under the old role
	phaseBarrier                    // master: the barrier record is on its way to the disk
	phaseServing                    // master: writes are accepted
	phaseFollowing                  // slave: replicates from the master
)

// role is the authority in force here.
type role struct {
	kind       roleKind
	phase      rolePhase
	epoch      ha.MasterEpoch
	start      ha.LogOffset // master: where the epoch begins
	barrierEnd ha.LogOffset // master: end of the barrier record
	proven     bool         // master: confirm has reached start (P7)
}

func (r *role) master() bool    { return r.kind == roleMaster }
func (r *role) serving() bool   { return r.kind == roleMaster && r.phase == phaseServing }
func (r *role) promoting() bool { return r.kind == roleMaster && r.phase != phaseServing }
func (r *role) settling() bool  { return r.kind != roleNone && r.phase == phaseSettling }
func (r *role) following() bool { return r.kind == roleSlave && r.phase == phaseFollowing }

// authority is the exact pair that may write here, or none.
func (r *role) authority(self ha.BrokerID) ha.Authority {
	if !r.serving() {
		return ha.Authority{}
	}
	return ha.Authority{Broker: self, Epoch: r.epoch}
}

// String is the role as events and conditions name it.
func (r *role) String() string {
	switch {
	case r.serving():
		return "master"
	case r.promoting():
		return "master in promotion"
	case r.following():
		return "slave"
	case r.kind == roleSlave:
		return "slave in demotion"
	}
	return "none"
}

// settleRole takes up what the controllers' record says. Only a higher epoch moves
// a role (trap: never re-apply the same one); a record without a master ends the
// old authority and leaves this broker to nominate itself.
func (b *Broker) settleRole() {
	v := &b.view
	if b.failed() || b.stop.stage >= stopHandover || v.epoch <= b.role.epoch {
		return
	}
	switch {
	case v.master == ha.NoBroker:
		if b.role.kind != roleNone {
			b.loseRole(fmt.Sprintf("epoch %d has no master", v.epoch))
		}
	case v.master != b.id.Broker:
		b.takeRole(roleSlave, v.epoch)
	case v.isLife(b.id):
		b.takeRole(roleMaster, v.epoch)
	default:
		// "You are master" was said to an earlier life of this store: it may miss what
		// that life promised. The controllers elect anew once this life registers (P4).
	}
}

// takeRole begins a role: fence first, then let the lanes run dry. What follows is
// settlePromotion's or settleDemotion's.
func (b *Broker) takeRole(kind roleKind, epoch ha.MasterEpoch) {
	invariant.That(epoch > b.role.epoch, "role of epoch %d after epoch %d", epoch, b.role.epoch)
	if b.role.kind != roleNone {
		b.loseRole(fmt.Sprintf("epoch %d begins", epoch))
	}
	b.role = role{kind: kind, phase: phaseSettling, epoch: epoch}
	b.changed()
	b.highest = max(b.highest, epoch)
	b.save(saveHighest, storageHighest(b.highest))
	if kind == roleMaster {
		b.emit(event.Event{Kind: event.PromotionBegun, Broker: b.id.Broker, Epoch: epoch, Off: b.log.end})
	}
	b.reg.hurry()
}

// loseRole ends the authority in force at once: nothing is admitted or
// acknowledged under it any more, and every replication session closes, so that
// no acknowledgement outlives it (P13). Appends under way are settled afterwards.
func (b *Broker) loseRole(reason string) {
	if b.role.kind == roleNone {
		return
	}
	was := b.role
	b.role.kind, b.role.phase = roleNone, phaseSettling
	b.changed()
	b.lease.fence()
	b.closeReplicas(reason)
	b.closeUpstream(reason)
	b.set.clear()
	if was.master() {
		b.fenced = was.epoch
		b.emit(event.Event{Kind: event.Demoted, Broker: b.id.Broker, Epoch: was.epoch, Text: reason})
	}
	if was.serving() {
		b.roleChangedServices(b.now)
	}
	b.reg.hurry()
	b.ns.hurry()
}

// isMaster reports whether this broker serves as master (promotion finished).
func (b *Broker) isMaster() bool { return b.role.serving() }

// unproven reports whether confirm is below the start of the own epoch: what
// consumers saw on the old master may not be visible here yet (P7).
func (b *Broker) unproven() bool { return b.role.serving() && b.confirm < b.role.start }

// currentEpoch is the epoch of the role in force, 0 when there is none.
func (b *Broker) currentEpoch() ha.MasterEpoch {
	if b.role.kind == roleNone {
		return 0
	}
	return b.role.epoch
}

// roleID is the id in name server registrations: 0 is the master.
func (b *Broker) roleID() int64 {
	if b.role.serving() {
		return 0
	}
	return int64(b.id.Broker)
}
