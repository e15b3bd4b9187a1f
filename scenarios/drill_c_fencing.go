package scenarios

import (
	"fmt"
	"slices"
	"time"

	"lockstep/checker"
	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/internal/prng"
	"lockstep/node/controller"
	"lockstep/node/wire"
	"lockstep/sim"
)

var _ = register(alterFencing)

// alterFencing asks for changes of the set in every wrong combination.
var alterFencing = &Drill{
	ID: "C7", Name: "alter-fencing",
	Story: "AlterSyncStateSet arrives from a stale master, with a stale or future epoch or set epoch, naming a dead, an unknown or another life of a member, or a set without its master, in every combination; and a true master's own proposal is answered after it was deposed. Only the exact request commits, and a late answer moves nobody.",
	Pin: func(rnd *prng.Source, s *Setup) {
		s.Groups, s.Replicas, s.Controllers, s.Throttle = 1, 3, 3, 0
		s.Min = pick(rnd, 1, 2)
		s.HeartbeatTimeout = pick(rnd, 3*time.Second, 5*time.Second)
	},
	Begin: func(r *Run) {
		r.post = r.addPostman()
		r.stage("forge-alters", r.forgeAlters)
		r.stage("late-answer", r.lateAnswer)
	},
	Faults: func(c *Cast) []*sim.Fault {
		return []*sim.Fault{
			Stage("forge-alters", At(time.Second), 0, c.Rnd.Between(1, 1<<30)),
			Strike(sim.CrashExit, c.Between(8*time.Second, 10*time.Second), c.Drawn(10*time.Second, 14*time.Second), "@slave/a/0"),
			Stage("late-answer", At(36*time.Second), c.Drawn(28*time.Second, 32*time.Second), 0),
		}
	},
	Chaos: int64(80 * time.Second),
	Least: checker.Activity{Before: 20, After: 20, Marks: []string{"wrong request refused", "right request committed", "deposed before the answer"}},
	Assertions: []Assertion{
		{"only the exact request commits", "every request with anything wrong is refused, whatever else is right", func(r *Run) string { return r.forged.accepted }},
		{"authority is compared first", "a stale master, epoch or set epoch is told so, whatever set it asks for", func(r *Run) string { return r.forged.order }},
		{"dead, unknown and other lives are refused", "no committed set names a broker that was unknown, dead or another life when it was proposed", func(r *Run) string { return r.forged.member }},
		{"the right request is taken", "re-affirming the set by exact authority raises the set epoch by one", func(r *Run) string { return r.forged.refused }},
		{"refused requests change nothing", "every committed set was proposed by a master, or is the postman's exact request", func(r *Run) string {
			for i := range r.Judge.Events {
				e := &r.Judge.Events[i]
				if e.Kind != event.SetAltered {
					continue
				}
				p, ok := r.Judge.First(event.AlterProposed, func(p event.Event) bool {
					return p.Epoch == e.Epoch && p.SetEpoch == e.SetEpoch-1 && p.Set.Equal(e.Set) && p.At <= e.At
				})
				_ = p
				if !ok && !slices.Contains(r.forged.sent, alterName(e.Epoch, e.SetEpoch-1, e.Set)) {
					return fmt.Sprintf("set %v with set epoch %d was committed at %s and nobody with authority proposed it", e.Set, e.SetEpoch, at(e.At))
				}
			}
			return ""
		}},
		{"a late answer after demotion moves nobody", "once a master is deposed it adopts no set of its old epoch", func(r *Run) string {
			gone := map[string]ha.MasterEpoch{}
			for i := range r.Judge.Events {
				e := &r.Judge.Events[i]
				switch e.Kind {
				case event.Demoted:
					gone[e.Node] = max(gone[e.Node], e.Epoch)
				case event.Started:
					delete(gone, e.Node)
				case event.SetAdopted:
					if e.Epoch <= gone[e.Node] {
						return fmt.Sprintf("%s adopted set epoch %d of epoch %d at %s, after it was deposed", e.Node, e.SetEpoch, e.Epoch, at(e.At))
					}
				}
			}
			return ""
		}},
		noLoss,
	},
}

// forged is what the forged requests came to.
type forged struct {
	accepted, order, member, refused string
	sent                             []string // exact requests that may commit
}

