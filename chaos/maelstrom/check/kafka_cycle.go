package check

import (
	"slices"
	"strconv"
	"strings"

	"lockstep/chaos/maelstrom/history"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// cycles looks for operations that would each have to come before the other: a
// poll comes after the sends of what it read, an operation after the earlier ones
// of its process, and after everything that ended before it began. Cycles that do
// without the last rule are G1c-process, the others G1c-realtime.
func (k *kafka) cycles() {
	g := k.orders()
	inProcess := map[int]bool{}
	for _, ring := range g.components(false) {
		for _, n := range ring {
			inProcess[n] = true
		}
		k.add(G1cProcess, k.ops[slices.Max(ring)], "%s", k.toldRing(ring))
	}
	for _, ring := range g.components(true) {
		if !slices.ContainsFunc(ring, func(n int) bool { return inProcess[n] }) {
			k.add(G1cRealtime, k.ops[slices.Max(ring)], "%s", k.toldRing(ring))
		}
	}
}

// maxRing is how many operations of a cycle are told.
const maxRing = 6

func (k *kafka) toldRing(ring []int) string {
	slices.Sort(ring)
	var out []string
	for i, n := range ring {
		if i == maxRing {
			out = append(out, "…")
			break
		}
		op := k.ops[n]
		text := name(op)
		switch op.F {
		case history.Send:
			text += " sent key " + op.Key + " message " + itoa(op.Msg)
		case history.Poll:
			for _, key := range sortedKeys(op.Msgs) {
				for _, p := range op.Msgs[key] {
					if s := k.sends[key][p.Msg]; s != nil && slices.Contains(ring, s.Index) {
						text += " read key " + key + " message " + itoa(p.Msg)
					}
				}
			}
		}
		out = append(out, text)
	}
	return "each before the other: " + strings.Join(out, "; ")
}

// orders is the graph of must-come-before. Nodes 0…n-1 are operations; node n+i
// is the moment of the i-th completion, which keeps the edges of real time few:
// an operation leads to its completion, each completion to the next and to the
// operations that began before that.
type orders struct {
	n        int
	direct   [][]int // reads and process order
	realtime [][]int // over the moments
}

func (k *kafka) orders() *orders {
	n := len(k.ops)
	g := &orders{n: n, direct: make([][]int, n)}
	place := map[*history.Op]int{}
	lastOf := map[int]int{}
	for i, op := range k.ops {
		place[op] = i
		if before, ok := lastOf[op.Process]; ok {
			g.direct[before] = append(g.direct[before], i)
		}
		lastOf[op.Process] = i
	}
	for i, op := range k.ops {
		for _, key := range sortedKeys(op.Msgs) {
			for _, p := range op.Msgs[key] {
				if s := k.sends[key][p.Msg]; s != nil && s.Type != history.Fail {
					g.direct[place[s]] = append(g.direct[place[s]], i)
				}
			}
		}
	}
	g.moments(k.ops)
	return g
}

func (g *orders) moments(ops []*history.Op) {
	type ending struct{ place, op int }
	var ends []ending
	for i, op := range ops {
		if op.End != history.Never {
			ends = append(ends, ending{op.End, i})
		}
	}
	slices.SortFunc(ends, func(a, b ending) int { return a.place - b.place })
	g.realtime = make([][]int, g.n+len(ends))
	for m, e := range ends {
		g.realtime[e.op] = append(g.realtime[e.op], g.n+m)
		if m > 0 {
			g.realtime[g.n+m-1] = append(g.realtime[g.n+m-1], g.n+m)
		}
	}
	m := -1 // last completion before the operation; operations are in order of Begin
	for i, op := range ops {
		for m+1 < len(ends) && ends[m+1].place < op.Begin {
			m++
		}
		if m >= 0 {
			g.realtime[g.n+m] = append(g.realtime[g.n+m], i)
		}
	}
}

func (g *orders) edges(v int, realtime bool) [][]int {
	var out [][]int
	if v < g.n {
		out = append(out, g.direct[v])
	}
	if realtime {
		out = append(out, g.realtime[v])
	}
	return out
}

// components are the operations of each strongly connected component that holds
// a cycle (Tarjan's algorithm with its own stack).
func (g *orders) components(realtime bool) [][]int {
	total := g.n
	if realtime {
		total = len(g.realtime)
	}
	t := &tarjan{index: make([]int, total), low: make([]int, total), on: make([]bool, total)}
	for v := range total {
		if t.index[v] == 0 {
			t.visit(v, func(v int) []int { return slices.Concat(g.edges(v, realtime)...) })
		}
	}
	var out [][]int
	for _, ring := range t.rings {
		if ring = slices.DeleteFunc(ring, func(v int) bool { return v >= g.n }); len(ring) > 0 {
			out = append(out, ring)
		}
	}
	return out
}

type tarjan struct {
	index, low []int // from 1; 0 is not visited
	on         []bool
	stack      []int
	count      int
	rings      [][]int
}

type frame struct {
	v     int
	edges []int
	next  int
}

func (t *tarjan) enter(v int, edges func(int) []int) frame {
	t.count++
	t.index[v], t.low[v], t.on[v] = t.count, t.count, true
	t.stack = append(t.stack, v)
	return frame{v: v, edges: edges(v)}
}

func (t *tarjan) visit(root int, edges func(int) []int) {
	calls := []frame{t.enter(root, edges)}
	for len(calls) > 0 {
		f := &calls[len(calls)-1]
		if f.next < len(f.edges) {
			w := f.edges[f.next]
			f.next++
			if t.index[w] == 0 {
				calls = append(calls, t.enter(w, edges))
			} else if t.on[w] {
				t.low[f.v] = min(t.low[f.v], t.index[w])
			}
			continue
		}
		if t.low[f.v] == t.index[f.v] {
			t.pop(f.v)
		}
		v := f.v
		if calls = calls[:len(calls)-1]; len(calls) > 0 {
			parent := calls[len(calls)-1].v
			t.low[parent] = min(t.low[parent], t.low[v])
		}
	}
}

// pop takes the component of v off the stack and keeps it when it has a cycle; no
// operation leads to itself, so one alone has none.
func (t *tarjan) pop(v int) {
	at := len(t.stack) - 1
	for t.stack[at] != v {
		at--
	}
	ring := slices.Clone(t.stack[at:])
	t.stack = t.stack[:at]
	for _, w := range ring {
		t.on[w] = false
	}
	if len(ring) > 1 {
		t.rings = append(t.rings, ring)
	}
}
