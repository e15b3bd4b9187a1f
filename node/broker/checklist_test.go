package broker

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/node"
	"lockstep/node/wire"
)

// goClient writes frames exactly as the stock Go client does (wire contracts 1.3,
// 5.1): JSON headers, version 317, flag 0 also on requests it does not wait for.
// The texts were recorded from its sessions.
type goClient struct {
	h       *bench
	session node.SessionID
	opaque  int
}

// ask sends one recorded request and decodes the answer from its bytes, as the
// client would.
func (c *goClient) ask(code int, ext string, body string) *wire.Frame {
	c.h.t.Helper()
	op := c.send(code, ext, body)
	c.h.run()
	return c.answer(op)
}

// send sends one recorded request.
func (c *goClient) send(code int, ext string, body string) int32 {
	c.h.t.Helper()
	c.opaque++
	head := fmt.Sprintf(`{"code":%d,"language":"GO","version":317,"opaque":%d,"flag":0,"remark":"","extFields":{%s}}`, code, c.opaque, ext)
	raw := binary.BigEndian.AppendUint32(nil, uint32(4+len(head)+len(body)))
	raw = binary.BigEndian.AppendUint32(raw, uint32(len(head)))
	raw = append(append(raw, head...), body...)
	f, n, err := wire.Decode(wire.Remoting, raw)
	if err != nil || n != len(raw) {
		c.h.t.Fatalf("code %d does not decode: %v", code, err)
	}
	c.h.put(c.session, f)
	return int32(c.opaque)
}

func (c *goClient) answer(opaque int32) *wire.Frame {
	c.h.t.Helper()
	a := c.h.answer(c.session, opaque)
	if a == nil {
		return nil
	}
	raw, err := wire.AppendFrame(nil, a, wire.JSON)
	if err != nil {
		c.h.t.Fatal(err)
	}
	f, _, err := wire.Decode(wire.Remoting, raw)
	if err != nil {
		c.h.t.Fatalf("the answer does not decode: %v", err)
	}
	// The client's own parser is strict: string values only, code and version int16.
	var strict struct {
		Code, Version int16
		ExtFields     map[string]string
	}
	size := int(binary.BigEndian.Uint32(raw[4:]) & 0xffffff)
	if err := json.Unmarshal(raw[8:8+size], &strict); err != nil {
		c.h.t.Fatalf("a strict parser refuses the answer's header %s: %v", raw[8:8+size], err)
	}
	return &f
}

// messages decodes a pull answer and returns bodies.
func (c *goClient) messages(f *wire.Frame) []string { return bodies(c.h.t, f) }

// checklist is section 5.2 of the wire contracts; each line must be ticked.
type checklist struct {
	t    *testing.T
	todo []string
}

func (l *checklist) tick(step string, ok bool, format string, args ...any) {
	l.t.Helper()
	i := slices.Index(l.todo, step)
	if i < 0 {
		l.t.Fatalf("%q is not on the list, or was ticked before", step)
	}
	l.todo = slices.Delete(l.todo, i, i+1)
	if !ok {
		l.t.Errorf("%s: %s", step, fmt.Sprintf(format, args...))
	}
}

