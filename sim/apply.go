package sim

// apply starts or ends what a fault does to one target.
func (w *World) apply(a atom, on bool) {
	if a.b >= 0 {
		w.applyLink(a, on)
		return
	}
	n, f := w.nodes[a.a], a.fault
	switch f.Kind {
	case CrashExit, CrashSilent, PowerLoss, WipeDisk, Stop, Start:
		w.applyProcess(n, f, on)
	case Pause:
		n.paused += sign(on)
		w.wakeUp(n)
	case Suspend:
		n.paused += sign(on)
		w.net.Deaf(w.now, n.index, on)
		w.stall(n, on)
		w.wakeUp(n)
	case SlowCPU:
		n.cpuTimes = scale(n.cpuTimes, f.Arg, on)
	case WallStep:
		if on {
			n.clock.wall += f.Arg
		}
	case ClockDrift:
		w.setRate(n, n.clock.ppm+int64(sign(on))*f.Arg)
	case ClockFreeze:
		n.clock.freeze(w.now, sign(on))
		w.setRate(n, n.clock.ppm)
	default:
		w.applyDisk(n, f, on)
	}
}

// sign is 1 for a start and -1 for an end.
func sign(on bool) int {
	if on {
		return 1
	}
	return -1
}

// scale multiplies or divides a factor.
func scale(v, by int64, on bool) int64 {
	if on {
		return v * by
	}
	return v / by
}

// setRate changes a node's clock rate and looks at its deadline again.
func (w *World) setRate(n *host, ppm int64) {
	n.clock.setRate(w.now, ppm)
	n.wakeAt = -1
	if n.state == stateUp && n.machine != nil {
		n.plan(n.deadline)
	}
	w.wakeUp(n)
}

// applyProcess starts or ends a fault of the process.
func (w *World) applyProcess(n *host, f *Fault, on bool) {
	if !on {
		n.held--
		w.start(n)
		return
	}
	if f.Kind == Start {
		w.release(n)
		w.start(n)
		return
	}
	n.held++
	switch f.Kind {
	case Stop:
		if n.state == stateUp && !n.stopping {
			n.stopping = true
			w.accept(n, input{kind: inputStop})
		}
	case CrashExit, WipeDisk:
		w.net.Exit(w.now, n.index, false)
		w.kill(n, -1, string(f.Kind))
		if f.Kind == WipeDisk {
			n.disk.Wipe()
		}
	default:
		w.net.Silence(w.now, n.index)
		w.kill(n, -1, string(f.Kind))
		if f.Kind == PowerLoss {
			w.powerLoss(n, f.Arg)
		}
	}
}

// release forgets the faults that keep a node down, so that a start succeeds.
func (w *World) release(n *host) {
	keep := w.active[:0]
	for _, a := range w.active {
		if a.b < 0 && a.a == n.index && (a.fault.Kind.kills() || a.fault.Kind == Stop) {
			n.held--
			continue
		}
		keep = append(keep, a)
	}
	w.active = keep
}

// applyLink starts or ends a fault on the way from one node to another.
func (w *World) applyLink(x atom, on bool) {
	a, b, arg := x.a, x.b, x.fault.Arg
	s := int64(sign(on))
	switch x.fault.Kind {
	case Cut:
		w.net.Cut(w.now, a, b, on)
	case Stall:
		w.net.Stall(w.now, a, b, on)
	case Refuse:
		w.net.Refuse(a, b, on)
	case Delay:
		w.net.AddDelay(a, b, s*arg)
	case Loss:
		w.net.AddLoss(a, b, s*arg)
	case Corrupt:
		w.net.AddCorrupt(a, b, s*arg)
	case Bandwidth:
		w.net.SetBandwidth(a, b, max(0, s*arg))
	case Reset:
		// Both orders of a pair are atoms; one reset is enough.
		if on && (a < b || x.fault.Shape == Away) {
			w.net.Reset(w.now, a, b)
		}
	case HalfOpen:
		if on && (a < b || x.fault.Shape == Away) {
			w.net.HalfOpen(w.now, a, b)
		}
	}
}

// stall holds or releases the node's disk.
func (w *World) stall(n *host, on bool) {
	n.stalled += sign(on)
	if on || n.stalled > 0 {
		return
	}
	for _, id := range n.frozen {
		s := w.slots[id]
		kind := evDone
		if !s.landed && s.landAt < s.doneAt {
			kind = evLand
		}
		w.heap.push(w.now, kind, s.node, id)
	}
	n.frozen = n.frozen[:0]
}
