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

// TestSendOK: the answer to a stored message has every field clients read, and the
// message is where it says.
func TestSendOK(t *testing.T) {
	h := newBench(t, benchOptions())
	h.topic("T", 4)
	f := h.ok(h.send("T", 2, "a", "hello"))
	r, err := f.SendResponse()
	if err != nil {
		t.Fatal(err)
	}
	if r.QueueID != 2 || r.QueueOffset != 0 || r.TransactionID != "Khello" || r.Region != "DefaultRegion" || r.TraceOn != "true" {
		t.Errorf("answer %+v", r)
	}
	host, at, err := storage.ParseMessageID(r.MsgID)
	if err != nil || host.String() != "10.0.0.1:10911" {
		t.Fatalf("message id %q: %v %v", r.MsgID, host, err)
	}
	view := h.ok(h.call(wire.ReqViewMessage, &wire.ViewMessageRequest{Offset: int64(at)}, nil))
	if got := bodies(t, view); len(got) != 1 || got[0] != "hello" {
		t.Errorf("message by id: %q", got)
	}
	for i := range int64(3) {
		f := h.ok(h.send("T", 2, "a", fmt.Sprint("more", i)))
		if r, _ := f.SendResponse(); r.QueueOffset != i+1 {
			t.Errorf("offset %d, want %d", r.QueueOffset, i+1)
		}
	}
}

// TestSendRefused lists each refusal of wire contracts 2.1 with its code; none of
// them may leave a byte in the log.
func TestSendRefused(t *testing.T) {
	o := benchOptions()
	o.AutoCreateSubscriptionGroup = false
	o.BrokerPermission = 4
	h := newBench(t, o)
	h.topic("T", 4)
	ordered := topicHeader("Ordered", 4)
	ordered.Order = true
	h.ok(h.call(wire.ReqCreateTopic, ordered, nil))
	noTemplate := sendHeader("New", 0, "")
	noTemplate.DefaultTopic = "T"
	batchRetry := sendHeader("%RETRY%known", 0, "")
	batchRetry.Batch = true
	h.ok(h.call(wire.ReqUpdateGroup, nil, wire.MarshalBody(wire.NewSubscriptionGroup("known"))))
	for name, c := range map[string]struct {
		header *wire.SendMessageRequest
		body   string
		code   int32
		say    string
	}{
		"order topic, no write permission": {sendHeader("Ordered", 0, ""), "b", 16, "forbidden"},
		"illegal topic name":               {sendHeader("a.b", 0, ""), "b", 29, "illegal characters"},
		"blank topic name":                 {sendHeader("", 0, ""), "b", 29, "blank"},
		"long topic name":                  {sendHeader(strings.Repeat("t", 128), 0, ""), "b", 29, "longer"},
		"schedule topic":                   {sendHeader(scheduleTopic, 0, ""), "b", 16, "forbidden"},
		"half topic":                       {sendHeader(halfTopic, 0, ""), "b", 16, "forbidden"},
		"forged metadata":                  {sendHeader(storage.MetaTopic, 0, ""), "b", 16, "forbidden"},
		"forged barrier":                   {sendHeader(storage.BarrierTopic, 0, ""), "b", 16, "forbidden"},
		"unknown topic, no template":       {noTemplate, "b", 17, "apply first"},
		"dead letters are the broker's":    {sendHeader("%DLQ%g", 0, ""), "b", 17, "apply first"},
		"queue out of range":               {sendHeader("T", 4, ""), "b", 29, "queueId[4]"},
		"retry topic of unknown group":     {sendHeader("%RETRY%nobody", 0, ""), "b", 26, "nobody"},
		"batch to a retry topic":           {batchRetry, "b", 13, "batch"},
		"no body":                          {sendHeader("T", 0, ""), "", 13, "no body"},
		"delayed":                          {sendHeader("T", 0, props("DELAY", "2")), "b", 13, "delayed"},
		"transactional":                    {sendHeader("T", 0, props("TRAN_MSG", "true")), "b", 16, "transactional"},
	} {
		end := h.b.log.end
		f := h.call(wire.ReqSendMessage, c.header, []byte(c.body))
		if f == nil || f.Head.Code != c.code || !strings.Contains(f.Head.Remark, c.say) {
			t.Errorf("%s: %+v, want %d with %q", name, f, c.code, c.say)
		}
		if h.b.log.end != end {
			t.Errorf("%s: refused, and %d bytes were appended", name, h.b.log.end-end)
		}
	}
	for _, code := range []int32{wire.ReqSendBack, wire.ReqEndTransaction, wire.ReqRecallMessage} {
		end := h.b.log.end
		h.want(h.call(code, nil, nil), wire.CodeRequestCodeNotSupported, "not supported")
		if h.b.log.end != end {
			t.Errorf("code %d appended something", code)
		}
	}
	// A name that is a topic by configuration and yet no legal one.
	dotted := benchOptions()
	dotted.BrokerClusterName = "my.cluster"
	d := newBench(t, dotted)
	d.want(d.send("my.cluster", 0, "a", "x"), wire.CodeInvalidParameter, "illegal")
	missing := h.request(wire.ReqSendMessage, nil, []byte("b"))
	missing.Head.Ext = wire.Ext{{Key: "topic", Value: "T"}}
	h.put(1, missing)
	h.run()
	h.want(h.answer(1, missing.Head.Opaque), wire.CodeSystemError, "producerGroup")
}

