package maelstrom

import (
	"math"
	"slices"
)

// Neighbours is the topology that broadcast nodes are told: who may talk to whom
// by name. It is advice; the network connects everyone.
func Neighbours(topology string, n int) map[string][]string {
	links := make([][]int, n)
	join := func(a, b int) {
		if a < n && b < n {
			links[a], links[b] = append(links[a], b), append(links[b], a)
		}
	}
	switch topology {
	case "line":
		for i := range n {
			join(i, i+1)
		}
	case "grid":
		side := int(math.Ceil(math.Sqrt(float64(n))))
		for i := range n {
			if (i+1)%side != 0 {
				join(i, i+1)
			}
			join(i, i+side)
		}
	case "total":
		for i := range n {
			for j := i + 1; j < n; j++ {
				join(i, j)
			}
		}
	default: // tree2, tree3, tree4
		fan := int(topology[len(topology)-1] - '0')
		for i := 1; i < n; i++ {
			join((i-1)/fan, i)
		}
	}
	out := map[string][]string{}
	for i, to := range links {
		slices.Sort(to)
		names := []string{}
		for _, j := range to {
			names = append(names, nodeName(j))
		}
		out[nodeName(i)] = names
	}
	return out
}
