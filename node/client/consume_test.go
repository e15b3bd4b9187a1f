package client

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"strings"
	"testing"
	"time"

	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
)

// stored is one message as a broker returns it.
func stored(t testing.TB, queue int32, offset int64, tag, body string, flags int32) []byte {
	t.Helper()
	host, err := storage.ParseHost("10.0.0.1:10911")
	if err != nil {
		t.Fatal(err)
	}
	props := storage.AppendProperty(nil, "UNIQ_KEY", fmt.Sprintf("k%d", offset))
	if tag != "" {
		props = storage.AppendProperty(props, "TAGS", tag)
	}
	p, err := storage.PrepareRecord(nil, &storage.Draft{Topic: "T", QueueID: queue, Body: []byte(body), Properties: props, BornHost: host, StoreHost: host,
		SysFlag: flags, BornMillis: 1})
	if err != nil {
		t.Fatal(err)
	}
	out := make([]byte, p.Size())
	p.Place(out, offset, 100+100*1000, 2)
	return out
}

func pullAnswer(next, lo, hi int64) *wire.PullResponse {
	return &wire.PullResponse{NextBeginOffset: next, MinOffset: lo, MaxOffset: hi}
}

// TestPullCodes: every code that is an answer to a pull ends it Done with the
// broker's own next offset; others are tried again or end it.
func TestPullCodes(t *testing.T) {
	for _, tc := range []struct {
		code  int32
		done  bool
		final bool
	}{{0, true, true}, {19, true, true}, {20, true, true}, {21, true, true}, {1, false, false}, {2, false, false}, {24, false, false}, {25, false, false},
		{16, false, true}, {17, false, true}, {23, false, true}, {26, false, true}, {29, false, true}} {
		t.Run(fmt.Sprint(tc.code), func(t *testing.T) {
			r := one(t)
			if _, err := r.c.Pull(r.now, PullRequest{Topic: "T", Broker: "ga", Queue: 2, Offset: 7, Suspend: true, Tags: "a || b"}); err != nil {
				t.Fatal(err)
			}
			r.settle()
			f := r.next()
			h, err := f.PullRequest()
			if err != nil || h.ConsumerGroup != "cg" || h.QueueID != 2 || h.QueueOffset != 7 || h.MaxMsgNums != 32 || h.SysFlag != wire.PullSuspend|wire.PullSubscription ||
				h.SuspendTimeoutMillis != 15000 || h.Subscription != "a || b" {
				t.Fatalf("frame %+v %v", h, err)
			}
			var body []byte
			if tc.code == 0 {
				body = append(stored(t, 2, 7, "a", "first", 0), stored(t, 2, 8, "c", "second", 0)...)
			}
			r.answer(f, tc.code, "", pullAnswer(9, 3, 30), body)
			if !tc.final {
				r.stillUnfinished()
				r.advance(200 * time.Millisecond)
				r.answer(r.next(), 19, "", pullAnswer(7, 3, 7), nil)
				r.want(r.outcome(), Done, 19, TryRefused, TryDone)
				return
			}
			o := r.outcome()
			if !tc.done {
				r.want(o, NotDone, tc.code, TryRefused)
				return
			}
			r.want(o, Done, tc.code, TryDone)
			if o.Offset != 7 || o.Next != 9 || o.Min != 3 || o.Max != 30 {
				t.Fatalf("outcome %+v", o)
			}
			if tc.code == 0 {
				if len(o.Messages) != 1 {
					t.Fatalf("messages %+v: the tag c is not wanted", o.Messages)
				}
				if m := o.Messages[0]; m.Topic != "T" || m.Broker != "ga" || m.QueueOffset != 7 || m.Key != "k7" || m.Tag != "a" || string(m.Body) != "first" || m.Log != 100100 {
					t.Fatalf("message %+v", m)
				}
			}
		})
	}
}

