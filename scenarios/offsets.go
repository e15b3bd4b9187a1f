package scenarios

import (
	"math"
	"time"

	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/node"
	"lockstep/node/client"
)

// Watchers commit how far they have read, as stock consumers do. A commit that was
// answered is a promise (M5): no failover takes it back. And whatever happens, no
// master knows an offset behind the end of its queue.

// commitEvery is how often a consumer commits the offset of a queue.
const commitEvery = 5 * time.Second

// doubtLasts is how long a commit whose end nobody knows may still arrive somewhere
// and set an offset back: no fault holds a stream longer.
const doubtLasts = int64(60 * time.Second)

// committed is what the consumers were told about a queue's offset.
type committed struct {
	done  int64 // newest answered with success; -1 none
	doubt []doubtful
}

// doubtful is a commit that ended without success.
type doubtful struct{ offset, at int64 }

// commit begins the commits of a watcher that are due. Each queue has one consumer
// that commits, and one commit under way, so that its offsets only grow.
func (w *watcher) commit(now node.Now, c *client.Client) (work bool) {
	if w.l.Idle || w.l.Stopped || w.l.Silent {
		return false
	}
	for i := range w.tails {
		t := &w.tails[i]
		if !t.owned || t.committing || t.next <= t.stored || now.Mono < t.commitAt {
			continue
		}
		t.commitAt = now.Mono.Add(commitEvery)
		ticket, err := c.CommitOffset(now, Topic, t.group, t.queue, t.next)
		if err != nil {
			continue
		}
		t.committing, work = true, true
		w.commits[ticket] = i
	}
	return work
}

// commitDue is when the next commit of a watcher is due.
func (w *watcher) commitDue() node.Time {
	due := node.Never
	if w.l.Idle || w.l.Stopped || w.l.Silent {
		return due
	}
	for i := range w.tails {
		if t := &w.tails[i]; t.owned && !t.committing && t.next > t.stored {
			due = min(due, t.commitAt)
		}
	}
	return due
}

// committedNow takes the end of a commit.
func (w *watcher) committedNow(o *client.Outcome) {
	i, ok := w.commits[o.Ticket]
	if !ok {
		return
	}
	delete(w.commits, o.Ticket)
	t := &w.tails[i]
	t.committing = false
	name := w.l.queueName(t.group, Topic, t.queue)
	q := w.l.Offsets[name]
	if q == nil {
		q = &committed{done: -1}
		w.l.Offsets[name] = q
	}
	if o.Status == client.Done {
		t.stored, q.done = o.Offset, o.Offset
	} else {
		q.doubt = append(q.doubt, doubtful{o.Offset, w.l.Clock()})
	}
}

// least is the smallest offset that the promises of a queue leave to a master.
func (c *committed) least(now int64) int64 {
	out := c.done
	for _, d := range c.doubt {
		if now-d.at < doubtLasts {
			out = min(out, d.offset)
		}
	}
	return out
}

// watchOffsets looks at every new master as it begins to serve.
func (r *Run) watchOffsets() {
	r.each(event.Serving, func(e event.Event) bool { return isBroker(e.Node) }, func(e event.Event) { r.checkOffsets(groupOf(e.Node), e.Node, e.Epoch) })
}

// promisesOffsets says that the group's policy lets no election take back what was
// answered: every member of the set has it, and it is in no unclean epoch.
func (r *Run) promisesOffsets(group string) bool {
	return r.Setup.All && !r.Drill.Beyond && !r.Truth.refresh(group).Unclean
}

// checkOffsets compares the offsets a master knows with what consumers were told.
func (r *Run) checkOffsets(group, name string, epoch ha.MasterEpoch) {
	b := r.brokerAt(name)
	if b == nil {
		return
	}
	for q := range int32(r.Setup.Queues) {
		offset, end, ok := b.ConsumerOffset(watchGroup, Topic, q)
		if !ok {
			offset = -1
		}
		if offset > end {
			r.fail("offsets", "beyond-end", "%s, master of epoch %d, knows offset %d of queue %d, which ends at %d", name, epoch, offset, q, end)
		}
		told := r.Load.Offsets[r.Load.queueName(group, Topic, q)]
		if told == nil || told.done < 0 || !r.promisesOffsets(group) {
			continue
		}
		least := told.least(r.World.Now())
		if offset < least {
			r.fail("offsets", "offset-lost", "%s, master of epoch %d, knows offset %d of queue %d; a commit of %d was answered", name, epoch, offset, q, least)
		}
		if epoch > 1 && least > 0 && epoch != math.MaxInt32 {
			r.mark("committed offset kept across a failover")
		}
	}
}
