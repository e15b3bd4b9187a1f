package broker

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"lockstep/internal/ha"
	"lockstep/storage"
)

// memStore is a store in memory with the three layers that matter to the
// machine: issued bytes are nowhere, written ones in the cache, synced ones on the
// platter. It judges nothing: it does what the operations say.
type memStore struct {
	segment int64
	cache   []byte // [base, …): survives a process crash
	platter []byte // survives a power cut
	base    ha.LogOffset

	id      storage.Identity
	nonce   uint64
	files   map[string][]byte
	floor   ha.LogOffset
	confirm ha.LogOffset
	clean   bool
	suspect string
	queues  map[queueKey][]storage.QueueEntry
	stores  int

	full    bool                        // no room for writes and allocations
	fail    map[storage.OpKind]error    // next operation of the kind fails
	drop    map[storage.OpKind]struct{} // operations of the kind never finish
	torn    int64
	ops     []storage.OpKind
	cutting int
}

func newMemStore(n int, segment int64) *memStore {
	m := &memStore{segment: segment, files: map[string][]byte{}, queues: map[queueKey][]storage.QueueEntry{},
		fail: map[storage.OpKind]error{}, drop: map[storage.OpKind]struct{}{}, stores: n * 100}
	m.newID()
	m.clean = true
	return m
}

func (m *memStore) newID() {
	m.stores++
	m.id.Store = ha.StoreID(fmt.Sprintf("%032x", m.stores))
	m.id.Boot = 0
}

func (m *memStore) end() ha.LogOffset { return m.base + ha.LogOffset(len(m.cache)) }

// open is recovery: the whole records of the log, everything made durable.
func (m *memStore) open(cluster, group string) storage.Recovered {
	m.id.Cluster, m.id.Group = cluster, group
	if f, ok := m.files[storage.NameIdentity]; ok {
		_, _, id, _, err := storage.DecodeIdentity(f)
		if err != nil {
			panic(err)
		}
		m.id.Broker = id
	} else {
		m.id.Broker = ha.NoBroker
	}
	m.id.Boot++
	m.nonce++
	m.id.Nonce = m.nonce
	r := storage.Recovered{Identity: m.id, Min: m.base, Clean: m.clean, Claim: ha.ClaimHolds, Suspect: m.suspect}
	_, received := m.files[storage.NameReceivedAcks]
	if _, broken := m.files[storage.NameBrokenClaim]; broken || !m.clean && received {
		r.Claim = ha.ClaimBroken
		m.files[storage.NameBrokenClaim] = nil
	}
	if m.clean {
		delete(m.files, storage.NameReceivedAcks)
	}
	m.clean = false
	whole := m.scan(m.end(), &r)
	m.cache = m.cache[:whole-m.base]
	m.platter = bytes.Clone(m.cache)
	if whole < m.floor {
		r.Claim = ha.ClaimBroken
	}
	r.End, r.Confirm = whole, min(m.confirm, whole)
	r.Queues = m.bounds(r.Confirm)
	r.HighestEpoch = r.Epochs.Last().Epoch
	return r
}

// scan walks whole records up to end and rebuilds everything derived.
func (m *memStore) scan(end ha.LogOffset, r *storage.Recovered) ha.LogOffset {
	m.queues = map[queueKey][]storage.QueueEntry{}
	off := m.base
	for off < end {
		f := storage.Next(m.cache[off-m.base:end-m.base], off, storage.Check{Segment: m.segment})
		if f.Kind == storage.FoundBlank && off+ha.LogOffset(f.Size) <= end {
			off += ha.LogOffset(f.Size)
			continue
		}
		if f.Kind != storage.FoundRecord {
			break
		}
		if e, ok := storage.EntryOf(&f.Record); ok {
			k := queueKey{e.Topic, e.Queue}
			m.queues[k] = append(m.queues[k], e)
		}
		switch string(f.Record.Topic) {
		case storage.MetaTopic:
			r.Meta = append(r.Meta, bytes.Clone(f.Record.Raw))
		case storage.BarrierTopic:
			b, err := storage.DecodeBarrier(f.Record.Body)
			if err != nil {
				panic(err)
			}
			r.Epochs = r.Epochs.Append(ha.EpochStart{Epoch: b.Epoch, Start: b.Start, Unclean: !b.Clean})
		}
		off += ha.LogOffset(f.Size)
	}
	return off
}

