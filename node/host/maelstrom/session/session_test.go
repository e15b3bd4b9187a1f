package session

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/internal/prng"
	"lockstep/node"
	"pgregory.net/rapid"
)

const ms = time.Millisecond

func testOptions(self string, all []string, life uint64) Options {
	return Options{Peers: slices.DeleteFunc(slices.Clone(all), func(p string) bool { return p == self }), Life: life,
		Accept: func(label string) bool { return label != "nobody" }, KeepAlive: 200 * ms, GiveUp: 1500 * ms, AckDelay: 20 * ms,
		ResendMin: 100 * ms, ResendMax: 800 * ms}
}

// world is the network and the nodes of a test: packets are delayed, reordered,
// dropped, doubled and cut by a source of the seed.
type world struct {
	t       *testing.T
	rand    *prng.Source
	now     node.Time
	names   []string
	ends    map[string]*end
	flight  []flying
	cut     map[string]bool // "a>b"
	drop    int             // percent
	double  int             // percent
	maxWait time.Duration
	packets int
}

type flying struct {
	at       node.Time
	from, to string
	bytes    []byte
}

// end is one node: its Mux and what its streams have seen.
type end struct {
	w     *world
	name  string
	life  uint64
	mux   *Mux
	sent  map[string]int // by stream's name: numbers sent so far
	seen  map[string]int // the next number expected
	named map[ID]string  // streams this end opened
	up    map[ID]bool
	downs []string
	ups   int
}

func newWorld(t *testing.T, seed uint64, names ...string) *world {
	w := &world{t: t, rand: prng.New(seed), names: names, ends: map[string]*end{}, cut: map[string]bool{}, maxWait: 50 * ms, now: node.Time(time.Hour)}
	for _, n := range names {
		w.ends[n] = &end{w: w, name: n, sent: map[string]int{}, seen: map[string]int{}}
		w.ends[n].start()
	}
	return w
}

func (e *end) start() {
	e.life++
	e.mux = New(testOptions(e.name, e.w.names, e.life))
	e.named, e.up = map[ID]string{}, map[ID]bool{}
}

// open begins a stream with a name that says whose it is.
func (e *end) open(to string) ID {
	id := e.mux.Open(e.w.now, to, "label")
	e.named[id] = fmt.Sprintf("%s.%d.%d", e.name, e.life, id)
	return id
}

// say sends the next number on a stream.
func (e *end) say(id ID) {
	name := e.named[id]
	e.sent[name]++
	e.mux.Send(e.w.now, id, append(binary.BigEndian.AppendUint32(nil, uint32(e.sent[name])), name...))
}

func (e *end) settle() {
	for range 3 {
		var fx Effects
		e.mux.Settle(e.w.now, &fx)
		for _, f := range fx.Facts {
			e.fact(f)
		}
		for _, p := range fx.Packets {
			e.w.send(e.name, p)
		}
	}
	var again Effects
	e.mux.Settle(e.w.now, &again)
	if len(again.Facts)+len(again.Packets) > 0 {
		e.w.t.Fatalf("%s: Settle again adds %+v", e.name, again)
	}
	if d := e.mux.Deadline(); d <= e.w.now {
		e.w.t.Fatalf("%s: the deadline %d has passed at %d and Settle does nothing\n%s", e.name, d, e.w.now, e.mux)
	}
}

func (e *end) fact(f Fact) {
	switch f.Kind {
	case Up:
		e.up[f.ID] = true
		e.ups++
	case Down:
		if f.Opened {
			e.w.t.Fatalf("Down says Opened")
		}
		delete(e.up, f.ID)
		delete(e.named, f.ID)
		e.downs = append(e.downs, f.Reason)
	case Data:
		if !e.up[f.ID] {
			e.w.t.Fatalf("%s: data on a stream that is not up", e.name)
		}
		n, name := binary.BigEndian.Uint32(f.Payload), string(f.Payload[4:])
		if int(n) != e.seen[name]+1 {
			e.w.t.Fatalf("%s: stream %s: number %d after %d", e.name, name, n, e.seen[name])
		}
		e.seen[name]++
	}
}

