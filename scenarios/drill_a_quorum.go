package scenarios

import (
	"fmt"
	"strings"
	"time"

	"lockstep/checker"
	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/internal/prng"
	"lockstep/node/broker"
	"lockstep/node/wire"
	"lockstep/sim"
)

var _ = register(quorumLoss)

// quorumLoss isolates a majority of the controllers, then breaks a broker.
var quorumLoss = &Drill{
	ID: "A8", Name: "controller-quorum-loss", Real: true,
	Story: "A majority of the controllers dies or is isolated, each by itself; then a master or a slave dies, and an operator asks those that are left to elect; then all heals. Without quorum nobody is elected and no set changes, and the minority says why; with lease off writes go on, those that wait for a dead slave end in unknown, and with required all end by the deadline; afterwards it recovers by itself. Two of five lost is normal service.",
	Pin: func(rnd *prng.Source, s *Setup) {
		s.Controllers, s.Replicas = pick(rnd, 3, 5), 3
		s.Throttle = 0
	},
	Begin: func(r *Run) {
		r.post = r.addPostman()
		r.recordEnds()
		r.stage("ask-minority", r.askMinority)
	},
	Faults: quorumFaults,
	Chaos:  int64(55 * time.Second),
	Least:  checker.Activity{Before: 10, After: 20},
	Assertions: []Assertion{
		{"nothing committed without quorum", "no promotion and no set change while the majority is gone", nothingCommitted},
		{"minority's answer says why", "whoever asks a controller of the minority learns that a quorum is missing", func(r *Run) string {
			return r.eachAnswer(func(a *answered) string {
				if !strings.Contains(a.remark, "quorum") {
					return fmt.Sprintf("%s answers %d without a reason: %q", a.from, a.code, a.remark)
				}
				return ""
			})
		}},
		{"the minority elects nobody", "an operator's election is refused there, and no second master begins", func(r *Run) string {
			from, to, lost := r.quorumGap()
			if e, ok := r.Judge.First(event.PromotionBegun, func(e event.Event) bool { return e.At > from+int64(time.Second) && e.At < to }); ok && lost {
				return fmt.Sprintf("%s begins epoch %d at %s", e.Node, e.Epoch, at(e.At))
			}
			return r.eachAnswer(func(a *answered) string {
				if a.code == wire.CodeSuccess || a.code == wire.CodeMasterStillExist {
					return fmt.Sprintf("%s answers an election with %d %q", a.from, a.code, a.remark)
				}
				return ""
			})
		}},
		{"minority loss is normal service", "two of five lost: a dead master is replaced as ever", func(r *Run) string {
			if _, _, lost := r.quorumGap(); lost || !r.masterStruck() {
				return moot
			}
			if _, ok := r.electedAfterFault(); !ok {
				return "nobody was elected although a quorum was up"
			}
			return ""
		}},
		{"lease off: writes go on", "a healthy master acknowledges through the whole gap", func(r *Run) string {
			from, to, lost := r.quorumGap()
			if !lost || r.Setup.Lease != broker.LeaseOff || r.Setup.Groups < 2 && r.brokerStruck() {
				return moot
			}
			group := GroupName(r.Setup.Groups - 1)
			if r.acksBetween(group, to-int64(10*time.Second), to) == 0 {
				return fmt.Sprintf("nothing acknowledged in the last 10s of a gap of %.0fs", float64(to-from)/1e9)
			}
			return ""
		}},
		{"lease off: all-ack with a dead slave ends in unknown", "a send that waits for a member that died neither succeeds nor fails: nobody can take that member out of the set", unknownWithoutSlave},
		{"required: writes end by the deadline", "nothing is acknowledged after the last grant has run out", func(r *Run) string {
			from, to, lost := r.quorumGap()
			if !lost || r.Setup.Lease != broker.LeaseRequired {
				return moot
			}
			for g := range r.Setup.Groups {
				if n := r.acksBetween(GroupName(g), from+int64(r.Setup.LeaseDuration)+int64(time.Second), to); n > 0 {
					return fmt.Sprintf("%d sends acknowledged after the lease must have ended", n)
				}
			}
			return ""
		}},
		{"recovers by itself", "when the majority is back a leader is elected and every group acknowledges again", func(r *Run) string {
			_, to, lost := r.quorumGap()
			if !lost {
				return moot
			}
			if _, ok := r.Judge.First(event.LeaderChanged, func(e event.Event) bool { return e.At > to && e.Broker > 0 }); !ok {
				return "no controller leads after the gap"
			}
			for g := range r.Setup.Groups {
				if r.acksBetween(GroupName(g), to, r.World.Now()) == 0 {
					return GroupName(g) + " acknowledged nothing after the gap"
				}
			}
			return ""
		}},
	},
}

