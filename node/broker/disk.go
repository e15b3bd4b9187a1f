package broker

import (
	"fmt"

	"lockstep/internal/event"
	"lockstep/internal/invariant"
	"lockstep/node"
	"lockstep/storage"
)

// diskOwner says which part of the broker an operation belongs to; its result
// goes to that part's method. The owner travels in the low bits of the id.
type diskOwner uint8

// The owners.
const (
	ownerWrite diskOwner = iota
	ownerSync
	ownerPrepare
	ownerQueues
	ownerCheckpoint
	ownerCut
	ownerCatchup
	ownerSave
	ownerRetention
	ownerSuspect
	ownerStop
	ownerBoot
	ownerServices
)

const ownerBits = 4

// disk issues an operation in this Settle and returns its id.
func (b *Broker) disk(op storage.Op, owner diskOwner) uint64 {
	b.lastOp++
	op.ID = b.lastOp<<ownerBits | uint64(owner)
	b.fx.Disk = append(b.fx.Disk, op)
	return op.ID
}

// diskDone is the one switch from an operation's owner to its method.
func (b *Broker) diskDone(r storage.Result) {
	switch owner := diskOwner(r.Op.ID & (1<<ownerBits - 1)); owner {
	case ownerWrite:
		b.writeDone(r)
	case ownerSync:
		b.syncDone(r)
	case ownerPrepare:
		b.prepareDone(r)
	case ownerQueues:
		b.queuesDone(r)
	case ownerCheckpoint:
		b.checkpointDone(r)
	case ownerCut:
		b.cutDone(r)
	case ownerCatchup:
		b.catchupDone(r)
	case ownerSave:
		b.saveDone(r)
	case ownerRetention:
		b.retentionDone(r)
	case ownerSuspect:
		b.failure.marked = true
	case ownerStop:
		b.stopDone(r)
	case ownerBoot:
		b.bootDone(r)
	case ownerServices:
		b.servicesDiskDone(b.now, r)
	default:
		invariant.That(false, "disk result %d of unknown owner %d", r.Op.ID, owner)
	}
}

// failure is a store whose claim has ended: a write or an fsync failed, or damage
// was found. Nothing is tried again; the node leaves (DESIGN 4).
type failure struct {
	reason string
	op     uint64 // outstanding OpSuspect
	marked bool
}

// failed reports whether the store's claim has ended.
func (b *Broker) failed() bool { return b.failure.reason != "" }

// sealed reports whether the store changes no more in this life: its claim has
// ended, or its clean-stop mark is on its way and has to stay the last change. What
// is wanted later is lost as in a crash: nobody was promised it.
func (b *Broker) sealed() bool { return b.failed() || b.stop.stage >= stopMark }

// diskFailed ends the store's claim when the operation failed, and reports so.
func (b *Broker) diskFailed(r storage.Result) bool {
	if r.Err == nil {
		return false
	}
	b.failStore(fmt.Sprintf("%s at %d: %v", opName(r.Op.Kind), r.Op.Off, r.Err))
	return true
}

// failStore fences this broker for the rest of its life.
func (b *Broker) failStore(reason string) {
	if b.failed() {
		return
	}
	b.failure.reason = reason
	b.emit(event.Event{Kind: event.DiskFailed, Text: reason})
	b.emit(event.Event{Kind: event.StoreSuspect, Text: reason})
	b.loseRole("the store failed: " + reason)
	b.reg.hurry() // the controllers hear of it before this node leaves
}

// settleFailure leaves the suspect mark, tells the controllers, and exits with a
// code that supervisors must not restart on.
func (b *Broker) settleFailure() {
	f := &b.failure
	if f.reason == "" {
		return
	}
	if f.op == 0 {
		f.op = b.disk(storage.Op{Lane: storage.LaneMeta, Kind: storage.OpSuspect, Name: f.reason}, ownerSuspect)
	}
	// Even a mark that could not be written ends the life: the controllers were
	// told, and the next start sees an unclean stop.
	if f.marked {
		b.fx.Exit = &node.Exit{Code: node.ExitSuspect, Reason: "store suspect: " + f.reason}
	}
}

func opName(k storage.OpKind) string {
	switch k {
	case storage.OpAppend:
		return "write"
	case storage.OpSync:
		return "sync"
	case storage.OpPrepare:
		return "prepare segment"
	case storage.OpTruncate:
		return "truncate"
	case storage.OpReset:
		return "reset"
	case storage.OpQueue:
		return "write consume queues"
	case storage.OpCheckpoint:
		return "checkpoint"
	case storage.OpSave:
		return "save"
	case storage.OpExpire:
		return "remove segments"
	case storage.OpRead:
		return "read"
	case storage.OpLoadMeta:
		return "load metadata"
	case storage.OpCleanStop:
		return "clean stop"
	}
	return "disk operation"
}
