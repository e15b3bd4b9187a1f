package live

import (
	"slices"
	"testing"
	"time"

	"lockstep/internal/event"
	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/sim"
	"lockstep/storage"
)

// clockwork is a machine that counts its deadlines and keeps one stream to a peer.
type clockwork struct {
	name, peer string
	due        node.Time
	ticks      int
	settles    int
	dialled    node.SessionID
	up         bool
	stopping   bool
}

// every is the time between two ticks.
const every = 100 * time.Millisecond

func (m *clockwork) SessionUp(_ node.Now, s node.SessionID, _ node.Peer) {
	m.up = m.up || s == m.dialled
}

func (m *clockwork) SessionDown(_ node.Now, s node.SessionID, _ string) {
	if s == m.dialled {
		m.up, m.dialled = false, 0
	}
}
func (m *clockwork) Receive(node.Now, node.SessionID, *wire.Frame) {}
func (m *clockwork) DiskDone(node.Now, storage.Result)             {}
func (m *clockwork) Stop(node.Now)                                 { m.stopping = true }

func (m *clockwork) Settle(now node.Now, fx *node.Effects) {
	m.settles++
	if m.stopping {
		fx.Exit = &node.Exit{Code: node.ExitClean, Reason: "stopped"}
		return
	}
	if now.Mono < m.due {
		return
	}
	m.ticks++
	m.due = now.Mono.Add(every)
	fx.Emit(event.Event{Kind: event.Mark, Text: "tick"})
	if m.dialled == 0 {
		m.dialled = node.Dialled | node.SessionID(m.ticks)
		fx.Dials = append(fx.Dials, node.Dial{Session: m.dialled, Link: wire.Remoting, Addr: m.peer + ":1"})
	}
}

func (m *clockwork) Deadline() node.Time          { return m.due }
func (m *clockwork) CheckInvariants()             {}
func (m *clockwork) Conditions() []node.Condition { return nil }
func (m *clockwork) Gauges(func(string, float64)) {}
func (m *clockwork) Listeners() []node.Listener {
	return []node.Listener{{Link: wire.Remoting, Addr: m.name + ":1"}}
}

// recorder keeps what a world tells.
type recorder struct {
	sim.Deaf
	lives []string
	marks map[string]int
}

func (r *recorder) OnLife(l sim.LifeChange) { r.lives = append(r.lives, l.Node+" "+l.Phase.String()) }
func (r *recorder) OnEvent(e event.Event)   { r.marks[e.Node]++ }

// newClockworks is a world of two of them.
func newClockworks(t *testing.T, faults ...*sim.Fault) (*World, *recorder) {
	t.Helper()
	w, err := New(Options{Dir: t.TempDir(), Plan: &sim.Plan{Seed: 1, Faults: faults}, Sim: sim.DefaultOptions(), Pace: 20})
	must(t, err)
	t.Cleanup(w.Close)
	rec := &recorder{marks: map[string]int{}}
	w.Observe(rec)
	for i, name := range []string{"a", "b"} {
		m := &clockwork{name: name, peer: []string{"b", "a"}[i]}
		w.Add(sim.NodeSpec{Name: name, Boot: func(l sim.Life) (node.Machine, sim.Doer, error) {
			*m = clockwork{name: m.name, peer: m.peer}
			f, err := l.Disk.Create("life")
			if err == nil {
				err = f.Close()
			}
			return m, nil, err
		}})
	}
	return w, rec
}

// running waits until both machines run and are connected.
func running(t *testing.T, w *World) {
	t.Helper()
	ok := w.RunWhile(w.Now()+int64(time.Minute), func() bool {
		for _, name := range []string{"a", "b"} {
			if m, ok := w.Machine(name).(*clockwork); !ok || !m.up {
				return true
			}
		}
		return false
	})
	if !ok {
		t.Fatalf("the nodes do not run: %v", w.Findings())
	}
}

// TestEveryKindOfFault makes each fault happen, ends it, and wants the world to go
// on as before.
func TestEveryKindOfFault(t *testing.T) {
	for _, kind := range sim.Kinds() {
		if kind == sim.Action {
			continue
		}
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			w, _ := newClockworks(t)
			running(t, w)
			f := &sim.Fault{Kind: kind, Nodes: []string{"a"}, Arg: 2, For: int64(time.Second)}
			if kind == sim.PowerLoss {
				f.Arg = 0
			}
			if kind.Network() {
				f.Nodes, f.Shape, f.Sides = nil, sim.Split, [][]string{{"a"}, {"b"}}
			}
			must(t, w.Inject(f))
			if f.Fired == 0 {
				t.Fatalf("it did not fire: %s", f.Refused)
			}
			if !w.Run(w.Now() + int64(3*time.Second)) {
				t.Fatal(w.Findings())
			}
			if !f.Ended || len(w.active) != 0 {
				t.Errorf("ended %v, %d are left", f.Ended, len(w.active))
			}
			w.Heal([]string{"a", "b"})
			running(t, w)
			if f := w.Audit(); len(f) > 0 {
				t.Error(f)
			}
		})
	}
}

