package netsim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/internal/decide"
	"lockstep/node"
	"lockstep/node/wire"
)

const (
	ms  = int64(time.Millisecond)
	sec = int64(time.Second)
)

// lab is a world of a network alone.
type lab struct {
	t     *testing.T
	net   *Net
	now   int64
	seq   int
	queue []call
	facts []seen
	held  bool // facts are not read: the receiver is stopped
}

type call struct {
	at  int64
	seq int
	ref uint32
}

type seen struct {
	Fact
	at int64
}

func (l *lab) Schedule(at int64, ref uint32) {
	if at < l.now {
		l.t.Fatalf("scheduled %d before now %d", at, l.now)
	}
	l.seq++
	l.queue = append(l.queue, call{at, l.seq, ref})
}

func (l *lab) Deliver(f Fact) { l.facts = append(l.facts, seen{f, l.now}) }

// run advances to the true time until; received frames are read at once.
func (l *lab) run(until int64) {
	done := len(l.facts)
	for {
		for ; done < len(l.facts) && !l.held; done++ {
			if f := l.facts[done].Fact; f.Kind == Receive {
				l.net.Read(l.now, &f)
			}
		}
		i := -1
		for j, c := range l.queue {
			if c.at <= until && (i < 0 || c.at < l.queue[i].at || c.at == l.queue[i].at && c.seq < l.queue[i].seq) {
				i = j
			}
		}
		if i < 0 {
			l.now = until
			return
		}
		c := l.queue[i]
		l.queue = append(l.queue[:i], l.queue[i+1:]...)
		l.now = c.at
		l.net.Fire(l.now, c.ref)
	}
}

// newLab has nodes a, b, c, …, each listening on host:1.
func newLab(t *testing.T, opts Options, seed uint64, nodes int) *lab {
	l := &lab{t: t}
	l.net = New(opts, l, decide.New(seed, false, nil))
	for i := range nodes {
		name := string(rune('a' + i))
		l.net.Add(name, name, "")
	}
	for i := range nodes {
		l.net.Up(i, []node.Listener{{Link: wire.Remoting, Addr: string(rune('a'+i)) + ":1"}})
	}
	return l
}

func (l *lab) has(from int, s node.SessionID) bool {
	_, ok := l.net.Find(from, s)
	return ok
}

// dial opens a stream and returns both ids.
func (l *lab) dial(from int, id node.SessionID, addr string) (mine, theirs node.SessionID) {
	l.t.Helper()
	l.net.Dial(l.now, from, node.Dial{Session: id | node.Dialled, Addr: addr})
	l.run(l.now + sec)
	mine = id | node.Dialled
	if !l.has(from, mine) {
		l.t.Fatalf("dial %s did not open: %+v", addr, l.facts)
	}
	for _, f := range l.facts {
		if f.Kind == SessionUp && f.Node == l.net.resolve(addr) && f.Peer.Local != "" {
			theirs = f.Session
		}
	}
	return mine, theirs
}

func frame(n int32, body int) *wire.Frame {
	return &wire.Frame{Head: wire.Head{Code: 310, Opaque: n, Language: "GO"}, Body: make([]byte, body)}
}

// send sends frames from..to-1.
func (l *lab) send(from int, s node.SessionID, first, last int32, body int) {
	for i := first; i < last; i++ {
		l.net.Send(l.now, from, s, frame(i, body))
	}
}

// got lists the opaques a node received, in order.
func (l *lab) got(id int) (out []int32) {
	for _, f := range l.facts {
		if f.Kind == Receive && f.Node == id {
			out = append(out, f.Frame.Head.Opaque)
		}
	}
	return out
}

// downs lists why sessions of a node ended.
func (l *lab) downs(id int) (out []string) {
	for _, f := range l.facts {
		if f.Kind == SessionDown && f.Node == id {
			out = append(out, f.Reason)
		}
	}
	return out
}

// atOf returns when a node's last fact came.
func (l *lab) last(id int) seen {
	for i := len(l.facts) - 1; i >= 0; i-- {
		if l.facts[i].Node == id {
			return l.facts[i]
		}
	}
	return seen{}
}

