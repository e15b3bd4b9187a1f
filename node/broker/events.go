package broker

import (
	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/storage"
)

// noteStarted reports what this life begins with.
func (b *Broker) noteStarted(r storage.Recovered) {
	b.emit(event.Event{Kind: event.Started, Group: b.o.BrokerName, Broker: b.id.Broker, Epoch: r.Epochs.Last().Epoch,
		Off: r.End, Off2: r.Confirm, Count: r.TornBytes, Text: b.self().String() + " claim " + b.claim.String()})
	if b.suspect != "" {
		b.emit(event.Event{Kind: event.StoreSuspect, Broker: b.id.Broker, Text: b.suspect})
	}
}

// noteWritable reports that clients may write from now on, or why not.
func (b *Broker) noteWritable(why string) {
	was := b.writableKnown && b.notWritable == ""
	b.writableKnown, b.notWritable = true, why
	switch {
	case why == "":
		b.emit(event.Event{Kind: event.Writable, Broker: b.id.Broker, Epoch: b.role.epoch, Off: b.log.end})
	case was:
		b.emit(event.Event{Kind: event.NotWritable, Broker: b.id.Broker, Epoch: b.role.epoch, Text: why})
	}
}

// raiseBoot lifts the boot counter above a floor the controllers named, durably,
// before this life registers again.
func (b *Broker) raiseBoot(to ha.Boot) {
	b.raising = to
	b.emit(event.Event{Kind: event.RegisterRefused, Group: b.o.BrokerName, Broker: b.id.Broker, Count: int64(to),
		Text: "another life of this store has used this boot number: a restored backup or a copied store"})
}

// settleBoot makes the raised boot number durable.
func (b *Broker) settleBoot() {
	if b.raising != 0 && b.bootOp == 0 && !b.sealed() {
		b.bootOp = b.disk(storage.Op{Lane: storage.LaneMeta, Kind: storage.OpBoot, Max: int(b.raising)}, ownerBoot)
	}
}

// bootDone is the new life's first step: register under the raised number.
func (b *Broker) bootDone(r storage.Result) {
	b.bootOp = 0
	if b.diskFailed(r) {
		return
	}
	b.id.Boot, b.raising = b.raising, 0
	b.closeUpstream("the boot number was raised")
	b.reg.step, b.reg.nextStep = stepRegister, b.now.Mono
}
