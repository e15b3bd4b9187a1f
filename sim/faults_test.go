package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"lockstep/node"
	"lockstep/storage"
	"lockstep/storage/vfs"
)

// plan builds a benign plan from fault lines.
func plan(t *testing.T, lines ...string) *Plan {
	t.Helper()
	p := &Plan{Benign: true}
	for _, line := range lines {
		words, err := split(line)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parseFault(words)
		if err != nil {
			t.Fatal(err)
		}
		p.Faults = append(p.Faults, f)
	}
	return p
}

// lives records the steps of lives.
type lives struct {
	Deaf
	list []LifeChange
}

func (l *lives) OnLife(c LifeChange) { l.list = append(l.list, c) }

func (l *lives) String() string {
	var out []string
	for _, c := range l.list {
		out = append(out, fmt.Sprintf("%s/%d %s", c.Node, c.Ordinal, c.Phase))
	}
	return strings.Join(out, ", ")
}

// toyRun runs the toy world under fault lines and watches lives.
func toyRun(t *testing.T, until int64, lines ...string) (*World, *lives) {
	t.Helper()
	o := DefaultOptions()
	o.Net.KeepAlive = 6 * sec
	w := toyWorld(New, o, plan(t, lines...))
	t.Cleanup(w.Close)
	l := &lives{}
	w.Observe(l)
	w.Run(until)
	mustBeClean(t, w)
	if s := w.Stale(); len(s) > 0 && until >= 4*sec {
		t.Fatalf("stale: %v", s)
	}
	return w, l
}

// gaps returns the reasons for which c1's sessions ended, without repeats.
func reasons(w *World, name string) []string {
	return slices.Compact(slices.Clone(pingOf(w, name).reasons))
}

func TestProcessFaults(t *testing.T) {
	for _, c := range []struct {
		fault string
		want  []string // why c1's sessions ended
		life  int      // of s1
	}{
		{"crash s1 at 2s for 2s", []string{"connection reset", "connection refused"}, 2},
		{"power-loss s1 at 2s for 10s", nil, 2}, // see below: silence until the host is back
		{"crash-silent s1 at 2s for 10s", nil, 2},
		{"pause s1 at 2s for 5s", nil, 1},
		{"suspend s1 at 2s for 5s", nil, 1},
		{"stop s1 at 2s for 2s", []string{"closed by peer", "connection refused"}, 2},
		{"wipe-disk s1 at 2s for 2s", []string{"connection reset", "connection refused"}, 2},
	} {
		t.Run(strings.Fields(c.fault)[0], func(t *testing.T) {
			w, l := toyRun(t, 1900*ms, c.fault+" ") // boots are over
			before := pingOf(w, "c1").ok
			w.Run(3900 * ms)
			middle := pingOf(w, "c1")
			if c.fault[:4] != "stop" && middle.ok > before+400 {
				t.Fatalf("service went on: %d then %d", before, middle.ok)
			}
			silent := strings.Contains(c.fault, "10s") || strings.Contains(c.fault, "5s")
			if silent && len(middle.reasons) != 0 {
				t.Fatalf("a silent host told: %v", middle.reasons)
			}
			if other := pingOf(w, "c3"); other.last < node.Time(3800*ms) {
				t.Fatal("the other server suffered")
			}
			w.Run(20 * sec)
			if got := reasons(w, "c1"); !silent && !slices.Equal(got, c.want) {
				t.Fatalf("sessions ended for %v, want %v", got, c.want)
			}
			if p := pingOf(w, "c1"); p.last < node.Time(19*sec) {
				t.Fatalf("no service at the end: %+v\n%s", p, l)
			}
			if w.Node("s1").Life() != c.life {
				t.Fatalf("lives: %s", l)
			}
		})
	}
}

func TestPausedSessionsStayAndCatchUp(t *testing.T) {
	w, _ := toyRun(t, 20*sec, "pause s1 at 2s for 5s")
	p := pingOf(w, "c1")
	if len(p.reasons) != 0 || int64(p.slowest) < 4*sec {
		t.Fatalf("%v, slowest %d", p.reasons, p.slowest)
	}
}