// inOrder fails unless list counts up from first without a gap.
func inOrder(t *testing.T, list []int32, first int32) {
	t.Helper()
	for i, v := range list {
		if v != first+int32(i) {
			t.Fatalf("frame %d is %d: lost, doubled or reordered in %v", i, v, list)
		}
	}
}

func noTail() Options {
	o := DefaultOptions()
	o.Retransmit = decide.Dist{Lo: 5 * ms, Hi: 10 * ms}
	return o
}

func TestN1LatencySpread(t *testing.T) {
	l := newLab(t, DefaultOptions(), 1, 2)
	s, _ := l.dial(0, 1, "b:1")
	var took []int64
	for i := range int32(200) {
		at := l.now
		l.send(0, s, i, i+1, 10)
		l.run(l.now + 10*ms)
		took = append(took, l.last(1).at-at)
	}
	slices.Sort(took)
	d := DefaultOptions().Delay
	if took[0] < d.Lo || took[199] > d.Hi || took[199]-took[0] < (d.Hi-d.Lo)/2 {
		t.Fatalf("latencies %d..%d outside or not spread over %d..%d", took[0], took[199], d.Lo, d.Hi)
	}
}

func TestN1ZoneDelay(t *testing.T) {
	l := &lab{t: t}
	l.net = New(DefaultOptions(), l, decide.New(1, false, nil))
	l.net.Add("a", "a", "z1")
	l.net.Add("b", "b", "z2")
	l.net.Up(1, []node.Listener{{Addr: "b:1"}})
	s, _ := l.dial(0, 1, "b:1")
	at := l.now
	l.send(0, s, 0, 1, 1)
	l.run(l.now + sec)
	if took := l.last(1).at - at; took < DefaultOptions().ZoneDelay.Lo {
		t.Fatalf("between zones in %d ns", took)
	}
}

func TestN2LossIsOnlyDelay(t *testing.T) {
	o := noTail()
	o.LossPermille = 300
	l := newLab(t, o, 3, 2)
	s, _ := l.dial(0, 1, "b:1")
	l.send(0, s, 0, 500, 10)
	sent := l.now
	l.run(l.now + 100*sec)
	got := l.got(1)
	if len(got) != 500 {
		t.Fatalf("%d of 500 arrived", len(got))
	}
	inOrder(t, got, 0)
	if l.last(1).at-sent < 5*ms {
		t.Fatal("loss cost no time")
	}
}

func TestN3N4NoDuplicateNoReorderInsideButBetweenSessions(t *testing.T) {
	o := noTail()
	o.Delay = decide.Dist{Lo: 10_000, Hi: 50 * ms}
	l := newLab(t, o, 4, 2)
	s1, _ := l.dial(0, 1, "b:1")
	s2, _ := l.dial(0, 2, "b:1")
	l.facts = nil
	for i := range int32(100) {
		l.net.Send(l.now, 0, s1, frame(2*i, 1))
		l.net.Send(l.now, 0, s2, frame(2*i+1, 1))
		l.run(l.now + ms)
	}
	l.run(l.now + sec)
	last := [2]int32{-1, -1}
	overtaken := false
	for _, v := range l.got(1) {
		if v <= last[v%2] {
			t.Fatalf("session %d: %d after %d", v%2, v, last[v%2])
		}
		overtaken = overtaken || v < last[1-v%2]
		last[v%2] = v
	}
	if len(l.got(1)) != 200 || !overtaken {
		t.Fatalf("%d frames, sessions never overtook each other: %v", len(l.got(1)), !overtaken)
	}
}

func TestN5PartitionHoldsAndHeals(t *testing.T) {
	l := newLab(t, noTail(), 5, 2)
	s, _ := l.dial(0, 1, "b:1")
	l.net.Cut(l.now, 0, 1, true)
	l.net.Cut(l.now, 1, 0, true)
	l.send(0, s, 0, 20, 10)
	l.run(l.now + 10*sec)
	if len(l.got(1)) != 0 {
		t.Fatalf("passed a partition: %v", l.got(1))
	}
	l.net.Dial(l.now, 0, node.Dial{Session: 9 | node.Dialled, Addr: "b:1"})
	l.run(l.now + 4*sec)
	if d := l.downs(0); len(d) != 1 || d[0] != "dial timed out" {
		t.Fatalf("dial into a partition: %v", d)
	}
	healed := l.now
	l.net.Cut(l.now, 0, 1, false)
	l.net.Cut(l.now, 1, 0, false)
	l.run(l.now + sec)
	got := l.got(1)
	inOrder(t, got, 0)
	if len(got) != 20 || l.last(1).at < healed+5*ms {
		t.Fatalf("after healing: %v, the first retransmission takes time", got)
	}
}

