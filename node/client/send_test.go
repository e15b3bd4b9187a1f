package client

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockstep/internal/event"
	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
)

// one is a rig whose topic T has four queues at one group; two has a second group.
func one(t *testing.T) *rig {
	r := newRig(t, nil)
	r.routes["T"] = routed(4, "ga", addrA)
	return r
}

func two(t *testing.T) *rig {
	r := newRig(t, nil)
	r.routes["T"] = routed(2, "ga", addrA, "gb", addrB)
	return r
}

// TestSendDone: a plain send, and everything its outcome carries.
func TestSendDone(t *testing.T) {
	r := one(t)
	ticket := r.send(Message{Key: "order-7", Tag: "red", Properties: []Property{{"color", "blue"}}})
	f := r.next()
	h, err := f.SendRequest()
	if err != nil {
		t.Fatal(err)
	}
	if f.addr != addrA || f.Head.Code != wire.ReqSendMessageV2 || h.ProducerGroup != "pg" || h.Topic != "T" || h.BrokerName != "ga" || h.BornTimestamp != r.now.Wall ||
		h.DefaultTopic != "TBW102" || h.Properties != "KEYS\x01order-7\x02UNIQ_KEY\x01order-7\x02TAGS\x01red\x02WAIT\x01true\x02color\x01blue\x02" {
		t.Fatalf("frame to %s: %+v", f.addr, h)
	}
	if !f.Head.Sealed {
		t.Error("the frame is not sealed")
	}
	r.advance(30 * time.Millisecond)
	r.stored(f, 0, 12)
	o := r.outcome()
	r.want(o, Done, 0, TryDone)
	if o.Ticket != ticket || o.Op != OpSend || o.Key != "order-7" || o.Offset != 12 || o.Queue != h.QueueID || o.Broker != "ga" || o.Log != 4096 ||
		o.MsgID == "" || o.Durability != "replicated" || o.Finished.Sub(o.Started) != 30*time.Millisecond || o.UnknownTries() != 0 {
		t.Fatalf("outcome %+v", o)
	}
	r.none()
}

// TestAnswers is the table of every answer to a send: what it means, and whether
// the client goes on to the other group (wire contracts 3.2 and 3.3).
func TestAnswers(t *testing.T) {
	for _, tc := range []struct {
		code   int32
		remark string
		end    TryEnd
		retry  bool
	}{
		{0, "", TryDone, false},
		{10, "", TryUnproven, false},
		{11, "", TryUnproven, false},
		{12, "", TryUnproven, false},
		{1, "in-sync replicas not enough", TryRefused, true},
		{1, "store putMessage return UNKNOWN_ERROR", TryDoubtful, true},
		{2, "[TIMEOUT_CLEAN_QUEUE]broker busy", TryRefused, true},
		{14, "service not available now", TryRefused, true},
		{16, "the broker sending message is forbidden", TryRefused, true},
		{17, "topic not exist", TryRefused, true},
		{204, "", TryRefused, true},
		{205, "", TryRefused, true},
		{1500, "", TryRefused, true},
		{3, " request type 310 not supported", TryRefused, false},
		{13, "the message is illegal", TryRefused, false},
		{26, "subscription group not exist", TryRefused, false},
		{29, "request queueId is illegal", TryRefused, false},
		{215, "", TryRefused, false},
		{501, "", TryRefused, false},
		{604, "", TryDoubtful, false},
		{-7, "", TryDoubtful, false},
	} {
		t.Run(fmt.Sprintf("%d %s", tc.code, tc.remark), func(t *testing.T) {
			r := two(t)
			r.send(Message{})
			f := r.next()
			switch tc.end {
			case TryDone, TryUnproven:
				r.stored(f, tc.code, 5)
			default:
				r.answer(f, tc.code, tc.remark, nil, nil)
			}
			if !tc.retry {
				o := r.outcome()
				want := map[TryEnd]Status{TryDone: Done, TryUnproven: Unknown, TryRefused: NotDone, TryDoubtful: Unknown}[tc.end]
				r.want(o, want, tc.code, tc.end)
				if stored := tc.end == TryDone || tc.end == TryUnproven; stored != (o.Offset == 5) || stored != (o.Log >= 0) {
					t.Fatalf("outcome %+v: a place exactly when it was stored", o)
				}
				r.none()
				return
			}
			r.stillUnfinished()
			again := r.next()
			if again.addr == f.addr {
				t.Fatalf("the retry went to %s again although another group is there", f.addr)
			}
			r.stored(again, 0, 9)
			o := r.outcome()
			r.want(o, Done, 0, tc.end, TryDone)
			if want := map[bool]int{true: 1, false: 0}[tc.end == TryDoubtful]; o.UnknownTries() != want {
				t.Fatalf("%d unknown tries, want %d", o.UnknownTries(), want)
			}
			if r.seen(event.ClientRetry) != 1 {
				t.Fatalf("events %v", r.events)
			}
		})
	}
}

