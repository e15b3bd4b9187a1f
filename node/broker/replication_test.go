package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
)

// stranger is a hand-driven end of a replication session.
type stranger struct {
	s   *stream
	got []*wire.Frame
}

// fakeSlave connects to a broker's replication port.
func (w *world) fakeSlave(m *machine) *stranger {
	x := &stranger{}
	s := &stream{w: w, link: wire.Replication}
	w.lastID++
	s.hosts = [2]string{"x1", m.host}
	s.ends[1], s.lives[1], s.ids[1] = m, m.life, w.lastID
	s.onRecv[0] = func(f *wire.Frame) { x.got = append(x.got, f) }
	w.streams = append(w.streams, s)
	x.s = s
	m.fact(m.life, func(now node.Now) { m.b.SessionUp(now, s.ids[1], node.Peer{Link: wire.Replication, Addr: "x1:1"}) })
	return x
}

func (x *stranger) say(h wire.Replica, body []byte) {
	x.s.send(false, wire.Frame{Link: wire.Replication, Replica: &h, Body: body})
}

// hello is what an honest slave says; cases bend it.
func hello(w *world, m, slave *machine) wire.Replica {
	b := slave.b
	return wire.Replica{Kind: wire.ReplicaHello, Cluster: "c", Group: "g", Self: b.self(), Nonce: b.id.Nonce, Term: m.b.role.epoch, Epoch: m.b.role.epoch,
		Offset: b.log.end, Min: b.log.min, Epochs: b.epochs, SegmentBytes: b.o.MappedFileSizeCommitLog, PropCRC: true, Class: ha.ClassDurable}
}

func lastEvent(m *machine, k event.Kind) string {
	for i := len(m.events) - 1; i >= 0; i-- {
		if m.events[i].Kind == k {
			return m.events[i].Text
		}
	}
	return ""
}

// TestHelloRefused: whoever is not exactly a slave of this master is refused with
// the reason, and counts for nothing.
func TestHelloRefused(t *testing.T) {
	w := started(t, 3, nil)
	m, slave := w.master(), w.slaves()[0]
	cases := []struct {
		name, want string
		bend       func(h *wire.Replica)
	}{
		{"other cluster", "slave of z/g", func(h *wire.Replica) { h.Cluster = "z" }},
		{"other group", "slave of c/z", func(h *wire.Replica) { h.Group = "z" }},
		{"the master's own id", "cannot be a slave of broker", func(h *wire.Replica) { h.Self.Broker = m.b.id.Broker }},
		{"a copy of the master's store", "copied store", func(h *wire.Replica) { h.Self.Store = m.b.id.Store }},
		{"no store", "cannot be a slave of store", func(h *wire.Replica) { h.Self.Store = "" }},
		{"an older epoch", "slave follows epoch 0", func(h *wire.Replica) { h.Term, h.Epoch = 0, 0 }},
		{"a newer epoch", "this is only epoch", func(h *wire.Replica) { h.Term += 4 }},
		{"other segment size", "mappedFileSizeCommitLog is 65536 here and 4096", func(h *wire.Replica) { h.SegmentBytes = 4096 }},
		{"other integrity", "enabledAppendPropCRC", func(h *wire.Replica) { h.PropCRC = false }},
		{"received acks only", "the slave can only acknowledge received", func(h *wire.Replica) { h.Class = ha.ClassReceived }},
		{"an outdated boot", "outdated", func(h *wire.Replica) { h.Self.Boot-- }},
		{"an unknown store", "not registered", func(h *wire.Replica) { h.Self.Store = "00000000000000000000000000abcdef" }},
		{"an unknown id", "not registered", func(h *wire.Replica) { h.Self.Broker = 9 }},
		{"bytes of unknown epochs", "unknown epochs", func(h *wire.Replica) { h.Epochs = nil }},
		{"no common epoch", "shares no epoch", func(h *wire.Replica) { h.Epochs = ha.Epochs{{Epoch: 1, Start: 17}} }},
		{"an empty log beyond the end", "the empty slave begins", func(h *wire.Replica) { h.Epochs, h.Offset, h.Min = nil, 1<<40, 1<<40 }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			x := w.fakeSlave(m)
			h := hello(w, m, slave)
			c.bend(&h)
			x.say(h, nil)
			w.until("an answer", 5*time.Second, func() bool { return len(x.got) > 0 })
			r := x.got[0].Replica
			if r.Kind != wire.ReplicaRefuse || !strings.Contains(r.Reason, c.want) {
				t.Errorf("answered kind %d %q, want a refusal with %q", r.Kind, r.Reason, c.want)
			}
			w.run(10 * time.Millisecond)
			if !x.s.dead {
				t.Error("the session is still open")
			}
		})
	}
	known := m.b.epochs
	t.Run("bytes older than the known epochs", func(t *testing.T) {
		m.b.epochs = ha.Epochs{{Epoch: m.b.role.epoch, Start: m.b.log.end - 1}}
		defer func() { m.b.epochs = known }()
		h := hello(w, m, slave)
		h.Epochs, h.Offset, h.Min = nil, 0, 0
		if _, why := m.b.consistentPoint(&h); !strings.Contains(why, "no longer knows the epoch of") {
			t.Errorf("an empty slave is sent bytes that no frame can label: %q", why)
		}
	})
	if len(m.b.set.committed) != 3 || len(m.b.set.acks) != 2 {
		t.Errorf("set %v, %d acks", m.b.set.committed, len(m.b.set.acks))
	}
}

