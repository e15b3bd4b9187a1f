package broker

import (
	"lockstep/internal/ha"
	"lockstep/node"
	"lockstep/storage"
)

// saveSlot names a small file of the core. The newest content of each is what
// counts, so a slot holds one wanted content and one under way.
type saveSlot uint8

const (
	saveIdentity saveSlot = iota
	saveEpochs
	saveHighest
	saveReceived // the flag that bytes may be acknowledged before they are durable (P1)
	saveBroken   // removal of the broken-claim mark
	numSaves
)

var saveNames = [numSaves]string{storage.NameIdentity, storage.NameEpochFile, storage.NameHighestEpoch, storage.NameReceivedAcks, storage.NameBrokenClaim}

// saves are the small files on their way to the disk.
type saves struct {
	slots [numSaves]struct {
		blob  []byte
		dirty bool   // blob is newer than what is under way
		op    uint64 // outstanding OpSave
		ever  bool   // saved at least once in this life
	}
	retry node.Time
}

// save asks for a file's content; a nil blob removes the file. Durable when
// saved reports so.
func (b *Broker) save(s saveSlot, blob []byte) {
	b.saves.slots[s].blob, b.saves.slots[s].dirty = blob, true
}

// saved reports whether the newest content of the file is durable.
func (b *Broker) saved(s saveSlot) bool {
	x := &b.saves.slots[s]
	return !x.dirty && x.op == 0 && x.ever
}

// settleSaves issues what is wanted.
func (b *Broker) settleSaves() {
	if b.sealed() || b.now.Mono < b.saves.retry {
		return
	}
	for s := range b.saves.slots {
		x := &b.saves.slots[s]
		if x.dirty && x.op == 0 && !b.early(saveSlot(s)) {
			x.dirty = false
			x.op = b.disk(storage.Op{Lane: storage.LaneMeta, Kind: storage.OpSave, Name: saveNames[s], Blob: x.blob}, ownerSave)
		}
	}
}

// early reports that a file would run ahead of the log: the epoch list names an
// epoch only when a record of it is durable. Recovery takes a list beside an empty
// log for a log that was lost (P1, P9).
func (b *Broker) early(s saveSlot) bool {
	return s == saveEpochs && len(b.epochs) > 0 && b.log.durable <= b.epochs.Last().Start
}

// saveDone records the end of an OpSave.
func (b *Broker) saveDone(r storage.Result) {
	for s := range b.saves.slots {
		x := &b.saves.slots[s]
		if x.op != r.Op.ID {
			continue
		}
		x.op = 0
		if b.diskFull(r) {
			x.dirty, b.saves.retry = true, b.now.Mono.Add(b.o.DiskRetryPause)
			return
		}
		if !b.diskFailed(r) {
			x.ever = true
			b.diskRoom()
		}
		return
	}
}

// savesDeadline is when a save is tried again after a full disk.
func (b *Broker) savesDeadline() node.Time {
	for s := range b.saves.slots {
		if x := &b.saves.slots[s]; x.dirty && x.op == 0 && !b.early(saveSlot(s)) && !b.sealed() {
			return max(b.saves.retry, b.now.Mono)
		}
	}
	return node.Never
}

// savesIdle reports that nothing is under way, or wanted that can go now.
func (b *Broker) savesIdle() bool {
	for s := range b.saves.slots {
		if x := &b.saves.slots[s]; x.dirty && !b.early(saveSlot(s)) || x.op != 0 {
			return false
		}
	}
	return true
}

func storageHighest(e ha.MasterEpoch) []byte { return storage.EncodeHighestEpoch(e) }

// settleReceived makes the received-acks flag durable before the first byte is
// acknowledged that is not: as a master under ASYNC_FLUSH, or as a slave of class
// received. Without the flag a crash would leave a claim that is not true (P1).
func (b *Broker) settleReceived() {
	loose := b.o.FlushDiskType == AsyncFlush || b.o.AckClass == ha.ClassReceived
	x := &b.saves.slots[saveReceived]
	if loose && b.role.kind != roleNone && !x.ever && !x.dirty && x.op == 0 {
		b.save(saveReceived, []byte("received\n"))
	}
}

// looseAllowed reports whether bytes may be acknowledged before they are durable.
func (b *Broker) looseAllowed() bool { return b.saves.slots[saveReceived].ever }