func TestPlanWithTriggers(t *testing.T) {
	crash := &sim.Fault{Kind: sim.CrashExit, Nodes: []string{"a"}, For: int64(time.Second),
		When: sim.Trigger{Kind: event.Mark, Text: "tick", Node: "b", K: 5, Delay: int64(50 * time.Millisecond)}}
	inside := &sim.Fault{Kind: sim.PowerLoss, Nodes: []string{"b"}, For: int64(time.Second), When: sim.Trigger{At: 1, DiskStep: 1}}
	w, rec := newClockworks(t, crash, inside)
	w.Run(int64(20 * time.Second))
	running(t, w)
	if s := w.Stale(); len(s) > 0 {
		t.Fatal(s)
	}
	if !slices.Contains(rec.lives, "a down") {
		t.Errorf("a was not killed: %v", rec.lives)
	}
	// The first start of b is broken off inside its only file operation.
	if n := slices.Index(rec.lives, "b up"); n < 0 || count(rec.lives[:n], "b booting") != 2 {
		t.Errorf("b was not broken off at its start: %v", rec.lives)
	}
}

func count(list []string, what string) (n int) {
	for _, s := range list {
		if s == what {
			n++
		}
	}
	return n
}

func TestPaceAndTurns(t *testing.T) {
	w, rec := newClockworks(t)
	running(t, w)
	before, from, began := rec.marks["a"], w.Now(), time.Now()
	const span = 10 * time.Second
	w.Run(from + int64(span))
	if real := time.Since(began); real < span/20 || real > span/2 {
		t.Errorf("%v of the world took %v at a pace of 20", span, real)
	}
	if n := rec.marks["a"] - before; n < 20 || n > int(span/every)+1 {
		t.Errorf("%d ticks of %v in %v", n, every, span)
	}
	called := false
	w.At(w.Now()+int64(time.Second), func() { called = true })
	w.Run(w.Now() + int64(2*time.Second))
	if !called {
		t.Error("a call was not made")
	}
}

func TestFindingsEndTheRun(t *testing.T) {
	w, _ := newClockworks(t)
	w.find("a", "test", "something is wrong")
	if w.Run(int64(time.Minute)) || len(w.Findings()) != 1 {
		t.Fatal(w.Findings())
	}
	if w.Inject(&sim.Fault{Kind: sim.Pause, Nodes: []string{"nobody"}}) == nil {
		t.Error("a fault at an unknown node was taken")
	}
}

func TestBudgetSparesOthers(t *testing.T) {
	w, _ := newClockworks(t)
	running(t, w)
	w.SetEra(&sim.Era{Victims: []string{"b"}})
	wipe := &sim.Fault{Kind: sim.WipeDisk, Nodes: []string{"a"}}
	must(t, w.Inject(wipe))
	if wipe.Fired != 0 || wipe.Refused == "" || w.Machine("a") == nil {
		t.Errorf("a node outside the budget lost its disk: %+v", wipe)
	}
	must(t, w.Inject(&sim.Fault{Kind: sim.WipeDisk, Nodes: []string{"b"}}))
	if w.Machine("b") != nil {
		t.Error("the victim still runs")
	}
}

func TestWakeAndPeer(t *testing.T) {
	w, _ := newClockworks(t)
	running(t, w)
	m := w.Machine("a").(*clockwork)
	p, ok := w.Node("a").Peer(m.dialled ^ node.SessionID(w.node("a").life)<<lifeShift)
	if !ok || p.Addr != "b:1" {
		t.Errorf("the peer of a's stream is %+v, %v", p, ok)
	}
	m.due = node.Never // only news settles it now
	before := m.settles
	if w.RunWhile(w.Now()+int64(time.Second), func() bool { return m.settles <= before+1 }) {
		t.Fatal("it settles without news")
	}
	before = m.settles
	w.Wake("a")
	if !w.RunWhile(w.Now()+int64(time.Minute), func() bool { return m.settles == before }) {
		t.Error("it was not woken")
	}
}
