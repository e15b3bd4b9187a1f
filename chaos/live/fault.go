package live

import (
	"fmt"
	"slices"

	"lockstep/internal/event"
	"lockstep/sim"
)

// atom is a fault at one node, or on the way from one node to another.
type atom struct {
	fault *sim.Fault
	a, b  *Node // b is nil for a node
}

func (w *World) atoms(f *sim.Fault) (out []atom) {
	if !f.Kind.Network() {
		for _, name := range f.Nodes {
			out = append(out, atom{f, w.node(name), nil})
		}
		return out
	}
	for _, p := range f.Pairs() {
		out = append(out, atom{f, w.node(p[0]), w.node(p[1])})
	}
	return out
}

// watch is a fault that waits for an event.
type watch struct {
	fault *sim.Fault
	seen  int
}

// schedule makes a fault of the plan wait for its trigger.
func (w *World) schedule(i int) {
	f := w.faults[i]
	if f.When.Kind == event.None {
		w.At(f.When.At+f.When.Delay, func() { w.fire(f) })
		return
	}
	w.watching = append(w.watching, watch{fault: f})
}

// trigger counts an event against the faults that wait for it. They fire after the
// batch.
func (w *World) trigger(e *event.Event) {
	keep := w.watching[:0]
	for _, x := range w.watching {
		t := &x.fault.When
		if t.Kind == e.Kind && (t.Node == "" || t.Node == e.Node) && (t.Text == "" || t.Text == e.Text) {
			if x.seen++; x.seen >= t.K {
				w.At(w.now+t.Delay, func() { w.fire(x.fault) })
				continue
			}
		}
		keep = append(keep, x)
	}
	w.watching = keep
}

// fire makes a fault happen, or arms it for a file operation of its target.
func (w *World) fire(f *sim.Fault) {
	if f.When.DiskStep == 0 || f.Fired != 0 {
		w.fireNow(f)
		return
	}
	n := w.node(f.Nodes[0])
	if n.healed || n.armed != nil {
		f.Refused = "its node is healed or waits for another crash"
		return
	}
	n.armed = f
	if n.state == stateUp {
		n.disk.obey()
		n.disk.shadow.StopAfter(n.disk.shadow.OpCount() + uint64(f.When.DiskStep-1))
	}
}

// crashInside ends a life in the middle of a disk operation, at the file operation
// that a fault chose.
func (w *World) crashInside(n *Node) {
	f := n.armed
	n.armed = nil
	w.fireNow(f)
}

// fireNow makes a fault happen at each of its targets that may suffer it.
func (w *World) fireNow(f *sim.Fault) {
	if f.Kind == sim.Action {
		do := w.handlers[f.Text]
		if do == nil {
			f.Refused = "no handler for action " + f.Text
			w.find("", "plan", f.Refused)
			return
		}
		w.mark(f, false)
		do(f)
		return
	}
	var may []atom
	for _, a := range w.atoms(f) {
		if a.healed() {
			f.Refused = "healed"
			continue
		}
		if a.b == nil && w.era.Spares(f, a.a.spec.Name) {
			f.Refused = a.a.spec.Name + " is outside the fault budget"
			continue
		}
		may = append(may, a)
	}
	if len(may) == 0 {
		return
	}
	w.mark(f, false)
	for _, a := range may {
		if f.Kind.Lasts() {
			w.active = append(w.active, a)
		}
		w.apply(a, true)
	}
	if f.For > 0 {
		w.At(w.now+f.For, func() { w.EndFault(f) })
	}
}

// healed reports whether no fault touches the target any more.
func (a atom) healed() bool { return a.a.healed && (a.b == nil || a.b.healed) }

// mark records that a fault fired or ended.
func (w *World) mark(f *sim.Fault, ended bool) {
	if ended {
		f.Ended = true
	} else if f.Fired == 0 {
		f.Fired = w.now + 1
	}
	if text := mapping[f.Kind]; text != "" {
		w.mapped[string(f.Kind)+": "+text] = true
	}
	for _, o := range w.observers {
		o.OnFault(f, ended)
	}
}

// EndFault takes back what a fault still does.
func (w *World) EndFault(f *sim.Fault) {
	if f.Ended {
		return
	}
	w.mark(f, true)
	var mine []atom
	w.active = slices.DeleteFunc(w.active, func(a atom) bool {
		if a.fault == f {
			mine = append(mine, a)
		}
		return a.fault == f
	})
	for _, a := range mine {
		w.apply(a, false)
	}
}

// Inject makes a fault fire now and returns what is wrong with it, if anything.
func (w *World) Inject(f *sim.Fault) error {
	w.prepare()
	if err := w.check(f); err != nil {
		return err
	}
	w.faults = append(w.faults, f)
	w.fire(f)
	return nil
}

// Heal begins the healed phase: faults at and between the nodes of core end, those
// that are down start, and nothing touches them any more.
func (w *World) Heal(core []string) {
	w.prepare()
	for _, name := range core {
		n := w.node(name)
		n.healed = true
		if n.armed != nil {
			n.armed.Refused, n.armed = "healed", nil
			n.disk.shadow.StopAfter(1<<64 - 1)
		}
	}
	var mine []atom
	w.active = slices.DeleteFunc(w.active, func(a atom) bool {
		if a.healed() {
			mine = append(mine, a)
		}
		return a.healed()
	})
	for _, a := range mine {
		w.apply(a, false)
	}
	for _, n := range w.nodes {
		if n.healed {
			w.start(n)
		}
	}
}

// check says what is wrong with a fault in this world.
func (w *World) check(f *sim.Fault) error {
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

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}