// TestDamagedPull: a message that does not match its checksum is not believed, and
// the pull is tried again.
func TestDamagedPull(t *testing.T) {
	good := stored(t, 0, 7, "", "precious", 0)
	for name, damage := range map[string]func([]byte) []byte{
		"body":      func(b []byte) []byte { b[bytes.Index(b, []byte("precious"))] ^= 1; return b },
		"cut":       func(b []byte) []byte { return b[:len(b)-3] },
		"size":      func(b []byte) []byte { b[0] = 0x7f; return b },
		"magic":     func(b []byte) []byte { b[4] ^= 0xff; return b },
		"few bytes": func(b []byte) []byte { return append(b, 1, 2, 3) },
	} {
		t.Run(name, func(t *testing.T) {
			r := one(t)
			if _, err := r.c.Pull(r.now, PullRequest{Topic: "T", Broker: "ga", Offset: 7}); err != nil {
				t.Fatal(err)
			}
			r.settle()
			r.answer(r.next(), 0, "FOUND", pullAnswer(8, 0, 8), damage(bytes.Clone(good)))
			r.stillUnfinished()
			r.advance(200 * time.Millisecond)
			r.answer(r.next(), 0, "FOUND", pullAnswer(8, 0, 8), good)
			o := r.outcome()
			r.want(o, Done, 0, TryDoubtful, TryDone)
			if len(o.Messages) != 1 || string(o.Messages[0].Body) != "precious" {
				t.Fatalf("messages %+v", o.Messages)
			}
		})
	}
}

func TestCompressedBody(t *testing.T) {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	if _, err := z.Write([]byte(strings.Repeat("lock", 100))); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := decodeMessages(stored(t, 0, 1, "", b.String(), storage.FlagCompressed), "ga")
	if err != nil || string(got[0].Body) != strings.Repeat("lock", 100) {
		t.Fatalf("%v %v", got, err)
	}
	if _, err = decodeMessages(stored(t, 0, 1, "", "no zlib", storage.FlagCompressed), "ga"); err == nil {
		t.Fatal("a body that does not inflate was taken")
	}
	if _, err = decodeMessages(stored(t, 0, 1, "", b.String(), storage.FlagCompressed|2<<8), "ga"); err == nil || !strings.Contains(err.Error(), "compression type 2") {
		t.Fatalf("error %v", err)
	}
}

// TestHeldPullLeavesAFormerMaster: when the route names another master, a pull
// that the old one holds is asked of the new one at once.
func TestHeldPullLeavesAFormerMaster(t *testing.T) {
	r := newRig(t, func(o *Options) { o.PollNameServerInterval = time.Second })
	r.routes["T"] = routed(1, "ga", addrA)
	if _, err := r.c.Pull(r.now, PullRequest{Topic: "T", Broker: "ga", Suspend: true}); err != nil {
		t.Fatal(err)
	}
	r.settle()
	r.next()
	r.routes["T"] = routed(1, "ga", addrC)
	r.advance(1100 * time.Millisecond)
	f := r.next()
	if f.addr != addrC {
		t.Fatalf("asked %s", f.addr)
	}
	r.answer(f, 19, "", pullAnswer(0, 0, 0), nil)
	r.want(r.outcome(), Done, 19, TrySilent, TryDone)
}

// TestOffsets: the four offset requests.
func TestOffsets(t *testing.T) {
	begin := map[Op]func(*Client, node.Now) (Ticket, error){
		OpCommit:      func(c *Client, now node.Now) (Ticket, error) { return c.CommitOffset(now, "T", "ga", 1, 42) },
		OpQueryOffset: func(c *Client, now node.Now) (Ticket, error) { return c.QueryOffset(now, "T", "ga", 1) },
		OpMaxOffset:   func(c *Client, now node.Now) (Ticket, error) { return c.MaxOffset(now, "T", "ga", 1) },
		OpMinOffset:   func(c *Client, now node.Now) (Ticket, error) { return c.MinOffset(now, "T", "ga", 1) },
	}
	for _, tc := range []struct {
		op     Op
		wire   int32
		code   int32
		header any
		status Status
		end    TryEnd
		offset int64
		retry  bool
	}{
		{OpCommit, wire.ReqUpdateConsumerOffset, 0, nil, Done, TryDone, 42, false},
		{OpCommit, wire.ReqUpdateConsumerOffset, 26, nil, NotDone, TryRefused, 42, false},
		{OpCommit, wire.ReqUpdateConsumerOffset, 14, nil, NotDone, TryRefused, 42, true},
		{OpCommit, wire.ReqUpdateConsumerOffset, 1, nil, Unknown, TryDoubtful, 42, true},
		{OpQueryOffset, wire.ReqQueryConsumerOffset, 0, &wire.OffsetResponse{Offset: 9}, Done, TryDone, 9, false},
		{OpQueryOffset, wire.ReqQueryConsumerOffset, 22, nil, Done, TryDone, -1, false},
		{OpQueryOffset, wire.ReqQueryConsumerOffset, 0, nil, NotDone, TryDoubtful, -1, true},
		{OpMaxOffset, wire.ReqGetMaxOffset, 0, &wire.OffsetResponse{Offset: 11}, Done, TryDone, 11, false},
		{OpMinOffset, wire.ReqGetMinOffset, 0, &wire.OffsetResponse{Offset: 3}, Done, TryDone, 3, false},
		{OpMinOffset, wire.ReqGetMinOffset, 22, nil, NotDone, TryRefused, -1, true},
	} {
		t.Run(fmt.Sprintf("%s %d", tc.op, tc.code), func(t *testing.T) {
			r := one(t)
			if _, err := begin[tc.op](r.c, r.now); err != nil {
				t.Fatal(err)
			}
			r.settle()
			f := r.next()
			if f.Head.Code != tc.wire || f.addr != addrA {
				t.Fatalf("frame %+v to %s", f.Head, f.addr)
			}
			r.answer(f, tc.code, "", tc.header, nil)
			if tc.retry {
				// The same answer until the budget ends.
				for range 200 {
					if len(r.outcomes) > 0 {
						break
					}
					r.advance(50 * time.Millisecond)
					if len(r.sent) > 0 {
						r.answer(r.next(), tc.code, "", tc.header, nil)
					}
				}
			}
			o := r.outcome()
			if o.Status != tc.status || o.Code != tc.code && tc.code != 0 || o.Offset != tc.offset || o.Tries[0].End != tc.end {
				t.Fatalf("outcome %s, first try %s", &o, o.Tries[0].End)
			}
			if o.Finished.Sub(o.Started) > r.c.opt.RequestTimeout {
				t.Fatalf("took %v", o.Finished.Sub(o.Started))
			}
		})
	}
}

