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
)

var _ = register(cutCrash, epochFile, killedUnsynced)

// cutCrash loses power in the middle of a long truncation.
var cutCrash = &Drill{
	ID: "M-cut-crash", Name: "cut-crash",
	Story: "A cut-off master appends many segments that nobody acknowledges. It is back, follows and cuts them; in the middle of the cut the power goes. Whatever of the cut the disk kept, the next start finishes it and the replica comes back (P10).",
	Pin: func(rnd *prng.Source, s *Setup) {
		trio(rnd, s, 3)
		s.Lease, s.Flush, s.Class = broker.LeaseOff, broker.SyncFlush, ha.ClassDurable
		s.SegmentBytes, s.Rate, s.BodyBytes, s.Clients = 64<<10, 100, 2048, 4
		s.HeartbeatTimeout, s.ScanInterval = 3*time.Second, time.Second
	},
	Begin: func(r *Run) { r.stage("cut-crash", r.crashInCut) },
	Faults: func(c *Cast) []*sim.Fault {
		return []*sim.Fault{Stage("cut-crash", c.Between(2*time.Second, 4*time.Second), c.Drawn(12*time.Second, 16*time.Second), c.Rnd.Between(1, 60))}
	},
	Chaos: int64(50 * time.Second),
	Least: checker.Activity{Before: 20, After: 20, Marks: []string{"follows"}},
	Assertions: []Assertion{
		{"it comes back", "the replica whose power went in the middle of the cut follows again", func(r *Run) string {
			n := r.Truth.Node(GroupName(0), r.victim)
			for i, l := range r.Judge.Lives {
				if l.Node == n && l.Phase == sim.Refused && r.Judge.LivesAt[i] > r.stamp("follows") {
					return fmt.Sprintf("%s refuses to start: %s", n, l.Reason)
				}
			}
			if r.Judge.Count(event.Truncated, func(e event.Event) bool { return e.Node == n && e.Count > 0 }) == 0 {
				return moot // it had nothing to cut
			}
			return ""
		}},
		noLoss,
	},
}

// crashInCut isolates the master with two clients and arms a power loss for the
// moment at which it follows again.
func (r *Run) crashInCut(f *sim.Fault) {
	m := r.one("@master/a")
	r.victim = r.idOf(m)
	side := []string{m, ProducerNode(0), ProducerNode(1)}
	r.sever(sim.Cut, time.Duration(f.For), side, others(r.nodes, side...))
	r.on(event.RoleApplied, func(e event.Event) bool { return e.Node == m && e.Text == "slave" }, func(event.Event) {
		r.mark("follows")
		r.note("follows")
		crash := &sim.Fault{Kind: sim.PowerLoss, Nodes: []string{m}, For: int64(300 * time.Millisecond), When: sim.Trigger{At: r.World.Now(), DiskStep: int(f.Arg)}}
		if err := r.World.Inject(crash); err != nil {
			r.fail("plan", "stale", "%s: %v", crash.Kind, err)
		}
	})
}

// epochFile keeps a new epoch out of a slave's epoch file, but not out of its log.
var epochFile = &Drill{
	ID: "M-epoch-file", Name: "epoch-file",
	Story: "The master dies. A slave that follows its successor has no room for small files: the log goes on in its segment, the epoch file does not. The slave is in the set when it loses power. Its log says which epochs it holds, whatever the file says, so it cuts nothing it has acknowledged (P9).",
	Pin: func(rnd *prng.Source, s *Setup) {
		trio(rnd, s, 3)
		s.Min = pick(rnd, 1, 2)
		s.Flush, s.Class, s.SegmentBytes = broker.SyncFlush, ha.ClassDurable, 8<<20
		s.HeartbeatTimeout, s.ScanInterval, s.NotCatchup = 3*time.Second, time.Second, 15*time.Second
	},
	Begin: func(r *Run) { r.stage("epoch-file", r.noRoomForEpochs) },
	Faults: func(c *Cast) []*sim.Fault {
		return []*sim.Fault{Stage("epoch-file", c.Between(2*time.Second, 4*time.Second), c.Drawn(25*time.Second, 30*time.Second), c.Rnd.Between(50, 1500))}
	},
	Chaos: int64(55 * time.Second),
	Least: checker.Activity{Before: 20, After: 20, Marks: []string{"dark"}},
	Assertions: []Assertion{
		{"nothing is cut", "the slave comes back with what it held and follows at its end", func(r *Run) string {
			n := r.Truth.Node(GroupName(0), r.victim)
			if e, ok := r.Judge.First(event.Truncated, func(e event.Event) bool { return e.Node == n && e.At > r.stamp("dark") && e.Count > 0 }); ok {
				return fmt.Sprintf("%s cut %d bytes at %s", n, e.Count, at(e.At))
			}
			if e, ok := r.Judge.First(event.RebuildNeeded, func(e event.Event) bool { return e.Node == n && e.At > r.stamp("dark") }); ok {
				return n + " asks for a rebuild: " + e.Text
			}
			return ""
		}},
		noLoss,
	},
}

