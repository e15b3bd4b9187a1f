package broker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
)

// cool lets the log's tail leave memory, so that pulls go to the disk.
func (h *bench) cool() {
	h.t.Helper()
	h.pass(h.b.o.TailIdle + 2*h.b.o.QueueFlushInterval)
	if len(h.b.tail.chunks) > 0 {
		h.t.Fatalf("%d chunks are still in memory", len(h.b.tail.chunks))
	}
}

// TestPullTable is the result table of wire contracts 2.2, hot and cold.
func TestPullTable(t *testing.T) {
	for _, cold := range []bool{false, true} {
		h := newBench(t, benchOptions())
		h.topic("T", 4)
		for i := range 6 {
			h.ok(h.send("T", 1, []string{"a", "b"}[i%2], fmt.Sprint("m", i)))
		}
		if cold {
			h.cool()
		}
		h.reads = 0
		for name, c := range map[string]struct {
			queue  int32
			offset int64
			tags   string
			code   int32
			next   int64
			want   string
			remark string
		}{
			"found":               {1, 0, "*", 0, 6, "m0 m1 m2 m3 m4 m5", "FOUND"},
			"found from inside":   {1, 4, "*", 0, 6, "m4 m5", "FOUND"},
			"one tag":             {1, 0, "a", 0, 6, "m0 m2 m4", "FOUND"},
			"two tags":            {1, 0, "a || b", 0, 6, "m0 m1 m2 m3 m4 m5", "FOUND"},
			"no tag matches":      {1, 0, "c", 20, 6, "", "NO_MATCHED_MESSAGE"},
			"at the end":          {1, 6, "*", 19, 6, "", "OFFSET_OVERFLOW_ONE"},
			"beyond the end":      {1, 7, "*", 21, 6, "", "OFFSET_OVERFLOW_BADLY"},
			"below the start":     {1, -1, "*", 21, 0, "", "OFFSET_TOO_SMALL"},
			"empty queue":         {0, 0, "*", 19, 0, "", "NO_MESSAGE_IN_QUEUE"},
			"empty queue, stale":  {0, 5, "*", 21, 0, "", "NO_MESSAGE_IN_QUEUE"},
			"expression of blank": {1, 5, "", 0, 6, "m5", "FOUND"},
		} {
			f := h.pull("T", c.queue, c.offset, c.tags)
			r, err := f.PullResponse()
			if err != nil || f.Head.Code != c.code || r.NextBeginOffset != c.next || f.Head.Remark != c.remark {
				t.Errorf("cold %v, %s: code %d %q next %d (%v), want %d %q %d", cold, name, f.Head.Code, f.Head.Remark, r.NextBeginOffset, err, c.code, c.remark, c.next)
			}
			if got := strings.Join(bodies(t, f), " "); got != c.want {
				t.Errorf("cold %v, %s: messages %q, want %q", cold, name, got, c.want)
			}
			if c.queue == 1 && (r.MinOffset != 0 || r.MaxOffset != 6) || r.SuggestWhichBrokerID != 0 {
				t.Errorf("cold %v, %s: min %d max %d suggest %d", cold, name, r.MinOffset, r.MaxOffset, r.SuggestWhichBrokerID)
			}
		}
		if (h.reads > 0) != cold {
			t.Errorf("cold %v: %d disk reads", cold, h.reads)
		}
	}
}

