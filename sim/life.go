package sim

import (
	"errors"

	"lockstep/internal/decide"
	"lockstep/internal/prng"
	"lockstep/node"
	"lockstep/storage/vfs"
)

// The sites of lives.
var (
	siteBoot    = decide.NewSite("life.boot", "ns", 50_000_000, 60_000_000_000)
	siteRestart = decide.NewSite("life.restart", "ns", 500_000_000, 60_000_000_000)
)

// ExitCoder is an error of Boot that carries the exit code a daemon would have
// had; node.ExitRefused is assumed otherwise.
type ExitCoder interface{ ExitCode() int }

// start begins a new life of a node that is down.
func (w *World) start(n *host) {
	if n.state != stateOff || n.held > 0 {
		return
	}
	w.net.HostUp(w.now, n.index)
	n.state = stateBooting
	n.bootAt = w.now + w.decider.Decide(siteBoot, n.key(0, int64(n.life)), w.opts.Boot)
	w.heap.push(n.bootAt, evBoot, uint16(n.index), 0)
}

// onBoot opens the stores and brings the machine up.
func (w *World) onBoot(n *host) {
	if n.state != stateBooting || n.bootAt != w.now {
		return
	}
	if n.paused > 0 { // stopped before it came up: it goes on when resumed
		n.bootAt = w.now + 1_000_000
		w.heap.push(n.bootAt, evBoot, uint16(n.index), 0)
		return
	}
	n.life++
	n.rand = prng.New(prng.Hash(w.seedSum(), n.nameSum, uint64(n.life)))
	n.peers = map[node.SessionID]node.Peer{}
	n.batches, n.ops, n.busyUntil, n.spins = 0, 0, w.now, 0
	n.lingered, n.urgent, n.stopping, n.panicked = false, true, false, false
	n.deadline, n.dueAt = node.Never, never
	w.tellLife(n, Booting, 0, "")
	if n.armed != nil {
		n.disk.StopAfter(uint64(n.armed.When.DiskStep - 1))
	}
	n.state = stateUp
	err, ok := w.boot(n)
	switch {
	case n.disk.Stopped():
		w.crashInside(n)
	case !ok: // a panic; the life is over
	case err != nil:
		w.refuse(n, err)
	default:
		w.net.Up(n.index, n.machine.Listeners())
		w.tellLife(n, Up, 0, "")
		w.wakeUp(n)
	}
}

// boot runs the node's constructors; a panic there is a finding.
func (w *World) boot(n *host) (err error, ok bool) {
	defer w.contain(n)
	w.current = n
	life := Life{Node: n.spec.Name, Ordinal: n.life, Disk: n.disk, Now: n.clock.now(w.now), Rand: n.rand}
	m, doer, err := n.spec.Boot(life)
	if err != nil || n.disk.Stopped() {
		return err, true
	}
	n.machine, n.doer = m, doer
	n.prepare, _ = m.(node.Preparer)
	if n.spec.App != nil {
		n.app = n.spec.App(life, m)
		n.prompt, _ = n.app.(Prompt)
	}
	return nil, true
}

// refuse ends a life that did not want to begin.
func (w *World) refuse(n *host, err error) {
	code := node.ExitRefused
	var coder ExitCoder
	if errors.As(err, &coder) {
		code = coder.ExitCode()
	}
	w.endLife(n)
	n.disk.Crash(vfs.ProcessExit, nil)
	w.tellLife(n, Refused, code, err.Error())
	w.supervise(n, code)
}

// exit performs a machine's own end.
func (w *World) exit(n *host, e node.Exit) {
	w.step(n, SubWorld, StepExit, uint64(int64(e.Code)), 0)
	w.net.Exit(w.now, n.index, true)
	w.kill(n, e.Code, e.Reason)
	w.supervise(n, e.Code)
}