func TestSuspendedHostDoesNotAnswerButPausedKernelDoes(t *testing.T) {
	for _, c := range []struct {
		fault string
		ups   int
	}{{"pause s1 at 100ms for 8s", 1}, {"suspend s1 at 500ms for 8s", 1}} {
		w := New(DefaultOptions(), plan(t, c.fault))
		w.Add(echoSpec("s1"))
		spec := pingSpec("c1", "s1:1")
		spec.Late = true
		w.Add(spec)
		w.Run(2 * sec)
		if err := w.Inject(&Fault{Kind: Start, Nodes: []string{"c1"}}); err != nil {
			t.Fatal(err)
		}
		w.Run(7 * sec)
		up := pingOf(w, "c1").up
		w.Close()
		if c.fault[:5] == "pause" && w.Node("s1").Life() == 1 && !up {
			t.Fatal("the kernel of a paused process accepts connections")
		}
		if c.fault[:5] == "suspe" && (up || pingOf(w, "c1").reasons[0] != "dial timed out") {
			t.Fatal("a suspended host accepted a connection")
		}
	}
}

func TestSlowCPU(t *testing.T) {
	w, _ := toyRun(t, 4*sec, "slow-cpu s1 at 1s for 2s arg 2000")
	slow := int64(pingOf(w, "c1").slowest)
	if slow < 20*ms { // 5 µs a batch, times 2000, several batches
		t.Fatalf("slowest answer took %d ns", slow)
	}
}

func TestLoopCatchesUpInBatches(t *testing.T) {
	w := New(DefaultOptions(), &Plan{Seed: 3})
	defer w.Close()
	w.Add(echoSpec("s1"))
	for i := range 20 {
		w.Add(pingSpec(fmt.Sprintf("c%d", i), "s1:1"))
	}
	w.Run(2 * sec)
	if err := w.Inject(&Fault{Kind: Pause, Nodes: []string{"s1"}, For: sec}); err != nil {
		t.Fatal(err)
	}
	sizes := map[uint64]bool{}
	log := &StepLog{}
	w.Keep(log)
	w.Run(3100 * ms)
	for _, s := range log.steps {
		if s.Kind == StepBatch && s.Node == 0 {
			sizes[s.A] = true
		}
	}
	mustBeClean(t, w)
	if len(sizes) < 4 || !sizes[0] {
		t.Fatalf("batches after a pause always have the same size: %v", sizes)
	}
}

func TestNetworkShapes(t *testing.T) {
	reach := func(w *World) string {
		out := ""
		for _, n := range w.Nodes() {
			if n.Name()[0] == 'p' {
				if pingOf(w, n.Name()).last > node.Time(w.Now()-sec) {
					out += n.Name() + " "
				}
			}
		}
		return strings.TrimSpace(out)
	}
	cases := []struct{ fault, want string }{
		{"cut sa,pab,pac|sb,sc,pba,pcb at 3s for 4s", "pcb"},          // two sides
		{"cut sa,pab,pac|sb,pba at 3s for 4s", "pac pcb"},             // sc is a bridge: all reach it, it reaches all
		{"cut pab>sb at 3s for 4s", "pac pba pcb"},                    // requests lost
		{"cut sb>pab at 3s for 4s", "pac pba pcb"},                    // answers lost
		{"cut ring:sa,pab,sb,sc,pac,pba,pcb at 3s for 4s", "pab pac"}, // neighbours only
		{"refuse pab|sb at 3s for 4s", "pab pac pba pcb"},             // streams live on
		{"stall pab|sb at 3s for 4s", "pac pba pcb"},                  //
		{"delay pab|sb at 3s for 4s arg 2000000000", "pac pba pcb"},   // one answer each 4 s
		{"half-open pab|sb at 3s", "pac pba pcb"},                     //
		{"reset pab|sb,pac|sc at 6900ms", "pab pac pba pcb"},          // they redial
		{"bandwidth pab|sb at 3s for 4s arg 20", "pac pba pcb"},       // 20 bytes a second
		{"loss pab|sb at 3s for 4s arg 1000", "pab pac pba pcb"},      //
		{"corrupt pab|sb at 3s for 4s arg 1000", "pac pba pcb"},       //
		{"cut sa,pab,pac,pba,pcb,sb|sc at 3s for 4s", "pab pba pcb"},  // one node alone
		{"cut sa|sb,sc|pab,pac,pba,pcb at 3s for 4s", ""},             // three sides
		{"cut sa,sb,sc|pab at 3s for 4s", "pac pba pcb"},              //
	}
	for _, c := range cases {
		t.Run(strings.ReplaceAll(c.fault, " ", "_"), func(t *testing.T) {
			o := DefaultOptions()
			o.Net.KeepAlive, o.Net.StreamTimeout = 10*sec, 6*sec
			o.DiskSync.Lo, o.DiskSync.Hi = 5*ms, 8*ms
			p := plan(t, c.fault)
			p.Benign, p.Seed = false, 1
			w := New(o, p)
			defer w.Close()
			for _, n := range []string{"sa", "sb", "sc"} {
				w.Add(echoSpec(n))
			}
			for _, n := range []string{"pab", "pac", "pba", "pcb"} { // p, its own place, its target
				w.Add(pingSpecFor(c.fault)(n, "s"+n[2:]+":1"))
			}
			w.Run(6900 * ms)
			mustBeClean(t, w)
			w.Run(7*sec - 1)
			if got := reach(w); got != c.want {
				t.Fatalf("in touch: %q, want %q", got, c.want)
			}
			w.Run(25 * sec)
			mustBeClean(t, w)
			if got := reach(w); got != "pab pac pba pcb" {
				t.Fatalf("after healing: %q\n%+v", got, pingOf(w, "pab"))
			}
		})
	}
}

