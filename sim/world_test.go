package sim

import (
	"crypto/rand" // the reader under test
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/raft/v3"
	"lockstep/internal/decide"
	"lockstep/internal/event"
	"lockstep/internal/prng"
	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
)

func runToy(t *testing.T, opts Options, p *Plan, until int64) *World {
	t.Helper()
	w := toyWorld(New, opts, p)
	defer w.Close()
	w.Run(until)
	return w
}

func mustBeClean(t *testing.T, w *World) {
	t.Helper()
	for _, f := range w.Findings() {
		t.Fatalf("finding: %s\n%s", f, f.Stack)
	}
}

// rough draws everything wide, so that tests meet unusual orders.
func rough() Options {
	o := DefaultOptions()
	o.Net.LossPermille = 20
	o.Net.Delay = decide.Dist{Lo: 20_000, Hi: 2 * ms, Tail: 50 * ms, TailPermille: 20}
	o.DiskSync = decide.Dist{Lo: 100_000, Hi: 5 * ms, Tail: 200 * ms, TailPermille: 10}
	o.Linger = decide.Dist{Lo: 0, Hi: 200_000}
	o.ClockOffset, o.WallOffsetMillis, o.DriftPPM = 1000*sec, 5000, 200
	o.SettleTwice, o.Poison = true, true
	return o
}

// trouble is a plan with one of everything.
func trouble(seed uint64) *Plan {
	p := &Plan{Seed: seed}
	for _, text := range []string{
		"crash s1 at 1s for 2s", "pause s2 at 1500ms for 500ms", "cut c1,c2|s1 at 4s for 1s", "power-loss s1 at 6s for 1s",
		"reset c3|s2 at 6500ms", "cut c3>s2 at 7s for 4s", "stall c1|s1 at 8s for 500ms", "slow-cpu s1 at 9s for 1s arg 50",
		"disk-slow s2 at 9s for 1s arg 20", "clock-drift c1 at 9s for 1s arg 50000", "wall-step s1 at 9s arg -5000",
		"half-open c2|s1 at 10s", "suspend s2 at 11s for 1s", "disk-stall s1 at 12s for 300ms",
	} {
		f, err := parseFault(strings.Fields(text))
		if err != nil {
			panic(err)
		}
		p.Faults = append(p.Faults, f)
	}
	return p
}

func TestSameSeedSameHash(t *testing.T) {
	want := map[uint64]uint64{}
	for round := range 3 {
		for _, seed := range []uint64{1, 2, 3} {
			if round == 1 {
				old := runtime.GOMAXPROCS(1)
				defer runtime.GOMAXPROCS(old)
			}
			w := runToy(t, rough(), trouble(seed), 20*sec)
			mustBeClean(t, w)
			if s := w.Stale(); len(s) > 0 {
				t.Fatalf("stale: %v", s)
			}
			if pingOf(w, "c3").ok < 100 {
				t.Fatalf("seed %d: too little happened: %d", seed, pingOf(w, "c3").ok)
			}
			if round == 0 {
				want[seed] = w.Hash()
			} else if w.Hash() != want[seed] {
				t.Fatalf("round %d, seed %d: another hash", round, seed)
			}
		}
	}
	if want[1] == want[2] || want[2] == want[3] {
		t.Fatal("different seeds, same hash")
	}
}

