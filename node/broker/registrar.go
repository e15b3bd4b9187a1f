package broker

import (
	"fmt"
	"time"

	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
)

// registrar keeps this broker known to the controllers, and what they decided
// known to this broker. It holds a session to each configured controller, so that
// heartbeats reach all of them and a dead one costs nothing, and follows whichever
// says it leads. Any one of register, elect, poll and notice is enough to converge.
type registrar struct {
	conns  []*controllerConn
	leader string // address of the believed leader, "" when unknown
	term   uint64 // its controller term
	denied bool   // it said since that it does not lead

	step       registrarStep
	registered bool
	applied    ha.BrokerID // id asked for by 1013
	main       call        // the request of step asked
	asked      registrarStep
	poll       call
	nextPoll   node.Time
	lastPoll   node.Time
	nextLookup node.Time
	nextStep   node.Time
	sequence   uint64
}

// registrarStep is what has to be asked next. An identity that exists starts at
// register.
type registrarStep uint8

const (
	stepNextID   registrarStep = iota // 1012: which id is free
	stepApplyID                       // 1013: take it
	stepSaveID                        // make it durable here
	stepRegister                      // 1003: this life of the store is up
	stepElect                         // 1002: nominate oneself, nobody leads the group
	stepFollow                        // 1004: poll
)

// controllerConn is the session to one controller.
type controllerConn struct {
	uplink                // next is the next heartbeat when up
	listed bool           // in the configuration; the leader's own address may not be
	beats  [maxBeats]call // heartbeats under way, by sequence
	lookup call
	echo   uint64 // stamp of the newest answer
}

// maxBeats bounds the unanswered heartbeats remembered on one session: an answer
// slower than the interval must still be matched with its own send time, from
// which its lease counts.
const maxBeats = 4

// maxUnlisted bounds leader addresses learned at run time.
const maxUnlisted = 8

// start begins with the configured controllers.
func (g *registrar) start(addrs []string) {
	for _, a := range addrs {
		g.conns = append(g.conns, &controllerConn{uplink: uplink{addr: a}, listed: true})
	}
}

// hurry makes heartbeats due now: role, readiness or fence changed.
func (g *registrar) hurry() {
	for _, c := range g.conns {
		if c.up {
			c.next = 0
		}
	}
}

// pollNow makes the next poll due now.
func (g *registrar) pollNow() { g.nextPoll = min(g.nextPoll, g.lastPoll.Add(pollPause)) }

// pollPause is the least time between two polls.
const pollPause = 100 * time.Millisecond

// suspectLeader asks all controllers who leads: the believed one did not answer, or
// said that it does not.
func (g *registrar) suspectLeader() { g.nextLookup = 0 }

// leaderDenies notes that the believed leader says that it does not lead.
func (g *registrar) leaderDenies() {
	g.denied = true
	g.suspectLeader()
}

// followable reports whether an answer to "who leads?" may be followed. A lower term is
// that of a leader which was deposed and does not know it, unless nobody of the higher
// term is left: controllers that lost their data begin again with the first (P17).
func (g *registrar) followable(h *wire.ControllerMetadata) bool {
	return h.Term >= g.term || h.IsLeader && (g.denied || g.leaderSession() == 0)
}

// leaderSession is the session of the believed leader while it is up, else 0.
func (g *registrar) leaderSession() node.SessionID {
	for _, c := range g.conns {
		if c.addr == g.leader && c.up {
			return c.session
		}
	}
	return 0
}

func (g *registrar) conn(s node.SessionID) *controllerConn {
	for _, c := range g.conns {
		if c.has(s) {
			return c
		}
	}
	return nil
}

// settleRegistrar dials, looks up the leader, sends heartbeats, and asks what the
// current step needs.
func (b *Broker) settleRegistrar() {
	g := &b.reg
	for _, c := range g.conns {
		b.dialUplink(&c.uplink, sessionController, b.o.controllerSilence())
		if c.up {
			b.heartbeat(c)
		}
	}
	b.expireCalls()
	b.lookup()
	if g.leaderSession() != 0 && !b.failed() {
		b.settleStep()
		b.settlePoll()
	}
}

