package broker

import "lockstep/internal/ha"

// Status is a read-only copy of where a broker stands, for judges, tools and
// tests in the same process. It promises nothing: only the disks and the
// controllers' record do.
type Status struct {
	Self     ha.Incarnation
	Role     string // as in log lines: "master", "slave", …
	Serving  bool   // a master whose promotion is complete
	Epoch    ha.MasterEpoch
	Set      ha.IDs // committed SyncStateSet as this broker knows it
	SetEpoch ha.SetEpoch
	Min, End ha.LogOffset
	Written  ha.LogOffset
	Durable  ha.LogOffset
	Confirm  ha.LogOffset
	Writable bool
}

// Status returns where the broker stands as of its last fact.
func (b *Broker) Status() Status {
	return Status{
		Self: b.self(), Role: b.role.String(), Serving: b.role.serving(), Epoch: b.role.epoch,
		Set: b.set.committed, SetEpoch: b.set.epoch, Min: b.log.min, End: b.log.end, Written: b.log.written,
		Durable: b.log.durable, Confirm: b.confirm, Writable: b.unwritable(b.now.Mono) == nil,
	}
}
