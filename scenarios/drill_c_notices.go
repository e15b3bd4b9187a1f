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
	"lockstep/node/broker"
	"lockstep/node/wire"
	"lockstep/sim"
)

var _ = register(roleNotices)

// roleNotices makes the notices of elections, or the polls, unreliable.
var roleNotices = &Drill{
	ID: "C6", Name: "role-notices",
	Story: "Brokers learn of elections by notices (1008) and by polls. In a third of the runs every notice is lost, in a third nobody polls; in the rest all notices come again, late, twice and in another order, with forgeries of an older epoch and of the same epoch with another master. Either way alone converges, and nothing is applied twice, backwards or in part.",
	Pin: func(rnd *prng.Source, s *Setup) {
		s.Groups, s.Replicas, s.Controllers, s.Throttle = 1, 3, pick(rnd, 1, 3), 0
		s.Min = pick(rnd, 1, 2)
	},
	Broker: func(r *Run, _ sim.Life, o *broker.Options) {
		if r.planned("no-polls") {
			o.SyncBrokerMetadataPeriod = 10 * time.Minute
		}
	},
	Begin: func(r *Run) {
		r.post = r.addPostman()
		r.stage("no-polls", func(*sim.Fault) { r.mark("way lost") })
		r.stage("no-notices", func(f *sim.Fault) {
			r.mark("way lost")
			r.inject(&sim.Fault{Kind: sim.Refuse, Shape: sim.Away, Sides: [][]string{r.resolve("@controllers"), r.resolve("@brokers/a")}, For: f.For})
		})
		r.stage("again", r.repeatNotices)
	},
	Faults: func(c *Cast) []*sim.Fault {
		way := pick(c.Rnd, "no-polls", "no-notices", "again")
		crash := pick(c.Rnd, sim.CrashExit, sim.CrashSilent)
		return []*sim.Fault{
			Stage(way, sim.Trigger{At: 1}, time.Duration(Ready)+80*time.Second, c.Rnd.Between(1, 1000)),
			Strike(crash, c.Between(2*time.Second, 5*time.Second), c.Drawn(10*time.Second, 14*time.Second), "@master/a"),
			Strike(crash, c.Between(38*time.Second, 42*time.Second), c.Drawn(10*time.Second, 14*time.Second), "@master/a"),
		}
	},
	Chaos: int64(80 * time.Second),
	Least: checker.Activity{Before: 0, After: 20, Marks: []string{"way lost"}},
	Assertions: []Assertion{
		{"converges by polls alone", "without notices every living broker takes up a new epoch within a poll period and a dial", func(r *Run) string {
			if !r.planned("no-notices") {
				return moot
			}
			return r.slowToApply(broker.DefaultOptions().SyncBrokerMetadataPeriod + 4*time.Second)
		}},
		{"converges by notices alone", "without polls every living broker takes up a new epoch within the first repetitions of its notice", func(r *Run) string {
			if !r.planned("no-polls") {
				return moot
			}
			return r.slowToApply(5 * time.Second)
		}},
		{"late, repeated and reordered notices change nothing", "no role, set or epoch moves because of a copy: every demotion belongs to an election", func(r *Run) string {
			if !r.planned("again") {
				return moot
			}
			for i := range r.Judge.Events {
				e := &r.Judge.Events[i]
				if e.Kind != event.Demoted {
					continue
				}
				_, elected := r.Judge.First(event.Elected, func(x event.Event) bool { return x.Epoch > e.Epoch && x.At <= e.At })
				if !elected && strings.HasPrefix(e.Text, "epoch ") {
					return fmt.Sprintf("%s gave up epoch %d at %s: %s", e.Node, e.Epoch, at(e.At), e.Text)
				}
			}
			return ""
		}},
		{"equal epoch with another master is refused", "a notice that names another master for the epoch in force moves nobody", func(r *Run) string {
			if r.Judge.Marks["another master forged"] == 0 {
				return moot
			}
			for _, f := range r.Judge.Invariants.Findings() {
				if f.Name == "two-masters" || f.Name == "role-epoch-down" {
					return f.Text
				}
			}
			return ""
		}},
		{"nothing applied in part", "master, epoch and set epoch that a broker applies were committed together", func(r *Run) string {
			for i := range r.Judge.Events {
				e := &r.Judge.Events[i]
				if e.Kind != event.RoleApplied || e.SetEpoch == 0 {
					continue
				}
				if !r.committedPair(e.Epoch, e.SetEpoch) {
					return fmt.Sprintf("%s applied epoch %d with set epoch %d at %s, which were never committed together", e.Node, e.Epoch, e.SetEpoch, at(e.At))
				}
			}
			return ""
		}},
		noLoss,
	},
}