// lookup asks every reachable controller who leads, at each period and as soon as
// the leader is unknown, silent or gone.
func (b *Broker) lookup() {
	g := &b.reg
	if b.now.Mono < g.nextLookup && (g.leaderSession() != 0 || g.nextLookup.Sub(b.now.Mono) <= b.o.RedialPause) {
		return
	}
	if b.now.Mono < g.nextLookup && g.leaderSession() == 0 {
		g.nextLookup = b.now.Mono // the leader's session broke: look again at once
	}
	asked := false
	for _, c := range g.conns {
		if c.up && (!c.lookup.open || c.lookup.expired(b.now.Mono, b.o.ControllerRequestTimeout)) {
			c.lookup.begin(b.nextOpaque(), c.session, b.now.Mono)
			b.request(c.session, c.lookup.opaque, wire.ReqGetControllerMetadata, nil, nil)
			asked = true
			c.ask(b.now.Mono)
		}
	}
	pause := b.o.SyncControllerMetadataPeriod
	if !asked || g.leaderSession() == 0 {
		pause = b.o.RedialPause
	}
	g.nextLookup = b.now.Mono.Add(pause)
}

// lookupAnswer believes the followable answer with the highest controller term; among
// equal terms, who says it leads itself.
func (b *Broker) lookupAnswer(c *controllerConn, f *wire.Frame) {
	g := &b.reg
	c.lookup.open = false
	var h wire.ControllerMetadata
	if err := f.Header(&h); err != nil || f.Head.Code != wire.CodeSuccess || !g.followable(&h) {
		return
	}
	addr := h.LeaderAddress
	if h.IsLeader {
		addr = c.addr
	}
	if addr == "" || h.Term == g.term && g.leaderSession() != 0 && !h.IsLeader {
		return
	}
	if addr != g.leader {
		b.emit(event.Event{Kind: event.LeaderChanged, Count: int64(h.Term), Text: addr})
		g.main.open, g.poll.open = false, false
	}
	g.leader, g.term, g.denied = addr, h.Term, g.denied && addr == g.leader && !h.IsLeader
	known, unlisted := false, 0
	for _, x := range g.conns {
		known = known || x.addr == addr
		if !x.listed {
			unlisted++
		}
	}
	if !known && unlisted < maxUnlisted {
		g.conns = append(g.conns, &controllerConn{uplink: uplink{addr: addr}})
	}
}

// heartbeat reports this broker to one controller at each interval. The answer of
// the leader carries the lease, counted from the moment this was sent.
func (b *Broker) heartbeat(c *controllerConn) {
	if b.id.Broker <= 0 || !b.reg.registered || b.now.Mono < c.next {
		return
	}
	b.reg.sequence++
	c.next = b.now.Mono.Add(b.o.BrokerHeartbeatInterval)
	beat := &c.beats[b.reg.sequence%maxBeats]
	beat.begin(b.nextOpaque(), c.session, b.now.Mono)
	c.ask(b.now.Mono)
	b.request(c.session, beat.opaque, wire.ReqBrokerHeartbeat, wire.BrokerHeartbeat{
		ClusterName: b.o.BrokerClusterName, BrokerAddr: b.o.Address, BrokerName: b.o.BrokerName, BrokerID: b.id.Broker,
		Epoch: b.currentEpoch(), MaxOffset: b.log.end, ConfirmOffset: b.confirm,
		HeartbeatTimeoutMillis: b.o.ControllerHeartBeatTimeout.Milliseconds(), ElectionPriority: b.o.BrokerElectionPriority,
		ReplicaReport: b.report(), LeaseWanted: b.role.master() && b.o.WriteLease != LeaseOff && b.stop.stage < stopHandover,
		LeaseGeneration: b.lease.generation, Fenced: b.fenced, HandOver: b.stop.stage == stopHandover,
		Sequence: b.reg.sequence, Echo: c.echo,
	}, nil)
}

