package scenarios

import (
	"fmt"
	"strings"
	"time"

	"lockstep/checker"
	"lockstep/internal/event"
	"lockstep/internal/prng"
	"lockstep/node/broker"
	"lockstep/sim"
)

var _ = register(startUp)

// startUp holds a master-to-be at every step of its way to being writable.
var startUp = &Drill{
	ID: "C2", Name: "start-up",
	Story: "A broker starts fenced. One master-to-be knows its role and gets no lease, another has its lease and its disk does not finish the barrier. Ready and writable are two answers, and at every step each says exactly what its conditions say; nothing is acknowledged before the last holds.",
	Pin: func(rnd *prng.Source, s *Setup) {
		s.Groups, s.Replicas, s.Controllers, s.Throttle = 1, 3, 3, 0
		s.Lease = pick(rnd, broker.LeaseRequired, broker.LeaseRequired, broker.LeaseOff)
		s.Min = pick(rnd, 1, 2)
	},
	Begin: func(r *Run) {
		r.sampleConditions()
		r.stage("no-lease", func(f *sim.Fault) {
			r.on(event.PromotionBegun, ofBroker0, func(e event.Event) {
				r.inject(&sim.Fault{Kind: sim.Cut, Shape: sim.Away, Sides: [][]string{r.resolve("@controllers"), {e.Node}}, For: f.For})
			})
			r.next(f)
		})
		r.stage("slow-store", func(f *sim.Fault) {
			r.on(event.PromotionBegun, ofBroker0, func(e event.Event) { r.strike(sim.DiskStall, time.Duration(f.For), e.Node) })
			r.next(f)
		})
	},
	Faults: func(c *Cast) []*sim.Fault {
		first, second := "no-lease", "slow-store"
		if c.Rnd.Chance(1, 2) {
			first, second = second, first
		}
		return []*sim.Fault{
			Stage(first, sim.Trigger{At: 1}, c.Drawn(2*time.Second, 4*time.Second), 0),
			Stage(second, c.Between(2*time.Second, 5*time.Second), c.Drawn(2*time.Second, 4*time.Second), 1),
		}
	},
	Chaos: int64(60 * time.Second),
	Least: checker.Activity{After: 20, Marks: []string{"role without lease", "promotion without its store"}},
	Assertions: []Assertion{
		{"readiness against writability at each step", "the two answers are the conjunctions of their conditions, a slave is ready and not writable, a broker without role is neither", func(r *Run) string { return r.sampled.wrong }},
		{"role known but lease missing", "a master without a required lease is ready and not writable, and names the lease", func(r *Run) string {
			if r.sampled.unleased == "" && r.Setup.Lease == broker.LeaseRequired && r.Judge.Marks["role without lease"] > 0 {
				return "no sample names the lease as what is missing"
			}
			if r.Setup.Lease != broker.LeaseRequired {
				return moot
			}
			return r.sampled.early
		}},
		{"lease but store not promotable", "a lease that arrives before the barrier is durable makes nothing writable", func(r *Run) string {
			for i := range r.Judge.Events {
				e := &r.Judge.Events[i]
				if e.Kind != event.Writable {
					continue
				}
				if s, ok := r.Judge.First(event.Serving, func(s event.Event) bool { return s.Node == e.Node && s.Epoch == e.Epoch }); !ok || s.At > e.At {
					return fmt.Sprintf("%s is writable in epoch %d at %s and serves it only later", e.Node, e.Epoch, at(e.At))
				}
			}
			return ""
		}},
		{"handlers refuse until ready", "requests that come before the broker is ready are refused with a code, and none is acknowledged", func(r *Run) string {
			for i := range r.Judge.AckLog {
				a := &r.Judge.AckLog[i]
				if s, ok := r.Judge.First(event.Writable, func(s event.Event) bool { return s.Node == a.Node && s.Epoch == a.Epoch }); !ok || s.At > a.At {
					return fmt.Sprintf("%s acknowledged at %s in epoch %d before it was writable", a.Node, at(a.At), a.Epoch)
				}
			}
			return ""
		}},
		noLoss,
	},
}

// ofBroker0 matches events that brokers of group a emit.
func ofBroker0(e event.Event) bool { return isBroker(e.Node) && groupOf(e.Node) == GroupName(0) }

// next makes somebody else the master, unless the first one is only being chosen.
func (r *Run) next(f *sim.Fault) {
	if f.Arg == 1 {
		r.strike(sim.CrashExit, 25*time.Second, r.one("@master/a"))
	}
}

// sampled is what the samples of C2 showed.
type sampled struct {
	wrong    string // first inconsistency
	early    string // writable without a lease
	unleased string // a sample that names the lease
}

// conditionPeriod is the time between two samples of conditions.
const conditionPeriod = 20 * time.Millisecond

// sampleConditions looks at every broker's conditions all the time.
func (r *Run) sampleConditions() {
	for i := range r.Setup.Replicas {
		if b := r.brokerAt(BrokerNode(0, i)); b != nil {
			r.sample(BrokerNode(0, i), b)
		}
	}
	r.after(conditionPeriod, r.sampleConditions)
}

// sample checks one broker's two answers against its conditions.
func (r *Run) sample(node string, b *broker.Broker) {
	ready, writable := true, true
	var missing []string
	ok := map[string]bool{}
	for _, c := range b.Conditions() {
		ready = ready && (c.OK || !c.Ready)
		writable = writable && (c.OK || !c.Writable)
		ok[c.Name] = c.OK
		if !c.OK {
			missing = append(missing, c.Name)
		}
	}
	st := b.Status()
	names := strings.Join(missing, ",")
	note := func(format string, args ...any) {
		if r.sampled.wrong == "" {
			r.sampled.wrong = fmt.Sprintf("%s at %s: ", node, at(r.World.Now())) + fmt.Sprintf(format, args...) + " (missing: " + names + ")"
		}
	}
	switch {
	case writable != st.Writable:
		note("its conditions say writable=%v, it admits=%v", writable, st.Writable)
	case writable && !ready:
		note("it is writable and not ready")
	case st.Role == "slave" && writable:
		note("a slave is writable")
	case st.Role == "none" && ready:
		note("it has no role and is ready")
	case st.Self.Broker <= 0 && ready:
		note("it has no identity and is ready")
	}
	if !ok["lease"] && st.Writable {
		r.sampled.early = fmt.Sprintf("%s was writable without a lease at %s", node, at(r.World.Now()))
	}
	if st.Serving && !ok["lease"] {
		r.mark("role without lease")
		if ready && len(missing) > 0 {
			r.sampled.unleased = names
		}
	}
	if st.Serving && r.Setup.Lease != broker.LeaseRequired {
		r.mark("role without lease") // none is needed: the step does not exist
	}
	if strings.HasPrefix(st.Role, "master in promotion") && ok["store"] && st.Durable < st.End {
		r.mark("promotion without its store")
	}
}
