package sim

import (
	"fmt"
	"hash/crc32"
	"math/bits"

	"lockstep/internal/event"
	"lockstep/internal/prng"
	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
)

// Subsystem is the part of a node a step belongs to; each has a hash of its
// own, so that the first divergence names a place.
type Subsystem uint8

// The subsystems.
const (
	SubLoop  Subsystem = iota // batches, deadlines, events, clock
	SubNet                    // frames sent and taken, sessions
	SubDisk                   // operations issued, landed and done
	SubWorld                  // lives, faults, decisions
	numSubs
)

// String names the subsystem.
func (s Subsystem) String() string { return [...]string{"loop", "net", "disk", "world"}[s%numSubs] }

// StepKind says what a step of the rolling hash is.
type StepKind uint8

// The steps. A and B of a Step are said beside each.
const (
	StepBatch    StepKind = iota // A=inputs, B=deadline after Settle
	StepEvent                    // A=hash of the event, B=kind
	StepSend                     // A=hash of the frame, B=session
	StepTake                     // A=hash of the fact, B=session: the machine is given a network fact
	StepIssue                    // A=hash of the operation, B=its kind
	StepLand                     // A=hash of the result, B=kind of operation
	StepDone                     // A=operation id, B=kind: the machine is given a result
	StepDial                     // A=hash of the address, B=session
	StepClose                    // B=session
	StepExit                     // A=code
	StepLife                     // A=ordinal, B=phase
	StepFault                    // A=index, B=1 when it ended
	StepDecision                 // A=hash of site and key, B=value
)

var stepNames = [...]string{"batch", "event", "send", "take", "issue", "land", "done", "dial", "close",
	"exit", "life", "fault", "decide"}

// Step is one unit of the rolling hash.
type Step struct {
	At   int64
	A, B uint64
	Node int16 // index of the node, -1 for the world
	Kind StepKind
	Sub  Subsystem
}

// String prints the step with the index of its node.
func (s Step) String() string {
	return fmt.Sprintf("T+%d.%09ds node %d %s %s a=%016x b=%d",
		s.At/1e9, s.At%1e9, s.Node, s.Sub, stepNames[s.Kind], s.A, int64(s.B))
}

// hashes are a rolling hash, with the log that Keep or Compare attached.
type hashes struct {
	all   uint64
	steps uint64
	log   *StepLog
	check *StepLog
	diff  *Divergence
}

// fold adds a value to a rolling hash: one multiplication, because it runs for
// everything that happens.
func fold(h, v uint64) uint64 {
	return bits.RotateLeft64((h^v)*0x9fb21c651e98df25, 31) + 0x9e3779b97f4a7c15
}

// chain folds values one after the other.
func chain(h uint64, values ...uint64) uint64 {
	for _, v := range values {
		h = fold(h, v)
	}
	return h
}

// step folds one step into the hashes.
func (w *World) step(n *host, sub Subsystem, kind StepKind, a, b uint64) {
	v := prng.Mix(a ^ bits.RotateLeft64(b, 29) ^ uint64(kind)<<56 ^ bits.RotateLeft64(uint64(w.now), 7))
	id := int16(-1)
	if n != nil {
		n.sub[sub] = fold(n.sub[sub], v)
		id = int16(n.index)
		v ^= uint64(n.index+1) << 40
	}
	w.hash.all = fold(w.hash.all, v)
	if w.hash.log != nil || w.hash.check != nil {
		w.logStep(Step{At: w.now, A: a, B: b, Node: id, Kind: kind, Sub: sub})
	}
	w.hash.steps++
}

// castagnoli is the table of the checksums inside hashes.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum folds bytes into h.
func sum(h uint64, b []byte) uint64 {
	if len(b) == 0 {
		return h
	}
	return prng.Mix(h ^ uint64(crc32.Checksum(b, castagnoli)) ^ uint64(len(b))<<32)
}

// sumString folds a short string into h.
func sumString(h uint64, s string) uint64 {
	for len(s) >= 8 {
		v := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		h = fold(h, v)
		s = s[8:]
	}
	v := uint64(len(s)) << 56
	for i := 0; i < len(s); i++ {
		v |= uint64(s[i]) << (8 * i)
	}
	return fold(h, v)
}

