package netsim

import (
	"slices"

	"lockstep/internal/decide"
	"lockstep/node/wire"
)

// Kinds of frames in keys: requests are their code, responses −1 − code,
// replication and raft frames lie far from both.
const (
	kindReplica int32 = 1_000_000
	kindRaft    int32 = 2_000_000
	kindControl int32 = 3_000_000 // packets that carry no frame, and cuts
)

// KindOf is the kind of a frame in decision keys and traces.
func KindOf(f *wire.Frame) int32 {
	switch {
	case f.Link == wire.Raft:
		return kindRaft
	case f.Replica != nil:
		return kindReplica + int32(f.Replica.Kind)
	case f.Head.Response():
		return -1 - f.Head.Code
	}
	return f.Head.Code
}

// key names a frame: it is the N-th of its kind that this side of this session
// sends.
func (n *Net) key(s *stream, side int, f *wire.Frame) decide.Key {
	return n.rawKey(s, side, KindOf(f))
}

// rawKey counts the thing of that kind and names it. Sessions are numbered by
// the dials from one node to another; the low bit tells who dialled.
func (n *Net) rawKey(s *stream, side int, kind int32) decide.Key {
	p := &s.pipe[side]
	i := slices.IndexFunc(p.counts, func(c kindCount) bool { return c.kind == kind })
	if i < 0 {
		i = len(p.counts)
		p.counts = append(p.counts, kindCount{kind: kind})
	}
	p.counts[i].n++
	return decide.Key{From: n.nodes[s.node[side]].actor, To: n.nodes[s.node[1-side]].actor,
		Session: s.ordinal<<1 | uint32(side), Kind: kind, N: p.counts[i].n}
}

// frameBytes estimates the encoded size of a frame.
func frameBytes(f *wire.Frame) int64 {
	size := int64(headerBytes + len(f.Body) + len(f.Head.Remark))
	for i := range f.Head.Ext {
		size += int64(len(f.Head.Ext[i].Key)+len(f.Head.Ext[i].Value)) + 6
	}
	if f.Replica != nil {
		size += int64(12 * len(f.Replica.Epochs))
	}
	if f.Send != nil {
		size += int64(160 + len(f.Send.Topic) + len(f.Send.Properties))
	}
	return size
}

// arena gives out memory for copies in large pieces. Nothing is reused: a
// piece lives as long as any copy in it.
type arena struct {
	bytes    []byte
	frames   []wire.Frame
	fields   []wire.Field
	sends    []wire.SendMessageRequest
	sendOKs  []wire.SendMessageResponse
	pulls    []wire.PullRequest
	pullOKs  []wire.PullResponse
	replicas []wire.Replica
}

// Sizes of the arena's pieces.
const (
	arenaBytes  = 64 << 10
	arenaFrames = 128
	arenaFields = 512
	arenaHeads  = 64
)

// copyBytes copies b.
func (a *arena) copyBytes(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	if len(b) > arenaBytes/4 {
		return slices.Clone(b)
	}
	if len(a.bytes) < len(b) {
		a.bytes = make([]byte, arenaBytes)
	}
	out := a.bytes[:len(b):len(b)]
	a.bytes = a.bytes[len(b):]
	copy(out, b)
	return out
}

// newFrame returns a zero frame.
func (a *arena) newFrame() *wire.Frame {
	if len(a.frames) == 0 {
		a.frames = make([]wire.Frame, arenaFrames)
	}
	f := &a.frames[0]
	a.frames = a.frames[1:]
	return f
}

// copyFrame copies f with everything it refers to, as a codec would: what the
// sender does afterwards cannot be seen by the receiver. It is wire.Frame.Clone
// with cheaper memory; a test holds the two together.
func (a *arena) copyFrame(f *wire.Frame) *wire.Frame {
	c := a.newFrame()
	*c = *f
	c.Prepared = nil
	c.Body = a.copyBytes(f.Body)
	if len(f.Head.Ext) > 0 {
		c.Head.Ext = a.copyExt(f.Head.Ext)
	}
	switch {
	case f.Send != nil:
		c.Send = copyOf(&a.sends, f.Send)
	case f.SendOK != nil:
		c.SendOK = copyOf(&a.sendOKs, f.SendOK)
	case f.Pull != nil:
		c.Pull = copyOf(&a.pulls, f.Pull)
	case f.PullOK != nil:
		c.PullOK = copyOf(&a.pullOKs, f.PullOK)
	}
	if f.Replica != nil {
		c.Replica = copyOf(&a.replicas, f.Replica)
		c.Replica.Epochs = slices.Clone(f.Replica.Epochs)
	}
	return c
}

// copyOf copies v into the room that is left, or into new room.
func copyOf[T any](room *[]T, v *T) *T {
	if len(*room) == 0 {
		*room = make([]T, arenaHeads)
	}
	c := &(*room)[0]
	*room = (*room)[1:]
	*c = *v
	return c
}

// copyExt copies header fields.
func (a *arena) copyExt(ext wire.Ext) wire.Ext {
	if len(a.fields) < len(ext) {
		a.fields = make([]wire.Field, max(arenaFields, len(ext)))
	}
	out := a.fields[:len(ext):len(ext)]
	a.fields = a.fields[len(ext):]
	copy(out, ext)
	return out
}