// report is what this broker says about its log.
func (b *Broker) report() wire.ReplicaReport {
	ready := wire.ReadyYes
	if !b.promotable() {
		ready = wire.ReadyNo
	}
	claim := b.claim
	if b.failed() {
		claim = ha.ClaimBroken
	}
	return wire.ReplicaReport{
		Identity: b.identity(), Claim: claim, Ready: ready, LastEpoch: b.epochs.Last().Epoch, Durable: b.log.durable,
		HighestEpoch: b.highest, MinInSync: int32(b.o.MinInSync()), TotalReplicas: int32(b.o.TotalReplicas),
		Class: b.o.AckClass, Learner: b.o.AsyncLearner, HAAddress: b.o.HAAddress,
	}
}

// heartbeatAnswer installs the lease it may carry.
func (b *Broker) heartbeatAnswer(c *controllerConn, beat *call, f *wire.Frame) {
	beat.open = false
	var h wire.HeartbeatResponse
	if err := f.Header(&h); err != nil {
		return
	}
	c.echo = h.Stamp
	switch f.Head.Code {
	case wire.CodeSuccess:
		b.grant(h.LeaseGrant, beat.sent)
	case wire.CodeBrokerNeedsRegister:
		b.again()
	}
}

// again goes back to registering: the controllers do not know this life.
func (b *Broker) again() {
	if b.reg.step > stepRegister {
		b.reg.step, b.reg.nextStep = stepRegister, b.now.Mono.Add(b.o.RedialPause)
	}
}

// expireCalls ends requests that were not answered: their outcome is unknown, and
// so is the leader.
func (b *Broker) expireCalls() {
	g := &b.reg
	for _, c := range []*call{&g.main, &g.poll} {
		if c.expired(b.now.Mono, b.o.ControllerRequestTimeout) {
			c.open = false
			g.suspectLeader()
		}
		if c.open && c.session != g.leaderSession() {
			c.open = false
		}
	}
}

// settlePoll asks for the group's record at each period, as a safety net under the
// notices (1008), which are one-way.
func (b *Broker) settlePoll() {
	g := &b.reg
	if g.step < stepElect || g.poll.open || b.now.Mono < g.nextPoll {
		return
	}
	g.lastPoll, g.nextPoll = b.now.Mono, b.now.Mono.Add(b.o.SyncBrokerMetadataPeriod)
	g.poll.begin(b.nextOpaque(), g.leaderSession(), b.now.Mono)
	b.request(g.poll.session, g.poll.opaque, wire.ReqGetReplicaInfo, wire.ReplicaInfoRequest{BrokerName: b.o.BrokerName, ClusterName: b.o.BrokerClusterName}, nil)
}

// settleStep sends the request of the current step, one at a time.
func (b *Broker) settleStep() {
	g := &b.reg
	if g.main.open || b.now.Mono < g.nextStep {
		return
	}
	switch g.step {
	case stepNextID:
		b.ask(wire.ReqGetNextBrokerID, wire.NextBrokerIDRequest{ClusterName: b.o.BrokerClusterName, BrokerName: b.o.BrokerName})
	case stepApplyID:
		b.ask(wire.ReqApplyBrokerID, wire.ApplyBrokerIDRequest{ClusterName: b.o.BrokerClusterName, BrokerName: b.o.BrokerName,
			AppliedBrokerID: g.applied, RegisterCheckCode: b.checkCode(), Identity: b.identity()})
	case stepSaveID:
		if b.saved(saveIdentity) {
			g.step = stepRegister
			b.settleStep()
		}
	case stepRegister:
		if b.raising != 0 {
			return
		}
		b.ask(wire.ReqRegisterToController, wire.RegisterToControllerRequest{ClusterName: b.o.BrokerClusterName, BrokerName: b.o.BrokerName,
			BrokerID: b.id.Broker, BrokerAddress: b.o.Address, InvokeTime: b.now.Wall, ElectionPriority: b.o.BrokerElectionPriority, ReplicaReport: b.report()})
	case stepElect:
		if !b.promotable() || b.o.AsyncLearner {
			return // the poll goes on
		}
		b.ask(wire.ReqElectMaster, wire.ElectMasterRequest{ClusterName: b.o.BrokerClusterName, BrokerName: b.o.BrokerName,
			BrokerID: b.id.Broker, InvokeTime: b.now.Wall, ReplicaReport: b.report()})
	}
}

