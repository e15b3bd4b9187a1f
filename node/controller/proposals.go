package controller

import (
	"slices"

	"lockstep/internal/event"
	"lockstep/internal/invariant"
	"lockstep/node"
	"lockstep/node/wire"
)

// proposal is a command in the log whose result is awaited.
type proposal struct {
	origin   origin
	cmd      command
	from     *read // who asked; nil for the leader's own
	deadline node.Time
}

// propose writes a command to the log. ok is false when raft would not take it:
// then nothing was written and nothing will happen.
func (c *Controller) propose(now node.Now, cmd command, from *read) (sequence uint64, ok bool) {
	if len(c.pending) >= maxPending {
		if from != nil {
			c.reply(from.session, from.frame, answer{code: wire.CodeSystemBusy, remark: "too many changes wait for a commit; nothing was done"})
		}
		return 0, false
	}
	c.sequence++
	p := &proposal{origin{c.raftID, c.term, c.sequence}, cmd, from, now.Mono.Add(c.o.RequestTimeout)}
	data := encodeCommand(p.origin, cmd)
	if _, _, err := decodeCommand(data); err != nil {
		// Every controller would stop at an entry that does not decode.
		if from != nil {
			c.refuse(from.session, from.frame, wire.CodeInvalidRequest, "request %d: a text is longer than %d bytes or a number out of range", from.kind, maxText)
		}
		return 0, false
	}
	if err := c.rn.Propose(data); err != nil {
		if from != nil {
			c.reply(from.session, from.frame, answer{code: wire.CodeSystemBusy, remark: "the log takes no change at the moment; nothing was done"})
		}
		return 0, false
	}
	c.pending = append(c.pending, p)
	return c.sequence, true
}

// resolve answers the proposal that an applied entry belongs to, if it is this
// node's and still awaited. Its result is the truth even when this node no longer
// leads.
func (c *Controller) resolve(now node.Now, o origin, out outcome) {
	if o.node != c.raftID {
		return
	}
	c.unlock(o, out)
	i := slices.IndexFunc(c.pending, func(p *proposal) bool { return p.origin == o })
	if i < 0 {
		return
	}
	p := c.pending[i]
	c.pending = slices.Delete(c.pending, i, i+1)
	if p.from != nil {
		c.answerCommand(now, p, out)
	}
}

// unlock frees a group whose election command has its result, also one whose
// requester was already told "unknown".
func (c *Controller) unlock(o origin, out outcome) {
	if c.lead == nil || o.term != c.lead.term {
		return
	}
	for i := range c.state.Groups {
		w := c.lead.watch(c.state.Groups[i].Key)
		if w.electing == o.sequence {
			w.electing = 0
			if !out.ok() {
				w.blocked = out.remark
			}
		}
	}
}

// expire ends waits that took too long. A proposal without a result may still
// commit: its requester must treat the outcome as unknown.
func (c *Controller) expire(now node.Now) {
	for len(c.pending) > 0 && now.Mono >= c.pending[0].deadline {
		p := c.pending[0]
		c.pending = slices.Delete(c.pending, 0, 1)
		if p.from != nil {
			c.emit(event.Event{Kind: event.RequestRefused, Code: wire.CodeSystemError, Count: int64(p.from.kind), Text: "outcome unknown"})
			c.reply(p.from.session, p.from.frame, answer{code: wire.CodeSystemError, remark: "the outcome is unknown: the change was not committed in time and may still take effect"})
		}
	}
	c.expireReads(now)
	invariant.That(len(c.pending) == 0 || c.pending[0].deadline > now.Mono, "an expired proposal stays")
}