func TestN5OverlappingCutsHealOnce(t *testing.T) {
	l := newLab(t, noTail(), 5, 2)
	s, _ := l.dial(0, 1, "b:1")
	l.net.Cut(l.now, 0, 1, true)
	l.net.Cut(l.now, 0, 1, true)
	l.send(0, s, 0, 1, 10)
	l.net.Cut(l.now, 0, 1, false)
	l.run(l.now + sec)
	if len(l.got(1)) != 0 {
		t.Fatal("one of two cuts healed, and the frame passed")
	}
	l.net.Cut(l.now, 0, 1, false)
	l.run(l.now + sec)
	if len(l.got(1)) != 1 {
		t.Fatal("healed, and the frame did not pass")
	}
}

func TestN5StreamTimesOut(t *testing.T) {
	l := newLab(t, noTail(), 5, 2)
	s, _ := l.dial(0, 1, "b:1")
	l.net.Cut(l.now, 0, 1, true)
	l.net.Cut(l.now, 1, 0, true)
	l.send(0, s, 0, 1, 10)
	at := l.now
	l.run(l.now + 40*sec)
	if d := l.downs(0); len(d) != 1 || d[0] != "timed out" {
		t.Fatalf("sender of unacknowledged data: %v", d)
	}
	if took := l.last(0).at - at; took < 30*sec || took > 31*sec {
		t.Fatalf("timed out after %d ns", took)
	}
	if d := l.downs(1); len(d) != 0 {
		t.Fatalf("the silent side noticed before its keep-alive: %v", d)
	}
	l.run(l.now + 40*sec)
	if d := l.downs(1); len(d) != 1 || d[0] != "timed out" {
		t.Fatalf("idle side after its keep-alive: %v", d)
	}
}

func TestN6OneWay(t *testing.T) {
	l := newLab(t, noTail(), 6, 2)
	s, peer := l.dial(0, 1, "b:1")
	l.net.Cut(l.now, 0, 1, true)
	l.send(0, s, 0, 1, 10)
	for i := range int32(2000) {
		l.net.Send(l.now, 1, peer, frame(i, 100))
	}
	l.run(l.now + 5*sec)
	back := l.got(0)
	inOrder(t, back, 0)
	if len(l.got(1)) != 0 {
		t.Fatal("passed the cut way")
	}
	if len(back) == 2000 {
		t.Fatal("without acknowledgements the window never closed")
	}
	l.net.Cut(l.now, 0, 1, false)
	l.run(l.now + 5*sec)
	inOrder(t, l.got(0), 0)
	if len(l.got(0)) != 2000 || len(l.got(1)) != 1 {
		t.Fatalf("after healing %d of 2000, %d of 1", len(l.got(0)), len(l.got(1)))
	}
}

func TestN6WindowVaries(t *testing.T) {
	passed := map[int]bool{}
	for seed := range uint64(8) {
		l := newLab(t, noTail(), seed, 2)
		_, peer := l.dial(0, 1, "b:1")
		l.net.Cut(l.now, 0, 1, true)
		for i := range int32(2000) {
			l.net.Send(l.now, 1, peer, frame(i, 100))
		}
		l.run(l.now + 5*sec)
		passed[len(l.got(0))] = true
	}
	if len(passed) < 4 {
		t.Fatalf("the same amount passed for all seeds: %v", passed)
	}
}

func TestN8StallThenBurst(t *testing.T) {
	l := newLab(t, noTail(), 8, 2)
	s, _ := l.dial(0, 1, "b:1")
	l.net.Stall(l.now, 0, 1, true)
	for i := range int32(50) {
		l.send(0, s, i, i+1, 10)
		l.run(l.now + 100*ms)
	}
	l.run(l.now + 100*sec)
	if len(l.got(1)) != 0 || len(l.downs(0)) != 0 {
		t.Fatalf("stalled: %v %v", l.got(1), l.downs(0))
	}
	end := l.now
	l.net.Stall(l.now, 0, 1, false)
	l.run(l.now + ms)
	inOrder(t, l.got(1), 0)
	if len(l.got(1)) != 50 || l.last(1).at-end > ms {
		t.Fatalf("no burst: %d frames", len(l.got(1)))
	}
}