// TestRefusedEverywhere: definite refusals only, so that the send is not done; it
// stops at the limit of tries.
func TestRefusedEverywhere(t *testing.T) {
	r := two(t)
	r.send(Message{})
	var ends []TryEnd
	for range 3 {
		for len(r.sent) == 0 {
			r.advance(10 * time.Millisecond)
		}
		r.answer(r.next(), 1, "in-sync replicas not enough", nil, nil)
		ends = append(ends, TryRefused)
	}
	r.want(r.outcome(), NotDone, 1, ends...)
	r.none()
}

// TestSilence: a try without an answer is unknown; the client moves on to another
// group, and the outcome follows from both.
func TestSilence(t *testing.T) {
	type step struct {
		code   int32
		remark string
	}
	for _, tc := range []struct {
		name   string
		second *step // answer of the second try; nil: silent too
		status Status
		code   int32
		ends   []TryEnd
	}{
		{"then done", &step{0, ""}, Done, 0, []TryEnd{TrySilent, TryDone}},
		{"then unproven", &step{12, ""}, Unknown, 12, []TryEnd{TrySilent, TryUnproven}},
		{"then refused for good", &step{13, "illegal"}, Unknown, NoCode, []TryEnd{TrySilent, TryRefused}},
		{"then silent", nil, Unknown, NoCode, []TryEnd{TrySilent, TrySilent}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := two(t)
			r.send(Message{})
			first := r.next()
			r.advance(time.Second - time.Nanosecond)
			r.none()
			r.advance(time.Nanosecond)
			second := r.next()
			if second.addr == first.addr {
				t.Fatal("the second try went to the silent broker")
			}
			r.stillUnfinished()
			switch {
			case tc.second == nil:
				r.advance(2*time.Second - time.Nanosecond)
				r.stillUnfinished()
				r.advance(time.Nanosecond)
			case tc.second.code == 0 || tc.second.code == 12:
				r.stored(second, tc.second.code, 1)
			default:
				r.answer(second, tc.second.code, tc.second.remark, nil, nil)
			}
			o := r.outcome()
			r.want(o, tc.status, tc.code, tc.ends...)
			if o.UnknownTries() == 0 {
				t.Fatal("the silent try is not counted as a possible copy")
			}
			// An answer after the end changes nothing.
			r.stored(first, 0, 77)
			if len(r.outcomes) != 0 {
				t.Fatalf("a second outcome: %v", r.outcomes)
			}
		})
	}
}

// TestLateAnswer: the answer to a try that was given up still decides, as long as
// the send has not ended.
func TestLateAnswer(t *testing.T) {
	for _, tc := range []struct {
		code   int32
		status Status
	}{{0, Done}, {12, Unknown}} {
		r := two(t)
		r.send(Message{})
		first := r.next()
		r.advance(1500 * time.Millisecond)
		r.next() // the second try, in flight
		r.stored(first, tc.code, 40)
		o := r.outcome()
		ends := []TryEnd{TryDone, TrySilent}
		if tc.code != 0 {
			ends[0] = TryUnproven
		}
		r.want(o, tc.status, tc.code, ends...)
		if o.Offset != 40 || o.Broker != o.Tries[0].Broker {
			t.Fatalf("outcome %+v", o)
		}
	}
	// A late refusal makes a silent try a refused one.
	r := two(t)
	r.send(Message{})
	first := r.next()
	r.advance(1500 * time.Millisecond)
	second := r.next()
	r.answer(first, 14, "service not available now", nil, nil)
	r.stillUnfinished()
	r.answer(second, 13, "illegal", nil, nil)
	r.want(r.outcome(), NotDone, 13, TryRefused, TryRefused)
}

