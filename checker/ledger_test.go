package checker

import (
	"encoding/binary"
	"strings"
	"testing"

	"lockstep/internal/event"
	"lockstep/internal/ha"
)

func idOf(n int64) ha.BrokerID       { return ha.BrokerID(n) }
func epochOf(n int32) ha.MasterEpoch { return ha.MasterEpoch(n) }
func setEpochOf(n int32) ha.SetEpoch { return ha.SetEpoch(n) }

// record builds a stored message by hand from the layout.
func record(key string, log ha.LogOffset, queueOffset int64) []byte {
	props := "KEYS\x01" + key + "\x02"
	b := make([]byte, 91+1+len(props))
	be := binary.BigEndian
	be.PutUint32(b, uint32(len(b)))
	be.PutUint32(b[4:], magicV1)
	be.PutUint64(b[20:], uint64(queueOffset))
	be.PutUint64(b[28:], uint64(log))
	at := 48 + 8 + 8 + 8 + 4 + 8 + 4
	b[at] = 1
	b[at+1] = 'T'
	be.PutUint16(b[at+2:], uint16(len(props)))
	copy(b[at+4:], props)
	return b
}

// world is a truth of three brokers, each with one flat log.
type world struct {
	cached, durable map[ha.BrokerID][]byte
	sets            map[ha.MasterEpoch]ha.IDs
	epoch           ha.MasterEpoch
	electable       ha.IDs
	min             ha.LogOffset
}

func newWorld() *world {
	return &world{cached: map[ha.BrokerID][]byte{}, durable: map[ha.BrokerID][]byte{}, sets: map[ha.MasterEpoch]ha.IDs{1: ha.NewIDs(1, 2)},
		epoch: 1, electable: ha.NewIDs(1, 2)}
}

func cut(b []byte, off ha.LogOffset, n int) []byte {
	if int(off)+n > len(b) {
		return nil
	}
	return b[off : int(off)+n]
}

func (w *world) Cached(_ string, b ha.BrokerID, off ha.LogOffset, n int) []byte {
	return cut(w.cached[b], off, n)
}
func (w *world) Durable(_ string, b ha.BrokerID, off ha.LogOffset, n int) []byte {
	return cut(w.durable[b], off, n)
}
func (w *world) MinOffset(string, ha.BrokerID) ha.LogOffset { return w.min }
func (w *world) Set(_ string, e ha.MasterEpoch) ha.IDs      { return w.sets[e] }
func (w *world) Newest(string) (ha.MasterEpoch, ha.IDs)     { return w.epoch, w.sets[w.epoch] }
func (w *world) Brokers(string) ha.IDs                      { return ha.NewIDs(1, 2, 3) }
func (w *world) Electable(string) ha.IDs                    { return w.electable }
func (w *world) put(b ha.BrokerID, rec []byte, durable bool) {
	w.cached[b] = append(w.cached[b], rec...)
	if durable {
		w.durable[b] = append(w.durable[b], rec...)
	}
}

var all = Policy{All: true, Min: 2, Class: ha.ClassDurable}

func ackOf(key string) Ack {
	return Ack{Key: key, Group: "g", Master: 1, Epoch: 1, Log: 0, QueueOffset: 0, At: 1e9}
}

// claims is an acknowledgement that says what it proves.
func claims(claim string) Ack {
	a := ackOf("a")
	a.Claim = claim
	return a
}

