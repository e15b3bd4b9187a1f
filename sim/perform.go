package sim

import (
	"lockstep/internal/decide"
	"lockstep/internal/event"
	"lockstep/internal/prng"
	"lockstep/node"
)

// siteCrashCut is how many effects of its last batch a crashing process still
// performs.
var siteCrashCut = decide.NewSite("crash.effects", "", 1<<20, 0)

// perform carries out the effects of a batch. Events come first, so that a
// judge knows the state in which frames were sent; a crash that an event
// triggers cuts the other effects at a drawn place.
func (w *World) perform(n *host) {
	fx := &n.fx
	limit := -1
	for i := range fx.Events {
		if w.emit(n, &fx.Events[i]) {
			limit = effectCount(fx) - len(fx.Events)
		}
	}
	if limit >= 0 {
		limit = int(w.decider.Decide(siteCrashCut, n.key(0, n.batches), decide.Dist{Lo: 0, Hi: int64(limit)}))
	}
	w.order(n, limit)
	if w.opts.Poison {
		poisonEffects(fx)
	}
	w.fireDue()
}

// emit shows an event to the judges and to the faults that wait for it; it
// reports whether one of those kills the node at once.
func (w *World) emit(n *host, e *event.Event) (kills bool) {
	e.Node, e.At = n.spec.Name, w.now
	w.step(n, SubLoop, StepEvent, hashEvent(e), uint64(e.Kind))
	for _, o := range w.observers {
		o.OnEvent(*e)
	}
	return w.trigger(n, e)
}

// order performs sends, disk work, dials, closes and exit in that order, at
// most limit of them unless limit is negative.
func (w *World) order(n *host, limit int) {
	fx := &n.fx
	at := w.now
	if n.cpuTimes > 1 {
		at = n.busyUntil // a slow processor also speaks late
	}
	left := func() bool { limit--; return limit != -1 }
	for i := range fx.Sends {
		if !left() {
			return
		}
		w.send(n, at, &fx.Sends[i])
	}
	for i := range fx.Disk {
		if !left() {
			return
		}
		w.issue(n, &fx.Disk[i])
	}
	for _, d := range fx.Dials {
		if !left() {
			return
		}
		w.step(n, SubNet, StepDial, prng.HashString(d.Addr), uint64(d.Session))
		w.net.Dial(at, n.index, d)
	}
	for _, s := range fx.Closes {
		if !left() {
			return
		}
		w.step(n, SubNet, StepClose, 0, uint64(s))
		w.net.Close(at, n.index, s)
	}
	if fx.Exit != nil && left() {
		w.exit(n, *fx.Exit)
	}
}

// send shows a frame to the judges and gives it to the network.
func (w *World) send(n *host, at int64, s *node.Send) {
	sum := HashFrame(&s.Frame)
	w.step(n, SubNet, StepSend, sum, uint64(s.To))
	end, ok := w.net.Find(n.index, s.To)
	if !ok {
		w.stats.Dropped++
		return
	}
	if s.Before != 0 && n.clock.now(at).Mono >= s.Before {
		w.step(n, SubNet, StepClose, 0, uint64(s.To))
		w.net.Close(at, n.index, s.To) // as the host does
		return
	}
	if w.opts.Poison {
		w.watchFrame(n, &s.Frame, sum)
	}
	w.stats.Frames++
	for _, o := range w.observers {
		o.OnSend(n.spec.Name, s.To, &s.Frame)
	}
	w.net.SendOn(at, end, &s.Frame)
}

// poisonEffects spoils the recycled slices, so that a machine that keeps one
// reads nonsense.
func poisonEffects(fx *node.Effects) {
	for i := range fx.Sends {
		fx.Sends[i].To = 0
		fx.Sends[i].Frame.Head.Code = -0xdead
		fx.Sends[i].Frame.Body = nil
	}
	for i := range fx.Disk {
		fx.Disk[i].ID, fx.Disk[i].Off = 1<<63, -1
	}
}