// TestPullRefused lists the errors before reading.
func TestPullRefused(t *testing.T) {
	o := benchOptions()
	o.AutoCreateSubscriptionGroup = false
	h := newBench(t, o)
	h.topic("T", 2)
	writeOnly := topicHeader("W", 2)
	writeOnly.Perm = 2
	h.ok(h.call(wire.ReqCreateTopic, writeOnly, nil))
	group := func(name string, change func(*wire.SubscriptionGroupConfig)) {
		c := wire.NewSubscriptionGroup(name)
		change(&c)
		h.ok(h.call(wire.ReqUpdateGroup, nil, wire.MarshalBody(c)))
	}
	group("cg", func(c *wire.SubscriptionGroupConfig) {})
	group("off", func(c *wire.SubscriptionGroupConfig) { c.ConsumeEnable = false })
	group("nobroad", func(c *wire.SubscriptionGroupConfig) { c.ConsumeBroadcastEnable = false })
	h.ok(h.heartbeat(1, "c1", "cg", sub("T", "a", 5), wire.SubscriptionData{Topic: "S", SubString: "x > 1", SubVersion: 5, ExpressionType: wire.ExpressionSQL92}))
	h.topic("S", 2)
	broad := wire.MarshalBody(wire.HeartbeatData{ClientID: "c2", ConsumerDataSet: []wire.ConsumerData{{GroupName: "nobroad",
		MessageModel: wire.ModelBroadcasting, Subscriptions: []wire.SubscriptionData{sub("T", "*", 1)}}}})
	h.ok(h.call(wire.ReqHeartbeat, nil, broad))
	for name, c := range map[string]struct {
		change func(p *wire.PullRequest)
		code   int32
		say    string
	}{
		"unknown group":       {func(p *wire.PullRequest) { p.ConsumerGroup = "nobody" }, 26, "nobody"},
		"group switched off":  {func(p *wire.PullRequest) { p.ConsumerGroup = "off" }, 16, "off"},
		"unknown topic":       {func(p *wire.PullRequest) { p.Topic = "None" }, 17, "None"},
		"topic not readable":  {func(p *wire.PullRequest) { p.Topic = "W" }, 16, "forbidden"},
		"queue out of range":  {func(p *wire.PullRequest) { p.QueueID = 2 }, 29, "queueId[2]"},
		"negative queue":      {func(p *wire.PullRequest) { p.QueueID = -1 }, 29, "queueId[-1]"},
		"SQL92":               {func(p *wire.PullRequest) { p.ExpressionType = "SQL92" }, 1, "SQL92"},
		"unknown expression":  {func(p *wire.PullRequest) { p.ExpressionType = "XPATH" }, 23, "XPATH"},
		"no tag at all":       {func(p *wire.PullRequest) { p.Subscription = "||" }, 23, "no tag"},
		"group not online":    {func(p *wire.PullRequest) { p.SysFlag, p.ConsumerGroup = 0, "TOOLS_CONSUMER" }, 24, "group info"},
		"topic not registerd": {func(p *wire.PullRequest) { p.SysFlag, p.Topic = 0, benchmarkTopic }, 24, "subscription not exist"},
		"broker is older":     {func(p *wire.PullRequest) { p.SysFlag, p.SubVersion = 0, 6 }, 25, "not latest"},
		"registered SQL92":    {func(p *wire.PullRequest) { p.SysFlag, p.Topic = 0, "S" }, 1, "SQL92"},
		"broadcasting":        {func(p *wire.PullRequest) { p.SysFlag, p.ConsumerGroup = 0, "nobroad" }, 16, "broadcast"},
	} {
		p := pullHeader("T", 0, 0, "*")
		c.change(p)
		f := h.call(wire.ReqPull, p, nil)
		if f == nil || f.Head.Code != c.code || !strings.Contains(f.Head.Remark, c.say) {
			t.Errorf("%s: %+v, want %d with %q", name, f, c.code, c.say)
		}
	}
	h.follow()
	h.want(h.pull("T", 0, 0, "*"), wire.CodeSystemBusy, "slaveReadEnable")
}

