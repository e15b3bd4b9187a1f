package scenarios

import (
	"fmt"
	"time"

	"lockstep/checker"
	"lockstep/internal/event"
	"lockstep/internal/prng"
	"lockstep/sim"
)

var _ = register(lastStanding, idleRejoin, slowCommitAlter)

// lastStanding kills every new master before a slave has joined it.
var lastStanding = &Drill{
	ID: "P-last-standing", Name: "last-standing",
	Story: "The master dies, and its successor before any slave has joined it: the set is {successor}, below the floor. The others hold everything acknowledged and stay electable, so one of them leads, and confirm stood still meanwhile (P6).",
	Pin:   func(rnd *prng.Source, s *Setup) { trio(rnd, s, 3, 3, 5) },
	Begin: func(r *Run) {
		r.stage("last-standing", func(f *sim.Fault) {
			first := r.one("@master/a")
			kind := pickKind(f.Arg)
			r.on(event.Elected, func(e event.Event) bool { return e.Group == GroupName(0) }, func(event.Event) {
				second := r.one("@master/a")
				r.on(event.BarrierAppended, func(e event.Event) bool { return e.Node == second }, func(event.Event) {
					r.mark("alone")
					r.strike(kind, time.Duration(f.For), second)
				})
			})
			r.strike(kind, time.Duration(f.For), first)
		})
	},
	Faults: func(c *Cast) []*sim.Fault {
		return []*sim.Fault{Stage("last-standing", c.Between(2*time.Second, 6*time.Second), c.Drawn(45*time.Second, 55*time.Second), c.Rnd.Between(0, 2))}
	},
	Chaos: int64(80 * time.Second),
	Least: checker.Activity{Before: 20, After: 20, Marks: []string{"alone"}},
	Assertions: []Assertion{
		{"a retained member leads", "after the successor died alone, a member removed below the floor is elected", func(r *Run) string {
			if e, ok := r.Judge.First(event.Elected, func(e event.Event) bool { return e.At > r.Judge.FirstFault && e.Text == "retained" }); ok && len(e.Set) == 1 {
				return ""
			}
			if s := r.neverAlone(); s != "" {
				return moot
			}
			return "nobody was elected from the retained members"
		}},
		{"confirm is frozen below the floor", "while the committed set is below the floor no master's confirm offset moves", frozenBelowFloor},
		{"nothing acknowledged below the floor", "a set of one acknowledges nothing", func(r *Run) string {
			for i := range r.Judge.Roles {
				c := &r.Judge.Roles[i]
				from, to := int64(c.At*1e9), r.World.Now()
				if i+1 < len(r.Judge.Roles) {
					to = int64(r.Judge.Roles[i+1].At * 1e9)
				}
				if n := r.acksIn(c.Group, c.Epoch, from+int64(time.Millisecond), to-int64(time.Millisecond)); len(parseSet(c.Set)) < r.Setup.Min && n > 0 {
					return fmt.Sprintf("%d sends acknowledged in epoch %d with set %s", n, c.Epoch, c.Set)
				}
			}
			return ""
		}},
		noLoss,
	},
}

// pickKind is the n-th way to lose a process.
func pickKind(n int64) sim.FaultKind {
	return []sim.FaultKind{sim.CrashExit, sim.CrashSilent, sim.PowerLoss}[n%3]
}

// neverAlone says why nobody had to be elected from the retained members: somebody
// had joined before the successor was gone.
func (r *Run) neverAlone() string {
	e, ok := r.electedAfterFault()
	if !ok {
		return ""
	}
	down := r.diedAfter(r.Truth.Node(e.Group, e.Broker), e.At)
	if x, ok := r.Judge.First(event.SetAltered, func(x event.Event) bool { return x.Epoch == e.Epoch && x.At < down && len(x.Set) > 1 }); ok {
		return fmt.Sprintf("set %v was committed at %s", x.Set, at(x.At))
	}
	return ""
}

// frozenBelowFloor compares freezes and thaws: a master thaws where it froze.
func frozenBelowFloor(r *Run) string {
	frozen := map[string]event.Event{}
	for i := range r.Judge.Events {
		e := &r.Judge.Events[i]
		switch e.Kind {
		case event.ConfirmFrozen:
			frozen[e.Node] = *e
		case event.Started, event.Demoted:
			delete(frozen, e.Node)
		case event.ConfirmThawed:
			if f, ok := frozen[e.Node]; ok && f.Epoch == e.Epoch && e.Off != f.Off {
				return fmt.Sprintf("%s froze at %d and thawed at %d in epoch %d", e.Node, f.Off, e.Off, e.Epoch)
			}
			delete(frozen, e.Node)
		}
	}
	return ""
}

