package scenarios

import (
	"fmt"
	"time"

	"lockstep/checker"
	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/internal/prng"
	"lockstep/node/broker"
	"lockstep/sim"
	"lockstep/storage"
	"lockstep/storage/vfs"
)

// Family M: one small drill for each situation that only a targeted plan reaches.
// Each is the proof that a defence of the product is needed: with the defence taken
// out (scenarios/mutants) its run fails.

var _ = register(fastRestart, outsideSet, keptIdentity, brokenClaim, rolledBackLog, longerLog)

// fastRestart restarts the master before anybody can have missed it.
var fastRestart = &Drill{
	ID: "M-fast-restart", Name: "fast-restart",
	Story: "The master's process dies and is back within a second: its clients' routes still lead to it and nobody has missed it. It starts fenced, acknowledges nothing in the old epoch, and goes on only in a new one.",
	Pin: func(rnd *prng.Source, s *Setup) {
		s.Groups, s.Controllers, s.Throttle = 1, 3, 0
		s.Replicas = pick(rnd, 2, 3, 3)
		s.clamp()
	},
	Faults: func(c *Cast) []*sim.Fault {
		return []*sim.Fault{Strike(sim.CrashExit, c.Between(2*time.Second, 5*time.Second), c.Drawn(100*time.Millisecond, 800*time.Millisecond), "@master/a")}
	},
	Chaos: int64(30 * time.Second),
	Least: checker.Activity{Before: 20, After: 20},
	Assertions: []Assertion{
		{"not in the old epoch", "after the restart nothing is acknowledged in the epoch that was in force at the crash", func(r *Run) string {
			old := r.epochAtFault()
			for i := range r.Judge.AckLog {
				if a := &r.Judge.AckLog[i]; a.Group == GroupName(0) && a.Epoch <= old && a.At > r.Judge.FirstFault {
					return fmt.Sprintf("%s acknowledged in epoch %d at %s", a.Node, a.Epoch, at(a.At))
				}
			}
			return ""
		}},
		{"a new epoch", "the restarted life is a failure event: a new epoch follows, whoever leads it", func(r *Run) string {
			if _, ok := r.electedAfterFault(); !ok {
				return "nobody was elected after the restart"
			}
			return ""
		}},
		noLoss,
	},
}

// outsideSet leaves the master alone in the set and then takes it.
var outsideSet = &Drill{
	ID: "M-outside-set", Name: "outside-set",
	Story: "Floor 1. The slaves lose the master but not the controllers and leave the set; the master acknowledges alone, then dies. The slaves are alive and nobody's members: none of them leads, the group waits for its master.",
	Pin: func(rnd *prng.Source, s *Setup) {
		s.Groups, s.Controllers, s.All, s.Min, s.Throttle = 1, 3, true, 1, 0
		s.Replicas = pick(rnd, 2, 3, 3)
		s.NotCatchup, s.CheckSet = 3*time.Second, time.Second
	},
	Begin: func(r *Run) {
		r.stage("outside-set", func(f *sim.Fault) {
			m := r.one("@master/a")
			r.victim = r.idOf(m)
			r.sever(sim.Cut, 60*time.Second, []string{m}, r.resolve("@slaves/a"))
			r.on(event.SetAltered, func(e event.Event) bool { return groupIs(e, 0) && len(e.Set) == 1 }, func(event.Event) {
				r.after(time.Duration(f.Arg)*time.Millisecond, func() {
					r.mark("alone")
					r.note("alone")
					r.strike(sim.CrashExit, time.Duration(f.For), m)
				})
			})
		})
	},
	Faults: func(c *Cast) []*sim.Fault {
		return []*sim.Fault{Stage("outside-set", c.Between(2*time.Second, 4*time.Second), c.Drawn(18*time.Second, 25*time.Second), c.Rnd.Between(1000, 3000))}
	},
	Chaos: int64(60 * time.Second),
	Least: checker.Activity{Before: 20, After: 20, Marks: []string{"alone"}},
	Assertions: []Assertion{
		{"nobody outside the set leads", "while the only member is away no other replica is elected", func(r *Run) string {
			if e, ok := r.electionAfter(r.stamp("alone")); ok && e.Broker != r.victim {
				return fmt.Sprintf("broker %d is elected (%s) at %s with set {%d}", e.Broker, e.Text, at(e.At), r.victim)
			}
			return ""
		}},
		noLoss,
	},
}

// renew gives a node an empty disk with its old identity on it.
func (r *Run) renew(b string) {
	img, err := emptyBut(r.disk(b), storage.NameIdentity)
	if err != nil {
		r.fail("plan", "stale", "%s: %v", b, err)
		return
	}
	r.strike(sim.CrashExit, 300*time.Millisecond, b)
	r.lost(b, "an empty disk with the old identity is given to")
	r.disk(b).Restore(img)
}

