package broker

import (
	"fmt"
	"time"

	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/internal/invariant"
	"lockstep/node"
	"lockstep/node/wire"
)

// upstreamPhase is how far this slave has come with its master.
type upstreamPhase uint8

const (
	upIdle     upstreamPhase = iota // not connected
	upAsking                        // asking the master where its replication port is
	upDialling                      // the stream is being opened
	upGreeted                       // Hello sent
	upCutting                       // the own log is cut to the consistent point
	upStarted                       // receiving
)

// upstream is this broker's session with its master.
type upstream struct {
	phase    upstreamPhase
	session  node.SessionID // replication session
	ask      node.SessionID // remoting session for code 906
	asked    call
	haAddr   string
	next     node.Time // earliest next attempt
	heard    node.Time
	spoken   node.Time
	welcome  *wire.Replica
	point    ha.LogOffset
	partial  []byte       // bytes of a record that has come in part
	confirm  ha.LogOffset // as the master says
	reported ha.LogOffset // last acknowledgement sent
	bytes    int64
	// promised is the highest end acknowledged in epoch promisedIn: the log is never
	// cut below it while that epoch lasts (P10).
	promised   ha.LogOffset
	promisedIn ha.MasterEpoch
	// rebuild says why this log cannot follow; it waits for an operator, or for the
	// automatic rebuild of a log whose whole content the master has expired.
	rebuild string
	origin  ha.LogOffset // where a rebuild begins; 0: only an operator can help
}

// begin follows a (new) master from now on.
func (u *upstream) begin(now node.Time) {
	*u = upstream{next: now, heard: now, promised: u.promised, promisedIn: u.promisedIn, bytes: u.bytes}
}

// closeUpstream ends the session with the master.
func (b *Broker) closeUpstream(reason string) {
	u := &b.up
	if u.session != 0 {
		b.fx.Closes = append(b.fx.Closes, u.session)
		delete(b.sessions, u.session)
	}
	if u.ask != 0 {
		b.fx.Closes = append(b.fx.Closes, u.ask)
		delete(b.sessions, u.ask)
	}
	u.session, u.ask, u.asked = 0, 0, call{}
	u.phase, u.partial, u.welcome = upIdle, nil, nil
	u.next = b.now.Mono.Add(b.o.RedialPause)
}

// settleFollow keeps a slave attached to its master: find the replication port,
// greet, cut to the consistent point, receive, acknowledge.
func (b *Broker) settleFollow() {
	if !b.role.following() || b.failed() {
		return
	}
	u := &b.up
	switch u.phase {
	case upIdle:
		if u.origin > 0 && !b.cut.wanted && !b.view.set.Has(b.id.Broker) {
			// Out of the set, nothing counts on this log any more (P19).
			b.wantOrigin(u.origin, u.rebuild)
			b.changed()
			return
		}
		b.dialMaster()
	case upAsking, upDialling, upGreeted:
		if b.now.Mono >= u.heard.Add(b.o.HAHousekeepingInterval) {
			b.closeUpstream("the master does not answer")
		}
	case upCutting:
		b.startTransfer()
	case upStarted:
		b.settleAck()
		if b.now.Mono >= u.heard.Add(b.o.HAHousekeepingInterval) {
			b.closeUpstream("the master is silent")
		}
	}
}

// dialMaster opens the replication session to the master that the controllers
// named; a controller that does not know the port makes us ask the master itself
// (code 906), never a name server, which may still name a deposed one.
func (b *Broker) dialMaster() {
	u := &b.up
	// The Hello states the durable end as the end, so the log has to be quiet first.
	if b.now.Mono < u.next || u.rebuild != "" || b.cut.wanted || !b.log.quiet() {
		return
	}
	u.heard = b.now.Mono
	if b.view.masterHA != "" {
		u.haAddr = b.view.masterHA
	}
	if u.haAddr == "" {
		u.phase, u.ask = upAsking, b.dial(wire.Remoting, b.view.masterAddr, sessionMasterAsk)
		return
	}
	u.phase, u.session = upDialling, b.dial(wire.Replication, u.haAddr, sessionUpstream)
}

// askUp asks the master for its replication address.
func (b *Broker) askUp() {
	b.up.asked.begin(b.nextOpaque(), b.up.ask, b.now.Mono)
	b.request(b.up.ask, b.up.asked.opaque, wire.ReqExchangeHAInfo, wire.ExchangeHAInfo{}, nil)
}