// TestClaims compares what a SEND_OK says of itself with the copies there are.
func TestClaims(t *testing.T) {
	rec := record("a", 0, 0)
	one := Policy{Count: 1, Min: 1, Class: ha.ClassReceived}
	cases := []struct {
		name, claim string
		policy      Policy
		set         ha.IDs
		copies      [3]ha.AckClass // of brokers 1 to 3
		want        string
	}{
		{"set of one, local", ClaimLocal, one, ha.NewIDs(1), [3]ha.AckClass{ha.ClassDurable}, ""},
		{"set of one called replicated", ClaimReplicated, Policy{All: true, Min: 1, Class: ha.ClassDurable}, ha.NewIDs(1), [3]ha.AckClass{ha.ClassDurable}, "durability-overclaimed"},
		{"set of one called received", ClaimReceived, one, ha.NewIDs(1), [3]ha.AckClass{ha.ClassDurable}, "durability-overclaimed"},
		{"one copy received", ClaimReplicated, one, ha.NewIDs(1, 2), [3]ha.AckClass{ha.ClassDurable, ha.ClassReceived}, "durability-overclaimed"},
		{"master only received", ClaimReplicated, one, ha.NewIDs(1, 2), [3]ha.AckClass{ha.ClassReceived, ha.ClassDurable, ha.ClassDurable}, "durability-overclaimed"},
		{"received says so", ClaimReceived, one, ha.NewIDs(1, 2), [3]ha.AckClass{ha.ClassReceived, ha.ClassReceived}, ""},
		{"two durable", ClaimReplicated, one, ha.NewIDs(1, 2), [3]ha.AckClass{ha.ClassDurable, ha.ClassDurable}, ""},
		{"two of three promised copies", ClaimReplicated, Policy{Count: 3, Min: 1, Class: ha.ClassReceived}, ha.NewIDs(1, 2, 3),
			[3]ha.AckClass{ha.ClassDurable, ha.ClassDurable, ha.ClassReceived}, "durability-overclaimed"},
		{"one member of all only received", ClaimReplicated, Policy{All: true, Min: 1, Class: ha.ClassReceived}, ha.NewIDs(1, 2, 3),
			[3]ha.AckClass{ha.ClassDurable, ha.ClassDurable, ha.ClassReceived}, "durability-overclaimed"},
		{"more than claimed", ClaimLocal, one, ha.NewIDs(1, 2), [3]ha.AckClass{ha.ClassDurable, ha.ClassDurable}, ""},
		{"says nothing", "", one, ha.NewIDs(1), [3]ha.AckClass{ha.ClassReceived}, ""},
		{"says what nobody knows", "engraved", one, ha.NewIDs(1), [3]ha.AckClass{ha.ClassDurable}, "durability-unknown"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			w.sets[1] = c.set
			for i, class := range c.copies {
				if class != ha.ClassUnknown {
					w.put(ha.BrokerID(i+1), rec, class == ha.ClassDurable)
				}
			}
			l := NewLedger(w)
			l.SetPolicy("g", c.policy)
			l.Acknowledged(claims(c.claim))
			if got := names(l.Findings()); got != c.want {
				t.Errorf("findings %q, want %q: %v", got, c.want, l.Findings())
			}
		})
	}
}

// names joins the names of findings.
func names(list []Finding) string {
	var out []string
	for _, f := range list {
		out = append(out, f.Name)
	}
	return strings.Join(out, " ")
}

// TestEvidence has one SEND_OK for every way an acknowledgement can lie.
func TestEvidence(t *testing.T) {
	rec := record("a", 0, 0)
	cases := []struct {
		name   string
		policy Policy
		setup  func(w *world)
		ack    Ack
		want   string
	}{
		{"good", all, func(w *world) { w.put(1, rec, true); w.put(2, rec, true) }, ackOf("a"), ""},
		{"nothing appended", all, func(*world) {}, ackOf("a"), "not-appended"},
		{"another record there", all, func(w *world) { w.put(1, record("b", 0, 0), true) }, ackOf("a"), "wrong-record"},
		{"own copy not synced", all, func(w *world) { w.put(1, rec, false); w.put(2, rec, true) }, ackOf("a"), "before-durable"},
		{"member only received", all, func(w *world) { w.put(1, rec, true); w.put(2, rec, false) }, ackOf("a"), "member-lacks-it"},
		{"member lacks it", all, func(w *world) { w.put(1, rec, true) }, ackOf("a"), "member-lacks-it"},
		{"set below min", all, func(w *world) { w.put(1, rec, true); w.sets[1] = ha.NewIDs(1) }, ackOf("a"), "below-min"},
		{"two of three", Policy{Count: 2, Min: 1, Class: ha.ClassDurable}, func(w *world) { w.put(1, rec, true); w.sets[1] = ha.NewIDs(1, 2, 3) }, ackOf("a"), "too-few-copies"},
		{"a non-member does not count", Policy{Count: 2, Min: 1, Class: ha.ClassDurable}, func(w *world) { w.put(1, rec, true); w.put(3, rec, true) }, ackOf("a"), "too-few-copies"},
		{"received is enough where promised", Policy{All: true, Min: 2, Class: ha.ClassReceived}, func(w *world) { w.put(1, rec, false); w.put(2, rec, false) }, ackOf("a"), ""},
		{"deposed master, kept message", all, func(w *world) { w.put(1, rec, true); w.put(2, rec, true); w.epoch, w.sets[2] = 2, ha.NewIDs(2) }, ackOf("a"), ""},
		{"deposed master, lost message", all, func(w *world) { w.put(1, rec, true); w.put(2, rec, true); w.epoch, w.sets[2] = 2, ha.NewIDs(3) }, ackOf("a"), "deposed-ack"},
		{"not the master of the set", all, func(w *world) { w.put(1, rec, true); w.sets[1] = ha.NewIDs(2) }, ackOf("a"), "no-authority"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			c.setup(w)
			l := NewLedger(w)
			l.SetPolicy("g", c.policy)
			l.Acknowledged(c.ack)
			got := ""
			if f := l.Findings(); len(f) > 0 {
				got = f[0].Name
			}
			if got != c.want {
				t.Errorf("got %q, want %q: %v", got, c.want, l.Findings())
			}
		})
	}
}

