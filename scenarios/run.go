package scenarios

import (
	"fmt"
	"math"
	"sort"
	"time"

	"lockstep/checker"
	"lockstep/internal/ha"
	"lockstep/internal/prng"
	"lockstep/sim"
)

// Times of a run, simulated nanoseconds.
const (
	// Ready is when faults may begin: by then every group must acknowledge sends.
	Ready = int64(20 * time.Second)
	// DefaultChaos is how long the faults last.
	DefaultChaos = int64(60 * time.Second)
	// maxCalm bounds the healed phase beyond the computed bound.
	quietAfter = int64(2 * time.Second)
)

// Run is one run of a drill: what was set up, the world, and what the judges saw.
type Run struct {
	Drill *Drill
	Seed  uint64
	Setup Setup
	Plan  *sim.Plan
	World World
	Load  *Load
	Judge *Judge
	Truth *Truth
	// Final is each queue as the last master's log holds it.
	Final       map[string][]checker.Entry
	Findings    []checker.Finding
	Queue       checker.QueueReport
	Healed      int64 // when the healed phase began
	Back        int64 // when every group acknowledged again after it; 0 never
	wall        time.Duration
	controllers []Node
	forged      forged                // what C7's forged requests came to
	cluster     string                // the controllers' cluster before C4 restarts them
	sampled     sampled               // what C2's samples showed
	post        *postman              // of drills that send frames of their own
	minority    []answered            // what controllers without a quorum answered in A8
	sends       []sendEnded           // how sends ended, of drills that ask
	victim      ha.BrokerID           // the broker that the drill is about,
	victimNode  string                // and its node
	ends        map[string]*queueEnds // by group, see behind
	stamps      map[string]int64      // when named points were reached
	hooks       *hooks                // what drills wait for; nil until one does
	nodes       []string              // every node, in the order they were added
	healed      []string              // the core of the healed phase
	repairs     *prng.Source          // draws that core, alike whether the plan was drawn or read
}

// RunOptions are what a run takes beside drill and seed.
type RunOptions struct {
	// Plan replays a plan instead of drawing one.
	Plan *sim.Plan
	// Observe is called with a simulated world before it starts, to add recorders.
	Observe func(w *sim.World)
	// Open makes the world of the run; nil makes a simulated one.
	Open func(o sim.Options, p *sim.Plan) (World, error)
	// Settings override drawn options by name.
	Settings []Option
	// Wall measures wall time for reports; nil leaves it out.
	Wall func() time.Duration
}

// Execute runs a drill once and judges it.
func Execute(d *Drill, seed uint64, o RunOptions) (*Run, *Report, error) {
	if d.Pure != nil {
		if err := Check(d, seed, o.Settings); err != nil {
			return nil, nil, err
		}
		rep := executePure(d, seed, o)
		rep.Set = o.Settings
		return nil, rep, nil
	}
	r, err := prepare(d, seed, o)
	if err != nil {
		return nil, nil, err
	}
	began := time.Duration(0)
	if o.Wall != nil {
		began = o.Wall()
	}
	defer r.World.Close()
	r.act()
	r.judge()
	if o.Wall != nil {
		r.wall = o.Wall() - began
	}
	rep := r.report()
	rep.Set = o.Settings
	return r, rep, nil
}

// executePure runs a drill that needs no world.
func executePure(d *Drill, seed uint64, o RunOptions) *Report {
	began := time.Duration(0)
	if o.Wall != nil {
		began = o.Wall()
	}
	n, findings := d.Pure(prng.New(prng.Hash(seed, prng.HashString(d.ID))))
	rep := &Report{Seed: seed, Drill: d.ID, Host: "pure", Verdict: Pass, Acknowledged: n, Hash: fmt.Sprintf("%016x", prng.Hash(seed, uint64(n), uint64(len(findings))))}
	for _, f := range findings {
		rep.Findings = append(rep.Findings, f.String())
	}
	for _, clause := range d.Assertions {
		made := AssertionMade{Name: clause.Name, Holds: true}
		for _, f := range findings {
			if f.Name == clause.Name {
				made.Holds, made.Detail = false, f.Text
			}
		}
		rep.Assertions = append(rep.Assertions, made)
	}
	switch {
	case len(findings) > 0:
		rep.Verdict, rep.Reason = Fail, rep.Findings[0]
	case n == 0:
		rep.Verdict, rep.Reason = Vacuous, "nothing was checked"
	}
	if o.Wall != nil {
		rep.WallSeconds = (o.Wall() - began).Seconds()
	}
	return rep
}