// TestSendRoles: what the store says comes last, and before anything is appended.
func TestSendRoles(t *testing.T) {
	o := benchOptions()
	o.TotalReplicas, o.MinInSyncReplicas = 3, 2
	h := newBench(t, o)
	end := h.b.log.end
	h.want(h.send("T", 0, "a", "x"), wire.CodeSystemError, wire.RemarkNotEnoughReplicas)
	h.want(h.send("a.b", 0, "a", "x"), wire.CodeInvalidParameter, "illegal")
	h.want(h.call(wire.ReqCreateTopic, topicHeader("T", 4), nil), wire.CodeSystemError, wire.RemarkNotEnoughReplicas)
	h.want(h.call(wire.ReqUpdateGroup, nil, wire.MarshalBody(wire.NewSubscriptionGroup("g"))), wire.CodeSystemError, wire.RemarkNotEnoughReplicas)
	if h.b.log.end != end || len(h.b.meta.topics) != 0 || len(h.b.meta.groups) != 0 {
		t.Error("a refused request changed the log or the tables")
	}
	h.follow()
	if f := h.send("a.b", 0, "a", "x"); f.Head.Code != 14 && f.Head.Code != 2 {
		t.Errorf("a slave answers %d %q: its role comes before everything else", f.Head.Code, f.Head.Remark)
	}
}

// TestAutoCreate: the first send makes the topic after its template, in the log
// before the message, and tells the name servers.
func TestAutoCreate(t *testing.T) {
	h := newBench(t, benchOptions())
	gen := h.b.registrationGeneration()
	version := h.b.topicTable().DataVersion
	h.ok(h.send("New", 3, "a", "x"))
	c, ok := h.b.topic("New")
	if !ok || c.ReadQueueNums != 4 || c.WriteQueueNums != 4 || c.Perm != 6 {
		t.Fatalf("created %+v", c)
	}
	if h.b.registrationGeneration() == gen || h.b.topicTable().DataVersion == version {
		t.Error("a new topic does not make the table new")
	}
	h.want(h.send("New", 4, "a", "x"), wire.CodeInvalidParameter, "4 queues")
	h.sameMeta()
	o := benchOptions()
	o.AutoCreateTopicEnable = false
	h = newBench(t, o)
	h.want(h.send("New", 0, "a", "x"), wire.CodeTopicNotExist, "apply first")
	if _, ok := h.b.topicTable().TopicConfigTable[templateTopic]; ok {
		t.Error("the template is registered although auto-creation is off (trap 52)")
	}
}

// TestSendQueueChoice: a negative queue id is the broker's choice, in turn.
func TestSendQueueChoice(t *testing.T) {
	h := newBench(t, benchOptions())
	h.topic("T", 3)
	for i := range int32(7) {
		r, _ := h.ok(h.send("T", -1, "a", "x")).SendResponse()
		if r.QueueID != i%3 {
			t.Errorf("message %d went to queue %d, want %d", i, r.QueueID, i%3)
		}
	}
	if got := h.b.queueOf("T", 0).next; got != 3 {
		t.Errorf("queue 0 has %d messages, want 3", got)
	}
}