// acksIn counts SEND_OK of one epoch of a group in [from, to].
func (r *Run) acksIn(group string, epoch int32, from, to int64) int {
	n := 0
	for i := range r.Judge.AckLog {
		a := &r.Judge.AckLog[i]
		if a.Group == group && int32(a.Epoch) == epoch && a.At >= from && a.At <= to {
			n++
		}
	}
	return n
}

// idleRejoin elects a master of a group to which nobody writes.
var idleRejoin = &Drill{
	ID: "P-idle-rejoin", Name: "idle-rejoin",
	Story: "Nobody writes. The master dies; its successor's set is {successor}, its slave holds exactly its log, and there is nothing to send. The prefix that the handshake verified counts as acknowledged, so the slave joins and the group is writable before the first write comes (P8).",
	Pin:   func(rnd *prng.Source, s *Setup) { trio(rnd, s, 2, 3, 3) },
	Begin: func(r *Run) {
		r.stage("quiet", func(*sim.Fault) { r.Load.Idle = true })
		r.stage("load", func(*sim.Fault) {
			r.Load.Idle = false
			r.mark("load again")
		})
		r.stage("lose-master", func(f *sim.Fault) {
			r.strike(pickKind(f.Arg), time.Duration(f.For), r.one("@master/a"))
		})
	},
	Faults: func(c *Cast) []*sim.Fault {
		down := c.Drawn(45*time.Second, 55*time.Second)
		if c.Setup.Replicas == 2 {
			down = c.Drawn(12*time.Second, 20*time.Second)
		}
		return []*sim.Fault{
			Stage("quiet", At(2*time.Second), 0, 0),
			Stage("lose-master", c.Between(8*time.Second, 10*time.Second), down, c.Rnd.Between(0, 2)),
			Stage("load", At(60*time.Second), 0, 0),
		}
	},
	Chaos: int64(70 * time.Second),
	Least: checker.Activity{Before: 20, After: 20, Marks: []string{"load again"}},
	Assertions: []Assertion{
		{"joins without a write", "in the new epoch a set of at least the floor is committed while nobody writes", func(r *Run) string {
			e, ok := r.electedAfterFault()
			if !ok {
				return "nobody was elected"
			}
			grown := r.firstSetOf(e.Epoch, r.Setup.Min)
			if resumed := Ready + int64(60*time.Second); grown == 0 || grown > resumed {
				return fmt.Sprintf("epoch %d was elected at %s, its set first had %d members at %s; writes resumed at %s", e.Epoch, at(e.At), r.Setup.Min, at(grown), at(resumed))
			}
			return ""
		}},
		{"writable before the first write", "the new master says it is writable while nobody writes", func(r *Run) string {
			e, _ := r.electedAfterFault()
			w, ok := r.Judge.First(event.Writable, func(w event.Event) bool { return w.Group == e.Group && w.Epoch == e.Epoch })
			if resumed := Ready + int64(60*time.Second); !ok || w.At > resumed {
				return fmt.Sprintf("epoch %d was not writable by %s", e.Epoch, at(resumed))
			}
			return ""
		}},
		{"idle sends nothing", "the group really was idle: no send began between the pause and the load", func(r *Run) string {
			for i := range r.Load.Ops {
				op := &r.Load.Ops[i]
				if op.Kind == checker.Send && op.Invoke > Ready+int64(3*time.Second) && op.Invoke < Ready+int64(60*time.Second) {
					return fmt.Sprintf("%s was sent at %s", op.Key, at(op.Invoke))
				}
			}
			return ""
		}},
		noLoss,
	},
}