// prepare draws the setup, builds the cluster and the plan.
func prepare(d *Drill, seed uint64, o RunOptions) (*Run, error) {
	setup, rnd, err := arrange(d, seed, o)
	if err != nil {
		return nil, err
	}
	r := &Run{Drill: d, Seed: seed, Setup: *setup, Plan: o.Plan}
	r.repairs = prng.New(prng.Hash(seed, prng.HashString(d.ID), prng.HashString("repairs")))
	if r.Plan == nil {
		r.Plan = &sim.Plan{Drill: d.ID, Seed: seed}
		if d.Faults != nil {
			r.Plan.Faults = d.Faults(newCast(&r.Setup, rnd))
		}
	}
	for _, opt := range r.Setup.Options() { // also where a plan that was read is overridden
		r.Plan.Set(opt.Name, opt.Value)
	}
	if err := r.open(o); err != nil {
		return nil, err
	}
	r.build()
	return r, nil
}

// firstFault is the first fault of the plan, and no fault at all where a plan that was
// written or shrunk brings none: clauses about it are moot then.
func (r *Run) firstFault() sim.Fault {
	if len(r.Plan.Faults) == 0 {
		return sim.Fault{}
	}
	return *r.Plan.Faults[0]
}

// chaos is how long the faults of the drill last.
func (r *Run) chaos() int64 {
	if r.Drill.Chaos > 0 {
		return r.Drill.Chaos
	}
	return DefaultChaos
}

// act carries the run out: start, faults, healed phase, quiet.
func (r *Run) act() {
	w := r.World
	if !w.RunWhile(Ready, func() bool { return !r.Load.Ready() }) {
		if len(w.Findings()) == 0 {
			r.fail("liveness", "not-ready", "no acknowledged send in every group within %v of a fault-free start", time.Duration(Ready))
		}
		return
	}
	if !w.Run(Ready + r.chaos()) {
		return
	}
	r.Healed = w.Now()
	r.Judge.LastHeal = max(r.Judge.LastHeal, r.Healed)
	r.healed = r.core()
	w.Heal(r.healed)
	if !r.Drill.Down && !r.recover() {
		return
	}
	r.Load.Stopped = true
	r.quiesce()
}

// recover waits until every group acknowledges again, within the bound computed
// from the options.
func (r *Run) recover() bool {
	w := r.World
	before := make(map[string]int, len(r.Load.Groups))
	for k, n := range r.Judge.AcksBy {
		before[k] = n
	}
	bound := r.bound()
	look, given := r.Healed+bound/2, 0 // groups that wait for an operator are looked for late
	back := func() bool {
		seen := map[string]bool{}
		for k, n := range r.Judge.AcksBy {
			if n > before[k] {
				seen[k[:len(r.Load.Groups[0])]] = true
			}
		}
		if len(seen) < len(r.Load.Groups) && w.Now() >= look {
			look = w.Now() + int64(time.Second)
			given = r.givenUp(seen)
		}
		return len(seen)+given == len(r.Load.Groups)
	}
	if w.RunWhile(r.Healed+bound, func() bool { return !back() }) {
		r.Back = w.Now()
		// Some more load on the healed cluster, so that "after" is not one message.
		return w.Run(w.Now() + int64(10*time.Second))
	}
	if len(w.Findings()) == 0 {
		r.fail("liveness", "not-writable", "%s: no acknowledged send in every group within %.1fs of healing", r.whoIsDown(), float64(bound)/1e9)
	}
	return false
}

