// Package broker is the broker machine: the replicated log and the services that
// RocketMQ clients see. It is a sans-I/O state machine (package node): facts only
// record, Settle derives every effect in the order data flows.
//
// The core is split by noun: appender, tail and queues hold the log; registrar,
// authority, lease and role decide who may write; promotion, demotion, master and
// slave move the log between replicas; syncset, confirm and waiters decide what is
// acknowledged and seen. Rule numbers in comments (P1–P20, M1–M10) are those of the
// protocol rules listed in ARCHITECTURE.md.
package broker

import (
	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/internal/invariant"
	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
)

// Broker is one broker machine. The zero value is not usable; see New.
type Broker struct {
	services

	o         Options
	policy    AckPolicy
	check     storage.Check // how log bytes are judged
	storeHost storage.Host

	now node.Now
	fx  *node.Effects // effects of the call under way: out during facts, the host's during Settle
	out node.Effects  // effects of facts, until the next Settle
	// turns counts changes of the structure (role, set, stop, cut): Settle goes
	// through its list again when one happened below where it matters.
	turns int

	// Who this is.
	id         storage.Identity
	claim      ha.Claim       // does the store hold all it acknowledged? (P1)
	suspect    string         // why the store is not promotable; "" when it is fine
	highest    ha.MasterEpoch // highest epoch ever seen: lower ones are ignored
	superseded string         // why another process is this broker now (P18)
	refusal    string         // why the controllers do not register this broker
	raising    ha.Boot        // boot number to be made durable before registering
	leaving    *node.Exit     // the life ends once its effects are performed

	// The log.
	log     commitLog
	tail    tail
	queues  queueTable
	epochs  ha.Epochs
	confirm ha.LogOffset
	waiters waiters
	cut     cut

	// Authority.
	view   view
	role   role
	lease  lease
	fenced ha.MasterEpoch // epoch whose authority was given up for good
	set    syncSet

	// Other nodes.
	reg      registrar
	ns       namesrvs
	replicas []*replica
	idlers   idlers
	up       upstream
	sessions map[node.SessionID]sessionKind // looked up, never ranged over
	heads    []wire.Replica                 // block of headers, see replicaHead

	// Upkeep.
	checkpoint   checkpoint
	saves        saves
	retention    retention
	failure      failure
	stop         stopping
	catchupReads int
	catchupRetry node.Time
	bootOp       uint64

	writableKnown bool
	notWritable   string // "" while writable
	notMaster     roleRefusal
	lastOp        uint64
	lastOpaque    int32
	lastDial      uint64
	lastSettle    node.Time
}

// sessionKind says whose session an id is.
type sessionKind uint8

const (
	sessionClient sessionKind = 1 + iota
	sessionController
	sessionNamesrv
	sessionMasterAsk
	sessionUpstream
	sessionReplica
)