// TestPullLimits: an answer stops at the count and the bytes allowed, and holds one
// message in any case, also for the Go client's "maxMsgNums 0" (trap 31).
func TestPullLimits(t *testing.T) {
	for _, cold := range []bool{false, true} {
		o := benchOptions()
		o.MappedFileSizeCommitLog = 8 << 20
		h := newBench(t, o)
		h.topic("T", 1)
		for i := range 50 {
			h.ok(h.send("T", 0, "a", fmt.Sprint(i, strings.Repeat("x", 20<<10))))
		}
		if cold {
			h.cool()
		}
		count := func(change func(p *wire.PullRequest)) int {
			p := pullHeader("T", 0, 0, "*")
			change(p)
			f := h.ok(h.call(wire.ReqPull, p, nil))
			r, _ := f.PullResponse()
			if n := len(bodies(t, f)); int64(n) != r.NextBeginOffset {
				t.Errorf("%d messages and next offset %d", n, r.NextBeginOffset)
			}
			return len(bodies(t, f))
		}
		byBytes := map[bool]int{false: 256 / 20, true: 64 / 20}[cold]
		if got := count(func(p *wire.PullRequest) {}); got != byBytes {
			t.Errorf("cold %v: %d messages, want %d by bytes", cold, got, byBytes)
		}
		for asked, want := range map[int32]int{0: 1, 1: 1, 2: 2} {
			if got := count(func(p *wire.PullRequest) { p.MaxMsgNums = asked }); got != want {
				t.Errorf("cold %v: %d messages for maxMsgNums %d", cold, got, asked)
			}
		}
		if got := count(func(p *wire.PullRequest) { p.MaxMsgBytes = 10 }); got != 1 {
			t.Errorf("cold %v: %d messages for maxMsgBytes 10, want 1", cold, got)
		}
	}
}

// suspended is a pull that may be held for 20 s by the registered subscription.
func suspended(topic string, queue int32, offset int64) *wire.PullRequest {
	return &wire.PullRequest{ConsumerGroup: "cg", Topic: topic, QueueID: queue, QueueOffset: offset, MaxMsgNums: 32,
		SysFlag: wire.PullSuspend, SuspendTimeoutMillis: 20_000}
}

// hold sends a pull that must be held and returns its opaque.
func (h *bench) hold(s node.SessionID, p *wire.PullRequest) int32 {
	h.t.Helper()
	f := h.request(wire.ReqPull, p, nil)
	h.put(s, f)
	h.run()
	if a := h.answer(s, f.Head.Opaque); a != nil {
		h.t.Fatalf("answered with %d %q, want it held", a.Head.Code, a.Head.Remark)
	}
	return f.Head.Opaque
}

// TestLongPoll: a held pull is woken by a message whose tag it wants, once that
// message is confirmed, and by nothing else; its second attempt is never held.
func TestLongPoll(t *testing.T) {
	h := newBench(t, benchOptions())
	h.topic("T", 2)
	h.ok(h.heartbeat(1, "c1", "cg", sub("T", "a", 1)))
	op := h.hold(1, suspended("T", 0, 0))
	h.ok(h.send("T", 1, "a", "other queue"))
	h.ok(h.send("T", 0, "b", "other tag"))
	if h.answer(1, op) != nil {
		t.Fatal("woken by a message it does not want")
	}
	h.stuck = true
	waiting := h.request(wire.ReqSendMessage, sendHeader("T", 0, props("TAGS", "a")), []byte("wanted"))
	h.put(1, waiting)
	h.run()
	if h.answer(1, op) != nil {
		t.Fatal("woken by a message that is not confirmed")
	}
	h.unstick()
	f := h.ok(h.answer(1, op))
	if got := bodies(t, f); len(got) != 1 || got[0] != "wanted" {
		t.Errorf("woken with %q", got)
	}
	if r, _ := f.PullResponse(); r.NextBeginOffset != 2 {
		t.Errorf("next offset %d, want 2: what did not match is passed over", r.NextBeginOffset)
	}

	op = h.hold(1, suspended("T", 0, 2))
	h.ok(h.send("T", 0, "b", "not wanted"))
	h.pass(20*time.Second - time.Millisecond)
	if h.answer(1, op) != nil {
		t.Fatal("answered before its time")
	}
	h.pass(time.Millisecond)
	h.want(h.answer(1, op), wire.CodePullRetryImmediately, "NO_MATCHED")

	op = h.hold(1, suspended("T", 0, 3))
	h.pass(20 * time.Second)
	h.want(h.answer(1, op), wire.CodePullNotFound, "")

	for _, p := range []*wire.PullRequest{suspended("T", 0, 9), suspended("T", 0, 2)} { // 21 and 20 are never held
		if h.call(wire.ReqPull, p, nil) == nil {
			t.Errorf("pull at %d was held", p.QueueOffset)
		}
	}
	op = h.hold(2, suspended("T", 0, 3))
	h.b.SessionDown(h.now, 2, "gone")
	h.run()
	if h.b.pulls.live != 0 || h.b.Deadline() == h.now.Mono {
		t.Error("the pulls of a closed session stay")
	}
}