// slowCatchUp pins a group whose log takes seconds to fetch over a narrow link.
func slowCatchUp(rnd *prng.Source, s *Setup, replicas int) {
	trio(rnd, s, replicas)
	s.Rate, s.BodyBytes, s.SegmentBytes = 50, 256, 1<<20
	s.NotCatchup, s.HeartbeatTimeout = 15*time.Second, 10*time.Second
	s.Flush, s.Class = broker.SyncFlush, ha.ClassDurable
}

// narrow leaves a link that carries the load of slowCatchUp and not much more.
func (r *Run) narrow(a, b string) {
	r.inject(&sim.Fault{Kind: sim.Bandwidth, Shape: sim.Split, Sides: [][]string{{a}, {b}}, Arg: 48 << 10, For: int64(40 * time.Second)})
}

// keptIdentity replaces a member's disk and keeps its identity file.
var keptIdentity = &Drill{
	ID: "M-kept-identity", Name: "kept-identity",
	Story: "A member's disk is replaced, its identity file kept: the same id comes back with another store and fetches the log again. Before it has all of it the master dies. In the command that registered it the new store stopped being electable, so the group waits for the master (P1).",
	Pin:   func(rnd *prng.Source, s *Setup) { slowCatchUp(rnd, s, 2) },
	Begin: func(r *Run) {
		r.stage("kept-identity", func(f *sim.Fault) {
			m, b := r.one("@master/a"), r.one("@slave/a/0")
			r.victim = r.idOf(b)
			r.narrow(m, b)
			r.renew(b)
			r.note("renewed")
			r.on(event.Following, func(e event.Event) bool { return e.Node == b }, func(event.Event) {
				r.after(time.Duration(f.Arg)*time.Millisecond, func() {
					r.mark("master lost")
					r.strike(sim.CrashExit, time.Duration(f.For), m)
				})
			})
		})
	},
	Faults: func(c *Cast) []*sim.Fault {
		return []*sim.Fault{Stage("kept-identity", c.Between(8*time.Second, 10*time.Second), c.Drawn(18*time.Second, 22*time.Second), c.Rnd.Between(500, 2000))}
	},
	Chaos: int64(60 * time.Second),
	Least: checker.Activity{Before: 20, After: 20, Marks: []string{"master lost"}},
	Assertions: []Assertion{
		{"never leads before it joins", "the new store is not elected until a set names it", func(r *Run) string {
			return r.electedWithout(GroupName(0), r.victim, r.stamp("renewed"))
		}},
		noLoss,
	},
}

// brokenClaim takes a member's page cache and then everybody else.
var brokenClaim = &Drill{
	ID: "M-broken-claim", Name: "broken-claim",
	Story: "Received bytes are acknowledged. A member loses power and with it bytes it had acknowledged; when its new life registers, the others die. It says that its claim is broken, so it does not lead: the group waits until all are back, and then takes the longest log (P1, P16).",
	Pin: func(rnd *prng.Source, s *Setup) {
		trio(rnd, s, 3)
		s.Flush, s.Class, s.Rate = broker.AsyncFlush, ha.ClassReceived, 100
		s.NotCatchup, s.HeartbeatTimeout = 15*time.Second, pick(rnd, 3*time.Second, 5*time.Second)
	},
	Begin: func(r *Run) {
		r.stage("broken-claim", func(f *sim.Fault) {
			b := r.one("@slave/a/0")
			r.victim = r.idOf(b)
			r.inject(&sim.Fault{Kind: sim.PowerLoss, Nodes: []string{b}, For: int64(200 * time.Millisecond), Arg: -1})
			r.note("dark")
			r.on(event.BrokerRegistered, ofBroker(r.victim), func(event.Event) {
				r.mark("others lost")
				r.strike(sim.CrashExit, time.Duration(f.For), others(r.resolve("@brokers/a"), b)...)
			})
		})
	},
	Faults: func(c *Cast) []*sim.Fault {
		return []*sim.Fault{Stage("broken-claim", c.Between(2*time.Second, 5*time.Second), c.Drawn(15*time.Second, 20*time.Second), 0)}
	},
	Chaos: int64(50 * time.Second),
	Least: checker.Activity{Before: 20, After: 20, Marks: []string{"others lost"}},
	Assertions: []Assertion{
		{"never leads before it joins", "the life with the broken claim is not elected before all are back", func(r *Run) string {
			return r.electedWithout(GroupName(0), r.victim, r.stamp("dark"))
		}},
		noLoss,
	},
}

