package sim

import (
	"fmt"
	"runtime/debug"
	"strings"

	"lockstep/internal/decide"
	"lockstep/internal/event"
	"lockstep/internal/invariant"
	"lockstep/internal/prng"
	"lockstep/netsim"
	"lockstep/node"
	"lockstep/storage"
)

// The sites of a machine's loop.
var (
	siteBatch  = decide.NewSite("loop.batch", "", 1<<20, 0)
	siteCost   = decide.NewSite("loop.cost", "ns", 5_000, 1_000_000)
	siteLinger = decide.NewSite("loop.linger", "ns", 0, 1_000_000)
)

// maxSpins bounds the batches a machine may run in a row whose Settle leaves its
// deadline in the past.
const maxSpins = 2000

// Deliver takes a fact from the network for the machine of a node.
func (w *World) Deliver(f netsim.Fact) {
	w.accept(w.nodes[f.Node], input{kind: inputNet, fact: f})
}

// Schedule continues the network at the true time at.
func (w *World) Schedule(at int64, ref uint32) { w.heap.push(at, evNet, 0, ref) }

// accept queues a fact and makes the node ready.
func (w *World) accept(n *host, in input) {
	n.inbox = append(n.inbox, in)
	if n.pending() > w.opts.MaxInbox {
		w.find(n, "inbox", fmt.Sprintf("%d facts wait", n.pending()))
	}
	w.wakeUp(n)
}

// wakeUp makes the node be looked at before the next event.
func (w *World) wakeUp(n *host) {
	if !n.queued {
		n.queued = true
		w.ready = append(w.ready, n)
	}
}

// drain runs the nodes that became ready, in the order they did.
func (w *World) drain() {
	for i := 0; i < len(w.ready); i++ {
		n := w.ready[i]
		n.queued = false
		w.attend(n)
	}
	w.ready = w.ready[:0]
}

// settleOutside drains after a call from outside the world's loop; inside, the
// loop drains once the present event is over, so that batches never nest.
func (w *World) settleOutside() {
	if !w.running {
		w.drain()
	}
}

// attend runs a batch of the node if it has time and anything to do.
func (w *World) attend(n *host) {
	if n.state != stateUp || n.paused > 0 {
		return
	}
	due := n.dueAt
	if n.urgent {
		due = w.now
	}
	if n.pending() == 0 && due > w.now {
		w.armWake(n, due)
		return
	}
	if n.busyUntil > w.now {
		w.armRun(n, n.busyUntil)
		return
	}
	if !n.lingered && w.opts.Linger.Hi > 0 && due > w.now && !n.spec.Steady {
		n.lingered = true
		if d := w.decider.Decide(siteLinger, n.key(0, n.batches), w.opts.Linger); d > 0 {
			n.busyUntil = w.now + d
			w.armRun(n, n.busyUntil)
			return
		}
	}
	n.lingered, n.urgent = false, false
	w.batch(n)
}

// armRun asks for the node to be looked at again at the true time at.
func (w *World) armRun(n *host, at int64) {
	if n.runAt >= w.now && n.runAt <= at {
		return
	}
	n.runAt = at
	w.heap.push(at, evRun, uint16(n.index), 0)
}

// armWake asks for the node to be looked at when its deadline comes. An
// outstanding earlier one is enough: it looks again.
func (w *World) armWake(n *host, at int64) {
	if at == never || n.wakeAt >= w.now && n.wakeAt <= at {
		return
	}
	n.wakeAt = at
	w.heap.push(at, evWake, uint16(n.index), 0)
}

// plan notes when the node next has to run without news. The machine's deadline
// moves only in Settle, so one look a batch is enough.
func (n *host) plan(deadline node.Time) {
	n.deadline = deadline
	if n.app != nil {
		deadline = min(deadline, n.app.Deadline())
	}
	n.dueAt = n.clock.trueAt(deadline)
}

// Wake makes the node settle although it has no news: for a scenario that gave
// its machine or App work from outside.
func (w *World) Wake(name string) {
	n := w.Node(name).n
	n.urgent = true
	w.wakeUp(n)
	w.settleOutside()
}

// batch gives the machine a drawn number of the facts that wait, settles it,
// and performs what it wants.
func (w *World) batch(n *host) {
	now := n.clock.now(w.now)
	inputs := w.batchSize(n)
	n.batches++
	w.stats.Batches++
	n.fx.Reset()
	w.current = n
	if len(n.watched) > 0 {
		w.checkWatched(n)
	}
	if !w.turn(n, now, inputs) {
		return
	}
	cost := w.decider.Decide(siteCost, n.key(0, n.batches), w.cost(n)) * min(n.cpuTimes, maxCPUTimes)
	n.busyUntil = w.now + cost
	w.spin(n, now)
	w.perform(n)
	if n.state != stateUp {
		return
	}
	n.urgent = w.appTurn(n, now)
	if n.state == stateUp {
		n.plan(n.deadline)
		w.wakeUp(n)
	}
}

// cost spreads the time of a batch; steady nodes take the least.
func (w *World) cost(n *host) decide.Dist {
	if n.spec.Steady {
		return decide.Dist{Lo: w.opts.Batch.Lo, Hi: w.opts.Batch.Lo}
	}
	return w.opts.Batch
}

// batchSize draws how many of the waiting facts come before the next Settle:
// 0 settles without news, which must change nothing.
func (w *World) batchSize(n *host) int {
	k := n.pending()
	if k < 2 || n.spec.Steady {
		return k
	}
	v := w.decider.Decide(siteBatch, n.key(0, n.batches), decide.Dist{Lo: 0, Hi: w.opts.BatchMax})
	return int(min(int64(k), max(v, 0)))
}

