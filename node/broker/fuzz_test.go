package broker

import (
	"testing"

	"lockstep/internal/ha"
	"lockstep/node"
	"lockstep/node/wire"
)

// fuzzCodes are all codes the services handle, and some nobody does.
var fuzzCodes = []int32{
	wire.ReqSendMessage, wire.ReqSendMessageV2, wire.ReqSendBatch, wire.ReqPull, wire.ReqLitePull,
	wire.ReqQueryConsumerOffset, wire.ReqUpdateConsumerOffset, wire.ReqHeartbeat, wire.ReqGetMaxOffset, wire.ReqGetMinOffset,
	wire.ReqGetEarliestStoreTime, wire.ReqSearchOffset, wire.ReqViewMessage, wire.ReqUnregisterClient, wire.ReqGetConsumerList,
	wire.ReqCheckClientConfig, wire.ReqGetConsumerConnections, wire.ReqGetProducerConnections, wire.ReqLockBatch, wire.ReqUnlockBatch,
	wire.ReqSendBack, wire.ReqEndTransaction, wire.ReqCreateTopic, wire.ReqDeleteTopicInBroker, wire.ReqGetAllTopicConfig,
	wire.ReqGetTopicConfig, wire.ReqUpdateGroup, wire.ReqDeleteGroup, wire.ReqGetAllGroupConfig, wire.ReqGetGroupConfig,
	wire.ReqGetTopicStats, wire.ReqGetConsumeStats, wire.ReqGetBrokerConfig, wire.ReqGetBrokerRuntimeInfo,
	wire.ReqGetAllConsumerOffset, wire.ReqGetAllDelayOffset, wire.ReqGetAllMessageRequestMode, 25, 324, 9999,
}

// mayAppend are the codes whose success, or a skipped part of it, writes to the log.
func mayAppend(code int32) bool {
	switch code {
	case wire.ReqSendMessage, wire.ReqSendMessageV2, wire.ReqSendBatch, wire.ReqCreateTopic, wire.ReqDeleteTopicInBroker,
		wire.ReqUpdateGroup, wire.ReqDeleteGroup:
		return true
	}
	return false
}

// FuzzServe: whatever a client sends, with any header fields and any body, on any
// code: the broker does not panic, answers exactly once (or holds the pull, or lets
// the answer wait for the log), appends nothing when it refuses, and its state
// stays what the log says.
func FuzzServe(f *testing.F) {
	add := func(code int32, header any, body []byte) {
		q := wire.NewRequest(code, 1, header, body)
		ext := ""
		for _, x := range q.ExtFields() {
			ext += x.Key + "=" + x.Value + "\n"
		}
		for i, c := range fuzzCodes {
			if c == code {
				f.Add(uint8(i), ext, body, false)
			}
		}
	}
	add(wire.ReqSendMessage, sendHeader("T", 1, props("TAGS", "a")), []byte("body"))
	add(wire.ReqSendMessageV2, sendHeader("T", -1, props("DELAY", "1")), []byte("body"))
	batch := sendHeader("T", 1, "")
	batch.Batch = true
	add(wire.ReqSendBatch, batch, batchBody(wire.BatchEntry{Body: []byte("one")}, wire.BatchEntry{Body: []byte("two")}))
	retry := sendHeader("%RETRY%cg", 0, props("DELAY", "3"))
	retry.ReconsumeTimes = 99
	add(wire.ReqSendMessage, retry, []byte("dead"))
	add(wire.ReqPull, pullHeader("T", 0, 0, "a || b"), nil)
	add(wire.ReqPull, suspended("T", 0, 1), nil)
	add(wire.ReqHeartbeat, nil, wire.MarshalBody(wire.HeartbeatData{ClientID: "c", ProducerDataSet: []wire.ProducerData{{GroupName: "pg"}},
		ConsumerDataSet: []wire.ConsumerData{{GroupName: "cg", Subscriptions: []wire.SubscriptionData{sub("T", "a", 1)}}}}))
	add(wire.ReqUpdateConsumerOffset, &wire.UpdateOffsetRequest{ConsumerGroup: "cg", Topic: "T", CommitOffset: 1}, nil)
	add(wire.ReqQueryConsumerOffset, &wire.QueryOffsetRequest{ConsumerGroup: "cg", Topic: "T"}, nil)
	add(wire.ReqSearchOffset, &wire.SearchOffsetRequest{Topic: "T", Timestamp: 1700000000000, BoundaryType: "UPPER"}, nil)
	add(wire.ReqGetEarliestStoreTime, &wire.QueueOffsetRequest{Topic: "T"}, nil)
	add(wire.ReqViewMessage, &wire.ViewMessageRequest{Offset: 100}, nil)
	add(wire.ReqCreateTopic, topicHeader("U", 3), nil)
	add(wire.ReqDeleteTopicInBroker, &wire.TopicRequest{Topic: "T"}, nil)
	add(wire.ReqUpdateGroup, nil, wire.MarshalBody(wire.NewSubscriptionGroup("g2")))
	add(wire.ReqDeleteGroup, &wire.DeleteGroupRequest{GroupName: "cg", CleanOffset: true}, nil)
	add(wire.ReqLockBatch, nil, wire.MarshalBody(wire.LockBatchRequest{ConsumerGroup: "cg", ClientID: "c", Queues: []wire.MessageQueue{{Topic: "T"}}}))
	add(wire.ReqGetConsumeStats, &wire.ConsumeStatsRequest{ConsumerGroup: "cg", TopicList: "T;U"}, nil)
	add(wire.ReqUnregisterClient, &wire.UnregisterClientRequest{ClientID: "c", ConsumerGroup: "cg"}, nil)

	f.Fuzz(func(t *testing.T, which uint8, ext string, body []byte, oneway bool) {
		h := fuzzBench(t)
		code := fuzzCodes[int(which)%len(fuzzCodes)]
		q := h.request(code, nil, body)
		q.Head.Ext = fuzzExt(ext)
		if oneway {
			q.Head.Flag = wire.FlagOneway
		}
		end, records := h.b.log.end, h.metaRecords()
		h.put(1, q)
		appended := h.b.log.end - end // before any Settle: by the request itself
		h.run()
		h.checkFuzz(q, code, appended)
		if !mayAppend(code) && appended != 0 {
			t.Fatalf("code %d appended %d bytes", code, appended)
		}
		_ = records
		h.b.SessionDown(h.now, 1, "done")
		h.run()
		if h.b.pulls.live != 0 || h.b.clients.count != 1 {
			t.Fatalf("a closed session leaves %d pulls and %d clients beside the one of session 2", h.b.pulls.live, h.b.clients.count)
		}
		h.sameMeta()
	})
}