// TestLongPollLimits: beyond the limit a pull is answered at once; without long
// polling the hold is one second.
func TestLongPollLimits(t *testing.T) {
	o := benchOptions()
	o.MaxHeldPulls, o.LongPollingEnable = 1, false
	h := newBench(t, o)
	h.topic("T", 2)
	h.ok(h.heartbeat(1, "c1", "cg", sub("T", "*", 1)))
	op := h.hold(1, suspended("T", 0, 0))
	h.want(h.call(wire.ReqPull, suspended("T", 1, 0), nil), wire.CodePullNotFound, "")
	h.pass(time.Second)
	h.want(h.answer(1, op), wire.CodePullNotFound, "")
}

// TestPullUnproven: a new master whose confirm lags behind what the old one had
// shown holds consumers that are ahead of it; it never resets them, and it serves
// them when its epoch is proven (P7).
func TestPullUnproven(t *testing.T) {
	h := newBench(t, benchOptions())
	h.topic("T", 1)
	h.ok(h.heartbeat(1, "c1", "cg", sub("T", "*", 1)))
	for i := range 3 {
		h.ok(h.send("T", 0, "a", fmt.Sprint("m", i)))
	}
	q := h.b.queueOf("T", 0)
	// The state right after a failover: the tail is there, confirm is below it.
	seen, confirm := q.seen, h.b.confirm
	q.seen, h.b.confirm = 1, h.b.role.start-1
	if !h.b.unproven() {
		t.Fatal("not unproven")
	}
	for _, offset := range []int64{2, 3, 9} {
		p := suspended("T", 0, offset)
		f := h.request(wire.ReqPull, p, nil)
		h.put(1, f)
		if h.b.pulls.live != 1 {
			t.Fatalf("offset %d: not held", offset)
		}
		h.b.pulls.dropSession(1)
		p.SysFlag = 0
		f = h.request(wire.ReqPull, p, nil)
		h.put(1, f)
		h.fx.Reset()
		h.b.take(&h.fx)
		h.collect()
		a := h.answer(1, f.Head.Opaque)
		h.want(a, wire.CodePullNotFound, "")
		if r, _ := a.PullResponse(); r.NextBeginOffset != offset {
			t.Errorf("offset %d was reset to %d", offset, r.NextBeginOffset)
		}
	}
	// Offsets are compared with the end, not with what is visible.
	if r := h.b.checkCommit(offsetKey{"cg", "T"}, 0, 3); r != nil {
		t.Errorf("commit at the queue's end refused: %s", r.remark)
	}
	q.seen, h.b.confirm = seen, confirm
	if f := h.ok(h.pull("T", 0, 2, "*")); len(bodies(t, f)) != 1 {
		t.Error("not served once proven")
	}
}

// TestPullAtDemotion: what is held when the role ends is answered, so that the
// consumer looks for the new master.
func TestPullAtDemotion(t *testing.T) {
	h := newBench(t, benchOptions())
	h.topic("T", 1)
	h.ok(h.heartbeat(1, "c1", "cg", sub("T", "*", 1)))
	op := h.hold(1, suspended("T", 0, 0))
	h.follow()
	h.want(h.answer(1, op), wire.CodeSystemBusy, "no longer master")
}