// rolledBackLog takes a member's log back and leaves its boot counter.
var rolledBackLog = &Drill{
	ID: "M-rolled-back-log", Name: "rolled-back-log",
	Story: "A member's disk is rolled back to an earlier state and only its boot counter is not: store, boot and claim all look right, the log is short. The others die at once. Its log ends below the confirm offset that the last change of the set recorded, so it is not elected (P1, the floor).",
	Pin: func(rnd *prng.Source, s *Setup) {
		trio(rnd, s, 3)
		s.NotCatchup, s.HeartbeatTimeout = 15*time.Second, pick(rnd, 3*time.Second, 5*time.Second)
		s.Flush, s.Class = broker.SyncFlush, ha.ClassDurable
	},
	Begin: func(r *Run) {
		r.stage("rolled-back-log", func(f *sim.Fault) {
			m, b, a := r.one("@master/a"), r.one("@slave/a/0"), r.one("@slave/a/1")
			r.victim = r.idOf(b)
			image := r.disk(b).Snapshot()
			r.strike(sim.CrashExit, 5*time.Second, a)
			r.on(event.SetAltered, func(e event.Event) bool { return groupIs(e, 0) && !e.Set.Has(r.idOf(a)) }, func(event.Event) {
				r.on(event.SetAltered, setWith(r.idOf(a)), func(event.Event) {
					r.after(time.Duration(f.Arg)*time.Millisecond, func() { r.rollBack(f, b, image, m, a) })
				})
			})
		})
	},
	Faults: func(c *Cast) []*sim.Fault {
		return []*sim.Fault{Stage("rolled-back-log", c.Between(2*time.Second, 4*time.Second), c.Drawn(18*time.Second, 22*time.Second), c.Rnd.Between(100, 2000))}
	},
	Chaos: int64(60 * time.Second),
	Least: checker.Activity{Before: 20, After: 20, Marks: []string{"rolled back"}},
	Assertions: []Assertion{
		{"a short log does not lead", "the member whose log ends below the floor is not elected before it has joined again", func(r *Run) string {
			return r.electedWithout(GroupName(0), r.victim, r.stamp("rolled back"))
		}},
		noLoss,
	},
}

// rollBack puts the image back on b, but for its boot counter, and kills the rest.
func (r *Run) rollBack(f *sim.Fault, b string, image *vfs.Image, rest ...string) {
	const counter = "lockstep/boot"
	r.strike(sim.CrashExit, 300*time.Millisecond, b)
	image, err := withFile(image, r.disk(b), counter)
	if err != nil {
		r.fail("plan", "stale", "%s: %v", b, err)
		return
	}
	r.restore(b, image)
	r.mark("rolled back")
	r.note("rolled back")
	r.strike(sim.CrashExit, time.Duration(f.For), rest...)
}

// longerLog makes an unclean election choose between epochs.
var longerLog = &Drill{
	ID: "M-longer-log", Name: "longer-log",
	Story: "Unclean elections are allowed. A cut-off master with most of the clients appends a long branch that nobody acknowledges, while a new epoch acknowledges a little. Then the new master dies, its slave loses power and may not lead cleanly, and the old master is back: the last epoch decides, not the length, so nothing is lost.",
	Pin: func(rnd *prng.Source, s *Setup) {
		trio(rnd, s, 3)
		s.Unclean, s.Lease, s.Flush, s.Class = true, broker.LeaseOff, broker.AsyncFlush, ha.ClassReceived
		s.HeartbeatTimeout, s.ScanInterval, s.NotCatchup, s.Clients = 3*time.Second, time.Second, 15*time.Second, 4
	},
	Begin: func(r *Run) { r.stage("longer-log", r.longBranch) },
	Faults: func(c *Cast) []*sim.Fault {
		return []*sim.Fault{Stage("longer-log", c.Between(2*time.Second, 4*time.Second), c.Drawn(25*time.Second, 30*time.Second), c.Rnd.Between(3000, 6000))}
	},
	Chaos: int64(75 * time.Second),
	Least: checker.Activity{Before: 20, After: 20, Marks: []string{"two branches"}},
	Assertions: []Assertion{
		{"the last epoch wins", "the unclean election takes the log of the newest epoch", func(r *Run) string {
			e, ok := r.electionAfter(r.stamp("two branches"))
			if !ok {
				return "nobody was elected"
			}
			if e.Broker != r.victim {
				return fmt.Sprintf("broker %d is elected (%s), the newest epoch is in the log of %d", e.Broker, e.Text, r.victim)
			}
			return ""
		}},
		noLoss,
	},
}

// longBranch isolates the master with its clients, lets the others go on for a
// while, and then leaves the old master and one slave of the new epoch.
func (r *Run) longBranch(f *sim.Fault) {
	m := r.one("@master/a")
	side := []string{m, ProducerNode(0), ProducerNode(1), ProducerNode(2)}
	cut := r.sever(sim.Cut, time.Minute, side, others(r.nodes, side...))
	r.on(event.SetAltered, func(e event.Event) bool { return groupIs(e, 0) && e.Epoch > r.epochAtFault() && len(e.Set) == 2 }, func(e event.Event) {
		a := r.Truth.Node(e.Group, e.Broker)
		b := r.Truth.Node(e.Group, e.Set.Without(e.Broker)[0])
		r.victim = r.idOf(b)
		r.after(time.Duration(f.Arg)*time.Millisecond, func() {
			r.mark("two branches")
			r.note("two branches")
			r.World.EndFault(cut)
			r.strike(sim.CrashExit, time.Duration(f.For), a)
			r.inject(&sim.Fault{Kind: sim.PowerLoss, Nodes: []string{b}, For: int64(300 * time.Millisecond), Arg: -2})
		})
	})
}