// checkFuzz asserts what holds for every answer.
func (h *bench) checkFuzz(q wire.Frame, code int32, appended ha.LogOffset) {
	h.t.Helper()
	h.pass(h.b.o.FlushConsumerOffsetInterval)
	a := h.answer(1, q.Head.Opaque)
	switch {
	case q.Head.Oneway():
		if a != nil {
			h.t.Fatalf("code %d: a one-way request was answered", code)
		}
		return
	case a == nil && h.b.pulls.live == 1:
		return
	case a == nil:
		h.t.Fatalf("code %d was not answered", code)
	case h.answer(1, q.Head.Opaque) != nil:
		h.t.Fatalf("code %d was answered twice", code)
	}
	if a.Head.Code != wire.CodeSuccess && appended != 0 {
		h.t.Fatalf("code %d was refused with %d %q, and %d bytes were appended", code, a.Head.Code, a.Head.Remark, appended)
	}
	raw, err := wire.AppendFrame(nil, a, wire.JSON)
	if err != nil {
		h.t.Fatalf("code %d: the answer does not encode: %v", code, err)
	}
	if _, _, err = wire.Decode(wire.Remoting, raw); err != nil {
		h.t.Fatalf("code %d: the answer does not decode: %v", code, err)
	}
}

// fuzzBench is a master with a topic, two messages, a group with an offset, and one
// other client.
func fuzzBench(t *testing.T) *bench {
	o := benchOptions()
	o.MappedFileSizeCommitLog = 32 << 10
	h := newBench(t, o)
	h.topic("T", 2)
	h.ok(h.send("T", 0, "a", "m0"))
	h.ok(h.send("T", 0, "b", "m1"))
	h.ok(h.heartbeat(2, "other", "cg", sub("T", "a", 1)))
	h.commit("cg", "T", 0, 1)
	h.pass(h.b.o.FlushConsumerOffsetInterval)
	h.answers = map[node.SessionID][]wire.Frame{}
	return h
}

// fuzzExt reads "key=value" lines.
func fuzzExt(text string) wire.Ext {
	var ext wire.Ext
	for len(text) > 0 && len(ext) < 64 {
		line := text
		if i := indexByte(text, '\n'); i >= 0 {
			line, text = text[:i], text[i+1:]
		} else {
			text = ""
		}
		if i := indexByte(line, '='); i >= 0 {
			ext = append(ext, wire.Field{Key: line[:i], Value: line[i+1:]})
		}
	}
	return ext
}

func indexByte(s string, c byte) int {
	for i := range len(s) {
		if s[i] == c {
			return i
		}
	}
	return -1
}
