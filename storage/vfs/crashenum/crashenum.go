// Package crashenum enumerates what crashes can leave of a small program on
// storage/vfs. It stops the program before each of its changing operations and after
// the last, and at each such boundary recovers every state that the crash model of
// vfs.Mem allows: any subset of unsynced sectors, any unsynced size on the way, any
// subset of unsynced directory changes that keeps the order of changes to one entry.
// A check then judges each state. Where a boundary has more states than the limit, a
// stated sample keyed by seed and boundary is visited, and the report says so.
//
// A sector holds its durable or its newest bytes. A state in between, written back
// while it was current and overwritten since, is that of an earlier boundary as far as
// the file alone goes; its mixture with later changes of other files is not visited.
package crashenum

import (
	"errors"
	"fmt"
	"strings"

	"lockstep/internal/prng"
	"lockstep/storage/vfs"
)

// DefaultPerPoint bounds the states visited at one boundary.
const DefaultPerPoint = 4096

// maxPoints bounds the boundaries of one program: a program with more is not small.
const maxPoints = 100_000

// Config is one enumeration.
type Config struct {
	// Start is the disk the program finds; nil is an empty one. It is not changed.
	Start *vfs.Mem
	// Setup runs first, without crashes; what it leaves unsynced is unsynced.
	Setup func(fsys vfs.FS) error
	// Program is run once for each boundary, from the same disk. It must do the same
	// each time and return an error when an operation fails. State that it tells Check
	// about (what it acknowledged) must be reset when it begins.
	Program func(fsys vfs.FS) error
	// Check recovers one state and says what is wrong with it. It may change the state.
	Check func(s State) error
	// PerPoint bounds the states visited at one boundary; 0 means DefaultPerPoint.
	// (twice that where the limit shows only on the way).
	PerPoint int
	// Seed keys the sample of boundaries with more states than that.
	Seed uint64
	// Torn also tears sectors: the first half of the bytes that differ, or garbled ones.
	Torn bool
	// PowerLossOnly leaves out the process exit, which keeps everything.
	PowerLossOnly bool
}

// State is one state to check.
type State struct {
	FS   *vfs.Mem
	Kind vfs.CrashKind
	Step uint64 // changing operations the program had done
	Done bool   // the program had ended
}

// Report says what was visited.
type Report struct {
	Points  int   // boundaries
	States  int   // distinct states checked, counted anew at each boundary
	Sampled []int // boundaries of which a sample was visited, by Step
}

// Exhaustive reports whether every state was visited.
func (r Report) Exhaustive() bool { return len(r.Sampled) == 0 }

// String is the report in one line.
func (r Report) String() string {
	if r.Exhaustive() {
		return fmt.Sprintf("%d boundaries, all %d states", r.Points, r.States)
	}
	return fmt.Sprintf("%d boundaries, %d states; only a sample at %d boundaries: %v",
		r.Points, r.States, len(r.Sampled), r.Sampled)
}

// Failure is a state whose check failed, with the choices that lead to it.
type Failure struct {
	Step    uint64
	Kind    vfs.CrashKind
	Choices []string // what was not kept, in the order the crash decided it
	Err     error
}

// Error names the state and what is wrong with it.
func (f *Failure) Error() string {
	what := "everything unsynced kept"
	if len(f.Choices) > 0 {
		what = strings.Join(f.Choices, ", ")
	}
	return fmt.Sprintf("%s after step %d (%s): %v", f.Kind, f.Step, what, f.Err)
}

// Unwrap returns the check's error.
func (f *Failure) Unwrap() error { return f.Err }

// Run enumerates and stops at the first state whose check fails, with a *Failure.
// Another error means the program or its setup failed without a crash.
func Run(cfg Config) (Report, error) {
	var rep Report
	base, err := prepare(cfg)
	if err != nil {
		return rep, err
	}
	for k := uint64(0); ; k++ {
		if k > maxPoints {
			return rep, fmt.Errorf("program has more than %d steps", maxPoints)
		}
		m := base.Clone()
		m.StopAfter(k)
		err := cfg.Program(m)
		done := !m.Stopped()
		if done && err != nil {
			return rep, fmt.Errorf("program without a crash: %w", err)
		}
		e := point{cfg: cfg, m: m, step: k, done: done, rep: &rep, seen: map[uint64]bool{}}
		if err := e.visit(); err != nil {
			return rep, err
		}
		if done {
			return rep, nil
		}
	}
}