// pingSpecFor gives clients patience where bytes are damaged: a damaged length
// makes the server wait for bytes that never come.
func pingSpecFor(fault string) func(name, target string) NodeSpec {
	if strings.HasPrefix(fault, "corrupt") {
		return patientSpec
	}
	return pingSpec
}

func TestDiskTiming(t *testing.T) {
	w := New(DefaultOptions(), &Plan{Seed: 1})
	defer w.Close()
	w.Add(saverSpec("s"))
	w.Add(echoSpec("e"))
	w.Add(pingSpec("c", "e:1"))
	var landed, early int
	r := &diskLog{w: w, hit: func(name string, res *storage.Result) {
		if name != "s" {
			return
		}
		landed++
		if w.Machine("s").(*saver).issued {
			early++
		}
	}}
	w.Observe(r)
	w.Run(10 * sec)
	mustBeClean(t, w)
	if landed < 90 || early != landed {
		t.Fatalf("%d operations took effect, %d before the machine heard of it", landed, early)
	}
	// A write that has landed is in the cache, and durable only after its sync.
	disk := w.Node("e").Disk()
	cached, _ := disk.CachedAt("log", 0, 100)
	durable, ok := disk.DurableAt("log", 0, 100)
	if len(cached) != 100 || !ok || !slices.Equal(cached, durable) {
		t.Fatal("the log's first record is not durable")
	}
}

// diskLog calls hit for each operation that took effect.
type diskLog struct {
	Deaf
	w   *World
	hit func(name string, r *storage.Result)
}

func (d *diskLog) OnDisk(name string, r *storage.Result) { d.hit(name, r) }

func TestPowerLossTakesUnsyncedData(t *testing.T) {
	for _, c := range []struct {
		arg  string
		rule func(lost int) bool
	}{{"arg -1", func(n int) bool { return n == 1 }}, {"arg -2", func(n int) bool { return n == 0 }}} {
		lost := 0
		w := New(DefaultOptions(), plan(t, "power-loss s at 2s for 1s "+c.arg))
		w.Add(NodeSpec{Name: "s", Boot: func(l Life) (node.Machine, Doer, error) {
			s, size, err := openToyStore(l.Disk)
			if l.Ordinal == 2 && size == 0 {
				lost++
			}
			if err == nil && l.Ordinal == 1 {
				_, err = s.log.WriteAt([]byte("unsynced"), 0)
			}
			return &saver{at: node.Never}, s, err
		}})
		w.Run(5 * sec)
		w.Close()
		mustBeClean(t, w)
		if !c.rule(lost) || w.Node("s").Life() != 2 {
			t.Fatalf("%s: lost %d, lives %d", c.arg, lost, w.Node("s").Life())
		}
	}
}