func TestN9CorruptBytes(t *testing.T) {
	bad, changed := 0, 0
	for seed := range uint64(40) {
		o := noTail()
		o.Codec = true
		l := newLab(t, o, seed, 2)
		s, _ := l.dial(0, 1, "b:1")
		l.net.AddCorrupt(0, 1, 200)
		l.send(0, s, 0, 50, 100)
		l.run(l.now + 5*sec)
		if l.net.Stats().Corrupted == 0 {
			t.Fatal("nothing corrupted")
		}
		for _, r := range l.downs(1) {
			if strings.HasPrefix(r, "bad frame") {
				bad++
				if d := l.downs(0); len(d) != 1 || d[0] != "connection reset" {
					t.Fatalf("sender of a bad frame: %v", d)
				}
			}
		}
		for _, f := range l.facts {
			if f.Kind == Receive && (slices.ContainsFunc(f.Frame.Body, func(b byte) bool { return b != 0 }) || f.Frame.Head.Code != 310) {
				changed++
			}
		}
	}
	if bad == 0 || changed == 0 {
		t.Fatalf("%d sessions closed for bad frames, %d frames changed unnoticed", bad, changed)
	}
}

func TestN9SealedFramesNeverArriveChanged(t *testing.T) {
	for seed := range uint64(40) {
		o := noTail()
		o.Codec = true
		l := newLab(t, o, seed, 2)
		s, _ := l.dial(0, 1, "b:1")
		l.net.AddCorrupt(0, 1, 200)
		for i := range int32(50) {
			f := frame(i, 100)
			f.Head.Sealed = true
			l.net.Send(l.now, 0, s, f)
		}
		l.run(l.now + 5*sec)
		for _, f := range l.facts {
			if f.Kind == Receive && (slices.ContainsFunc(f.Frame.Body, func(b byte) bool { return b != 0 }) && f.Frame.Head.Sealed) {
				t.Fatalf("seed %d: a sealed frame arrived changed", seed)
			}
		}
	}
}

func TestN10ResetAtAnyByte(t *testing.T) {
	arrived := map[int]bool{}
	for seed := range uint64(60) {
		o := noTail()
		o.Codec = seed%2 == 0
		l := newLab(t, o, seed, 2)
		s, _ := l.dial(0, 1, "b:1")
		l.send(0, s, 0, 10, 100)
		l.net.Reset(l.now, 0, 1)
		l.run(l.now + sec)
		inOrder(t, l.got(1), 0)
		arrived[len(l.got(1))] = true
		for id := range 2 {
			if d := l.downs(id); len(d) != 1 || d[0] != "connection reset" {
				t.Fatalf("node %d: %v", id, d)
			}
		}
		if l.net.Send(l.now, 0, s, frame(99, 1)) {
			t.Fatal("a frame left on a dead session")
		}
	}
	if len(arrived) < 5 {
		t.Fatalf("cuts always in the same place: %v", arrived)
	}
}

func TestN10HalfOpen(t *testing.T) {
	l := newLab(t, noTail(), 10, 2)
	s, _ := l.dial(0, 1, "b:1")
	l.net.HalfOpen(l.now, 0, 1)
	l.send(0, s, 0, 1, 1)
	l.run(l.now + 10*sec)
	if len(l.got(1)) != 0 || len(l.downs(0))+len(l.downs(1)) != 0 {
		t.Fatalf("half-open: %v %v", l.got(1), l.downs(0))
	}
	s2, _ := l.dial(0, 2, "b:1")
	l.send(0, s2, 7, 8, 1)
	l.run(l.now + sec)
	if got := l.got(1); len(got) != 1 || got[0] != 7 {
		t.Fatalf("a new stream does not work: %v", got)
	}
	l.run(l.now + 100*sec)
	if d := l.downs(0); len(d) != 1 || d[0] != "timed out" {
		t.Fatalf("the old stream never ends: %v", d)
	}
}

