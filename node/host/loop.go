package host

import (
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"time"

	"lockstep/internal/event"
	"lockstep/internal/invariant"
	"lockstep/node"
	"lockstep/node/host/stream"
)

// loop is the one goroutine that touches the machine.
func (n *Node) loop() {
	defer close(n.done)
	defer n.finish()
	defer n.contain("the machine")
	timer := time.NewTimer(0)
	defer timer.Stop()
	n.urgent = true // a life begins with a Settle
	for {
		n.gate.pass()
		wait, over := n.turn()
		if over {
			return
		}
		if wait > 0 {
			n.sleep(timer, wait)
			// Readers that became ready together with the one that woke us go first: their
			// facts share this batch, one settle and one wake-up of each writer.
			runtime.Gosched()
		}
	}
}

// turn does one batch if there is anything to do. It reports how long the loop
// may sleep, in the node's time, and whether the node's life is over.
func (n *Node) turn() (wait time.Duration, over bool) {
	n.o.Turn.Lock()
	defer n.o.Turn.Unlock()
	facts := n.box.take()
	if n.ending.Load() != nil {
		return 0, true
	}
	now := n.o.Clock()
	if len(facts) == 0 && !n.urgent {
		if due := n.deadline(); due == node.Never {
			return forever, false
		} else if due > now.Mono {
			return due.Sub(now.Mono), false
		}
	}
	if n.urgent = n.batch(now, facts); n.fx.Exit != nil {
		n.ending.CompareAndSwap(nil, &ending{*n.fx.Exit, true})
		return 0, true
	}
	return 0, false
}

// forever is the wait of a machine that waits for facts alone.
const forever = time.Duration(math.MaxInt64)

// deadline is the next instant at which a batch without facts is wanted.
func (n *Node) deadline() node.Time {
	d := n.o.Machine.Deadline()
	if n.o.App != nil {
		d = min(d, n.o.App.Deadline())
	}
	return d
}

// sleep waits for a fact, at most so long.
func (n *Node) sleep(timer *time.Timer, wait time.Duration) {
	if wait == forever {
		<-n.box.wake
		return
	}
	timer.Reset(min(wait/time.Duration(n.o.Pace), maxSleep))
	select {
	case <-n.box.wake:
	case <-timer.C:
	}
}

// batch tells the machine what happened, settles it and performs its effects. It
// reports whether the next batch must not wait for facts.
func (n *Node) batch(now node.Now, facts []fact) (urgent bool) {
	began := time.Now()
	n.fx.Reset()
	for i := range facts {
		n.tell(now, &facts[i])
	}
	n.o.Machine.Settle(now, &n.fx)
	n.perform(now)
	if n.o.App != nil {
		urgent = n.o.App.Turn(now, n.o.Machine)
	}
	took := time.Since(began)
	n.counters.batch(len(facts), took)
	if took > slowBatch {
		n.o.Log.Warn("a batch took long", "node", n.o.Name, "facts", len(facts), "took", took)
	}
	return urgent
}

func (n *Node) tell(now node.Now, f *fact) {
	m, s := n.o.Machine, f.session
	switch f.kind {
	case factUp:
		if s.hungUp || s.dialled() && n.sessions[s.id] != s {
			return // closed before it was up
		}
		n.sessions[s.id] = s
		s.up = true
		m.SessionUp(now, s.id, s.peer)
	case factReceive:
		s.Took(f.size)
		if n.sessions[s.id] == s {
			if n.o.OnDeliver != nil {
				n.o.OnDeliver(s.id, f.frame)
			}
			m.Receive(now, s.id, f.frame)
		}
	case factDown:
		if f.rejected {
			n.counters.rejected.Add(1)
			n.report(now, event.Event{Kind: event.FrameRejected, Text: f.reason})
		}
		if n.sessions[s.id] == s {
			delete(n.sessions, s.id)
			m.SessionDown(now, s.id, f.reason)
		}
	case factDisk:
		m.DiskDone(now, *f.disk)
	case factStop:
		m.Stop(now)
	case factCall:
		f.call(now)
	}
}