// TestForgedAcks: an ack beyond what was sent, of another epoch or class, or out of
// turn ends the session and proves nothing (P8).
func TestForgedAcks(t *testing.T) {
	cases := []struct {
		name string
		bend func(h *wire.Replica)
	}{
		{"beyond sent", func(h *wire.Replica) { h.Offset += 1 }},
		{"far beyond", func(h *wire.Replica) { h.Offset = 1 << 60 }},
		{"older epoch", func(h *wire.Replica) { h.Term-- }},
		{"newer epoch", func(h *wire.Replica) { h.Term++ }},
		{"weaker class", func(h *wire.Replica) { h.Class = ha.ClassReceived }},
		{"unknown class", func(h *wire.Replica) { h.Class = 0 }},
		{"a hello again", func(h *wire.Replica) { h.Kind = wire.ReplicaHello }},
		{"a master's frame", func(h *wire.Replica) { h.Kind = wire.ReplicaAppend }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := started(t, 3, nil)
			m, slave := w.master(), w.slaves()[0]
			h := hello(w, m, slave)
			slave.crash(false)
			x := w.fakeSlave(m)
			x.say(h, nil)
			w.until("welcome", time.Second, func() bool { return len(x.got) > 0 })
			if x.got[0].Replica.Kind != wire.ReplicaWelcome {
				t.Fatalf("refused: %s", x.got[0].Replica.Reason)
			}
			x.say(wire.Replica{Kind: wire.ReplicaStart, Term: h.Term, Epoch: h.Term, Offset: h.Offset}, nil)
			w.run(20 * time.Millisecond)
			ack := wire.Replica{Kind: wire.ReplicaAck, Term: h.Term, Offset: h.Offset, Class: ha.ClassDurable}
			c.bend(&ack)
			p := w.client(m)
			confirm := m.b.confirm
			p.send("not proven by a lie")
			w.run(time.Millisecond)
			ack.Offset = max(ack.Offset, h.Offset)
			if c.name == "beyond sent" {
				ack.Offset = m.b.log.end + 1
			}
			x.say(ack, nil)
			w.run(20 * time.Millisecond)
			if !x.s.dead || lastEvent(m, event.FrameRejected) == "" {
				t.Errorf("the session lives, event %q", lastEvent(m, event.FrameRejected))
			}
			if m.b.confirm > max(confirm, m.b.log.end) {
				t.Errorf("confirm %d", m.b.confirm)
			}
		})
	}
}