func (m *memStore) bounds(confirm ha.LogOffset) []storage.QueueBounds {
	var keys []queueKey
	for k := range m.queues {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b queueKey) int {
		return bytes.Compare(fmt.Appendf(nil, "%s/%05d", a.topic, a.id), fmt.Appendf(nil, "%s/%05d", b.topic, b.id))
	})
	var out []storage.QueueBounds
	for _, k := range keys {
		es := m.queues[k]
		if len(es) == 0 {
			continue
		}
		b := storage.QueueBounds{Topic: k.topic, Queue: k.id, Min: es[0].Offset, Max: es[len(es)-1].Offset + 1, Visible: es[0].Offset}
		for _, e := range es {
			if e.Log+ha.LogOffset(e.Size) <= confirm {
				b.Visible = e.Offset + 1
			}
		}
		out = append(out, b)
	}
	return out
}

// crash ends the process; power also takes what was not synced.
func (m *memStore) crash(power bool) {
	if power {
		m.cache = bytes.Clone(m.platter)
	}
}

// do performs one operation.
func (m *memStore) do(op storage.Op) storage.Result {
	m.ops = append(m.ops, op.Kind)
	r := storage.Result{Op: op}
	if err := m.fail[op.Kind]; err != nil {
		delete(m.fail, op.Kind)
		r.Err = err
		return r
	}
	if m.full && (op.Kind == storage.OpAppend || op.Kind == storage.OpPrepare || op.Kind == storage.OpQueue || op.Kind == storage.OpSave) {
		r.Err = fmt.Errorf("write: %w", storage.ErrDiskFull)
		return r
	}
	switch op.Kind {
	case storage.OpAppend:
		m.write(op)
	case storage.OpSync:
		if to := int(min(op.Off, m.end()) - m.base); to > len(m.platter) {
			m.platter = append(m.platter, m.cache[len(m.platter):to]...)
		}
	case storage.OpTruncate:
		m.cutting++
		m.cache = m.cache[:op.Off-m.base]
		m.platter = m.platter[:min(len(m.platter), len(m.cache))]
		var rec storage.Recovered
		m.scan(op.Off, &rec)
		m.confirm = min(m.confirm, op.Off)
		m.floor = min(m.floor, op.Off)
		r.Queues = m.bounds(op.Confirm)
	case storage.OpReset:
		m.cache, m.platter, m.base, m.floor, m.confirm = nil, nil, op.Off, op.Off, op.Off
		m.queues = map[queueKey][]storage.QueueEntry{}
		if op.Name != "" {
			m.newID()
		}
	case storage.OpCheckpoint:
		m.floor, m.confirm = max(m.floor, op.Off), max(m.confirm, op.Confirm)
	case storage.OpCleanStop:
		m.clean = true
		m.platter = bytes.Clone(m.cache)
	case storage.OpSave:
		m.files[op.Name] = op.Blob
		if op.Blob == nil {
			delete(m.files, op.Name)
		}
	case storage.OpSuspect:
		m.suspect = op.Name
	case storage.OpBoot:
		m.id.Boot = max(m.id.Boot, ha.Boot(op.Max))
	case storage.OpLoadMeta:
		var rec storage.Recovered
		m.scan(min(op.Off, m.end()), &rec)
		r.Records = rec.Meta
	case storage.OpRead:
		m.read(op, &r)
	case storage.OpExpire:
		m.cache = bytes.Clone(m.cache[op.Off-m.base:])
		m.platter = bytes.Clone(m.platter[op.Off-m.base:])
		m.base = op.Off
		var rec storage.Recovered
		m.scan(m.end(), &rec)
		r.Offset, r.Queues = int64(op.Off), m.bounds(op.Confirm)
	}
	return r
}

func (m *memStore) write(op storage.Op) {
	if op.Off != m.end() {
		panic(fmt.Sprintf("write at %d of a log that ends at %d", op.Off, m.end()))
	}
	for _, d := range op.Data {
		m.cache = append(m.cache, d...)
	}
}

// read returns whole records.
func (m *memStore) read(op storage.Op, r *storage.Result) {
	if op.Off < m.base || op.Off > m.end() {
		r.Err = storage.ErrRange
		return
	}
	off := op.Off
	seg := ha.LogOffset(m.segment)
	for off < m.end() && int(off-op.Off) < op.Max && off/seg == op.Off/seg {
		f := storage.Next(m.cache[off-m.base:], off, storage.Check{Segment: m.segment})
		if f.Kind != storage.FoundRecord && f.Kind != storage.FoundBlank {
			r.Err = fmt.Errorf("%w at %d: %s", storage.ErrCorrupt, off, f.Reason)
			return
		}
		off += ha.LogOffset(f.Size)
	}
	r.Bytes = bytes.Clone(m.cache[op.Off-m.base : min(off, m.end())-m.base])
}

var errDisk = errors.New("input/output error")