// askAnswer takes the master's answer to code 906.
func (b *Broker) askAnswer(f *wire.Frame) {
	u := &b.up
	var h wire.ExchangeHAInfo
	if u.phase != upAsking || !u.asked.answers(u.ask, f) {
		return
	}
	err := f.Header(&h)
	b.closeUpstream("asked")
	if err == nil && f.Head.Code == wire.CodeSuccess && h.MasterHAAddress != "" {
		u.haAddr, u.next = h.MasterHAAddress, b.now.Mono
	}
}

// upstreamUp greets the master: who I am, which life, which term I follow, what I
// hold.
func (b *Broker) upstreamUp() {
	u := &b.up
	u.phase, u.heard = upGreeted, b.now.Mono
	b.tell(wire.Replica{Kind: wire.ReplicaHello, Cluster: b.o.BrokerClusterName, Group: b.o.BrokerName, Self: b.self(), Nonce: b.id.Nonce,
		Term: b.role.epoch, Epoch: b.role.epoch, Offset: b.log.durable, Min: b.log.min, Epochs: b.epochs,
		SegmentBytes: b.o.MappedFileSizeCommitLog, PropCRC: b.o.EnabledAppendPropCRC, Class: b.o.AckClass, Learner: b.o.AsyncLearner})
}

// upstreamFrame records what the master says.
func (b *Broker) upstreamFrame(f *wire.Frame) {
	u, h := &b.up, f.Replica
	u.heard = b.now.Mono
	switch {
	case h.Kind == wire.ReplicaWelcome && u.phase == upGreeted:
		b.welcomed(h)
	case h.Kind == wire.ReplicaRefuse && u.phase <= upGreeted:
		b.refused(h)
	case h.Kind == wire.ReplicaAppend && u.phase == upStarted:
		b.receive(h, f.Body)
	default:
		b.dropMaster(fmt.Sprintf("frame kind %d in phase %d of the session with the master", h.Kind, u.phase))
	}
}

// dropMaster closes the session because of what the master sent.
func (b *Broker) dropMaster(why string) {
	b.emit(event.Event{Kind: event.FrameRejected, Broker: b.view.master, Epoch: b.role.epoch, Text: why})
	b.closeUpstream(why)
}

// refused takes the master's refusal. An empty log may begin where the master's
// does; a log whose whole content has expired there is rebuilt (P19).
func (b *Broker) refused(h *wire.Replica) {
	u := &b.up
	b.closeUpstream("refused: " + h.Reason)
	u.next = b.now.Mono.Add(refusedPause)
	b.emit(event.Event{Kind: event.HandshakeRefused, Broker: b.view.master, Epoch: b.role.epoch, Off: b.log.end, Text: h.Reason})
	b.reg.pollNow()
	if !h.OutOfRange || h.Term != b.role.epoch || int64(h.Min)%b.o.MappedFileSizeCommitLog != 0 || h.Min <= b.log.end {
		return
	}
	if b.log.min == b.log.end {
		b.wantOrigin(h.Min, "")
		u.next = b.now.Mono // at once: the master's retention does not wait for a slave it has not met
		return
	}
	b.needRebuild(fmt.Sprintf("the master's log begins at %d, this one ends at %d", h.Min, b.log.end))
	u.origin = h.Min
}

// refusedPause is the time before a refused slave tries again.
const refusedPause = 2 * time.Second

// needRebuild stops following and says so, loudly: the log cannot be joined to the
// master's by cutting what it may cut.
func (b *Broker) needRebuild(why string) {
	if b.up.rebuild == "" {
		b.emit(event.Event{Kind: event.RebuildNeeded, Broker: b.id.Broker, Epoch: b.role.epoch, Off: b.log.end, Text: why})
	}
	b.up.rebuild = why
}

// welcomed finds the consistent point and cuts the own log to it, durably, before
// anything is acknowledged above it (P10).
func (b *Broker) welcomed(h *wire.Replica) {
	u := &b.up
	if max(h.Term, h.Epoch) != b.role.epoch || h.Self.Broker != b.view.master {
		b.reg.pollNow()
		b.dropMaster(fmt.Sprintf("broker %d answers in epoch %d, the master of epoch %d is %d", h.Self.Broker, max(h.Term, h.Epoch), b.role.epoch, b.view.master))
		return
	}
	point, ok := b.log.end, true
	if len(b.epochs) > 0 || b.log.min != b.log.end {
		point, ok = ha.ConsistentPoint(b.epochs, b.log.end, h.Epochs, h.Offset)
	}
	if !ok {
		b.closeUpstream("no epoch in common")
		b.needRebuild("the log shares no epoch with the master's")
		return
	}
	if point < b.log.min {
		why := fmt.Sprintf("the logs part at %d, this log begins at %d", point, b.log.min)
		b.closeUpstream(why)
		b.needRebuild(why)
		return
	}
	if why := b.guardCut(point, h.Epochs); why != "" {
		b.closeUpstream(why)
		b.needRebuild(why)
		return
	}
	u.welcome, u.point, u.phase = h, point, upCutting
	if point < b.log.end {
		b.wantCut(point)
	}
}

