package namesrv

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/node"
	"lockstep/node/wire"
)

// tester is what tests, fuzz targets and rapid checks have in common.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// rig drives one name server by hand: facts in, effects out, invariants after
// every step, Settle twice to see that it is idempotent.
type rig struct {
	t      tester
	n      *NameServer
	now    node.Now
	opaque int32
	sent   map[node.SessionID][]wire.Frame
	closed []node.SessionID
	events []event.Event
	exit   *node.Exit
}

func newRig(t tester, change func(*Options)) *rig {
	o := DefaultOptions()
	o.NeedWaitForService = false
	if change != nil {
		change(&o)
	}
	n, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, n: n, now: node.Now{Mono: node.Time(time.Hour), Wall: 1_700_000_000_000}, sent: map[node.SessionID][]wire.Frame{}}
	r.settle()
	return r
}

func (r *rig) settle() {
	r.t.Helper()
	var fx, again node.Effects
	r.n.Settle(r.now, &fx)
	r.n.CheckInvariants()
	r.n.Settle(r.now, &again)
	if len(again.Sends)+len(again.Closes)+len(again.Events)+len(again.Dials)+len(again.Disk) != 0 || again.Exit != nil {
		r.t.Fatalf("the second Settle still has effects: %+v", again)
	}
	if d := r.n.Deadline(); d <= r.now.Mono {
		r.t.Fatalf("deadline %d is not after now %d", d, r.now.Mono)
	}
	for _, s := range fx.Sends {
		r.sent[s.To] = append(r.sent[s.To], s.Frame)
	}
	r.closed = append(r.closed, fx.Closes...)
	r.events = append(r.events, fx.Events...)
	if fx.Exit != nil {
		r.exit = fx.Exit
	}
}

// advance moves the clock as a host would: it settles at every deadline in between.
func (r *rig) advance(d time.Duration) {
	r.t.Helper()
	end := r.now.Mono.Add(d)
	for next := r.n.Deadline(); next <= end; next = r.n.Deadline() {
		r.now.Mono = next
		r.settle()
	}
	r.now.Mono = end
	r.settle()
}

// pause lets the clock run without the loop running.
func (r *rig) pause(d time.Duration) { r.now.Mono = r.now.Mono.Add(d) }

func (r *rig) up(s node.SessionID) {
	r.n.SessionUp(r.now, s, node.Peer{Link: wire.Remoting, Addr: fmt.Sprintf("10.9.9.%d:50000", s)})
	r.settle()
}

func (r *rig) down(s node.SessionID) {
	r.n.SessionDown(r.now, s, "reset")
	r.settle()
}

// call sends a request and returns the answer, which must exist.
func (r *rig) call(s node.SessionID, code int32, header any, body []byte) wire.Frame {
	r.t.Helper()
	r.opaque++
	f := wire.NewRequest(code, r.opaque, header, body)
	r.n.Receive(r.now, s, &f)
	r.settle()
	frames := r.sent[s]
	if len(frames) == 0 {
		r.t.Fatalf("code %d was not answered", code)
	}
	last := frames[len(frames)-1]
	if last.Head.Opaque != r.opaque || !last.Head.Response() {
		r.t.Fatalf("code %d: answer %+v is not to request %d", code, last.Head, r.opaque)
	}
	return last
}

// broker describes a registration.
type broker struct {
	group, cluster, addr string
	role                 int64
	epoch                int64
	store                string
	boot                 uint32
	timeout              int64
	acting               wire.Tristate
	topics               []string
	version              wire.DataVersion
	perm                 int32
}

func (b broker) request() (*wire.RegisterBrokerRequest, []byte) {
	if b.cluster == "" {
		b.cluster = "C"
	}
	if b.topics == nil {
		b.topics = []string{"T", "U"}
	}
	if b.perm == 0 {
		b.perm = 6
	}
	h := &wire.RegisterBrokerRequest{BrokerName: b.group, BrokerAddr: b.addr, ClusterName: b.cluster, HAServerAddr: strings.Replace(b.addr, ":10911", ":10912", 1),
		BrokerID: b.role, HeartbeatTimeoutMillis: b.timeout, EnableActingMaster: b.acting,
		Identity: wire.Identity{Store: ha.StoreID(b.store), Boot: ha.Boot(b.boot)}}
	v := b.version
	if v == (wire.DataVersion{}) {
		v = wire.DataVersion{Counter: 1, Timestamp: 1_700_000_000_000}
	}
	v.StateVersion = b.epoch
	body := wire.RegisterBrokerBody{Topics: wire.TopicConfigWrapper{DataVersion: v, TopicConfigTable: map[string]wire.TopicConfig{}}}
	for _, t := range b.topics {
		body.Topics.TopicConfigTable[t] = wire.TopicConfig{Perm: b.perm, ReadQueueNums: 4, WriteQueueNums: 4, TopicName: t, TopicFilterType: "SINGLE_TAG"}
	}
	return h, wire.MarshalBody(&body)
}

func (r *rig) register(s node.SessionID, b broker) wire.Frame {
	r.t.Helper()
	h, body := b.request()
	return r.call(s, wire.ReqRegisterBroker, h, body)
}

func (r *rig) mustRegister(s node.SessionID, b broker) {
	r.t.Helper()
	if f := r.register(s, b); f.Head.Code != 0 || f.Head.Remark != "" {
		r.t.Fatalf("registration of %+v: %d %q", b, f.Head.Code, f.Head.Remark)
	}
}

// route returns the addresses of group by role as "0=addr 1=addr", "" without one.
func (r *rig) route(topic, group string) string {
	r.t.Helper()
	probe := node.SessionID(9999)
	if r.n.sessions[probe] == nil {
		r.up(probe)
	}
	f := r.call(probe, wire.ReqGetRoute, &wire.RouteRequest{Topic: topic}, nil)
	if f.Head.Code != 0 {
		return ""
	}
	var d wire.RouteData
	if err := wire.UnmarshalBody(f.Body, &d); err != nil {
		r.t.Fatal(err)
	}
	for _, b := range d.BrokerDatas {
		if b.BrokerName != group {
			continue
		}
		var parts []string
		for role, addr := range b.BrokerAddrs {
			parts = append(parts, fmt.Sprintf("%d=%s", role, strings.TrimSuffix(addr, ":10911")))
		}
		slices.Sort(parts)
		return strings.Join(parts, " ")
	}
	return ""
}

func (r *rig) wantRoute(topic, group, want string) {
	r.t.Helper()
	if got := r.route(topic, group); got != want {
		r.t.Fatalf("route of %s at %s is %q, want %q", topic, group, got, want)
	}
}

// seen counts events of a kind.
func (r *rig) seen(k event.Kind) int {
	count := 0
	for _, e := range r.events {
		if e.Kind == k {
			count++
		}
	}
	return count
}

// digest prints everything the tables hold, for "nothing has changed".
func (n *NameServer) digest() string {
	var b strings.Builder
	for _, g := range n.groups.sorted() {
		fmt.Fprintf(&b, "%s/%s floor=%d acting=%v empty=%d", g.cluster, g.name, g.floor, g.acting, g.emptyUntil)
		for _, m := range g.members {
			fmt.Fprintf(&b, " %d=%s,%s,%+v,%d,%+v,%v,%d", m.role, m.addr, m.haAddr, m.claim, m.session, m.version, m.timeout, m.deadline)
		}
		for _, t := range g.topicNames() {
			fmt.Fprintf(&b, " %s=%+v", t, g.topics[t])
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%v %d %d", n.config.spaces, n.config.entries, len(n.sessions))
	return b.String()
}
