package scenarios

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/internal/prng"
	"lockstep/node/controller"
	"lockstep/sim"
)

// A drill whose faults depend on each other is written as stages: the plan holds
// one action a stage, with its time, length and argument, and the stage, when it
// fires, waits for events and injects the rest. A replayed plan so meets the same
// code with the same numbers.

// stagePrefix marks the actions that Begin registers with stage.
const stagePrefix = "do:"

// Stage is the plan entry of a stage. lasts and arg are the stage's to use.
func Stage(name string, when sim.Trigger, lasts time.Duration, arg int64) *sim.Fault {
	return &sim.Fault{Kind: sim.Action, When: when, For: int64(lasts), Arg: arg, Text: stagePrefix + name}
}

// stage registers what the plan's stage does.
func (r *Run) stage(name string, do func(f *sim.Fault)) {
	r.World.Handle(stagePrefix+name, do)
}

// hook waits for an event.
type hook struct {
	kind  event.Kind
	match func(e event.Event) bool
	do    func(e event.Event)
	every bool
}

// lifeHook waits for a step of a node's life.
type lifeHook struct {
	node  string
	phase sim.Phase
	do    func(l sim.LifeChange)
}

// hooks is the observer behind on and onLife. What a hook does happens after the
// batch in which its event was seen, at the same instant.
type hooks struct {
	sim.Deaf
	r     *Run
	list  []*hook
	lives []*lifeHook
}

func (r *Run) observed() *hooks {
	if r.hooks == nil {
		r.hooks = &hooks{r: r}
		r.World.Observe(r.hooks)
	}
	return r.hooks
}

// OnEvent fires the hooks that wait for the event.
func (h *hooks) OnEvent(e event.Event) {
	keep := h.list[:0]
	for _, x := range h.list {
		if x.kind != e.Kind || x.match != nil && !x.match(e) {
			keep = append(keep, x)
			continue
		}
		h.r.World.At(h.r.World.Now(), func() { x.do(e) })
		if x.every {
			keep = append(keep, x)
		}
	}
	h.list = keep
}

// OnLife fires the hooks that wait for a life.
func (h *hooks) OnLife(l sim.LifeChange) {
	keep := h.lives[:0]
	for _, x := range h.lives {
		if x.node != l.Node || x.phase != l.Phase {
			keep = append(keep, x)
			continue
		}
		h.r.World.At(h.r.World.Now(), func() { x.do(l) })
	}
	h.lives = keep
}

// on does something once, at the next event of the kind that matches.
func (r *Run) on(kind event.Kind, match func(e event.Event) bool, do func(e event.Event)) {
	h := r.observed()
	h.list = append(h.list, &hook{kind: kind, match: match, do: do})
}

// each does something at every event of the kind that matches.
func (r *Run) each(kind event.Kind, match func(e event.Event) bool, do func(e event.Event)) {
	h := r.observed()
	h.list = append(h.list, &hook{kind: kind, match: match, do: do, every: true})
}

// onLife does something once, when the node next takes that step.
func (r *Run) onLife(node string, phase sim.Phase, do func(l sim.LifeChange)) {
	h := r.observed()
	h.lives = append(h.lives, &lifeHook{node: node, phase: phase, do: do})
}

// after does something d from now.
func (r *Run) after(d time.Duration, do func()) { r.World.At(r.World.Now()+int64(d), do) }

// within is a limit of milliseconds, widened by what the world itself may be late.
func (r *Run) within(d time.Duration) int64 { return int64(d + r.World.Slack()) }

// mark notes that the run reached a named state; Least may demand it.
func (r *Run) mark(name string) { r.Judge.Marks[name]++ }

// inject makes a fault happen now. A drill's stage counts on it: one that the world
// does not know or refuses makes the plan stale.
func (r *Run) inject(f *sim.Fault) *sim.Fault {
	f.When = sim.Trigger{At: r.World.Now()}
	switch err := r.World.Inject(f); {
	case err != nil:
		r.fail("plan", "stale", "%s: %v", f.Kind, err)
	case f.Refused != "":
		r.fail("plan", "stale", "%s %s: %s", f.Kind, f.Target(), f.Refused)
	}
	return f
}

// strike injects a fault of processes, disks or clocks now.
func (r *Run) strike(kind sim.FaultKind, lasts time.Duration, nodes ...string) *sim.Fault {
	return r.inject(&sim.Fault{Kind: kind, Nodes: nodes, For: int64(lasts)})
}

