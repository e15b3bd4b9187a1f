package sim

import (
	"fmt"
	"slices"
)

// Era is a fault budget: between two quiet points only its victims may suffer
// faults that can destroy what was durable, so that one good copy of every
// promise stays and a loss is a bug, never bad luck.
type Era struct {
	Victims []string
	// PowerLoss counts power losses among those faults: for groups whose
	// acknowledgements are only received.
	PowerLoss bool
}

// spares reports whether the fault may not hit the node in this era.
func (e *Era) spares(f *Fault, name string) bool {
	if !f.Kind.Destructive() && !(e.PowerLoss && f.Kind == PowerLoss) {
		return false
	}
	return !slices.Contains(e.Victims, name)
}

// Spares reports whether the fault may not hit the node in this era; a nil era
// spares nobody.
func (e *Era) Spares(f *Fault, name string) bool { return e != nil && e.spares(f, name) }

// SetEra begins an era; nil lifts the budget. The caller vouches that the world
// is at a quiet point.
func (w *World) SetEra(e *Era) { w.era = e }

// Heal begins phase B: faults at and between the nodes of core end, those that
// are down start, and no fault of the plan touches them any more. Everything
// else stays as it is.
func (w *World) Heal(core []string) {
	w.prepare()
	for _, name := range core {
		n := w.byName[name]
		if n == nil {
			w.find(nil, "plan", fmt.Sprintf("heal: no node named %q", name))
			return
		}
		n.healed = true
		if n.armed != nil {
			n.armed.Refused, n.armed = "healed", nil
			n.disk.StopAfter(1<<64 - 1)
		}
	}
	var mine []atom
	keep := w.active[:0]
	for _, a := range w.active {
		if w.nodes[a.a].healed && (a.b < 0 || w.nodes[a.b].healed) {
			mine = append(mine, a)
		} else {
			keep = append(keep, a)
		}
	}
	w.active = keep
	for _, a := range mine {
		w.apply(a, false)
	}
	for _, n := range w.nodes {
		if n.healed {
			w.start(n)
		}
	}
	w.settleOutside()
}

// Healed reports whether the node is in the core of phase B.
func (v Node) Healed() bool { return v.n.healed }
