package broker

import (
	"testing"

	"lockstep/node"
	"lockstep/node/wire"
)

// TestAnswerOfAnEarlierStep: the answer to a request of a step that was left meanwhile
// is not taken for one to the present step.
func TestAnswerOfAnEarlierStep(t *testing.T) {
	w := started(t, 2, nil)
	m := w.master()
	b := m.b
	m.fact(m.life, func(now node.Now) {
		b.begin(now)
		b.reg.step, b.reg.nextStep = stepElect, now.Mono
		b.settleStep()
		if !b.reg.main.open {
			t.Fatal("no nomination is under way")
		}
		b.again() // a heartbeat's answer: register
		b.reg.registered = false
		f := wire.NewResponse(&wire.Head{Code: wire.ReqElectMaster, Opaque: b.reg.main.opaque}, wire.CodeSuccess,
			wire.ElectMasterResponse{MasterBrokerID: b.id.Broker, MasterEpoch: b.highest, MasterAddress: b.o.Address, SyncStateSetEpoch: b.view.setEpoch},
			wire.MarshalBody(wire.ElectMasterBody{SyncStateSet: b.view.set}))
		b.Receive(now, b.reg.main.session, &f)
		if b.reg.registered || b.reg.step != stepRegister {
			t.Errorf("the answer to a nomination registered this broker: step %d", b.reg.step)
		}
	})
}

// lookupOf is a controller's answer to "who leads?".
func lookupOf(b *Broker, c *controllerConn, h wire.ControllerMetadata) *wire.Frame {
	c.lookup.begin(b.nextOpaque(), c.session, b.now.Mono)
	f := wire.NewResponse(&wire.Head{Code: wire.ReqGetControllerMetadata, Opaque: c.lookup.opaque}, wire.CodeSuccess, h, nil)
	return &f
}

// TestLeaderOfALowerTerm: controllers that lost their data count their terms from the
// beginning. Their leader is followed as soon as the believed one is gone or denies; one
// that merely lags behind is not believed before (P17).
func TestLeaderOfALowerTerm(t *testing.T) {
	w := started(t, 2, nil)
	m := w.master()
	b := m.b
	m.fact(m.life, func(now node.Now) {
		b.begin(now)
		c := b.reg.conns[0]
		other := &controllerConn{uplink: uplink{addr: "c2:1", session: node.Dialled | 999, up: true}, listed: true}
		b.reg.conns = append(b.reg.conns, other)
		b.sessions[other.session] = sessionController
		b.Receive(now, c.session, lookupOf(b, c, wire.ControllerMetadata{IsLeader: true, LeaderAddress: c.addr, Term: 40}))
		ask := func(want string) {
			t.Helper()
			b.Receive(now, other.session, lookupOf(b, other, wire.ControllerMetadata{IsLeader: true, LeaderAddress: "c2:1", Term: 2}))
			if b.reg.leader != want {
				t.Errorf("the leader is %s, want %s", b.reg.leader, want)
			}
		}
		ask(c.addr)
		b.reg.poll.begin(b.nextOpaque(), c.session, now.Mono)
		denial := wire.NewResponse(&wire.Head{Code: wire.ReqGetReplicaInfo, Opaque: b.reg.poll.opaque}, wire.CodeNotLeader, nil, nil)
		b.Receive(now, c.session, &denial)
		ask("c2:1")
		b.Receive(now, c.session, lookupOf(b, c, wire.ControllerMetadata{IsLeader: true, LeaderAddress: c.addr, Term: 41}))
		other.up = true
		c.up = false // its process is gone
		ask("c2:1")
		c.up = true
	})
}

// TestUnreadableAlterAnswer: a success that does not read is no reason to ask again at
// once, as often as the wire allows.
func TestUnreadableAlterAnswer(t *testing.T) {
	w := started(t, 2, nil)
	m := w.master()
	b := m.b
	m.fact(m.life, func(now node.Now) {
		b.begin(now)
		p := b.proposalFor(b.set.committed, b.set.proven)
		p.open++
		p.call.begin(b.nextOpaque(), b.reg.leaderSession(), now.Mono)
		f := wire.NewResponse(&wire.Head{Code: wire.ReqAlterSyncStateSet, Opaque: p.call.opaque}, wire.CodeSuccess, nil, []byte("{"))
		b.Receive(now, p.call.session, &f)
	})
	if len(b.set.proposals) != 1 || b.set.proposals[0].call.open {
		t.Errorf("proposals %+v: asked again at once, or taken for resolved", b.set.proposals)
	}
}
