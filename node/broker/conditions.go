package broker

import (
	"fmt"
	"strings"

	"lockstep/node"
	"lockstep/node/wire"
)

// promotable reports whether this store may become a master's: recovered, not
// suspect, not failing, not stopping, and not waiting for a rebuild. A lease has
// nothing to do with it (HA contracts 6.4).
func (b *Broker) promotable() bool {
	return !b.failed() && b.suspect == "" && b.superseded == "" && b.stop.stage == stopNot && b.up.rebuild == "" && !b.cut.origin && b.raising == 0
}

// busy is a refusal for load: nothing happened, another broker may be tried.
func busy(format string, arg int64) *refusal {
	return &refusal{wire.CodeSystemBusy, fmt.Sprintf(format, arg)}
}

// unwritable is why user records are not admitted now, or nil. The order is that
// of authority first; codes by wire contracts 2.1.
func (b *Broker) unwritable(now node.Time) *refusal {
	switch {
	case b.failed():
		return &refusal{wire.CodeServiceNotAvailable, "service not available: the store failed: " + b.failure.reason}
	case b.stop.stage != stopNot:
		return &refusal{wire.CodeServiceNotAvailable, "service not available: the broker is shutting down"}
	case !b.role.serving():
		return b.noMaster()
	case !b.lease.held(now):
		return &refusal{wire.CodeServiceNotAvailable, "service not available: no write lease from the controllers"}
	case b.log.full:
		return &refusal{wire.CodeServiceNotAvailable, "service not available: the disk is full"}
	case b.set.least() < b.floor():
		// Also while only a proposal is below it: a record stored now could not be
		// acknowledged, and a client that asks again would store it again and again.
		return &refusal{wire.CodeSystemError, wire.RemarkNotEnoughReplicas}
	}
	return nil
}

// noMaster is the refusal of a broker that does not lead. Followers settle often,
// so its text is made once a role.
func (b *Broker) noMaster() *refusal {
	if role := b.role.String(); b.notMaster.role != role {
		b.notMaster.role = role
		b.notMaster.why = refusal{wire.CodeServiceNotAvailable, "service not available: this broker is no master (role " + role + ")"}
	}
	return &b.notMaster.why
}

// roleRefusal is the refusal of one role, kept.
type roleRefusal struct {
	role string
	why  refusal
}

// settleWritable reports when the answer to "may clients write?" changes.
func (b *Broker) settleWritable() {
	why := b.unwritable(b.now.Mono)
	text := ""
	if why != nil {
		text = why.remark
	}
	if b.writableKnown && text == b.notWritable {
		return
	}
	b.noteWritable(text)
}

// Conditions lists what readiness and writability depend on. Ready means: recovered,
// known to the controllers, and in a role; a slave is ready and not writable.
func (b *Broker) Conditions() []node.Condition {
	role := b.role.String()
	set := fmt.Sprintf("%d of at least %d in the committed set", b.set.least(), b.floor())
	return []node.Condition{
		{Name: "store", Ready: true, Writable: true, OK: b.promotable() || b.stop.stage != stopNot && !b.failed() && b.suspect == "", Detail: b.storeDetail()},
		{Name: "identity", Ready: true, Writable: true, OK: b.id.Broker > 0, Detail: b.self().String()},
		{Name: "registered", Ready: true, Writable: true, OK: b.reg.registered, Detail: b.registeredDetail()},
		{Name: "role", Ready: true, OK: b.role.serving() || b.role.following(), Detail: role},
		{Name: "master", Writable: true, OK: b.role.serving(), Detail: fmt.Sprintf("%s of epoch %d", role, b.role.epoch)},
		{Name: "lease", Writable: true, OK: b.lease.held(b.now.Mono), Detail: "writeLease=" + b.o.WriteLease.String()},
		{Name: "minInSyncReplicas", Writable: true, OK: b.set.least() >= b.floor(), Detail: set},
		{Name: "disk", Writable: true, OK: !b.log.full, Detail: fmt.Sprintf("durable %d of %d", b.log.durable, b.log.end)},
		{Name: "running", Ready: true, Writable: true, OK: b.stop.stage == stopNot, Detail: ""},
	}
}

// registeredDetail is why the controllers do not know this broker, or "".
func (b *Broker) registeredDetail() string {
	if b.refusal == "" && !b.reg.registered && b.reg.leaderSession() == 0 {
		return fmt.Sprintf("no controller leads; asked at %s", strings.Join(b.o.ControllerAddr, ";"))
	}
	return b.refusal
}

// storeDetail names what is wrong with the store, or "".
func (b *Broker) storeDetail() string {
	switch {
	case b.failed():
		return b.failure.reason
	case b.suspect != "":
		return b.suspect
	case b.superseded != "":
		return b.superseded
	case b.up.rebuild != "":
		return "needs a rebuild: " + b.up.rebuild
	}
	return ""
}

// Gauges reports the broker's numbers, in a fixed order.
func (b *Broker) Gauges(report func(name string, value float64)) {
	report("broker_commitlog_min_offset", float64(b.log.min))
	report("broker_commitlog_max_offset", float64(b.log.end))
	report("broker_commitlog_written_offset", float64(b.log.written))
	report("broker_commitlog_durable_offset", float64(b.log.durable))
	report("broker_confirm_offset", float64(b.confirm))
	report("broker_master_epoch", float64(b.role.epoch))
	report("broker_sync_state_set_epoch", float64(b.set.epoch))
	report("broker_sync_state_set_size", float64(len(b.set.committed)))
	report("broker_is_master", gauge(b.role.serving()))
	report("broker_is_writable", gauge(b.unwritable(b.now.Mono) == nil))
	report("broker_waiting_producers", float64(b.waiters.queue.len()))
	report("broker_replica_sessions", float64(len(b.replicas)))
	report("broker_replica_lag_bytes", float64(b.maxLag()))
	report("broker_tail_bytes", float64(b.tail.held))
	report("broker_unfiled_queue_entries", float64(b.queues.order.next-b.queues.done))
	report("broker_disk_stuck_millis", float64(b.stuck().Milliseconds()))
	b.serviceGauges(report)
}

func gauge(ok bool) float64 {
	if ok {
		return 1
	}
	return 0
}

// maxLag is how far the slowest transferring slave is behind, bytes.
func (b *Broker) maxLag() int64 {
	lag := int64(0)
	for _, r := range b.replicas {
		if r.phase == replicaStarted {
			lag = max(lag, int64(b.log.end-r.acked))
		}
	}
	return lag
}