// TestNoSecondCopyToADebtor: with one group, a broker that owes an answer is not
// sent the message again; a new master of the group is.
func TestNoSecondCopyToADebtor(t *testing.T) {
	r := one(t)
	r.send(Message{})
	r.next()
	r.advance(1200 * time.Millisecond)
	r.none()
	r.routes["T"] = routed(4, "ga", addrC)
	r.advance(1000 * time.Millisecond)
	f := r.next()
	if f.addr != addrC {
		t.Fatalf("the second try went to %s", f.addr)
	}
	r.stored(f, 0, 3)
	r.want(r.outcome(), Done, 0, TrySilent, TryDone)
	if r.seen(event.RouteLearned) != 2 {
		t.Fatalf("events %v", r.events)
	}
}

// TestSessionLost: after the frame was handed over, the end of the session leaves
// the try unknown; the one broker may then be tried again.
func TestSessionLost(t *testing.T) {
	r := one(t)
	r.send(Message{})
	r.next()
	r.down(addrA)
	r.stillUnfinished()
	r.advance(200 * time.Millisecond)
	r.stored(r.next(), 0, 8)
	r.want(r.outcome(), Done, 0, TrySilent, TryDone)
	// Lost for good: unknown, whatever the other tries were.
	r.send(Message{})
	r.next()
	r.refuse[addrA] = true
	r.down(addrA)
	r.advance(3 * time.Second)
	o := r.outcome()
	if o.Status != Unknown || o.Tries[0].End != TrySilent || len(o.Tries) < 3 || o.Tries[1].End != TryNeverSent || o.UnknownTries() != 1 {
		t.Fatalf("outcome %s, tries %+v", &o, o.Tries)
	}
}

// TestNeverSent: no stream ever took the frame, so the send is not done, by
// refused dials, dials that hang, and without a route.
func TestNeverSent(t *testing.T) {
	for _, tc := range []struct {
		name string
		prep func(*rig)
		code int32
		text string
	}{
		{"dials refused", func(r *rig) { r.refuse[addrA] = true }, NoCode, "connection refused"},
		{"dials hang", func(r *rig) { r.hang[addrA] = true }, NoCode, "time-out"},
		{"name server refuses dials", func(r *rig) { r.refuse[ns1] = true }, NoCode, "no connection to " + ns1},
		{"name server hangs", func(r *rig) { r.hang[ns1] = true }, NoCode, ns1},
		{"name server silent", func(r *rig) { r.silent[ns1] = true }, NoCode, "no answer from " + ns1},
		{"name server not ready", func(r *rig) { r.nsCode[ns1] = 1 }, 1, "name server not ready"},
		{"no master", func(r *rig) { r.routes["T"] = routed(4, "ga", "") }, NoCode, "master"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := one(t)
			tc.prep(r)
			r.send(Message{})
			r.advance(3*time.Second - time.Nanosecond)
			r.stillUnfinished()
			r.advance(time.Nanosecond)
			o := r.outcome()
			if o.Status != NotDone || o.Code != tc.code || !strings.Contains(o.Remark, tc.text) || o.UnknownTries() != 0 {
				t.Fatalf("outcome %s, want code %d and %q", &o, tc.code, tc.text)
			}
			for _, try := range o.Tries {
				if try.End != TryNeverSent {
					t.Fatalf("try %+v", try)
				}
			}
			r.none()
			if len(r.dials) > 60 {
				t.Fatalf("%d dials in 3 s: no back-off", len(r.dials))
			}
			// It comes back by itself.
			clear(r.refuse)
			clear(r.hang)
			clear(r.silent)
			clear(r.nsCode)
			r.routes["T"] = routed(4, "ga", addrA)
			r.send(Message{})
			r.advance(2900 * time.Millisecond)
			r.stored(r.next(), 0, 1)
			if o := r.outcome(); o.Status != Done {
				t.Fatalf("after recovery: %s", &o)
			}
		})
	}
}

