package scenarios

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"lockstep/checker"
	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/internal/prng"
	"lockstep/node"
	"lockstep/node/broker"
	"lockstep/sim"
)

var _ = register(restoredBackup, incarnation, fsyncLie, rotThenCrash)

// restoredBackup puts an older backup of a slave's disk back while it is a member.
var restoredBackup = &Drill{
	ID: "P-restored-backup", Name: "restored-backup",
	Story: "A slave's disk is replaced by a backup of an earlier life: same store id, shorter log, a boot number that was used or that rises as ever. It comes back while it still is in the set, and the master dies. In the command that registers it this life stops being electable, raises its boot and leads nothing before it has joined again (P1).",
	Pin:   func(rnd *prng.Source, s *Setup) { trio(rnd, s, 2, 3, 3); s.NotCatchup = 15 * time.Second },
	Begin: func(r *Run) { r.stage("restore-backup", r.restoreBackup) },
	Faults: func(c *Cast) []*sim.Fault {
		return []*sim.Fault{Stage("restore-backup", c.Between(2*time.Second, 4*time.Second), c.Drawn(15*time.Second, 22*time.Second), c.Rnd.Between(0, 3))}
	},
	Chaos: int64(75 * time.Second),
	Least: checker.Activity{Before: 20, After: 20, Marks: []string{"registered older copy", "master lost"}},
	Assertions: []Assertion{
		{"not electable in the same command", "when the older copy has registered, the committed record does not let it be elected", func(r *Run) string {
			if r.stamp("electable copy") > 0 {
				return "the registration of the older copy left it electable at " + at(r.stamp("electable copy"))
			}
			return ""
		}},
		{"never leads before it joins", "the restored life is not elected until a set names it again", func(r *Run) string {
			return r.electedWithout(GroupName(0), r.victim, r.stamp("restored"))
		}},
		{"its boot rises above every boot used", "the life that joins carries a boot number no other life of the store had", func(r *Run) string {
			used, last := map[int]bool{}, 0
			for i := range r.Judge.Events {
				e := &r.Judge.Events[i]
				if e.Kind != event.BrokerRegistered || e.Broker != r.victim || e.Group != GroupName(0) {
					continue
				}
				_, boot := storeOf(e.Text)
				if e.At < r.stamp("restored") {
					used[boot] = true
				} else {
					last = boot
				}
			}
			if used[last] || last == 0 {
				return fmt.Sprintf("the restored store ended up with boot %d", last)
			}
			return ""
		}},
		noLoss,
	},
}

// restoreBackup takes a backup, lets the slave restart once (unless the argument is 2
// or 3: then the boot number rises as ever, and only the length of the log tells), and
// puts the backup back some seconds later; then the master dies, and with an odd
// argument the other slave too.
func (r *Run) restoreBackup(f *sim.Fault) {
	b := r.aim(r.one("@slave/a/0"))
	image := r.disk(b).Snapshot()
	if f.Arg < 2 {
		r.strike(sim.CrashExit, 500*time.Millisecond, b)
	}
	back := func(e event.Event) bool { return ofBroker(r.victim)(e) && r.stamp("restored") > 0 }
	r.after(11*time.Second, func() {
		r.strike(sim.CrashExit, 300*time.Millisecond, b)
		r.restore(b, image)
		r.note("restored")
		r.on(event.BrokerRegistered, back, func(event.Event) {
			r.mark("registered older copy")
			if m, ok := r.member(b); ok && m.Electable {
				r.note("electable copy")
			}
			r.loseMaster(f, b)
		})
	})
}

// loseMaster kills the master and, with an argument of 1, every other replica but
// the given one; in a group of two the master comes back early.
func (r *Run) loseMaster(f *sim.Fault, spare string) {
	r.mark("master lost")
	r.note("master lost")
	gone := []string{r.one("@master/a")}
	if f.Arg%2 == 1 {
		gone = others(r.resolve("@brokers/a"), spare)
	}
	r.strike(sim.CrashExit, time.Duration(f.For), gone...)
}