func TestBadQueueRequests(t *testing.T) {
	r := one(t)
	for _, err := range []error{
		errOf(r.c.Pull(r.now, PullRequest{Topic: "T", Broker: "", Offset: 1})),
		errOf(r.c.Pull(r.now, PullRequest{Topic: "T", Broker: "ga", Offset: -1})),
		errOf(r.c.Pull(r.now, PullRequest{Topic: "T", Broker: "ga", Max: 5000})),
		errOf(r.c.Pull(r.now, PullRequest{Topic: "a.b", Broker: "ga"})),
		errOf(r.c.CommitOffset(r.now, "T", "ga", 0, -1)),
		errOf(r.c.MaxOffset(r.now, "T", "ga", -1)),
		errOf(r.c.CreateTopic(r.now, Topic{Name: "a b"})),
		errOf(r.c.CreateTopic(r.now, Topic{Name: "T", ReadQueues: -1})),
		errOf(r.c.Subscribe(r.now, Subscription{Topic: ""})),
		errOf(r.c.Subscribe(r.now, Subscription{Topic: "T", Queues: []QueueRef{{"", 0}}})),
		r.c.Unsubscribe(r.now, 99),
	} {
		if err == nil {
			t.Error("a bad request was begun")
		}
	}
	bare := newRig(t, func(o *Options) { o.ConsumerGroup, o.ProducerGroup = "", "" })
	for _, err := range []error{
		errOf(bare.c.Pull(r.now, PullRequest{Topic: "T", Broker: "ga"})),
		errOf(bare.c.Subscribe(r.now, Subscription{Topic: "T"})),
		errOf(bare.c.Send(r.now, Message{Topic: "T", Body: []byte("x")})),
	} {
		if err == nil || !strings.Contains(err.Error(), "Group") {
			t.Errorf("error %v", err)
		}
	}
}

func errOf(_ Ticket, err error) error { return err }