func (w *world) send(from string, o Outgoing) {
	w.packets++
	copies := 1
	if w.rand.Intn(100) < w.double {
		copies = 2
	}
	for range copies {
		if w.rand.Intn(100) < w.drop {
			continue
		}
		wait := time.Duration(w.rand.Intn(int(w.maxWait/ms)+1)) * ms
		w.flight = append(w.flight, flying{w.now.Add(wait), from, o.To, o.Packet.Append(nil)})
	}
}

// run lets d pass in steps of a millisecond.
func (w *world) run(d time.Duration) {
	for end := w.now.Add(d); w.now < end; w.now = w.now.Add(ms) {
		rest := w.flight[:0]
		var due []flying
		for _, f := range w.flight {
			if f.at <= w.now {
				due = append(due, f)
			} else {
				rest = append(rest, f)
			}
		}
		w.flight = rest
		for _, f := range due {
			if w.cut[f.from+">"+f.to] {
				continue
			}
			p, err := ParsePacket(f.bytes)
			if err != nil {
				w.t.Fatal(err)
			}
			w.ends[f.to].mux.Receive(w.now, f.from, &p)
		}
		for _, n := range w.names {
			w.ends[n].settle()
		}
	}
}

// TestOneStream: on a good network a stream stands at once and carries everything,
// both ways, and costs few packets.
func TestOneStream(t *testing.T) {
	w := newWorld(t, 1, "a", "b")
	a := w.ends["a"]
	id := a.open("b")
	w.run(500 * ms)
	if !a.up[id] || w.ends["b"].ups != 1 {
		t.Fatalf("the stream is not up\n%s", a.mux)
	}
	before := w.packets
	for range 100 {
		for range 10 {
			a.say(id)
		}
		w.run(10 * ms)
	}
	w.run(time.Second)
	if got := w.ends["b"].seen[a.named[id]]; got != 1000 {
		t.Fatalf("b has %d of 1000", got)
	}
	if n := w.packets - before; n > 260 {
		t.Errorf("%d packets for 100 batches", n)
	}
	if !a.mux.Idle() || len(a.downs)+len(w.ends["b"].downs) > 0 {
		t.Errorf("not idle, or down: %v %v", a.downs, w.ends["b"].downs)
	}
	a.mux.Close(w.now, id, "done")
	w.run(time.Second)
	if b := w.ends["b"]; len(b.downs) != 1 || b.downs[0] != "done" || len(a.downs) != 1 {
		t.Errorf("closed: %v %v", a.downs, b.downs)
	}
	quiet := w.packets
	w.run(10 * time.Second)
	if w.packets != quiet {
		t.Errorf("%d packets without a stream", w.packets-quiet)
	}
}

// TestRefused: a label nobody serves and a peer nobody knows end the stream.
func TestRefused(t *testing.T) {
	w := newWorld(t, 1, "a", "b")
	a := w.ends["a"]
	a.mux.Open(w.now, "b", "nobody")
	a.mux.Open(w.now, "z", "label")
	w.run(500 * ms)
	if len(a.downs) != 2 || !strings.Contains(strings.Join(a.downs, " "), "nobody listens") || !strings.Contains(strings.Join(a.downs, " "), "no node z") {
		t.Errorf("%v", a.downs)
	}
}

