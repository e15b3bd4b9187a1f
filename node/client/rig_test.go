package client

import (
	"fmt"
	"time"

	"lockstep/internal/event"
	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
)

const (
	ns1   = "ns1:9876"
	ns2   = "ns2:9876"
	addrA = "a:10911" // master of group ga
	addrB = "b:10911" // master of group gb
	addrC = "c:10911" // a slave, or the next master of ga
)

// tester is what tests, fuzz targets and rapid checks have in common.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// rig drives one client by hand and plays its peers: it records what was sent to
// which address and lets the test answer.
type rig struct {
	t        tester
	c        *Client
	now      node.Now
	session  map[string]node.SessionID // live stream of an address
	addr     map[node.SessionID]string
	dials    []string        // every dial, in order
	refuse   map[string]bool // dials to these fail at once
	hang     map[string]bool // dials to these are never answered
	sent     []sentFrame     // not yet taken by the test
	beats    []sentFrame     // heartbeats
	closed   []string
	events   []event.Event
	outcomes []Outcome
	exit     *node.Exit

	// name servers answer by themselves unless silent or told otherwise
	routes map[string]wire.RouteData // of a topic; missing: code 17
	nsCode map[string]int32          // code of a name server for every question
	silent map[string]bool           // name servers that do not answer
	asked  []string                  // "address topic" of every question
}

type sentFrame struct {
	addr    string
	session node.SessionID
	wire.Frame
}

