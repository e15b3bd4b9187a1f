package broker

import (
	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/internal/invariant"
	"lockstep/node"
	"lockstep/storage"
)

// cut is a truncation on its way (P10): everything under way is awaited, the log
// is cut durably, and all derived state is loaded anew, because state is a
// function of the log up to its end (M2). Nothing is undone by hand.
type cut struct {
	wanted bool
	at     ha.LogOffset
	origin bool   // the log is empty and begins at `at` instead (OpReset)
	reason string // with origin: throw a whole log away and exit for a rebuild (P19)
	op     uint64 // outstanding operation of the cut
	step   cutStep
}

type cutStep uint8

const (
	cutDrain cutStep = iota // lanes run dry, queue entries are filed
	cutLog                  // OpTruncate or OpReset under way
	cutMeta                 // OpLoadMeta under way
)

// issued reports that the cut itself is on the disk's way: nothing else may touch
// the log lane.
func (c *cut) issued() bool { return c.wanted && c.step != cutDrain }

// wantCut asks for a truncation at off.
func (b *Broker) wantCut(off ha.LogOffset) {
	invariant.That(!b.cut.wanted && off < b.log.end, "cut at %d of a log that ends at %d", off, b.log.end)
	b.cut = cut{wanted: true, at: off}
}

// wantOrigin asks to empty the log and let it begin at off. A reason means that
// data goes, so the store gets a new id and this life ends.
func (b *Broker) wantOrigin(off ha.LogOffset, reason string) {
	b.cut = cut{wanted: true, at: off, origin: true, reason: reason}
}

// settleCut advances the cut as far as its conditions hold.
func (b *Broker) settleCut() {
	c := &b.cut
	if !c.wanted || b.sealed() || c.op != 0 {
		return
	}
	switch c.step {
	case cutDrain:
		if !b.log.quiet() || b.queues.op != 0 || b.queues.done != b.queues.order.next {
			return
		}
		op := storage.Op{Lane: storage.LaneLog, Kind: storage.OpTruncate, Off: c.at, Gen: b.log.gen + 1, Confirm: min(b.confirm, c.at)}
		if c.origin {
			op.Kind, op.Name = storage.OpReset, c.reason
		}
		c.step, c.op = cutLog, b.disk(op, ownerCut)
	case cutMeta:
		c.op = b.disk(storage.Op{Lane: storage.LaneRead, Kind: storage.OpLoadMeta, Off: c.at, Gen: b.log.gen}, ownerCut)
	}
}

// cutDone records the end of one of the cut's operations.
func (b *Broker) cutDone(r storage.Result) {
	c := &b.cut
	invariant.That(c.wanted && c.op == r.Op.ID, "result of cut operation %d, outstanding %d", r.Op.ID, c.op)
	c.op = 0
	if b.diskFailed(r) {
		return
	}
	if c.step == cutMeta {
		b.resetMeta(r.Records)
		if c.reason != "" {
			b.leaving = &node.Exit{Code: node.ExitFailed, Reason: "the store was emptied and has a new id: start again to rebuild it from the master (" + c.reason + ")"}
		}
		b.cut = cut{}
		return
	}
	old := b.log.end
	b.log.gen++
	b.log.cutAt(c.at, b.o.MappedFileSizeCommitLog)
	b.tail.forget()
	b.queues.reset(r.Queues, c.at)
	b.confirm = min(b.confirm, c.at)
	b.epochs = b.epochs.CutAt(c.at)
	if c.origin {
		b.log.min, b.confirm, b.checkpoint.confirm = c.at, c.at, min(b.checkpoint.confirm, c.at)
		b.epochs = nil
	}
	b.saveEpochs()
	b.checkpoint.confirm = min(b.checkpoint.confirm, c.at)
	// The store drops a checkpoint that the cut has overtaken, and lowered its own.
	x := &b.checkpoint.asked
	x.durable, x.confirm = min(x.durable, b.checkpoint.durable, c.at), min(x.confirm, b.checkpoint.confirm)
	b.emit(event.Event{Kind: event.Truncated, Off: c.at, Off2: old, Epoch: b.role.epoch, Count: max(int64(old-c.at), 0)})
	c.step = cutMeta
}

// maxEpochs bounds the epoch list kept and sent. A replica whose log parts from the
// others before the oldest entry has to be rebuilt.
const maxEpochs = 4096

// addEpoch records that an epoch begins.
func (b *Broker) addEpoch(e ha.EpochStart) {
	b.epochs = b.epochs.Append(e)
	if n := len(b.epochs) - maxEpochs; n > 0 {
		b.epochs = b.epochs[n:]
	}
	b.saveEpochs()
}

// saveEpochs writes the epoch file, the cache of the list in the log (P9).
func (b *Broker) saveEpochs() { b.save(saveEpochs, storage.EncodeEpochFile(b.epochs)) }