// TestLoss checks which losses the ledger explains.
func TestLoss(t *testing.T) {
	rec := record("a", 0, 0)
	one := Policy{Count: 1, Min: 1, Class: ha.ClassDurable}
	two := Policy{Count: 2, Min: 1, Class: ha.ClassDurable}
	cases := []struct {
		name    string
		policy  Policy
		fault   func(l *Ledger)
		promote Promotion
		lost    int
		allowed bool
	}{
		{"kept", all, nil, Promotion{Group: "g", Master: 2, Epoch: 2}, 0, false},
		{"lost by a master that never had it", all, nil, Promotion{Group: "g", Master: 3, Epoch: 2, Electable: ha.NewIDs(2)}, 1, false},
		{"truncation is no excuse", all, func(*Ledger) {}, Promotion{Group: "g", Master: 3, Epoch: 2}, 1, false},
		{"every copy died", all, func(l *Ledger) { l.StoreLost("g", 1, "wipe"); l.StoreLost("g", 2, "wipe") }, Promotion{Group: "g", Master: 3, Epoch: 2}, 1, true},
		{"one copy died is not enough", all, func(l *Ledger) { l.StoreLost("g", 1, "wipe") }, Promotion{Group: "g", Master: 3, Epoch: 2}, 1, false},
		{"unclean with no holder to elect", all, nil, Promotion{Group: "g", Master: 3, Epoch: 2, Unclean: true, Electable: ha.NewIDs(3)}, 1, true},
		{"unclean although a holder could lead", all, nil, Promotion{Group: "g", Master: 3, Epoch: 2, Unclean: true, Electable: ha.NewIDs(2, 3)}, 1, false},
		{"count 2, holder could lead", two, nil, Promotion{Group: "g", Master: 3, Epoch: 2, Electable: ha.NewIDs(2, 3)}, 1, false},
		{"count 2, no holder could lead", two, nil, Promotion{Group: "g", Master: 3, Epoch: 2, Electable: ha.NewIDs(3)}, 1, true},
		{"count 1, master gone", one, nil, Promotion{Group: "g", Master: 3, Epoch: 2, Electable: ha.NewIDs(3)}, 1, true},
		{"count 1, master could lead", one, nil, Promotion{Group: "g", Master: 3, Epoch: 2, Electable: ha.NewIDs(1, 3)}, 1, false},
		{"rot elsewhere", all, func(l *Ledger) { l.Rotted("g", 1); l.StoreLost("g", 2, "wipe") }, Promotion{Group: "g", Master: 3, Epoch: 2}, 1, false},
		{"rot over it", all, func(l *Ledger) {
			l.truth.(*world).durable[1] = record("x", 0, 0)
			l.Rotted("g", 1)
			l.StoreLost("g", 2, "wipe")
		}, Promotion{Group: "g", Master: 3, Epoch: 2}, 1, true},
		{"a failed sync takes nothing that was durable", all, func(l *Ledger) { l.SyncDropped("g", 1); l.StoreLost("g", 2, "wipe") }, Promotion{Group: "g", Master: 3, Epoch: 2}, 1, false},
		{"a liar's power loss takes nothing that is on the platter", all, func(l *Ledger) { l.LiarLost("g", 1); l.StoreLost("g", 2, "wipe") }, Promotion{Group: "g", Master: 3, Epoch: 2}, 1, false},
		{"a liar's power loss takes the rest", all, func(l *Ledger) {
			l.truth.(*world).durable[1] = nil
			l.LiarLost("g", 1)
			l.StoreLost("g", 2, "wipe")
		}, Promotion{Group: "g", Master: 3, Epoch: 2}, 1, true},
		{"the whole group is back, a holder among it", Policy{All: true, Min: 2, Class: ha.ClassDurable}, nil, Promotion{Group: "g", Master: 3, Epoch: 2, Unclean: true, Electable: ha.NewIDs(1, 2, 3)}, 1, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			w.put(1, rec, true)
			w.put(2, rec, true)
			l := NewLedger(w)
			l.SetPolicy("g", c.policy)
			l.Acknowledged(ackOf("a"))
			if c.fault != nil {
				c.fault(l)
			}
			l.Promoted(c.promote)
			if l.Counts.Lost != c.lost || l.LossAllowed("a") != c.allowed || (len(l.Findings()) > 0) != (c.lost > 0 && !c.allowed) {
				t.Errorf("lost %d, allowed %v, findings %v", l.Counts.Lost, l.LossAllowed("a"), l.Findings())
			}
		})
	}
}