func TestDiskFaults(t *testing.T) {
	for _, c := range []struct {
		fault string
		check func(t *testing.T, w *World, l *lives)
	}{
		{"disk-slow s1 at 2s for 2s arg 300", func(t *testing.T, w *World, _ *lives) {
			if int64(pingOf(w, "c1").slowest) < 250*ms {
				t.Fatalf("slowest %d", pingOf(w, "c1").slowest)
			}
		}},
		{"disk-stall s1 at 2s for 2s", func(t *testing.T, w *World, _ *lives) {
			if s := int64(pingOf(w, "c1").slowest); s < 1900*ms || s > 3*sec {
				t.Fatalf("slowest %d", s)
			}
		}},
		{"disk-eio s1 at 2s text sync:log", func(t *testing.T, w *World, l *lives) {
			if w.Node("s1").Up() || l.list[len(l.list)-1].Code != node.ExitSuspect {
				t.Fatalf("a failed sync was survived: %s", l)
			}
		}},
		{"disk-eio s1 at 2s arg 1 text write:log", func(t *testing.T, w *World, l *lives) {
			if l.list[len(l.list)-1].Code != node.ExitSuspect || !strings.Contains(l.list[len(l.list)-1].Reason, "input/output error") {
				t.Fatalf("%+v", l.list[len(l.list)-1])
			}
		}},
		{"disk-read-only s1 at 2s", func(t *testing.T, w *World, l *lives) {
			if w.Node("s1").Up() {
				t.Fatal("writes went on")
			}
		}},
		{"disk-full s1 at 2s", func(t *testing.T, w *World, l *lives) {
			if w.Node("s1").Up() || !strings.Contains(l.list[len(l.list)-1].Reason, "no space") {
				t.Fatalf("%+v", l.list[len(l.list)-1])
			}
		}},
		{"disk-sync-drop s1 at 2s", func(t *testing.T, w *World, l *lives) {
			size, _ := w.Node("s1").Disk().DurableSize("log")
			all, err := w.Node("s1").Disk().Stat("log")
			if w.Node("s1").Up() || err != nil || size > all.Size() {
				t.Fatalf("durable %d of %v %v", size, all, err)
			}
		}},
		{"disk-lies s1 at 2s for 2s", func(t *testing.T, w *World, l *lives) {
			if p := pingOf(w, "c1"); p.last < node.Time(9*sec) {
				t.Fatal("a lie was noticed")
			}
		}},
		{"disk-rot s1 at 4s arg 3 text log", func(t *testing.T, w *World, l *lives) {
			disk := w.Node("s1").Disk()
			size, _ := disk.DurableSize("log")
			got, ok := disk.DurableAt("log", 0, int(size))
			have, _ := disk.CachedAt("log", 0, int(size))
			if !ok || slices.Equal(got, have) {
				t.Fatal("nothing rotted")
			}
		}},
	} {
		t.Run(strings.Fields(c.fault)[0], func(t *testing.T) {
			w, l := toyRun(t, 10*sec, c.fault)
			c.check(t, w, l)
		})
	}
}

func TestLiesLoseAtPowerLoss(t *testing.T) {
	w, _ := toyRun(t, 10*sec, "disk-lies s1 at 2s for 4s", "power-loss s1 at 5s for 1s arg -1")
	if got := w.Node("s1").Life(); got != 2 {
		t.Fatal(got)
	}
	// Three seconds of answered requests are gone: the new life began at the end of the honest part.
	size, _ := w.Node("s1").Disk().DurableSize("log")
	ok := int64(pingOf(w, "c1").ok + pingOf(w, "c2").ok)
	if size >= ok*100 {
		t.Fatalf("%d answers of 100 bytes, %d durable bytes: nothing was lost", ok, size)
	}
}

func TestCrashPerformsPartOfWhatWasRunning(t *testing.T) {
	done := map[bool]int{}
	for seed := range uint64(40) {
		o := DefaultOptions()
		o.DiskWrite.Lo, o.DiskWrite.Hi = 90*ms, 100*ms
		p := plan(t, "crash s at 1050ms")
		p.Benign, p.Seed = false, seed
		w := New(o, p)
		w.Add(saverSpec("s"))
		w.Run(2 * sec)
		w.Close()
		mustBeClean(t, w)
		names, err := w.Node("s").Disk().List(".")
		if err != nil {
			t.Fatal(err)
		}
		half := slices.ContainsFunc(names, vfs.IsAside)
		done[half]++
	}
	if done[true] == 0 || done[false] == 0 {
		t.Fatalf("a crash in the middle of an atomic save: left aside files %v", done)
	}
}

