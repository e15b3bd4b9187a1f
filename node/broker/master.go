package broker

import (
	"fmt"
	"slices"
	"time"

	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/internal/invariant"
	"lockstep/node"
	"lockstep/node/wire"
)

// replicaPhase is how far a slave's session has come.
type replicaPhase uint8

const (
	replicaSilent   replicaPhase = iota // connected, nothing said
	replicaGreeted                      // Hello received, not answered
	replicaWelcomed                     // Welcome sent, the slave truncates
	replicaStarted                      // transferring
)

// replica is the session of one slave. Everything a slave proved belongs to its
// session and dies with it (P13).
type replica struct {
	session node.SessionID
	addr    string
	phase   replicaPhase
	since   node.Time // when the phase began
	hello   *wire.Replica

	self    ha.Incarnation
	class   ha.AckClass // class of its acknowledgements, promised in the handshake
	learner bool

	point    ha.LogOffset // consistent point computed here; Start must name it
	verified ha.LogOffset // prefix proved by the handshake: counts as acknowledged (P8)
	sent     ha.LogOffset // next byte to send; a record begins there
	acked    ha.LogOffset

	// misplaced: the position it named lies inside a record; the session ends.
	misplaced bool

	heard    node.Time // last frame from it
	spoken   node.Time // last frame to it
	confirm  ha.LogOffset
	transfer transfer
	progress progress
	joining  joining
}

const (
	// maxReplicaSessions bounds the sessions on the replication port, learners and
	// strangers included.
	maxReplicaSessions = 128
	// helloTimeout ends a session that said no Hello, which a slave says as soon as it
	// is connected. It is also the least time between two events about such sessions.
	helloTimeout = 5 * time.Second
)

// idlers are the sessions that were turned away from the replication port because
// they said no Hello or found no room. Whoever opens them may open many: they are
// told in one event.
type idlers struct {
	count int64     // not told yet
	addr  string    // of the newest
	next  node.Time // no event before
}

// replicaUp records a new session on the replication port. Silent ones keep nobody
// out: when all places are taken the oldest without a Hello gives way.
func (b *Broker) replicaUp(s node.SessionID, addr string) {
	if len(b.replicas) >= maxReplicaSessions {
		i := slices.IndexFunc(b.replicas, func(r *replica) bool { return r.phase == replicaSilent })
		if i < 0 {
			b.fx.Closes = append(b.fx.Closes, s)
			b.idlers.count, b.idlers.addr = b.idlers.count+1, addr
			return
		}
		b.turnAway(b.replicas[i], "gave way: no Hello, and all sessions of the replication port are taken")
	}
	b.replicas = append(b.replicas, &replica{session: s, addr: addr, since: b.now.Mono, heard: b.now.Mono, spoken: b.now.Mono})
	b.sessions[s] = sessionReplica
}

// replicaOf finds a slave's session; there are few.
func (b *Broker) replicaOf(s node.SessionID) *replica {
	for _, r := range b.replicas {
		if r.session == s {
			return r
		}
	}
	return nil
}

// closeReplica ends a slave's session from here.
func (b *Broker) closeReplica(r *replica, reason string) {
	b.fx.Closes = append(b.fx.Closes, r.session)
	b.replicaDown(r.session, reason)
}

// closeReplicas ends all of them: every change of epoch does (P13).
func (b *Broker) closeReplicas(reason string) {
	for len(b.replicas) > 0 {
		b.closeReplica(b.replicas[len(b.replicas)-1], reason)
	}
}

// replicaDown forgets a session and all it acknowledged.
func (b *Broker) replicaDown(s node.SessionID, reason string) {
	delete(b.sessions, s)
	for i, r := range b.replicas {
		if r.session != s {
			continue
		}
		b.replicas = append(b.replicas[:i], b.replicas[i+1:]...)
		if r.phase == replicaStarted {
			b.emit(event.Event{Kind: event.SlaveLeft, Broker: r.self.Broker, Epoch: b.role.epoch, Off: r.acked, Text: reason})
			b.set.left(r.self)
		}
		b.set.dirty = true
		b.changed()
		return
	}
}