// slowCommitAlter lets a proposal commit after its master took it for lost.
var slowCommitAlter = &Drill{
	ID: "P-slow-commit-alter", Name: "slow-commit-alter",
	Story: "The master proposes {M A B}; the controllers' disks stall, the call times out, a read shows the old set, B falls behind. Then the proposal commits, M and A die and B is elected: it must hold everything, because acks waited for the union until the set epoch rose (P3).",
	Pin: func(rnd *prng.Source, s *Setup) {
		trio(rnd, s, 3)
		s.NotCatchup = 15 * time.Second
	},
	Begin: slowCommit,
	Faults: func(c *Cast) []*sim.Fault {
		return []*sim.Fault{Stage("slow-commit", c.Between(2*time.Second, 4*time.Second), c.Drawn(4500*time.Millisecond, 8*time.Second), c.Rnd.Between(0, 1000))}
	},
	Chaos: int64(85 * time.Second),
	Least: checker.Activity{Before: 20, After: 20, Marks: []string{"slow commit"}},
	Assertions: []Assertion{
		{"union until the set epoch rises", "once B is cut off nothing is acknowledged before the proposal that names it has ended", func(r *Run) string {
			from, to := r.stamp("b cut"), r.stamp("slow commit")
			for i := range r.Judge.AckLog {
				if a := &r.Judge.AckLog[i]; from > 0 && a.At > from+r.within(200*time.Millisecond) && a.At < to {
					return fmt.Sprintf("%s acknowledged at %s, B was cut off at %s, the proposal committed at %s", a.Node, at(a.At), at(from), at(to))
				}
			}
			return ""
		}},
		{"the call had timed out", "the proposal was without an answer for longer than the call's limit", func(r *Run) string {
			if d := r.stamp("slow commit") - r.stamp("proposed"); r.stamp("proposed") > 0 && d < int64(3*time.Second) {
				return fmt.Sprintf("it took %.1fs", float64(d)/1e9)
			}
			return ""
		}},
		{"B leads with everything", "the member that the late commit let in is elected clean", func(r *Run) string {
			e, ok := r.electionAfter(r.stamp("slow commit"))
			if !ok {
				return "nobody was elected after M and A died"
			}
			if e.Broker != r.victim {
				return fmt.Sprintf("broker %d was elected, B is broker %d", e.Broker, r.victim)
			}
			if e.Text != "clean" && e.Text != "retained" {
				return fmt.Sprintf("broker %d was elected %s", e.Broker, e.Text)
			}
			return ""
		}},
		noLoss,
	},
}

// slowCommit is the stage of P3: take B out, let it back in through a commit that
// takes longer than the call, cut it off meanwhile, then kill the others.
func slowCommit(r *Run) {
	r.stage("slow-commit", func(f *sim.Fault) {
		b, a, m := r.aim(r.one("@slave/a/0")), r.one("@slave/a/1"), r.one("@master/a")
		id := r.victim
		r.strike(sim.CrashExit, 6*time.Second, b)
		r.on(event.SetAltered, func(e event.Event) bool { return groupIs(e, 0) && !e.Set.Has(id) }, func(event.Event) {
			r.on(event.AlterProposed, setWith(id), func(event.Event) {
				r.note("proposed")
				r.strike(sim.DiskStall, time.Duration(f.For), r.resolve("@followers")...)
				r.after(3100*time.Millisecond, func() {
					r.note("b cut")
					r.sever(sim.Cut, 20*time.Second, []string{b}, []string{m, a})
				})
				r.on(event.SetAltered, setWith(id), func(event.Event) {
					if r.World.Now()-r.stamp("proposed") < int64(3200*time.Millisecond) {
						return // not slow: the stall missed it
					}
					r.note("slow commit")
					r.mark("slow commit")
					r.after(time.Duration(f.Arg)*time.Microsecond, func() {
						r.strike(sim.CrashExit, 30*time.Second, m)
						r.strike(sim.CrashExit, 30*time.Second, a)
					})
				})
			})
		})
	})
}

// note remembers when the run first reached a named point.
func (r *Run) note(name string) {
	if _, ok := r.stamps[name]; !ok {
		if r.stamps == nil {
			r.stamps = map[string]int64{}
		}
		r.stamps[name] = r.World.Now()
	}
}

// stamp is when the run reached a named point, 0 never.
func (r *Run) stamp(name string) int64 { return r.stamps[name] }

// diedAfter is when the node next went down after an instant; the end of the run
// when it did not.
func (r *Run) diedAfter(node string, from int64) int64 {
	for i, l := range r.Judge.Lives {
		if l.Node == node && l.Phase == sim.Down && r.Judge.LivesAt[i] >= from {
			return r.Judge.LivesAt[i]
		}
	}
	return r.World.Now()
}