// sever cuts both ways between two sides now.
func (r *Run) sever(kind sim.FaultKind, lasts time.Duration, left, right []string) *sim.Fault {
	return r.inject(&sim.Fault{Kind: kind, Shape: sim.Split, Sides: [][]string{left, right}, For: int64(lasts)})
}

// one is the node that plays a role now, "" when none does.
func (r *Run) one(role string) string {
	if n := r.resolve(role); len(n) > 0 {
		return n[0]
	}
	return ""
}

// idOf is the broker id of a node.
func (r *Run) idOf(node string) ha.BrokerID { return r.Truth.ID(node) }

// member is what the committed record says of the node's broker.
func (r *Run) member(node string) (controller.Member, bool) {
	rec := r.Truth.refresh(groupOf(node))
	id := r.idOf(node)
	for i := range rec.Members {
		if rec.Members[i].ID == id {
			return rec.Members[i], true
		}
	}
	return controller.Member{}, false
}

// ofBroker matches events about a broker of group a.
func ofBroker(id ha.BrokerID) func(e event.Event) bool {
	return func(e event.Event) bool { return e.Group == GroupName(0) && e.Broker == id }
}

// setWith matches events of group a whose set names the broker.
func setWith(id ha.BrokerID) func(e event.Event) bool {
	return func(e event.Event) bool { return groupIs(e, 0) && e.Set.Has(id) }
}

// groupIs reports whether an event of a controller or a broker concerns group g.
func groupIs(e event.Event, g int) bool {
	if e.Group != "" {
		return e.Group == GroupName(g)
	}
	return isBroker(e.Node) && groupOf(e.Node) == GroupName(g)
}

// at prints an instant of the run.
func at(nanos int64) string { return fmt.Sprintf("%.3fs", float64(nanos)/1e9) }

// aim makes a node the one that the drill is about.
func (r *Run) aim(node string) string {
	r.victim, r.victimNode = r.idOf(node), node
	return node
}

// electedWithout finds an election of the broker between from and the next set
// that names it: a life that had not joined was elected.
func (r *Run) electedWithout(group string, id ha.BrokerID, from int64) string {
	for i := range r.Judge.Events {
		e := &r.Judge.Events[i]
		if e.At < from || e.Group != group {
			continue
		}
		switch {
		case e.Kind == event.SetAltered && e.Set.Has(id):
			return ""
		case e.Kind == event.Elected && e.Broker == id && e.Text != "all-back":
			return fmt.Sprintf("broker %d is elected (%s) at %s without having joined since %s", id, e.Text, at(e.At), at(from))
		}
	}
	return ""
}

// electionAfter is the first election of group a from then on.
func (r *Run) electionAfter(from int64) (event.Event, bool) {
	return r.Judge.First(event.Elected, func(e event.Event) bool { return e.Group == GroupName(0) && e.At >= from })
}

// acknowledgedIn counts the sends acknowledged in an epoch of group a.
func (r *Run) acknowledgedIn(epoch ha.MasterEpoch) int {
	return r.Judge.AcksBy[fmt.Sprintf("%s/%d", GroupName(0), epoch)]
}

// trio pins one group of three (or two) under all-in-sync with a floor of two, the
// configuration that the protocol's rules are about.
func trio(rnd *prng.Source, s *Setup, replicas ...int) {
	s.Groups, s.Controllers, s.All, s.Min, s.Throttle = 1, 3, true, 2, 0
	s.Replicas = pick(rnd, replicas...)
}

// noLoss is the clause every rule of the protocol shares. Fewer copies than all in
// sync promise less: what they lose is the ledger's to allow.
var noLoss = Assertion{"nothing acknowledged is lost", "what all members in sync acknowledged is in the log of every later master; of fewer copies only what the ledger allows is gone", func(r *Run) string {
	if c := r.Judge.Ledger.Counts; c.Lost > 0 && (r.Setup.All || c.Lost != c.LossAllowed) {
		return fmt.Sprintf("%d lost, %d of them allowed", c.Lost, c.LossAllowed)
	}
	return ""
}}

// others are the nodes of a list without some.
func others(list []string, without ...string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(n string) bool { return slices.Contains(without, n) })
}

// storeOf is the store part of an incarnation's text, "id@store/boot".
func storeOf(incarnation string) (store string, boot int) {
	_, rest, _ := strings.Cut(incarnation, "@")
	store, text, _ := strings.Cut(rest, "/")
	fmt.Sscanf(text, "%d", &boot)
	return store, boot
}