// incarnation changes a member's life between its proposal and the commit, or
// behind an unrelated shrink.
var incarnation = &Drill{
	ID: "P-incarnation", Name: "incarnation",
	Story: "A member is (id, store, boot). A replica passes the join test and loses its disk before the proposal that names it commits; or a member comes back without its page cache and an unrelated shrink names the group again. Then the others die: the new life leads nothing before it has itself passed the join test (P2).",
	Pin: func(rnd *prng.Source, s *Setup) {
		trio(rnd, s, 3)
		s.NotCatchup = 15 * time.Second
		s.Flush, s.Class = broker.SyncFlush, ha.ClassDurable
		if rnd.Chance(1, 2) {
			s.Flush, s.Class = broker.AsyncFlush, ha.ClassReceived
		}
	},
	Begin: func(r *Run) {
		r.stage("wiped-before-commit", r.wipedBeforeCommit)
		r.stage("unclean-before-shrink", r.uncleanBeforeShrink)
	},
	Faults: func(c *Cast) []*sim.Fault {
		stage := "wiped-before-commit"
		if c.Setup.Class == ha.ClassReceived {
			stage = "unclean-before-shrink"
		}
		return []*sim.Fault{Stage(stage, c.Between(2*time.Second, 4*time.Second), c.Drawn(15*time.Second, 22*time.Second), c.Rnd.Between(0, 1))}
	},
	Chaos: int64(80 * time.Second),
	Least: checker.Activity{Before: 20, After: 20, Marks: []string{"new life", "master lost"}},
	Assertions: []Assertion{
		{"a new life leads nothing", "the new incarnation is not elected before a set names it after its own join test", func(r *Run) string {
			return r.electedWithout(GroupName(0), r.victim, r.stamp("new life"))
		}},
		{"the proposal names the life", "a proposal commits only for the lives that are registered: none with another life of the victim commits after its registration", func(r *Run) string {
			known, ok := r.Judge.First(event.BrokerRegistered, func(e event.Event) bool { return ofBroker(r.victim)(e) && e.At > r.stamp("new life") })
			if !ok || r.stamp("new life") == 0 {
				return moot
			}
			e, ok := r.Judge.First(event.SetAltered, func(e event.Event) bool { return setWith(r.victim)(e) && e.At > known.At })
			f, followed := r.Judge.First(event.Following, func(f event.Event) bool { return f.Node == r.victimNode && f.At > known.At })
			if ok && !r.memberAt(known.At) && (!followed || f.At > e.At) {
				return fmt.Sprintf("set %v with the new life was committed at %s, before it had followed anybody", e.Set, at(e.At))
			}
			return ""
		}},
		noLoss,
	},
}

// memberAt reports whether the victim was in the committed set at an instant.
func (r *Run) memberAt(when int64) bool {
	in := false
	for i := range r.Judge.Roles {
		if c := &r.Judge.Roles[i]; c.Group == GroupName(0) && int64(c.At*1e9) <= when {
			in = slices.Contains(parseSet(c.Set), fmt.Sprint(r.victim))
		}
	}
	return in
}

// wipedBeforeCommit: {M,A} proposes B, whose disk is lost while the controllers
// take their time.
func (r *Run) wipedBeforeCommit(f *sim.Fault) {
	b := r.aim(r.one("@slave/a/0"))
	r.strike(sim.CrashExit, 6*time.Second, b)
	r.on(event.SetAltered, func(e event.Event) bool { return groupIs(e, 0) && !e.Set.Has(r.victim) }, func(event.Event) {
		r.on(event.AlterProposed, setWith(r.victim), func(event.Event) {
			r.note("new life")
			r.mark("new life")
			r.strike(sim.DiskStall, 1500*time.Millisecond, r.resolve("@followers")...)
			r.rewipe(b, 300*time.Millisecond)
			r.onLife(b, sim.Up, func(sim.LifeChange) {
				r.after(2*time.Second, func() { r.loseMaster(f, b) })
			})
		})
	})
}

// uncleanBeforeShrink: a member that acknowledged received bytes loses power and
// returns; another member dies and is shrunk away; then the master dies.
func (r *Run) uncleanBeforeShrink(f *sim.Fault) {
	b, a := r.aim(r.one("@slave/a/0")), r.one("@slave/a/1")
	r.inject(&sim.Fault{Kind: sim.PowerLoss, Nodes: []string{b}, For: int64(300 * time.Millisecond), Arg: -1})
	r.note("new life")
	r.mark("new life")
	r.on(event.BrokerRegistered, ofBroker(r.victim), func(event.Event) {
		r.strike(sim.CrashExit, time.Duration(f.For), a)
		r.on(event.AlterProposed, func(e event.Event) bool { return groupIs(e, 0) && !e.Set.Has(r.idOf(a)) }, func(event.Event) {
			r.after(50*time.Millisecond, func() { r.loseMaster(f, b) })
		})
	})
}