// bound is how long recovery may take, from the options: time-out, scan, raft
// elections, the rest of a lease, shrink and join, route and client back-off.
func (r *Run) bound() int64 {
	s := &r.Setup
	d := 2*s.HeartbeatTimeout + 2*s.ScanInterval + s.LeaseDuration + 2*s.NotCatchup + 2*s.CheckSet + s.SlaveTimeout
	if s.Throttle > 0 {
		d += time.Duration(int64(time.Second) * (64 << 20) / s.Throttle / 8)
	}
	return int64(d + 60*time.Second)
}

// quiesce waits until every send has ended, everything is confirmed everywhere in
// the core and the watchers have seen all of it.
func (r *Run) quiesce() {
	w := r.World
	if !w.Run(w.Now() + quietAfter) {
		return
	}
	limit := w.Now() + r.bound()
	if w.RunWhile(limit, func() bool { return r.Load.Open() > 0 }) {
		for limit = w.Now() + r.bound(); w.Now() < limit; {
			if r.unsettled() == "" {
				r.converged()
				return
			}
			if !w.Run(w.Now() + int64(250*time.Millisecond)) {
				return
			}
		}
	}
	if len(w.Findings()) > 0 || r.Drill.Down {
		return
	}
	r.fail("liveness", "not-quiet", "after healing and %.1fs without load: %d sends open; %s", float64(r.bound())/1e9, r.Load.Open(), r.unsettled())
}

// converged compares the replicas once everything is quiet.
func (r *Run) converged() {
	for g := range r.Setup.Groups {
		if d := r.diverged(g); d != "" && r.downForGood(g) == "" {
			r.fail("convergence", "diverged", "%s", d)
		}
	}
}

func (r *Run) fail(judge, name, format string, args ...any) {
	r.Findings = append(r.Findings, checker.Finding{Judge: judge, Name: name, Text: fmt.Sprintf(format, args...), At: r.World.Now()})
}

// judge collects every judge's findings and the drill's assertions.
func (r *Run) judge() {
	for _, f := range append(r.World.Findings(), r.World.Audit()...) {
		r.Findings = append(r.Findings, checker.Finding{Judge: "world", Name: f.Kind, Text: f.Node + ": " + f.Text, At: f.At})
	}
	for g := range r.Setup.Groups {
		r.finalOf(GroupName(g))
	}
	r.Judge.Ledger.Heard(r.Load.Ops)
	r.Findings = append(r.Findings, r.Judge.Ledger.Findings()...)
	r.Findings = append(r.Findings, r.Judge.Invariants.Findings()...)
	h := &checker.History{Ops: r.Load.Ops, Final: r.Final, LossAllowed: r.Judge.Ledger.LossAllowed, MinClients: minClients, MinOverlap: 10, Expires: r.Setup.Reserved > 0}
	found, rep := checker.CheckQueues(h)
	r.Queue = rep
	r.Findings = append(r.Findings, found...)
	for _, q := range r.crossChecked() {
		r.Findings = append(r.Findings, checker.CheckLinear(q, h, linearLimit)...)
	}
	for g := range r.Setup.Groups {
		name := GroupName(g)
		r.Findings = append(r.Findings, checker.CheckRegister(name, r.Judge.Register[name], registerLimit)...)
	}
	at := checker.Instants{FirstFault: r.Judge.FirstFault, LastHeal: r.Judge.LastHeal}
	if r.Healed > 0 { // what ends later is outside the core
		at.LastHeal = min(at.LastHeal, r.Healed)
	}
	least := r.Drill.Least
	if r.anyDownForGood() {
		least.After = 0
	}
	r.Findings = append(r.Findings, checker.CheckActivity(least, r.Load.Ops, at, r.Judge.Marks)...)
	if len(r.World.Findings()) == 0 {
		for _, s := range r.World.Stale() {
			r.Findings = append(r.Findings, checker.Finding{Judge: "plan", Name: "stale", Text: s})
		}
	}
}

// registerLimit bounds porcupine on one group's record; it takes milliseconds.
const registerLimit = 20 * time.Second

// linearLimit bounds porcupine on one queue; it takes milliseconds.
const linearLimit = 20 * time.Second