// prepare returns the disk every run of the program starts from.
func prepare(cfg Config) (*vfs.Mem, error) {
	if cfg.Program == nil || cfg.Check == nil {
		return nil, errors.New("crash enumeration needs a program and a check")
	}
	m := cfg.Start
	if m == nil {
		m = vfs.NewMem(vfs.MemOptions{})
	}
	m = m.Clone()
	if cfg.Setup != nil {
		if err := cfg.Setup(m); err != nil {
			return nil, fmt.Errorf("setup: %w", err)
		}
	}
	return m.Clone(), nil
}

// point is one boundary of the program.
type point struct {
	cfg  Config
	m    *vfs.Mem
	step uint64
	done bool
	rep  *Report
	seen map[uint64]bool // fingerprints of states checked here
}

// visit checks every state of the boundary, or a sample.
func (p *point) visit() error {
	p.rep.Points++
	if !p.cfg.PowerLossOnly {
		if err := p.check(vfs.ProcessExit, &walk{torn: p.cfg.Torn}); err != nil {
			return err
		}
	}
	limit := p.cfg.PerPoint
	if limit <= 0 {
		limit = DefaultPerPoint
	}
	if whole, err := p.exhaust(limit); err != nil || whole {
		return err
	}
	p.rep.Sampled = append(p.rep.Sampled, int(p.step))
	return p.sample(limit)
}

// exhaust checks every state, unless there are more than limit.
func (p *point) exhaust(limit int) (whole bool, err error) {
	w := &walk{torn: p.cfg.Torn}
	p.m.CrashCloneChoose(vfs.PowerLoss, w.choose)
	// The path that keeps everything asks nearly all there is to ask, and some of it in
	// vain: do not walk half of a tree that is far too large.
	if w.outcomes(64*limit) > 64*limit {
		return false, nil
	}
	for range limit {
		w.at = 0
		if err := p.check(vfs.PowerLoss, w); err != nil {
			return false, err
		}
		if !w.next() {
			return true, nil
		}
	}
	return false, nil
}

// sample visits the extremes (everything kept, nothing kept, sizes without bytes, each single choice
// turned from either extreme) and then outcomes drawn with the seed.
func (p *point) sample(limit int) error {
	all := &walk{torn: p.cfg.Torn}
	if err := p.check(vfs.PowerLoss, all); err != nil {
		return err
	}
	worst := &walk{torn: p.cfg.Torn, draw: func(site string, _ uint64, n int) int { return n - 1 }}
	zeros := &walk{torn: p.cfg.Torn, draw: func(site string, _ uint64, n int) int {
		if site == vfs.SitePiece {
			return vfs.PieceLost
		}
		return 0
	}}
	for _, w := range []*walk{worst, zeros} {
		if err := p.check(vfs.PowerLoss, w); err != nil {
			return err
		}
	}
	singles := min(len(all.taken), limit/4)
	for i := range limit {
		w := &walk{torn: p.cfg.Torn}
		switch {
		case i < singles:
			w.draw = single(i, 0)
		case i < 2*singles:
			w.draw = single(i-singles, vfs.PieceLost)
		default:
			w.draw = drawn(prng.Hash(p.cfg.Seed, p.step, uint64(i)))
		}
		if err := p.check(vfs.PowerLoss, w); err != nil {
			return err
		}
	}
	return nil
}

// single turns the i-th choice and leaves pieces and names at the base outcome.
func single(i, base int) vfs.Choose {
	at := -1
	return func(site string, _ uint64, n int) int {
		at++
		v := 0
		if site == vfs.SitePiece || site == vfs.SiteEntry {
			v = base
		}
		if at == i {
			v = (v + 1) % n
		}
		return v
	}
}

// drawn answers by a keyed hash; how much is kept differs from draw to draw.
func drawn(seed uint64) vfs.Choose {
	keep := seed % 8 // of 8 pieces this many are kept
	return func(site string, key uint64, n int) int {
		h := prng.Hash(seed, prng.HashString(site), key)
		if (site == vfs.SitePiece || site == vfs.SiteEntry) && h>>32%8 < keep {
			return 0
		}
		return int(h % uint64(n))
	}
}

// check recovers one state and checks it unless an equal one was checked here.
func (p *point) check(kind vfs.CrashKind, w *walk) error {
	m := p.m.CrashCloneChoose(kind, w.choose)
	// Equal bytes after different kinds are different states: one is cached, one durable.
	id := prng.Hash(m.Fingerprint(), uint64(kind))
	if p.seen[id] {
		return nil
	}
	p.seen[id] = true
	p.rep.States++
	err := p.cfg.Check(State{FS: m, Kind: kind, Step: p.step, Done: p.done})
	if err == nil {
		return nil
	}
	return &Failure{Step: p.step, Kind: kind, Choices: w.story(), Err: err}
}