// checkCode makes a repeated application for an id recognisable (1013). The store
// id stands where Java writes a time: it survives a restart, so an answer that was
// lost costs no id.
func (b *Broker) checkCode() string { return b.o.Address + ";" + string(b.id.Store) }

func (b *Broker) ask(code int32, header any) {
	g := &b.reg
	g.main.begin(b.nextOpaque(), g.leaderSession(), b.now.Mono)
	g.asked, g.nextStep = g.step, b.now.Mono.Add(stepPause)
	b.request(g.main.session, g.main.opaque, code, header, nil)
}

// stepPause is the least time between two requests of one step.
const stepPause = 500 * time.Millisecond

// stepAnswer takes the answer to the step's request. One to a request of a step that
// was left meanwhile says nothing about the present one.
func (b *Broker) stepAnswer(f *wire.Frame) {
	g := &b.reg
	g.main.open = false
	code := f.Head.Code
	switch {
	case code == wire.CodeNotLeader:
		g.leaderDenies()
	case g.asked != g.step:
	case g.step == stepNextID:
		b.nextIDAnswer(f)
	case g.step == stepApplyID:
		b.applyIDAnswer(code)
	case g.step == stepRegister:
		b.registerAnswer(f)
	case g.step == stepElect:
		b.electAnswer(f)
	}
}

func (b *Broker) nextIDAnswer(f *wire.Frame) {
	var h wire.NextBrokerIDResponse
	if err := f.Header(&h); f.Head.Code != wire.CodeSuccess || err != nil || h.NextBrokerID <= 0 {
		return
	}
	b.reg.applied, b.reg.step, b.reg.nextStep = h.NextBrokerID, stepApplyID, b.now.Mono
}

// applyIDAnswer keeps the id it got. After a refusal another one is asked for; an
// unknown outcome asks for the same one again.
func (b *Broker) applyIDAnswer(code int32) {
	g := &b.reg
	switch code {
	case wire.CodeSuccess:
		b.id.Broker = g.applied
		b.save(saveIdentity, storage.EncodeIdentity(b.o.BrokerClusterName, b.o.BrokerName, b.id.Broker))
		g.step, g.nextStep = stepSaveID, b.now.Mono
	case wire.CodeBrokerIDInvalid:
		g.step, g.nextStep = stepNextID, b.now.Mono.Add(pollPause) // a neighbour was faster
	}
}

// registerAnswer takes the group's record. Without a live master this broker
// nominates itself.
func (b *Broker) registerAnswer(f *wire.Frame) {
	g := &b.reg
	var h wire.RegisterToControllerResponse
	var body wire.SyncStateSetBody
	err := f.Header(&h)
	if err == nil && len(f.Body) > 0 {
		err = wire.UnmarshalBody(f.Body, &body)
	}
	if f.Head.Code != wire.CodeSuccess || err != nil {
		b.registerRefused(f, err)
		return
	}
	if h.BootFloor >= b.id.Boot {
		// This boot was another life's: a restored backup or a copied store (P1, P18).
		b.raiseBoot(h.BootFloor + 1)
		return
	}
	g.registered, g.step, g.nextStep, g.nextPoll = true, stepFollow, b.now.Mono, b.now.Mono
	if h.MasterBrokerID <= 0 {
		g.step = stepElect
	}
	b.refusal = ""
	b.believe(viewOf(h.MasterBrokerID, h.MasterAddress, h.MasterEpoch, body, h.MasterView))
	g.hurry()
}