// crossChecked are the queues that porcupine looks at too: the first of each group.
// The direct checker decides all of them.
func (r *Run) crossChecked() (out []string) {
	for g := range r.Setup.Groups {
		out = append(out, r.Load.queueName(GroupName(g), Topic, 0))
	}
	return out
}

// finalOf takes the group's last master, checks the ledger a last time and reads
// its queues.
func (r *Run) finalOf(group string) {
	if r.Final == nil {
		r.Final = map[string][]checker.Entry{}
	}
	rec := r.Truth.refresh(group)
	master := rec.Master
	down := r.downForGood(groupIndex(group)) != ""
	if down {
		master = r.fullest(group)
	}
	if master <= 0 || r.Truth.Node(group, master) == "" {
		return
	}
	if len(r.Findings) == 0 {
		could := r.Truth.Electable(group).With(master)
		if down { // an operator may go on with any replica: only copies that died excuse a loss
			could = r.Truth.Brokers(group)
		}
		r.Judge.Ledger.Final(checker.Promotion{Group: group, Master: master, Electable: could, Unclean: rec.Unclean, At: r.World.Now()})
	}
	if len(r.World.Findings()) == 0 && !down {
		r.checkOffsets(group, r.Truth.Node(group, master), math.MaxInt32)
	}
	for q, entries := range r.readLog(group, master) {
		sort.Slice(entries, func(i, j int) bool { return entries[i].Offset < entries[j].Offset })
		r.Final[q] = entries
	}
}

// readLog decodes the whole commit log on a broker's disk.
func (r *Run) readLog(group string, b ha.BrokerID) map[string][]checker.Entry {
	out := map[string][]checker.Entry{}
	r.scanLog(group, b, r.Truth.MinOffset(group, b), func(rec *checker.Record) {
		q := r.Load.queueName(group, Topic, rec.Queue)
		out[q] = append(out[q], checker.Entry{Offset: rec.QueueOffset, Key: rec.Key()})
	})
	return out
}

// scanLog shows every message of the drill's topic on a broker's disk from off, and
// returns where the log ended.
func (r *Run) scanLog(group string, b ha.BrokerID, off ha.LogOffset, see func(rec *checker.Record)) ha.LogOffset {
	return r.scanRecords(group, b, off, func(rec *checker.Record) {
		if string(rec.Topic) == Topic {
			see(rec)
		}
	})
}

// scanRecords decodes the commit log by the judge's own decoder.
func (r *Run) scanRecords(group string, b ha.BrokerID, off ha.LogOffset, see func(rec *checker.Record)) ha.LogOffset {
	seg := ha.LogOffset(r.Setup.SegmentBytes)
	win := window{read: func(off ha.LogOffset, n int) []byte { return r.Truth.Cached(group, b, off, n) }, segment: seg}
	for {
		head := win.at(off, 8)
		if head == nil {
			return off
		}
		size := ha.LogOffset(head[0])<<24 | ha.LogOffset(head[1])<<16 | ha.LogOffset(head[2])<<8 | ha.LogOffset(head[3])
		if head[4] == 0xCB && head[5] == 0xD4 { // padding to the end of the segment
			off = (off/seg + 1) * seg
			continue
		}
		rec, err := checker.ParseRecord(win.at(off, int(size)))
		if err != nil || rec.Log != off {
			return off
		}
		see(&rec)
		off += size
	}
}

// window reads a log in larger pieces.
type window struct {
	read    func(off ha.LogOffset, n int) []byte
	segment ha.LogOffset
	off     ha.LogOffset
	bytes   []byte
}

// windowBytes is the size of a piece.
const windowBytes = 32 << 10

// at returns n bytes at off, nil when they are not all there. They are valid until
// the next call.
func (w *window) at(off ha.LogOffset, n int) []byte {
	if i := int(off - w.off); off >= w.off && n >= 0 && n <= len(w.bytes)-i {
		return w.bytes[i : i+n]
	}
	ahead := min(windowBytes, int((off/w.segment+1)*w.segment-off))
	if n < ahead {
		if piece := w.read(off, ahead); piece != nil {
			w.off, w.bytes = off, piece
			return piece[:n]
		}
	}
	return w.read(off, n) // the file ends sooner, or part of the piece cannot be read
}