// TestForgedStart: a slave that starts elsewhere than at the consistent point is
// cut off.
func TestForgedStart(t *testing.T) {
	w := started(t, 3, nil)
	m, slave := w.master(), w.slaves()[0]
	h := hello(w, m, slave)
	x := w.fakeSlave(m)
	x.say(h, nil)
	w.until("welcome", time.Second, func() bool { return len(x.got) > 0 })
	x.say(wire.Replica{Kind: wire.ReplicaStart, Term: h.Term, Offset: h.Offset + 10}, nil)
	w.run(10 * time.Millisecond)
	if !x.s.dead {
		t.Error("the session is still open")
	}
}

// TestSilentSessions: connections that say nothing on the replication port keep no
// slave out, are closed in time, and are told in one event at a time.
func TestSilentSessions(t *testing.T) {
	w := started(t, 3, nil)
	m, slave := w.master(), w.slaves()[0]
	told := func() (events int, sessions int64) {
		for _, e := range m.events {
			if e.Kind == event.HandshakeRefused && strings.Contains(e.Text, "no Hello") {
				events, sessions = events+1, sessions+e.Count
			}
		}
		return
	}
	var silent []*stranger
	for range 2 * maxReplicaSessions {
		silent = append(silent, w.fakeSlave(m))
	}
	if n := len(m.b.replicas); n != maxReplicaSessions {
		t.Fatalf("%d sessions", n)
	}
	slave.crash(false)
	slave.start()
	w.until("the slave is back", helloTimeout/2, w.converged)
	w.until("the rest is closed", 2*helloTimeout, func() bool {
		return !slices.ContainsFunc(silent, func(x *stranger) bool { return !x.s.dead })
	})
	w.until("all are told", 2*helloTimeout, func() bool { _, n := told(); return n == int64(len(silent)) })
	if k, _ := told(); k > 3 {
		t.Errorf("%d events", k)
	}
	if len(m.b.replicas) != 2 || !w.converged() {
		t.Errorf("%d sessions, converged %v", len(m.b.replicas), w.converged())
	}
}

// TestNewestSessionSpeaks: a second session of one incarnation replaces the first;
// one replica has one vote.
func TestNewestSessionSpeaks(t *testing.T) {
	w := started(t, 3, nil)
	m, slave := w.master(), w.slaves()[0]
	x := w.fakeSlave(m)
	x.say(hello(w, m, slave), nil)
	w.until("welcome", time.Second, func() bool { return len(x.got) > 0 })
	n := 0
	for _, r := range m.b.replicas {
		if r.self.Broker == slave.b.id.Broker {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d sessions of one broker", n)
	}
	w.until("the real slave back", 10*time.Second, func() bool { return x.s.dead || slave.b.up.phase == upStarted })
}

// TestBadChunks: towards a slave, a gap, an overlap, older bytes, a foreign term, a
// chunk across a segment, damaged bytes: refused, the session closed, nothing kept.
func TestBadChunks(t *testing.T) {
	w := started(t, 3, nil)
	m, s := w.master(), w.slaves()[0]
	c := w.client(m)
	c.send("a record")
	w.until("convergence", 5*time.Second, func() bool { return len(m.answers) == 1 && w.converged() })
	rec := append([]byte(nil), m.store.cache[m.answers["a record"].log:]...)
	cases := []struct {
		name, want string
		bend       func(h *wire.Replica, body []byte) []byte
	}{
		{"gap", "gap", func(h *wire.Replica, b []byte) []byte { h.Offset += 8; return b }},
		{"overlap", "overlap", func(h *wire.Replica, b []byte) []byte { h.Offset -= 8; return b }},
		{"older term", "chunk of term 0", func(h *wire.Replica, b []byte) []byte { h.Term--; return b }},
		{"newer term", "chunk of term 2", func(h *wire.Replica, b []byte) []byte { h.Term++; return b }},
		{"older epoch", "chunk of epoch 0", func(h *wire.Replica, b []byte) []byte { h.Epoch--; return b }},
		{"epoch beyond the term", "chunk of epoch 2", func(h *wire.Replica, b []byte) []byte { h.Epoch++; return b }},
		{"other start", "starts at 5 there", func(h *wire.Replica, b []byte) []byte { h.EpochStart = 5; return b }},
		{"across a segment", "crosses a segment", func(h *wire.Replica, b []byte) []byte { return make([]byte, 65<<10) }},
		{"zeros", "zeros at", func(h *wire.Replica, b []byte) []byte { return make([]byte, len(b)) }},
		{"a record of elsewhere", "physical offset", func(h *wire.Replica, b []byte) []byte { return b }},
		{"noise", "record at", func(h *wire.Replica, b []byte) []byte { return []byte(strings.Repeat("noise", 30)) }},
		{"not a master's frame", "frame kind", func(h *wire.Replica, b []byte) []byte { h.Kind = wire.ReplicaAck; return nil }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w.until("following", 10*time.Second, func() bool { return s.b.up.phase == upStarted && w.converged() })
			b := s.b
			end := b.log.end
			h := wire.Replica{Kind: wire.ReplicaAppend, Term: b.role.epoch, Epoch: b.epochs.Last().Epoch, EpochStart: b.epochs.Last().Start, Offset: end}
			body := c.bend(&h, append([]byte(nil), rec...))
			up := b.up.session
			s.fact(s.life, func(now node.Now) {
				b.Receive(now, up, &wire.Frame{Link: wire.Replication, Replica: &h, Body: body})
			})
			why := lastEvent(s, event.ChunkRefused)
			if h.Kind != wire.ReplicaAppend {
				why = lastEvent(s, event.FrameRejected)
			}
			if !strings.Contains(why, c.want) {
				t.Errorf("refused with %q, want %q", why, c.want)
			}
			if b.log.end != end || b.up.session != 0 {
				t.Errorf("end %d after %d, session %d", b.log.end, end, b.up.session)
			}
		})
	}
	w.until("the real master followed again", 10*time.Second, w.converged)
	w.checkEqual()
}