// TestCreateTopic: every master of the cluster agrees, one after the other.
func TestCreateTopic(t *testing.T) {
	r := two(t)
	create := func() {
		t.Helper()
		if _, err := r.c.CreateTopic(r.now, Topic{Name: "N", Cluster: "C"}); err != nil {
			t.Fatal(err)
		}
		r.settle()
	}
	create()
	for _, addr := range []string{addrA, addrB} {
		f := r.next()
		var h wire.CreateTopicRequest
		if err := f.Header(&h); err != nil || f.addr != addr || h.Topic != "N" || h.ReadQueueNums != 8 || h.WriteQueueNums != 8 || h.Perm != 6 {
			t.Fatalf("frame to %s %+v %v", f.addr, h, err)
		}
		r.answer(f, 0, "", nil, nil)
	}
	r.want(r.outcome(), Done, 0, TryDone, TryDone)
	// One refuses at first, then agrees.
	r.advance(time.Second)
	create()
	r.answer(r.next(), 1, "in-sync replicas not enough", nil, nil)
	f := r.next()
	r.answer(f, 0, "", nil, nil)
	r.advance(300 * time.Millisecond)
	r.answer(r.next(), 0, "", nil, nil)
	r.want(r.outcome(), Done, 0, TryRefused, TryDone, TryDone)
	// One agrees, the other refuses for good: what is known is "some".
	r.advance(time.Second)
	create()
	r.answer(r.next(), 0, "", nil, nil)
	r.answer(r.next(), 29, "system topic", nil, nil)
	o := r.outcome()
	r.want(o, Unknown, 29, TryDone, TryRefused)
	if !strings.Contains(o.Remark, "agreed: ga") {
		t.Fatalf("remark %q", o.Remark)
	}
	// Refused by the first: nothing happened.
	r.advance(time.Second)
	create()
	r.answer(r.next(), 29, "system topic", nil, nil)
	r.want(r.outcome(), NotDone, 29, TryRefused)
	// A group without a master is waited for.
	r.routes["T"] = routed(2, "ga", addrA, "gb", "")
	r.advance(time.Second)
	create()
	r.answer(r.next(), 0, "", nil, nil)
	r.stillUnfinished()
	r.routes["T"] = routed(2, "ga", addrA, "gb", addrB)
	r.advance(2 * time.Second)
	r.answer(r.next(), 0, "", nil, nil)
	r.want(r.outcome(), Done, 0, TryDone, TryDone)
}

// consumer begins a subscription to one queue and plays its first questions.
func consumer(t *testing.T, s Subscription) *rig {
	r := newRig(t, func(o *Options) { o.MaxDelivered = 4 })
	r.routes["T"] = routed(1, "ga", addrA)
	s.Topic = "T"
	if _, err := r.c.Subscribe(r.now, s); err != nil {
		t.Fatal(err)
	}
	r.settle()
	return r
}

// TestStart: 14, then 30 or 31 where there is no offset (wire contracts 5.2).
func TestStart(t *testing.T) {
	for _, tc := range []struct {
		name  string
		from  From
		code  int32 // of 14
		asked int32 // 0: no second question
	}{{"committed", FromLast, 0, 0}, {"last", FromLast, 22, wire.ReqGetMaxOffset}, {"first", FromFirst, 22, wire.ReqGetMinOffset}} {
		t.Run(tc.name, func(t *testing.T) {
			r := consumer(t, Subscription{From: tc.from})
			f := r.next()
			if f.Head.Code != wire.ReqQueryConsumerOffset {
				t.Fatalf("first question %d", f.Head.Code)
			}
			if len(r.beats) != 1 || r.beats[0].addr != addrA || !strings.Contains(string(r.beats[0].Body), `"groupName":"cg"`) ||
				!strings.Contains(string(r.beats[0].Body), `"topic":"T","subString":"*"`) {
				t.Fatalf("heartbeats %+v", r.beats)
			}
			var h any
			if tc.code == 0 {
				h = &wire.OffsetResponse{Offset: 50}
			}
			r.answer(f, tc.code, "", h, nil)
			if tc.asked != 0 {
				f = r.next()
				if f.Head.Code != tc.asked {
					t.Fatalf("second question %d", f.Head.Code)
				}
				r.answer(f, 0, "", &wire.OffsetResponse{Offset: 50}, nil)
			}
			f = r.next()
			p, err := f.PullRequest()
			if err != nil || p.QueueOffset != 50 || p.SysFlag&wire.PullSuspend == 0 {
				t.Fatalf("pull %+v %v", p, err)
			}
		})
	}
}