// guardCut refuses to cut what this replica has promised: below its persisted
// confirm, or below what it acknowledged in this epoch. Only an epoch that the
// master's list marks as unclean may take it away (P10). Any other such cut is the
// effect of a bug somewhere, and must be loud.
func (b *Broker) guardCut(point ha.LogOffset, master ha.Epochs) string {
	limit := b.checkpoint.confirm
	if b.up.promisedIn == b.role.epoch {
		limit = max(limit, b.up.promised)
	}
	if point >= limit {
		return ""
	}
	for _, e := range master {
		if e.Unclean && e.Start >= point && e.Epoch > b.epochs.Last().Epoch {
			return ""
		}
	}
	return fmt.Sprintf("following broker %d would cut the log at %d, below %d which this replica has promised to keep", b.view.master, point, limit)
}

// startTransfer asks for data once the cut is durable.
func (b *Broker) startTransfer() {
	u := &b.up
	if b.cut.wanted || !b.log.quiet() || !b.originKnown() {
		return
	}
	invariant.That(b.log.end == u.point, "the log ends at %d after a cut to %d", b.log.end, u.point)
	u.phase, u.partial, u.confirm = upStarted, nil, u.welcome.Confirm
	u.reported = u.point
	u.heard = b.now.Mono
	b.tell(wire.Replica{Kind: wire.ReplicaStart, Term: b.role.epoch, Epoch: b.role.epoch, Offset: u.point})
	b.promise(u.point)
	b.emit(event.Event{Kind: event.Following, Broker: b.view.master, Epoch: b.role.epoch, Off: u.point})
}

// originKnown makes durable to which epoch the first byte belongs of a log that begins
// in the middle of its master's. The barrier record that would tell has expired, and
// after a crash the log would hold bytes of an unknown epoch, which nobody can go on
// with (P9, P19).
func (b *Broker) originKnown() bool {
	if b.log.min == 0 || b.log.min != b.log.end {
		return true
	}
	if led := b.up.welcome.Epochs.CutAt(b.up.point); len(b.epochs) == 0 && len(led) > 0 {
		b.epochs = led
		b.saveEpochs()
	}
	x := &b.saves.slots[saveEpochs]
	return !x.dirty && x.op == 0
}

// receive takes log bytes from the master. They must continue this log exactly, in
// the current term, in an epoch that is the log's last or begins right here;
// anything else is a fault of the sender and ends the session with nothing stored.
func (b *Broker) receive(h *wire.Replica, body []byte) {
	u := &b.up
	arrived := b.log.end + ha.LogOffset(len(u.partial))
	if why := b.refuseChunk(h, body, arrived); why != "" {
		b.emit(event.Event{Kind: event.ChunkRefused, Broker: b.view.master, Epoch: h.Epoch, Off: h.Offset, Off2: arrived, Text: why})
		b.closeUpstream(why)
		return
	}
	u.confirm = max(u.confirm, h.Confirm)
	if h.Member {
		b.memberAgain()
	}
	if len(body) == 0 {
		return
	}
	u.bytes += int64(len(body))
	// The boundary is recorded when it is reached, never ahead of its bytes (P9). The
	// barrier in the log is what recovery believes; the file is its cache.
	if h.Epoch > b.epochs.Last().Epoch {
		b.addEpoch(ha.EpochStart{Epoch: h.Epoch, Start: h.EpochStart, Unclean: b.uncleanEpoch(h.Epoch)})
		b.emit(event.Event{Kind: event.EpochRecorded, Broker: b.view.master, Epoch: h.Epoch, Off: h.EpochStart})
	}
	if why := b.arrive(arrived, body); why != "" {
		b.emit(event.Event{Kind: event.ChunkRefused, Broker: b.view.master, Epoch: h.Epoch, Off: h.Offset, Off2: arrived, Text: why})
		b.closeUpstream(why)
	}
}

// uncleanEpoch is whether the master's list marks the epoch.
func (b *Broker) uncleanEpoch(e ha.MasterEpoch) bool {
	if b.up.welcome == nil {
		return false
	}
	for _, x := range b.up.welcome.Epochs {
		if x.Epoch == e {
			return x.Unclean
		}
	}
	return false
}