// New returns the broker of a store that was opened as r. It starts fenced: no
// role, no lease, nothing served for writing.
func New(o Options, r storage.Recovered) (*Broker, error) {
	if o.StoreHost == "" {
		o.StoreHost = o.Address
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	b := &Broker{
		o: o, policy: o.policy(), id: r.Identity, claim: r.Claim, suspect: r.Suspect,
		highest: max(r.HighestEpoch, r.Epochs.Last().Epoch), epochs: r.Epochs, confirm: min(r.Confirm, r.End),
		sessions: map[node.SessionID]sessionKind{},
	}
	b.check = storage.Check{MaxRecord: o.maxRecordBytes(), Segment: o.MappedFileSizeCommitLog}
	if host, err := storage.ParseHost(o.StoreHost); err == nil {
		b.storeHost = host // a name that is no address leaves 0.0.0.0:0
	}
	b.fx = &b.out
	b.view.master, b.lease.mode = ha.NoBroker, o.WriteLease
	b.log.opened(r, o.MappedFileSizeCommitLog)
	b.queues.reset(r.Queues, r.End)
	b.checkpoint.durable, b.checkpoint.confirm = r.End, b.confirm
	b.services = newServices(o.ServiceOptions)
	b.resetMeta(r.Meta)
	if len(r.Meta) == 0 {
		if err := b.importConfig(r.Config); err != nil {
			return nil, err
		}
	}
	b.reg.start(o.ControllerAddr)
	b.ns.start(o.NamesrvAddr)
	if r.Identity.Broker > 0 {
		b.reg.step = stepRegister
	}
	b.noteStarted(r)
	return b, nil
}

var _ node.Machine = (*Broker)(nil)

// begin starts a call at now.
func (b *Broker) begin(now node.Now) {
	invariant.That(now.Mono >= b.now.Mono, "the clock went back from %d to %d", b.now.Mono, now.Mono)
	b.now = now
}

// SessionUp records a new stream.
func (b *Broker) SessionUp(now node.Now, s node.SessionID, p node.Peer) {
	b.begin(now)
	switch kind := b.sessions[s]; {
	case s&node.Dialled == 0 && p.Link == wire.Replication:
		b.replicaUp(s, p.Addr)
	case s&node.Dialled == 0:
		b.sessions[s] = sessionClient
	case kind == sessionController:
		if c := b.reg.conn(s); c != nil {
			*c = controllerConn{uplink: b.uplinkUp(&c.uplink, s), listed: c.listed}
			b.reg.nextLookup = min(b.reg.nextLookup, now.Mono)
		}
	case kind == sessionNamesrv:
		if c := b.ns.conn(s); c != nil {
			*c = namesrvConn{uplink: b.uplinkUp(&c.uplink, s)}
		}
	case kind == sessionMasterAsk:
		b.askUp()
	case kind == sessionUpstream:
		b.upstreamUp()
	default:
		b.fx.Closes = append(b.fx.Closes, s) // given up in the meantime
	}
}

// Receive records a frame: one switch from its session to its method.
func (b *Broker) Receive(now node.Now, s node.SessionID, f *wire.Frame) {
	b.begin(now)
	kind := b.sessions[s]
	replica := f.Link == wire.Replication && f.Replica != nil
	switch {
	case kind == sessionClient && f.Link == wire.Remoting:
		if f.Head.Response() || !b.serveHA(s, f) {
			b.serve(now, s, f)
		}
	case kind == sessionReplica && replica:
		if r := b.replicaOf(s); r != nil {
			b.replicaFrame(r, f)
		}
	case kind == sessionUpstream && replica:
		b.upstreamFrame(f)
	case kind == sessionMasterAsk && f.Link == wire.Remoting:
		b.askAnswer(f)
	case kind == sessionController && f.Link == wire.Remoting:
		b.controllerFrame(s, f)
	case kind == sessionNamesrv && f.Link == wire.Remoting:
		if c := b.ns.conn(s); c != nil {
			b.registerAnswered(c, f)
		}
	}
}

// controllerFrame hands an answer to the request it answers; a late one finds none.
func (b *Broker) controllerFrame(s node.SessionID, f *wire.Frame) {
	c := b.reg.conn(s)
	if c == nil {
		return
	}
	c.asked = 0
	if !f.Head.Response() {
		if f.Head.Code == wire.ReqRoleChanged {
			b.roleNotice(f)
		}
		return
	}
	for i := range c.beats {
		if c.beats[i].answers(s, f) {
			b.heartbeatAnswer(c, &c.beats[i], f)
			return
		}
	}
	switch {
	case c.lookup.answers(s, f):
		b.lookupAnswer(c, f)
	case b.reg.main.answers(s, f):
		b.stepAnswer(f)
	case b.reg.poll.answers(s, f):
		b.pollAnswer(f)
	case b.stop.elect.answers(s, f):
		b.handoverAnswer(f)
	default:
		b.alterAnswer(s, f)
	}
}

// SessionDown records the end of a stream, or a dial that failed.
func (b *Broker) SessionDown(now node.Now, s node.SessionID, reason string) {
	b.begin(now)
	kind := b.sessions[s]
	delete(b.sessions, s)
	switch kind {
	case sessionClient:
		b.servicesSessionDown(now, s)
	case sessionReplica:
		b.replicaDown(s, reason)
	case sessionUpstream, sessionMasterAsk:
		b.upstreamDown(s, reason)
	case sessionController:
		if c := b.reg.conn(s); c != nil {
			if s == c.spare {
				c.spare = 0
			} else {
				*c = controllerConn{uplink: b.uplinkDown(&c.uplink), listed: c.listed}
			}
		}
	case sessionNamesrv:
		if c := b.ns.conn(s); c != nil {
			if s == c.spare {
				c.spare = 0
			} else {
				*c = namesrvConn{uplink: b.uplinkDown(&c.uplink)}
			}
		}
	}
}

// DiskDone records the end of an operation.
func (b *Broker) DiskDone(now node.Now, r storage.Result) {
	b.begin(now)
	b.diskDone(r)
}

// changed notes that the structure changed: parts further up have to look again.
func (b *Broker) changed() { b.turns++ }

// maxTurns bounds how often one Settle goes through its list; each further turn
// needs a change of role, set, stop or cut, and those have an order.
const maxTurns = 16

// Settle derives every effect from the state.
func (b *Broker) Settle(now node.Now, fx *node.Effects) {
	b.begin(now)
	b.take(fx)
	b.fx = fx
	for turn := 0; ; turn++ {
		invariant.That(turn < maxTurns, "settle does not settle: role %s, stop %d, cut %v", b.role.String(), b.stop.stage, b.cut)
		before := b.turns
		b.settle()
		if b.turns == before || fx.Exit != nil {
			break
		}
	}
	b.fx = &b.out
	b.lastSettle = now.Mono
}

// settle is the broker, read from top to bottom in the order data flows: who may
// write; who is connected; what is proven, shown and answered; what clients asked
// for; what goes to disk and replicas; upkeep; what others are told.
func (b *Broker) settle() {
	b.settleStall()
	b.settleRole()
	b.settleStop()
	b.settleCut()
	b.settleDemotion()
	b.settlePromotion()
	b.settleLease()
	b.settleSessions()
	b.settleSet()
	b.settleConfirm()
	b.settleWaiters()
	b.settleQueues()
	b.settleServices(b.now)
	b.settleLog()
	b.settleTransfers()
	b.settleFollow()
	b.settleCheckpoint()
	b.settleReceived()
	b.settleBoot()
	b.settleSaves()
	b.settleRetention()
	b.settleTail()
	b.settleWritable()
	b.settleRegistrar()
	b.settleNamesrvs()
	b.settleLeaving()
}

// take moves the effects of facts to the front of the host's.
func (b *Broker) take(fx *node.Effects) {
	if len(fx.Sends)+len(fx.Disk)+len(fx.Dials)+len(fx.Closes)+len(fx.Events) == 0 && fx.Exit == nil {
		*fx, b.out = b.out, *fx // swap the memory, copy nothing
		b.out.Reset()
		return
	}
	fx.Sends = append(fx.Sends, b.out.Sends...)
	fx.Disk = append(fx.Disk, b.out.Disk...)
	fx.Dials = append(fx.Dials, b.out.Dials...)
	fx.Closes = append(fx.Closes, b.out.Closes...)
	fx.Events = append(fx.Events, b.out.Events...)
	if b.out.Exit != nil {
		fx.Exit = b.out.Exit
	}
	b.out.Reset()
}

// settleStall gives every member a full period after this broker itself stood
// still: its own pause looks like everybody else's (P15).
func (b *Broker) settleStall() {
	gap := b.now.Mono.Sub(b.lastSettle)
	if b.lastSettle != 0 && gap > b.o.HAMaxTimeSlaveNotCatchup/2 && b.role.serving() && b.lastSettle != b.now.Mono {
		for i := range b.set.clocks {
			b.set.clocks[i].caughtUp, b.set.clocks[i].lagging = b.now.Mono, false
		}
		for _, r := range b.replicas {
			r.heard = b.now.Mono
		}
		b.emit(event.Event{Kind: event.Mark, Broker: b.id.Broker, Text: "stalled master gives its members time"})
	}
	b.lastSettle = b.now.Mono
}

// settleLeaving ends the life when something decided so.
func (b *Broker) settleLeaving() {
	b.settleFailure()
	switch {
	case b.fx.Exit != nil:
	case b.superseded != "":
		b.fx.Exit = &node.Exit{Code: node.ExitRefused, Reason: b.superseded}
	case b.leaving != nil:
		b.fx.Exit = b.leaving
	}
}

// Deadline is the earliest instant at which Settle would do something by itself.
func (b *Broker) Deadline() node.Time {
	return min(b.waitersDeadline(), b.leaseDeadline(), b.setDeadline(), b.replicasDeadline(), b.followDeadline(),
		b.logDeadline(), b.queuesDeadline(), b.checkpointDeadline(), b.savesDeadline(), b.retentionDeadline(),
		b.tailDeadline(), b.registrarDeadline(), b.stopDeadline(), b.servicesDeadline())
}

// Listeners are the remoting and the replication port.
func (b *Broker) Listeners() []node.Listener {
	listen, haListen := b.o.Listen, b.o.HAListen
	if listen == "" {
		listen = b.o.Address
	}
	if haListen == "" {
		haListen = b.o.HAAddress
	}
	return []node.Listener{{Link: wire.Remoting, Addr: listen}, {Link: wire.Replication, Addr: haListen}}
}

// CheckInvariants runs the expensive assertions.
func (b *Broker) CheckInvariants() {
	b.log.check()
	b.queues.check(b.confirm)
	b.checkWaiters()
	b.checkReplicas()
	b.checkSet()
	b.checkConfirm()
	invariant.That(b.epochs.Valid(), "epoch list %v is out of order", b.epochs)
	invariant.That(len(b.epochs) == 0 || b.epochs.Last().Start < b.log.end, "epoch %d starts at %d, the log ends at %d", b.epochs.Last().Epoch, b.epochs.Last().Start, b.log.end)
	invariant.That(b.role.epoch <= b.highest, "role of epoch %d, highest seen %d", b.role.epoch, b.highest)
	invariant.That(!b.role.serving() || b.epochs.Last().Epoch == b.role.epoch, "serving epoch %d, the log's last is %d", b.role.epoch, b.epochs.Last().Epoch)
}