// turn feeds the facts and settles; it reports whether the machine survived.
func (w *World) turn(n *host, now node.Now, inputs int) (ok bool) {
	defer w.contain(n)
	for range inputs {
		w.give(n, now, n.take())
	}
	if n.prompt != nil {
		n.prompt.Turn(now, n.machine)
	}
	n.machine.Settle(now, &n.fx)
	if w.opts.SettleTwice && n.fx.Exit == nil { // an exit is final: repeating it is no news
		n.again.Reset()
		n.machine.Settle(now, &n.again)
		if extra := effectCount(&n.again); extra > 0 {
			w.find(n, "settle-twice", "a second Settle had new effects: "+describeEffects(&n.again))
		}
	}
	if w.opts.CheckEvery > 0 && n.batches%int64(w.opts.CheckEvery) == 0 {
		n.machine.CheckInvariants()
	}
	n.deadline = n.machine.Deadline()
	w.step(n, SubLoop, StepBatch, uint64(inputs), hashDeadline(n.deadline))
	return true
}

// give hands one fact to the machine.
func (w *World) give(n *host, now node.Now, in input) {
	switch in.kind {
	case inputDisk:
		s := w.slots[in.slot]
		w.step(n, SubDisk, StepDone, s.res.Op.ID, uint64(s.res.Op.Kind))
		n.machine.DiskDone(now, s.res)
		w.freeSlot(in.slot)
	case inputStop:
		n.machine.Stop(now)
	default:
		w.giveFact(n, now, &in.fact)
	}
}

// giveFact hands one fact of the network to the machine.
func (w *World) giveFact(n *host, now node.Now, f *netsim.Fact) {
	switch f.Kind {
	case netsim.SessionUp:
		w.step(n, SubNet, StepTake, 1, uint64(f.Session))
		n.peers[f.Session] = f.Peer
		n.machine.SessionUp(now, f.Session, f.Peer)
	case netsim.SessionDown:
		w.step(n, SubNet, StepTake, prng.HashString(f.Reason), uint64(f.Session))
		delete(n.peers, f.Session)
		if strings.HasPrefix(f.Reason, netsim.BadFrame) {
			w.emit(n, &event.Event{Kind: event.FrameRejected, Text: f.Reason})
		}
		n.machine.SessionDown(now, f.Session, f.Reason)
	case netsim.Receive:
		w.step(n, SubNet, StepTake, uint64(netsim.KindOf(f.Frame)), uint64(f.Session))
		for _, o := range w.observers {
			o.OnDeliver(n.spec.Name, f.Session, f.Frame)
		}
		if n.prepare != nil {
			n.prepare.Prepare(now, f.Frame, n.peers[f.Session])
		}
		w.net.Read(w.now, f)
		n.machine.Receive(now, f.Session, f.Frame)
	}
}

// spin notices a machine whose deadline never moves into the future.
func (w *World) spin(n *host, now node.Now) {
	if n.deadline > now.Mono {
		n.spins = 0
		return
	}
	n.spins++
	if n.spins == maxSpins {
		w.find(n, "spin", fmt.Sprintf("after each of %d batches the deadline is past: %d, now %d",
			maxSpins, n.deadline, now.Mono))
	}
}

// appTurn lets the node's App submit and drain, unless it did so before Settle; it
// reports whether another batch has to follow.
func (w *World) appTurn(n *host, now node.Now) (worked bool) {
	if n.app == nil {
		return false
	}
	defer w.contain(n)
	w.current = n
	if n.prompt != nil {
		return n.prompt.Waits(n.machine)
	}
	return n.app.Turn(now, n.machine)
}

// contain makes a panic of node code a finding and ends that life.
func (w *World) contain(n *host) {
	r := recover()
	if r == nil {
		return
	}
	kind, text := "panic", fmt.Sprint(r)
	if v, ok := r.(invariant.Violation); ok {
		kind, text = "invariant", string(v)
	}
	n.panicked = true
	w.find(n, kind, text)
	w.findings[len(w.findings)-1].Stack = string(debug.Stack())
	w.kill(n, -1, kind+": "+text)
	w.net.Exit(w.now, n.index, false)
}

// effectCount is the number of effects, events included.
func effectCount(fx *node.Effects) int {
	k := len(fx.Sends) + len(fx.Disk) + len(fx.Dials) + len(fx.Closes) + len(fx.Events)
	if fx.Exit != nil {
		k++
	}
	return k
}

// describeEffects prints effects for a finding.
func describeEffects(fx *node.Effects) string {
	text := fmt.Sprintf("%d sends, %d disk, %d dials, %d closes, %d events", len(fx.Sends), len(fx.Disk),
		len(fx.Dials), len(fx.Closes), len(fx.Events))
	for i := range fx.Sends {
		text += fmt.Sprintf("; send kind %d", netsim.KindOf(&fx.Sends[i].Frame))
	}
	for i := range fx.Disk {
		text += "; disk " + opName(&fx.Disk[i])
	}
	for i := range fx.Events {
		text += "; event " + fx.Events[i].String()
	}
	return text
}

// opName prints an operation.
func opName(op *storage.Op) string {
	return fmt.Sprintf("#%d kind %d lane %d off %d %s", op.ID, op.Kind, op.Lane, op.Off, op.Name)
}