func alterName(epoch ha.MasterEpoch, base ha.SetEpoch, set ha.IDs) string {
	return fmt.Sprintf("%d/%d/%v", epoch, base, set)
}

// forgeAlters posts a request with drawn faults in it every fraction of a second.
func (r *Run) forgeAlters(f *sim.Fault) {
	rnd := prng.New(prng.Hash(uint64(f.Arg)))
	var tick func()
	tick = func() {
		if r.Healed > 0 {
			return
		}
		if rec, ok := r.newestRecord(); ok && rec.Elected() && !rec.Lost {
			r.forgeAlter(rnd, &rec)
		}
		r.after(time.Duration(rnd.Between(int64(50*time.Millisecond), int64(300*time.Millisecond))), tick)
	}
	tick()
}

// newestRecord is the record of group a as the controller holds it that applied most.
func (r *Run) newestRecord() (controller.Record, bool) {
	c, _ := r.mostApplied()
	if c == nil {
		return controller.Record{}, false
	}
	return c.Record(GroupName(0))
}

// wrong is what is wrong with a forged request.
type wrong struct {
	master, epoch, set, life, member bool
	what                             string
}

// forgeAlter posts one request to every controller: the leader answers.
func (r *Run) forgeAlter(rnd *prng.Source, rec *controller.Record) {
	h := wire.AlterSyncStateSetRequest{BrokerName: rec.Group, ClusterName: rec.Cluster, MasterBrokerID: rec.Master, MasterEpoch: rec.Epoch,
		Identity: wire.Identity{Store: rec.MasterAt.Store, Boot: rec.MasterAt.Boot}, Floor: 0, MinInSync: int32(r.Setup.Min)}
	body := wire.SyncStateSetBody{SyncStateSet: slices.Clone(rec.Set), SyncStateSetEpoch: rec.SetEpoch}
	var x wrong
	spoil := func(flag *bool, what string) { *flag, x.what = true, x.what+" "+what }
	if rnd.Chance(1, 3) {
		spoil(&x.master, "another master")
		h.MasterBrokerID = h.MasterBrokerID%3 + 1
		body.SyncStateSet = body.SyncStateSet.With(h.MasterBrokerID)
	}
	if rnd.Chance(1, 3) {
		spoil(&x.epoch, "another epoch")
		h.MasterEpoch = max(1, h.MasterEpoch+ha.MasterEpoch(rnd.Between(-1, 1)))
		if h.MasterEpoch == rec.Epoch {
			h.MasterEpoch++
		}
	}
	if rnd.Chance(1, 3) {
		spoil(&x.set, "another set epoch")
		body.SyncStateSetEpoch += ha.SetEpoch(pick(rnd, int64(-1), int64(50)))
	}
	if rnd.Chance(1, 4) {
		spoil(&x.life, "another life of the master")
		h.Boot++
	}
	r.spoilMember(rnd, rec, &body, spoil, &x)
	h.Members = r.livesOf(rec, body.SyncStateSet, x.what)
	if x.what == "" {
		if rnd.Chance(9, 10) {
			return // the right request often moves the set epoch under the master's feet
		}
		r.forged.sent = append(r.forged.sent, alterName(rec.Epoch, rec.SetEpoch, rec.Set))
	}
	before := *rec
	for i := range r.Setup.Controllers {
		r.post.post(addr(ControllerNode(i), controllerPort), wire.NewRequest(wire.ReqAlterSyncStateSet, 0, h, wire.MarshalBody(body)), func(f *wire.Frame) {
			r.judgeAlter(f, &before, &x)
		})
	}
}

// spoilMember names a broker that may not be in the set.
func (r *Run) spoilMember(rnd *prng.Source, rec *controller.Record, body *wire.SyncStateSetBody, spoil func(*bool, string), x *wrong) {
	switch rnd.Intn(8) {
	case 0:
		spoil(&x.member, "an unknown member")
		body.SyncStateSet = body.SyncStateSet.With(77)
	case 1:
		for i := range r.Setup.Replicas {
			n := BrokerNode(0, i)
			if id := r.idOf(n); id > 0 && !rec.Set.Has(id) && r.brokerAt(n) == nil && r.downFor(n) > int64(r.Setup.HeartbeatTimeout+r.Setup.ScanInterval+time.Second) {
				spoil(&x.member, "a dead member")
				body.SyncStateSet = body.SyncStateSet.With(id)
				return
			}
		}
	case 2:
		if len(rec.Set) > 1 {
			spoil(&x.member, "another life of a member")
		}
	case 3:
		spoil(&x.member, "a set without its master")
		body.SyncStateSet = body.SyncStateSet.Without(rec.Master)
	}
}