// HashFrame is a hash of everything a frame carries.
func HashFrame(f *wire.Frame) uint64 {
	h := prng.Mix(uint64(f.Link)<<32 | uint64(uint32(f.Head.Code)))
	h = fold(h, uint64(uint32(f.Head.Opaque))<<32^uint64(uint32(f.Head.Flag)))
	if f.Head.Remark != "" {
		h = sumString(h, f.Head.Remark)
	}
	for i := range f.Head.Ext {
		h = sumString(sumString(h, f.Head.Ext[i].Key), f.Head.Ext[i].Value)
	}
	if r := f.Replica; r != nil {
		h = chain(h, uint64(r.Kind), uint64(r.Term), uint64(r.Epoch), uint64(r.EpochStart), uint64(r.Offset),
			uint64(r.Min), uint64(r.Confirm), uint64(r.Class), r.Nonce)
		h = sumString(sumString(h, r.Reason), string(r.Self.Store))
		for _, e := range r.Epochs {
			h = chain(h, uint64(e.Epoch), uint64(e.Start))
		}
	}
	if f.Send != nil || f.SendOK != nil || f.Pull != nil || f.PullOK != nil {
		h = hashHot(h, f)
	}
	return sum(h, f.Body)
}

// hashHot folds the typed headers of the most frequent requests.
func hashHot(h uint64, f *wire.Frame) uint64 {
	switch {
	case f.Send != nil:
		s := f.Send
		h = fold(h, uint64(uint32(s.QueueID))<<32^uint64(uint32(s.SysFlag)))
		h = fold(h, uint64(s.BornTimestamp)^uint64(uint32(s.ReconsumeTimes))<<40)
		return sumString(sumString(h, s.Topic), s.Properties)
	case f.SendOK != nil:
		s := f.SendOK
		h = fold(h, uint64(uint32(s.QueueID))<<48^uint64(s.QueueOffset))
		h = fold(h, uint64(s.Stored.Offset))
		return sumString(sumString(h, s.MsgID), s.TransactionID)
	case f.Pull != nil:
		p := f.Pull
		h = fold(h, uint64(uint32(p.QueueID))<<48^uint64(p.QueueOffset))
		h = fold(h, uint64(p.CommitOffset)^uint64(uint32(p.MaxMsgNums))<<40^uint64(p.SuspendTimeoutMillis)<<20)
		return sumString(sumString(h, p.Topic), p.ConsumerGroup)
	default:
		p := f.PullOK
		h = fold(h, uint64(p.NextBeginOffset)^uint64(p.SuggestWhichBrokerID)<<56)
		return chain(h, uint64(p.MinOffset), uint64(p.MaxOffset))
	}
}

// hashOp is a hash of what an operation asks for.
func hashOp(op *storage.Op) uint64 {
	h := chain(uint64(op.Kind)|uint64(op.Lane)<<8|uint64(op.Gen)<<32, op.ID, uint64(op.Off))
	for _, d := range op.Data {
		h = sum(h, d)
	}
	for i := range op.Entries {
		e := &op.Entries[i]
		h = sumString(chain(h, uint64(e.Queue), uint64(e.Offset), uint64(e.Log)), e.Topic)
	}
	if op.Name != "" {
		h = sumString(h, op.Name)
	}
	return sum(h, op.Blob)
}

// hashResult is a hash of what an operation brought.
func hashResult(r *storage.Result) uint64 {
	h := chain(r.Op.ID, uint64(r.Offset), uint64(r.Pull.Next))
	if r.Err != nil {
		h = sumString(h, r.Err.Error())
	}
	for _, b := range r.Records {
		h = sum(h, b)
	}
	return sum(h, r.Bytes)
}

// hashEvent is a hash of all fields of an event.
func hashEvent(e *event.Event) uint64 {
	h := chain(uint64(e.Kind), uint64(e.Broker), uint64(e.Epoch), uint64(e.SetEpoch), uint64(e.Off),
		uint64(e.Off2), uint64(e.Count), uint64(e.Code))
	for _, id := range e.Set {
		h = fold(h, uint64(id))
	}
	return sumString(sumString(h, e.Group), e.Text)
}

// hashDeadline folds a deadline, Never included.
func hashDeadline(t node.Time) uint64 { return uint64(t) }
