package controller

import (
	"fmt"
	"strings"

	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/node"
	"lockstep/node/wire"
)

// protocolVersion is the version in answers: V5_3_3.
const protocolVersion = 479

// answer is what goes into a response.
type answer struct {
	code   int32
	remark string
	ext    wire.Ext
	body   []byte
}

// reply sends the answer to request f; a one-way request gets none.
func (c *Controller) reply(id node.SessionID, f *wire.Frame, a answer) {
	if f.Head.Oneway() || c.sessions[id] == nil {
		return
	}
	c.out.Send(id, wire.Frame{Link: wire.Remoting, Body: a.body, Head: wire.Head{
		Code: a.code, Language: "GO", Version: protocolVersion, Opaque: f.Head.Opaque,
		Flag: wire.FlagResponse, Remark: a.remark, Ext: a.ext, Sealed: f.Head.Sealed,
	}})
}

// refuse answers with a code and says so in an event.
func (c *Controller) refuse(id node.SessionID, f *wire.Frame, code int32, format string, args ...any) {
	a := answer{code: code, remark: fmt.Sprintf(format, args...)}
	c.emit(event.Event{Kind: event.RequestRefused, Code: code, Count: int64(f.Head.Code), Text: a.remark})
	c.reply(id, f, a)
}

// decode reads the typed header of a request, or answers what is wrong with it.
func (c *Controller) decode(id node.SessionID, f *wire.Frame, header any) bool {
	if err := wire.DecodeExt(f.Head.Ext, header); err != nil {
		c.refuse(id, f, wire.CodeSystemError, "request %d: %v", f.Head.Code, err)
		return false
	}
	return true
}

// notLeader answers a request that only the leader may serve, with where to go.
func (c *Controller) notLeader(id node.SessionID, f *wire.Frame) {
	remark := "The controller is not in leader state"
	switch {
	case c.phase != phaseMember:
		remark += ": " + c.why
	case c.lead != nil:
		remark += ": this controller has just been elected and is catching up"
	case c.leader == 0:
		remark += ": no leader is known, a quorum of controllers may be missing"
	default:
		remark += ": the leader is " + c.leaderNode()
	}
	c.reply(id, f, answer{code: wire.CodeNotLeader, remark: remark})
}

// leaderNode is the configured id of the leader, "" when none is known.
func (c *Controller) leaderNode() string {
	v, _ := c.state.voter(c.leader)
	return v.Node
}

// request serves one request of a broker or tool.
func (c *Controller) request(now node.Now, id node.SessionID, f *wire.Frame) {
	switch f.Head.Code {
	case wire.ReqBrokerHeartbeat:
		c.heartbeat(now, id, f)
		return
	case wire.ReqGetControllerMetadata:
		c.metadata(id, f)
		return
	}
	serve := c.handler(f.Head.Code)
	switch {
	case serve == nil:
		c.refuse(id, f, wire.CodeRequestCodeNotSupported, " request type %d not supported", f.Head.Code)
	case !c.ready() || c.stopping:
		c.notLeader(id, f)
	default:
		serve(now, id, f)
	}
}

// handler is who serves a request of the leader, nil for one nobody serves.
func (c *Controller) handler(code int32) func(node.Now, node.SessionID, *wire.Frame) {
	switch code {
	case wire.ReqAlterSyncStateSet:
		return c.alterRequest
	case wire.ReqElectMaster:
		return c.electRequest
	case wire.ReqRegisterToController:
		return c.registerRequest
	case wire.ReqGetReplicaInfo:
		return c.replicaInfoRequest
	case wire.ReqGetNextBrokerID:
		return c.nextIDRequest
	case wire.ReqApplyBrokerID:
		return c.applyIDRequest
	case wire.ReqReadRegister, wire.ReqWriteRegister, wire.ReqSwapRegister:
		return c.registersRequest
	}
	return nil
}

// checkNames refuses names and addresses that are empty or too long.
func (c *Controller) checkNames(id node.SessionID, f *wire.Frame, names ...string) bool {
	for _, n := range names {
		if n == "" || len(n) > maxText/2 || strings.ContainsAny(n, "\x00\n\r") {
			c.refuse(id, f, wire.CodeInvalidRequest, "request %d: a name or address is empty, longer than %d bytes, or holds control characters", f.Head.Code, maxText/2)
			return false
		}
	}
	return true
}

func (c *Controller) metadata(id node.SessionID, f *wire.Frame) {
	m := wire.ControllerMetadata{Group: c.o.ControllerGroup, IsLeader: c.ready(), Term: c.term}
	if c.leader != 0 {
		m.LeaderID = c.leaderNode()
	}
	var peers []string
	for _, p := range c.o.Peers {
		peers = append(peers, p.Node+":"+p.Addr)
		if p.Node == m.LeaderID && m.LeaderID != "" {
			m.LeaderAddress = p.Addr
		}
	}
	m.Peers = strings.Join(peers, ";")
	c.reply(id, f, answer{ext: wire.EncodeExt(m)})
}

func (c *Controller) applyIDRequest(now node.Now, id node.SessionID, f *wire.Frame) {
	var h wire.ApplyBrokerIDRequest
	if !c.decode(id, f, &h) || !c.checkNames(id, f, h.ClusterName, h.BrokerName, h.RegisterCheckCode) {
		return
	}
	c.propose(now, &applyID{Key{h.ClusterName, h.BrokerName}, h.AppliedBrokerID, h.RegisterCheckCode}, &read{session: id, frame: f, kind: f.Head.Code})
}

