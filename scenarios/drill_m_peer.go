package scenarios

import (
	"fmt"
	"strings"
	"time"

	"lockstep/checker"
	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/internal/prng"
	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/sim"
	"lockstep/storage"
)

var _ = register(forgedAck, equalEpoch)

// forger is a node that nobody configured: it dials brokers and says what no honest
// peer would.
type forger struct {
	link    wire.Link
	targets []string
	hold    bool // a session is kept until the other side ends it
	greet   func() []wire.Frame
	react   func(f *wire.Frame) []wire.Frame // nil: answers are not looked at

	dials   uint64
	session node.SessionID
	next    node.Time // next dial
	now     node.Time
	out     node.Effects
}

// forgeEvery is the time between two tries of a forger.
const forgeEvery = 200 * time.Millisecond

var _ node.Machine = (*forger)(nil)

func (g *forger) say(frames []wire.Frame) {
	for _, f := range frames {
		g.out.Send(g.session, f)
	}
}

// SessionUp greets.
func (g *forger) SessionUp(now node.Now, s node.SessionID, _ node.Peer) {
	if g.now = now.Mono; s == g.session {
		g.say(g.greet())
	}
}

// Receive answers what the target says.
func (g *forger) Receive(now node.Now, s node.SessionID, f *wire.Frame) {
	if g.now = now.Mono; s == g.session && g.react != nil {
		g.say(g.react(f))
	}
}

// SessionDown makes it try again.
func (g *forger) SessionDown(now node.Now, s node.SessionID, _ string) {
	if g.now = now.Mono; s == g.session {
		g.session, g.next = 0, now.Mono.Add(forgeEvery)
	}
}

// DiskDone never happens.
func (g *forger) DiskDone(node.Now, storage.Result) {}

// Stop ends it.
func (g *forger) Stop(node.Now) { g.out.Exit = &node.Exit{Code: node.ExitClean, Reason: "stopped"} }

// Settle dials the targets in turn.
func (g *forger) Settle(now node.Now, fx *node.Effects) {
	g.now = now.Mono
	if g.now >= g.next && (g.session == 0 || !g.hold) {
		if g.session != 0 {
			g.out.Closes = append(g.out.Closes, g.session)
		}
		g.session, g.next = node.Dialled|node.SessionID(g.dials+1), g.now.Add(forgeEvery)
		g.out.Dials = append(g.out.Dials, node.Dial{Session: g.session, Link: g.link, Addr: g.targets[int(g.dials)%len(g.targets)]})
		g.dials++
	}
	fx.Sends, fx.Dials, fx.Closes = append(fx.Sends, g.out.Sends...), append(fx.Dials, g.out.Dials...), append(fx.Closes, g.out.Closes...)
	if g.out.Exit != nil {
		fx.Exit = g.out.Exit
	}
	g.out.Reset()
}

// Deadline is the next try.
func (g *forger) Deadline() node.Time {
	if g.hold && g.session != 0 {
		return node.Never
	}
	return g.next
}

// Listeners: nobody dials it.
func (g *forger) Listeners() []node.Listener { return nil }

// CheckInvariants has nothing to assert.
func (g *forger) CheckInvariants() {}

// Conditions are none.
func (g *forger) Conditions() []node.Condition { return nil }

// Gauges are none.
func (g *forger) Gauges(func(string, float64)) {}

// forgerNode is the forger's name.
const forgerNode = "forger"

// forge adds a forger that is started by release.
func (r *Run) forge(make func() *forger) {
	r.add(sim.NodeSpec{Name: forgerNode, Late: true, Boot: func(sim.Life) (node.Machine, sim.Doer, error) { return make(), nil, nil }})
}

// release lets the forger run for a while.
func (r *Run) release(lasts time.Duration) {
	r.inject(&sim.Fault{Kind: sim.Start, Nodes: []string{forgerNode}})
	r.after(lasts, func() { r.inject(&sim.Fault{Kind: sim.Stop, Nodes: []string{forgerNode}}) })
}

// forgedAck lets a stranger take a dead slave's place.
var forgedAck = &Drill{
	ID: "M-forged-ack", Name: "forged-ack",
	Story: "A slave dies and a stranger takes its name: it greets the master as this very life of the slave, with an empty log, and acknowledges more than it was ever sent. The master cuts it off, and nothing is acknowledged that the set does not hold (P8).",
	Pin: func(rnd *prng.Source, s *Setup) {
		trio(rnd, s, 2)
		s.NotCatchup, s.HeartbeatTimeout = 8*time.Second, 10*time.Second
	},
	Begin: func(r *Run) {
		r.forge(r.fakeSlave)
		r.stage("forged-ack", func(f *sim.Fault) {
			r.victim = r.idOf(r.one("@slave/a/0"))
			r.strike(sim.CrashExit, time.Duration(f.For), r.one("@slave/a/0"))
			r.release(time.Duration(f.For) - time.Second)
		})
	},
	Faults: func(c *Cast) []*sim.Fault {
		return []*sim.Fault{Stage("forged-ack", c.Between(2*time.Second, 5*time.Second), c.Drawn(6*time.Second, 14*time.Second), 0)}
	},
	Chaos: int64(40 * time.Second),
	Least: checker.Activity{Before: 20, After: 20},
	Assertions: []Assertion{
		{"the forger is cut off", "the master ends the session on which more is acknowledged than was sent", func(r *Run) string {
			if r.Judge.Count(event.FrameRejected, func(e event.Event) bool { return strings.HasPrefix(e.Text, "acknowledgement of ") }) == 0 {
				return "no acknowledgement was rejected"
			}
			return ""
		}},
		{"nothing on its word", "while the slave is down nothing is acknowledged with it in the set", func(r *Run) string {
			shrunk, ok := r.shrunk()
			if until := r.World.Now(); r.Judge.FirstFault > 0 {
				if ok {
					until = shrunk.At
				}
				if back, found := r.Judge.First(event.Started, func(e event.Event) bool { return e.At > r.Judge.FirstFault && r.idOf(e.Node) == r.victim }); found {
					until = min(until, back.At)
				}
				if n := r.acksBetween(GroupName(0), r.Judge.FirstFault+int64(200*time.Millisecond), until-1); n > 0 {
					return fmt.Sprintf("%d sends were acknowledged", n)
				}
			}
			return ""
		}},
		noLoss,
	},
}

