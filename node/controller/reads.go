package controller

import (
	"encoding/binary"
	"slices"

	"go.etcd.io/raft/v3"

	"lockstep/node"
	"lockstep/node/wire"
)

// read is a request whose answer must reflect everything committed before it
// arrived. It waits for a read-index round begun after its arrival and for the state
// to cover that index.
type read struct {
	session   node.SessionID
	frame     *wire.Frame
	kind      int32 // request code
	key       Key
	at        node.Time // it arrived
	round     uint64    // the round that serves it, 0 while none has begun
	heartbeat *wire.BrokerHeartbeat
	elect     *wire.ElectMasterRequest
	register  string // name of the register to read
}

// round is one read-index round: raft asks a quorum whether this node still leads.
// All requests that arrived before it began share it.
type round struct {
	id    uint64
	index uint64 // 0 until the quorum answered
}

// queueRead takes a request that wants a barrier.
func (c *Controller) queueRead(now node.Now, r *read) {
	if len(c.reads) >= maxReads {
		c.reply(r.session, r.frame, answer{code: wire.CodeSystemBusy, remark: "too many requests wait for a read barrier; nothing was done"})
		return
	}
	r.at = now.Mono
	c.reads = append(c.reads, r)
}

// settleReads begins a round for the requests that have none, one at a time so that
// what arrives meanwhile shares the next, and answers those whose round is over.
func (c *Controller) settleReads(now node.Now) (acted bool) {
	if len(c.reads) > 0 && c.reads[len(c.reads)-1].round == 0 && len(c.rounds) == 0 {
		c.roundSeq++
		for _, r := range c.reads {
			if r.round == 0 {
				r.round = c.roundSeq
			}
		}
		c.rounds = append(c.rounds, round{id: c.roundSeq})
		c.rn.ReadIndex(binary.BigEndian.AppendUint64(nil, c.roundSeq))
		acted = true
	}
	if len(c.rounds) == 0 || c.rounds[0].index == 0 || c.applied < c.rounds[0].index || !c.ready() {
		return acted
	}
	done := c.rounds[0].id
	c.rounds = slices.Delete(c.rounds, 0, 1)
	served := c.reads
	n := slices.IndexFunc(served, func(r *read) bool { return r.round != done })
	if n < 0 {
		n = len(served)
	}
	c.reads = slices.Clone(served[n:])
	for _, r := range served[:n] {
		c.answerRead(now, r)
	}
	return true
}

// barrierReached records a round's index.
func (c *Controller) barrierReached(rs raft.ReadState) {
	if len(rs.RequestCtx) != 8 {
		return
	}
	id := binary.BigEndian.Uint64(rs.RequestCtx)
	for i := range c.rounds {
		if c.rounds[i].id == id {
			c.rounds[i].index = max(rs.Index, 1)
		}
	}
}

// answerRead answers a request after its barrier.
func (c *Controller) answerRead(now node.Now, r *read) {
	switch r.kind {
	case wire.ReqBrokerHeartbeat:
		c.answerHeartbeat(now, r.session, r.frame, r.heartbeat, c.grant(now, r))
	case wire.ReqElectMaster:
		c.electAfterBarrier(now, r)
	case wire.ReqGetReplicaInfo:
		c.answerReplicaInfo(r)
	case wire.ReqGetNextBrokerID:
		c.answerNextID(r)
	case wire.ReqReadRegister:
		c.answerRegister(r)
	}
}

// expireReads answers requests that got no barrier in time: nothing was done.
func (c *Controller) expireReads(now node.Now) {
	for len(c.reads) > 0 && now.Mono >= c.reads[0].at.Add(c.o.RequestTimeout) {
		r := c.reads[0]
		c.reads = slices.Delete(c.reads, 0, 1)
		if r.kind == wire.ReqBrokerHeartbeat {
			c.answerHeartbeat(now, r.session, r.frame, r.heartbeat, wire.LeaseGrant{})
			continue
		}
		c.reply(r.session, r.frame, answer{code: wire.CodeSystemError, remark: "no quorum of controllers confirmed this leader in time; nothing was changed"})
	}
}
