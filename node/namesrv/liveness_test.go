package namesrv

import (
	"strings"
	"testing"
	"time"

	"lockstep/internal/event"
	"lockstep/node"
	"lockstep/node/wire"
)

// TestExpiry: a silent broker goes exactly at its own time-out, its stream is
// closed, and a frame that was under way on it changes nothing.
func TestExpiry(t *testing.T) {
	r := newRig(t, nil)
	r.up(1)
	r.up(2)
	r.mustRegister(1, broker{group: "g", addr: addrX, role: 0, timeout: 10_000})
	r.mustRegister(2, broker{group: "g", addr: addrY, role: 1})
	r.advance(10*time.Second - time.Nanosecond)
	r.wantRoute("T", "g", "0=10.0.0.1 1=10.0.0.2")
	r.advance(time.Nanosecond)
	r.wantRoute("T", "g", "1=10.0.0.2")
	if len(r.closed) != 1 || r.closed[0] != 1 || r.seen(event.BrokerExpired) != 1 {
		t.Fatalf("closed %v, events %v", r.closed, r.events)
	}
	h, body := broker{group: "g", addr: addrX, role: 0, timeout: 10_000}.request()
	f := wire.NewRequest(wire.ReqRegisterBroker, 5, h, body)
	r.n.Receive(r.now, 1, &f)
	r.settle()
	r.wantRoute("T", "g", "1=10.0.0.2")
	// Without a time-out of its own: BrokerExpiry.
	r.advance(110 * time.Second)
	r.wantRoute("T", "g", "")
	if r.seen(event.BrokerExpired) != 2 {
		t.Fatalf("events %v", r.events)
	}
}

// TestHeartbeatsRenew: each sign of life moves the deadline; the machine wakes
// about once a time-out, not once a heartbeat.
func TestHeartbeatsRenew(t *testing.T) {
	r := newRig(t, nil)
	r.up(1)
	r.mustRegister(1, broker{group: "g", addr: addrX, role: 0, timeout: 10_000})
	wakes := 0
	for range 60 {
		if r.n.Deadline() <= r.now.Mono.Add(time.Second) {
			wakes++
		}
		r.advance(time.Second)
		r.call(1, wire.ReqBrokerHeartbeat, &wire.BrokerHeartbeat{ClusterName: "C", BrokerAddr: addrX, BrokerName: "g", BrokerID: 7}, nil)
	}
	r.wantRoute("T", "g", "0=10.0.0.1")
	if wakes > 8 {
		t.Errorf("%d wakes in 60 s", wakes)
	}
	// A heartbeat may change the time-out; one-way heartbeats are not answered.
	n := len(r.sent[1])
	f := wire.NewRequest(wire.ReqBrokerHeartbeat, 900, &wire.BrokerHeartbeat{ClusterName: "C", BrokerAddr: addrX, BrokerName: "g", HeartbeatTimeoutMillis: 2000}, nil)
	f.Head.Flag = wire.FlagOneway
	r.n.Receive(r.now, 1, &f)
	r.settle()
	if len(r.sent[1]) != n {
		t.Fatal("a one-way request was answered")
	}
	r.advance(2 * time.Second)
	r.wantRoute("T", "g", "")
}

// TestUnknownHeartbeat: a broker that the name server does not know is told so.
func TestUnknownHeartbeat(t *testing.T) {
	r := newRig(t, nil)
	r.up(1)
	f := r.call(1, wire.ReqBrokerHeartbeat, &wire.BrokerHeartbeat{ClusterName: "C", BrokerAddr: addrX, BrokerName: "g"}, nil)
	if f.Head.Code != 0 || f.Head.Remark != "not registered" {
		t.Fatalf("answer %+v", f.Head)
	}
	f = r.call(1, wire.ReqQueryDataVersion, &wire.DataVersionRequest{BrokerName: "g", BrokerAddr: addrX, ClusterName: "C"}, wire.MarshalBody(&wire.DataVersion{}))
	if v, _ := f.Head.Ext.Get("changed"); v != "true" || len(f.Body) != 0 {
		t.Fatalf("changed %q body %s", v, f.Body)
	}
}