// replicaFrame records what a slave says.
func (b *Broker) replicaFrame(r *replica, f *wire.Frame) {
	h := f.Replica
	r.heard = b.now.Mono
	switch {
	case h.Kind == wire.ReplicaHello && r.phase == replicaSilent:
		r.hello, r.phase, r.since = h, replicaGreeted, b.now.Mono
	case h.Kind == wire.ReplicaStart && r.phase == replicaWelcomed:
		b.start(r, h)
	case h.Kind == wire.ReplicaAck && r.phase == replicaStarted:
		b.acked(r, h)
	default:
		b.rejectFrame(r, fmt.Sprintf("frame kind %d in phase %d of a slave's session", h.Kind, r.phase))
	}
}

// rejectFrame closes a session because of what it sent.
func (b *Broker) rejectFrame(r *replica, why string) {
	b.emit(event.Event{Kind: event.FrameRejected, Broker: r.self.Broker, Epoch: b.role.epoch, Text: why})
	b.closeReplica(r, why)
}

// start begins the transfer at the point that both sides computed. The verified
// prefix counts as acknowledged: otherwise an idle group could never grow back to
// its floor (P8).
func (b *Broker) start(r *replica, h *wire.Replica) {
	if h.Term != b.role.epoch || h.Offset != r.point {
		b.rejectFrame(r, fmt.Sprintf("slave starts at %d in epoch %d, the consistent point is %d in epoch %d", h.Offset, h.Term, r.point, b.role.epoch))
		return
	}
	r.phase, r.since = replicaStarted, b.now.Mono
	r.verified, r.sent, r.acked = h.Offset, h.Offset, h.Offset
	r.progress.begin(b.log.end, b.now.Mono)
	b.set.returned(r.self)
	b.set.dirty = true
	b.emit(event.Event{Kind: event.SlaveJoined, Broker: r.self.Broker, Epoch: b.role.epoch, Off: r.verified, Text: r.self.String()})
	b.noteProgress(r)
}

// acked records an acknowledgement. It counts only in this epoch, in the promised
// class, forward, and up to what this session verified or was sent; a slave that
// claims more does not speak the truth and is cut off (P8).
func (b *Broker) acked(r *replica, h *wire.Replica) {
	switch {
	case h.Term != b.role.epoch:
		b.rejectFrame(r, fmt.Sprintf("acknowledgement of epoch %d in epoch %d", h.Term, b.role.epoch))
		return
	case h.Class != r.class:
		b.rejectFrame(r, fmt.Sprintf("acknowledgement of class %v on a session of class %v", h.Class, r.class))
		return
	case h.Offset > max(r.verified, r.sent):
		b.rejectFrame(r, fmt.Sprintf("acknowledgement of %d, sent were %d", h.Offset, max(r.verified, r.sent)))
		return
	}
	r.acked = max(r.acked, h.Offset)
	b.noteProgress(r)
}

// turnAway closes a session that said no Hello.
func (b *Broker) turnAway(r *replica, reason string) {
	b.idlers.count, b.idlers.addr = b.idlers.count+1, r.addr
	b.closeReplica(r, reason)
}

// settleIdlers tells of the sessions that were turned away.
func (b *Broker) settleIdlers() {
	x := &b.idlers
	if x.count == 0 || b.now.Mono < x.next {
		return
	}
	b.emit(event.Event{Kind: event.HandshakeRefused, Epoch: b.role.epoch, Count: x.count, Text: fmt.Sprintf(
		"replication port: %d sessions said no Hello within %v, or found all %d places taken; the last came from %s: only slaves should reach this port",
		x.count, helloTimeout, maxReplicaSessions, x.addr)})
	x.count, x.next = 0, b.now.Mono.Add(helloTimeout)
}

// settleSessions keeps the slaves' sessions: handshakes once this broker serves, and
// housekeeping.
func (b *Broker) settleSessions() {
	for i := len(b.replicas) - 1; i >= 0; i-- {
		r := b.replicas[i]
		late := b.now.Mono >= r.heard.Add(b.o.HAHousekeepingInterval)
		switch {
		case r.phase == replicaGreeted && !late:
			b.welcome(r)
		case r.misplaced:
			b.misplaced(r)
		case r.phase == replicaSilent && b.now.Mono >= r.heard.Add(helloTimeout):
			b.turnAway(r, fmt.Sprintf("no Hello within %v", helloTimeout))
		case late: // also of a slave that waits for a promotion: it has given up by now
			b.closeReplica(r, "silent for longer than haHousekeepingInterval")
		}
	}
	b.settleIdlers()
}

