package broker

import (
	"lockstep/internal/ha"
	"lockstep/node"
	"lockstep/node/wire"
)

// scripted is the controllers' record of one group, kept by rules short enough to
// read: conditional commands, elections among live electable members, leases. It
// speaks RocketMQ's codes through the same frames as a real controller.
type scripted struct {
	w       *world
	addr    string
	members map[ha.BrokerID]*registered
	codes   map[string]ha.BrokerID
	nextID  ha.BrokerID

	master   ha.BrokerID
	life     ha.Incarnation
	epoch    ha.MasterEpoch
	setEpoch ha.SetEpoch
	set      ha.IDs
	retained ha.IDs
	min      int
	floor    ha.LogOffset
	unclean  bool // the last election was

	up           bool
	leases       bool
	noAnswer     map[int32]bool // codes that are applied, or not, without an answer
	ignore       map[int32]bool // codes dropped unseen
	noNotice     bool
	allowUnclean bool
	generation   uint64
	heartbeats   node.Time // time-out
	alters       int
	named        []wire.Members // members of every alter request seen
	log          []string
}

type registered struct {
	inc      ha.Incarnation
	addr, ha string
	claim    ha.Claim
	ready    wire.Readiness
	broken   bool
	seen     node.Time
	end      ha.LogOffset
	last     ha.MasterEpoch
	session  node.SessionID
	fenced   ha.MasterEpoch
	rejoined ha.Incarnation
}

func newScripted(w *world) *scripted {
	return &scripted{w: w, addr: "c1:1", members: map[ha.BrokerID]*registered{}, codes: map[string]ha.BrokerID{}, nextID: 1, master: ha.NoBroker,
		min: 2, up: true, leases: true, noAnswer: map[int32]bool{}, ignore: map[int32]bool{}, heartbeats: node.Time(10e9)}
}

func (c *scripted) ids() []ha.BrokerID {
	var ids []ha.BrokerID
	for id := ha.BrokerID(1); id < c.nextID; id++ {
		if c.members[id] != nil {
			ids = append(ids, id)
		}
	}
	return ids
}

func (c *scripted) alive(id ha.BrokerID) bool {
	m := c.members[id]
	return m != nil && m.ready == wire.ReadyYes && c.w.now < m.seen+c.heartbeats
}

// receive answers one request.
func (c *scripted) receive(s *stream, f *wire.Frame) {
	if f.Head.Response() || c.ignore[f.Head.Code] {
		return
	}
	code, header, body := c.serve(s, f)
	if c.noAnswer[f.Head.Code] {
		return
	}
	r := wire.NewResponse(&f.Head, code, header, body)
	s.send(true, r)
}

func (c *scripted) view() wire.MasterView {
	v := wire.MasterView{MinInSync: int32(c.min), Floor: c.floor, Retained: c.retained, Unclean: c.unclean, Term: 1}
	if m := c.members[c.master]; m != nil {
		v.Store, v.Boot, v.HAAddress = c.life.Store, c.life.Boot, m.ha
	}
	for _, id := range c.ids() {
		v.Members = append(v.Members, c.members[id].inc)
	}
	return v
}

func (c *scripted) setBody() []byte {
	return wire.MarshalBody(wire.SyncStateSetBody{SyncStateSet: c.set, SyncStateSetEpoch: c.setEpoch})
}

func (c *scripted) masterAddr() string {
	if m := c.members[c.master]; m != nil {
		return m.addr
	}
	return ""
}

func (c *scripted) serve(s *stream, f *wire.Frame) (int32, any, []byte) {
	switch f.Head.Code {
	case wire.ReqGetControllerMetadata:
		return 0, wire.ControllerMetadata{Group: "g", LeaderID: "1", LeaderAddress: c.addr, IsLeader: true, Term: 1}, nil
	case wire.ReqGetNextBrokerID:
		return 0, wire.NextBrokerIDResponse{NextBrokerID: c.nextID}, nil
	case wire.ReqApplyBrokerID:
		var h wire.ApplyBrokerIDRequest
		must(f.Header(&h))
		if id, ok := c.codes[h.RegisterCheckCode]; ok && id == h.AppliedBrokerID {
			return 0, wire.ApplyBrokerIDResponse{}, nil
		}
		if h.AppliedBrokerID != c.nextID {
			return wire.CodeBrokerIDInvalid, nil, nil
		}
		c.codes[h.RegisterCheckCode] = h.AppliedBrokerID
		c.nextID++
		return 0, wire.ApplyBrokerIDResponse{}, nil
	case wire.ReqRegisterToController:
		return c.register(s, f)
	case wire.ReqBrokerHeartbeat:
		return c.heartbeat(s, f)
	case wire.ReqElectMaster:
		return c.electRequest(f)
	case wire.ReqGetReplicaInfo:
		return 0, wire.ReplicaInfoResponse{MasterBrokerID: c.master, MasterAddress: c.masterAddr(), MasterEpoch: c.epoch, MasterView: c.view()}, c.setBody()
	case wire.ReqAlterSyncStateSet:
		return c.alter(f)
	}
	return wire.CodeRequestCodeNotSupported, nil, nil
}