// TestConsume: pulls go on by the broker's next offset; deliveries are committed
// once taken, at the interval; the backlog limit pauses the pulls.
func TestConsume(t *testing.T) {
	r := consumer(t, Subscription{})
	r.answer(r.next(), 0, "", &wire.OffsetResponse{Offset: 5}, nil)
	pull := func(want int64) sentFrame {
		t.Helper()
		f := r.next()
		if h, err := f.PullRequest(); err != nil || h.QueueOffset != want {
			t.Fatalf("pull %+v %v, want offset %d", h, err, want)
		}
		return f
	}
	r.answer(pull(5), 19, "", pullAnswer(5, 0, 5), nil)
	r.answer(pull(5), 20, "", pullAnswer(6, 0, 6), nil)
	r.answer(pull(6), 0, "", pullAnswer(8, 0, 8), append(stored(t, 0, 6, "", "x", 0), stored(t, 0, 7, "", "y", 0)...))
	o := r.outcome()
	if o.Op != OpDeliver || o.Status != Done || len(o.Messages) != 2 || o.Offset != 6 || o.Next != 8 || o.Ticket != 1 {
		t.Fatalf("outcome %+v", o)
	}
	held := pull(8)
	// The commit comes with the interval and covers what was taken.
	r.advance(5 * time.Second)
	f := r.next()
	var h wire.UpdateOffsetRequest
	if err := f.Header(&h); err != nil || f.Head.Code != wire.ReqUpdateConsumerOffset || h.CommitOffset != 8 || h.ConsumerGroup != "cg" {
		t.Fatalf("frame %+v %+v %v", f.Head, h, err)
	}
	r.answer(f, 0, "", nil, nil)
	r.advance(5 * time.Second)
	r.none() // nothing new: no commit
	// 21: the position moves to where the broker says, and the caller hears of it.
	r.answer(held, 21, "", pullAnswer(3, 3, 3), nil)
	if o := r.outcome(); o.Op != OpMoved || o.Offset != 8 || o.Next != 3 {
		t.Fatalf("outcome %+v", o)
	}
	held = pull(3)
	r.answer(held, 19, "", pullAnswer(3, 3, 3), nil)
	f = r.next() // the committed offset follows
	if err := f.Header(&h); err != nil || h.CommitOffset != 3 {
		t.Fatalf("frame %+v %+v %v", f.Head, h, err)
	}
	pull(3)
}

// TestBacklogPauses: messages that nobody takes stop the pulls, and are not
// committed.
func TestBacklogPauses(t *testing.T) {
	r := consumer(t, Subscription{})
	r.answer(r.next(), 0, "", &wire.OffsetResponse{Offset: 0}, nil)
	// Keep the client from being drained by the rig: answer without settling.
	feed := func(f sentFrame, next int64, body []byte) {
		a := wire.NewResponse(&f.Head, 0, pullAnswer(next, 0, next), body)
		r.c.Receive(r.now, f.session, &a)
		var fx node.Effects
		r.c.Settle(r.now, &fx)
		r.c.CheckInvariants()
		r.perform(&fx)
	}
	var next int64
	for len(r.sent) > 0 {
		var body []byte
		for range 2 {
			body = append(body, stored(t, 0, next, "", "m", 0)...)
			next++
		}
		feed(r.next(), next, body)
	}
	if next != 4 {
		t.Fatalf("%d messages pulled, the limit is 4", next)
	}
	r.now.Mono = r.now.Mono.Add(6 * time.Second)
	var fx node.Effects
	r.c.Settle(r.now, &fx)
	if len(fx.Sends) != 0 {
		t.Fatalf("sent %+v although nothing was taken", fx.Sends[0].Frame.Head)
	}
	r.settle() // takes
	r.settle()
	codes := map[int32]bool{}
	for len(r.sent) > 0 {
		codes[r.next().Head.Code] = true
	}
	if !codes[wire.ReqPull] || !codes[wire.ReqUpdateConsumerOffset] {
		t.Fatalf("after taking: %v", codes)
	}
}

// TestConsumerSurvivesFailover: a lost master is left for the next one, and the
// pull goes on at the same offset.
func TestConsumerSurvivesFailover(t *testing.T) {
	r := consumer(t, Subscription{NoCommit: true})
	r.answer(r.next(), 0, "", &wire.OffsetResponse{Offset: 9}, nil)
	r.next()
	r.routes["T"] = routed(1, "ga", addrC)
	r.refuse[addrA] = true
	r.down(addrA)
	r.advance(500 * time.Millisecond)
	f := r.next()
	if h, err := f.PullRequest(); err != nil || f.addr != addrC || h.QueueOffset != 9 {
		t.Fatalf("pull of %s: %+v %v", f.addr, h, err)
	}
	if len(r.beats) != 2 || r.beats[1].addr != addrC {
		t.Fatalf("heartbeats %+v", r.beats)
	}
}