// planned reports whether the plan has a stage.
func (r *Run) planned(stage string) bool {
	for _, f := range r.Plan.Faults {
		if f.Text == stagePrefix+stage {
			return true
		}
	}
	return false
}

// committedPair reports whether the record of group a ever held both at once.
func (r *Run) committedPair(epoch ha.MasterEpoch, set ha.SetEpoch) bool {
	for i := range r.Judge.Roles {
		if c := &r.Judge.Roles[i]; c.Group == GroupName(0) && c.Epoch == int32(epoch) && c.SetEpoch == int32(set) {
			return true
		}
	}
	return false
}

// slowToApply names a broker that ran all the time and took longer to apply a
// committed epoch.
func (r *Run) slowToApply(limit time.Duration) string {
	for i := range r.Judge.Events {
		e := &r.Judge.Events[i]
		if e.Kind != event.Elected || e.At+int64(limit) > r.World.Now() {
			continue
		}
		if next, ok := r.electionAfter(e.At + 1); ok && next.At < e.At+int64(limit) {
			continue
		}
		for b := range r.Setup.Replicas {
			n := BrokerNode(0, b)
			if !r.upThrough(n, e.At-int64(2*time.Second), e.At+int64(limit)) {
				continue
			}
			x, ok := r.Judge.First(event.RoleApplied, func(x event.Event) bool { return x.Node == n && x.Epoch >= e.Epoch })
			if !ok || x.At > e.At+int64(limit) {
				return fmt.Sprintf("epoch %d was elected at %s, %s applied it at %s, at most %v are allowed", e.Epoch, at(e.At), n, at(x.At), limit)
			}
		}
	}
	return ""
}

// upThrough reports whether a node ran during the whole of [from, to].
func (r *Run) upThrough(node string, from, to int64) bool {
	up := false
	for i, l := range r.Judge.Lives {
		t := r.Judge.LivesAt[i]
		if l.Node != node || t > to {
			continue
		}
		if l.Phase == sim.Up {
			up = t <= from
		} else if l.Phase == sim.Down || l.Phase == sim.Refused {
			up = false
		}
	}
	return up
}

// notices catches what controllers tell brokers.
type notices struct {
	sim.Deaf
	r    *Run
	seen []notice
}

type notice struct {
	addr  string
	frame wire.Frame
}

// OnSend keeps every notice with its addressee.
func (n *notices) OnSend(from string, s node.SessionID, f *wire.Frame) {
	if f.Link != wire.Remoting || f.Head.Code != wire.ReqRoleChanged || f.Head.Response() || from == postmanNode {
		return
	}
	if p, ok := n.r.World.Node(from).Peer(s); ok {
		n.seen = append(n.seen, notice{p.Addr, keepFrame(f)})
	}
}

// repeatNotices sends every notice again and again, in drawn order, with forgeries.
func (r *Run) repeatNotices(f *sim.Fault) {
	n := &notices{r: r}
	r.World.Observe(n)
	rnd := prng.New(prng.Hash(uint64(f.Arg)))
	var tick func()
	tick = func() {
		if r.World.Now() > f.When.At+f.For || r.Healed > 0 {
			return
		}
		for range rnd.Between(0, 3) {
			if len(n.seen) == 0 {
				break
			}
			x := n.seen[rnd.Intn(len(n.seen))]
			r.mark("way lost")
			if rnd.Chance(1, 3) { // to somebody it was not meant for
				x.addr = n.seen[rnd.Intn(len(n.seen))].addr
			}
			if rnd.Chance(1, 4) {
				x.frame = r.forgeNotice(rnd, &x.frame)
			}
			for range rnd.Between(1, 2) {
				r.post.post(x.addr, x.frame, nil)
			}
		}
		r.after(time.Duration(rnd.Between(int64(20*time.Millisecond), int64(800*time.Millisecond))), tick)
	}
	tick()
}

// forgeNotice makes a notice say another master for its epoch, or an older epoch.
func (r *Run) forgeNotice(rnd *prng.Source, f *wire.Frame) wire.Frame {
	g := keepFrame(f)
	var h wire.RoleChanged
	if err := f.Header(&h); err != nil {
		return g
	}
	if rnd.Chance(1, 2) {
		h.MasterBrokerID = h.MasterBrokerID%3 + 1
		r.mark("another master forged")
	} else {
		h.MasterEpoch = max(1, h.MasterEpoch-1)
	}
	g.Head.Ext = wire.EncodeExt(h)
	return g
}