// settleTransfers sends every slave what it lacks.
func (b *Broker) settleTransfers() {
	for _, r := range b.replicas {
		if r.phase == replicaStarted {
			b.settleTransfer(r)
		}
	}
}

// welcome answers a Hello as soon as this broker can tell: a master in promotion
// lets it wait, anybody else refuses.
func (b *Broker) welcome(r *replica) {
	if b.role.promoting() {
		return
	}
	if why := b.refuseHello(r.hello); why != "" {
		b.refuse(r, why, false)
		return
	}
	if b.awaitMember(r) {
		return
	}
	h := r.hello
	point, why := b.consistentPoint(h)
	if why != "" {
		b.refuse(r, why, h.Offset < b.log.min)
		return
	}
	b.replaceOlder(r)
	r.self, r.class, r.learner = h.Self, h.Class, h.Learner
	r.point, r.phase, r.since = point, replicaWelcomed, b.now.Mono
	b.say(r, wire.Replica{Kind: wire.ReplicaWelcome, Self: b.self(), Nonce: b.id.Nonce, Term: b.role.epoch, Epoch: b.role.epoch,
		Offset: b.log.end, Min: b.log.min, Confirm: b.confirm, Epochs: b.epochs}, nil)
}

// refuseHello is why a slave cannot follow this broker now, or "".
func (b *Broker) refuseHello(h *wire.Replica) string {
	term := max(h.Term, h.Epoch)
	switch {
	case !b.role.serving():
		return fmt.Sprintf("broker %d is not the master", b.id.Broker)
	case h.Cluster != b.o.BrokerClusterName || h.Group != b.o.BrokerName:
		return fmt.Sprintf("slave of %s/%s dialled a master of %s/%s: correct its haServerAddr or brokerName", h.Cluster, h.Group, b.o.BrokerClusterName, b.o.BrokerName)
	case h.Self.Broker <= 0 || h.Self.Broker == b.id.Broker:
		return fmt.Sprintf("broker id %d cannot be a slave of broker %d", h.Self.Broker, b.id.Broker)
	case h.Self.Store == "" || h.Self.Store == b.id.Store:
		return fmt.Sprintf("store %q cannot be a slave of store %q: a copied store must be rebuilt", h.Self.Store, b.id.Store)
	case term < b.role.epoch:
		return fmt.Sprintf("slave follows epoch %d, this is epoch %d", term, b.role.epoch)
	case term > b.role.epoch:
		b.reg.pollNow()
		return fmt.Sprintf("slave follows epoch %d, this is only epoch %d", term, b.role.epoch)
	case h.SegmentBytes != b.o.MappedFileSizeCommitLog:
		return fmt.Sprintf("mappedFileSizeCommitLog is %d here and %d on the slave: make them equal", b.o.MappedFileSizeCommitLog, h.SegmentBytes)
	case h.PropCRC != b.o.EnabledAppendPropCRC:
		return fmt.Sprintf("enabledAppendPropCRC is %v here and %v on the slave: make them equal", b.o.EnabledAppendPropCRC, h.PropCRC)
	case h.Class < b.o.AckClass && !h.Learner:
		// A member that can never satisfy the policy would make every send time out (P13).
		return fmt.Sprintf("the slave can only acknowledge %v, this group wants %v: set ackClass on both alike", h.Class, b.o.AckClass)
	}
	return ""
}

// awaitMember holds a handshake until the controllers' record names exactly this
// incarnation: a stranger, or a clone with an older boot, is nobody (P2, P18). A
// record that is merely behind is fetched at once.
func (b *Broker) awaitMember(r *replica) bool {
	h := r.hello
	m, ok := b.view.members.Find(h.Self.Broker)
	if len(b.view.members) == 0 || ok && m == h.Self {
		return false
	}
	if ok && m.Store == h.Self.Store && m.Boot > h.Self.Boot {
		b.refuse(r, fmt.Sprintf("slave %v is outdated: broker %d runs as boot %d", h.Self, m.Broker, m.Boot), false)
		return true
	}
	if b.now.Mono >= r.since.Add(b.o.ControllerRequestTimeout) {
		b.refuse(r, fmt.Sprintf("slave %v is not registered with the controllers", h.Self), false)
		return true
	}
	b.reg.pollNow()
	return true
}