func (c *scripted) register(s *stream, f *wire.Frame) (int32, any, []byte) {
	var h wire.RegisterToControllerRequest
	must(f.Header(&h))
	inc := h.Identity.Of(h.BrokerID)
	m := c.members[h.BrokerID]
	if m != nil && m.inc.Store == inc.Store && inc.Boot < m.inc.Boot {
		return 0, wire.RegisterToControllerResponse{BootFloor: m.inc.Boot, MasterView: c.view()}, c.setBody()
	}
	fresh := m == nil || m.inc != inc
	if m == nil {
		m = &registered{}
		c.members[h.BrokerID] = m
	}
	if fresh && c.epoch > 0 && (h.Claim != ha.ClaimHolds || m.inc.Store != inc.Store) {
		m.broken = true
	}
	m.inc, m.addr, m.ha, m.claim, m.ready = inc, h.BrokerAddress, h.HAAddress, h.Claim, h.Ready
	m.seen, m.end, m.last, m.session = c.w.now, h.Durable, h.LastEpoch, 0
	if fresh && c.master == h.BrokerID {
		c.elect(ha.NoBroker) // a restarted master never continues its epoch (P4)
	}
	r := wire.RegisterToControllerResponse{MasterView: c.view()}
	if c.master != ha.NoBroker && c.alive(c.master) && c.members[c.master].inc == c.life {
		r.MasterBrokerID, r.MasterAddress, r.MasterEpoch, r.SyncStateSetEpoch = c.master, c.masterAddr(), c.epoch, c.setEpoch
	}
	return 0, r, c.setBody()
}

func (c *scripted) heartbeat(s *stream, f *wire.Frame) (int32, any, []byte) {
	var h wire.BrokerHeartbeat
	must(f.Header(&h))
	m := c.members[h.BrokerID]
	if m == nil || m.inc != h.Identity.Of(h.BrokerID) {
		return wire.CodeBrokerNeedsRegister, wire.HeartbeatResponse{Sequence: h.Sequence}, nil
	}
	m.seen, m.end, m.last, m.ready, m.fenced = c.w.now, h.Durable, h.LastEpoch, h.Ready, h.Fenced
	if h.Claim == ha.ClaimBroken && h.Ready == wire.ReadyNo {
		m.broken = true
	}
	r := wire.HeartbeatResponse{Sequence: h.Sequence, Term: 1}
	if c.leases && h.LeaseWanted && c.master == h.BrokerID && c.epoch == h.Epoch && c.life == m.inc {
		c.generation++
		r.LeaseGrant = wire.LeaseGrant{Broker: h.BrokerID, Boot: h.Boot, Epoch: h.Epoch, Generation: c.generation, DurationMillis: 10_000, MarginMillis: 1000}
	}
	return 0, r, nil
}

func (c *scripted) electRequest(f *wire.Frame) (int32, any, []byte) {
	var h wire.ElectMasterRequest
	must(f.Header(&h))
	switch {
	case h.DesignateElect:
		if !c.elect(h.BrokerID) {
			return wire.CodeElectMasterFailed, nil, nil
		}
	case c.master != ha.NoBroker && c.alive(c.master) && c.members[c.master].inc == c.life:
		return c.electAnswer(wire.CodeMasterStillExist)
	default:
		if !c.elect(ha.NoBroker) {
			return wire.CodeElectMasterFailed, nil, nil
		}
	}
	return c.electAnswer(0)
}

func (c *scripted) electAnswer(code int32) (int32, any, []byte) {
	return code, wire.ElectMasterResponse{MasterBrokerID: c.master, MasterAddress: c.masterAddr(), MasterEpoch: c.epoch, SyncStateSetEpoch: c.setEpoch, MasterView: c.view()},
		wire.MarshalBody(wire.ElectMasterBody{SyncStateSet: c.set})
}

