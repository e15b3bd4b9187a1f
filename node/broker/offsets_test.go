package broker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockstep/node/wire"
)

// TestCommitCoalesced: whatever is committed within an interval becomes one record
// (M4); each request is answered when that record satisfied the policy (M5), and
// the offsets are in the log from then on (M1).
func TestCommitCoalesced(t *testing.T) {
	h := newBench(t, benchOptions())
	h.topic("T", 4)
	for q := range int32(4) {
		for i := range 10 {
			h.ok(h.send("T", q, "a", fmt.Sprint("m", i)))
		}
	}
	h.ok(h.heartbeat(1, "c1", "cg", sub("T", "*", 1)))
	before := h.metaRecords()
	var ops []int32
	for round := range int64(3) {
		for q := range int32(4) {
			ops = append(ops, h.commit("cg", "T", q, 5+round))
		}
		h.pass(50 * time.Millisecond)
	}
	if got := extInt(t, h.ok(h.query("cg", "T", 2)), "offset"); got != "7" {
		t.Errorf("code 14 sees %s at once, want 7", got)
	}
	for _, op := range ops {
		if h.answer(1, op) != nil {
			t.Fatal("a commit was answered before its record was written")
		}
	}
	h.stuck = true
	h.pass(100 * time.Millisecond)
	if h.metaRecords() != before+1 {
		t.Fatalf("%d records for one interval, want 1", h.metaRecords()-before)
	}
	for _, op := range ops {
		if h.answer(1, op) != nil {
			t.Fatal("a commit was answered before its record was durable")
		}
	}
	h.unstick()
	for _, op := range ops {
		h.ok(h.answer(1, op))
	}
	if h.b.meta.offset(offsetKey{"cg", "T"}, 3) != 7 {
		t.Error("the offset is not in the replicated table")
	}
	// Nothing new: a repeated commit is answered and writes nothing; idle writes nothing.
	op := h.commit("cg", "T", 0, 7)
	h.pass(time.Minute)
	h.ok(h.answer(1, op))
	if h.metaRecords() != before+1 {
		t.Errorf("%d records, want none for what the log has", h.metaRecords()-before-1)
	}
	h.sameMeta()
	h.restart(false, h.b.o)
	if got := h.b.meta.offset(offsetKey{"cg", "T"}, 1); got != 7 {
		t.Errorf("after a crash the offset is %d, want 7: it was acknowledged", got)
	}
}

// TestCommitRefused lists what code 15 refuses; nothing of it may show in code 14.
func TestCommitRefused(t *testing.T) {
	o := benchOptions()
	o.AutoCreateSubscriptionGroup, o.MaxOffsetRows = false, 1
	h := newBench(t, o)
	h.topic("T", 2)
	h.topic("U", 2)
	h.ok(h.send("T", 0, "a", "m0"))
	h.ok(h.call(wire.ReqUpdateGroup, nil, wire.MarshalBody(wire.NewSubscriptionGroup("cg"))))
	for name, c := range map[string]struct {
		header any
		code   int32
		say    string
	}{
		"unknown group":  {&wire.UpdateOffsetRequest{ConsumerGroup: "nobody", Topic: "T"}, 26, "nobody"},
		"unknown topic":  {&wire.UpdateOffsetRequest{ConsumerGroup: "cg", Topic: "None"}, 17, "None"},
		"negative queue": {&wire.UpdateOffsetRequest{ConsumerGroup: "cg", Topic: "T", QueueID: -1}, 29, "QueueId -1"},
		"huge queue":     {&wire.UpdateOffsetRequest{ConsumerGroup: "cg", Topic: "T", QueueID: 1 << 30}, 29, "QueueId"},
		"beyond the end": {&wire.UpdateOffsetRequest{ConsumerGroup: "cg", Topic: "T", CommitOffset: 2}, 29, "0..1"},
		"negative":       {&wire.UpdateOffsetRequest{ConsumerGroup: "cg", Topic: "T", CommitOffset: -1}, 29, "Offset -1"},
		"no offset":      {&wire.QueueOffsetRequest{Topic: "T"}, 29, "consumerGroup"},
	} {
		f := h.call(wire.ReqUpdateConsumerOffset, c.header, nil)
		if f == nil || f.Head.Code != c.code || !strings.Contains(f.Head.Remark, c.say) {
			t.Errorf("%s: %+v, want %d with %q", name, f, c.code, c.say)
		}
	}
	if len(h.b.commits.dirty) != 0 {
		t.Error("a refused commit was kept")
	}
	op := h.commit("cg", "T", 0, 1)
	h.pass(time.Second)
	h.ok(h.answer(1, op))
	h.want(h.call(wire.ReqUpdateConsumerOffset, &wire.UpdateOffsetRequest{ConsumerGroup: "cg", Topic: "U"}, nil), wire.CodeSystemBusy, "maxOffsetRows")
	h.follow()
	h.want(h.call(wire.ReqUpdateConsumerOffset, &wire.UpdateOffsetRequest{ConsumerGroup: "cg", Topic: "T", CommitOffset: 1}, nil), wire.CodeSlaveNotAvailable, "no master")
	if len(h.b.commits.dirty) != 0 {
		t.Error("a slave kept a commit (M7)")
	}
}