// quorumFaults takes controllers away, in most runs a majority, with or without their
// leader, and then a broker.
func quorumFaults(c *Cast) []*sim.Fault {
	lose := []string{"@follower/0", pick(c.Rnd, "@leader", "@leader", "@follower/1")}
	if c.Setup.Controllers == 5 && c.Rnd.Chance(2, 3) {
		lose = append(lose, "@follower/2")
	}
	begin, lasts := At(3*time.Second), c.Drawn(35*time.Second, 45*time.Second)
	gone := Strike(pick(c.Rnd, sim.CrashSilent, sim.CrashExit, sim.Pause), begin, lasts, lose...)
	if c.Rnd.Chance(1, 3) {
		gone = Isolate(begin, lasts, lose...)
	}
	faults := []*sim.Fault{gone, Stage("ask-minority", At(9*time.Second), 0, 0)}
	if victim := pick(c.Rnd, "", "@master/a", "@slave/a/0"); victim != "" {
		faults = append(faults, Strike(sim.CrashSilent, At(18*time.Second), lasts, victim))
	}
	return faults
}

// quorumGap is when the controllers had no majority, from the plan.
func (r *Run) quorumGap() (from, to int64, lost bool) {
	f := r.firstFault()
	n := strings.Count(f.Text, "@leader") + strings.Count(f.Text, "@follower/")
	return f.When.At, f.When.At + f.For, n > r.Setup.Controllers/2
}

// nothingCommitted finds a change of a record while no majority was there.
func nothingCommitted(r *Run) string {
	from, to, lost := r.quorumGap()
	if !lost {
		return moot
	}
	for i := range r.Judge.Roles {
		if at := int64(r.Judge.Roles[i].At * 1e9); at > from+int64(time.Second) && at < to {
			return fmt.Sprintf("%s set %s epoch %d committed at %.1fs", r.Judge.Roles[i].Group, r.Judge.Roles[i].Set, r.Judge.Roles[i].Epoch, float64(at)/1e9)
		}
	}
	return ""
}

// struckAt is when the plan hits group a's broker of that role, 0 never.
func (r *Run) struckAt(role string) int64 {
	for _, f := range r.Plan.Faults {
		if strings.HasPrefix(f.Text, actPrefix) && strings.HasSuffix(f.Text, " "+role) {
			return f.When.At
		}
	}
	return 0
}

// brokerStruck reports whether the plan hits a broker.
func (r *Run) brokerStruck() bool {
	return r.struckAt("@master/a") > 0 || r.struckAt("@slave/a/0") > 0
}

// unknownWithoutSlave looks at how sends to the group of the dead slave ended.
func unknownWithoutSlave(r *Run) string {
	_, to, lost := r.quorumGap()
	dead := r.struckAt("@slave/a/0")
	if !lost || dead == 0 || !r.Setup.All || r.Setup.Lease != broker.LeaseOff {
		return moot
	}
	// What it had acknowledged before it died may still be told.
	return r.onlyUnknown(dead+int64(r.Setup.SlaveTimeout+2*time.Second), to)
}

// answered is what a controller of the minority said to an operator.
type answered struct {
	from   string
	at     int64
	code   int32
	remark string
}

// askEvery is how often the operator of A8 asks; askSettled is how long after its
// majority is gone a controller may not know it yet.
const (
	askEvery   = 5 * time.Second
	askSettled = 5 * time.Second
)

// askMinority is the operator who wants a master: for anybody, and for each broker of
// group a in turn, again and again while the majority is gone.
func (r *Run) askMinority(*sim.Fault) {
	_, to, _ := r.quorumGap()
	turn := 0
	var ask func()
	ask = func() {
		if r.World.Now() > to-int64(time.Second) {
			return
		}
		h := wire.ElectMasterRequest{ClusterName: ClusterName, BrokerName: GroupName(0), BrokerID: ha.NoBroker}
		if turn%2 == 1 {
			h.BrokerID, h.DesignateElect = r.idOf(BrokerNode(0, turn/2%r.Setup.Replicas)), true
		}
		turn++
		for i := range r.Setup.Controllers {
			name := ControllerNode(i)
			r.post.post(addr(name, controllerPort), wire.NewRequest(wire.ReqElectMaster, 0, h, nil), func(f *wire.Frame) {
				r.minority = append(r.minority, answered{from: name, at: r.World.Now(), code: f.Head.Code, remark: f.Head.Remark})
			})
		}
		r.after(askEvery, ask)
	}
	if _, _, lost := r.quorumGap(); lost {
		ask()
	}
}

// eachAnswer looks at every answer of the minority.
func (r *Run) eachAnswer(wrong func(a *answered) string) string {
	from, to, lost := r.quorumGap()
	if !lost {
		return moot
	}
	n := 0
	for i := range r.minority {
		a := &r.minority[i]
		if a.at < from+int64(askSettled) || a.at >= to {
			continue
		}
		n++
		if why := wrong(a); why != "" {
			return why + " at " + at(a.at)
		}
	}
	if n == 0 {
		return "no controller of the minority answered"
	}
	return ""
}