// TestDroppedPages: a failed sync takes the copies that were only received, and only
// while they are not on the platter.
func TestDroppedPages(t *testing.T) {
	rec := record("a", 0, 0)
	for _, synced := range []bool{false, true} {
		w := newWorld()
		w.put(1, rec, false)
		w.put(2, rec, false)
		l := NewLedger(w)
		l.SetPolicy("g", Policy{All: true, Min: 2, Class: ha.ClassReceived})
		l.Acknowledged(ackOf("a"))
		if synced {
			w.durable[1] = rec
		}
		l.SyncDropped("g", 1)
		l.StoreLost("g", 2, "wipe")
		l.Promoted(Promotion{Group: "g", Master: 3, Epoch: 2})
		if l.LossAllowed("a") == synced {
			t.Errorf("synced %v: loss allowed %v, %v", synced, l.LossAllowed("a"), l.Findings())
		}
	}
}

// TestRetention: what is gone from the beginning of a log is lost, unless it was old
// enough for retention; that a node deleted it explains nothing.
func TestRetention(t *testing.T) {
	rec := record("a", 0, 0)
	cases := []struct {
		name     string
		reserved int64
		at       int64 // of the promotion; acknowledged at 1 s
		lost     int
	}{{"nothing expires", 0, 900e9, 1}, {"too young", 8e9, 8e9, 1}, {"old enough", 8e9, 9e9, 0}}
	for _, c := range cases {
		w := newWorld()
		w.put(1, rec, true)
		w.put(2, rec, true)
		l := NewLedger(w)
		p := all
		p.Reserved = c.reserved
		l.SetPolicy("g", p)
		l.Acknowledged(ackOf("a"))
		w.min, w.cached[2] = 4096, nil
		l.Final(Promotion{Group: "g", Master: 2, At: c.at})
		if l.Counts.Lost != c.lost || l.Counts.Expired != 1-c.lost || len(l.Findings()) != c.lost {
			t.Errorf("%s: lost %d, expired %d, %v", c.name, l.Counts.Lost, l.Counts.Expired, l.Findings())
		}
	}
}

// TestExpiresByAge: a message is as old as its send, however late it was acknowledged or
// read.
func TestExpiresByAge(t *testing.T) {
	for _, began := range []int64{1e9, 3e9} {
		rec := record("a", 0, 0)
		w := newWorld()
		w.put(1, rec, true)
		w.put(2, rec, true)
		l := NewLedger(w)
		p := all
		p.Reserved = 8e9
		l.SetPolicy("g", p)
		l.Began("g", "a", began)
		l.Began("g", "a", 4e9) // a retry makes nothing younger
		l.Served("g", 1, 1, rec, 5e9)
		w.min, w.cached[2] = 4096, nil
		l.Promoted(Promotion{Group: "g", Master: 2, Epoch: 2, Electable: ha.NewIDs(2), At: 10e9})
		if want := map[int64]int{1e9: 0, 3e9: 1}[began]; l.Counts.SeenLost != want || len(l.Findings()) != want {
			t.Errorf("sent at %d: %d lost, %v", began, l.Counts.SeenLost, l.Findings())
		}
	}
}

