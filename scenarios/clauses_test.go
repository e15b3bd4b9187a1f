package scenarios

import (
	"strings"
	"testing"
	"time"

	"lockstep/checker"
	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/node/broker"
	"lockstep/node/client"
	"lockstep/node/wire"
	"lockstep/sim"
)

// clauseOf is the check of a drill's clause.
func clauseOf(t *testing.T, id, name string) func(r *Run) string {
	t.Helper()
	d, err := Find(id)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range d.Assertions {
		if a.Name == name {
			return a.Check
		}
	}
	t.Fatalf("%s has no clause %q", id, name)
	return nil
}

// seen is a run in which what judges saw is written down by hand.
func seen(s Setup, faults []*sim.Fault, events ...event.Event) *Run {
	r := &Run{Setup: s, Plan: &sim.Plan{Faults: faults}}
	r.Truth = newTruth(&r.Setup)
	r.Judge = newJudge(&r.Setup, r.Truth, func() int64 { return 0 })
	r.Judge.Events, r.Judge.FirstFault = events, 20e9
	return r
}

// TestMinorityClausesFail: each clause of A8 about the minority fails on what it must
// not be.
func TestMinorityClausesFail(t *testing.T) {
	why, nobody := clauseOf(t, "A8", "minority's answer says why"), clauseOf(t, "A8", "the minority elects nobody")
	s := StandardSetup()
	faults := []*sim.Fault{Isolate(sim.Trigger{At: 20e9}, 30*time.Second, "@leader", "@follower/0")}
	good := answered{from: "c3", at: 40e9, code: wire.CodeNotLeader, remark: "no leader is known, a quorum of controllers may be missing"}
	for _, c := range []struct {
		name      string
		answers   []answered
		events    []event.Event
		why, elec string
	}{
		{"refused with the reason", []answered{good}, nil, "", ""},
		{"nobody answers", nil, nil, "no controller", "no controller"},
		{"only before it can know", []answered{{from: "c3", at: 21e9}}, nil, "no controller", "no controller"},
		{"only when all is well again", []answered{{from: "c3", at: 51e9}}, nil, "no controller", "no controller"},
		{"no reason", []answered{good, {from: "c3", at: 41e9, code: wire.CodeNotLeader, remark: "not in leader state"}}, nil, "without a reason", ""},
		{"elected", []answered{{from: "c3", at: 41e9, code: wire.CodeSuccess, remark: "quorum"}}, nil, "", "answers an election"},
		{"a second master", []answered{good}, []event.Event{{Kind: event.PromotionBegun, Node: "a2", Epoch: 2, At: 45e9}}, "", "a2 begins epoch 2"},
		{"a master after the gap", []answered{good}, []event.Event{{Kind: event.PromotionBegun, Node: "a2", Epoch: 2, At: 55e9}}, "", ""},
	} {
		r := seen(s, faults, c.events...)
		r.minority = c.answers
		if got := why(r); (got == "") != (c.why == "") || !strings.Contains(got, c.why) {
			t.Errorf("%s: reason: %q, want %q", c.name, got, c.why)
		}
		if got := nobody(r); (got == "") != (c.elec == "") || !strings.Contains(got, c.elec) {
			t.Errorf("%s: election: %q, want %q", c.name, got, c.elec)
		}
	}
}