func (c *Controller) nextIDRequest(now node.Now, id node.SessionID, f *wire.Frame) {
	var h wire.NextBrokerIDRequest
	if !c.decode(id, f, &h) || !c.checkNames(id, f, h.ClusterName, h.BrokerName) {
		return
	}
	c.queueRead(now, &read{session: id, frame: f, kind: f.Head.Code, key: Key{h.ClusterName, h.BrokerName}})
}

func (c *Controller) answerNextID(r *read) {
	next := ha.BrokerID(1)
	if rec := c.state.group(r.key); rec != nil {
		next = rec.NextID
	}
	c.reply(r.session, r.frame, answer{ext: wire.EncodeExt(wire.NextBrokerIDResponse{
		ClusterName: r.key.Cluster, BrokerName: r.key.Group, NextBrokerID: next,
	})})
}

func (c *Controller) registerRequest(now node.Now, id node.SessionID, f *wire.Frame) {
	var h wire.RegisterToControllerRequest
	if !c.decode(id, f, &h) || !c.checkNames(id, f, h.ClusterName, h.BrokerName, h.BrokerAddress) {
		return
	}
	if len(h.HAAddress) > maxText/2 || len(h.Store) > maxText/2 {
		c.refuse(id, f, wire.CodeInvalidRequest, "request %d: store id or replication address is too long", f.Head.Code)
		return
	}
	k := Key{h.ClusterName, h.BrokerName}
	cmd := &register{
		key: k, id: h.BrokerID, addr: h.BrokerAddress, haAddr: h.HAAddress, priority: h.ElectionPriority,
		report: reportOf(&h.ReplicaReport), unknownClaim: c.o.ElectUnknownReadiness,
	}
	if rec := c.state.group(k); rec != nil {
		if m := rec.member(h.BrokerID); m != nil {
			o := c.registeredLife(k, m)
			cmd.alive = o != nil && o.closedAt == 0 && !c.silent(now.Mono, k, m)
		}
	}
	if o := c.seen[memberKey{k, h.BrokerID}]; o != nil && h.Store != "" && o.life.Store == h.Store && o.life.Boot < h.Boot {
		cmd.heard = o.report.end
	}
	c.propose(now, cmd, &read{session: id, frame: f, kind: f.Head.Code, key: k, at: now.Mono})
}

func (c *Controller) replicaInfoRequest(now node.Now, id node.SessionID, f *wire.Frame) {
	var h wire.ReplicaInfoRequest
	if !c.decode(id, f, &h) || !c.checkNames(id, f, h.BrokerName) {
		return
	}
	c.queueRead(now, &read{session: id, frame: f, kind: f.Head.Code, key: Key{h.ClusterName, h.BrokerName}})
}

func (c *Controller) answerReplicaInfo(r *read) {
	k, err := c.state.resolve(r.key)
	rec := c.state.group(k)
	if err != nil {
		c.refuse(r.session, r.frame, wire.CodeInvalidRequest, "%v", err)
		return
	}
	if rec == nil {
		c.refuse(r.session, r.frame, wire.CodeBrokerMetadataNotExist, "broker group %q is unknown", r.key.Group)
		return
	}
	h := wire.ReplicaInfoResponse{MasterBrokerID: rec.Master, MasterEpoch: rec.Epoch, MasterView: c.view(rec)}
	if m := rec.member(rec.Master); m != nil {
		h.MasterAddress = m.Addr
	}
	c.reply(r.session, r.frame, answer{ext: wire.EncodeExt(h), body: setBody(rec)})
}

func (c *Controller) alterRequest(now node.Now, id node.SessionID, f *wire.Frame) {
	var h wire.AlterSyncStateSetRequest
	if !c.decode(id, f, &h) || !c.checkNames(id, f, h.BrokerName) {
		return
	}
	var b wire.SyncStateSetBody
	if err := wire.UnmarshalBody(f.Body, &b); err != nil {
		c.refuse(id, f, wire.CodeInvalidRequest, "request %d: %v", f.Head.Code, err)
		return
	}
	k, err := c.state.resolve(Key{h.ClusterName, h.BrokerName})
	if err != nil {
		c.refuse(id, f, wire.CodeInvalidRequest, "%v", err)
		return
	}
	set := ha.NewIDs(b.SyncStateSet...)
	if len(set) > maxMembers || len(h.Members) > maxMembers || h.Floor < 0 || h.MinInSync < 0 {
		c.refuse(id, f, wire.CodeInvalidRequest, "request %d: set of %d, floor %d, minInSyncReplicas %d", f.Head.Code, len(set), h.Floor, h.MinInSync)
		return
	}
	cmd := &alter{
		key: k, master: h.MasterBrokerID, store: h.Store, boot: h.Boot, epoch: h.MasterEpoch, base: b.SyncStateSetEpoch,
		set: set, members: h.Members, floor: h.Floor, minInSync: h.MinInSync,
	}
	if rec := c.state.group(k); rec != nil {
		cmd.alive = c.aliveIDs(now.Mono, rec)
	}
	c.propose(now, cmd, &read{session: id, frame: f, kind: f.Head.Code, key: k})
}