func TestDialRefusedAndBlackHole(t *testing.T) {
	cases := []struct {
		name, addr string
		do         func(n *Net)
		want       string
		lo, hi     int64
	}{
		{"closed port", "b:2", func(*Net) {}, "connection refused", 0, sec},
		{"dead process", "b:1", func(n *Net) { n.Exit(0, 1, false) }, "connection refused", 0, sec},
		{"firewall", "b:1", func(n *Net) { n.Refuse(0, 1, true) }, "connection refused", 0, sec},
		{"silent host", "b:1", func(n *Net) { n.Silence(0, 1) }, "dial timed out", 3 * sec, 4 * sec},
		{"suspended", "b:1", func(n *Net) { n.Deaf(0, 1, true) }, "dial timed out", 3 * sec, 4 * sec},
		{"one way lost", "b:1", func(n *Net) { n.Cut(0, 1, 0, true) }, "dial timed out", 3 * sec, 4 * sec},
		{"unknown host", "x:1", func(*Net) {}, "no such host: x:1", 0, sec},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t, noTail(), 11, 2)
			c.do(l.net)
			l.net.Dial(0, 0, node.Dial{Session: 1 | node.Dialled, Addr: c.addr})
			l.run(10 * sec)
			if d := l.downs(0); len(d) != 1 || d[0] != c.want {
				t.Fatalf("got %v, want %q", d, c.want)
			}
			if at := l.last(0).at; at < c.lo || at > c.hi {
				t.Fatalf("after %d ns", at)
			}
		})
	}
}

func TestSilentHostReturns(t *testing.T) {
	l := newLab(t, noTail(), 12, 2)
	s, _ := l.dial(0, 1, "b:1")
	l.net.Silence(l.now, 1)
	l.send(0, s, 0, 1, 1)
	l.run(l.now + 5*sec)
	if len(l.downs(0)) != 0 {
		t.Fatalf("a silent host told: %v", l.downs(0))
	}
	l.net.HostUp(l.now, 1)
	l.run(l.now + sec)
	if d := l.downs(0); len(d) != 1 || d[0] != "connection reset" {
		t.Fatalf("unacknowledged data meets a new kernel: %v", d)
	}
}

func TestSilentHostReturnsToIdlePeer(t *testing.T) {
	l := newLab(t, noTail(), 12, 2)
	l.dial(0, 1, "b:1")
	l.net.Silence(l.now, 1)
	l.run(l.now + 5*sec)
	l.net.HostUp(l.now, 1)
	l.run(l.now + 30*sec)
	if len(l.downs(0)) != 0 {
		t.Fatalf("an idle peer noticed: %v", l.downs(0))
	}
	l.run(l.now + 60*sec)
	if d := l.downs(0); len(d) != 1 {
		t.Fatalf("keep-alive found nothing: %v", d)
	}
}

func TestGracefulCloseDeliversAll(t *testing.T) {
	l := newLab(t, noTail(), 13, 2)
	s, _ := l.dial(0, 1, "b:1")
	l.send(0, s, 0, 30, 100)
	l.net.Close(l.now, 0, s)
	l.run(l.now + sec)
	inOrder(t, l.got(1), 0)
	if len(l.got(1)) != 30 {
		t.Fatalf("%d of 30 before the end", len(l.got(1)))
	}
	if d := l.downs(1); len(d) != 1 || d[0] != "closed by peer" {
		t.Fatalf("peer: %v", d)
	}
	if d := l.downs(0); len(d) != 1 || d[0] != "closed" {
		t.Fatalf("own side: %v", d)
	}
}

func TestSendToClosedPeerIsReset(t *testing.T) {
	l := newLab(t, noTail(), 13, 2)
	s, peer := l.dial(0, 1, "b:1")
	l.net.Cut(l.now, 1, 0, true) // the end of the peer's side cannot arrive
	l.net.Close(l.now, 1, peer)
	l.send(0, s, 0, 1, 1)
	l.run(l.now + sec)
	l.net.Cut(l.now, 1, 0, false)
	l.run(l.now + sec)
	if d := l.downs(0); len(d) != 1 {
		t.Fatalf("%v", d)
	}
	if len(l.got(1)) != 0 {
		t.Fatal("a closed session received")
	}
}