// TestSplitRecords: a master may cut a chunk in the middle of a record: the part waits
// in memory, is neither stored nor acknowledged, and does not survive the session.
func TestSplitRecords(t *testing.T) {
	w := started(t, 3, nil)
	m, s := w.master(), w.slaves()[0]
	b := s.b
	w.cut = func(x, y string) bool { return x == m.host && y == s.host } // the test speaks for the master
	c := w.client(m)
	for _, body := range []string{"one", "two", "three"} {
		c.send(body)
	}
	w.run(100 * time.Millisecond)
	end := b.log.end
	bytes := append([]byte(nil), m.store.cache[end:]...)
	if len(bytes) < 400 {
		t.Fatalf("the master holds only %d bytes more", len(bytes))
	}
	off := end
	feed := func(n int) {
		h := wire.Replica{Kind: wire.ReplicaAppend, Term: b.role.epoch, Epoch: b.epochs.Last().Epoch, EpochStart: b.epochs.Last().Start, Offset: off}
		up := b.up.session
		body := bytes[:n]
		s.fact(s.life, func(now node.Now) {
			b.Receive(now, up, &wire.Frame{Link: wire.Replication, Replica: &h, Body: body})
		})
		bytes, off = bytes[n:], off+ha.LogOffset(n)
	}
	whole := map[ha.LogOffset]bool{end: true}
	for p := 0; p < len(bytes); {
		f := storage.Next(bytes[p:], end+ha.LogOffset(p), storage.Check{})
		p += f.Size
		whole[end+ha.LogOffset(p)] = true
	}
	for len(bytes) > 0 {
		feed(min(7, len(bytes)))
		w.run(5 * time.Millisecond)
		if !whole[b.log.end] || !whole[b.up.reported] {
			t.Fatalf("end %d, acknowledged %d: inside a record", b.log.end, b.up.reported)
		}
		if len(bytes) < 100 && len(b.up.partial) > 0 {
			break // in the middle of the last one
		}
	}
	last := b.log.end
	s.fact(s.life, func(now node.Now) { b.closeUpstream("in the middle of a record") })
	if b.log.end != last || len(b.up.partial) != 0 {
		t.Errorf("end %d after %d, %d bytes kept", b.log.end, last, len(b.up.partial))
	}
	w.cut = func(string, string) bool { return false }
	w.until("convergence", 30*time.Second, w.converged)
	w.checkEqual()
}