// TestServed: what a consumer has read stays, though nobody acknowledged it.
func TestServed(t *testing.T) {
	rec := record("a", 0, 0)
	cases := []struct {
		name  string
		after func(l *Ledger)
		p     Promotion
		want  string
	}{
		{"kept", nil, Promotion{Group: "g", Master: 2, Epoch: 2}, ""},
		{"lost by the next master", nil, Promotion{Group: "g", Master: 3, Epoch: 2, Electable: ha.NewIDs(1, 2, 3)}, "seen-lost"},
		{"every copy died", func(l *Ledger) { l.StoreLost("g", 1, "wipe"); l.StoreLost("g", 2, "wipe") }, Promotion{Group: "g", Master: 3, Epoch: 2}, ""},
		{"acknowledged too: told once", func(l *Ledger) { l.Acknowledged(ackOf("a")) }, Promotion{Group: "g", Master: 3, Epoch: 2}, "lost"},
	}
	for _, c := range cases {
		w := newWorld()
		w.put(1, rec, true)
		w.put(2, rec, true)
		l := NewLedger(w)
		l.SetPolicy("g", all)
		l.Served("g", 1, 1, rec, 1e9)
		l.Served("g", 1, 1, rec, 2e9) // again, to another consumer
		if c.after != nil {
			c.after(l)
		}
		l.Promoted(c.p)
		if got := names(l.Findings()); got != c.want {
			t.Errorf("%s: %q, want %q: %v", c.name, got, c.want, l.Findings())
		}
	}
	l := NewLedger(newWorld())
	l.SetPolicy("g", all)
	l.Served("g", 1, 1, rec, 1e9)
	l.Served("g", 1, 1, rec[:40], 1e9)
	if got := names(l.Findings()); got != "served-unstored served-garbage" {
		t.Errorf("of a disk that holds nothing: %q", got)
	}
}

// TestHeard: a success that the ledger did not see is a hole in the ledger.
func TestHeard(t *testing.T) {
	w := newWorld()
	w.put(1, record("a", 0, 0), true)
	w.put(2, record("a", 0, 0), true)
	l := NewLedger(w)
	l.SetPolicy("g", all)
	l.Acknowledged(ackOf("a"))
	if l.Heard([]Op{send(1, "a", 0, 0, 5), unknown(1, "b", 6), refused(1, "c", 7, 8)}); len(l.Findings()) != 0 {
		t.Fatalf("%v", l.Findings())
	}
	if l.Heard([]Op{send(1, "b", 1, 0, 5)}); names(l.Findings()) != "unheard" {
		t.Errorf("%v", l.Findings())
	}
}

// TestAcknowledgedTooLate: a deposed master's single-copy success is judged by the
// election that deposed it, at once.
func TestAcknowledgedTooLate(t *testing.T) {
	rec := record("a", 0, 0)
	for _, couldLead := range []bool{false, true} {
		w := newWorld()
		w.put(1, rec, true)
		w.sets[2], w.epoch = ha.NewIDs(2), 2
		l := NewLedger(w)
		l.SetPolicy("g", Policy{Count: 1, Min: 1, Class: ha.ClassDurable})
		electable := ha.NewIDs(2)
		if couldLead {
			electable = ha.NewIDs(1, 2)
		}
		l.Promoted(Promotion{Group: "g", Master: 2, Epoch: 2, Electable: electable})
		l.Acknowledged(ackOf("a"))
		if l.Counts.Lost != 1 || l.LossAllowed("a") == couldLead {
			t.Errorf("could lead %v: lost %d, allowed %v", couldLead, l.Counts.Lost, l.LossAllowed("a"))
		}
	}
}