func TestSupervision(t *testing.T) {
	refused := errors.New("wrong cluster: use another directory")
	for _, c := range []struct {
		name string
		spec func() NodeSpec
		want string
	}{
		{"clean exit stays down", func() NodeSpec { return exitSpec(node.ExitClean) }, "s/1 booting, s/1 up, s/1 down"},
		{"suspect stays down", func() NodeSpec { return exitSpec(node.ExitSuspect) }, "s/1 booting, s/1 up, s/1 down"},
		{"refusal stays down", func() NodeSpec {
			return NodeSpec{Name: "s", Boot: func(Life) (node.Machine, Doer, error) { return nil, nil, refused }}
		}, "s/1 booting, s/1 refused"},
		{"failure restarts", func() NodeSpec {
			s := exitSpec(node.ExitFailed)
			boot := s.Boot
			s.Boot = func(l Life) (node.Machine, Doer, error) {
				if l.Ordinal == 2 {
					return &saver{at: node.Never}, nil, nil
				}
				return boot(l)
			}
			return s
		}, "s/1 booting, s/1 up, s/1 down, s/2 booting, s/2 up"},
		{"own supervisor", func() NodeSpec {
			s := exitSpec(node.ExitSuspect)
			k := 0
			s.Supervise = func(int) (int64, bool) { k++; return sec, k < 2 }
			return s
		}, "s/1 booting, s/1 up, s/1 down, s/2 booting, s/2 up, s/2 down"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := New(DefaultOptions(), &Plan{Seed: 1})
			defer w.Close()
			l := &lives{}
			w.Observe(l)
			w.Add(c.spec())
			w.Run(20 * sec)
			mustBeClean(t, w)
			if l.String() != c.want {
				t.Fatalf("%s", l)
			}
		})
	}
}

// exitSpec is a node that leaves at once with a code.
func exitSpec(code int) NodeSpec {
	return NodeSpec{Name: "s", Boot: func(Life) (node.Machine, Doer, error) { return &leaver{code: code}, nil, nil }}
}

type leaver struct {
	pinger
	code int
}

func (l *leaver) Settle(_ node.Now, fx *node.Effects) {
	fx.Exit = &node.Exit{Code: l.code, Reason: "test"}
}
func (l *leaver) Deadline() node.Time { return node.Never }

func TestHealSparesTheCoreAndLeavesTheRest(t *testing.T) {
	w := toyWorld(New, DefaultOptions(), plan(t,
		"cut s1|c1,c2 at 1s", "crash s2 at 1s", "pause c1 at 1s", "slow-cpu s1 at 1s arg 1000", "disk-eio s1 at 1s text nothing",
		"clock-drift s1 at 1s arg 1000", "crash s1 at 30s", "cut c3|s2 at 1s", "power-loss s1 at 30s disk 1"))
	defer w.Close()
	w.Run(10 * sec)
	w.Heal([]string{"s1", "c1", "c3"})
	w.Run(40 * sec)
	mustBeClean(t, w)
	if pingOf(w, "c1").last < node.Time(39*sec) {
		t.Fatalf("the core does not work: %+v", pingOf(w, "c1"))
	}
	if pingOf(w, "c2").last > node.Time(2*sec) || w.Node("s2").Up() || pingOf(w, "c3").last > node.Time(2*sec) {
		t.Fatal("the rest was healed too")
	}
	if !w.Node("s1").Healed() || w.Node("s1").Life() != 1 || w.Node("s2").Healed() {
		t.Fatal("marks of the core")
	}
	var refused []string
	for _, f := range w.Faults() {
		if f.Refused != "" {
			refused = append(refused, string(f.Kind))
		}
	}
	if !slices.Equal(refused, []string{"crash", "power-loss"}) {
		t.Fatalf("refused: %v", refused)
	}
}

func TestHealStartsWhatIsDown(t *testing.T) {
	o := DefaultOptions()
	o.Net.KeepAlive = 10 * sec
	w := toyWorld(New, o, plan(t, "power-loss s1 at 1s", "suspend c1 at 1s", "crash-silent c2 at 1s"))
	defer w.Close()
	w.Run(5 * sec)
	w.Heal([]string{"s1", "c1", "c2"})
	w.Run(30 * sec)
	mustBeClean(t, w)
	for _, c := range []string{"c1", "c2"} {
		if pingOf(w, c).last < node.Time(29*sec) {
			t.Fatalf("%s: %+v", c, pingOf(w, c))
		}
	}
}

func TestEraBudget(t *testing.T) {
	w := toyWorld(New, DefaultOptions(), plan(t, "wipe-disk s1 at 2s for 1s", "wipe-disk s2 at 3s for 1s", "disk-rot s2 at 4s", "power-loss s2 at 5s for 1s", "crash s2 at 8s for 1s"))
	defer w.Close()
	w.SetEra(&Era{Victims: []string{"s1"}, PowerLoss: true})
	w.Run(20 * sec)
	mustBeClean(t, w)
	want := []bool{true, false, false, false, true}
	for i, f := range w.Faults() {
		if (f.Fired > 0) != want[i] {
			t.Fatalf("%s: fired %v, refused %q", FormatFault(f), f.Fired > 0, f.Refused)
		}
	}
	if len(w.Stale()) != 3 || !strings.Contains(w.Stale()[0], "outside the fault budget") {
		t.Fatalf("%q", w.Stale())
	}
}