// TestMisplacedSlave: a slave that names a position inside a record as its end is cut
// off, whether the bytes are in memory or on disk, and does not end the store's claim.
func TestMisplacedSlave(t *testing.T) {
	for _, cold := range []bool{false, true} {
		for _, seg := range []int64{0, 1} {
			t.Run(fmt.Sprintf("cold=%v segment=%d", cold, seg), func(t *testing.T) {
				w := started(t, 3, nil)
				m, slave := w.master(), w.slaves()[0]
				stop, _ := w.load(m, "x", 8)
				w.until("some segments", 10*time.Second, func() bool { return m.b.log.end > 3<<16 })
				stop()
				w.until("convergence", 10*time.Second, w.converged)
				h := hello(w, m, slave)
				slave.crash(false)
				w.run(time.Second)
				if cold {
					w.run(6 * time.Second)
					if len(m.b.tail.chunks) != 0 {
						t.Fatal("the idle tail is still in memory")
					}
				}
				h.Offset = ha.LogOffset(seg<<16 + 1000)
				if !cold {
					h.Offset = m.b.tail.start(m.b.log.end) + 100
				}
				x := w.fakeSlave(m)
				x.say(h, nil)
				w.until("welcome", time.Second, func() bool { return len(x.got) > 0 })
				x.say(wire.Replica{Kind: wire.ReplicaStart, Term: h.Term, Epoch: h.Term, Offset: h.Offset}, nil)
				w.until("the end of the session", 5*time.Second, func() bool { return x.s.dead })
				if why := lastEvent(m, event.FrameRejected); !strings.Contains(why, "lies inside a record") {
					t.Errorf("rejected with %q", why)
				}
				if m.b == nil || m.b.failed() || !m.b.role.serving() {
					t.Error("a stranger ended the store's claim")
				}
			})
		}
	}
}

// TestColdDamage: damage that a catch-up read finds ends the store's claim; nothing
// of it is sent.
func TestColdDamage(t *testing.T) {
	w := started(t, 3, nil)
	m, slave := w.master(), w.slaves()[0]
	slave.crash(false)
	stop, _ := w.load(m, "x", 8)
	w.until("some segments", 10*time.Second, func() bool { return m.b.log.end > 3<<16 })
	stop()
	w.run(8 * time.Second)
	m.store.cache[slave.store.end()-m.store.base+5000] ^= 1
	slave.start()
	w.until("the exit", 10*time.Second, func() bool { return m.exit != nil })
	if m.exit.Code != node.ExitSuspect {
		t.Errorf("exit %+v", m.exit)
	}
	w.until("another master", 30*time.Second, func() bool { x := w.writable(); return x != nil && x != m })
}

// TestFakeMaster: a slave follows only the master the controllers named, in the
// epoch they named.
func TestFakeMaster(t *testing.T) {
	w := started(t, 3, nil)
	s := w.slaves()[0]
	b := s.b
	s.fact(s.life, func(now node.Now) { b.closeUpstream("test") })
	w.until("greeted", 10*time.Second, func() bool { return b.up.phase == upGreeted })
	end := b.log.end
	s.fact(s.life, func(now node.Now) {
		b.Receive(now, b.up.session, &wire.Frame{Link: wire.Replication, Replica: &wire.Replica{Kind: wire.ReplicaWelcome,
			Self: ha.Incarnation{Broker: 9, Store: "x", Boot: 1}, Term: b.role.epoch, Epoch: b.role.epoch}})
	})
	if b.up.session != 0 || b.cut.wanted || b.log.end != end {
		t.Error("a stranger was followed")
	}
	if !strings.Contains(lastEvent(s, event.FrameRejected), "broker 9 answers") {
		t.Errorf("event %q", lastEvent(s, event.FrameRejected))
	}
}

