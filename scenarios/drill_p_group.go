package scenarios

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstep/checker"
	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/internal/prng"
	"lockstep/node/broker"
	"lockstep/sim"
)

var _ = register(joinUnderLoad, blackoutAsync, controllerAmnesia, expiredPrefix)

// joinUnderLoad brings a far slave back while its near sibling acknowledges
// everything first.
var joinUnderLoad = &Drill{
	ID: "P-join-under-load", Name: "join-under-load",
	Story: "One slave is near, the other a round trip further away, and producers never pause: whenever the far one acknowledges, confirm is already a little ahead. It leaves and comes back; it bounds confirm while it joins, so it is in the set within a bounded time, and acks stall for milliseconds only (P14).",
	Pin: func(rnd *prng.Source, s *Setup) {
		trio(rnd, s, 3)
		s.Rate, s.BodyBytes = 100, 256
		s.NotCatchup = pick(rnd, 3*time.Second, 8*time.Second)
		s.Min = pick(rnd, 1, 2)
	},
	Begin: func(r *Run) { r.stage("far-slave", r.farSlave) },
	Faults: func(c *Cast) []*sim.Fault {
		return []*sim.Fault{Stage("far-slave", At(time.Second), c.Drawn(8*time.Second, 12*time.Second), c.Rnd.Between(int64(8*time.Millisecond), int64(25*time.Millisecond)))}
	},
	Chaos: int64(45 * time.Second),
	Least: checker.Activity{Before: 20, After: 20, Marks: []string{"far slave back"}},
	Assertions: []Assertion{
		{"joins within a bounded time", "from following to the committed set that names it: catching up, one join and a commit", func(r *Run) string {
			back := r.stamp("far slave back")
			e, ok := r.Judge.First(event.SetAltered, func(e event.Event) bool { return setWith(r.victim)(e) && e.At > back })
			if limit := int64(10 * time.Second); back > 0 && (!ok || e.At-back > limit) {
				return fmt.Sprintf("followed at %s and was in a set at %s, at most %.0fs are allowed", at(back), at(e.At), float64(limit)/1e9)
			}
			return ""
		}},
		{"acks stall for milliseconds", "while it joins no gap between two acknowledgements is longer than its round trip, a flush and a batch explain", func(r *Run) string {
			back := r.stamp("far slave back")
			e, ok := r.Judge.First(event.SetAltered, func(e event.Event) bool { return setWith(r.victim)(e) && e.At > back })
			if !ok || back == 0 {
				return moot
			}
			last, limit := back, r.within(600*time.Millisecond)
			for i := range r.Judge.AckLog {
				a := &r.Judge.AckLog[i]
				if a.At < back || a.At > e.At+int64(time.Second) {
					continue
				}
				if a.At-last > limit {
					return fmt.Sprintf("no acknowledgement from %s to %s", at(last), at(a.At))
				}
				last = a.At
			}
			return ""
		}},
		{"load never paused", "sends began all the time while it joined", func(r *Run) string {
			back := r.stamp("far slave back")
			n := 0
			for i := range r.Load.Ops {
				if op := &r.Load.Ops[i]; op.Kind == checker.Send && op.Invoke >= back && op.Invoke <= back+int64(2*time.Second) {
					n++
				}
			}
			if n < 50 && back > 0 {
				return fmt.Sprintf("%d sends in two seconds", n)
			}
			return ""
		}},
		noLoss,
	},
}

// farSlave moves a slave away, stops it for a while and lets it come back.
func (r *Run) farSlave(f *sim.Fault) {
	b := r.aim(r.one("@slave/a/1"))
	r.inject(&sim.Fault{Kind: sim.Delay, Shape: sim.Split, Sides: [][]string{{b}, others(r.nodes, b)}, For: int64(40 * time.Second), Arg: f.Arg})
	r.after(3*time.Second, func() {
		r.strike(sim.CrashExit, time.Duration(f.For), b)
		r.on(event.Following, func(e event.Event) bool { return e.Node == b }, func(event.Event) {
			r.note("far slave back")
			r.mark("far slave back")
		})
	})
}

