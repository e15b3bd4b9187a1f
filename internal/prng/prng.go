// Package prng is fixed-algorithm randomness: a keyed 64-bit hash and a small
// generator whose outputs never change with the Go release, so that a seed
// means the same run for ever.
package prng

// Mix returns a well-spread 64-bit value of x (the splitmix64 finaliser).
func Mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	return x ^ (x >> 31)
}

// Hash folds the parts into one well-spread value; the order of parts counts.
func Hash(parts ...uint64) uint64 {
	h := uint64(0x243f6a8885a308d3)
	for _, p := range parts {
		h = Mix(h ^ p)
	}
	return h
}

// HashString returns a 64-bit value of s (FNV-1a, then mixed).
func HashString(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := 0; i < len(s); i++ {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return Mix(h)
}

// Source is a splitmix64 generator. The zero value is seed 0.
type Source struct{ state uint64 }

// New returns a generator for seed.
func New(seed uint64) *Source { return &Source{state: seed} }

// Uint64 returns the next value.
func (s *Source) Uint64() uint64 {
	v := Mix(s.state)
	s.state += 0x9e3779b97f4a7c15
	return v
}

// Intn returns a value in [0, n). n must be positive.
func (s *Source) Intn(n int) int { return int(Range(s.Uint64(), 0, int64(n)-1)) }

// Between returns a value in [lo, hi], both included.
func (s *Source) Between(lo, hi int64) int64 { return Range(s.Uint64(), lo, hi) }

// Chance reports true for num draws out of den.
func (s *Source) Chance(num, den int) bool { return s.Intn(den) < num }

// Read fills p with generator output and never fails (io.Reader).
func (s *Source) Read(p []byte) (int, error) {
	for i := 0; i < len(p); {
		v := s.Uint64()
		for k := 0; k < 8 && i < len(p); k++ {
			p[i] = byte(v >> (8 * k))
			i++
		}
	}
	return len(p), nil
}

// Range maps the random value v onto [lo, hi], both included; lo when hi <= lo.
func Range(v uint64, lo, hi int64) int64 {
	if hi <= lo {
		return lo
	}
	return lo + int64(v%uint64(hi-lo+1))
}