// TestOneWayCut: with either direction cut both ends find out in bounded time, and
// a stream opened after the cut has healed works.
func TestOneWayCut(t *testing.T) {
	for _, cut := range []string{"a>b", "b>a"} {
		w := newWorld(t, 3, "a", "b")
		a, b := w.ends["a"], w.ends["b"]
		id := a.open("b")
		w.run(300 * ms)
		w.cut[cut] = true
		a.say(id)
		w.run(2 * 1500 * ms)
		if len(a.downs) == 0 || len(b.downs) == 0 {
			t.Fatalf("%s cut for two give-up times: a %v, b %v\n%s%s", cut, a.downs, b.downs, a.mux, b.mux)
		}
		w.cut[cut] = false
		id = a.open("b")
		w.run(600 * ms)
		if !a.up[id] {
			t.Errorf("%s healed: the stream is not up\n%s%s", cut, a.mux, b.mux)
		}
	}
}

// TestShortCut: a cut shorter than the give-up time only delays.
func TestShortCut(t *testing.T) {
	w := newWorld(t, 4, "a", "b")
	a := w.ends["a"]
	id := a.open("b")
	w.run(300 * ms)
	w.cut["a>b"], w.cut["b>a"] = true, true
	for range 50 {
		a.say(id)
	}
	w.run(700 * ms)
	clear(w.cut)
	w.run(1500 * ms)
	if got := w.ends["b"].seen[a.named[id]]; got != 50 || len(a.downs) > 0 {
		t.Errorf("b has %d of 50, downs %v", got, a.downs)
	}
}

// TestRestart: a peer that begins anew ends the streams at once, long before the
// silence would.
func TestRestart(t *testing.T) {
	w := newWorld(t, 5, "a", "b")
	a, b := w.ends["a"], w.ends["b"]
	id := a.open("b")
	w.run(300 * ms)
	b.start()
	a.say(id)
	w.run(400 * ms)
	if len(a.downs) != 1 || !strings.Contains(a.downs[0], "began anew") {
		t.Errorf("%v", a.downs)
	}
}

// TestWildNetwork: whatever the network does, each stream delivers a prefix of what
// was sent on it, in order and once (end.fact checks); and when the network is good
// again, streams stand and deliver everything.
func TestWildNetwork(t *testing.T) {
	for seed := uint64(1); seed <= 60; seed++ {
		w := newWorld(t, seed, "a", "b", "c")
		w.drop, w.double = w.rand.Intn(40), w.rand.Intn(40)
		w.maxWait = time.Duration(1+w.rand.Intn(300)) * ms
		for range 120 {
			w.mischief()
			w.run(time.Duration(1+w.rand.Intn(150)) * ms)
		}
		clear(w.cut)
		w.drop, w.maxWait = 0, 50*ms
		w.run(4 * time.Second)
		for _, n := range w.names {
			e := w.ends[n]
			for _, to := range w.names {
				if to == n {
					continue
				}
				id := e.open(to)
				w.run(300 * ms)
				if !e.up[id] { // the peer had restarted while there was nothing to say
					id = e.open(to)
					w.run(300 * ms)
				}
				for range 20 {
					e.say(id)
				}
				w.run(600 * ms)
				if name := e.named[id]; !e.up[id] || w.ends[to].seen[name] != 20 {
					t.Fatalf("seed %d: %s to %s after all: up %t, %d of 20\n%s\n%s", seed, n, to, e.up[id], w.ends[to].seen[name], e.mux, w.ends[to].mux)
				}
			}
			for _, id := range sortedIDs(e.named) {
				if name := e.named[id]; e.up[id] && w.received(name) != e.sent[name] {
					t.Fatalf("seed %d: stream %s is up, sent %d, received %d", seed, name, e.sent[name], w.received(name))
				}
			}
		}
	}
}

func (w *world) received(name string) (n int) {
	for _, e := range w.names {
		n = max(n, w.ends[e].seen[name])
	}
	return n
}