func TestExitCutsAndResets(t *testing.T) {
	whole := map[int]bool{}
	for seed := range uint64(40) {
		l := newLab(t, noTail(), seed, 2)
		s, peer := l.dial(0, 1, "b:1")
		l.net.Send(l.now, 0, s, frame(5, 1))
		for i := range int32(10) {
			l.net.Send(l.now, 1, peer, frame(i, 100))
		}
		l.net.Exit(l.now, 1, false)
		l.run(l.now + sec)
		inOrder(t, l.got(0), 0)
		whole[len(l.got(0))] = true
		if d := l.downs(0); len(d) != 1 || d[0] != "connection reset" {
			t.Fatalf("peer of a dead process: %v", d)
		}
		if len(l.got(1))+len(l.downs(1)) != 0 {
			t.Fatal("a dead process heard something")
		}
	}
	if len(whole) < 5 {
		t.Fatalf("always the same cut: %v", whole)
	}
}

func TestBandwidth(t *testing.T) {
	l := newLab(t, noTail(), 14, 2)
	s, _ := l.dial(0, 1, "b:1")
	l.net.SetBandwidth(0, 1, 1_000_000)
	at := l.now
	l.send(0, s, 0, 100, 10_000)
	l.run(l.now + 10*sec)
	took := l.last(1).at - at
	if len(l.got(1)) != 100 || took < 1000*ms || took > 1100*ms {
		t.Fatalf("1 MB at 1 MB/s took %d ns", took)
	}
	o := noTail()
	o.Bandwidth = 2_000_000
	l = newLab(t, o, 14, 2)
	s, _ = l.dial(0, 1, "b:1")
	at = l.now
	l.send(0, s, 0, 100, 10_000)
	l.run(l.now + 10*sec)
	if took = l.last(1).at - at; took < 500*ms || took > 600*ms {
		t.Fatalf("1 MB from a 2 MB/s node took %d ns", took)
	}
}

func TestBackPressure(t *testing.T) {
	o := noTail()
	o.ReceiveBuffer, o.SendBuffer = 1000, 10_000
	l := newLab(t, o, 15, 2)
	s, _ := l.dial(0, 1, "b:1")
	l.held = true
	l.send(0, s, 0, 20, 200)
	l.run(l.now + sec)
	if k := len(l.got(1)); k == 0 || k > 6 {
		t.Fatalf("a receiver that does not read was given %d frames", k)
	}
	l.held = false
	for i := 0; i < len(l.facts); i++ { // reading lets the next ones come
		if f := l.facts[i].Fact; f.Kind == Receive {
			l.net.Read(l.now, &f)
			l.run(l.now + 10*ms)
		}
	}
	l.run(l.now + sec)
	inOrder(t, l.got(1), 0)
	if len(l.got(1)) != 20 {
		t.Fatalf("%d of 20 after reading", len(l.got(1)))
	}
	l.held = true
	l.send(0, s, 20, 200, 200)
	l.run(l.now + sec)
	if d := l.downs(0); len(d) != 1 || d[0] != "send buffer full" {
		t.Fatalf("a sender without limit: %v", d)
	}
}

func TestCodecAndCopyDeliverTheSame(t *testing.T) {
	var want []string
	for _, codec := range []bool{false, true} {
		o := noTail()
		o.Codec = codec
		l := newLab(t, o, 16, 2)
		s, _ := l.dial(0, 1, "b:1")
		f := wire.NewRequest(105, 3, nil, []byte("body"))
		f.Head.Ext = wire.Ext{{Key: "topic", Value: "T"}}
		h := wire.SendMessageRequest{ProducerGroup: "g", Topic: "T", DefaultTopic: "TBW102", Properties: "a\x01b\x02"}
		g := wire.NewRequest(310, 4, h, []byte("x"))
		l.net.Send(l.now, 0, s, &f)
		l.net.Send(l.now, 0, s, &g)
		f.Body[0] = 'X' // the sender goes on with its memory
		f.Head.Ext[0].Value = "changed"
		l.run(l.now + sec)
		var got []string
		for _, x := range l.facts {
			if x.Kind == Receive {
				got = append(got, fmt.Sprintf("%d %v %v %s", x.Frame.Head.Code, x.Frame.ExtFields(), x.Frame.Head.Opaque, x.Frame.Body))
			}
		}
		if len(got) != 2 || !strings.Contains(got[0], "body") || !strings.Contains(got[0], "{topic T}") {
			t.Fatalf("codec %v: %q", codec, got)
		}
		if want != nil && !slices.Equal(got, want) {
			t.Fatalf("copied:\n%q\nencoded:\n%q", want, got)
		}
		want = got
	}
}

