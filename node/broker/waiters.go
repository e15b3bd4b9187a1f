package broker

import (
	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/internal/invariant"
	"lockstep/node"
)

// waiters are the producers waiting for an answer, ordered by the end they wait
// for. Deadlines rise with them, because every wait is equally long, so one look
// at the head decides (no head-of-line trouble: what covers the head covers
// nothing behind it that it does not also cover).
type waiters struct {
	queue fifo[waiter]
	// acknowledged is the highest end ever acknowledged in this epoch: a joining
	// replica must reach it (P14), because a count or local policy acknowledges
	// above confirm.
	acknowledged ha.LogOffset
}

// await queues an answer; Settle resolves it through b.answer. A zero deadline
// becomes the policy's time-out.
func (b *Broker) await(w waiter) {
	if w.deadline == 0 {
		w.deadline = b.now.Mono.Add(b.o.waitTimeout())
	}
	q := &b.waiters.queue
	if q.len() > 0 {
		last := q.at(q.next - 1)
		if last.end > w.end {
			invariant.That(false, "waiter for %d queued behind one for %d", w.end, last.end)
		}
	}
	q.push(w)
}

// settleWaiters answers each producer whose outcome is known: the policy is
// proven, it can never be proven in this authority, or the time is over.
func (b *Broker) settleWaiters() {
	q := &b.waiters.queue
	if q.len() == 0 {
		return
	}
	o := b.observe()
	for q.len() > 0 {
		w := q.front()
		o.Required, o.Requested = w.end, ha.Authority{Broker: b.id.Broker, Epoch: w.epoch}
		d := DecideReplication(o)
		switch {
		case d.Outcome == Acknowledge:
			b.waiters.acknowledged = max(b.waiters.acknowledged, d.Ack.Offset())
			w := q.pop()
			w.durability = d.Ack.Durability()
			b.answer(b.now, w, proven)
		case d.Outcome == Reject:
			// Appended, and never to be proven under this authority: unknown.
			b.answer(b.now, q.pop(), slaveTimeout)
		case b.now.Mono < w.deadline:
			return
		case d.Reason == LocalBehind && b.onlyLocalMissing(w.end):
			b.answer(b.now, q.pop(), diskTimeout)
		default:
			b.answer(b.now, q.pop(), slaveTimeout)
		}
	}
	q.shrink()
	if !b.role.serving() || b.stop.stage != stopNot {
		b.changed() // somebody waits until nobody waits
	}
}

// onlyLocalMissing reports whether the replicas alone would satisfy the policy:
// then a time-out is the disk's.
func (b *Broker) onlyLocalMissing(end ha.LogOffset) bool {
	o := b.observe()
	o.Requested, o.Required, o.Local = o.Current, end, end
	return DecideReplication(o).Outcome == Acknowledge
}

// observe is what DecideReplication looks at, now.
func (b *Broker) observe() Observation {
	local, class := b.local()
	current := b.role.authority(b.id.Broker)
	if b.stop.stage >= stopHandover {
		current = ha.Authority{} // the controllers were told that this authority is over
	}
	return Observation{
		Current: current, LeaseHeld: b.lease.held(b.now.Mono),
		Policy: b.policy, Local: local, LocalClass: class,
		Set: b.set.effective, Counted: b.set.certain, Acks: b.set.acks,
		Committed: len(b.set.committed), Least: b.set.least(), MinInSync: b.floor(),
	}
}

// floor is the effective minInSyncReplicas: the configured one, or a higher one
// that the group has committed.
func (b *Broker) floor() int { return max(b.o.MinInSync(), int(b.view.minInSync)) }

// waitersDeadline is when the oldest waiter is answered without proof.
func (b *Broker) waitersDeadline() node.Time {
	if b.waiters.queue.len() == 0 {
		return node.Never
	}
	return b.waiters.queue.front().deadline
}

// checkWaiters asserts the order of the queue.
func (b *Broker) checkWaiters() {
	q := &b.waiters.queue
	for s := q.first; s+1 < q.next; s++ {
		x, y := q.at(s), q.at(s+1)
		invariant.That(x.end <= y.end && x.deadline <= y.deadline, "waiters out of order: %d@%d before %d@%d", x.end, x.deadline, y.end, y.deadline)
	}
	if q.len() > 0 {
		invariant.That(q.at(q.next-1).end <= b.log.end, "a waiter for %d, the log ends at %d", q.at(q.next-1).end, b.log.end)
	}
}

// admit says whether a user record may be appended now; nil means yes. Nothing
// has happened when it refuses. Internal records skip it (P7).
func (b *Broker) admit(now node.Now) *refusal {
	if why := b.unwritable(now.Mono); why != nil {
		return why
	}
	if b.waiters.queue.len() >= b.o.MaxWaiters {
		return busy("[OVERLOAD]system busy, start flow control for a while: %d producers wait already", int64(b.o.MaxWaiters))
	}
	if b.log.end-b.log.written > ha.LogOffset(b.o.MaxUnwrittenBytes) {
		return busy("[PCBUSY_CLEAN_QUEUE]broker busy: %d bytes wait for the disk", int64(b.log.end-b.log.written))
	}
	if b.stuck() > b.o.WaitTimeMillsInSendQueue {
		return busy("[TIMEOUT_CLEAN_QUEUE]broker busy: the disk has not answered for %d ms", b.stuck().Milliseconds())
	}
	return nil
}

// emit reports an event.
func (b *Broker) emit(e event.Event) { b.fx.Emit(e) }