// TestSlaveRead: a slave that may serve reads sends a consumer that is ahead of it
// back to the master with its offset unchanged.
func TestSlaveRead(t *testing.T) {
	o := benchOptions()
	o.SlaveReadEnable = true
	h := newBench(t, o)
	h.topic("T", 1)
	h.ok(h.send("T", 0, "a", "m0"))
	h.ok(h.heartbeat(1, "c1", "cg", sub("T", "*", 1)))
	h.follow()
	if got := bodies(t, h.ok(h.pull("T", 0, 0, "*"))); len(got) != 1 {
		t.Errorf("slave read %q", got)
	}
	f := h.pull("T", 0, 7, "*")
	h.want(f, wire.CodePullRetryImmediately, "")
	if r, _ := f.PullResponse(); r.NextBeginOffset != 7 || r.SuggestWhichBrokerID != 0 {
		t.Errorf("next %d suggest %d", r.NextBeginOffset, r.SuggestWhichBrokerID)
	}
}

// TestPullCommits: the offset that rides on a pull is stored once, on the first
// attempt, as no promise.
func TestPullCommits(t *testing.T) {
	h := newBench(t, benchOptions())
	h.topic("T", 1)
	h.ok(h.send("T", 0, "a", "m0"))
	h.ok(h.heartbeat(1, "c1", "cg", sub("T", "*", 1)))
	p := suspended("T", 0, 1)
	p.SysFlag |= wire.PullCommitOffset
	p.CommitOffset = 1
	h.hold(1, p)
	if got := extInt(t, h.ok(h.query("cg", "T", 0)), "offset"); got != "1" {
		t.Errorf("committed %s, want 1", got)
	}
	h.ok(&wire.Frame{Head: wire.Head{}})
	h.commit("cg", "T", 0, 0) // goes back; the held pull must not repeat its 1
	h.run()
	h.ok(h.send("T", 0, "a", "m1"))
	if got := extInt(t, h.ok(h.query("cg", "T", 0)), "offset"); got != "0" {
		t.Errorf("committed %s after the wake-up, want 0", got)
	}
	p.CommitOffset = 99 // nonsense is not the pull's fault
	p.QueueOffset, p.SysFlag = 0, wire.PullCommitOffset|wire.PullSubscription
	h.ok(h.call(wire.ReqPull, p, nil))
	if got := extInt(t, h.ok(h.query("cg", "T", 0)), "offset"); got != "0" {
		t.Errorf("committed %s, want 0", got)
	}
}

// TestPullColdErrors: a failed read is an error for the consumer, not an empty
// queue; too many reads at once are refused as busy.
func TestPullColdErrors(t *testing.T) {
	o := benchOptions()
	o.MaxDiskReads = 1
	h := newBench(t, o)
	h.topic("T", 1)
	h.ok(h.send("T", 0, "a", "m0"))
	h.cool()
	f := h.request(wire.ReqPull, pullHeader("T", 0, 0, "*"), nil)
	h.put(1, f)
	g := h.request(wire.ReqPull, pullHeader("T", 0, 0, "*"), nil)
	h.put(1, g)
	h.fx.Reset()
	h.b.Settle(h.now, &h.fx)
	h.collect()
	h.want(h.answer(1, g.Head.Opaque), wire.CodeSystemBusy, "[OVERLOAD]")
	for _, op := range h.fx.Disk {
		if op.Kind == storage.OpPull {
			h.b.DiskDone(h.now, storage.Result{Op: op, Err: storage.ErrCorrupt})
		}
	}
	h.run()
	h.want(h.answer(1, f.Head.Opaque), wire.CodeSystemError, "")
	// A read that a truncation overtook is asked again.
	f = h.request(wire.ReqPull, pullHeader("T", 0, 0, "*"), nil)
	h.put(1, f)
	h.fx.Reset()
	h.b.Settle(h.now, &h.fx)
	for _, op := range h.fx.Disk {
		r := h.store.Do(op)
		r.Op.Gen--
		h.b.DiskDone(h.now, r)
	}
	h.run()
	h.want(h.answer(1, f.Head.Opaque), wire.CodePullRetryImmediately, "REMOVING")
}