// supervise starts the node again if its supervisor would.
func (w *World) supervise(n *host, code int) {
	again := code != node.ExitClean && code != node.ExitSuspect && code != node.ExitRefused
	after := int64(0)
	if n.spec.Supervise != nil {
		after, again = n.spec.Supervise(code)
	} else if again {
		after = w.decider.Decide(siteRestart, n.key(0, int64(n.life)), w.opts.Restart)
	}
	if again {
		life := n.life
		w.At(w.now+after, func() {
			if n.life == life {
				w.start(n)
			}
		})
	}
}

// kill ends the process without touching the network; operations it was in the
// middle of may have happened in part. The page cache stays.
func (w *World) kill(n *host, code int, reason string) {
	if n.state == stateOff {
		return
	}
	wasUp := n.state == stateUp
	n.state = stateOff
	if wasUp {
		w.killLanes(n)
	}
	w.endLife(n)
	n.disk.Crash(vfs.ProcessExit, nil)
	if wasUp {
		w.tellLife(n, Down, code, reason)
	}
}

// endLife forgets everything that lived in the process.
func (w *World) endLife(n *host) {
	n.state, n.bootAt = stateOff, -1
	n.machine, n.prepare, n.doer, n.peers = nil, nil, nil, nil
	n.app, n.prompt = nil, nil
	clear(n.inbox)
	n.inbox, n.head = n.inbox[:0], 0
	clear(n.watched)
	n.watched = n.watched[:0]
	n.fx.Reset()
}

// crashInside ends a life in the middle of a disk operation, at the file
// operation that a fault chose.
func (w *World) crashInside(n *host) {
	f := n.armed
	n.armed = nil
	if f == nil { // a partly performed operation of a dying life
		return
	}
	w.fireNow(f)
}

// powerLoss decides what of the unsynced pieces of the node's disk survives.
func (w *World) powerLoss(n *host, arg int64) {
	switch arg {
	case -1:
		n.disk.Crash(vfs.PowerLoss, vfs.KeepNothing)
	case -2:
		n.disk.Crash(vfs.PowerLoss, nil)
	default:
		n.disk.CrashChoose(vfs.PowerLoss, func(site string, key uint64, outcomes int) int {
			k := decide.Key{From: n.actor, N: int64(key >> 1)}
			v := w.decider.Decide(vfsSite(site), k, decide.Dist{Lo: 0, Hi: int64(outcomes) - 1})
			return int(min(max(v, 0), int64(outcomes)-1))
		})
	}
}

// vfsSites are the choices of a power loss; 0 keeps everything.
var vfsSites = []*decide.Site{
	decide.NewSite(vfs.SiteFile, "", 0, 6), decide.NewSite(vfs.SiteSize, "", 0, 1<<20),
	decide.NewSite(vfs.SiteTear, "", 0, 8), decide.NewSite(vfs.SitePrefix, "", 0, 1<<20),
	decide.NewSite(vfs.SitePiece, "", 0, 3), decide.NewSite(vfs.SiteDir, "", 0, 3),
	decide.NewSite(vfs.SiteCut, "", 0, 1<<20), decide.NewSite(vfs.SiteEntry, "", 0, 1),
}

// vfsOther stands for a choice that a newer disk model may ask for.
var vfsOther = decide.NewSite("vfs.crash.other", "", 0, 1<<20)

// vfsSite finds the site of a crash choice by its name.
func vfsSite(name string) *decide.Site {
	for _, s := range vfsSites {
		if s.Name == name {
			return s
		}
	}
	return vfsOther
}

// tellLife records a step of a life.
func (w *World) tellLife(n *host, p Phase, code int, reason string) {
	w.step(n, SubWorld, StepLife, uint64(n.life)<<32|uint64(uint32(int32(code))), uint64(p))
	l := LifeChange{Node: n.spec.Name, Ordinal: n.life, Phase: p, Code: code, Reason: reason}
	for _, o := range w.observers {
		o.OnLife(l)
	}
}