// TestUnknownClauseFails: a send that waits for a dead member may only end in unknown.
func TestUnknownClauseFails(t *testing.T) {
	check := clauseOf(t, "A8", "lease off: all-ack with a dead slave ends in unknown")
	s := StandardSetup()
	s.Lease = broker.LeaseOff
	faults := []*sim.Fault{Isolate(sim.Trigger{At: 20e9}, 40*time.Second, "@leader", "@follower/0"), Strike(sim.CrashSilent, sim.Trigger{At: 35e9}, 0, "@slave/a/0")}
	unknown := sendEnded{at: 45e9, status: client.Unknown, group: "broker-a"}
	for _, c := range []struct {
		name  string
		sends []sendEnded
		want  string
	}{
		{"unknown", []sendEnded{unknown}, ""},
		{"none", nil, "no send ended"},
		{"acknowledged", []sendEnded{unknown, {at: 46e9, status: client.Done, group: "broker-a"}}, "ends done"},
		{"refused", []sendEnded{unknown, {at: 46e9, status: client.NotDone, code: 2, group: "broker-a"}}, "ends not-done with code 2"},
		{"elsewhere, before and after", []sendEnded{unknown, {at: 46e9, status: client.Done, group: "broker-b"}, {at: 36e9, status: client.Done, group: "broker-a"}, {at: 61e9, status: client.Done, group: "broker-a"}}, ""},
	} {
		r := seen(s, faults)
		r.sends = c.sends
		if got := check(r); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if got := check(seen(s, faults[:1])); got != moot {
		t.Errorf("nobody died: %q", got)
	}
}

// TestClientsMoveClausesFail: clients that stay where nobody answers are told.
func TestClientsMoveClausesFail(t *testing.T) {
	free, bound := clauseOf(t, "A18", "free sends move to the other group"), clauseOf(t, "A18", "bound sends move to the new master")
	faults := []*sim.Fault{Strike(sim.CrashSilent, sim.Trigger{At: 20e9}, 0, "@master/a")}
	events := []event.Event{{Kind: event.Elected, Group: "broker-a", Broker: 2, Epoch: 2, Node: "c1", At: 30e9}, {Kind: event.Serving, Node: "a2", Epoch: 2, At: 31e9}}
	send := func(at int64, free bool, tried, group, to string) sendEnded {
		return sendEnded{at: at, status: client.Done, free: free, tried: tried, group: group, addr: to}
	}
	whole := []sendEnded{
		send(10e9, true, "broker-a", "broker-a", "a1:10911"), send(11e9, false, "broker-a", "broker-a", "a1:10911"),
		send(25e9, true, "broker-a", "broker-b", "b1:10911"),
		send(32e9, false, "broker-a", "broker-a", "a2:10911"), send(33e9, true, "broker-a", "broker-a", "a2:10911"),
	}
	for _, c := range []struct {
		name        string
		without     int // of whole, -1: none
		more        []sendEnded
		free, bound bool // holds
	}{
		{"all of it", -1, nil, true, true},
		{"never where it broke", 0, nil, false, true},
		{"no answer before", 1, nil, true, false},
		{"nothing moved", 2, nil, false, true},
		{"the new master answers nobody", 3, nil, true, false},
		{"never back", 4, nil, false, true},
		{"two masters before the fault", -1, []sendEnded{send(12e9, false, "broker-a", "broker-a", "a3:10911")}, true, false},
	} {
		r := seen(StandardSetup(), faults, events...)
		r.Truth.at["broker-a"] = make([]seat, maxPlaces)
		r.Truth.at["broker-a"][2] = seat{node: "a2"}
		for _, at := range []int64{19e9, 31.5e9, 32e9} {
			r.Judge.AckLog = append(r.Judge.AckLog, AckSeen{At: at, Group: "broker-a", Epoch: ha.MasterEpoch(1 + at/31e9)})
		}
		for i := range whole {
			if i != c.without {
				r.sends = append(r.sends, whole[i])
			}
		}
		r.sends = append(r.sends, c.more...)
		if got := free(r); (got == "") != c.free {
			t.Errorf("%s: free sends: %q", c.name, got)
		}
		if got := bound(r); (got == "") != c.bound {
			t.Errorf("%s: bound sends: %q", c.name, got)
		}
	}
}

// TestRecoveryClausesFail: a stage that comes late, or never, is told.
func TestRecoveryClausesFail(t *testing.T) {
	elect, role, success := clauseOf(t, "A3", "elected within one scan"), clauseOf(t, "A3", "role and route in their windows"), clauseOf(t, "A3", "first success in its window")
	s := StandardSetup() // time-out 10 s, scan 5 s
	s.Lease = broker.LeaseOff
	for _, c := range []struct {
		name                           string
		elected, serving, route, acked int64 // seconds after the fault, 0 never
		elect, role, success           bool
	}{
		{"in time", 16, 17, 19, 29, true, true, true},
		{"elected late", 18, 17, 19, 29, false, true, true},
		{"role late", 16, 19, 19, 29, true, false, true},
		{"route late", 16, 17, 21, 29, true, false, true},
		{"no success", 16, 17, 19, 0, true, true, false},
		{"success late", 16, 17, 19, 31, true, true, false},
		{"nothing", 0, 0, 0, 0, false, false, false},
	} {
		r := seen(s, nil)
		rec := checker.NewRecovery(GroupName(0), 20e9, 1, 2)
		tell := func(at int64, e event.Event) {
			if e.Group, e.Epoch, e.At = GroupName(0), 2, 20e9+at*1e9; at > 0 {
				rec.See(e)
			}
		}
		tell(c.elected, event.Event{Kind: event.Elected, Broker: 2})
		tell(c.serving, event.Event{Kind: event.Serving, Broker: 2})
		tell(c.route, event.Event{Kind: event.RouteChanged, Broker: 0})
		if c.acked > 0 {
			rec.Acknowledged(2, 20e9+c.acked*1e9)
		}
		r.Judge.Recoveries[GroupName(0)] = rec
		for name, x := range map[string]struct {
			check func(r *Run) string
			want  bool
		}{"election": {elect, c.elect}, "role and route": {role, c.role}, "success": {success, c.success}} {
			if got := x.check(r); (got == "") != x.want {
				t.Errorf("%s: %s: %q, %v", c.name, name, got, rec.Millis())
			}
		}
	}
}

// TestInFlightClauseFails: what was in flight and ended as it must not is told.
func TestInFlightClauseFails(t *testing.T) {
	check := clauseOf(t, "A3", "in-flight sends are sorted")
	send := func(key string, status checker.Status, begin, end int64) checker.Op {
		return checker.Op{Kind: checker.Send, Key: key, Status: status, Invoke: begin, Return: end}
	}
	for _, c := range []struct {
		name string
		op   checker.Op
		want string
	}{
		{"refused and nowhere", send("absent", checker.Refused, 19e9, 21e9), ""},
		{"unknown and nowhere", send("absent", checker.Unknown, 19e9, checker.Open), ""},
		{"unknown and stored", send("stored", checker.Unknown, 19e9, checker.Open), ""},
		{"acknowledged and stored", send("stored", checker.Done, 19e9, 21e9), ""},
		{"refused and stored", send("stored", checker.Refused, 19e9, 21e9), "refused and is stored"},
		{"acknowledged and nowhere", send("absent", checker.Done, 19e9, 21e9), "acknowledged and is not stored"},
		{"over before the fault", send("absent", checker.Done, 18e9, 19e9), moot},
		{"begun after it", send("absent", checker.Done, 21e9, 22e9), moot},
	} {
		r := seen(StandardSetup(), nil)
		r.Final = map[string][]checker.Entry{"broker-a/DrillTopic/0": {{Key: "stored"}}}
		r.Load = &Load{Ops: []checker.Op{c.op}}
		if got := check(r); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestBlackoutClausesFail: a group that waits says for whom, and the greatest log leads.
func TestBlackoutClausesFail(t *testing.T) {
	named, longest := clauseOf(t, "P-blackout-async", "the missing are named"), clauseOf(t, "P-blackout-async", "longest log of all leads")
	s := StandardSetup()
	in := func(e event.Event, at int64) event.Event {
		e.Group, e.At = GroupName(0), at
		return e
	}
	run := func(text string, leader ha.BrokerID) *Run {
		return seen(s, nil,
			in(event.Event{Kind: event.Started, Broker: 1, Epoch: 2, Off: 900}, 21e9), in(event.Event{Kind: event.BrokerRegistered, Broker: 1}, 22e9),
			in(event.Event{Kind: event.Started, Broker: 3, Epoch: 3, Off: 500}, 21e9), in(event.Event{Kind: event.BrokerRegistered, Broker: 3}, 22e9),
			in(event.Event{Kind: event.ElectionFailed, Text: text}, 30e9),
			in(event.Event{Kind: event.Started, Broker: 2, Epoch: 3, Off: 400}, 40e9), in(event.Event{Kind: event.BrokerRegistered, Broker: 2}, 41e9),
			in(event.Event{Kind: event.Elected, Broker: leader, Epoch: 4, Text: "all-back"}, 42e9), in(event.Event{Kind: event.Serving, Broker: leader, Epoch: 4}, 43e9))
	}
	for text, ok := range map[string]bool{
		"nobody of set {1 2 3} is electable; waiting for 2 (not heard from)": true,
		"nobody of set {1 2 3} is electable; waiting for 12":                 false,
		"nobody of set {1 2 3} is electable":                                 false,
	} {
		if got := named(run(text, 3)); (got == "") != ok {
			t.Errorf("%q: %q", text, got)
		}
	}
	for leader, ok := range map[ha.BrokerID]bool{1: false, 2: false, 3: true} {
		if got := longest(run("", leader)); (got == "") != ok {
			t.Errorf("broker %d leads: %q", leader, got)
		}
	}
}