// TestSameHashInAnotherProcess runs this test binary again, with one processor.
func TestSameHashInAnotherProcess(t *testing.T) {
	w := runToy(t, rough(), trouble(42), 20*sec)
	line := fmt.Sprintf("world hash %016x after %d events", w.Hash(), w.Stats().Events)
	if os.Getenv("LOCKSTEP_SIM_CHILD") != "" {
		fmt.Println(line)
		return
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^TestSameHashInAnotherProcess$", "-test.v")
	cmd.Env = append(os.Environ(), "LOCKSTEP_SIM_CHILD=1", "GOMAXPROCS=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), line) {
		t.Fatalf("want %q: %v\n%s", line, err, out)
	}
}

func TestSubHashesAgree(t *testing.T) {
	w := runToy(t, rough(), trouble(42), 20*sec)
	s := w.Stats()
	w2 := runToy(t, rough(), trouble(42), 20*sec)
	if w.Hash() != w2.Hash() || s != w2.Stats() {
		t.Fatalf("%016x %+v, then %016x %+v", w.Hash(), s, w2.Hash(), w2.Stats())
	}
	for _, n := range w.Nodes() {
		for sub := range numSubs {
			if w.SubHash(n.Name(), sub) != w2.SubHash(n.Name(), sub) {
				t.Fatalf("%s %s differs", n.Name(), sub)
			}
		}
	}
}

func TestTwiceAgrees(t *testing.T) {
	err := Twice(func(open func(Options, *Plan) *World) string {
		w := toyWorld(open, rough(), trouble(5))
		w.Run(15 * sec)
		return fmt.Sprint(pingOf(w, "c1").ok)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestTwiceFindsNondeterminism(t *testing.T) {
	leak := uint64(0) // state that survives a world, as a package variable would
	err := Twice(func(open func(Options, *Plan) *World) string {
		w := toyWorld(open, DefaultOptions(), &Plan{Seed: 5})
		w.At(3*sec, func() {
			pingOf(w, "c2").random = func() uint64 { leak++; return leak }
		})
		w.Run(5 * sec)
		return ""
	})
	if err == nil {
		t.Fatal("not noticed")
	}
	text := err.Error()
	for _, want := range []string{"in net of c2", "T+3.00", "first ", "second ", "send"} {
		if !strings.Contains(text, want) {
			t.Fatalf("report lacks %q:\n%s", want, text)
		}
	}
}

func TestPlanReplaysWithoutSeed(t *testing.T) {
	w := toyWorld(New, rough(), trouble(9))
	w.Decider().Record()
	w.Run(3 * sec)
	w.Close()
	plan := w.Pinned()
	text := plan.Format()
	back, err := ParsePlan(text)
	if err != nil {
		t.Fatal(err)
	}
	again := runToy(t, rough(), back, 3*sec)
	if again.Hash() != w.Hash() {
		t.Fatalf("replay of %d choices: hash %016x, want %016x", len(plan.Choices), again.Hash(), w.Hash())
	}
	if back.Format() != text {
		t.Fatal("a plan changes when it is read and printed")
	}
}

// chatty sends one more frame of its own kind, once.
type chatty struct {
	pinger
	done bool
}

func (c *chatty) Settle(now node.Now, fx *node.Effects) {
	if c.up && !c.done && c.ok > 5 {
		c.done = true
		fx.Send(c.session, wire.Frame{Head: wire.Head{Code: 34, Flag: wire.FlagOneway, Language: "GO"}, Body: make([]byte, 100)})
	}
	c.pinger.Settle(now, fx)
}

func (c *chatty) Receive(now node.Now, s node.SessionID, f *wire.Frame) {
	if f.Head.Opaque != 0 {
		c.pinger.Receive(now, s, f)
	}
}

// latencyLog keeps the drawn latencies of code 310 requests, by key.
func latencyLog(w *World, out map[decide.Key]int64) {
	w.Decider().Seen(func(s *decide.Site, k decide.Key, v int64) {
		if s.Name == "net.delay" && k.Kind == 310 {
			out[k] = v
		}
	})
}

func TestKeysDoNotShift(t *testing.T) {
	run := func(extra bool) map[decide.Key]int64 {
		got := map[decide.Key]int64{}
		w := New(DefaultOptions(), &Plan{Seed: 4})
		defer w.Close()
		latencyLog(w, got)
		w.Add(echoSpec("s1"))
		w.Add(NodeSpec{Name: "c1", Boot: func(Life) (node.Machine, Doer, error) {
			return &chatty{pinger: *newPinger("s1:1"), done: !extra}, nil, nil
		}})
		w.Add(pingSpec("c2", "s1:1"))
		w.Run(2 * sec)
		mustBeClean(t, w)
		return got
	}
	a, b := run(false), run(true)
	both := 0
	for k, v := range a {
		if x, ok := b[k]; ok {
			both++
			if x != v {
				t.Fatalf("an unrelated frame shifted %v: %d, then %d", k, v, x)
			}
		}
	}
	if both < 500 {
		t.Fatalf("only %d common choices", both)
	}
}

func TestOverrideAndStale(t *testing.T) {
	plan := &Plan{Seed: 1}
	for _, line := range []string{"choose net.delay c1>s1/2/310/7 2000000000", "choose net.delay nobody>s1/*/*/* 5", "benign net.delay c2>*/*/*/*"} {
		words, _ := split(line)
		if err := plan.parseChoice(words[0] == "benign", words[1:]); err != nil {
			t.Fatal(err)
		}
	}
	f := &Fault{Kind: CrashExit, Nodes: []string{"s2"}, When: Trigger{Kind: event.Elected, K: 1}}
	plan.Faults = append(plan.Faults, f)
	w := runToy(t, DefaultOptions(), plan, 5*sec)
	mustBeClean(t, w)
	if slow := int64(pingOf(w, "c1").slowest); slow < 2*sec || int64(pingOf(w, "c2").slowest) > sec {
		t.Fatalf("the seventh request took %d", slow)
	}
	stale := w.Stale()
	if len(stale) != 2 || !strings.Contains(stale[0], "crash s2 on Elected#1: did not fire") || !strings.Contains(stale[1], "nobody>s1") {
		t.Fatalf("stale: %q", stale)
	}
}

func TestEventTriggerKillsMidBatch(t *testing.T) {
	done := map[int]bool{}
	for seed := range uint64(20) {
		p := &Plan{Seed: seed, Faults: []*Fault{{Kind: CrashExit, Nodes: []string{"s1"}, For: sec,
			When: Trigger{Kind: event.Mark, Text: "ten", Node: "s1", K: 3}}}}
		o := DefaultOptions()
		o.DiskSync = decide.Dist{Lo: 4 * ms, Hi: 6 * ms}
		w := toyWorld(New, o, p)
		r := NewRecorder(w)
		r.Frames = true
		w.Run(3 * sec)
		w.Close()
		mustBeClean(t, w)
		at := p.Faults[0].Fired - 1
		if at <= 0 {
			t.Fatal("did not fire")
		}
		sent := 0
		for _, e := range r.Entries() {
			if e.At == at && e.Node == "s1" && e.What == "send" {
				sent++
			}
		}
		done[sent] = true
		if !strings.Contains(r.Timeline(), "crash s1 on Mark#3@s1 saying ten for 1s") {
			t.Fatal("the timeline does not show the fault")
		}
		if w.Node("s1").Life() != 2 || pingOf(w, "c1").last < node.Time(2900*ms) {
			t.Fatalf("the client did not come back: %+v", pingOf(w, "c1"))
		}
	}
	if len(done) < 2 {
		t.Fatalf("the crash always cut the effects in the same place: %v", done)
	}
}

func TestCrashInsideADiskOperation(t *testing.T) {
	states := map[string]bool{}
	for step := 1; step <= 8; step++ {
		w := New(DefaultOptions(), &Plan{Seed: 1, Faults: []*Fault{{Kind: PowerLoss, Arg: -1, Nodes: []string{"s"}, For: sec,
			When: Trigger{At: sec, DiskStep: step}}}})
		var seen []string
		w.Add(NodeSpec{Name: "s", Boot: func(l Life) (node.Machine, Doer, error) {
			names, err := l.Disk.List(".")
			seen = append(seen, strings.Join(names, " "))
			s, _, err2 := openToyStore(l.Disk)
			return &saver{at: l.Now.Mono.Add(0)}, s, errors.Join(err, err2)
		}})
		w.Run(4 * sec)
		w.Close()
		mustBeClean(t, w)
		if len(seen) != 2 || w.Faults()[0].Fired == 0 {
			t.Fatalf("step %d: lives %q, fired %d", step, seen, w.Faults()[0].Fired)
		}
		states[seen[1]] = true
	}
	if len(states) < 1 {
		t.Fatalf("states: %v", states)
	}
}

// saver saves a new file each 100 ms of its clock.
type saver struct {
	pinger
	at     node.Time
	n      uint64
	issued bool
	stop   bool
	end    node.Time
	done   []uint64
}

func (s *saver) Settle(now node.Now, fx *node.Effects) {
	if now.Mono >= s.at && !s.issued && !s.stop {
		s.issued = true
		s.n++
		fx.Disk = append(fx.Disk, storage.Op{ID: s.n, Lane: storage.LaneMeta, Kind: storage.OpSave,
			Name: fmt.Sprintf("f%d", s.n), Blob: []byte("content")})
	}
	if s.stop && fx.Exit == nil {
		fx.Exit = &node.Exit{Code: node.ExitClean, Reason: "asked"}
	}
}
func (s *saver) DiskDone(now node.Now, r storage.Result) {
	s.issued = false
	s.done = append(s.done, r.Op.ID)
	s.at = now.Mono.Add(100_000_000)
}
func (s *saver) Stop(node.Now) { s.stop = true }
func (s *saver) Deadline() node.Time {
	if s.issued {
		return node.Never
	}
	return s.at
}

func saverSpec(name string) NodeSpec {
	return NodeSpec{Name: name, Boot: func(l Life) (node.Machine, Doer, error) {
		s, _, err := openToyStore(l.Disk)
		return &saver{at: l.Now.Mono}, s, err
	}}
}

func TestCrashDuringBoot(t *testing.T) {
	// The first boot creates the log: step 1 is the create, step 2 the directory sync.
	for step := 1; step <= 2; step++ {
		w := New(DefaultOptions(), &Plan{Seed: 1, Faults: []*Fault{{Kind: PowerLoss, Arg: -1, Nodes: []string{"s"}, For: sec,
			When: Trigger{At: 0, DiskStep: step}}}})
		w.Add(saverSpec("s"))
		w.Run(5 * sec)
		w.Close()
		mustBeClean(t, w)
		if w.Node("s").Life() != 2 || !w.Node("s").Up() {
			t.Fatalf("step %d: life %d", step, w.Node("s").Life())
		}
	}
}

func TestPanicsAreFindings(t *testing.T) {
	for _, c := range []struct{ how, kind, text string }{
		{"panic", "invariant", "served"}, {"twice", "settle-twice", "again"}, {"spin", "spin", "deadline"},
		{"spoil", "in-flight-data-changed", "append"}, {"reuse", "in-flight-data-changed", "sent frame"},
	} {
		t.Run(c.how, func(t *testing.T) {
			o := DefaultOptions()
			o.SettleTwice, o.Poison = c.how != "reuse", true
			w := toyWorld(New, o, &Plan{Seed: 1})
			defer w.Close()
			w.Run(sec)
			echoOf(w, "s1").break_ = c.how
			ok := w.Run(10 * sec)
			f := w.Findings()
			if ok || len(f) == 0 || f[0].Kind != c.kind || f[0].Node != "s1" || w.Now() >= 10*sec {
				t.Fatalf("%v", f)
			}
			if c.kind == "invariant" && (!strings.Contains(f[0].Text, c.text) || !strings.Contains(f[0].Stack, "CheckInvariants")) {
				t.Fatalf("%+v", f[0])
			}
		})
	}
}

func TestStoreKeepsNoBuffer(t *testing.T) {
	// A store that keeps what it was given reads poison later.
	var kept []byte
	o := DefaultOptions()
	o.Poison = true
	w := New(o, &Plan{Seed: 1})
	defer w.Close()
	w.Add(NodeSpec{Name: "s", Boot: func(Life) (node.Machine, Doer, error) {
		return &saver{}, doFunc(func(op storage.Op) storage.Result {
			kept = op.Blob
			return storage.Result{Op: op}
		}), nil
	}})
	w.Run(sec)
	if len(kept) == 0 || kept[0] != poison {
		t.Fatalf("kept %q", kept)
	}
}

type doFunc func(op storage.Op) storage.Result

func (f doFunc) Do(op storage.Op) storage.Result { return f(op) }

func TestClock(t *testing.T) {
	for _, ppm := range []int64{0, 1, -1, 200, -200, 500_000, -500_000, 900_000} {
		c := clock{baseTrue: 12345, baseMono: 777, ppm: ppm}
		rnd := prng.New(uint64(ppm))
		last := int64(0)
		for range 1000 {
			at := c.baseTrue + rnd.Between(0, 1_000_000*sec)
			m := node.Time(c.mono(at))
			back := c.trueAt(m)
			if back > at || c.mono(back) < int64(m) || back > c.baseTrue && c.mono(back-1) >= int64(m) {
				t.Fatalf("ppm %d: true %d shows %d, which first shows at %d", ppm, at, m, back)
			}
		}
		for at := c.baseTrue; at < c.baseTrue+5_000_000; at += 77_777 {
			if m := c.mono(at); m < last {
				t.Fatalf("ppm %d: clock runs backwards", ppm)
			} else {
				last = m
			}
		}
	}
	frozen := clock{ppm: -million}
	if frozen.trueAt(1) != never || frozen.mono(sec) != 0 {
		t.Fatal("a frozen clock moves")
	}
	if (&clock{}).trueAt(node.Never) != math.MaxInt64 {
		t.Fatal("never comes")
	}
}

func TestClockFaults(t *testing.T) {
	w := New(DefaultOptions(), &Plan{Benign: true})
	defer w.Close()
	for _, n := range []string{"a", "b", "c", "d"} {
		w.Add(saverSpec(n))
	}
	inject := func(f *Fault) {
		t.Helper()
		if err := w.Inject(f); err != nil {
			t.Fatal(err)
		}
	}
	inject(&Fault{Kind: ClockDrift, Nodes: []string{"a"}, Arg: 100_000, For: 10 * sec})
	inject(&Fault{Kind: WallStep, Nodes: []string{"b"}, Arg: -60_000})
	inject(&Fault{Kind: ClockFreeze, Nodes: []string{"c"}, For: 10 * sec})
	w.Run(10 * sec)
	saves := func(n string) int { return len(w.Machine(n).(*saver).done) }
	base := saves("d")
	if saves("a") < base*108/100 || saves("c") != 1 {
		t.Fatalf("saves a=%d c=%d d=%d", saves("a"), saves("c"), base)
	}
	if d := w.Clock("b").Wall - w.Clock("d").Wall; d != -60_000 || w.Clock("b").Mono != w.Clock("d").Mono {
		t.Fatalf("wall step moved the wall clock by %d", d)
	}
	a := w.Clock("a").Mono
	w.Run(20 * sec)
	if got := int64(w.Clock("a").Mono - a); got > 10*sec+ms || got < 10*sec-ms {
		t.Fatalf("drift did not end: %d", got)
	}
	if saves("c") < 90 {
		t.Fatalf("the frozen clock did not thaw: %d", saves("c"))
	}
	mustBeClean(t, w)
}

// TestEntropy: etcd-raft draws its election jitter from crypto/rand.Reader,
// which the world replaces while it is open and gives back.
func TestEntropy(t *testing.T) {
	old := rand.Reader
	draw := func(seed uint64) []int64 {
		var out []int64
		w := New(DefaultOptions(), &Plan{Seed: seed})
		defer w.Close()
		w.Add(NodeSpec{Name: "a", Boot: func(Life) (node.Machine, Doer, error) {
			for range 5 {
				v, err := rand.Int(rand.Reader, big.NewInt(1_000_000))
				if err != nil {
					return nil, nil, err
				}
				out = append(out, v.Int64())
			}
			return newPinger("x:1"), nil, nil
		}})
		w.Run(sec)
		return out
	}
	a, b, c := draw(1), draw(1), draw(2)
	if len(a) != 5 || !slices.Equal(a, b) || slices.Equal(a, c) {
		t.Fatalf("%v %v %v", a, b, c)
	}
	if rand.Reader != old {
		t.Fatal("the reader was not given back")
	}
	var p [16]byte
	if _, err := io.ReadFull(rand.Reader, p[:]); err != nil {
		t.Fatal(err)
	}
}

// TestRaftJitterIsKeyed runs raft nodes alone until they campaign.
func TestRaftJitterIsKeyed(t *testing.T) {
	ticks := func(seed uint64) (out []int) {
		w := New(DefaultOptions(), &Plan{Seed: seed})
		defer w.Close()
		for i := range 6 {
			w.Add(NodeSpec{Name: fmt.Sprintf("c%d", i), Boot: func(Life) (node.Machine, Doer, error) {
				store := raft.NewMemoryStorage()
				rn, err := raft.NewRawNode(&raft.Config{ID: 1, ElectionTick: 50, HeartbeatTick: 5, Storage: store,
					MaxSizePerMsg: 1 << 20, MaxInflightMsgs: 16, Logger: &raft.DefaultLogger{Logger: quiet}})
				if err == nil {
					err = rn.Bootstrap([]raft.Peer{{ID: 1}, {ID: 2}})
				}
				k := 0
				for ; err == nil && k < 500 && rn.BasicStatus().RaftState != raft.StateCandidate; k++ {
					rn.Tick()
					if rn.HasReady() {
						rd := rn.Ready()
						err = store.Append(rd.Entries)
						for range rd.CommittedEntries {
						}
						rn.Advance(rd)
					}
				}
				out = append(out, k)
				return newPinger("x:1"), nil, err
			}})
		}
		w.Run(sec)
		mustBeClean(t, w)
		return out
	}
	a, b, c := ticks(1), ticks(1), ticks(2)
	if len(a) != 6 || !slices.Equal(a, b) || slices.Equal(a, c) || len(slices.Compact(slices.Sorted(slices.Values(a)))) < 3 {
		t.Fatalf("%v %v %v", a, b, c)
	}
}

func TestOneWorldAtATime(t *testing.T) {
	w := New(DefaultOptions(), nil)
	defer w.Close()
	defer func() {
		if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), "second world") {
			t.Fatalf("%v", r)
		}
	}()
	New(DefaultOptions(), nil)
}

func TestHeapOrder(t *testing.T) {
	var h heap
	rnd := prng.New(1)
	for range 5000 {
		h.push(rnd.Between(0, 100), evCall, 0, 0)
		if rnd.Chance(1, 3) {
			h.pop()
		}
	}
	last := entry{at: -1}
	for len(h.list) > 0 {
		e := h.pop()
		if !last.before(&e) {
			t.Fatalf("%+v after %+v", e, last)
		}
		last = e
	}
	if k := testing.AllocsPerRun(1000, func() { h.push(5, evCall, 0, 0); h.push(3, evCall, 0, 0); h.pop(); h.pop() }); k > 0 {
		t.Fatalf("%v allocations", k)
	}
}