// consistentPoint is where the slave's log and this one part, and so where the
// transfer begins.
func (b *Broker) consistentPoint(h *wire.Replica) (ha.LogOffset, string) {
	switch {
	case h.Offset < b.log.min:
		return 0, fmt.Sprintf("the slave ends at %d, this log begins at %d: the slave has to be rebuilt", h.Offset, b.log.min)
	case len(h.Epochs) == 0 && h.Offset == h.Min:
		if h.Offset > b.log.end {
			return 0, fmt.Sprintf("the empty slave begins at %d, this log ends at %d", h.Offset, b.log.end)
		}
		if _, _, ok := b.epochs.At(h.Offset, b.log.end); !ok { // see maxEpochs
			return 0, fmt.Sprintf("this log no longer knows the epoch of its byte %d: an empty slave can follow once retention has removed that part", h.Offset)
		}
		return h.Offset, "" // an empty log agrees with every log
	case len(h.Epochs) == 0:
		return 0, fmt.Sprintf("the slave holds %d bytes of unknown epochs: rebuild it, or start it as the group's first master", h.Offset-h.Min)
	}
	point, ok := ha.ConsistentPoint(h.Epochs, h.Offset, b.epochs, b.log.end)
	switch {
	case !ok:
		return 0, "the slave's log shares no epoch with this one: the slave has to be rebuilt"
	case point < b.log.min:
		return 0, fmt.Sprintf("the logs part at %d, this log begins at %d: the slave has to be rebuilt", point, b.log.min)
	}
	return point, ""
}

// replaceOlder closes older sessions of the same broker: the newest session of an
// incarnation speaks for it, and one replica has one vote.
func (b *Broker) replaceOlder(r *replica) {
	for i := len(b.replicas) - 1; i >= 0; i-- {
		o := b.replicas[i]
		if o != r && o.phase >= replicaWelcomed && o.self.Broker == r.hello.Self.Broker {
			b.closeReplica(o, "replaced by a newer session")
		}
	}
}

// maxReason bounds the reason of a refusal, bytes: it quotes what the other side said
// of itself, and has to fit a header.
const maxReason = 512

// refuse tells a slave why it cannot follow, and closes.
func (b *Broker) refuse(r *replica, why string, outOfRange bool) {
	why = why[:min(len(why), maxReason)]
	b.emit(event.Event{Kind: event.HandshakeRefused, Broker: r.hello.Self.Broker, Epoch: b.role.epoch, Text: why})
	b.say(r, wire.Replica{Kind: wire.ReplicaRefuse, Term: b.role.epoch, Min: b.log.min, Reason: why, OutOfRange: outOfRange}, nil)
	b.closeReplica(r, why)
}

// say sends a replication frame to a slave.
func (b *Broker) say(r *replica, h wire.Replica, body []byte) {
	r.spoken = b.now.Mono
	b.fx.Send(r.session, wire.Frame{Link: wire.Replication, Replica: b.replicaHead(h), Body: body})
}

// replicaHead puts a header on the heap, in blocks: a frame lives as long as its
// writer needs it, and one allocation serves many frames.
func (b *Broker) replicaHead(h wire.Replica) *wire.Replica {
	if len(b.heads) == 0 {
		b.heads = make([]wire.Replica, headBlock)
	}
	p := &b.heads[0]
	b.heads = b.heads[1:]
	*p = h
	return p
}

const headBlock = 64

// self is this broker's incarnation.
func (b *Broker) self() ha.Incarnation {
	return ha.Incarnation{Broker: b.id.Broker, Store: b.id.Store, Boot: b.id.Boot}
}

// checkReplicas asserts what each session may claim.
func (b *Broker) checkReplicas() {
	for i, r := range b.replicas {
		if r.phase != replicaStarted {
			continue
		}
		invariant.That(b.role.serving(), "a slave's session outlived the authority of epoch %d", b.role.epoch)
		invariant.That(r.acked <= max(r.verified, r.sent) && r.sent <= b.log.end, "slave %d: acked %d, verified %d, sent %d, end %d",
			r.self.Broker, r.acked, r.verified, r.sent, b.log.end)
		for _, o := range b.replicas[:i] {
			invariant.That(o.phase != replicaStarted || o.self.Broker != r.self.Broker, "two sessions of broker %d transfer", r.self.Broker)
		}
	}
}