// fsyncLie lets a sync fail and drop the pages, or lets the power go right after a
// kill and a restart.
var fsyncLie = &Drill{
	ID: "P-fsync-lie-restart", Name: "fsync-lie-restart",
	Story: "A slave's sync fails: the kernel drops the dirty pages, leaves them readable and reports success next time. The process ends, is started again and loses power; or it is killed, started and loses power at once. Nothing that was only in the page cache counts as durable, the failed store is suspect, and with the others dead it leads only if it has everything (P5).",
	Pin: func(rnd *prng.Source, s *Setup) {
		trio(rnd, s, 3)
		s.NotCatchup = 15 * time.Second
		s.Flush, s.Class = broker.SyncFlush, ha.ClassDurable
	},
	Begin: func(r *Run) {
		r.stage("failed-sync", r.failedSync)
		r.stage("killed-then-dark", r.killedThenDark)
	},
	Faults: func(c *Cast) []*sim.Fault {
		stage := pick(c.Rnd, "failed-sync", "killed-then-dark")
		return []*sim.Fault{Stage(stage, c.Between(2*time.Second, 5*time.Second), c.Drawn(15*time.Second, 22*time.Second), c.Rnd.Between(0, 1))}
	},
	Chaos: int64(80 * time.Second),
	Least: checker.Activity{Before: 20, After: 20, Marks: []string{"dark", "master lost"}},
	Assertions: []Assertion{
		{"a failed sync ends the life", "the broker whose sync failed stops with the code that supervisors do not restart on", func(r *Run) string {
			if r.stamp("sync fails") == 0 {
				return moot
			}
			for i, l := range r.Judge.Lives {
				if l.Node == r.victimNode && l.Phase == sim.Down && r.Judge.LivesAt[i] >= r.stamp("sync fails") {
					if l.Code != node.ExitSuspect {
						return fmt.Sprintf("it ended with code %d: %s", l.Code, l.Reason)
					}
					return ""
				}
			}
			return "it went on after a failed sync"
		}},
		{"a suspect store leads nothing", "the store whose sync failed is not elected until its disk was replaced", func(r *Run) string {
			if r.stamp("sync fails") == 0 {
				return moot
			}
			for i := range r.Judge.Events {
				if e := &r.Judge.Events[i]; e.Kind == event.Elected && e.Broker == r.victim && e.At > r.stamp("sync fails") {
					return fmt.Sprintf("broker %d was elected at %s", e.Broker, at(e.At))
				}
			}
			return ""
		}},
		{"durable means durable", "no acknowledgement counted bytes that the power loss took", func(r *Run) string {
			for _, f := range r.Judge.Ledger.Findings() {
				if f.Name == "before-durable" || f.Name == "member-lacks-it" {
					return f.Text
				}
			}
			return ""
		}},
		noLoss,
	},
}

// failedSync: sync error, suspect exit, restart by hand, power loss, master dead;
// at last the operator replaces the disk.
func (r *Run) failedSync(f *sim.Fault) {
	b := r.aim(r.one("@slave/a/0"))
	r.note("sync fails")
	bad := r.inject(&sim.Fault{Kind: sim.DiskSyncDrop, Nodes: []string{b}, Text: "commitlog", Arg: 1})
	r.onLife(b, sim.Down, func(sim.LifeChange) {
		r.World.EndFault(bad)
		r.after(500*time.Millisecond, func() { r.inject(&sim.Fault{Kind: sim.Start, Nodes: []string{b}}) })
		r.onLife(b, sim.Up, func(sim.LifeChange) { r.after(700*time.Millisecond, func() { r.darkThenMaster(f, b) }) })
	})
	r.after(45*time.Second, func() { r.replaceDisk(b) })
}

// killedThenDark: kill -9, restart, and power loss right after the start.
func (r *Run) killedThenDark(f *sim.Fault) {
	b := r.aim(r.one("@slave/a/0"))
	r.strike(sim.CrashExit, 200*time.Millisecond, b)
	r.on(event.Following, func(e event.Event) bool { return e.Node == b }, func(event.Event) {
		r.after(time.Duration(f.For%int64(200*time.Millisecond)), func() { r.darkThenMaster(f, b) })
	})
}

// darkThenMaster takes all unsynced bytes of a node, and then the master.
func (r *Run) darkThenMaster(f *sim.Fault, b string) {
	r.mark("dark")
	r.inject(&sim.Fault{Kind: sim.PowerLoss, Nodes: []string{b}, For: int64(300 * time.Millisecond), Arg: -1})
	r.onLife(b, sim.Up, func(sim.LifeChange) { r.after(300*time.Millisecond, func() { r.loseMaster(f, b) }) })
}