// refuseChunk is what is wrong with a chunk, or "".
func (b *Broker) refuseChunk(h *wire.Replica, body []byte, arrived ha.LogOffset) string {
	last := b.epochs.Last()
	seg := ha.LogOffset(b.o.MappedFileSizeCommitLog)
	switch {
	case h.Term != b.role.epoch:
		return fmt.Sprintf("chunk of term %d in term %d", h.Term, b.role.epoch)
	case h.Offset > arrived:
		return fmt.Sprintf("gap: chunk at %d, expected %d", h.Offset, arrived)
	case h.Offset < arrived:
		return fmt.Sprintf("overlap: chunk at %d, expected %d", h.Offset, arrived)
	case h.Epoch < last.Epoch || h.Epoch > h.Term:
		return fmt.Sprintf("chunk of epoch %d after epoch %d in term %d", h.Epoch, last.Epoch, h.Term)
	case len(body) == 0:
		return ""
	case h.Epoch == last.Epoch && h.EpochStart != last.Start:
		return fmt.Sprintf("epoch %d starts at %d there and at %d here", h.Epoch, h.EpochStart, last.Start)
	case h.EpochStart > h.Offset, h.Epoch > last.Epoch && (h.EpochStart != h.Offset || len(b.up.partial) > 0) && (len(b.epochs) > 0 || b.log.min == 0):
		return fmt.Sprintf("epoch %d starts at %d, the chunk at %d", h.Epoch, h.EpochStart, h.Offset)
	case h.Offset/seg != (h.Offset+ha.LogOffset(len(body))-1)/seg:
		return fmt.Sprintf("chunk [%d,%d) crosses a segment of %d bytes", h.Offset, h.Offset+ha.LogOffset(len(body)), seg)
	case int64(arrived-b.log.written)+int64(len(body)) > 2*b.o.HATransferWindow:
		return fmt.Sprintf("the master sends beyond the window of %d unacknowledged bytes", b.o.HATransferWindow)
	}
	return ""
}

// settleAck acknowledges what this replica now holds in the class it promised, and
// speaks up when it has been silent for long.
func (b *Broker) settleAck() {
	u := &b.up
	end := b.log.durable
	if b.o.AckClass == ha.ClassReceived && b.looseAllowed() {
		end = b.log.written
	}
	if end <= u.reported && b.now.Mono < u.spoken.Add(b.o.ackInterval()) {
		return
	}
	u.reported = max(u.reported, end)
	b.promise(u.reported)
	b.tell(wire.Replica{Kind: wire.ReplicaAck, Term: b.role.epoch, Offset: u.reported, Class: b.o.AckClass})
}

// promise notes what was acknowledged in this epoch.
func (b *Broker) promise(end ha.LogOffset) {
	if b.up.promisedIn != b.role.epoch {
		b.up.promisedIn, b.up.promised = b.role.epoch, 0
	}
	b.up.promised = max(b.up.promised, end)
}

// memberAgain ends a broken claim: this incarnation passed the join test and the
// set that names it is committed (P2).
func (b *Broker) memberAgain() {
	if b.claim == ha.ClaimBroken {
		b.claim = ha.ClaimHolds
		b.save(saveBroken, nil)
		b.reg.hurry()
	}
}

// tell sends a replication frame to the master.
func (b *Broker) tell(h wire.Replica) {
	b.up.spoken = b.now.Mono
	b.fx.Send(b.up.session, wire.Frame{Link: wire.Replication, Replica: b.replicaHead(h)})
}

// upstreamDown records the end of a session with the master.
func (b *Broker) upstreamDown(s node.SessionID, reason string) {
	if s == b.up.session {
		b.up.session = 0
		b.up.haAddr = "" // the address may have moved: look again
		b.closeUpstream(reason)
	}
	if s == b.up.ask {
		b.up.ask = 0
		b.closeUpstream(reason)
	}
}

// followDeadline is when the session with the master needs something.
func (b *Broker) followDeadline() node.Time {
	u := &b.up
	if !b.role.following() || b.failed() {
		return node.Never
	}
	switch u.phase {
	case upIdle:
		if u.rebuild != "" || b.cut.wanted || !b.log.quiet() {
			return node.Never
		}
		return u.next
	case upStarted:
		return min(u.heard.Add(b.o.HAHousekeepingInterval), u.spoken.Add(b.o.ackInterval()))
	case upCutting:
		return node.Never
	}
	return u.heard.Add(b.o.HAHousekeepingInterval)
}