// TestCommitOverlay: while the log is not writable consumers live on: code 14 sees
// their commits, code 15 says that they are in memory only, and they go into the
// log once it is writable (M6).
func TestCommitOverlay(t *testing.T) {
	h := newBench(t, benchOptions())
	h.topic("T", 1)
	h.ok(h.send("T", 0, "a", "m0"))
	h.b.o.MinInSyncReplicas = 2
	records := h.metaRecords()
	op := h.commit("cg", "T", 0, 1)
	h.pass(time.Second)
	h.want(h.answer(1, op), wire.CodeSystemError, "memory only")
	if got := extInt(t, h.ok(h.query("cg", "T", 0)), "offset"); got != "1" {
		t.Errorf("code 14 sees %s, want the overlay's 1", got)
	}
	if h.metaRecords() != records {
		t.Error("a record was written below minInSyncReplicas")
	}
	h.b.o.MinInSyncReplicas = 1
	h.pass(time.Second)
	if h.b.meta.offset(offsetKey{"cg", "T"}, 0) != 1 {
		t.Error("the overlay was not written once the log was writable")
	}
	h.b.o.MinInSyncReplicas = 2
	op = h.commit("cg", "T", 0, 0)
	h.follow()
	h.want(h.answer(1, op), wire.CodeSlaveNotAvailable, "role")
	if off := h.b.committed(offsetKey{"cg", "T"}, 0); off != 1 {
		t.Errorf("offset %d after the role ended, want the log's 1", off)
	}
}

// TestQueryOffset is code 14 for groups without an offset (trap 35): 0 on a young
// or empty queue, 22 on an old one, whether or not its data is in memory.
func TestQueryOffset(t *testing.T) {
	o := benchOptions()
	o.YoungTopicBytes = 8 << 10
	h := newBench(t, o)
	h.topic("T", 2)
	zero := func(what string, f *wire.Frame) {
		t.Helper()
		if got := extInt(t, h.ok(f), "offset"); got != "0" {
			t.Errorf("%s: offset %s, want 0", what, got)
		}
	}
	zero("empty queue", h.query("cg", "T", 0))
	zero("unknown topic", h.query("cg", "None", 0))
	h.ok(h.send("T", 0, "a", "first"))
	zero("young queue", h.query("cg", "T", 0))
	h.want(h.call(wire.ReqQueryConsumerOffset, &wire.QueryOffsetRequest{ConsumerGroup: "cg", Topic: "T", KeepUnset: true}, nil), wire.CodeQueryNotFound, "")
	h.ok(h.send("T", 1, "a", strings.Repeat("x", 9<<10)))
	h.want(h.query("cg", "T", 0), wire.CodeQueryNotFound, "")
	h.ok(h.send("Other", 0, "a", "young in an old log"))
	zero("young queue of an old log", h.query("cg", "Other", 0))
	h.cool()
	h.want(h.query("cg", "T", 0), wire.CodeQueryNotFound, "")
	zero("young queue on disk", h.query("cg", "Other", 0))
	if h.reads == 0 {
		t.Error("the disk was never asked")
	}
	h.b.queueOf("T", 0).min = 1
	h.want(h.query("cg", "T", 0), wire.CodeQueryNotFound, "")
}

// TestDeleteForgetsCommits: offsets that were pending when their topic or group was
// deleted do not come back with the next record.
func TestDeleteForgetsCommits(t *testing.T) {
	h := newBench(t, benchOptions())
	h.topic("T", 1)
	h.topic("U", 1)
	h.ok(h.send("T", 0, "a", "m"))
	h.ok(h.send("U", 0, "a", "m"))
	h.commit("cg", "T", 0, 1)
	h.commit("cg", "U", 0, 1)
	h.commit("dg", "U", 0, 1)
	h.ok(h.call(wire.ReqDeleteTopicInBroker, &wire.TopicRequest{Topic: "T"}, nil))
	h.ok(h.call(wire.ReqDeleteGroup, &wire.DeleteGroupRequest{GroupName: "dg", CleanOffset: true}, nil))
	h.pass(time.Second)
	for _, c := range []struct {
		key  offsetKey
		want int64
	}{{offsetKey{"cg", "T"}, noOffset}, {offsetKey{"dg", "U"}, noOffset}, {offsetKey{"cg", "U"}, 1}} {
		if got := h.b.committed(c.key, 0); got != c.want {
			t.Errorf("%v has offset %d, want %d", c.key, got, c.want)
		}
	}
	h.sameMeta()
}