// blackoutAsync cuts the power of a whole group that acknowledges from the page cache.
var blackoutAsync = &Drill{
	ID: "P-blackout-async", Name: "blackout-async", Beyond: true,
	Story: "Under ASYNC_FLUSH and received acks the whole group loses power at once. Every claim is broken, nobody is electable; while one member is missing the group stays down and says for whom it waits; when all are back the longest log leads, and what is lost is counted and is exactly what the power took (P16).",
	Pin: func(rnd *prng.Source, s *Setup) {
		trio(rnd, s, 2, 3, 3)
		s.Flush, s.Class = broker.AsyncFlush, ha.ClassReceived
		s.NotCatchup = 15 * time.Second
	},
	Faults: func(c *Cast) []*sim.Fault {
		when := c.Between(3*time.Second, 6*time.Second)
		out := []*sim.Fault{Strike(sim.PowerLoss, when, c.Drawn(time.Second, 6*time.Second), "@master/a")}
		for k := 1; k < c.Setup.Replicas; k++ {
			out = append(out, Strike(sim.PowerLoss, when, c.Drawn(time.Second, 6*time.Second), fmt.Sprintf("@slave/a/%d", k-1)))
		}
		out[c.Rnd.Intn(len(out))].For = int64(c.Drawn(25*time.Second, 35*time.Second))
		return out
	},
	Chaos: int64(70 * time.Second),
	Least: checker.Activity{Before: 20, After: 20},
	Assertions: []Assertion{
		{"down while one is missing", "nobody leads before every member has registered again", func(r *Run) string {
			e, ok := r.Judge.First(event.Serving, func(e event.Event) bool { return e.Group == GroupName(0) && e.At > r.Judge.FirstFault })
			if !ok {
				return "nobody led after the blackout"
			}
			missing, last := r.lastBack()
			if last == 0 {
				return fmt.Sprintf("broker %d leads, broker %d had not come back", e.Broker, missing)
			}
			if e.At < last {
				return fmt.Sprintf("broker %d led at %s, the last member registered at %s", e.Broker, at(e.At), at(last))
			}
			return ""
		}},
		{"the missing are named", "while it is down the controllers say for whom they wait", func(r *Run) string {
			missing, back := r.lastBack()
			if _, ok := r.Judge.First(event.ElectionFailed, func(e event.Event) bool {
				_, waits, _ := strings.Cut(e.Text, "waiting for ")
				return e.At > r.Judge.FirstFault && e.At < back && slices.Contains(strings.FieldsFunc(waits, func(c rune) bool { return c < '0' || c > '9' }), fmt.Sprint(missing))
			}); !ok {
				return fmt.Sprintf("no failed election says that broker %d is waited for, which was back at %s", missing, at(back))
			}
			return ""
		}},
		{"longest log of all leads", "the election is by the rule for a group that is back as a whole, and counted as unclean", func(r *Run) string {
			s, _ := r.Judge.First(event.Serving, func(e event.Event) bool { return e.Group == GroupName(0) && e.At > r.Judge.FirstFault })
			e, ok := r.Judge.First(event.Elected, func(e event.Event) bool { return e.Group == s.Group && e.Epoch == s.Epoch })
			if ok && e.Text != "all-back" {
				return fmt.Sprintf("broker %d was elected %s", e.Broker, e.Text)
			}
			mine, _ := r.lastStart(e.Broker, e.At)
			if x := r.greatestLog(e.At); ok && (x.Epoch != mine.Epoch || x.Off != mine.Off) {
				return fmt.Sprintf("broker %d was elected, the log of broker %d ends at %d in epoch %d", e.Broker, x.Broker, x.Off, x.Epoch)
			}
			return ""
		}},
		{"loss is what the power took", "every lost message had no copy left but those that the power loss took", func(r *Run) string {
			if c := r.Judge.Ledger.Counts; c.Lost != c.LossAllowed {
				return fmt.Sprintf("%d lost, %d allowed", c.Lost, c.LossAllowed)
			}
			return ""
		}},
	},
}

// lastBack is who was the last of group a to register after the first fault, and when;
// 0 for one that never did.
func (r *Run) lastBack() (missing ha.BrokerID, back int64) {
	for id := ha.BrokerID(1); int(id) <= r.Setup.Replicas; id++ {
		x, ok := r.Judge.First(event.BrokerRegistered, func(x event.Event) bool { return ofBroker(id)(x) && x.At > r.Judge.FirstFault })
		if !ok {
			return id, 0
		}
		if x.At > back {
			missing, back = id, x.At
		}
	}
	return missing, back
}

// lastStart is the newest start of a broker of group a between the first fault and an
// instant.
func (r *Run) lastStart(id ha.BrokerID, by int64) (last event.Event, ok bool) {
	for i := range r.Judge.Events {
		if e := &r.Judge.Events[i]; e.Kind == event.Started && e.Broker == id && e.Group == GroupName(0) && e.At > r.Judge.FirstFault && e.At <= by {
			last, ok = *e, true
		}
	}
	return last, ok
}

