package scenarios

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockstep/checker"
	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/internal/prng"
	"lockstep/node"
	"lockstep/node/broker"
	"lockstep/sim"
)

var _ = register(randomWorld)

// randomWorld is what a long sweep runs most: any setup, any faults within the budget.
var randomWorld = &Drill{
	ID: "R", Name: "random-world", Vacant: true,
	Story: "A drawn world and two to six drawn troubles of every kind: processes, disks, networks of all shapes, clocks; at drawn times, at the k-th moment of a protocol step, inside a disk operation, or as a swizzle that stops nodes one by one and starts them in another order. In some worlds messages expire while replicas are away. Only the victims of the era lose bytes; afterwards an operator replaces what was damaged, and everything must be there.",
	Pin:   randomSetup,
	Broker: func(r *Run, _ sim.Life, o *broker.Options) {
		if r.Setup.Reserved > 0 {
			o.CleanResourceInterval, o.RetentionWait = time.Second, 2*time.Second
		}
	},
	Begin: func(r *Run) {
		r.World.SetEra(&sim.Era{Victims: r.victims(), PowerLoss: r.Setup.Class == ha.ClassReceived})
		for _, f := range r.Plan.Faults {
			if text, ok := strings.CutPrefix(f.Text, stagePrefix+"on "); ok {
				r.stage("on "+text, func(f *sim.Fault) { r.armed(f, text) })
			}
		}
		r.stage("repair", func(*sim.Fault) { r.repair() })
	},
	Faults: randomFaults,
	Least:  checker.Activity{Before: 10, After: 10},
	Rare: []string{"log cut", "set change refused", "confirm frozen", "lease expired", "nobody electable", "elected from the retained",
		"elected when all were back", "disk replaced", "rebuild needed"},
	Assertions: []Assertion{
		noLoss,
		{"loss is the ledger's", "what is lost is exactly what policy and faults allow", func(r *Run) string {
			if c := r.Judge.Ledger.Counts; c.Lost != c.LossAllowed {
				return fmt.Sprintf("%d lost, %d allowed", c.Lost, c.LossAllowed)
			}
			return ""
		}},
		{"within the budget", "only victims of the era lost bytes", func(r *Run) string {
			if !r.Setup.All {
				return moot
			}
			for _, e := range r.Judge.Timeline {
				kind, rest, _ := strings.Cut(e.What, " ")
				if !sim.FaultKind(kind).Destructive() {
					continue
				}
				for _, n := range strings.Split(strings.TrimSuffix(rest, " ends"), ",") {
					if !slices.Contains(r.victims(), n) {
						return fmt.Sprintf("%s at %.3fs", e.What, e.At)
					}
				}
			}
			return ""
		}},
	},
}

// victims are the replicas that may lose bytes in this run: one less than the floor in
// each group, fixed for the whole run.
func (r *Run) victims() []string { return r.Setup.victims() }

func (s *Setup) victims() (out []string) {
	for g := range s.Groups {
		for k := range min(s.Min, s.Replicas) - 1 {
			// The last ones by name: no role favours them for long.
			out = append(out, BrokerNode(g, s.Replicas-1-k))
		}
	}
	return out
}

// randomChaos is how long the faults of a random world last.
const randomChaos = 60 * time.Second

// randomSetup makes some worlds forget: what replicas miss while they are away may
// have expired when they are back.
func randomSetup(rnd *prng.Source, s *Setup) {
	if !rnd.Chance(1, 6) {
		return
	}
	s.Reserved = pick(rnd, 6*time.Second, 8*time.Second, 12*time.Second)
	s.SegmentBytes, s.BodyBytes, s.Rate, s.Groups = 64<<10, 2048, 50, 1
}

// randomFaults draws the plan: troubles, and the operator at the end.
func randomFaults(c *Cast) []*sim.Fault {
	d := &troubles{Cast: c}
	if d.storm = c.Rnd.Chance(1, 3); d.storm {
		d.begin = c.Drawn(time.Second, 30*time.Second)
	}
	for range c.Rnd.Between(2, 6) {
		d.draw()
	}
	if !slices.ContainsFunc(d.out, certain) {
		d.process()
	}
	return append(d.out, Stage("repair", At(randomChaos-2*time.Second), 0, 0))
}

// armed waits for the step and strikes.
func (r *Run) armed(f *sim.Fault, text string) {
	words := strings.Fields(text)
	delay, _ := strconv.ParseInt(words[1], 10, 64)
	step, _ := strconv.Atoi(words[2])
	kind, target := sim.FaultKind(words[3]), words[4]
	match := func(e event.Event) bool { return e.Kind.String() == words[0] && e.Node != "" && r.Healed == 0 }
	for _, k := range moments {
		if k.String() != words[0] {
			continue
		}
		left := f.Arg
		r.each(k, func(e event.Event) bool { return left > 0 && match(e) }, func(e event.Event) {
			if left--; left < 0 {
				return
			}
			r.after(time.Duration(delay), func() {
				r.strikeAt(e.Node, target, &sim.Fault{Kind: kind, For: f.For, When: sim.Trigger{DiskStep: step}})
			})
		})
	}
}

// strikeAt injects a fault at the node of an event or at the controllers' leader,
// unless the time for faults is over.
func (r *Run) strikeAt(node, target string, f *sim.Fault) {
	if r.Healed > 0 {
		return
	}
	if target == "@leader" {
		node = r.one("@leader")
	}
	if node == "" {
		return
	}
	f.Nodes = []string{node}
	f.When.At = r.World.Now()
	if err := r.World.Inject(f); err != nil {
		r.fail("plan", "stale", "%s: %v", f.Kind, err)
	}
}

// repair is the operator at the end: every victim whose store was damaged or says
// that it is gets an empty disk, with its identity if it still has one.
func (r *Run) repair() {
	for _, n := range r.victims() {
		if !r.damaged(n) {
			continue
		}
		r.mark("disk replaced")
		r.reinstall(n, 300*time.Millisecond)
	}
}

// damaged reports whether a fault touched what a node's disk held, or its store gave up.
func (r *Run) damaged(name string) bool {
	for _, e := range r.Judge.Timeline {
		kind, rest, _ := strings.Cut(e.What, " ")
		if k := sim.FaultKind(kind); (k == sim.DiskRot || k == sim.DiskLies || k == sim.DiskSyncDrop || k == sim.DiskEIO || k == sim.DiskReadOnly) && strings.HasPrefix(rest, name) {
			return true
		}
	}
	for _, l := range r.Judge.Lives {
		if l.Node == name && (l.Code == node.ExitSuspect || l.Phase == sim.Refused) {
			return true
		}
	}
	return false
}