// TestNoSuchTopic: all name servers agree, so that the send ends at once.
func TestNoSuchTopic(t *testing.T) {
	r := newRig(t, func(o *Options) { o.NamesrvAddrs = []string{ns1, ns2} })
	r.send(Message{})
	o := r.outcome()
	if o.Status != NotDone || o.Code != wire.CodeTopicNotExist || o.Finished != o.Started || !strings.Contains(o.Remark, "no such topic") {
		t.Fatalf("outcome %s", &o)
	}
	if fmt.Sprint(r.asked) != fmt.Sprintf("[%s T %s T]", r.asked[0][:len(ns1)], r.asked[1][:len(ns2)]) || r.asked[0] == r.asked[1] {
		t.Fatalf("asked %v", r.asked)
	}
	// One of them cannot be asked: it may know the topic, so the send waits.
	r.down(ns2)
	r.refuse[ns2] = true
	r.advance(time.Second)
	r.send(Message{})
	r.advance(2 * time.Second)
	r.stillUnfinished()
	r.routes["T"] = routed(1, "ga", addrA)
	r.advance(time.Second - 1)
	r.stored(r.next(), 0, 0)
	r.want(r.outcome(), Done, 0, TryDone)
}

// TestDeadNameServer: a half-open name server costs one question's budget, not the
// send's, and is not asked first the next time.
func TestDeadNameServer(t *testing.T) {
	r := newRig(t, func(o *Options) { o.NamesrvAddrs = []string{ns1, ns2} })
	r.routes["T"] = routed(1, "ga", addrA)
	r.routes["U"] = routed(1, "ga", addrA)
	r.silent[ns1], r.silent[ns2] = true, true
	r.send(Message{})
	dead := strings.Fields(r.asked[0])[0]
	r.silent[ns1], r.silent[ns2] = dead == ns1, dead == ns2
	r.advance(r.c.opt.RouteTimeout)
	r.stored(r.next(), 0, 0)
	r.want(r.outcome(), Done, 0, TryDone)
	if len(r.closed) != 1 || r.closed[0] != dead {
		t.Fatalf("closed %v, want the half-open stream to %s", r.closed, dead)
	}
	n := len(r.asked)
	r.send(Message{Topic: "U"})
	if len(r.asked) != n+1 || strings.HasPrefix(r.asked[n], dead) {
		t.Fatalf("asked %v although %s is dead", r.asked[n:], dead)
	}
}

// TestOldRouteOutlivesEmptyNameServers: clients go on when the name servers come
// back empty (drill A13).
func TestOldRouteOutlivesEmptyNameServers(t *testing.T) {
	r := one(t)
	r.send(Message{})
	r.stored(r.next(), 0, 0)
	r.outcome()
	delete(r.routes, "T")
	r.advance(40 * time.Second)
	if len(r.asked) < 2 {
		t.Fatalf("asked %v: the route was not refreshed", r.asked)
	}
	r.send(Message{})
	r.stored(r.next(), 0, 1)
	r.want(r.outcome(), Done, 0, TryDone)
}

// TestBackoffAndAvoidance: after a time-out the other group takes all sends until
// the avoidance ends; a refusal alone only pauses.
func TestBackoffAndAvoidance(t *testing.T) {
	r := two(t)
	r.send(Message{})
	bad := r.next().addr
	r.advance(time.Second)
	for range 6 {
		for len(r.sent) > 0 {
			f := r.next()
			if f.addr == bad {
				t.Fatalf("sent to %s while it is avoided", bad)
			}
			r.stored(f, 0, 1)
		}
		r.send(Message{})
	}
	r.stored(r.next(), 0, 1)
	r.advance(r.c.opt.AvoidanceTime)
	seen := map[string]bool{}
	for range 4 {
		r.send(Message{})
		f := r.next()
		seen[f.addr] = true
		r.stored(f, 0, 1)
	}
	if !seen[addrA] || !seen[addrB] {
		t.Fatalf("after the avoidance sends go to %v", seen)
	}
}