// TestGoClientChecklist plays a recorded producer and a recorded push consumer of
// the stock Go client against one broker, step by step (wire contracts 5.2, 5.3),
// for a simulated hour of heartbeats, commits and long polls.
func TestGoClientChecklist(t *testing.T) {
	list := &checklist{t: t, todo: []string{
		"producer 4: send", "producer 5: batch", "producer 6: heartbeat", "producer 8: close",
		"consumer 3: heartbeat creates group and retry topic", "consumer 5: consumer list", "consumer 6: offset of a new group",
		"consumer 6: offset of a known group", "consumer 7: pull found", "consumer 7: pull held and woken", "consumer 7: pull timed out",
		"consumer 8: notice when another joins", "consumer 9: commit", "consumer 10: send back falls back to the retry topic",
		"consumer 10: the retry topic is consumed", "consumer 11: commit and close at once", "consumer: closed session leaves the group",
		"ordered 5: lock", "ordered: unlock", "pull consumer: maxMsgNums 0 delivers", "pull consumer: 30 after 22",
		"admin: create topic", "admin: all groups in strict JSON", "hours: nothing is lost or left behind",
	}}
	h := newBench(t, benchOptions())
	producer, consumer := &goClient{h: h, session: 1}, &goClient{h: h, session: 2}

	// Admin (5.2, last paragraph): responses are not checked by the client, so check here.
	f := producer.ask(17, `"topic":"TestTopic","defaultTopic":"defaultTopic","readQueueNums":"8","writeQueueNums":"8","perm":"6","topicFilterType":"SINGLE_TAG","topicSysFlag":"0","order":"false"`, "")
	list.tick("admin: create topic", f != nil && f.Head.Code == 0, "%+v", f)

	f = producer.ask(10, `"producerGroup":"pg","topic":"TestTopic","queueId":"3","sysFlag":"0","bornTimestamp":"1700000000000","flag":"0","properties":"UNIQ_KEY\u00010A0001\u0002TAGS\u0001TagA\u0002WAIT\u0001true\u0002","reconsumeTimes":"0","unitMode":"false","maxReconsumeTimes":"0","defaultTopic":"TBW102","defaultTopicQueueNums":"4","batch":"false","bname":"broker-a"`, "Hello 0")
	ok := f != nil && f.Head.Code == 0
	for _, key := range []string{"msgId", "queueId", "queueOffset", "transactionId", "MSG_REGION", "TRACE_ON"} {
		v, has := f.ExtFields().Get(key)
		ok = ok && has && v != ""
	}
	id, _ := f.ExtFields().Get("msgId")
	list.tick("producer 4: send", ok && len(id) == 32, "%v", f.ExtFields())
	f = producer.ask(320, `"a":"pg","b":"TestTopic","c":"TBW102","d":"4","e":"3","f":"0","g":"1700000000000","h":"0","i":"","j":"0","k":"false","l":"0","m":"true","n":"broker-a"`,
		string(batchBody(wire.BatchEntry{Body: []byte("Hello 1"), Properties: props("TAGS", "TagA")}, wire.BatchEntry{Body: []byte("Hello 2"), Properties: props("TAGS", "TagB")})))
	id, _ = f.ExtFields().Get("msgId")
	list.tick("producer 5: batch", f.Head.Code == 0 && strings.Count(id, ",") == 1 && extInt(t, f, "queueOffset") == "1", "%v", f.ExtFields())
	beat := `{"clientID":"10.0.0.9@1#1","producerDataSet":[{"groupName":"pg"}],"consumerDataSet":[]}`
	f = producer.ask(34, "", beat)
	list.tick("producer 6: heartbeat", f.Head.Code == 0 && f.Head.Version >= 479, "%+v", f.Head)

	// A push consumer: tag hashes come as texts and are wrong for other scripts (trap 15).
	subs := `{"clientID":"10.0.0.8@7#1","producerDataSet":[],"consumerDataSet":[{"groupName":"cg","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","subscriptionDataSet":[` +
		`{"classFilterMode":false,"topic":"TestTopic","subString":"TagA || 标签","tagsSet":["TagA","标签"],"codeSet":["2598919","12"],"subVersion":1700000000000000000,"expressionType":"TAG"},` +
		`{"classFilterMode":false,"topic":"%RETRY%cg","subString":"*","tagsSet":[],"codeSet":[],"subVersion":1700000000000000001,"expressionType":"TAG"}],"unitMode":false}]}`
	f = consumer.ask(34, "", subs)
	_, retry := h.b.topic("%RETRY%cg")
	_, stored := h.b.meta.groups["cg"]
	list.tick("consumer 3: heartbeat creates group and retry topic", f.Head.Code == 0 && retry && stored, "%+v", f.Head)
	f = consumer.ask(38, `"consumerGroup":"cg"`, "")
	var ids wire.ConsumerList
	err := json.Unmarshal(f.Body, &ids)
	list.tick("consumer 5: consumer list", err == nil && slices.Equal(ids.ConsumerIDs, []string{"10.0.0.8@7#1"}), "%s %v", f.Body, err)
	f = consumer.ask(14, `"consumerGroup":"cg","topic":"TestTopic","queueId":"3"`, "")
	list.tick("consumer 6: offset of a new group", f.Head.Code == 0 && extInt(t, f, "offset") == "0", "%+v", f.Head)

	pull := func(c *goClient, queue, offset int, flags int, commit int) int32 {
		return c.send(11, fmt.Sprintf(`"consumerGroup":"cg","topic":"TestTopic","queueId":"%d","queueOffset":"%d","maxMsgNums":"32","sysFlag":"%d","commitOffset":"%d","suspendTimeoutMillis":"20000","subscription":"","subVersion":"0","expressionType":"TAG"`, queue, offset, flags, commit), "")
	}
	op := pull(consumer, 3, 0, 2, -1)
	h.run()
	f = consumer.answer(op)
	list.tick("consumer 7: pull found", f.Head.Code == 0 && slices.Equal(consumer.messages(f), []string{"Hello 0", "Hello 1"}) && extInt(t, f, "nextBeginOffset") == "3", "%v", f.ExtFields())
	op = pull(consumer, 3, 3, 3, 2)
	h.run()
	if consumer.answer(op) != nil {
		t.Error("a pull at the end was not held")
	}
	producer.ask(10, `"producerGroup":"pg","topic":"TestTopic","queueId":"3","sysFlag":"0","bornTimestamp":"1700000000000","flag":"0","properties":"TAGS\u0001标签\u0002","defaultTopic":"TBW102","defaultTopicQueueNums":"4"`, "Hello 3")
	f = consumer.answer(op)
	list.tick("consumer 7: pull held and woken", f != nil && f.Head.Code == 0 && slices.Equal(consumer.messages(f), []string{"Hello 3"}), "%+v", f)
	op = pull(consumer, 0, 0, 2, -1)
	h.pass(20 * time.Second)
	f = consumer.answer(op)
	list.tick("consumer 7: pull timed out", f != nil && f.Head.Code == 19 && extInt(t, f, "nextBeginOffset") == "0", "%+v", f)

	other := &goClient{h: h, session: 3}
	h.notices(2, wire.ReqConsumerIDsChanged)
	other.ask(34, "", strings.Replace(subs, "10.0.0.8@7#1", "10.0.0.7@8#1", 1))
	list.tick("consumer 8: notice when another joins", h.notices(2, wire.ReqConsumerIDsChanged) == 1, "not told")
	op = consumer.send(15, `"consumerGroup":"cg","topic":"TestTopic","queueId":"3","commitOffset":"4"`, "")
	h.pass(5 * time.Second)
	f = consumer.answer(op)
	list.tick("consumer 9: commit", f != nil && f.Head.Code == 0 && h.b.meta.offset(offsetKey{"cg", "TestTopic"}, 3) == 4, "%+v", f)
	f = consumer.ask(14, `"consumerGroup":"cg","topic":"TestTopic","queueId":"3"`, "")
	list.tick("consumer 6: offset of a known group", f.Head.Code == 0 && extInt(t, f, "offset") == "4", "%v", f.ExtFields())

	back := consumer.ask(36, `"group":"cg","offset":"0","delayLevel":"0","originMsgId":"X","originTopic":"TestTopic","unitMode":"false","maxReconsumeTimes":"16"`, "")
	f = consumer.ask(10, `"producerGroup":"CLIENT_INNER_PRODUCER","topic":"%RETRY%cg","queueId":"0","sysFlag":"0","bornTimestamp":"1700000000000","flag":"0","properties":"RETRY_TOPIC\u0001TestTopic\u0002DELAY\u00013\u0002RECONSUME_TIME\u00011\u0002","reconsumeTimes":"1","unitMode":"false","maxReconsumeTimes":"16","defaultTopic":"TBW102","defaultTopicQueueNums":"4","batch":"false"`, "Hello 0")
	list.tick("consumer 10: send back falls back to the retry topic", back.Head.Code != 0 && f.Head.Code == 0, "36: %+v, 10: %+v", back.Head, f.Head)
	f = consumer.ask(11, `"consumerGroup":"cg","topic":"%RETRY%cg","queueId":"0","queueOffset":"0","maxMsgNums":"32","sysFlag":"2","commitOffset":"-1","suspendTimeoutMillis":"20000","subscription":"","subVersion":"0","expressionType":"TAG"`, "")
	list.tick("consumer 10: the retry topic is consumed", f.Head.Code == 0 && slices.Equal(consumer.messages(f), []string{"Hello 0"}), "%+v", f.Head)

	mq := `"mqSet":[{"topic":"TestTopic","brokerName":"broker-a","queueId":3}]`
	f = consumer.ask(41, "", `{"consumerGroup":"cg","clientId":"10.0.0.8@7#1",`+mq+`}`)
	list.tick("ordered 5: lock", f.Head.Code == 0 && strings.Contains(string(f.Body), `"lockOKMQSet":[{"brokerName":"broker-a","queueId":3,"topic":"TestTopic"}]`), "%s", f.Body)
	f = consumer.ask(42, "", `{"consumerGroup":"cg","clientId":"10.0.0.8@7#1",`+mq+`}`)
	list.tick("ordered: unlock", f.Head.Code == 0 && h.b.locks.count == 0, "%+v", f.Head)

	f = consumer.ask(11, `"consumerGroup":"pullg","topic":"TestTopic","queueId":"3","queueOffset":"0","maxMsgNums":"0","sysFlag":"6","commitOffset":"0","suspendTimeoutMillis":"20000","subscription":"*","subVersion":"0","expressionType":"TAG"`, "")
	list.tick("pull consumer: maxMsgNums 0 delivers", f.Head.Code == 0 && len(consumer.messages(f)) == 1, "%+v", f.Head)
	h.b.queueOf("TestTopic", 3).min = 1 // the topic is old
	f = consumer.ask(14, `"consumerGroup":"pullg","topic":"TestTopic","queueId":"3"`, "")
	g := consumer.ask(30, `"topic":"TestTopic","queueId":"3"`, "")
	list.tick("pull consumer: 30 after 22", f.Head.Code == 22 && extInt(t, g, "offset") == "4", "%+v %v", f.Head, g.ExtFields())
	h.b.queueOf("TestTopic", 3).min = 0
	f = producer.ask(201, "", "")
	list.tick("admin: all groups in strict JSON", json.Valid(f.Body), "%s", f.Body)

	hours(t, list, h, producer, consumer, beat, subs)

	// Shutdown: the commit is sent and the socket closed at once; the commit counts (trap 37).
	consumer.send(15, `"consumerGroup":"cg","topic":"TestTopic","queueId":"3","commitOffset":"3"`, "")
	h.b.SessionDown(h.now, 2, "closed by the client")
	h.pass(time.Second)
	list.tick("consumer 11: commit and close at once", h.b.meta.offset(offsetKey{"cg", "TestTopic"}, 3) == 3, "offset %d", h.b.meta.offset(offsetKey{"cg", "TestTopic"}, 3))
	f = other.ask(38, `"consumerGroup":"cg"`, "")
	list.tick("consumer: closed session leaves the group", !bytes.Contains(f.Body, []byte("10.0.0.8")), "%s", f.Body)
	h.b.SessionDown(h.now, 1, "closed by the client")
	h.run()
	list.tick("producer 8: close", len(h.b.clients.producers) == 0, "the producer stays registered")
	if len(list.todo) > 0 {
		t.Errorf("not ticked: %q", list.todo)
	}
	h.sameMeta()
}