// TestSharedStreamStays: the expiry of one broker does not close a stream that
// another one lives on.
func TestSharedStreamStays(t *testing.T) {
	r := newRig(t, nil)
	r.up(1)
	r.mustRegister(1, broker{group: "g", addr: addrX, timeout: 1000})
	r.mustRegister(1, broker{group: "h", addr: addrX, timeout: 5000})
	r.advance(time.Second)
	r.wantRoute("T", "g", "")
	r.wantRoute("T", "h", "0=10.0.0.1")
	if len(r.closed) != 0 {
		t.Fatalf("closed %v", r.closed)
	}
}

// TestOwnStallIsForgiven: after a pause of this process nobody expires for the
// time in which nobody could be heard.
func TestOwnStallIsForgiven(t *testing.T) {
	r := newRig(t, nil)
	r.up(1)
	r.mustRegister(1, broker{group: "g", addr: addrX, timeout: 10_000})
	r.advance(4 * time.Second)
	r.pause(time.Minute)
	r.settle()
	r.wantRoute("T", "g", "0=10.0.0.1")
	// The rest of its time still counts, and so does silence from here on.
	r.advance(10 * time.Second)
	r.wantRoute("T", "g", "")
}

// TestNotReady: within the warm-up an unknown topic is "not ready", afterwards
// "no such topic"; a known one is answered at once.
func TestNotReady(t *testing.T) {
	r := newRig(t, func(o *Options) { o.NeedWaitForService, o.WaitSecondsForService = true, 20*time.Second })
	r.up(1)
	ask := func(topic string) wire.Frame {
		return r.call(1, wire.ReqGetRoute, &wire.RouteRequest{Topic: topic}, nil)
	}
	ready := func() bool { return r.n.Conditions()[0].OK }
	if f := ask("nope"); f.Head.Code != wire.CodeSystemError || f.Head.Remark != "name server not ready" || ready() {
		t.Fatalf("answer %+v, ready %v", f.Head, ready())
	}
	r.mustRegister(1, broker{group: "g", addr: addrX})
	if f := ask("T"); f.Head.Code != 0 {
		t.Fatalf("answer %+v", f.Head)
	}
	r.advance(20*time.Second - 1)
	if f := ask("nope"); f.Head.Code != wire.CodeSystemError {
		t.Fatalf("answer %+v", f.Head)
	}
	r.advance(1)
	f := ask("nope")
	if f.Head.Code != wire.CodeTopicNotExist || !strings.HasPrefix(f.Head.Remark, "No topic route info in name server for the topic: nope") || !ready() {
		t.Fatalf("answer %+v, ready %v", f.Head, ready())
	}
}

// TestDeadlines: nothing to do means no wake at all.
func TestDeadlines(t *testing.T) {
	r := newRig(t, nil)
	if d := r.n.Deadline(); d != node.Never {
		t.Fatalf("an idle name server wakes at %d", d)
	}
	r.up(1)
	r.mustRegister(1, broker{group: "g", addr: addrX})
	r.down(1)
	r.advance(r.n.opt.BrokerExpiry)
	if d := r.n.Deadline(); d != node.Never || len(r.n.groups.names) != 0 {
		t.Fatalf("deadline %d, groups %v", d, r.n.groups.names)
	}
}

func TestStop(t *testing.T) {
	r := newRig(t, nil)
	r.n.Stop(r.now)
	r.settle()
	if r.exit == nil || r.exit.Code != node.ExitClean {
		t.Fatalf("exit %+v", r.exit)
	}
}

func TestOptions(t *testing.T) {
	for _, tc := range []struct {
		change func(*Options)
		want   string
	}{
		{func(o *Options) { o.ListenAddr = "nowhere" }, "listenAddr"},
		{func(o *Options) { o.ListenAddr = ":9876" }, "listenAddr"},
		{func(o *Options) { o.WaitSecondsForService = -1 }, "waitSecondsForService"},
		{func(o *Options) { o.BrokerExpiry = time.Millisecond }, "brokerExpiryMillis"},
		{func(o *Options) { o.MaxSessions = -1 }, "maxSessions"},
		{func(o *Options) { o.MaxTopics = 1 << 30 }, "maxTopics"},
	} {
		o := DefaultOptions()
		tc.change(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("error %v, want %q", err, tc.want)
		}
	}
	if err := (Options{}).Validate(); err != nil {
		t.Errorf("zero options: %v", err)
	}
}