// TestRoundRobin: sends spread over all queues of all groups.
func TestRoundRobin(t *testing.T) {
	r := two(t)
	count := map[string]int{}
	for range 8 {
		r.send(Message{})
		f := r.next()
		h, _ := f.SendRequest()
		count[fmt.Sprintf("%s/%d", h.BrokerName, h.QueueID)]++
		r.stored(f, 0, 0)
	}
	if len(count) != 4 || count["ga/0"] != 2 || count["gb/1"] != 2 {
		t.Fatalf("spread %v", count)
	}
	if len(r.dials) != 3 {
		t.Fatalf("dials %v: one stream an address", r.dials)
	}
}

// TestFixedQueue: the caller's queue is kept through retries, and one that does
// not exist ends at once.
func TestFixedQueue(t *testing.T) {
	r := two(t)
	r.send(Message{Broker: "gb", Queue: 1})
	f := r.next()
	r.answer(f, 14, "service not available now", nil, nil)
	r.advance(200 * time.Millisecond)
	again := r.next()
	if h, _ := again.SendRequest(); again.addr != addrB || h.QueueID != 1 || h.BrokerName != "gb" {
		t.Fatalf("retry to %s %+v", again.addr, h)
	}
	r.stored(again, 0, 0)
	r.want(r.outcome(), Done, 0, TryRefused, TryDone)
	r.send(Message{Broker: "gb", Queue: 9})
	if o := r.outcome(); o.Status != NotDone || !strings.Contains(o.Remark, "no such queue") {
		t.Fatalf("outcome %s", &o)
	}
}

// TestCreateTopicIfAbsent: the template's route stands in for a missing topic.
func TestCreateTopicIfAbsent(t *testing.T) {
	r := newRig(t, func(o *Options) { o.CreateTopicIfAbsent = true })
	r.routes["TBW102"] = routed(8, "ga", addrA)
	seen := map[int32]bool{}
	for range 12 {
		r.send(Message{Topic: "new"})
		f := r.next()
		h, _ := f.SendRequest()
		if h.Topic != "new" || h.DefaultTopic != "TBW102" || h.DefaultTopicQueueNums != 4 {
			t.Fatalf("frame %+v", h)
		}
		seen[h.QueueID] = true
		r.stored(f, 0, 0)
		r.outcome()
		r.advance(3 * time.Second)
	}
	if len(seen) != 4 {
		t.Fatalf("queues %v, want the 4 that the topic will have", seen)
	}
	// Without a template the send fails locally.
	r = newRig(t, func(o *Options) { o.CreateTopicIfAbsent = true })
	r.send(Message{Topic: "new"})
	if o := r.outcome(); o.Status != NotDone || o.Code != wire.CodeTopicNotExist || !strings.Contains(o.Remark, "TBW102") {
		t.Fatalf("outcome %s", &o)
	}
}

// TestGoAway: the stream is closed and the send goes elsewhere.
func TestGoAway(t *testing.T) {
	r := two(t)
	r.send(Message{})
	f := r.next()
	r.answer(f, wire.CodeGoAway, "bye", nil, nil)
	if len(r.closed) != 1 || r.closed[0] != f.addr {
		t.Fatalf("closed %v", r.closed)
	}
	r.stored(r.next(), 0, 0)
	r.want(r.outcome(), Done, 0, TryRefused, TryDone)
}

// TestHalfOpenBroker: a stream on which nothing comes back for SessionSilence is
// closed, so that the next try dials.
func TestHalfOpenBroker(t *testing.T) {
	r := one(t)
	for range 4 {
		r.send(Message{})
		r.advance(2 * time.Second)
	}
	if len(r.closed) != 1 || r.closed[0] != addrA {
		t.Fatalf("closed %v", r.closed)
	}
	r.advance(3 * time.Second)
	for _, o := range r.outcomes {
		if o.Status != Unknown {
			t.Fatalf("outcome %s", &o)
		}
	}
}

