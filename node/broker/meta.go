package broker

import (
	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/internal/invariant"
	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
)

// applyMeta brings a record of the metadata topic, which has just entered the
// log at at, into the state (M1). It runs on master and slave alike.
func (b *Broker) applyMeta(record []byte, at ha.LogOffset) {
	r, reason := storage.DecodeRecord(record)
	invariant.That(reason == "", "metadata record at %d does not decode: %s", int64(at), reason)
	before := b.meta.topicsVersion
	if err := b.meta.apply(r.Body, at, r.End()); err != nil {
		// Only a newer version writes what this one cannot read. Guessing would make
		// this replica's tables differ from its master's, so the record is left out
		// and the node says so.
		b.metaRefused++
		b.emit(event.Event{Kind: event.RequestRefused, Off: at, Text: err.Error()})
		return
	}
	if b.meta.topicsVersion != before {
		b.topicsGen++
	}
	if len(b.meta.ends) > 0 {
		b.queues.begin(b.meta.ends)
		b.meta.ends = nil
	}
}

// resetMeta makes the state a function of records alone: the newest complete
// checkpoint and everything after it. At open and after each truncation (M2).
func (b *Broker) resetMeta(records [][]byte) {
	b.meta = newMetaState()
	b.topicsGen++
	for _, record := range records {
		r, reason := storage.DecodeRecord(record)
		invariant.That(reason == "", "metadata record does not decode: %s", reason)
		b.applyMeta(record, r.Physical)
	}
}

// metaCheckpoint is the newest complete metadata checkpoint whose end consumers
// may rely on; 0, 0 when there is none. Retention keeps everything from its start
// on: a new slave and recovery need nothing but the log (M3).
func (b *Broker) metaCheckpoint() (start, end ha.LogOffset) {
	confirm := b.confirmOffset()
	for _, c := range [...]checkpointRange{b.meta.checkpoint, b.meta.previous} {
		if c.end > 0 && c.end <= confirm {
			return c.start, c.end
		}
	}
	return 0, 0
}

// settleMeta writes what is due: groups met in heartbeats, offset commits, a
// checkpoint. Nothing is written while user records would be refused (M6).
func (b *Broker) settleMeta(now node.Now) {
	b.settleGroups(now)
	b.settleCommits(now)
	if b.checkpointDue() && b.admit(now) == nil {
		if spent := b.spentFloors(); len(spent) > 0 {
			b.writeMeta(now, spent)
		}
		b.writeCheckpoint(now, &b.meta)
	}
}

// metaDeadline is when pending commits are due.
func (b *Broker) metaDeadline() node.Time { return b.commits.deadline() }

// checkpointDue reports whether enough log has passed since the last complete
// checkpoint. The spacing is never less than a few checkpoints' own size, so
// that small segments do not fill with them.
func (b *Broker) checkpointDue() bool {
	last := b.meta.checkpoint
	spacing := min(b.o.MetaCheckpointBytes, b.o.MappedFileSizeCommitLog)
	spacing = max(spacing, 4*int64(last.end-last.start))
	return b.isMaster() && int64(b.endOffset()-last.end) >= spacing
}

// writeCheckpoint appends the whole state st as a checkpoint. Its parts follow
// each other: nothing else is appended in between.
func (b *Broker) writeCheckpoint(now node.Now, st *metaState) ha.LogOffset {
	entries := append(st.dump(), b.queues.ends()...)
	return b.appendMeta(now, checkpointOf(entries, uint64(b.endOffset())+1, b.maxMetaBody()))
}

// writeMeta appends changes and returns the end of the last record. The state
// holds them when it returns, because appending dispatches. The caller admitted.
func (b *Broker) writeMeta(now node.Now, entries []metaEntry) ha.LogOffset {
	return b.appendMeta(now, deltaBodies(entries, b.maxMetaBody()))
}

// maxMetaBody is the largest body of one metadata record.
func (b *Broker) maxMetaBody() int {
	return max(storage.MetaHeaderBytes+1, min(maxMetaBody, b.o.maxRecordBytes()-metaRecordRoom))
}

func (b *Broker) appendMeta(now node.Now, bodies [][]byte) (end ha.LogOffset) {
	host := b.storeHost
	for _, body := range bodies {
		r, err := storage.PrepareRecord(nil, &storage.Draft{
			Topic: storage.MetaTopic, QueueID: storage.MetaQueue, BornMillis: now.Wall, BornHost: host, StoreHost: host, Body: body,
			PropCRC: b.o.EnabledAppendPropCRC, MaxRecord: b.o.maxRecordBytes(),
		})
		invariant.That(err == nil, "metadata record of %d bytes has no stored form", len(body))
		end = b.append(now, placement{topic: storage.MetaTopic, queue: storage.MetaQueue, record: r, system: true}).end
	}
	return end
}

// publishTables gives a log without metadata its first checkpoint, before the
// new master serves: the tables of the Java broker that wrote the log, or empty
// ones (M9, M10).
func (b *Broker) publishTables(now node.Now) {
	if b.meta.records > 0 {
		return
	}
	st := newMetaState()
	st.applyEntries(b.imports)
	b.imports = nil
	for _, v := range []*wire.DataVersion{&st.topicsVersion, &st.groupsVersion, &st.offsetsVersion} {
		*v = b.nextVersion(now, *v)
	}
	b.writeCheckpoint(now, &st)
}

// nextVersion is the version of a table after one more change. All three members
// count: the name server ignores a table whose version it has seen (trap 42).
func (b *Broker) nextVersion(now node.Now, v wire.DataVersion) wire.DataVersion {
	return wire.DataVersion{Counter: v.Counter + 1, StateVersion: int64(b.currentEpoch()), Timestamp: max(now.Wall, 0)}
}

// answerWhenProven answers request f with code 0 once the whole log as it is now
// satisfies the policy (M5): the record the request made, or the one an earlier
// equal request made.
func (b *Broker) answerWhenProven(s node.SessionID, f *wire.Frame) {
	if f.Head.Oneway() {
		return
	}
	b.await(waiter{end: b.endOffset(), session: s, opaque: f.Head.Opaque,
		kind: waitCode, epoch: b.currentEpoch(), sealed: f.Head.Sealed})
}

// storeAddress is the address written into records: clients dial it for 33 and 36.
func (b *Broker) storeAddress() string {
	if b.o.StoreHost != "" {
		return b.o.StoreHost
	}
	return b.o.Address
}

// hostOf is the host of an address; one without a numeric address (a name, a
// pipe) is stored as 0.0.0.0:0, which no client can dial but every reader decodes.
func hostOf(addr string) storage.Host {
	if addr == "" || addr[0] != '[' && (addr[0] < '0' || addr[0] > '9') {
		return storage.Host{} // a name: known without parsing
	}
	h, err := storage.ParseHost(addr)
	if err != nil {
		return storage.Host{}
	}
	return h
}