func TestAction(t *testing.T) {
	w := toyWorld(New, DefaultOptions(), plan(t, `action - on Mark#1@s1 after 1s saying ten text "switch s1"`, "action s2 at 1s text unknown"))
	defer w.Close()
	w.Handle("switch s1", func(w *World, f *Fault) {
		if err := w.Inject(&Fault{Kind: CrashExit, Nodes: []string{"s1"}, For: sec}); err != nil {
			t.Error(err)
		}
	})
	if w.Run(5*sec) || w.Findings()[0].Kind != "plan" || !strings.Contains(w.Findings()[0].Text, "no handler for action unknown") {
		t.Fatalf("%v", w.Findings())
	}
	w.Close()
	w = toyWorld(New, DefaultOptions(), plan(t, `action - on Mark#1@s1 after 1s saying ten text "switch s1"`))
	defer w.Close()
	w.Handle("switch s1", func(w *World, f *Fault) {
		if err := w.Inject(&Fault{Kind: CrashExit, Nodes: []string{"s1"}, For: sec}); err != nil {
			t.Error(err)
		}
	})
	w.Run(10 * sec)
	mustBeClean(t, w)
	if w.Node("s1").Life() != 2 || len(w.Faults()) != 2 || len(w.Stale()) != 0 {
		t.Fatalf("life %d, %d faults", w.Node("s1").Life(), len(w.Faults()))
	}
}

func TestUnknownNodeInPlan(t *testing.T) {
	w := toyWorld(New, DefaultOptions(), plan(t, "crash nobody at 1s"))
	defer w.Close()
	if w.Run(sec) || !strings.Contains(w.Findings()[0].Text, `no node named "nobody"`) {
		t.Fatalf("%v", w.Findings())
	}
}

// script is an App that gives its machine work at fixed times.
type script struct {
	m     *saver
	next  node.Time
	turns int
	life  int
}

func (s *script) Turn(now node.Now, m node.Machine) bool {
	s.turns++
	if now.Mono < s.next || s.m.issued {
		return false
	}
	s.next = now.Mono.Add(500_000_000)
	s.m.at = now.Mono // work for the machine
	return true
}
func (s *script) Deadline() node.Time { return s.next }

func TestApp(t *testing.T) {
	w := New(DefaultOptions(), plan(t, "crash c at 5s for 1s"))
	defer w.Close()
	spec := saverSpec("c")
	boot := spec.Boot
	spec.Boot = func(l Life) (node.Machine, Doer, error) {
		m, d, err := boot(l)
		m.(*saver).at = node.Never
		return &onceSaver{m.(*saver)}, d, err
	}
	spec.App = func(l Life, m node.Machine) App {
		return &script{m: m.(*onceSaver).saver, life: l.Ordinal, next: l.Now.Mono}
	}
	w.Add(spec)
	w.Run(4900 * ms)
	first := w.Node("c").App().(*script)
	if n := len(first.m.done); n < 9 || n > 10 {
		t.Fatalf("%d saves in 4.9 s at one each half second", n)
	}
	w.Run(20 * sec)
	mustBeClean(t, w)
	second := w.Node("c").App().(*script)
	if second == first || second.life != 2 || len(second.m.done) < 20 {
		t.Fatalf("an App lives and dies with its machine: %+v", second)
	}
}

// onceSaver saves only when its App said so.
type onceSaver struct{ *saver }

func (s *onceSaver) DiskDone(now node.Now, r storage.Result) {
	s.saver.DiskDone(now, r)
	s.at = node.Never
}

func TestInboxLimit(t *testing.T) {
	o := DefaultOptions()
	o.MaxInbox = 10
	w := New(o, plan(t, "pause s1 at 500ms"))
	defer w.Close()
	w.Add(echoSpec("s1"))
	for i := range 20 {
		w.Add(pingSpec(fmt.Sprintf("c%d", i), "s1:1"))
	}
	if w.Run(20*sec) || w.Findings()[0].Kind != "inbox" {
		t.Fatalf("%v", w.Findings())
	}
}

func TestHangIsAFinding(t *testing.T) {
	o := DefaultOptions()
	o.MaxEvents = 1000
	w := toyWorld(New, o, &Plan{Seed: 1})
	defer w.Close()
	if w.Run(100*sec) || w.Findings()[0].Kind != "hang" {
		t.Fatalf("%v", w.Findings())
	}
}