// TestLimits: what is refused before it begins, and the gate.
func TestLimits(t *testing.T) {
	r := newRig(t, func(o *Options) { o.MaxQueued, o.MaxInFlight, o.MaxMessageSize = 4, 2, 10 })
	r.routes["T"] = routed(4, "ga", addrA)
	for range 4 {
		r.send(Message{})
	}
	if len(r.sent) != 2 {
		t.Fatalf("%d in flight, maxInFlight is 2", len(r.sent))
	}
	if _, err := r.c.Send(r.now, Message{Topic: "T", Body: []byte("x")}); err == nil || !strings.Contains(err.Error(), "maxQueued") {
		t.Fatalf("error %v", err)
	}
	var order []Ticket
	for range 4 {
		r.stored(r.next(), 0, 0)
		order = append(order, r.outcome().Ticket)
	}
	if fmt.Sprint(order) != "[1 2 3 4]" {
		t.Fatalf("order %v", order)
	}
	for _, tc := range []struct {
		m    Message
		want string
	}{
		{Message{Topic: "", Body: []byte("x")}, "topic name"},
		{Message{Topic: "a.b", Body: []byte("x")}, "topic name"},
		{Message{Topic: strings.Repeat("t", 128), Body: []byte("x")}, "topic name"},
		{Message{Topic: "T"}, "empty"},
		{Message{Topic: "T", Body: make([]byte, 11)}, "maxMessageSize"},
		{Message{Topic: "T", Body: []byte("x"), Key: "a b"}, "blanks"},
		{Message{Topic: "T", Body: []byte("x"), Key: "a\x01b"}, "property"},
		{Message{Topic: "T", Body: []byte("x"), Tag: "\x02"}, "property"},
		{Message{Topic: "T", Body: []byte("x"), Properties: []Property{{"UNIQ_KEY", "k"}}}, "reserved"},
		{Message{Topic: "T", Body: []byte("x"), Properties: []Property{{"p", strings.Repeat("v", 40000)}}}, "32767"},
		{Message{Topic: "T", Body: []byte("x"), Broker: "ga", Queue: -1}, "negative"},
	} {
		if _, err := r.c.Send(r.now, tc.m); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("error %v, want %q", err, tc.want)
		}
	}
	if r.c.Unfinished() != 0 {
		t.Fatalf("%d unfinished", r.c.Unfinished())
	}
}

// TestManyRoutes: the limit of cached routes drops the oldest idle one.
func TestManyRoutes(t *testing.T) {
	r := newRig(t, func(o *Options) { o.MaxTopics = 2 })
	for _, topic := range []string{"T1", "T2", "T3"} {
		r.routes[topic] = routed(1, "ga", addrA)
		r.send(Message{Topic: topic})
		r.stored(r.next(), 0, 0)
		r.want(r.outcome(), Done, 0, TryDone)
		r.advance(time.Millisecond)
	}
	if len(r.c.routes.list) != 2 || r.c.routes.byTopic["T1"] != nil {
		t.Fatalf("%d routes", len(r.c.routes.list))
	}
	// With all in use the next one ends at once, not done.
	for _, topic := range []string{"T2", "T3", "T1"} {
		r.send(Message{Topic: topic})
	}
	if o := r.outcome(); o.Topic != "T1" || o.Status != NotDone || !strings.Contains(o.Remark, "maxTopics") {
		t.Fatalf("outcome %s", &o)
	}
}

