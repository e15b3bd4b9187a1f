package client

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockstep/node"
	"lockstep/node/wire"
)

// TestMemoryIsBounded: what a client keeps does not grow with the operations it
// has done.
func TestMemoryIsBounded(t *testing.T) {
	r := one(t)
	for range 5000 {
		r.send(Message{})
		r.stored(r.next(), 0, 0)
		r.outcome()
		r.now.Mono = r.now.Mono.Add(10 * time.Microsecond) // all inside one try's budget
	}
	c := r.c
	if len(c.order) > 200 || len(c.wakes) > 200 || len(c.pending) != 0 || len(c.gate) != 0 || len(c.ops) != 0 {
		t.Fatalf("%d in order, %d wakes, %d pending, %d at the gate, %d known", len(c.order), len(c.wakes), len(c.pending), len(c.gate), len(c.ops))
	}
}

// TestSessionLimit: an address that would need one stream too many is not tried.
func TestSessionLimit(t *testing.T) {
	r := newRig(t, func(o *Options) { o.MaxSessions = 2 })
	r.routes["T"] = routed(1, "ga", addrA, "gb", addrB)
	r.send(Message{Broker: "ga"})
	r.stored(r.next(), 0, 0)
	r.outcome()
	r.send(Message{Broker: "gb"})
	r.advance(3 * time.Second)
	o := r.outcome()
	if o.Status != NotDone || !strings.Contains(o.Remark, "maxSessions") || len(r.dials) != 2 {
		t.Fatalf("outcome %s, dials %v", &o, r.dials)
	}
}

// TestReadsWithoutMaster go to the smallest slave, and back to the master.
func TestReadsWithoutMaster(t *testing.T) {
	r := newRig(t, nil)
	d := routed(1, "ga", "")
	d.BrokerDatas[0].BrokerAddrs = map[int64]string{3: addrA, 2: addrB}
	r.routes["T"] = d
	pull := func() {
		t.Helper()
		if _, err := r.c.Pull(r.now, PullRequest{Topic: "T", Broker: "ga"}); err != nil {
			t.Fatal(err)
		}
		r.settle()
	}
	pull()
	f := r.next()
	if f.addr != addrB {
		t.Fatalf("asked %s", f.addr)
	}
	// A slave that does not serve reads says so; the master is back by then.
	r.routes["T"] = routed(1, "ga", addrA)
	r.answer(f, wire.CodeSystemBusy, "slaveReadEnable=false", nil, nil)
	r.advance(200 * time.Millisecond)
	f = r.next()
	if f.addr != addrA {
		t.Fatalf("asked %s", f.addr)
	}
	r.answer(f, 19, "", pullAnswer(0, 0, 0), nil)
	r.want(r.outcome(), Done, 19, TryRefused, TryDone)
}

// TestConditionsAndGauges: what a host asks.
func TestConditionsAndGauges(t *testing.T) {
	r := newRig(t, nil)
	r.send(Message{})
	if c := r.c.Conditions()[0]; c.OK || !strings.Contains(c.Detail, "T") {
		t.Fatalf("condition %+v", c)
	}
	r.routes["T"] = routed(1, "ga", addrA)
	r.advance(3 * time.Second)
	r.send(Message{})
	r.stored(r.next(), 0, 0)
	if c := r.c.Conditions()[0]; !c.OK {
		t.Fatalf("condition %+v", c)
	}
	got := map[string]float64{}
	r.c.Gauges(func(name string, v float64) { got[name] = v })
	if got["client_done_total"] != 1 || got["client_not_done_total"] != 1 || got["client_sessions"] != 2 {
		t.Fatalf("gauges %v", got)
	}
	if r.c.Listeners() != nil {
		t.Fatal("a client listens")
	}
}

// TestSameSeedSameRun: two clients with the same options and facts do the same.
func TestSameSeedSameRun(t *testing.T) {
	run := func(seed uint64) string {
		r := newRig(t, func(o *Options) { o.Seed, o.NamesrvAddrs = seed, []string{ns1, ns2} })
		r.routes["T"] = routed(3, "ga", addrA, "gb", addrB)
		for i := range 6 {
			r.send(Message{})
			f := r.next()
			if i%2 == 0 {
				r.answer(f, 14, "no", nil, nil)
				r.advance(100 * time.Millisecond)
			}
			for len(r.sent) > 0 {
				r.stored(r.next(), 0, int64(i))
			}
		}
		return fmt.Sprint(r.asked, r.dials, r.events, r.outcomes, r.c.Deadline())
	}
	if run(1) != run(1) {
		t.Fatal("the same seed gave another run")
	}
	if run(1) == run(2) {
		t.Fatal("another seed gave the same run: nothing is spread")
	}
}

// BenchmarkSend is one send and its answer, 64 in flight.
func BenchmarkSend(b *testing.B) {
	o := DefaultOptions()
	o.NamesrvAddrs, o.ProducerGroup = []string{ns1}, "pg"
	c, err := New(o)
	if err != nil {
		b.Fatal(err)
	}
	now := node.Now{Mono: 1}
	var fx node.Effects
	d := routed(4, "ga", addrA)
	var flying []wire.Frame
	turn := func() {
		c.Settle(now, &fx)
		for _, x := range fx.Dials {
			c.SessionUp(now, x.Session, node.Peer{})
		}
		for i := range fx.Sends {
			f := fx.Sends[i].Frame
			switch f.Head.Code {
			case wire.ReqGetRoute:
				a := wire.NewResponse(&f.Head, 0, nil, wire.MarshalBody(&d))
				c.Receive(now, fx.Sends[i].To, &a)
			case wire.ReqSendMessageV2:
				f.Head.Remark = fmt.Sprint(uint64(fx.Sends[i].To))
				flying = append(flying, f)
			}
		}
		fx.Reset()
	}
	s := node.Dialled | 2
	body := make([]byte, 1024)
	ok := &wire.SendMessageResponse{MsgID: "0A00000100002A9F0000000000001000"}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Send(now, Message{Topic: "T", Body: body, Key: "k"}); err != nil {
			b.Fatal(err)
		}
		turn()
		if len(flying) < 64 {
			continue
		}
		for i := range flying {
			a := wire.NewResponse(&flying[i].Head, 0, ok, nil)
			c.Receive(now, s, &a)
		}
		flying = flying[:0]
		now.Mono += 1_000_000
		turn()
		if len(c.Take()) == 0 {
			b.Fatal("no outcomes")
		}
	}
}

// TestIdleStreamEnds: a broker that closes an idle stream is not held to have
// failed; the next send dials at once.
func TestIdleStreamEnds(t *testing.T) {
	r := one(t)
	r.send(Message{})
	r.stored(r.next(), 0, 0)
	r.outcome()
	r.down(addrA)
	r.send(Message{})
	r.stored(r.next(), 0, 1)
	o := r.outcome()
	r.want(o, Done, 0, TryDone)
	if o.Finished != o.Started {
		t.Fatalf("took %v", o.Finished.Sub(o.Started))
	}
}