// noRoomForEpochs fills a slave's disk when it begins to follow the new master, and
// takes its power some time after it is in the new epoch's set.
func (r *Run) noRoomForEpochs(f *sim.Fault) {
	m := r.one("@master/a")
	r.strike(sim.CrashExit, time.Duration(f.For), m)
	r.on(event.Following, func(e event.Event) bool { return groupIs(e, 0) && e.Epoch > r.epochAtFault() }, func(e event.Event) {
		b := e.Node
		r.victim = r.idOf(b)
		full := r.strike(sim.DiskFull, time.Minute, b)
		r.on(event.SetAltered, func(e event.Event) bool { return setWith(r.victim)(e) && e.Epoch > r.epochAtFault() }, func(event.Event) {
			r.after(time.Duration(f.Arg)*time.Millisecond, func() {
				r.mark("dark")
				r.note("dark")
				r.World.EndFault(full)
				r.inject(&sim.Fault{Kind: sim.PowerLoss, Nodes: []string{b}, For: int64(300 * time.Millisecond), Arg: -1})
			})
		})
	})
}

// killedUnsynced kills a slave whose last writes no sync has covered.
var killedUnsynced = &Drill{
	ID: "M-killed-unsynced", Name: "killed-unsynced",
	Story: "Disks sync slowly. A slave is killed with bytes that are only in its page cache, or its sync fails, and it is started again. It reads them back, joins the set with them, and loses power; then the others die. What recovery believed it had first made durable (P5).",
	Pin: func(rnd *prng.Source, s *Setup) {
		trio(rnd, s, 3)
		s.Flush, s.Class, s.Rate, s.NotCatchup = broker.SyncFlush, ha.ClassDurable, 100, 15*time.Second
	},
	World: func(_ *Setup, o *sim.Options) {
		o.DiskSync.Lo, o.DiskSync.Hi = int64(10*time.Millisecond), int64(30*time.Millisecond)
	},
	Begin: func(r *Run) {
		r.stage("killed", func(f *sim.Fault) {
			// Nothing comes after the bytes in question: a later sync of the segment would
			// cover them too.
			r.Load.Idle = true
			b := r.one("@slave/a/0")
			r.after(time.Duration(2+f.Arg%7)*time.Millisecond, func() { r.strike(sim.CrashExit, 200*time.Millisecond, b) })
			r.darkOnceIn(f, b)
		})
		r.stage("sync-fails", func(f *sim.Fault) {
			b := r.one("@slave/a/0")
			bad := r.inject(&sim.Fault{Kind: sim.DiskSyncDrop, Nodes: []string{b}, Text: "commitlog", Arg: 1})
			r.onLife(b, sim.Down, func(sim.LifeChange) {
				r.World.EndFault(bad)
				r.after(300*time.Millisecond, func() { r.inject(&sim.Fault{Kind: sim.Start, Nodes: []string{b}}) })
			})
			r.darkOnceIn(f, b)
			r.after(40*time.Second, func() { r.replaceDisk(b) }) // the operator's remedy for a suspect store
		})
	},
	Faults: func(c *Cast) []*sim.Fault {
		stage := pick(c.Rnd, "killed", "sync-fails")
		return []*sim.Fault{Stage(stage, c.Between(2*time.Second, 4*time.Second), c.Drawn(18*time.Second, 22*time.Second), c.Rnd.Between(0, 50))}
	},
	Chaos: int64(60 * time.Second),
	Least: checker.Activity{Before: 20, After: 20, Marks: []string{"dark"}},
	Assertions: []Assertion{
		{"durable means durable", "no acknowledgement counted, and no set let in, bytes that were only in a cache", func(r *Run) string {
			for _, f := range r.Judge.Ledger.Findings() {
				if f.Name == "before-durable" || f.Name == "member-lacks-it" || f.Name == "joined-lacking" {
					return f.Text
				}
			}
			return ""
		}},
		noLoss,
	},
}

// darkOnceIn waits until the slave has left the set and is in it again, takes all
// that it has not synced, and then the others.
func (r *Run) darkOnceIn(f *sim.Fault, b string) {
	r.victim = r.idOf(b)
	r.on(event.SetAltered, func(e event.Event) bool { return groupIs(e, 0) && !e.Set.Has(r.victim) }, func(event.Event) {
		r.on(event.SetAltered, setWith(r.victim), func(event.Event) {
			r.after(time.Duration(f.Arg)*time.Millisecond, func() {
				r.mark("dark")
				r.Load.Idle = false
				r.inject(&sim.Fault{Kind: sim.PowerLoss, Nodes: []string{b}, For: int64(300 * time.Millisecond), Arg: -1})
				r.onLife(b, sim.Up, func(sim.LifeChange) {
					r.after(300*time.Millisecond, func() {
						r.strike(sim.CrashExit, time.Duration(f.For), others(r.resolve("@brokers/a"), b)...)
					})
				})
			})
		})
	})
}
