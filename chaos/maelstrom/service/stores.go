package service

import (
	"maps"
	"slices"

	"lockstep/internal/prng"
)

// linear shows everyone the newest state.
type linear struct{ values map[string]string }

func newLinear() *linear { return &linear{map[string]string{}} }

func (s *linear) view(string)                 {}
func (s *linear) get(k string) (string, bool) { v, ok := s.values[k]; return v, ok }
func (s *linear) change() bool                { return false }
func (s *linear) set(k, v string)             { s.values[k] = v }
func (s *linear) done(string)                 {}

// maxStates is how many of the newest states seq-kv may show.
const maxStates = 32

// sequential shows a caller any of the last maxStates states that is not older
// than the last one it saw. Changes are made to the newest.
type sequential struct {
	linear
	src    *prng.Source
	undo   []undo // newest last, at most maxStates-1
	newest int64
	at     int64            // the state in view
	seen   map[string]int64 // by caller
}

// undo takes state at back to the one before it.
type undo struct {
	at  int64
	key string
	old string
	had bool
}

func newSequential(src *prng.Source) *sequential {
	return &sequential{linear: *newLinear(), src: src, seen: map[string]int64{}}
}

func (s *sequential) view(src string) {
	s.at = s.src.Between(max(s.newest-int64(len(s.undo)), s.seen[src]), s.newest)
}

func (s *sequential) get(k string) (string, bool) {
	// The first change after the state in view tells what the key was in it.
	for _, u := range s.undo {
		if u.at > s.at && u.key == k {
			return u.old, u.had
		}
	}
	return s.linear.get(k)
}

func (s *sequential) change() bool {
	moved := s.at != s.newest
	s.at = s.newest
	return moved
}

func (s *sequential) set(k, v string) {
	old, had := s.linear.get(k)
	s.newest++
	s.at = s.newest
	s.undo = append(s.undo, undo{s.newest, k, old, had})
	if len(s.undo) > maxStates-1 {
		s.undo = slices.Delete(s.undo, 0, 1)
	}
	s.linear.set(k, v)
}

func (s *sequential) done(src string) { s.seen[src] = s.at }

// lwwReplicas is how many replicas lww-kv has in Maelstrom's code (its text says
// five).
const lwwReplicas = 2

// lastWrite keeps replicas with Lamport clocks. Every request meets a replica
// drawn at random, and one pair is merged then.
type lastWrite struct {
	src      *prng.Source
	replicas [lwwReplicas]replica
	at       int
}

type replica struct {
	clock  int64
	values map[string]stamped
}

// stamped is a value with its Lamport time; the replica breaks ties.
type stamped struct {
	value   string
	clock   int64
	replica int
}

func newLastWrite(src *prng.Source) *lastWrite {
	s := &lastWrite{src: src}
	for i := range s.replicas {
		s.replicas[i].values = map[string]stamped{}
	}
	return s
}

func (s *lastWrite) view(string) { s.at = s.src.Intn(lwwReplicas) }

func (s *lastWrite) get(k string) (string, bool) {
	v, ok := s.replicas[s.at].values[k]
	return v.value, ok
}

func (s *lastWrite) change() bool { return false }

func (s *lastWrite) set(k, v string) {
	r := &s.replicas[s.at]
	r.clock++
	r.values[k] = stamped{v, r.clock, s.at}
}

// done merges one random replica into another.
func (s *lastWrite) done(string) {
	from := s.src.Intn(lwwReplicas)
	to := (from + 1 + s.src.Intn(lwwReplicas-1)) % lwwReplicas
	a, b := s.replicas[from], &s.replicas[to]
	for _, k := range slices.Sorted(maps.Keys(a.values)) {
		if v, have := a.values[k], b.values[k]; v.clock > have.clock || v.clock == have.clock && v.replica > have.replica {
			b.values[k] = v
		}
	}
	b.clock = max(a.clock, b.clock)
}