func sortedIDs(m map[ID]string) (ids []ID) {
	for id := range m {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// mischief does one thing that nodes or networks do.
func (w *world) mischief() {
	pick := func() *end { return w.ends[w.names[w.rand.Intn(len(w.names))]] }
	e, far := pick(), pick()
	switch w.rand.Intn(12) {
	case 0, 1:
		if far != e {
			e.open(far.name)
		}
	case 2:
		w.cut[e.name+">"+far.name] = true
	case 3:
		clear(w.cut)
	case 4:
		if w.rand.Intn(4) == 0 {
			e.start()
		}
	case 5:
		if ids := sortedIDs(e.named); len(ids) > 0 && w.rand.Intn(3) == 0 {
			e.mux.Close(w.now, ids[w.rand.Intn(len(ids))], "closed")
		}
	default:
		for _, id := range sortedIDs(e.named) {
			for range w.rand.Intn(5) {
				e.say(id)
			}
		}
	}
}

// TestRepeats: the same seed sends the same packets.
func TestRepeats(t *testing.T) {
	run := func() int {
		w := newWorld(t, 9, "a", "b", "c")
		w.drop, w.double = 10, 10
		for range 60 {
			w.mischief()
			w.run(50 * ms)
		}
		return w.packets
	}
	if a, b := run(), run(); a != b {
		t.Errorf("%d packets, then %d", a, b)
	}
}

// TestBigQueue: more than a window waits for acknowledgements and all of it
// arrives; a peer that never acknowledges is given up before memory grows.
func TestBigQueue(t *testing.T) {
	w := newWorld(t, 6, "a", "b")
	a := w.ends["a"]
	id := a.open("b")
	w.run(300 * ms)
	for range 3 * window {
		a.say(id)
	}
	w.run(2 * time.Second)
	if got := w.ends["b"].seen[a.named[id]]; got != 3*window {
		t.Errorf("b has %d of %d", got, 3*window)
	}
	big := make([]byte, 1<<20)
	for range maxQueueBytes>>20 + 1 {
		a.mux.Send(w.now, id, big)
	}
	a.settle()
	if len(a.downs) != 1 || !strings.Contains(a.downs[0], "bytes wait") {
		t.Errorf("%v", a.downs)
	}
}

// TestPacketRoundTrip: what is appended is read back.
func TestPacketRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Packet{From: rapid.Uint64Min(1).Draw(t, "from"), To: rapid.Uint64().Draw(t, "to"),
			First: rapid.Uint64Range(1, 1<<62).Draw(t, "first"), Ack: rapid.Uint64().Draw(t, "ack"), Items: []Item{}}
		for range rapid.IntRange(0, 5).Draw(t, "items") {
			p.Items = append(p.Items, Item{Kind: Kind(rapid.IntRange(1, 4).Draw(t, "kind")), Mine: rapid.Bool().Draw(t, "mine"),
				Stream: rapid.Uint32Min(1).Draw(t, "stream"), Data: rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "data")})
		}
		back, err := ParsePacket(p.Append(nil))
		if err != nil || fmt.Sprintf("%v", back) != fmt.Sprintf("%v", p) {
			t.Fatalf("%v, %v, want %v", back, err, p)
		}
	})
}

// FuzzParsePacket: no bytes break the parser or a Mux, and what parses is what
// Append writes.
func FuzzParsePacket(f *testing.F) {
	f.Add([]byte{})
	f.Add((&Packet{From: 1 << 20, To: 7, First: 1, Items: []Item{{Kind: kindOpen, Mine: true, Stream: 1, Data: []byte("label")}}}).Append(nil))
	f.Add((&Packet{From: 1 << 20, Ack: 1 << 63}).Append(nil))
	f.Add([]byte{1, 1, 1, 0, 1, 7, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := ParsePacket(b)
		if err != nil {
			return
		}
		again, err := ParsePacket(p.Append(nil))
		if err != nil || !bytes.Equal(again.Append(nil), p.Append(nil)) {
			t.Fatalf("%v: %v", p, err)
		}
		m := New(testOptions("a", []string{"a", "b"}, 1))
		m.Open(1, "b", "label")
		m.links[0].known, m.links[0].far = true, p.From
		p.To = m.links[0].self
		m.Receive(2, "b", &p)
		var fx Effects
		m.Settle(3, &fx)
	})
}
