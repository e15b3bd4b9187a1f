package sim

import (
	"fmt"

	"lockstep/internal/decide"
	"lockstep/netsim"
	"lockstep/node/wire"
)

// A real host encodes a frame some time after Settle returned, on another
// goroutine, so what a sent frame refers to must not change. With Poison on,
// the world looks at sent frames again after a drawn while.

// siteWatch is how long after its sending a frame is looked at again.
var siteWatch = decide.NewSite("loop.watch", "ns", 0, 1_000_000_000)

// maxWatched bounds the frames of one node that are looked at again.
const maxWatched = 1024

// sent is a frame as the machine gave it, with the hash it had.
type sent struct {
	frame wire.Frame
	sum   uint64
	until int64
}

// watchFrame remembers a sent frame.
func (w *World) watchFrame(n *host, f *wire.Frame, sum uint64) {
	if len(n.watched) >= maxWatched {
		return
	}
	spread := decide.Dist{Lo: 0, Hi: 1_000_000, Tail: 100_000_000, TailPermille: 100}
	wait := w.decider.Decide(siteWatch, n.key(netsim.KindOf(f), n.batches), spread)
	n.watched = append(n.watched, sent{frame: *f, sum: sum, until: w.now + wait})
}

// checkWatched looks at the frames whose time has come; each is looked at once.
func (w *World) checkWatched(n *host) {
	keep := n.watched[:0]
	for i := range n.watched {
		x := n.watched[i]
		if x.until > w.now {
			keep = append(keep, x)
			continue
		}
		if HashFrame(&x.frame) != x.sum {
			w.find(n, "in-flight-data-changed", fmt.Sprintf("a sent frame of kind %d changed after Settle", netsim.KindOf(&x.frame)))
		}
	}
	clear(n.watched[len(keep):])
	n.watched = keep
}
