package broker

import (
	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/internal/invariant"
	"lockstep/storage"
)

// settlePromotion takes up mastership as a list of conditions, each checked until
// it holds (P7). The order is the rule: own log first, the whole tail kept and
// durable, derived state ready, the barrier as the epoch's first record, the epoch
// list durable; only then serve.
func (b *Broker) settlePromotion() {
	r := &b.role
	if !r.promoting() || b.failed() {
		return
	}
	if r.phase == phaseSettling {
		if b.cut.wanted { // a cut begun as a slave is finished, not forgotten (P10)
			return
		}
		// The end is a whole record's end: a record that had come in part was never
		// placed (see dispatch.go), and recovery cut what a crash tore.
		if !b.log.quiet() {
			return
		}
		b.appendBarrier()
		r.phase = phaseBarrier
		b.changed()
	}
	if b.log.durable < r.barrierEnd || !b.saved(saveEpochs) || !b.saved(saveHighest) {
		return
	}
	if b.o.FlushDiskType == AsyncFlush && !b.looseAllowed() {
		return
	}
	// Queue table and metadata are functions of the log up to its end (M1): there
	// is nothing to rebuild and nothing to catch up with.
	b.serveAsMaster()
}

// appendBarrier writes the first record of the epoch. It makes every epoch
// non-empty, so no two start alike, gives slaves something to acknowledge on an
// idle group (P8), and makes the epoch list derivable from the log (P9). It is
// exempt from admission.
func (b *Broker) appendBarrier() {
	r := &b.role
	invariant.That(b.epochs.Last().Epoch < r.epoch, "epoch %d after %d in the log", r.epoch, b.epochs.Last().Epoch)
	// A blank record that would stand before the barrier belongs to the old epoch's
	// segment; the epoch starts at the barrier itself.
	draft := storage.BarrierDraft(storage.Barrier{
		Epoch: r.epoch, Master: b.id.Broker, Boot: b.id.Boot, Store: b.id.Store,
		Start: b.log.end, Clean: !b.view.unclean, Recent: b.epochs,
	}, b.storeHost, b.now.Wall)
	draft.PropCRC = b.o.EnabledAppendPropCRC
	draft.MaxRecord = b.o.maxRecordBytes()
	rec, err := storage.PrepareRecord(nil, &draft)
	if err == nil {
		if rest, blank := storage.NeedsBlank(b.log.end, rec.Size(), b.o.MappedFileSizeCommitLog); blank {
			b.appendBlank(rest)
			b.appendBarrier()
			return
		}
	}
	if err != nil {
		b.failStore("the barrier record does not fit: " + err.Error())
		return
	}
	r.start = b.log.end
	p := b.append(b.now, placement{topic: storage.BarrierTopic, queue: storage.MetaQueue, record: rec, system: true})
	r.barrierEnd = p.end
	b.addEpoch(ha.EpochStart{Epoch: r.epoch, Start: r.start, Unclean: b.view.unclean})
	b.emit(event.Event{Kind: event.BarrierAppended, Broker: b.id.Broker, Epoch: r.epoch, Off: r.start, Off2: r.barrierEnd})
	b.emit(event.Event{Kind: event.EpochRecorded, Broker: b.id.Broker, Epoch: r.epoch, Off: r.start})
}

// serveAsMaster opens the broker for writes, as far as lease and floor allow them.
func (b *Broker) serveAsMaster() {
	b.role.phase = phaseServing
	b.changed()
	b.waiters.acknowledged = b.role.barrierEnd
	b.startSet()
	if b.id.Broker > 0 && b.claim == ha.ClaimBroken {
		// Elected all the same: what it has is what there is (P16).
		b.claim = ha.ClaimHolds
		b.save(saveBroken, nil)
	}
	b.emit(event.Event{Kind: event.RoleApplied, Broker: b.id.Broker, Epoch: b.role.epoch, SetEpoch: b.set.epoch, Text: "master"})
	b.emit(event.Event{Kind: event.Serving, Broker: b.id.Broker, Epoch: b.role.epoch, Off: b.role.barrierEnd})
	b.roleChangedServices(b.now)
	b.reg.hurry()
	b.ns.hurry()
}