// TestQueueOffsets is codes 29 to 33.
func TestQueueOffsets(t *testing.T) {
	for _, cold := range []bool{false, true} {
		h := newBench(t, benchOptions())
		h.topic("T", 2)
		h.now.Wall = 1700000000000
		for i := range 5 {
			h.ok(h.send("T", 0, "a", fmt.Sprint("m", i)))
			h.now.Wall += 1000
		}
		if cold {
			h.cool()
		}
		offset := func(code int32, header any) string {
			key := "offset"
			if code == wire.ReqGetEarliestStoreTime {
				key = "timestamp"
			}
			return extInt(t, h.ok(h.call(code, header, nil)), key)
		}
		at := func(queue int32) *wire.QueueOffsetRequest {
			return &wire.QueueOffsetRequest{Topic: "T", QueueID: queue}
		}
		search := func(millis int64, boundary string) string {
			return offset(wire.ReqSearchOffset, &wire.SearchOffsetRequest{Topic: "T", Timestamp: millis, BoundaryType: boundary})
		}
		for _, c := range []struct{ what, got, want string }{
			{"max", offset(wire.ReqGetMaxOffset, at(0)), "5"},
			{"min", offset(wire.ReqGetMinOffset, at(0)), "0"},
			{"earliest", offset(wire.ReqGetEarliestStoreTime, at(0)), "1700000000000"},
			{"max of an empty queue", offset(wire.ReqGetMaxOffset, at(1)), "0"},
			{"min of an unknown queue", offset(wire.ReqGetMinOffset, at(77)), "0"},
			{"earliest of an empty queue", offset(wire.ReqGetEarliestStoreTime, at(1)), "-1"},
			{"exact, lower", search(1700000002000, ""), "2"},
			{"between, lower", search(1700000001500, "lower"), "2"},
			{"before all, lower", search(1, "LOWER"), "0"},
			{"after all, lower", search(1800000000000, ""), "5"},
			{"exact, upper", search(1700000002000, "UPPER"), "2"},
			{"between, upper", search(1700000002500, "upper"), "2"},
			{"before all, upper", search(1, "UPPER"), "0"},
			{"after all, upper", search(1800000000000, "UPPER"), "4"},
		} {
			if c.got != c.want {
				t.Errorf("cold %v, %s: %s, want %s", cold, c.what, c.got, c.want)
			}
		}
		h.want(h.call(wire.ReqSearchOffset, &wire.SearchOffsetRequest{Topic: "T", BoundaryType: "MIDDLE"}, nil), wire.CodeInvalidParameter, "MIDDLE")
		for _, off := range []int64{-1, 7, 1 << 40} {
			h.want(h.call(wire.ReqViewMessage, &wire.ViewMessageRequest{Offset: off}, nil), wire.CodeSystemError, "can not find message by the offset")
		}
	}
}

// TestPullAllocations: a hot pull allocates its body, whatever the number of its
// messages; a held one and a woken one no more than that.
func TestPullAllocations(t *testing.T) {
	o := benchOptions()
	o.MappedFileSizeCommitLog = 16 << 20
	h := newBench(t, o)
	h.topic("T", 2)
	h.ok(h.heartbeat(1, "c1", "cg", sub("T", "a || b", 1)))
	for range 32 {
		h.ok(h.send("T", 0, "a", "m"))
	}
	const n = 64
	frame := func(p *wire.PullRequest) wire.Frame {
		f := h.request(wire.ReqPull, p, nil)
		h.b.Prepare(h.now, &f, node.Peer{Addr: "10.0.1.1:40000"})
		return f
	}
	found, held := frame(suspended("T", 0, 0)), frame(suspended("T", 1, 0))
	measure := func(f *wire.Frame) float64 {
		run := func() {
			for range n {
				h.b.Receive(h.now, 1, f)
			}
		}
		run()
		h.run()
		h.b.pulls.dropSession(1)
		per := testing.AllocsPerRun(1, run) / n
		h.b.pulls.dropSession(1)
		h.run()
		return per
	}
	if per := measure(&found); per > 1.2 {
		t.Errorf("%.2f allocations for a pull of 32 messages, want its body alone", per)
	}
	if per := measure(&held); per > 0.3 {
		t.Errorf("%.2f allocations for a held pull, want none", per)
	}
}