// TestUnsubscribe commits what was taken, one-way, and ends the pulls.
func TestUnsubscribe(t *testing.T) {
	r := consumer(t, Subscription{})
	r.answer(r.next(), 0, "", &wire.OffsetResponse{Offset: 0}, nil)
	r.answer(r.next(), 0, "", pullAnswer(1, 0, 1), stored(t, 0, 0, "", "m", 0))
	r.outcome()
	r.next()
	if err := r.c.Unsubscribe(r.now, 1); err != nil {
		t.Fatal(err)
	}
	r.settle()
	f := r.next()
	var h wire.UpdateOffsetRequest
	if err := f.Header(&h); err != nil || !f.Head.Oneway() || h.CommitOffset != 1 {
		t.Fatalf("frame %+v %+v", f.Head, h)
	}
	r.none()
	r.advance(time.Minute)
	r.none()
	if len(r.outcomes) != 0 {
		t.Fatalf("outcomes %v", r.outcomes)
	}
}

// TestConfirm: with Confirm a commit covers what Consumed reported and no more,
// also in the middle of a delivery; what matched nothing behind it follows once all
// of it is used.
func TestConfirm(t *testing.T) {
	r := consumer(t, Subscription{Confirm: true})
	ref := QueueRef{Broker: "ga"}
	consumed := func(next int64) {
		t.Helper()
		if err := r.c.Consumed(r.now, 1, ref, next); err != nil {
			t.Fatal(err)
		}
		r.settle()
	}
	committed := func(want int64) {
		t.Helper()
		if len(r.sent) == 0 {
			r.advance(5 * time.Second)
		}
		var h wire.UpdateOffsetRequest
		if f := r.next(); f.Head.Code != wire.ReqUpdateConsumerOffset || f.Header(&h) != nil || h.CommitOffset != want {
			t.Fatalf("frame %+v %+v, want a commit of %d", f.Head, h, want)
		} else {
			r.answer(f, 0, "", nil, nil)
		}
	}
	r.answer(r.next(), 0, "", &wire.OffsetResponse{Offset: 6}, nil)
	r.answer(r.next(), 0, "", pullAnswer(8, 0, 8), append(stored(t, 0, 6, "", "x", 0), stored(t, 0, 7, "", "y", 0)...))
	r.outcome()
	held := r.next()
	r.advance(5 * time.Second)
	r.none() // taken, and not used: no commit
	consumed(7)
	committed(7)                                     // the interval is over
	r.answer(held, 20, "", pullAnswer(9, 0, 9), nil) // the message at 8 matches nothing
	held = r.next()
	r.advance(5 * time.Second)
	r.none() // 7 is still unused
	consumed(8)
	committed(9)
	// A broker that moves the queue back outweighs what is reported late.
	r.answer(held, 21, "", pullAnswer(3, 3, 3), nil)
	r.outcome()
	r.next()
	consumed(9)
	committed(3)
	for _, bad := range []error{r.c.Consumed(r.now, 2, ref, 1), r.c.Consumed(r.now, 1, QueueRef{Broker: "gb"}, 1)} {
		if bad == nil {
			t.Error("a report about what is not subscribed was taken")
		}
	}
}

// TestCommitUnanswered: a commit that ends when the next one is due begins once and
// later, not in the same Settle.
func TestCommitUnanswered(t *testing.T) {
	r := consumer(t, Subscription{})
	r.answer(r.next(), 0, "", &wire.OffsetResponse{Offset: 0}, nil)
	r.answer(r.next(), 0, "", pullAnswer(1, 0, 1), stored(t, 0, 0, "", "m", 0))
	r.outcome()
	r.next()
	commits := 0
	for range 14 { // less than the pull is held
		r.advance(time.Second)
		for len(r.sent) > 0 {
			if f := r.next(); f.Head.Code == wire.ReqUpdateConsumerOffset {
				commits++
			}
		}
	}
	if commits < 2 || commits > 4 {
		t.Errorf("%d commits in 14 s, each without an answer for 5 s", commits)
	}
}

// TestHeartbeats go to every broker in use at the interval, and to no name server.
func TestHeartbeats(t *testing.T) {
	r := two(t)
	for range 4 {
		r.send(Message{})
		r.stored(r.next(), 0, 0)
	}
	if len(r.beats) != 2 || !strings.Contains(string(r.beats[0].Body), `"producerDataSet":[{"groupName":"pg"}]`) {
		t.Fatalf("heartbeats %+v", r.beats)
	}
	r.advance(65 * time.Second)
	if len(r.beats) != 6 {
		t.Fatalf("%d heartbeats in 65 s to two brokers", len(r.beats))
	}
}