// TestBadRoutes: an answer that cannot be used leaves the old route and moves on.
func TestBadRoutes(t *testing.T) {
	for _, bad := range []wire.RouteData{
		{BrokerDatas: []wire.BrokerData{{BrokerName: "ga", BrokerAddrs: map[int64]string{0: "no port"}}}},
		{QueueDatas: []wire.QueueData{{BrokerName: "ga", WriteQueueNums: -1}}},
		{QueueDatas: []wire.QueueData{{BrokerName: "ga", WriteQueueNums: 1 << 20}}},
	} {
		r := one(t)
		r.routes["T"] = bad
		r.send(Message{})
		r.advance(time.Second)
		r.stillUnfinished()
		r.routes["T"] = routed(1, "ga", addrA)
		r.advance(1900 * time.Millisecond)
		r.stored(r.next(), 0, 0)
		r.want(r.outcome(), Done, 0, TryDone)
	}
}

// TestKeysAreUnique: messages without a key get one each.
func TestKeysAreUnique(t *testing.T) {
	r := one(t)
	seen := map[string]bool{}
	for range 20 {
		r.send(Message{})
		f := r.next()
		h, _ := f.SendRequest()
		key, _ := storage.Property([]byte(h.Properties), "UNIQ_KEY")
		if len(key) != 32 || seen[string(key)] {
			t.Fatalf("key %q", key)
		}
		seen[string(key)] = true
		r.stored(f, 0, 0)
	}
}

// TestServerRequests: what a broker asks is refused, notices are taken in silence.
func TestServerRequests(t *testing.T) {
	r := one(t)
	r.send(Message{})
	r.stored(r.next(), 0, 0)
	ask := func(code, flag int32) {
		f := wire.NewRequest(code, 5, nil, nil)
		f.Head.Flag = flag
		r.c.Receive(r.now, r.session[addrA], &f)
		r.settle()
	}
	ask(wire.ReqConsumerIDsChanged, 0)
	ask(wire.ReqCheckTransaction, wire.FlagOneway)
	r.none()
	ask(wire.ReqGetConsumerRunningInfo, 0)
	if f := r.next(); f.Head.Code != wire.CodeRequestCodeNotSupported || f.Head.Opaque != 5 || !f.Head.Response() {
		t.Fatalf("answer %+v", f.Head)
	}
}

// TestStop ends everything as it stands, says goodbye, and refuses more.
func TestStop(t *testing.T) {
	r := one(t)
	r.send(Message{})
	r.next()
	r.send(Message{Topic: "nowhere"})
	r.outcome()
	r.c.Stop(r.now)
	r.settle()
	r.want(r.outcome(), Unknown, NoCode, TrySilent)
	if f := r.next(); f.Head.Code != wire.ReqUnregisterClient {
		t.Fatalf("frame %+v", f.Head)
	}
	if r.exit == nil || r.exit.Code != node.ExitClean || len(r.closed) != 2 || r.c.Deadline() != node.Never {
		t.Fatalf("exit %+v, closed %v", r.exit, r.closed)
	}
	if _, err := r.c.Send(r.now, Message{Topic: "T", Body: []byte("x")}); err == nil {
		t.Fatal("a send after Stop was begun")
	}
}

func TestOptions(t *testing.T) {
	base := DefaultOptions()
	base.NamesrvAddrs = []string{ns1}
	if err := base.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		change func(*Options)
		want   string
	}{
		{func(o *Options) { o.NamesrvAddrs = nil }, "namesrvAddr"},
		{func(o *Options) { o.NamesrvAddrs = []string{"x"} }, "namesrvAddr"},
		{func(o *Options) { o.NamesrvAddrs = []string{"x:99999"} }, "namesrvAddr"},
		{func(o *Options) { o.SendMsgMaxTimeoutPerRequest = 4 * time.Second }, "sendMsgMaxTimeoutPerRequest"},
		{func(o *Options) { o.RetryTimesWhenSendFailed = -1 }, "retryTimesWhenSendFailed"},
		{func(o *Options) { o.RetryBackoffMin = time.Hour }, "retryBackoffMin"},
		{func(o *Options) { o.RouteTimeout = -1 }, "routeTimeout"},
		{func(o *Options) { o.MaxSessions = 1 << 20 }, "maxSessions"},
		{func(o *Options) { o.ProducerGroup = strings.Repeat("g", 121) }, "producerGroup"},
	} {
		o := base
		tc.change(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("error %v, want %q", err, tc.want)
		}
	}
}