// hours lets the session go on for an hour: heartbeats each 30 s, a message and a
// pull each 10 s, commits each 5 s.
func hours(t *testing.T, list *checklist, h *bench, producer, consumer *goClient, beat, subs string) {
	next, received := int64(4), 0
	start := h.b.queueOf("TestTopic", 3).next
	for second := 0; second < 3600; second += 10 {
		if second%30 == 0 {
			h.ok(producer.ask(34, "", beat))
			h.ok(consumer.ask(34, "", subs))
		}
		op := consumer.send(11, fmt.Sprintf(`"consumerGroup":"cg","topic":"TestTopic","queueId":"3","queueOffset":"%d","maxMsgNums":"32","sysFlag":"3","commitOffset":"%d","suspendTimeoutMillis":"20000","subscription":"","subVersion":"0","expressionType":"TAG"`, next, next), "")
		h.run()
		h.ok(producer.ask(10, `"producerGroup":"pg","topic":"TestTopic","queueId":"3","sysFlag":"0","bornTimestamp":"1700000000000","flag":"0","properties":"TAGS\u0001TagA\u0002","defaultTopic":"TBW102","defaultTopicQueueNums":"4"`, fmt.Sprint("hour ", second)))
		f := consumer.answer(op)
		if f == nil || f.Head.Code != 0 {
			t.Fatalf("second %d: pull %+v", second, f)
		}
		for _, m := range consumer.messages(f) {
			if m != fmt.Sprint("hour ", received*10) {
				t.Fatalf("second %d: received %q, expected message %d", second, m, received)
			}
			received++
		}
		if _, err := fmt.Sscan(extInt(t, f, "nextBeginOffset"), &next); err != nil {
			t.Fatal(err)
		}
		consumer.send(15, fmt.Sprintf(`"consumerGroup":"cg","topic":"TestTopic","queueId":"3","commitOffset":"%d"`, next), "")
		h.pass(10 * time.Second)
	}
	for s := range h.answers {
		h.answers[s] = nil
	}
	left := h.b.pulls.live + len(h.b.reads.waiting) + len(h.b.commits.waiting) + h.b.waiters.queue.len()
	list.tick("hours: nothing is lost or left behind", received == 360 && next == start+360 && left == 0,
		"%d received, next %d, %d requests left", received, next, left)
}
