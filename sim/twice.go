package sim

import (
	"fmt"
	"strings"
)

// StepLog keeps the steps of a run for comparison with another. Steps beyond
// Max are not kept; the rolling hash still covers them.
type StepLog struct {
	Max   int // 0 means maxLogSteps
	steps []Step
}

// maxLogSteps bounds a StepLog by default: 128 MiB.
const maxLogSteps = 4 << 20

// Divergence is the first step in which two runs differ.
type Divergence struct {
	Index     uint64
	Want, Got Step   // of the first and the second run
	Before    []Step // the steps both had just before
	names     []string
}

// Keep makes the world write its steps into log. Call it before the first Run.
func (w *World) Keep(log *StepLog) { w.hash.log = log }

// Compare makes the world check its steps against a log and stop at the first
// that differs. Call it before the first Run.
func (w *World) Compare(log *StepLog) { w.hash.check = log }

// Diverged returns the first difference from the log of Compare, nil when
// there is none so far.
func (w *World) Diverged() *Divergence { return w.hash.diff }

// logStep keeps or checks a step.
func (w *World) logStep(s Step) {
	i := w.hash.steps
	if log := w.hash.log; log != nil {
		limit := log.Max
		if limit == 0 {
			limit = maxLogSteps
		}
		if len(log.steps) < limit {
			log.steps = append(log.steps, s)
		}
	}
	if log := w.hash.check; log != nil && w.hash.diff == nil && i < uint64(len(log.steps)) && log.steps[i] != s {
		d := &Divergence{Index: i, Want: log.steps[i], Got: s}
		d.Before = append(d.Before, log.steps[max(0, int(i)-8):i]...)
		for _, n := range w.nodes {
			d.names = append(d.names, n.spec.Name)
		}
		w.hash.diff = d
		w.stopped = true
	}
}

// String prints the divergence with both sides and the steps before it.
func (d *Divergence) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "step %d differs, in %s of %s:\n", d.Index, d.Got.Sub, d.name(d.Got.Node))
	for _, s := range d.Before {
		fmt.Fprintf(&b, "         %s\n", d.line(s))
	}
	fmt.Fprintf(&b, "  first  %s\n  second %s\n", d.line(d.Want), d.line(d.Got))
	return b.String()
}

// name of a node by index.
func (d *Divergence) name(i int16) string {
	if i < 0 || int(i) >= len(d.names) {
		return "the world"
	}
	return d.names[i]
}

// line prints one step with the node's name.
func (d *Divergence) line(s Step) string {
	return fmt.Sprintf("T+%s %s %s %s a=%016x b=%d", seconds(s.At), d.name(s.Node), s.Sub, stepNames[s.Kind], s.A, int64(s.B))
}

// Twice runs the same world two times and returns the first step in which the
// runs differ, nil when they agree. run builds a world by open, drives it and
// must not close it; it returns anything that should agree too, such as a verdict.
func Twice(run func(open func(Options, *Plan) *World) string) error {
	log := &StepLog{}
	first, verdict := once(run, func(w *World) { w.Keep(log) })
	hash, steps := first.Hash(), first.hash.steps
	second, again := once(run, func(w *World) { w.Compare(log) })
	switch d := second.Diverged(); {
	case d != nil:
		return fmt.Errorf("two runs of one plan differ: %s", d)
	case steps != second.hash.steps:
		return fmt.Errorf("two runs of one plan differ: %d steps, then %d", steps, second.hash.steps)
	case hash != second.Hash():
		return fmt.Errorf("two runs of one plan differ beyond step %d: hash %016x, then %016x", len(log.steps), hash, second.Hash())
	case verdict != again:
		return fmt.Errorf("two runs of one plan agree in every step but not in their verdict: %s, then %s", verdict, again)
	}
	return nil
}

// once does one run and closes its world.
func once(run func(open func(Options, *Plan) *World) string, attach func(w *World)) (w *World, verdict string) {
	verdict = run(func(o Options, p *Plan) *World {
		w = New(o, p)
		attach(w)
		return w
	})
	w.Close()
	return w, verdict
}