func TestUnencodableFrameEndsTheSession(t *testing.T) {
	o := noTail()
	o.Codec = true
	l := newLab(t, o, 17, 2)
	s, _ := l.dial(0, 1, "b:1")
	l.net.Send(l.now, 0, s, frame(1, wire.MaxFrameBytes+1))
	l.run(l.now + sec)
	if d := l.downs(0); len(d) != 1 || !strings.HasPrefix(d[0], "frame cannot be encoded") {
		t.Fatalf("%v", d)
	}
}

func TestWrongLinkClosesTheSession(t *testing.T) {
	l := newLab(t, noTail(), 18, 2)
	s, _ := l.dial(0, 1, "b:1")
	l.net.Send(l.now, 0, s, &wire.Frame{Link: wire.Raft, Body: []byte("x")})
	l.run(l.now + sec)
	if d := l.downs(1); len(d) != 1 || !strings.HasPrefix(d[0], "bad frame") {
		t.Fatalf("%v", d)
	}
}

func TestResetIsLostInACut(t *testing.T) {
	for _, send := range []bool{true, false} {
		l := newLab(t, noTail(), 21, 2)
		s, _ := l.dial(0, 1, "b:1")
		l.net.Cut(l.now, 1, 0, true)
		l.net.Exit(l.now, 1, false)
		l.run(l.now + 5*sec)
		l.net.Cut(l.now, 1, 0, false)
		l.run(l.now + 5*sec)
		if len(l.downs(0)) != 0 {
			t.Fatalf("a lost reset arrived: %v", l.downs(0))
		}
		wait := 100 * sec // keep-alive
		if send {
			l.send(0, s, 0, 1, 1)
			wait = sec
		}
		l.run(l.now + wait)
		if d := l.downs(0); len(d) != 1 || d[0] != "connection reset" {
			t.Fatalf("send %v: %v", send, d)
		}
	}
}

func TestTimedOutDialsDoNotArriveLater(t *testing.T) {
	l := newLab(t, noTail(), 22, 2)
	l.net.Cut(l.now, 0, 1, true)
	for i := range node.SessionID(10) {
		l.net.Dial(l.now, 0, node.Dial{Session: (i + 1) | node.Dialled, Addr: "b:1"})
		l.run(l.now + 5*sec)
	}
	l.net.Cut(l.now, 0, 1, false)
	l.run(l.now + 100*sec)
	for _, f := range l.facts {
		if f.Node == 1 {
			t.Fatalf("a dial that was given up arrived: %+v", f)
		}
	}
	if len(l.net.streams) != 1 {
		t.Fatalf("%d slots for ten dials, one after the other", len(l.net.streams))
	}
}

// TestSlotsAreReused: streams that are over leave no memory behind.
func TestSlotsAreReused(t *testing.T) {
	l := newLab(t, noTail(), 20, 2)
	for i := range node.SessionID(300) {
		s, peer := l.dial(0, i+1, "b:1")
		l.send(0, s, 0, 3, 1)
		switch i % 4 {
		case 0:
			l.net.Close(l.now, 0, s)
		case 1:
			l.net.Close(l.now, 1, peer)
		case 2:
			l.net.Reset(l.now, 0, 1)
		case 3:
			l.net.Close(l.now, 0, s)
			l.net.Close(l.now, 1, peer)
		}
		l.run(l.now + sec)
	}
	if k := len(l.net.streams); k > 4 {
		t.Fatalf("%d slots for one stream at a time", k)
	}
	if k := len(l.net.nodes[0].sessions) + len(l.net.nodes[1].sessions); k != 0 {
		t.Fatalf("%d sessions are still known", k)
	}
}