// greatestLog is the newest start of the broker of group a whose log was the greatest,
// by last epoch and end, of all that had started again by then.
func (r *Run) greatestLog(by int64) (best event.Event) {
	for id := ha.BrokerID(1); int(id) <= r.Setup.Replicas; id++ {
		last, _ := r.lastStart(id, by)
		if last.Epoch > best.Epoch || last.Epoch == best.Epoch && last.Off > best.Off {
			best = last
		}
	}
	return best
}

// controllerAmnesia wipes every controller while the brokers remember epochs.
var controllerAmnesia = &Drill{
	ID: "P-controller-amnesia", Name: "controller-amnesia",
	Story: "All controllers lose their data while the brokers hold epoch 2 or more, and a laggard is the first to come to the new ones. A group whose brokers report epochs is no new group: nobody is elected before all replicas are there, then the best log leads, above every epoch ever seen (P17).",
	Pin: func(rnd *prng.Source, s *Setup) {
		trio(rnd, s, 3)
		s.NotCatchup = pick(rnd, 3*time.Second, 8*time.Second)
		s.Flush, s.Class = broker.SyncFlush, ha.ClassDurable
	},
	Begin: func(r *Run) { r.stage("amnesia", r.amnesia) },
	Faults: func(c *Cast) []*sim.Fault {
		return []*sim.Fault{
			Strike(sim.CrashExit, c.Between(2*time.Second, 3*time.Second), 6*time.Second, "@master/a"),
			Stage("amnesia", At(34*time.Second), c.Drawn(12*time.Second, 20*time.Second), 0),
		}
	},
	Chaos: int64(90 * time.Second),
	Least: checker.Activity{Before: 20, After: 20, Marks: []string{"amnesia"}},
	Assertions: []Assertion{
		{"no election before all are there", "the laggard leads nothing: the first election of the new controllers follows the last registration", func(r *Run) string {
			e, ok := r.electionAfter(r.stamp("amnesia"))
			if !ok {
				return "nobody was elected"
			}
			seen := map[ha.BrokerID]bool{}
			for i := range r.Judge.Events {
				x := &r.Judge.Events[i]
				if x.Kind == event.BrokerRegistered && x.At > r.stamp("amnesia") && x.At <= e.At {
					seen[x.Broker] = true
				}
			}
			if len(seen) < r.Setup.Replicas {
				return fmt.Sprintf("broker %d was elected at %s when %d of %d replicas had registered", e.Broker, at(e.At), len(seen), r.Setup.Replicas)
			}
			return ""
		}},
		{"above every epoch seen", "the new epoch is higher than every one before the loss", func(r *Run) string {
			e, ok := r.electionAfter(r.stamp("amnesia"))
			for i := range r.Judge.Events {
				if x := &r.Judge.Events[i]; ok && x.Kind == event.Elected && x.At < r.stamp("amnesia") && x.Epoch >= e.Epoch {
					return fmt.Sprintf("epoch %d is elected after epoch %d", e.Epoch, x.Epoch)
				}
			}
			return ""
		}},
		{"the laggard does not lead", "the replica that was away is not the first master", func(r *Run) string {
			if e, ok := r.electionAfter(r.stamp("amnesia")); ok && e.Broker == r.victim {
				return fmt.Sprintf("broker %d, which lacks the newest messages, was elected", e.Broker)
			}
			return ""
		}},
		{"identities are kept", "every broker keeps the id it had", func(r *Run) string {
			for i := range r.Judge.Events {
				x := &r.Judge.Events[i]
				if x.Kind == event.BrokerRegistered && x.At > r.stamp("amnesia") && int(x.Broker) > r.Setup.Replicas {
					return fmt.Sprintf("broker id %d was given out anew", x.Broker)
				}
			}
			return ""
		}},
		noLoss,
	},
}

// amnesia takes a slave away long enough to lag, then the other brokers and the
// data of every controller; the laggard comes back first.
func (r *Run) amnesia(f *sim.Fault) {
	b := r.aim(r.one("@slave/a/0"))
	rest := others(r.resolve("@brokers/a"), b)
	away := r.strike(sim.CrashExit, 12*time.Second, b)
	r.after(11*time.Second, func() {
		r.note("amnesia")
		r.mark("amnesia")
		r.strike(sim.CrashSilent, time.Duration(f.For), rest...)
		r.strike(sim.WipeDisk, 300*time.Millisecond, r.resolve("@controllers")...)
		r.Truth.forgotten()
		r.Judge.Invariants.Forgotten = true
		r.World.EndFault(away)
	})
}

