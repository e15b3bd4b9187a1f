package netsim

import (
	"slices"
	"testing"

	"lockstep/internal/prng"
	"lockstep/node"
)

// FuzzNet drives a net with arbitrary faults: streams keep their order, every
// session that came up or was dialled goes down at most once, nothing panics.
func FuzzNet(f *testing.F) {
	f.Add(uint64(1), []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
	f.Add(uint64(7), []byte{1, 1, 8, 1, 9, 2, 12, 1, 4, 1, 13})
	f.Fuzz(func(t *testing.T, seed uint64, program []byte) {
		if len(program) > 200 {
			return
		}
		o := noTail()
		o.Codec = seed%2 == 0
		o.LossPermille = int64(seed % 100)
		l := newLab(t, o, seed, 3)
		x := &drive{lab: l, rnd: prng.New(seed)}
		for _, b := range program {
			x.step(b)
			l.run(l.now + x.rnd.Between(0, 50*ms))
		}
		x.heal()
		l.run(l.now + 300*sec)
		x.check()
	})
}

// drive performs a fuzz program.
type drive struct {
	*lab
	rnd      *prng.Source
	next     node.SessionID
	opaque   int32
	cuts     [][2]int
	deaf     []int
	silenced [3]bool
	off      [3]bool
}

func (x *drive) step(b byte) {
	a, c := x.rnd.Intn(3), x.rnd.Intn(3)
	name := string(rune('a'+c)) + ":1"
	up := func(id int) bool { return !x.off[id] }
	switch b % 12 {
	case 0, 1:
		if up(a) {
			x.next++
			x.net.Dial(x.now, a, node.Dial{Session: x.next | node.Dialled, Addr: name})
		}
	case 2, 3, 4:
		for _, f := range slices.Clone(x.facts) {
			if f.Kind == SessionUp && up(f.Node) && x.rnd.Chance(1, 2) {
				x.opaque++
				x.net.Send(x.now, f.Node, f.Session, frame(x.opaque, x.rnd.Intn(300)))
			}
		}
	case 5:
		x.net.Cut(x.now, a, c, true)
		x.cuts = append(x.cuts, [2]int{a, c})
	case 6:
		if k := len(x.cuts); k > 0 {
			x.net.Cut(x.now, x.cuts[k-1][0], x.cuts[k-1][1], false)
			x.cuts = x.cuts[:k-1]
		}
	case 7:
		x.net.Reset(x.now, a, c)
	case 8:
		x.net.HalfOpen(x.now, a, c)
	case 9:
		if up(a) {
			x.off[a] = true
			if x.silenced[a] = x.rnd.Chance(1, 2); x.silenced[a] {
				x.net.Silence(x.now, a)
			} else {
				x.net.Exit(x.now, a, x.rnd.Chance(1, 2))
			}
			x.facts = append(x.facts, seen{Fact{Kind: 0, Node: a}, x.now})
		} else {
			x.net.HostUp(x.now, a)
			x.net.Up(a, []node.Listener{{Addr: string(rune('a'+a)) + ":1"}})
			x.off[a] = false
		}
	case 10:
		x.net.Deaf(x.now, a, true)
		x.deaf = append(x.deaf, a)
	case 11:
		for i := len(x.facts) - 1; i >= 0; i-- {
			if f := x.facts[i]; f.Kind == SessionUp {
				x.net.Close(x.now, f.Node, f.Session)
				break
			}
		}
	}
}

func (x *drive) heal() {
	for _, c := range x.cuts {
		x.net.Cut(x.now, c[0], c[1], false)
	}
	for _, a := range x.deaf {
		x.net.Deaf(x.now, a, false)
	}
	for a := range 3 {
		x.net.HostUp(x.now, a)
	}
}

// check judges the facts of each life of each node.
func (x *drive) check() {
	for id := range 3 {
		state := map[node.SessionID]int{}
		for _, f := range x.facts {
			if f.Node != id {
				continue
			}
			switch f.Kind {
			case 0: // the node died: ids begin anew
				state = map[node.SessionID]int{}
			case SessionUp:
				if state[f.Session] != 0 {
					x.t.Fatalf("session %x came up twice", uint64(f.Session))
				}
				state[f.Session] = 1
			case Receive:
				if state[f.Session] != 1 {
					x.t.Fatalf("session %x received in state %d", uint64(f.Session), state[f.Session])
				}
			case SessionDown:
				if state[f.Session] == 2 {
					x.t.Fatalf("session %x went down twice", uint64(f.Session))
				}
				state[f.Session] = 2
			}
		}
	}
	for i := range x.net.streams {
		s := &x.net.streams[i]
		if !s.used {
			continue
		}
		for side := range s.pipe {
			if p := &s.pipe[side]; s.side[0] == open && s.side[1] == open && !p.black && p.head < len(p.queue) {
				x.t.Fatalf("%d packets of a healed stream never arrived", len(p.queue)-p.head)
			}
		}
		if s.side[0] == connecting {
			x.t.Fatal("a dial never ended")
		}
	}
	for _, e := range x.net.nodes {
		for _, id := range e.sessions {
			if s := &x.net.streams[id]; !s.used {
				x.t.Fatalf("%s knows a session of a freed stream", e.name)
			}
		}
	}
}
