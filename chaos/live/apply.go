package live

import (
	"slices"
	"strings"

	"lockstep/internal/prng"
	"lockstep/sim"
	"lockstep/storage/vfs"
)

// mapping says how a kind of fault is carried out, where a reader could think
// otherwise.
var mapping = map[sim.FaultKind]string{
	sim.CrashSilent:  "the process is killed and its connections are held by their relays, so that no peer sees an end",
	sim.PowerLoss:    "as crash-silent; the files are then rewritten to what the record of syncs says a power loss leaves",
	sim.Suspend:      "loop and lanes of the node stop and its relays hold everything; the clock runs",
	sim.Pause:        "loop and lanes of the node stop, connections and clock go on",
	sim.SlowCPU:      "the loop sleeps after each batch so many times as long as that took",
	sim.DiskSyncDrop: "the record of syncs loses the pages and the sync reports an error; a later loss of power takes them from the files",
	sim.DiskLies:     "syncs are done and not recorded; a later loss of power takes what they covered from the files",
	sim.DiskRot:      "a byte of the record changes and reaches the file when the cache over it is dropped or lost",
	sim.Cut:          "relays hold both what was sent and new dials",
	sim.Stall:        "relays hold what was sent and deliver it at the end",
	sim.Loss:         "pieces of a stream come a retransmission later",
	sim.Corrupt:      "pieces of a stream have a bit flipped",
}

// apply starts or ends what a fault does to one target.
func (w *World) apply(x atom, on bool) {
	n, f := x.a, x.fault
	if x.b != nil {
		both := f.Kind == sim.Reset || f.Kind == sim.HalfOpen
		if !both || f.Shape == sim.Away || n.index < x.b.index { // both orders of a pair are atoms; once is enough
			w.net.apply(f, n.index, x.b.index, on)
		}
		return
	}
	switch f.Kind {
	case sim.CrashExit, sim.CrashSilent, sim.PowerLoss, sim.WipeDisk, sim.Stop, sim.Start:
		w.applyProcess(n, f, on)
	case sim.Pause:
		w.pauseNode(n, on)
	case sim.Suspend:
		w.pauseNode(n, on)
		w.net.setDeaf(n.index, sign(on))
		n.lanes.stall(sign(on))
	case sim.SlowCPU:
		n.cpuTimes = scale(n.cpuTimes, f.Arg, on)
	case sim.WallStep:
		if on {
			n.clock.step(f.Arg)
		}
	case sim.ClockDrift:
		n.clock.drift(int64(sign(on)) * f.Arg)
	case sim.ClockFreeze:
		n.clock.drift(-int64(sign(on)) * million)
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

func scale(v, by int64, on bool) int64 {
	if on {
		return v * by
	}
	return v / by
}

// pauseNode stops a process or lets it go on.
func (w *World) pauseNode(n *Node, on bool) {
	n.paused += sign(on)
	switch {
	case n.host == nil:
	case n.paused == 0:
		n.host.Resume()
	default:
		n.host.Pause()
	}
}

// applyProcess starts or ends a fault of the process.
func (w *World) applyProcess(n *Node, f *sim.Fault, on bool) {
	if !on {
		n.held--
		w.start(n)
		return
	}
	if f.Kind == sim.Start {
		w.letGo(n)
		w.start(n)
		return
	}
	n.held++
	switch f.Kind {
	case sim.Stop:
		if n.state == stateUp {
			n.host.Stop()
		}
	case sim.CrashExit, sim.WipeDisk:
		w.kill(n, -1, string(f.Kind))
		if f.Kind == sim.WipeDisk {
			n.disk.crash((*vfs.Mem).Wipe)
		}
	default:
		w.net.silence(n.index)
		w.kill(n, -1, string(f.Kind))
		if f.Kind == sim.PowerLoss {
			w.powerLoss(n, f.Arg)
		}
	}
}

// letGo forgets the faults that keep a node down, so that a start succeeds.
func (w *World) letGo(n *Node) {
	w.active = slices.DeleteFunc(w.active, func(a atom) bool {
		mine := a.b == nil && a.a == n && (a.fault.Kind.Kills() || a.fault.Kind == sim.Stop)
		if mine {
			n.held--
		}
		return mine
	})
}

// powerLoss decides what of the unsynced pieces of the node's disk survives.
func (w *World) powerLoss(n *Node, arg int64) {
	n.disk.crash(func(m *vfs.Mem) {
		switch arg {
		case -1:
			m.Crash(vfs.PowerLoss, vfs.KeepNothing)
		case -2:
			m.Crash(vfs.PowerLoss, nil)
		default:
			m.CrashChoose(vfs.PowerLoss, func(_ string, _ uint64, outcomes int) int { return w.rnd.Intn(max(outcomes, 1)) })
		}
	})
}

// applyDisk starts or ends a fault of the node's disk.
func (w *World) applyDisk(n *Node, f *sim.Fault, on bool) {
	m := n.disk.shadow
	switch f.Kind {
	case sim.DiskSlow:
		n.lanes.slow(f.Arg, on)
		return
	case sim.DiskStall:
		n.lanes.stall(sign(on))
		return
	}
	n.disk.obey()
	switch f.Kind {
	case sim.DiskReadOnly:
		m.SetReadOnly(on)
	case sim.DiskFull:
		size := w.o.Sim.DiskBytes
		if u, err := m.Usage("."); on && err == nil {
			size = u.Total - u.Free + f.Arg
		}
		m.SetCapacity(size)
	case sim.DiskRot:
		if on {
			n.rot(f, w.rnd)
		}
	default:
		n.disk.damage.set(m, f, on, prng.New(w.rnd.Uint64()))
	}
}

// rot changes durable bytes of the node's files.
func (n *Node) rot(f *sim.Fault, rnd *prng.Source) {
	m := n.disk.shadow
	names := filesOf(m, ".", f.Text)
	for range max(f.Arg, 1) {
		if len(names) == 0 {
			f.Refused = "no file to rot"
			return
		}
		name := names[rnd.Intn(len(names))]
		off, ok := m.PickDurable(name, 0, rnd.Uint64())
		if !ok {
			f.Refused = "no durable byte in " + name
			continue
		}
		if err := m.Rot(name, off, byte(1)<<rnd.Intn(8)); err != nil {
			f.Refused = err.Error()
		}
	}
}

// filesOf lists the files whose name contains text.
func filesOf(m *vfs.Mem, dir, text string) (out []string) {
	names, err := m.List(dir)
	if err != nil {
		return nil
	}
	for _, name := range names {
		if dir != "." {
			name = dir + "/" + name
		}
		info, err := m.Stat(name)
		switch {
		case err != nil:
		case info.IsDir():
			out = append(out, filesOf(m, name, text)...)
		case strings.Contains(name, text):
			out = append(out, name)
		}
	}
	return out
}