func newRig(t tester, change func(*Options)) *rig {
	o := DefaultOptions()
	o.ClientID, o.ProducerGroup, o.ConsumerGroup = "10.0.0.9@1", "pg", "cg"
	o.NamesrvAddrs = []string{ns1}
	o.SendMsgTimeout, o.SendMsgMaxTimeoutPerRequest = 3*time.Second, time.Second
	if change != nil {
		change(&o)
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return &rig{t: t, c: c, now: node.Now{Mono: node.Time(time.Hour), Wall: 1_700_000_000_000}, session: map[string]node.SessionID{},
		addr: map[node.SessionID]string{}, refuse: map[string]bool{}, hang: map[string]bool{},
		routes: map[string]wire.RouteData{}, nsCode: map[string]int32{}, silent: map[string]bool{}}
}

// routed is a route of one topic: "group=master" pairs, "" for a group without one,
// n queues each.
func routed(n int32, pairs ...string) wire.RouteData {
	var d wire.RouteData
	for i := 0; i < len(pairs); i += 2 {
		b := wire.BrokerData{BrokerName: pairs[i], Cluster: "C", BrokerAddrs: map[int64]string{1: addrC}}
		if pairs[i+1] != "" {
			b.BrokerAddrs[0] = pairs[i+1]
		}
		d.BrokerDatas = append(d.BrokerDatas, b)
		d.QueueDatas = append(d.QueueDatas, wire.QueueData{BrokerName: pairs[i], Perm: 6, ReadQueueNums: n, WriteQueueNums: n})
	}
	return d
}

// settle performs effects until nothing more happens at this instant.
func (r *rig) settle() {
	r.t.Helper()
	for range 1000 {
		var fx, again node.Effects
		r.c.Settle(r.now, &fx)
		r.c.CheckInvariants()
		r.c.Settle(r.now, &again)
		if len(again.Sends)+len(again.Closes)+len(again.Events)+len(again.Dials)+len(again.Disk) != 0 || again.Exit != nil {
			r.t.Fatalf("the second Settle still has effects: %+v", again)
		}
		if d := r.c.Deadline(); d <= r.now.Mono {
			r.t.Fatalf("deadline %d is not after now %d", d, r.now.Mono)
		}
		if !r.perform(&fx) {
			r.outcomes = append(r.outcomes, r.c.Take()...)
			return
		}
	}
	r.t.Fatal("the client does not come to rest")
}

// perform plays the host and the name servers; true when it told the client
// something.
func (r *rig) perform(fx *node.Effects) bool {
	told := false
	for _, s := range fx.Sends {
		addr, live := r.addr[s.To]
		if !live {
			continue
		}
		f := sentFrame{addr, s.To, s.Frame}
		switch {
		case addr == ns1 || addr == ns2:
			told = r.nameServer(f) || told
		case s.Frame.Head.Code == wire.ReqHeartbeat:
			r.beats = append(r.beats, f)
		default:
			r.sent = append(r.sent, f)
		}
	}
	for _, d := range fx.Dials {
		r.dials = append(r.dials, d.Addr)
		if d.Session&node.Dialled == 0 {
			r.t.Fatalf("dialled session %x lacks the bit", d.Session)
		}
		switch {
		case r.refuse[d.Addr]:
			r.c.SessionDown(r.now, d.Session, "connection refused")
			told = true
		case r.hang[d.Addr]:
		default:
			r.session[d.Addr], r.addr[d.Session] = d.Session, d.Addr
			r.c.SessionUp(r.now, d.Session, node.Peer{Addr: d.Addr})
			told = true
		}
	}
	for _, s := range fx.Closes {
		r.closed = append(r.closed, r.addr[s])
		delete(r.addr, s)
	}
	r.events = append(r.events, fx.Events...)
	if fx.Exit != nil {
		r.exit = fx.Exit
	}
	return told
}

func (r *rig) nameServer(f sentFrame) bool {
	topic, _ := f.Head.Ext.Get("topic")
	r.asked = append(r.asked, f.addr+" "+topic)
	if r.silent[f.addr] {
		return false
	}
	answer := wire.NewFailure(&f.Head, wire.CodeTopicNotExist, "No topic route info in name server for the topic: "+topic)
	d, known := r.routes[topic]
	switch {
	case r.nsCode[f.addr] != 0:
		answer = wire.NewFailure(&f.Head, r.nsCode[f.addr], "name server not ready")
	case f.Head.Code == wire.ReqGetClusterInfo:
		info := wire.ClusterInfo{BrokerAddrTable: map[string]wire.BrokerData{}, ClusterAddrTable: map[string][]string{}}
		for _, b := range r.routes["T"].BrokerDatas {
			info.BrokerAddrTable[b.BrokerName] = b
			info.ClusterAddrTable["C"] = append(info.ClusterAddrTable["C"], b.BrokerName)
		}
		answer = wire.NewResponse(&f.Head, 0, nil, wire.MarshalBody(&info))
	case known:
		answer = wire.NewResponse(&f.Head, 0, nil, wire.MarshalBody(&d))
	}
	r.c.Receive(r.now, f.session, &answer)
	return true
}

// advance moves the clock, settling at each deadline in between.
func (r *rig) advance(d time.Duration) {
	r.t.Helper()
	end := r.now.Mono.Add(d)
	for next := r.c.Deadline(); next <= end; next = r.c.Deadline() {
		r.now.Mono = max(next, r.now.Mono)
		r.settle()
	}
	r.now.Mono = end
	r.settle()
}

// down ends the stream to an address.
func (r *rig) down(addr string) {
	r.t.Helper()
	s := r.session[addr]
	delete(r.addr, s)
	r.c.SessionDown(r.now, s, "reset")
	r.settle()
}

// next takes the oldest frame sent to a broker that the test has not seen.
func (r *rig) next() sentFrame {
	r.t.Helper()
	if len(r.sent) == 0 {
		r.t.Fatalf("nothing was sent; outcomes %v", r.outcomes)
	}
	f := r.sent[0]
	r.sent = r.sent[1:]
	return f
}

func (r *rig) none() {
	r.t.Helper()
	if len(r.sent) > 0 {
		r.t.Fatalf("unexpected frame to %s: %+v", r.sent[0].addr, r.sent[0].Head)
	}
}

// answer replies to f on the stream it came by.
func (r *rig) answer(f sentFrame, code int32, remark string, header any, body []byte) {
	r.t.Helper()
	a := wire.NewResponse(&f.Head, code, header, body)
	a.Head.Remark = remark
	r.c.Receive(r.now, f.session, &a)
	r.settle()
}

// stored answers a send as stored at an offset of the queue it named.
func (r *rig) stored(f sentFrame, code int32, offset int64) {
	r.t.Helper()
	h, err := f.SendRequest()
	if err != nil {
		r.t.Fatal(err)
	}
	host, _ := storage.ParseHost("10.0.0.1:10911")
	r.answer(f, code, "", &wire.SendMessageResponse{MsgID: storage.MessageID(host, 4096), QueueID: h.QueueID, QueueOffset: offset, TransactionID: "x", Durability: wire.DurabilityReplicated}, nil)
}

func (r *rig) send(m Message) Ticket {
	r.t.Helper()
	if m.Topic == "" {
		m.Topic = "T"
	}
	if m.Body == nil {
		m.Body = []byte("hello")
	}
	t, err := r.c.Send(r.now, m)
	if err != nil {
		r.t.Fatal(err)
	}
	r.settle()
	return t
}

// outcome takes the one outcome there must be.
func (r *rig) outcome() Outcome {
	r.t.Helper()
	if len(r.outcomes) == 0 {
		r.t.Fatalf("no outcome; %d frames are unanswered", len(r.sent))
	}
	o := r.outcomes[0]
	r.outcomes = r.outcomes[1:]
	return o
}

func (r *rig) want(o Outcome, status Status, code int32, ends ...TryEnd) {
	r.t.Helper()
	var got []TryEnd
	for _, t := range o.Tries {
		got = append(got, t.End)
	}
	if o.Status != status || o.Code != code || fmt.Sprint(got) != fmt.Sprint(ends) {
		r.t.Fatalf("outcome %s, tries %v; want %s code %d, tries %v", &o, got, status, code, ends)
	}
}

// stillUnfinished fails when an outcome has come.
func (r *rig) stillUnfinished() {
	r.t.Helper()
	if len(r.outcomes) > 0 {
		r.t.Fatalf("early outcome %s", &r.outcomes[0])
	}
}

func (r *rig) seen(k event.Kind) int {
	n := 0
	for _, e := range r.events {
		if e.Kind == k {
			n++
		}
	}
	return n
}