// fakeSlave claims to be the victim's registered life.
func (r *Run) fakeSlave() *forger {
	m := r.one("@master/a")
	rec := r.Truth.refresh(GroupName(0))
	self := ha.Incarnation{}
	for i := range rec.Members {
		if rec.Members[i].ID == r.victim {
			self = rec.Members[i].Incarnation()
		}
	}
	o := r.Setup.BrokerOptions(0, forgerNode)
	say := func(h wire.Replica) []wire.Frame {
		h.Term, h.Epoch = rec.Epoch, rec.Epoch
		return []wire.Frame{{Link: wire.Replication, Replica: &h}}
	}
	return &forger{link: wire.Replication, targets: []string{addr(m, haPort)}, hold: true,
		greet: func() []wire.Frame {
			return say(wire.Replica{Kind: wire.ReplicaHello, Cluster: ClusterName, Group: GroupName(0), Self: self, Nonce: 1,
				SegmentBytes: r.Setup.SegmentBytes, PropCRC: o.EnabledAppendPropCRC, Class: r.Setup.Class})
		},
		react: func(f *wire.Frame) []wire.Frame {
			switch f.Replica.Kind {
			case wire.ReplicaWelcome:
				return say(wire.Replica{Kind: wire.ReplicaStart})
			case wire.ReplicaAppend:
				return say(wire.Replica{Kind: wire.ReplicaAck, Offset: 1 << 40, Class: r.Setup.Class})
			}
			return nil
		}}
}

// equalEpoch sends brokers a notice of the epoch in force with another master.
var equalEpoch = &Drill{
	ID: "M-equal-epoch", Name: "equal-epoch",
	Story: "Notices reach every broker that name another master for the epoch in force, with a newer set epoch. An epoch has one master: they are ignored, roles move with a higher epoch alone.",
	Pin: func(rnd *prng.Source, s *Setup) {
		trio(rnd, s, 3)
		s.HeartbeatTimeout = 10 * time.Second
	},
	Begin: func(r *Run) {
		r.forge(r.fakeNotices)
		r.stage("equal-epoch", func(f *sim.Fault) {
			r.victim = r.idOf(r.one("@slave/a/0"))
			r.note("forged")
			r.release(time.Duration(f.For))
		})
	},
	Faults: func(c *Cast) []*sim.Fault {
		return []*sim.Fault{Stage("equal-epoch", c.Between(2*time.Second, 5*time.Second), c.Drawn(5*time.Second, 10*time.Second), 0)}
	},
	Chaos: int64(30 * time.Second),
	Least: checker.Activity{Before: 20, After: 20},
	Assertions: []Assertion{
		{"ignored and reported", "brokers say that they ignored a second master of one epoch", func(r *Run) string {
			if r.Judge.Count(event.RequestRefused, func(e event.Event) bool { return isBroker(e.Node) && e.Broker == r.victim && e.At > r.stamp("forged") }) == 0 {
				return "no broker ignored a notice"
			}
			return ""
		}},
		{"no role moves", "nobody is demoted or elected", func(r *Run) string {
			for i := range r.Judge.Events {
				if e := &r.Judge.Events[i]; e.At > r.stamp("forged") && e.At < r.Healed && (e.Kind == event.Demoted || e.Kind == event.Elected) {
					return fmt.Sprintf("%s %s at %s", e.Kind, e.Text, at(e.At))
				}
			}
			return ""
		}},
		noLoss,
	},
}

// fakeNotices names the victim master of the epoch in force.
func (r *Run) fakeNotices() *forger {
	rec := r.Truth.refresh(GroupName(0))
	var targets []string
	for _, n := range r.resolve("@brokers/a") {
		targets = append(targets, addr(n, brokerPort))
	}
	n := r.Truth.Node(GroupName(0), r.victim)
	h := wire.RoleChanged{MasterAddress: addr(n, brokerPort), MasterEpoch: rec.Epoch, SyncStateSetEpoch: rec.SetEpoch + 1, MasterBrokerID: r.victim, BrokerName: GroupName(0)}
	h.HAAddress = addr(n, haPort)
	for i := range rec.Members {
		if m := &rec.Members[i]; m.ID == r.victim {
			h.Store, h.Boot = m.Store, m.Boot
		}
	}
	body := wire.MarshalBody(wire.SyncStateSetBody{SyncStateSet: ha.NewIDs(r.victim), SyncStateSetEpoch: rec.SetEpoch + 1})
	return &forger{link: wire.Remoting, targets: targets, greet: func() []wire.Frame {
		f := wire.NewRequest(wire.ReqRoleChanged, 1, h, body)
		f.Head.Flag = wire.FlagOneway
		return []wire.Frame{f}
	}}
}