// TestSendBatch: one answer with an id for each message, consecutive offsets, and
// each record its own.
func TestSendBatch(t *testing.T) {
	h := newBench(t, benchOptions())
	h.topic("T", 2)
	h.ok(h.send("T", 1, "a", "first"))
	header := sendHeader("T", 1, "")
	header.Batch = true
	f := h.ok(h.call(wire.ReqSendBatch, header, batchBody(wire.BatchEntry{Body: []byte("one"), Properties: props("TAGS", "a")}, wire.BatchEntry{Body: []byte("two")}, wire.BatchEntry{Body: []byte("three")})))
	r, _ := f.SendResponse()
	ids := strings.Split(r.MsgID, ",")
	if len(ids) != 3 || r.QueueOffset != 1 || r.QueueID != 1 || r.TransactionID != "" {
		t.Fatalf("answer %+v", r)
	}
	for i, body := range []string{"one", "two", "three"} {
		_, at, err := storage.ParseMessageID(ids[i])
		if err != nil {
			t.Fatal(err)
		}
		if got := bodies(t, h.ok(h.call(wire.ReqViewMessage, &wire.ViewMessageRequest{Offset: int64(at)}, nil))); got[0] != body {
			t.Errorf("id %d is message %q, want %q", i, got[0], body)
		}
	}
	if got := bodies(t, h.ok(h.pull("T", 1, 0, "*"))); strings.Join(got, " ") != "first one two three" {
		t.Errorf("queue %q", got)
	}
}

// TestSendWaits: the answer leaves when the record is durable; a message that asks
// not to wait is answered at once; a one-way message never.
func TestSendWaits(t *testing.T) {
	h := newBench(t, benchOptions())
	h.topic("T", 2)
	h.stuck = true
	waits := h.request(wire.ReqSendMessage, sendHeader("T", 0, ""), []byte("waits"))
	hurry := h.request(wire.ReqSendMessage, sendHeader("T", 0, props("WAIT", "false")), []byte("hurry"))
	oneway := h.request(wire.ReqSendMessage, sendHeader("T", 0, ""), []byte("oneway"))
	oneway.Head.Flag = wire.FlagOneway
	for _, f := range []wire.Frame{waits, hurry, oneway} {
		h.put(1, f)
	}
	h.run()
	if h.answer(1, waits.Head.Opaque) != nil {
		t.Fatal("answered before the record was durable")
	}
	h.ok(h.answer(1, hurry.Head.Opaque))
	h.unstick()
	h.ok(h.answer(1, waits.Head.Opaque))
	if h.answer(1, oneway.Head.Opaque) != nil {
		t.Error("a one-way request was answered")
	}
	if got := bodies(t, h.ok(h.pull("T", 0, 0, "*"))); len(got) != 3 {
		t.Errorf("stored %q, want all three", got)
	}
}

// TestSendTimeout: a record that is not proven in time is "unknown", with the
// fields of a stored message, and never a plain error.
func TestSendTimeout(t *testing.T) {
	h := newBench(t, benchOptions())
	h.topic("T", 2)
	h.stuck = true
	f := h.request(wire.ReqSendMessage, sendHeader("T", 1, props("UNIQ_KEY", "U")), []byte("x"))
	h.put(1, f)
	h.run()
	h.pass(h.b.o.waitTimeout() + time.Millisecond)
	a := h.answer(1, f.Head.Opaque)
	if a == nil || a.Head.Code != wire.CodeFlushDiskTimeout && a.Head.Code != wire.CodeFlushSlaveTimeout {
		t.Fatalf("answer %+v, want a flush time-out", a)
	}
	r, err := a.SendResponse()
	if err != nil || r.QueueID != 1 || r.TransactionID != "U" || r.MsgID == "" {
		t.Errorf("fields of a stored message are missing: %+v %v", r, err)
	}
	h.unstick()
}

