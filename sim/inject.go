package sim

import (
	"fmt"
	"slices"

	"lockstep/internal/event"
	"lockstep/internal/invariant"
)

// atom is a fault at one node, or on the way from one node to another.
type atom struct {
	fault *Fault
	a, b  int // b is -1 for a node
}

// atoms expands a fault into what it does to each of its targets.
func (w *World) atoms(f *Fault) []atom {
	var out []atom
	if !f.Kind.Network() {
		for _, name := range f.Nodes {
			out = append(out, atom{f, w.byName[name].index, -1})
		}
		return out
	}
	for _, p := range f.Pairs() {
		out = append(out, atom{f, w.byName[p[0]].index, w.byName[p[1]].index})
	}
	return out
}

// schedule makes a fault of the plan wait for its trigger.
func (w *World) schedule(i int) {
	f := w.faults[i]
	if f.When.Kind == event.None {
		w.heap.push(f.When.At+f.When.Delay, evFault, 0, uint32(i))
		return
	}
	w.watching = append(w.watching, watch{index: i})
}

// watch is a fault that waits for an event.
type watch struct {
	index, seen int
}

// trigger counts an event against the faults that wait for it. It reports
// whether one of them kills the node at once, in the middle of the batch.
func (w *World) trigger(n *host, e *event.Event) (kills bool) {
	if len(w.watching) == 0 {
		return false
	}
	keep := w.watching[:0]
	for _, x := range w.watching {
		f := w.faults[x.index]
		t := &f.When
		if t.Kind != e.Kind || t.Node != "" && t.Node != e.Node || t.Text != "" && t.Text != e.Text {
			keep = append(keep, x)
			continue
		}
		if x.seen++; x.seen < t.K {
			keep = append(keep, x)
			continue
		}
		if t.Delay > 0 {
			w.heap.push(w.now+t.Delay, evFault, 0, uint32(x.index))
			continue
		}
		w.due = append(w.due, f)
		kills = kills || f.Kind.kills() && t.DiskStep == 0 && slices.Contains(f.Nodes, n.spec.Name)
	}
	w.watching = keep
	return kills
}

// kills reports whether the fault ends a process at once.
func (k FaultKind) kills() bool {
	return k == CrashExit || k == CrashSilent || k == PowerLoss || k == WipeDisk
}

// lasts reports whether the fault has something to take back at its end.
func (k FaultKind) lasts() bool {
	switch k {
	case Start, WallStep, Reset, HalfOpen, DiskRot, Action:
		return false
	}
	return true
}

// fireDue fires the faults that the events of the last batch triggered.
func (w *World) fireDue() {
	for len(w.due) > 0 {
		f := w.due[0]
		w.due = w.due[1:]
		w.fire(f)
	}
	w.due = w.due[:0]
}

// fire makes a fault happen, or arms it for a file operation of its target.
func (w *World) fire(f *Fault) {
	if f.When.DiskStep > 0 && f.Fired == 0 {
		n := w.byName[f.Nodes[0]]
		if n.healed || n.armed != nil {
			f.Refused = "its node is healed or waits for another crash"
			return
		}
		n.armed = f
		if n.state == stateUp {
			n.disk.StopAfter(n.disk.OpCount() + uint64(f.When.DiskStep-1))
		}
		return
	}
	w.fireNow(f)
}

// fireNow makes a fault happen at each of its targets that may suffer it.
func (w *World) fireNow(f *Fault) {
	index := slices.Index(w.faults, f)
	if f.Kind == Action {
		do := w.handlers[f.Text]
		if do == nil {
			f.Refused = "no handler for action " + f.Text
			w.find(nil, "plan", f.Refused)
			return
		}
		w.mark(f, index, false)
		do(w, f)
		return
	}
	var may []atom
	for _, a := range w.atoms(f) {
		if why := w.forbids(a); why != "" {
			f.Refused = why
			continue
		}
		may = append(may, a)
	}
	if len(may) == 0 {
		return
	}
	w.mark(f, index, false)
	for _, a := range may {
		if f.Kind.lasts() {
			w.active = append(w.active, a)
		}
		w.apply(a, true)
	}
	if f.For > 0 {
		w.heap.push(w.now+f.For, evFaultEnd, 0, uint32(index))
	}
}

// forbids says why a target is spared: phase B, or the fault budget.
func (w *World) forbids(a atom) string {
	n := w.nodes[a.a]
	if n.healed && (a.b < 0 || w.nodes[a.b].healed) {
		return "healed"
	}
	if e := w.era; e != nil && a.b < 0 && e.spares(a.fault, n.spec.Name) {
		return n.spec.Name + " is outside the fault budget"
	}
	return ""
}

// mark records that a fault fired or ended.
func (w *World) mark(f *Fault, index int, ended bool) {
	b := uint64(0)
	if ended {
		f.Ended, b = true, 1
	} else if f.Fired == 0 {
		f.Fired = w.now + 1
	}
	w.step(nil, SubWorld, StepFault, uint64(index), b)
	for _, o := range w.observers {
		o.OnFault(f, ended)
	}
}

// endFault takes back what a fault still does.
func (w *World) endFault(f *Fault) {
	if f.Ended {
		return
	}
	w.mark(f, slices.Index(w.faults, f), true)
	var mine []atom
	keep := w.active[:0]
	for _, a := range w.active {
		if a.fault == f {
			mine = append(mine, a)
		} else {
			keep = append(keep, a)
		}
	}
	w.active = keep
	for _, a := range mine {
		w.apply(a, false)
	}
}

// Inject makes a fault fire now and returns what is wrong with it, if anything.
func (w *World) Inject(f *Fault) error {
	w.prepare()
	if err := w.checkFault(f); err != nil {
		return err
	}
	w.faults = append(w.faults, f)
	w.fire(f)
	w.settleOutside()
	return nil
}

// EndFault takes back a fault before its time.
func (w *World) EndFault(f *Fault) {
	invariant.That(slices.Contains(w.faults, f), "end of a fault the world does not know")
	w.endFault(f)
	w.settleOutside()
}

// checkFault says what is wrong with a fault in this world.
func (w *World) checkFault(f *Fault) error {
	if err := f.Validate(); err != nil {
		return err
	}
	names := slices.Clone(f.Nodes)
	for _, s := range f.Sides {
		names = append(names, s...)
	}
	if f.When.Node != "" {
		names = append(names, f.When.Node)
	}
	for _, name := range names {
		if w.byName[name] == nil {
			return fmt.Errorf("fault %s: no node named %q in this world", f.Kind, name)
		}
	}
	return nil
}