// expiredPrefix keeps a slave away until retention has passed it.
var expiredPrefix = &Drill{
	ID: "P-expired-prefix-bootstrap", Name: "expired-prefix-bootstrap",
	Story: "A slave is away until the master's retention has removed the log it would need. It is told so, rebuilds from the master's first byte, and finds topics and groups in the metadata checkpoint that the log itself carries; then it leads and serves the topic nobody creates again (M3, P19).",
	Pin: func(rnd *prng.Source, s *Setup) {
		trio(rnd, s, 2, 3)
		s.Min = pick(rnd, 1, 2)
		if s.Replicas == 2 {
			s.Min = 1
		}
		s.SegmentBytes, s.BodyBytes, s.Rate = 64<<10, 2048, 100
		s.Reserved = 8 * time.Second
		s.NotCatchup = pick(rnd, 3*time.Second, 8*time.Second)
		s.Flush, s.Class = broker.SyncFlush, ha.ClassDurable
	},
	Broker: func(_ *Run, _ sim.Life, o *broker.Options) {
		o.CleanResourceInterval, o.RetentionWait = time.Second, 2*time.Second
	},
	Begin: func(r *Run) { r.stage("outlived", r.outlived) },
	Faults: func(c *Cast) []*sim.Fault {
		return []*sim.Fault{Stage("outlived", c.Between(2*time.Second, 4*time.Second), c.Drawn(22*time.Second, 28*time.Second), c.Rnd.Between(0, 2))}
	},
	Chaos: int64(85 * time.Second),
	Least: checker.Activity{Before: 20, After: 20, Marks: []string{"passed", "rebuilt leads"}},
	Assertions: []Assertion{
		{"told that it is out of range", "the slave learns that the master's log begins behind its own end, and says that it rebuilds", func(r *Run) string {
			e, ok := r.Judge.First(event.RebuildNeeded, func(e event.Event) bool { return e.Node == r.victimNode && e.At > r.stamp("passed") })
			if !ok {
				return "it never said that it needs a rebuild"
			}
			_ = e
			return ""
		}},
		{"starts at a segment boundary", "the rebuilt log begins at a segment of the master's, not at zero", func(r *Run) string {
			if m := r.Truth.MinOffset(GroupName(0), r.victim); m == 0 || int64(m)%r.Setup.SegmentBytes != 0 {
				return fmt.Sprintf("it begins at %d", m)
			}
			return ""
		}},
		{"a checkpoint is kept", "the first segments left on the master hold a complete metadata checkpoint: the rebuilt replica knows the topic", func(r *Run) string {
			e, ok := r.electionAfter(r.stamp("rebuilt leads"))
			if ok && r.acknowledgedIn(e.Epoch) == 0 {
				return fmt.Sprintf("nothing was acknowledged in epoch %d", e.Epoch)
			}
			return ""
		}},
		{"the rebuilt replica leads", "with the others away it is elected and serves", func(r *Run) string {
			e, ok := r.electionAfter(r.stamp("rebuilt leads"))
			if !ok || e.Broker != r.victim {
				return fmt.Sprintf("broker %d was elected, broker %d had rebuilt", e.Broker, r.victim)
			}
			return ""
		}},
		noLoss,
	},
}

// outlived keeps a slave away until it is passed, waits for it in the set and then
// takes the others away.
func (r *Run) outlived(f *sim.Fault) {
	b := r.aim(r.one("@slave/a/0"))
	end := r.brokerAt(b).Status().End
	r.strike(pickKind(f.Arg), time.Duration(f.For), b)
	r.on(event.Expired, func(e event.Event) bool {
		return isBroker(e.Node) && e.Node != b && e.Off > end+ha.LogOffset(r.Setup.SegmentBytes)
	}, func(event.Event) {
		r.mark("passed")
		r.note("passed")
		r.on(event.SetAltered, setWith(r.victim), func(event.Event) {
			r.after(3*time.Second, func() {
				r.mark("rebuilt leads")
				r.note("rebuilt leads")
				r.strike(sim.CrashSilent, 25*time.Second, others(r.resolve("@brokers/a"), b)...)
			})
		})
	})
}
