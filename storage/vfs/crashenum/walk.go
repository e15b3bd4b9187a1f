package crashenum

import (
	"fmt"

	"lockstep/storage/vfs"
)

// choice is one question of a crash and its answer.
type choice struct {
	site  string
	value int
	n     int
}

// walk answers the questions of one crash. Without draw it goes through all answers in
// turn, depth first: taken is the present path, next moves on to the following one.
type walk struct {
	torn  bool
	draw  vfs.Choose
	taken []choice
	at    int
}

// choose answers one question. Modes are fixed to the one that contains all others.
func (w *walk) choose(site string, key uint64, n int) int {
	switch site {
	case vfs.SiteDir:
		return vfs.NamesSubset
	case vfs.SiteFile:
		if w.torn {
			return vfs.BytesTorn
		}
		return vfs.BytesSectors
	}
	if n == 1 {
		return 0
	}
	if w.at == len(w.taken) {
		c := choice{site: site, n: n}
		if w.draw != nil {
			c.value = w.draw(site, key, n)
		}
		w.taken = append(w.taken, c)
	}
	v := w.taken[w.at].value
	w.at++
	return v
}

// next moves to the following path; false when all were walked. Later questions may depend
// on earlier answers, so the path is cut behind the answer that changed.
func (w *walk) next() bool {
	for i := len(w.taken) - 1; i >= 0; i-- {
		if c := &w.taken[i]; c.value+1 < c.n {
			c.value++
			w.taken = w.taken[:i+1]
			return true
		}
	}
	return false
}

// outcomes returns how many outcomes the questions of the present path have together, or
// something above limit.
func (w *walk) outcomes(limit int) int {
	n := 1
	for _, c := range w.taken {
		if n *= c.n; n > limit {
			return n
		}
	}
	return n
}

// maxStory bounds the choices a failure lists.
const maxStory = 24

// story lists the answers that took something away.
func (w *walk) story() []string {
	var out []string
	for i, c := range w.taken {
		if c.value == 0 {
			continue
		}
		if len(out) == maxStory {
			return append(out, "…")
		}
		out = append(out, fmt.Sprintf("choice %d %s=%d/%d", i, c.site, c.value, c.n))
	}
	return out
}
