package sim

import (
	"crypto/rand" // tidy:import etcd-raft draws its election jitter from rand.Reader
	"io"

	"lockstep/internal/invariant"
	"lockstep/internal/prng"
)

// entropy is what crypto/rand.Reader is while a world is open: a generator
// keyed by seed, node and life, so that the draws of one node do not shift
// those of another.
type entropy struct {
	w     *World
	outer *prng.Source // for reads outside any node
	old   io.Reader
}

// open is the entropy of the open world, nil when none is.
var open *entropy

// openEntropy takes crypto/rand.Reader for the world.
func openEntropy(w *World) *entropy {
	invariant.That(open == nil, "a second world in one process: close the first")
	e := &entropy{w: w, outer: prng.New(w.seedSum()), old: rand.Reader}
	open, rand.Reader = e, e
	return e
}

// Read fills p from the generator of the node whose code runs.
func (e *entropy) Read(p []byte) (int, error) {
	if n := e.w.current; n != nil && n.rand != nil {
		return n.rand.Read(p)
	}
	return e.outer.Read(p)
}

// close gives crypto/rand.Reader back.
func (e *entropy) close() { open, rand.Reader = nil, e.old }