// TestSendQueueWait: a message that waited too long for the loop is refused as
// busy, with nothing stored.
func TestSendQueueWait(t *testing.T) {
	h := newBench(t, benchOptions())
	h.topic("T", 2)
	f := h.request(wire.ReqSendMessage, sendHeader("T", 0, ""), []byte("late"))
	h.b.Prepare(h.now, &f, node.Peer{})
	h.now.Mono += node.Time(201 * time.Millisecond)
	end := h.b.log.end
	h.b.Receive(h.now, 1, &f)
	h.run()
	h.want(h.answer(1, f.Head.Opaque), wire.CodeSystemBusy, "[TIMEOUT_CLEAN_QUEUE]")
	if h.b.log.end != end {
		t.Error("a refused message was stored")
	}
}

// TestSendOverload: more waiting producers than the limit are refused as busy.
func TestSendOverload(t *testing.T) {
	o := benchOptions()
	o.MaxWaiters = 3
	h := newBench(t, o)
	h.topic("T", 2)
	h.stuck = true
	var last wire.Frame
	for range 4 {
		last = h.request(wire.ReqSendMessage, sendHeader("T", 0, ""), []byte("x"))
		h.put(1, last)
	}
	h.run()
	h.want(h.answer(1, last.Head.Opaque), wire.CodeSystemBusy, "[OVERLOAD]")
	h.unstick()
	if got := h.b.queueOf("T", 0).next; got != 3 {
		t.Errorf("%d stored, want 3", got)
	}
}

// TestRetryTopic: the stock Go client's way back for a failed message is a plain
// send to the retry topic. It is stored at once, delay or not; what was tried too
// often, or given up by an ordered consumer, becomes a dead letter.
func TestRetryTopic(t *testing.T) {
	h := newBench(t, benchOptions())
	h.heartbeat(1, "c1", "cg", sub("T", "*", 1))
	retry := func(times int32) *wire.SendMessageRequest {
		r := sendHeader("%RETRY%cg", 0, props("DELAY", "3", "RETRY_TOPIC", "T", "UNIQ_KEY", "U"))
		r.ReconsumeTimes, r.MaxReconsumeTimes = times, 2
		return r
	}
	h.ok(h.call(wire.ReqSendMessage, retry(2), []byte("again")))
	if got := bodies(t, h.ok(h.pull("%RETRY%cg", 0, 0, "*"))); len(got) != 1 || got[0] != "again" {
		t.Errorf("retry topic has %q", got)
	}
	h.ok(h.call(wire.ReqSendMessage, retry(3), []byte("dead")))
	if got := bodies(t, h.ok(h.pull("%DLQ%cg", 0, 0, "*"))); len(got) != 1 || got[0] != "dead" {
		t.Errorf("dead letters %q", got)
	}
	lock := wire.MarshalBody(wire.LockBatchRequest{ConsumerGroup: "cg", ClientID: "c1", Queues: []wire.MessageQueue{{Topic: "T", BrokerName: "broker-a"}}})
	h.ok(h.call(wire.ReqLockBatch, nil, lock))
	h.ok(h.call(wire.ReqSendMessage, retry(0), []byte("ordered")))
	if got := bodies(t, h.ok(h.pull("%DLQ%cg", 0, 0, "*"))); len(got) != 2 || got[1] != "ordered" {
		t.Errorf("dead letters %q", got)
	}
	h.sameMeta()
}

// TestSendAllocations: the machine's part of a send allocates next to nothing:
// blocks of answers and of log tail, spread over many messages.
func TestSendAllocations(t *testing.T) {
	o := benchOptions()
	o.MappedFileSizeCommitLog = 16 << 20
	h := newBench(t, o)
	h.topic("T", 4)
	const n = 512
	frames := make([]wire.Frame, 0, 4*n)
	for range cap(frames) {
		f := h.request(wire.ReqSendMessage, sendHeader("T", 1, props("UNIQ_KEY", "K", "TAGS", "a")), make([]byte, 64))
		h.b.Prepare(h.now, &f, node.Peer{Addr: "10.0.1.1:40000"})
		frames = append(frames, f)
	}
	next := 0
	batch := func() {
		for range n {
			h.b.Receive(h.now, 1, &frames[next])
			next++
		}
	}
	batch() // grows what is kept
	h.run()
	per := testing.AllocsPerRun(1, func() { batch() }) / n
	h.run()
	if per > 0.1 {
		t.Errorf("%.2f allocations a message in the machine, want none (blocks only)", per)
	}
}
