// Package decide makes the choices of a simulated world. No choice comes from
// a stream of random numbers: each is a keyed hash of the seed, the site (where
// in the simulator the choice is made) and the thing decided about, so that an
// edit elsewhere shifts nothing (DESIGN section 3). Overrides of a plan take
// precedence over the hash; with benign noise no seed is needed at all.
package decide

import (
	"lockstep/internal/prng"
)

// Site is one place where the simulator chooses. Sites are declared once, as
// package variables, and never change their name: plans refer to it.
type Site struct {
	Name   string // dotted, e.g. "net.delay"
	Unit   string // unit of the values, e.g. "ns"; "" for counts
	Benign int64  // the value that makes least trouble
	Worst  int64  // the most severe value that is ever drawn
	id     uint64
}

// NewSite declares a site. Values grow more severe from benign to worst.
func NewSite(name, unit string, benign, worst int64) *Site {
	return &Site{Name: name, Unit: unit, Benign: benign, Worst: worst, id: prng.HashString(name)}
}

// ID is a hash of the site's name.
func (s *Site) ID() uint64 { return s.id }

// Dist says how values of a site are spread: evenly over [Lo, Hi], but
// TailPermille of 1000 draws evenly over [Hi, Tail], or (Hi, Tail] when Lo is
// Hi, so that a tail can be another thing. Integers only, so that every machine
// draws the same.
type Dist struct {
	Lo, Hi       int64
	Tail         int64
	TailPermille int64 // 0..1000
}

// Chance is the spread of a yes/no choice: 1 in permille of 1000 draws, else 0.
func Chance(permille int64) Dist {
	return Dist{Tail: 1, TailPermille: permille}
}

// Draw maps the random value v onto the spread.
func (d Dist) Draw(v uint64) int64 {
	if d.TailPermille > 0 && int64(v>>32)%1000 < d.TailPermille {
		lo := d.Hi
		if d.Lo == d.Hi && d.Tail > d.Hi {
			lo = d.Hi + 1
		}
		return prng.Range(prng.Mix(v), lo, d.Tail)
	}
	return prng.Range(prng.Mix(v), d.Lo, d.Hi)
}

// Scale returns the spread with all values multiplied by num/den.
func (d Dist) Scale(num, den int64) Dist {
	d.Lo, d.Hi, d.Tail = d.Lo*num/den, d.Hi*num/den, d.Tail*num/den
	return d
}