// registerRefused names why the controllers do not take this broker, and goes on
// trying: the operator may correct it.
func (b *Broker) registerRefused(f *wire.Frame, err error) {
	why := f.Head.Remark
	if err != nil {
		why = err.Error()
	}
	why = fmt.Sprintf("registration refused with code %d: %s", f.Head.Code, why)
	if why != b.refusal {
		b.emit(event.Event{Kind: event.RegisterRefused, Group: b.o.BrokerName, Broker: b.id.Broker, Code: f.Head.Code, Text: why})
	}
	b.refusal = why
}

// electAnswer takes the result of a nomination; 2011 is success: somebody leads.
func (b *Broker) electAnswer(f *wire.Frame) {
	g := &b.reg
	switch f.Head.Code {
	case wire.CodeBrokerNeedsRegister:
		b.again()
		return
	case wire.CodeSuccess, wire.CodeMasterStillExist:
	default:
		g.nextStep = b.now.Mono.Add(b.o.BrokerHeartbeatInterval)
		return
	}
	var h wire.ElectMasterResponse
	var body wire.ElectMasterBody
	if err := f.Header(&h); err != nil {
		return
	}
	if len(f.Body) > 0 {
		if err := wire.UnmarshalBody(f.Body, &body); err != nil {
			return
		}
	}
	set := wire.SyncStateSetBody{SyncStateSet: body.SyncStateSet, SyncStateSetEpoch: h.SyncStateSetEpoch}
	b.believe(viewOf(h.MasterBrokerID, h.MasterAddress, h.MasterEpoch, set, h.MasterView))
	g.step, g.nextPoll = stepFollow, b.now.Mono
}

// pollAnswer takes the group's record. Without a master this broker nominates
// itself; a group the controllers forgot is registered again (P17).
func (b *Broker) pollAnswer(f *wire.Frame) {
	g := &b.reg
	g.poll.open = false
	switch f.Head.Code {
	case wire.CodeNotLeader:
		g.leaderDenies()
		g.nextPoll = b.now.Mono.Add(b.o.RedialPause)
		return
	case wire.CodeBrokerMetadataNotExist, wire.CodeBrokerNeedsRegister:
		b.again()
		return
	case wire.CodeSuccess:
	default:
		return
	}
	var h wire.ReplicaInfoResponse
	var body wire.SyncStateSetBody
	if err := f.Header(&h); err != nil {
		return
	}
	if err := wire.UnmarshalBody(f.Body, &body); err != nil {
		return
	}
	b.believe(viewOf(h.MasterBrokerID, h.MasterAddress, h.MasterEpoch, body, h.MasterView))
	// Nobody leads, or an earlier life of this store is said to: nominate this one.
	if v := &b.view; g.step == stepFollow && (h.MasterBrokerID <= 0 || v.master == b.id.Broker && !v.isLife(b.id)) {
		g.step = stepElect
	}
}

// roleNotice takes a notice of code 1008: a hint, sent once and one-way.
func (b *Broker) roleNotice(f *wire.Frame) {
	var h wire.RoleChanged
	var body wire.SyncStateSetBody
	if err := f.Header(&h); err != nil || h.BrokerName != "" && h.BrokerName != b.o.BrokerName {
		return
	}
	if err := wire.UnmarshalBody(f.Body, &body); err != nil {
		return
	}
	body.SyncStateSetEpoch = max(body.SyncStateSetEpoch, h.SyncStateSetEpoch)
	b.believe(viewOf(h.MasterBrokerID, h.MasterAddress, h.MasterEpoch, body, h.MasterView))
}