// downFor is how long a node has been down.
func (r *Run) downFor(node string) int64 {
	for i := len(r.Judge.Lives) - 1; i >= 0; i-- {
		if l := r.Judge.Lives[i]; l.Node == node {
			if l.Phase == sim.Down {
				return r.World.Now() - r.Judge.LivesAt[i]
			}
			return 0
		}
	}
	return 0
}

// livesOf names the registered lives of a set, one of them wrongly if asked to.
func (r *Run) livesOf(rec *controller.Record, set ha.IDs, what string) (out wire.Members) {
	spoilt := false
	for _, id := range set {
		for i := range rec.Members {
			if m := &rec.Members[i]; m.ID == id {
				life := m.Incarnation()
				if containsWord(what, "another life of a member") && id != rec.Master && !spoilt {
					life.Boot++
					spoilt = true
				}
				out = append(out, life)
			}
		}
	}
	return out
}

func containsWord(text, part string) bool {
	for i := 0; i+len(part) <= len(text); i++ {
		if text[i:i+len(part)] == part {
			return true
		}
	}
	return false
}

// judgeAlter compares an answer with what was wrong with its request.
func (r *Run) judgeAlter(f *wire.Frame, before *controller.Record, x *wrong) {
	code := f.Head.Code
	now, ok := r.newestRecord()
	moved := !ok || now.Epoch != before.Epoch || now.Lost || now.SetEpoch != before.SetEpoch && x.what != "" || now.MasterAt != before.MasterAt
	set := func(to *string, format string, args ...any) {
		if *to == "" {
			*to = fmt.Sprintf("request with%s at epoch %d set epoch %d: ", x.what, before.Epoch, before.SetEpoch) + fmt.Sprintf(format, args...)
		}
	}
	switch {
	case code == wire.CodeNotLeader || code == wire.CodeSystemBusy:
	case x.what == "" && code == wire.CodeSuccess:
		r.mark("right request committed")
		var h wire.AlterSyncStateSetResponse
		if err := f.Header(&h); err != nil || h.NewSyncStateSetEpoch != before.SetEpoch+1 {
			set(&r.forged.refused, "answered with set epoch %d, %v", h.NewSyncStateSetEpoch, err)
		}
	case x.what == "":
		if !moved && now.SetEpoch == before.SetEpoch && code != wire.CodeBrokerNotAlive {
			set(&r.forged.refused, "refused with %d: %s", code, f.Head.Remark)
		}
	case code == wire.CodeSuccess && !moved:
		if x.member && !x.master && !x.epoch && !x.set && !x.life {
			set(&r.forged.member, "it was accepted")
		}
		set(&r.forged.accepted, "it was accepted")
	case code == wire.CodeSuccess:
		set(&r.forged.accepted, "it was accepted while the record moved")
	default:
		r.mark("wrong request refused")
		if moved || x.member {
			return
		}
		want := wire.CodeFencedSetEpoch
		switch {
		case x.master || x.life:
			want = wire.CodeInvalidMaster
		case x.epoch:
			want = wire.CodeFencedMasterEpoch
		}
		if code != want {
			set(&r.forged.order, "answered with %d, want %d: %s", code, want, f.Head.Remark)
		}
	}
}

// lateAnswer deposes a master while its proposal has no answer: the leading
// controller stops in the middle, another deposes the master, the first goes on.
func (r *Run) lateAnswer(f *sim.Fault) {
	m, b, leader := r.one("@master/a"), r.one("@slave/a/0"), r.one("@leader")
	rest := others(r.resolve("@controllers"), leader)
	r.on(event.AlterProposed, func(e event.Event) bool { return e.Node == m }, func(e event.Event) {
		epoch := e.Epoch
		r.strike(sim.Pause, time.Duration(f.For), leader)
		r.sever(sim.Cut, 20*time.Second, []string{m}, rest)
		r.on(event.Demoted, func(e event.Event) bool { return e.Node == m && e.Epoch == epoch }, func(event.Event) {
			r.mark("deposed before the answer")
		})
	})
	r.strike(sim.CrashExit, 25*time.Second, b)
}
