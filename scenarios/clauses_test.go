package scenarios

import (
	"strings"
	"testing"
	"time"

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
