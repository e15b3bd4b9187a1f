package broker

import (
	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
)

// stopStage is how far a graceful stop has come (P20). A master hands over first:
// otherwise each planned restart would cost a lease and a heartbeat time-out.
type stopStage uint8

const (
	stopNot      stopStage = iota
	stopSet                // master: no new writes; the set takes over what is there
	stopHandover           // master: fenced; the controllers are asked for a successor
	stopDraining           // everything to the disk
	stopMark               // the clean-stop mark
	stopDone
)

type stopping struct {
	stage    stopStage
	deadline node.Time // of the hand-over
	elect    call
	asked    node.Time
	op       uint64
	flushed  bool
}

// Stop begins a graceful stop; the second one is at once.
func (b *Broker) Stop(now node.Now) {
	b.begin(now)
	if b.stop.stage != stopNot {
		b.out.Exit = &node.Exit{Code: node.ExitFailed, Reason: "stopped at once, without a clean-stop mark"}
		return
	}
	b.stop.deadline = b.now.Mono.Add(b.o.HandoverTimeout)
	b.stopServices(now) // what they hold in memory goes into the log while it may
	b.stop.stage = stopDraining
	if b.role.serving() && b.successor() != ha.NoBroker {
		b.stop.stage = stopSet
	}
	if b.stop.stage == stopDraining {
		b.beginDraining()
	}
}

// settleStop advances the stop as its conditions hold or its time runs out.
func (b *Broker) settleStop() {
	s := &b.stop
	late := b.now.Mono >= s.deadline
	switch s.stage {
	case stopNot, stopDone:
	case stopSet:
		if late || b.handoverReady() || !b.role.serving() {
			s.stage = stopHandover
			b.changed()
			if !b.role.serving() || b.successor() == ha.NoBroker {
				b.beginDraining()
				return
			}
			b.fenced = b.role.epoch
			b.lease.fence()
			b.reg.hurry() // heartbeat with Fenced and HandOver: an election need not wait
		}
	case stopHandover:
		b.settleHandover(late)
	case stopDraining:
		b.settleDraining()
	case stopMark:
	}
}

// handoverReady reports that waiting is over for the set: it has everything, or nobody
// is left who could take over, as when all brokers of a group are stopped together.
func (b *Broker) handoverReady() bool {
	return b.successor() == ha.NoBroker || b.waiters.queue.len() == 0 && b.setHasAll()
}

// handoverMoves reports that what the set has become lets the hand-over go on.
func (b *Broker) handoverMoves() bool {
	switch b.stop.stage {
	case stopSet:
		return b.handoverReady()
	case stopHandover:
		return b.handoverVoid()
	}
	return false
}

// handoverVoid reports that the controllers can be asked for nobody. While an answer
// is under way the successor may have closed its session because it leads already.
func (b *Broker) handoverVoid() bool { return !b.stop.elect.open && b.successor() == ha.NoBroker }

// setHasAll reports whether a successor would lose nothing: every other member has
// the whole log.
func (b *Broker) setHasAll() bool {
	for _, id := range b.set.effective {
		if id != b.id.Broker && b.set.ackOf(id) < b.log.end {
			return false
		}
	}
	return true
}

// successor is the member to designate: the one that has most, then the smallest
// id.
func (b *Broker) successor() ha.BrokerID {
	best, end := ha.NoBroker, ha.LogOffset(-1)
	for _, id := range b.set.committed {
		if id != b.id.Broker && b.set.ackOf(id) > end {
			best, end = id, b.set.ackOf(id)
		}
	}
	return best
}

// settleHandover asks the controllers to elect the successor, and goes on when a
// higher epoch is heard of, when there is no successor any more, or when the time is
// over.
func (b *Broker) settleHandover(late bool) {
	s := &b.stop
	if s.elect.expired(b.now.Mono, b.o.ControllerRequestTimeout) {
		s.elect.open = false
		b.reg.suspectLeader()
	}
	if b.view.epoch > b.role.epoch || late || b.handoverVoid() {
		if b.view.epoch > b.role.epoch {
			b.emit(event.Event{Kind: event.HandedOver, Broker: b.view.master, Epoch: b.role.epoch})
		}
		b.beginDraining()
		return
	}
	if s.elect.open && s.elect.session == b.reg.leaderSession() || b.now.Mono < s.asked || b.reg.leaderSession() == 0 {
		return
	}
	s.asked = b.now.Mono.Add(stepPause)
	s.elect.begin(b.nextOpaque(), b.reg.leaderSession(), b.now.Mono)
	b.request(s.elect.session, s.elect.opaque, wire.ReqElectMaster, wire.ElectMasterRequest{
		ClusterName: b.o.BrokerClusterName, BrokerName: b.o.BrokerName, BrokerID: b.successor(), DesignateElect: true,
		InvokeTime: b.now.Wall, ReplicaReport: b.report(),
	}, nil)
}

// handoverAnswer takes the answer to the designation: the new record if it
// succeeded, another try soon if not.
func (b *Broker) handoverAnswer(f *wire.Frame) {
	b.stop.elect.open = false
	b.reg.pollNow()
	if f.Head.Code == wire.CodeSuccess {
		b.electAnswer(f)
	}
}

// beginDraining ends the role: what is in the log goes to the disk, and the caches
// after it.
func (b *Broker) beginDraining() {
	b.stop.stage = stopDraining
	b.changed()
	b.unregister()
	b.loseRole("the broker stops")
}

// settleDraining writes everything and then the clean-stop mark, as the last
// operation of this life. A store that cannot be written leaves without the mark.
func (b *Broker) settleDraining() {
	s := &b.stop
	if b.failed() || b.cut.wanted || b.waiters.queue.len() > 0 {
		return
	}
	l, q := &b.log, &b.queues
	if l.full {
		b.stop.stage = stopDone
		b.fx.Exit = &node.Exit{Code: node.ExitFailed, Reason: "stopped with a full disk: without a clean-stop mark"}
		return
	}
	if !l.quiet() || q.op != 0 || q.done != q.order.next {
		return
	}
	if !s.flushed {
		s.flushed = true
		b.stopServices(b.now)
	}
	c := &b.checkpoint
	if c.op != 0 || c.durable != l.durable || !b.savesIdle() || b.retention.op != 0 {
		return
	}
	s.stage = stopMark
	s.op = b.disk(storage.Op{Lane: storage.LaneMeta, Kind: storage.OpCleanStop, Off: l.durable, Confirm: b.confirm, Dispatched: l.end, WallMillis: b.now.Wall}, ownerStop)
}

// stopDone ends the life.
func (b *Broker) stopDone(r storage.Result) {
	b.stop.stage = stopDone
	if r.Err != nil {
		b.fx.Exit = &node.Exit{Code: node.ExitFailed, Reason: "stopped without a clean-stop mark: " + r.Err.Error()}
		return
	}
	b.fx.Exit = &node.Exit{Code: node.ExitClean, Reason: "stopped"}
}

// stopDeadline is when a stop goes on without a fact.
func (b *Broker) stopDeadline() node.Time {
	s := &b.stop
	switch s.stage {
	case stopSet:
		return s.deadline
	case stopHandover:
		if b.reg.leaderSession() != 0 && !s.elect.open {
			return min(s.deadline, s.asked)
		}
		return min(s.deadline, s.elect.deadline(b.o.ControllerRequestTimeout))
	}
	return node.Never
}