// rotThenCrash damages a slave's log below its end and then crashes the slave.
var rotThenCrash = &Drill{
	ID: "P-rot-then-crash", Name: "rot-then-crash",
	Story: "A byte in the middle of a slave's log rots, then the slave crashes. Recovery must not take the bad record for a torn tail: it deletes nothing, the store is not electable, and with the master dead the intact replica leads. The operator replaces the disk and the slave rebuilds (P5).",
	Pin: func(rnd *prng.Source, s *Setup) {
		trio(rnd, s, 3)
		s.NotCatchup = 15 * time.Second
		s.Flush, s.Class = broker.SyncFlush, ha.ClassDurable
		s.Rate = 100
	},
	Begin: func(r *Run) { r.stage("rot", r.rotAndCrash) },
	Faults: func(c *Cast) []*sim.Fault {
		return []*sim.Fault{Stage("rot", c.Between(3*time.Second, 6*time.Second), c.Drawn(15*time.Second, 22*time.Second), c.Rnd.Between(0, 1))}
	},
	Chaos: int64(80 * time.Second),
	Least: checker.Activity{Before: 20, After: 20, Marks: []string{"rotten", "master lost"}},
	Assertions: []Assertion{
		{"nothing is deleted", "recovery leaves the records behind the damaged one on the disk until the operator replaces it", func(r *Run) string {
			if r.stamp("deleted behind the damage") > 0 {
				return "the records behind the damaged one are gone from the disk"
			}
			return ""
		}},
		{"the rotten store leads nothing", "the damaged replica is not elected before its disk was replaced", func(r *Run) string {
			for i := range r.Judge.Events {
				if e := &r.Judge.Events[i]; e.Kind == event.Elected && e.Broker == r.victim && e.At > r.stamp("rotten") && e.At < r.stamp("replaced") {
					return fmt.Sprintf("broker %d was elected at %s", e.Broker, at(e.At))
				}
			}
			return ""
		}},
		{"a damaged byte is never served or replicated", "no other replica holds the damaged bytes and no consumer read them", func(r *Run) string {
			for _, f := range r.Findings {
				if f.Name == "phantom" || f.Name == "value-changed" || f.Name == "diverged" {
					return f.Text
				}
			}
			return ""
		}},
		{"it rebuilds", "with a new disk the slave is back in the set", func(r *Run) string {
			if n := len(r.Truth.refresh(GroupName(0)).Set); n < r.Setup.Min {
				return fmt.Sprintf("the set has %d members at the end", n)
			}
			return ""
		}},
		noLoss,
	},
}

// rotAndCrash flips a bit of a record that is durable since long enough to be below
// the persisted floor, crashes the slave, and later compares what lies behind the
// damage with what lay there.
func (r *Run) rotAndCrash(f *sim.Fault) {
	b := r.aim(r.one("@slave/a/0"))
	disk := r.disk(b)
	records := r.durableRecords(b)
	if len(records) < 8 {
		return // hardly anything was written: the run is vacuous
	}
	r.after(4*time.Second, func() { // the floor is persisted each second
		bad, last := records[int(f.For)%(len(records)-2)], records[len(records)-1]
		behind := r.Truth.Durable(GroupName(0), r.victim, last, 64)
		r.lost(b, "a byte of the log rots on")
		if err := disk.Rot(r.segmentOf(bad), int64(bad)%r.Setup.SegmentBytes+60, 0x10); err != nil {
			r.fail("plan", "stale", "rot at %d: %v", bad, err)
			return
		}
		r.mark("rotten")
		r.note("rotten")
		r.strike(pickKind(f.Arg*2), 300*time.Millisecond, b)
		r.after(4*time.Second, func() { r.loseMaster(f, b) })
		r.after(45*time.Second, func() {
			if now := r.Truth.Cached(GroupName(0), r.victim, last, 64); !bytes.Equal(now, behind) {
				r.note("deleted behind the damage")
			}
			r.note("replaced")
			r.replaceDisk(b)
		})
	})
}

// segmentOf is the file of a broker's log that holds an offset.
func (r *Run) segmentOf(off ha.LogOffset) string {
	return fmt.Sprintf("commitlog/%020d", int64(off)/r.Setup.SegmentBytes*r.Setup.SegmentBytes)
}

// durableRecords are the places of the messages that are durable on a broker.
func (r *Run) durableRecords(node string) (starts []ha.LogOffset) {
	group, id, seg := groupOf(node), r.idOf(node), ha.LogOffset(r.Setup.SegmentBytes)
	for off := r.Truth.MinOffset(group, id); ; {
		head := r.Truth.Durable(group, id, off, 8)
		if head == nil {
			return starts
		}
		size := binary.BigEndian.Uint32(head)
		if binary.BigEndian.Uint32(head[4:]) == blankMagic {
			off = (off/seg + 1) * seg
			continue
		}
		rec, err := checker.ParseRecord(r.Truth.Durable(group, id, off, int(size)))
		if err != nil || rec.Log != off {
			return starts
		}
		if string(rec.Topic) == Topic {
			starts = append(starts, off)
		}
		off += ha.LogOffset(size)
	}
}

// blankMagic marks the padding at a segment's end.
const blankMagic = 0xCBD43194
