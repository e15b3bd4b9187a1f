package maelstrom

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstep/internal/prng"
)

// Cut makes a receiver deaf to a source.
type Cut struct{ Receiver, Source int }

// Act is one act of the nemesis. Acts of one kind alternate: start, stop, start.
type Act struct {
	At      time.Duration // since the start of the main phase
	Kind    string        // one of Faults
	Start   bool
	Shape   string // how the targets were drawn
	Targets []int  // kill, pause: nodes
	Cuts    []Cut  // partition
}

// String tells the act as the report shows it.
func (a Act) String() string {
	if !a.Start {
		return fmt.Sprintf("%7.3fs stop %s", a.At.Seconds(), a.Kind)
	}
	var on []string
	for _, t := range a.Targets {
		on = append(on, nodeName(t))
	}
	for _, c := range a.Cuts {
		on = append(on, nodeName(c.Source)+"⇏"+nodeName(c.Receiver))
	}
	return strings.TrimRight(fmt.Sprintf("%7.3fs start %s %s %s", a.At.Seconds(), a.Kind, a.Shape, strings.Join(on, " ")), " ")
}

// Plan draws the acts of a run: for each kind of fault start and stop alternate,
// each after a random 0…2·interval, so that the first may come at once and a
// fault lasts the interval on average. Kinds are independent of each other.
func Plan(o *Options) []Act {
	var acts []Act
	for _, kind := range o.Nemesis {
		src := prng.New(prng.Hash(o.Seed, prng.HashString("nemesis"), prng.HashString(kind)))
		start := false
		for at := time.Duration(0); ; {
			at += time.Duration(src.Between(0, 2*int64(o.NemesisInterval)))
			if at >= o.TimeLimit {
				break
			}
			start = !start
			a := Act{At: at, Kind: kind, Start: start}
			if start {
				a.draw(src, o.NodeCount)
			}
			acts = append(acts, a)
			at++ // an interval of 0 must end too
		}
	}
	slices.SortStableFunc(acts, func(a, b Act) int { return int(a.At - b.At) })
	return acts
}

// draw chooses shape and targets, evenly among the shapes of the kind.
func (a *Act) draw(src *prng.Source, n int) {
	switch a.Kind {
	case "partition":
		a.Shape = []string{"one", "minority-third", "majority", "majorities-ring"}[src.Intn(4)]
		a.Cuts = cutsOf(a.Shape, shuffled(src, n))
	case "kill", "pause":
		a.Shape = []string{"one", "minority", "majority", "all"}[src.Intn(4)]
		size := map[string]int{"one": 1, "minority": (n - 1) / 2, "majority": n/2 + 1, "all": n}[a.Shape]
		a.Targets = shuffled(src, n)[:size]
		slices.Sort(a.Targets)
	}
}

// cutsOf is the shape of a partition over nodes in random order.
func cutsOf(shape string, order []int) []Cut {
	n := len(order)
	switch shape {
	case "one":
		return split(order[:1], order[1:])
	case "minority-third":
		third := (n - 1) / 3 // the largest number strictly under a third
		return split(order[:third], order[third:])
	case "majority":
		return split(order[:n/2], order[n/2:])
	}
	return ring(order)
}

// split cuts two groups from each other, both ways.
func split(a, b []int) []Cut {
	var cuts []Cut
	for _, x := range a {
		for _, y := range b {
			cuts = append(cuts, Cut{x, y}, Cut{y, x})
		}
	}
	sortCuts(cuts)
	return cuts
}

// ring lets each node hear a different majority: of every window of a majority of
// the nodes in a circle, the middle one is deaf to all outside it. With three
// nodes that is three one-way cuts.
func ring(order []int) []Cut {
	n := len(order)
	m := n/2 + 1
	var cuts []Cut
	for i := range n {
		owner := order[(i+m/2)%n]
		for k := m; k < n; k++ {
			cuts = append(cuts, Cut{Receiver: owner, Source: order[(i+k)%n]})
		}
	}
	sortCuts(cuts)
	return cuts
}

func sortCuts(cuts []Cut) {
	slices.SortFunc(cuts, func(a, b Cut) int {
		if a.Receiver != b.Receiver {
			return a.Receiver - b.Receiver
		}
		return a.Source - b.Source
	})
}

// shuffled is 0…n-1 in random order.
func shuffled(src *prng.Source, n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	for i := n - 1; i > 0; i-- {
		j := src.Intn(i + 1)
		out[i], out[j] = out[j], out[i]
	}
	return out
}

func nodeName(i int) string { return fmt.Sprintf("n%d", i) }