// perform does the effects in their order.
func (n *Node) perform(now node.Now) {
	fx := &n.fx
	for i := range fx.Events {
		n.report(now, fx.Events[i])
	}
	n.sendAll()
	for _, s := range n.touched { // the writers wake when all of the batch is theirs
		s.Send(&s.pending)
	}
	clear(n.touched)
	n.touched = n.touched[:0]
	n.shed()
	for i := range fx.Disk {
		invariant.That(n.lanes != nil, "host: operation of kind %d, but the node has no disk", fx.Disk[i].Kind)
		n.lanes.Put(fx.Disk[i])
	}
	for _, d := range fx.Dials {
		n.dial(d)
	}
	for _, id := range fx.Closes {
		n.hangUp(id)
	}
}

// sendAll queues the frames of the batch. What may be said only before some instant is
// held against the clock as it is now: the batch may have taken long, or the process
// stood still in the middle of it. A pause from here on cannot be excluded.
func (n *Node) sendAll() {
	fx, late, at := &n.fx, 0, node.Time(0)
	for i := range fx.Sends {
		to := &fx.Sends[i]
		if to.Before != 0 && at == 0 {
			at = n.o.Clock().Mono
		}
		if to.Before != 0 && at >= to.Before {
			late++
			n.hangUp(to.To)
			continue
		}
		n.send(to)
	}
	if late > 0 {
		n.counters.withheld.Add(int64(late))
		n.o.Log.Warn("answers withheld: what entitled to them ended during the batch", "node", n.o.Name, "answers", late)
	}
}

// shed closes the sessions that most waits for until all together are within bounds:
// many peers that ask and do not read must not take the node's memory, although none
// of them is above its own limit.
func (n *Node) shed() {
	c := &n.counters.streams
	for c.Waiting.Load() > int64(n.o.OutTotal) {
		var most *session
		waiting := 0
		for _, s := range n.sessions {
			if w := s.Waiting(); w > waiting {
				most, waiting = s, w
			}
		}
		if most == nil {
			return // what waits is for sessions that have ended
		}
		c.Slow.Add(1)
		most.Close(fmt.Errorf("the peer reads too slowly: %d bytes wait for it, more than for any other, and more than %d for all", waiting, n.o.OutTotal))
	}
}

// send queues a frame; one for a session that is gone, or not up yet, is dropped.
func (n *Node) send(to *node.Send) {
	s := n.sessions[to.To]
	if s == nil || !s.up {
		return
	}
	if len(s.pending) == 0 {
		n.touched = append(n.touched, s)
	}
	if n.o.OnSend != nil {
		n.o.OnSend(s.id, &to.Frame)
	}
	s.pending = append(s.pending, to.Frame)
}

// hangUp closes a session on the machine's behalf: what was sent before still
// goes out, and SessionDown follows as for any other end.
func (n *Node) hangUp(id node.SessionID) {
	s := n.sessions[id]
	if s == nil {
		return
	}
	s.up, s.hungUp = false, true
	s.finish()
	n.box.put(fact{kind: factDown, session: s, reason: stream.Closed})
}

// contain makes a panic the end of the node instead of the process: a broken
// invariant of one node must not take its neighbours with it.
func (n *Node) contain(what string) {
	r := recover()
	if r == nil {
		return
	}
	n.counters.panics.Add(1)
	n.o.Log.Error("a rule of the program is broken; the node stops", "node", n.o.Name, "where", what, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
	n.fail(fmt.Sprintf("panic in %s: %v", what, r))
}

// finish ends everything that belongs to the node. After a graceful exit what was
// sent is still written, for at most stream.FlushTime.
func (n *Node) finish() {
	end := n.ending.Load()
	n.exit = end.exit
	if n.o.OnExit != nil {
		n.o.OnExit(n.exit)
	}
	n.gate.release()
	n.cancel()
	n.closeListeners()
	n.mu.Lock()
	n.closing = true
	live := make([]*session, 0, len(n.live))
	for s := range n.live {
		live = append(live, s)
	}
	n.mu.Unlock()
	for _, s := range live {
		if end.graceful {
			s.finish()
		} else {
			s.Abort()
		}
	}
	flushed := make(chan struct{})
	go func() {
		n.work.Wait()
		close(flushed)
	}()
	limit := time.NewTimer(stream.FlushTime)
	defer limit.Stop()
	select {
	case <-flushed:
	case <-limit.C:
		for _, s := range live {
			s.Abort()
		}
	}
	n.grpc.Close() // its connections carry nothing any more
	<-flushed
	if n.lanes != nil {
		n.lanes.Stop()
	}
}