// TestGreetedDuringPromotion: a slave that greets a master whose promotion the disk
// holds up is let go after the usual silence, and what is due is never in the past: a
// host would otherwise settle without end.
func TestGreetedDuringPromotion(t *testing.T) {
	w := newWorld(t, 1, nil)
	m := w.nodes[0]
	w.ctl.min = 1
	m.store.drop[storage.OpSync] = struct{}{}
	m.start()
	w.run(5 * time.Second)
	if !m.b.role.promoting() {
		t.Fatalf("role %s, want a promotion that waits for its disk", m.b.role.String())
	}
	x := w.fakeSlave(m)
	h := hello(w, m, m)
	h.Self = ha.Incarnation{Broker: 2, Store: "00000000000000000000000000abcdef", Boot: 1}
	x.say(h, nil)
	w.run(m.o.HAHousekeepingInterval - time.Second)
	if x.s.dead {
		t.Fatal("let go too soon")
	}
	for range 2000 { // by hand: the schedule of the world would not end
		now := m.b.now
		now.Mono = max(now.Mono+1, m.b.Deadline())
		if now.Mono > w.now.Add(2*time.Second) {
			return
		}
		var fx node.Effects
		m.b.Settle(now, &fx)
		if slices.Contains(fx.Closes, x.s.ids[1]) {
			return
		}
	}
	t.Errorf("not let go, and due in the past: %d, now %d", m.b.Deadline(), m.b.now.Mono)
}

// TestManyUnresolvedProposals: with as many proposals unresolved as are remembered, the
// one that is sent can be accepted whatever became of the slaves that the others name:
// otherwise a refusal would repeat for ever and the set never change again.
func TestManyUnresolvedProposals(t *testing.T) {
	b := &Broker{id: storage.Identity{Broker: 1, Store: "s1", Boot: 7}}
	for boot := range ha.Boot(3 * maxProposals) {
		p := b.proposalFor(ha.NewIDs(1, 2), wire.Members{b.self(), {Broker: 2, Store: "s2", Boot: boot + 1}})
		p.open++
		if len(b.set.proposals) > maxProposals {
			t.Fatalf("%d proposals remembered", len(b.set.proposals))
		}
		if boot >= maxProposals-1 && !p.set.Equal(ha.NewIDs(1)) {
			t.Fatalf("with all places taken %v is proposed as %v", p.set, p.members)
		}
	}
}

// TestCheckpointBehindCut: a checkpoint that was on its way when the log was cut says
// nothing about the log after the cut: the store drops it, and so does this broker.
func TestCheckpointBehindCut(t *testing.T) {
	b := &Broker{o: testOptions(1), sessions: map[node.SessionID]sessionKind{}}
	b.fx = &b.out
	b.services = newServices(b.o.ServiceOptions)
	b.log = commitLog{end: 200, issued: 200, written: 200, durable: 200}
	b.queues.reset(nil, 200)
	b.checkpoint = checkpoint{durable: 90, confirm: 90, op: 77, asked: checkpointed{200, 150}}
	b.cut = cut{wanted: true, at: 100, step: cutLog, op: 78}
	b.cutDone(storage.Result{Op: storage.Op{ID: 78, Kind: storage.OpTruncate}})
	b.checkpointDone(storage.Result{Op: storage.Op{ID: 77, Kind: storage.OpCheckpoint}})
	if c := b.checkpoint; c.confirm > 100 || c.durable > 100 {
		t.Errorf("the log was cut at 100, and the checkpoint is taken to say durable %d, confirm %d", c.durable, c.confirm)
	}
}

// TestLongRefusal: what a stranger says of itself may be as long as the wire allows; the
// refusal that quotes it still fits a frame.
func TestLongRefusal(t *testing.T) {
	w := started(t, 3, nil)
	m, slave := w.master(), w.slaves()[0]
	for name, bend := range map[string]func(h *wire.Replica){
		"group": func(h *wire.Replica) { h.Cluster, h.Group = strings.Repeat("c", 1024), strings.Repeat("g", 1024) },
		"store": func(h *wire.Replica) { h.Self.Store = ha.StoreID(strings.Repeat("\x00", 1024)) },
	} {
		x := w.fakeSlave(m)
		h := hello(w, m, slave)
		bend(&h)
		x.say(h, nil)
		w.until("an answer", 5*time.Second, func() bool { return len(x.got) > 0 })
		if _, err := wire.AppendFrame(nil, x.got[0], wire.JSON); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