// TestPowerLossTakesReceivedCopies: a received copy dies of a power loss, unless
// it was synced since.
func TestPowerLossTakesReceivedCopies(t *testing.T) {
	rec := record("a", 0, 0)
	received := Policy{All: true, Min: 2, Class: ha.ClassReceived}
	for _, synced := range []bool{false, true} {
		w := newWorld()
		w.put(1, rec, false)
		w.put(2, rec, false)
		l := NewLedger(w)
		l.SetPolicy("g", received)
		l.Acknowledged(ackOf("a"))
		if synced {
			w.durable[2] = rec
		}
		l.PowerLost("g", 1)
		l.PowerLost("g", 2)
		l.Promoted(Promotion{Group: "g", Master: 3, Epoch: 2, At: 2e9})
		if l.LossAllowed("a") == synced {
			t.Errorf("synced %v: loss allowed %v", synced, l.LossAllowed("a"))
		}
		if synced && !strings.Contains(l.Findings()[0].Text, "broker 2 held it received;") {
			t.Errorf("story lacks the living copy: %s", l.Findings()[0].Text)
		}
	}
}

// TestInvariantsFire has one event sequence for each invariant.
func TestInvariantsFire(t *testing.T) {
	elected := func(b int64, e, s int32) event.Event {
		return event.Event{Kind: event.Elected, Group: "g", Broker: idOf(b), Epoch: epochOf(e), SetEpoch: setEpochOf(s), Set: ha.NewIDs(idOf(b))}
	}
	writable := func(node string, e int32) event.Event {
		return event.Event{Kind: event.Writable, Node: node, Group: "g", Epoch: epochOf(e)}
	}
	routed := func(node string, role int64, e int32, addr string) event.Event {
		return event.Event{Kind: event.RouteChanged, Node: node, Group: "g", Broker: idOf(role), Epoch: epochOf(e), Text: addr}
	}
	with := func(e event.Event, f func(*event.Event)) event.Event { f(&e); return e }
	cases := []struct {
		name   string
		events []event.Event
		want   string
	}{
		{"good", []event.Event{elected(1, 1, 1), writable("a", 1), {Kind: event.NotWritable, Node: "a", Group: "g"}, elected(2, 2, 2), writable("b", 2)}, ""},
		{"epoch down", []event.Event{elected(1, 2, 1), elected(2, 1, 2)}, "epoch-down"},
		{"set epoch down", []event.Event{elected(1, 1, 5), elected(2, 2, 5)}, "set-epoch-down"},
		{"set keeps old members", []event.Event{with(elected(1, 1, 1), func(e *event.Event) { e.Set = ha.NewIDs(1, 2) })}, "new-set"},
		{"stale alter", []event.Event{elected(1, 1, 1), elected(2, 2, 2), {Kind: event.SetAltered, Group: "g", Epoch: 1, SetEpoch: 3, Set: ha.NewIDs(1)}}, "stale-alter"},
		{"set epoch skipped", []event.Event{elected(1, 1, 1), {Kind: event.SetAltered, Group: "g", Epoch: 1, SetEpoch: 3, Set: ha.NewIDs(1)}}, "set-epoch-skip"},
		{"set without master", []event.Event{elected(1, 1, 1), {Kind: event.SetAltered, Group: "g", Epoch: 1, SetEpoch: 2, Set: ha.NewIDs(2)}}, "set-without-master"},
		{"served twice", []event.Event{{Kind: event.Serving, Node: "a", Group: "g", Epoch: 3}, {Kind: event.Serving, Node: "b", Group: "g", Epoch: 3}}, "served-twice"},
		{"two writers", []event.Event{writable("a", 1), writable("b", 1)}, "two-writers"},
		{"lease overlap", []event.Event{writable("a", 1), writable("b", 2)}, "lease-overlap"},
		{"role epoch down", []event.Event{{Kind: event.RoleApplied, Node: "a", Group: "g", Epoch: 3, Broker: 1}, {Kind: event.RoleApplied, Node: "a", Group: "g", Epoch: 2, Broker: 1}}, "role-epoch-down"},
		{"writable without a role", []event.Event{{Kind: event.Started, Node: "a", Group: "g"}, writable("a", 1)}, "writable-unfenced"},
		{"writable after its role ended", []event.Event{{Kind: event.Started, Node: "a", Group: "g"}, {Kind: event.Serving, Node: "a", Group: "g", Epoch: 1},
			{Kind: event.Demoted, Node: "a", Group: "g", Epoch: 1}, writable("a", 1)}, "writable-unfenced"},
		{"writable in its role", []event.Event{{Kind: event.Started, Node: "a", Group: "g"}, {Kind: event.Serving, Node: "a", Group: "g", Epoch: 1}, writable("a", 1)}, ""},
		{"route goes back", []event.Event{routed("n", 0, 1, "x"), routed("n", 0, 2, "y"), routed("n", 0, 1, "x")}, "route-epoch-down"},
		{"routes of two name servers, of a slave, of nobody", []event.Event{routed("n", 0, 2, "x"), routed("m", 0, 1, "y"), routed("n", 2, 1, "z"), routed("n", 0, 1, "")}, ""},
		{"another master than elected", []event.Event{elected(1, 1, 1), {Kind: event.RoleApplied, Node: "a", Group: "g", Epoch: 1, Broker: 2}}, "two-masters"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			v := NewInvariants(true)
			for _, e := range c.events {
				v.See(e)
			}
			got := ""
			if f := v.Findings(); len(f) > 0 {
				got = f[0].Name
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestExclusiveAcknowledgements: a paused writer is no overlap until it
// acknowledges.
func TestExclusiveAcknowledgements(t *testing.T) {
	v := NewInvariants(true)
	v.See(event.Event{Kind: event.Writable, Node: "a", Group: "g", Epoch: 1})
	v.Frozen("a", true)
	v.Frozen("a", true)
	v.Frozen("a", false) // the other stop goes on
	v.See(event.Event{Kind: event.Writable, Node: "b", Group: "g", Epoch: 2})
	if len(v.Findings()) != 0 {
		t.Fatalf("a frozen writer counts as overlap: %v", v.Findings())
	}
	v.Acknowledged("b", "g", 2, 5)
	v.Acknowledged("a", "g", 1, 6)
	if f := v.Findings(); len(f) != 1 || f[0].Name != "lease-overlap" {
		t.Fatalf("got %v", f)
	}
}

// TestActivity: a quiet run is vacuous.
func TestActivity(t *testing.T) {
	ops := []Op{send(1, "a", 0, 0, 5), unknown(2, "b", 8), send(1, "c", 1, 21, 25)}
	at := Instants{FirstFault: 10, LastHeal: 20}
	if f := CheckActivity(Activity{Before: 1, InFlight: 1, After: 1, Marks: []string{"m"}}, ops, at, map[string]int{"m": 1}); len(f) != 0 {
		t.Errorf("busy run: %v", f)
	}
	if f := CheckActivity(Activity{Before: 2, InFlight: 2, After: 2, Marks: []string{"n"}}, ops, at, nil); len(f) != 4 {
		t.Errorf("quiet run: %v", f)
	}
}

// TestRecoveryStages: only what belongs to the new epoch ends a stage.
func TestRecoveryStages(t *testing.T) {
	r := NewRecovery("g", 1e9, 4, 2)
	for _, e := range []event.Event{
		{Kind: event.Serving, Group: "g", Epoch: 4, At: 2e9},
		{Kind: event.BrokerSilent, Group: "g", At: 11e9},
		{Kind: event.Elected, Group: "other", Epoch: 9, At: 11e9},
		{Kind: event.Elected, Group: "g", Epoch: 5, Set: ha.NewIDs(2), At: 12e9},
		{Kind: event.Serving, Group: "g", Epoch: 5, At: 13e9},
		{Kind: event.RouteChanged, Group: "g", Epoch: 5, Broker: 3, At: 13e9},
		{Kind: event.RouteChanged, Group: "g", Epoch: 5, Broker: 0, At: 14e9},
		{Kind: event.SetAltered, Group: "g", Epoch: 5, Set: ha.NewIDs(2, 3), At: 15e9},
	} {
		r.See(e)
	}
	r.Acknowledged(4, 9e9)
	r.Acknowledged(5, 16e9)
	got := r.Millis()
	want := map[Stage]int64{Detect: 10000, Elect: 11000, ApplyRole: 12000, Route: 13000, CatchUp: 14000, FirstSend: 15000}
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for s, ms := range want {
		if got[s] != ms {
			t.Errorf("%s: got %d ms, want %d", s, got[s], ms)
		}
	}
}