// elect chooses the best live electable member, or the wanted one.
func (c *scripted) elect(want ha.BrokerID) bool {
	pool := c.set.Union(c.retained)
	if c.epoch == 0 || c.allowUnclean {
		pool = ha.NewIDs(c.ids()...)
	}
	best := ha.NoBroker
	for _, id := range pool {
		m := c.members[id]
		if m == nil || m.broken && !c.allowUnclean || !c.alive(id) || want != ha.NoBroker && id != want {
			continue
		}
		if o := c.members[best]; o == nil || m.last > o.last || m.last == o.last && m.end > o.end {
			best = id
		}
	}
	if best == ha.NoBroker && want == ha.NoBroker {
		best = c.allBack(pool)
	}
	if best == ha.NoBroker {
		return false
	}
	old := c.set.Union(c.retained)
	c.unclean = c.epoch > 0 && !old.Has(best)
	c.master, c.life = best, c.members[best].inc
	c.epoch, c.setEpoch, c.set = c.epoch+1, c.setEpoch+1, ha.NewIDs(best)
	c.retained = nil
	if c.min > 1 {
		c.retained = old.Without(best)
	}
	c.members[best].broken = false
	c.w.lastElection = c.w.now
	c.notify()
	return true
}

// allBack is the best of all electable-by-history members once each is back: nothing
// better exists (P16).
func (c *scripted) allBack(pool ha.IDs) ha.BrokerID {
	best := ha.NoBroker
	for _, id := range pool {
		m := c.members[id]
		if m == nil || !c.alive(id) {
			return ha.NoBroker
		}
		if o := c.members[best]; o == nil || m.last > o.last || m.last == o.last && m.end > o.end {
			best = id
		}
	}
	return best
}

func (c *scripted) notify() {
	if c.noNotice {
		return
	}
	for _, id := range c.ids() {
		c.w.notice(c.members[id].addr, wire.NewRequest(wire.ReqRoleChanged, 0, wire.RoleChanged{MasterAddress: c.masterAddr(), MasterEpoch: c.epoch,
			SyncStateSetEpoch: c.setEpoch, MasterBrokerID: c.master, MasterView: c.view()}, c.setBody()))
	}
}

func (c *scripted) alter(f *wire.Frame) (int32, any, []byte) {
	var h wire.AlterSyncStateSetRequest
	var body wire.SyncStateSetBody
	must(f.Header(&h))
	must(wire.UnmarshalBody(f.Body, &body))
	c.named = append(c.named, h.Members)
	code := c.applyAlter(h, body)
	if code != 0 {
		return code, nil, nil
	}
	return 0, wire.AlterSyncStateSetResponse{NewSyncStateSetEpoch: c.setEpoch, MasterView: c.view()}, c.setBody()
}

func (c *scripted) applyAlter(h wire.AlterSyncStateSetRequest, body wire.SyncStateSetBody) int32 {
	set := ha.NewIDs(body.SyncStateSet...)
	switch {
	case h.MasterBrokerID != c.master || h.Identity.Of(h.MasterBrokerID) != c.life:
		return wire.CodeInvalidMaster
	case h.MasterEpoch != c.epoch:
		return wire.CodeFencedMasterEpoch
	case body.SyncStateSetEpoch != c.setEpoch:
		return wire.CodeFencedSetEpoch
	case !set.Has(c.master):
		return wire.CodeAlterSetFailed
	}
	for _, id := range set {
		inc, ok := h.Members.Find(id)
		if m := c.members[id]; !ok || m == nil || m.inc != inc {
			return wire.CodeInvalidReplicas
		}
		if !c.alive(id) {
			return wire.CodeBrokerNotAlive
		}
	}
	removed := IDsWithout(c.set, set)
	if len(set) >= c.min {
		c.retained = nil
	} else {
		c.retained = IDsWithout(c.retained.Union(removed), set)
	}
	for _, id := range set {
		c.members[id].broken = false
	}
	c.set, c.setEpoch, c.floor = set, c.setEpoch+1, h.Floor
	c.alters++
	return 0
}

// IDsWithout is a without the members of b.
func IDsWithout(a, b ha.IDs) ha.IDs {
	for _, id := range b {
		a = a.Without(id)
	}
	return a
}

// scan elects when the master is silent.
func (c *scripted) scan() {
	if !c.up || c.epoch == 0 || c.master != ha.NoBroker && c.alive(c.master) && c.members[c.master].inc == c.life {
		return
	}
	c.elect(ha.NoBroker)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
