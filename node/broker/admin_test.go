package broker

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"lockstep/node/wire"
	"lockstep/storage"
)

// TestCreateTopic is code 17: what it accepts is in the log and in the table that
// name servers get; what it refuses changes nothing.
func TestCreateTopic(t *testing.T) {
	o := benchOptions()
	o.MaxTopics = 3
	h := newBench(t, o)
	change := func(f func(c *wire.CreateTopicRequest)) *wire.CreateTopicRequest {
		c := topicHeader("T", 4)
		f(c)
		return c
	}
	for name, c := range map[string]struct {
		header *wire.CreateTopicRequest
		code   int32
		say    string
	}{
		"illegal name":     {change(func(c *wire.CreateTopicRequest) { c.Topic = "a.b" }), 29, "illegal"},
		"system topic":     {change(func(c *wire.CreateTopicRequest) { c.Topic = templateTopic }), 29, "system topic"},
		"own topic":        {change(func(c *wire.CreateTopicRequest) { c.Topic = storage.MetaTopic }), 29, "system topic"},
		"negative queues":  {change(func(c *wire.CreateTopicRequest) { c.ReadQueueNums = -1 }), 29, "-1 queues"},
		"too many queues":  {change(func(c *wire.CreateTopicRequest) { c.WriteQueueNums = maxQueues + 1 }), 29, "queues"},
		"no queue":         {change(func(c *wire.CreateTopicRequest) { c.ReadQueueNums, c.WriteQueueNums = 0, 0 }), 29, "no queue"},
		"illegal perm":     {change(func(c *wire.CreateTopicRequest) { c.Perm = 8 }), 29, "perm 8"},
		"filter type":      {change(func(c *wire.CreateTopicRequest) { c.TopicFilterType = "ALL" }), 29, "ALL"},
		"bad attribute":    {change(func(c *wire.CreateTopicRequest) { c.Attributes = "+message.type=ODD" }), 1, "message.type"},
		"delete attribute": {change(func(c *wire.CreateTopicRequest) { c.Attributes = "-message.type" }), 1, "neither"},
	} {
		end := h.b.log.end
		f := h.call(wire.ReqCreateTopic, c.header, nil)
		if f.Head.Code != c.code || !strings.Contains(f.Head.Remark, c.say) || h.b.log.end != end {
			t.Errorf("%s: %d %q, want %d with %q and nothing appended", name, f.Head.Code, f.Head.Remark, c.code, c.say)
		}
	}
	h.stuck = true
	req := h.request(wire.ReqCreateTopic, change(func(c *wire.CreateTopicRequest) { c.Attributes = "+message.type=FIFO" }), nil)
	h.put(1, req)
	h.run()
	if h.answer(1, req.Head.Opaque) != nil {
		t.Error("answered before the record was durable (M5)")
	}
	h.unstick()
	h.ok(h.answer(1, req.Head.Opaque))
	if c := h.b.topicTable().TopicConfigTable["T"]; c.Attributes["message.type"] != "FIFO" || c.Perm != 6 {
		t.Errorf("registered %+v", c)
	}
	records, version := h.metaRecords(), h.b.topicTable().DataVersion
	h.ok(h.call(wire.ReqCreateTopic, topicHeader("T", 4), nil)) // equal: attributes stay
	if h.metaRecords() != records || h.b.topicTable().DataVersion != version {
		t.Error("an equal configuration made a record or a new version")
	}
	h.ok(h.call(wire.ReqCreateTopic, topicHeader("T", 8), nil))
	if h.b.topicTable().DataVersion == version {
		t.Error("a changed topic keeps the table's version (trap 42)")
	}
	h.topic("T2", 1)
	h.topic("T3", 1)
	h.want(h.call(wire.ReqCreateTopic, topicHeader("T4", 1), nil), wire.CodeSystemBusy, "maxTopics")
	h.want(h.send("Auto", 0, "a", "x"), wire.CodeTopicNotExist, "maxTopics")
	h.sameMeta()
}

// TestTopicRequests is codes 215, 21 and 351.
func TestTopicRequests(t *testing.T) {
	h := newBench(t, benchOptions())
	h.topic("T", 4)
	config := func(topic string) *wire.Frame {
		return h.call(wire.ReqGetTopicConfig, &wire.TopicRequest{Topic: topic}, nil)
	}
	if f := h.ok(config("T")); !strings.Contains(string(f.Body), `"topicName":"T"`) {
		t.Errorf("config %s", f.Body)
	}
	h.ok(config(h.b.o.BrokerClusterName)) // topicStatus -c asks for it (trap 46)
	h.want(config("None"), wire.CodeTopicNotExist, "None")
	var table wire.TopicConfigWrapper
	f := h.ok(h.call(wire.ReqGetAllTopicConfig, nil, nil))
	if err := wire.UnmarshalBody(f.Body, &table); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"T", templateTopic, "broker-a", "DefaultCluster", selfTestTopic, offsetMoved} {
		if _, ok := table.TopicConfigTable[name]; !ok {
			t.Errorf("code 21 leaves out %s", name)
		}
	}
	if _, ok := table.TopicConfigTable[storage.MetaTopic]; ok {
		t.Error("the metadata topic is shown to clients")
	}
	total := extInt(t, f, "totalTopicNum")
	paged := h.ok(h.call(wire.ReqGetAllTopicConfig, &wire.AllTopicConfigRequest{TopicSeq: 1, MaxTopicNum: 2}, nil))
	table = wire.TopicConfigWrapper{}
	if err := wire.UnmarshalBody(paged.Body, &table); err != nil || len(table.TopicConfigTable) != 2 || extInt(t, paged, "totalTopicNum") != total {
		t.Errorf("page of %d topics, %v", len(table.TopicConfigTable), err)
	}
	h.want(h.call(wire.ReqDeleteTopicInBroker, &wire.TopicRequest{Topic: " "}, nil), wire.CodeInvalidParameter, "blank")
	h.want(h.call(wire.ReqDeleteTopicInBroker, &wire.TopicRequest{Topic: templateTopic}, nil), wire.CodeInvalidParameter, "system")
	h.ok(h.call(wire.ReqDeleteTopicInBroker, &wire.TopicRequest{Topic: "None"}, nil))
	h.ok(h.call(wire.ReqDeleteTopicInBroker, &wire.TopicRequest{Topic: "T"}, nil))
	h.want(config("T"), wire.CodeTopicNotExist, "")
	h.sameMeta()
	h.restart(false, h.b.o)
	h.lead()
	if _, ok := h.b.topic("T"); ok {
		t.Error("a deleted topic came back with a restart")
	}
}

// TestGroupRequests is codes 200, 207, 201 and 352.
func TestGroupRequests(t *testing.T) {
	h := newBench(t, benchOptions())
	update := func(change func(c *wire.SubscriptionGroupConfig)) *wire.Frame {
		c := wire.NewSubscriptionGroup("cg")
		change(&c)
		return h.call(wire.ReqUpdateGroup, nil, wire.MarshalBody(c))
	}
	h.want(update(func(c *wire.SubscriptionGroupConfig) { c.GroupName = "" }), wire.CodeInvalidParameter, "blank")
	h.want(update(func(c *wire.SubscriptionGroupConfig) { c.GroupName = "a.b" }), wire.CodeInvalidParameter, "illegal")
	h.want(update(func(c *wire.SubscriptionGroupConfig) { c.RetryQueueNums = -1 }), wire.CodeInvalidParameter, "retryQueueNums")
	h.want(update(func(c *wire.SubscriptionGroupConfig) { c.BrokerID = -1 }), wire.CodeInvalidParameter, "brokerId")
	h.want(h.call(wire.ReqUpdateGroup, nil, []byte("{")), wire.CodeSystemError, "body")
	if len(h.b.meta.groups) != 0 {
		t.Error("a refused group was stored")
	}
	h.ok(update(func(c *wire.SubscriptionGroupConfig) { c.RetryMaxTimes = 3 }))
	var c wire.SubscriptionGroupConfig
	get := func(group string) *wire.Frame {
		return h.call(wire.ReqGetGroupConfig, &wire.GroupConfigRequest{Group: group}, nil)
	}
	if err := wire.UnmarshalBody(h.ok(get("cg")).Body, &c); err != nil || c.RetryMaxTimes != 3 || !c.ConsumeEnable {
		t.Errorf("group %+v %v", c, err)
	}
	h.ok(get("TOOLS_CONSUMER"))
	h.want(get("none"), wire.CodeGroupNotExist, "none")
	var all wire.GroupConfigWrapper
	f := h.ok(h.call(wire.ReqGetAllGroupConfig, nil, nil))
	if err := wire.UnmarshalBody(f.Body, &all); err != nil || len(all.Groups) != 1+len(systemGroups) || all.DataVersion.Counter == 0 {
		t.Errorf("%d groups, version %+v, %v", len(all.Groups), all.DataVersion, err)
	}
	h.want(h.call(wire.ReqDeleteGroup, &wire.DeleteGroupRequest{GroupName: "TOOLS_CONSUMER"}, nil), wire.CodeInvalidParameter, "cannot be deleted")
	h.ok(h.call(wire.ReqDeleteGroup, &wire.DeleteGroupRequest{GroupName: "cg"}, nil))
	h.ok(h.call(wire.ReqDeleteGroup, &wire.DeleteGroupRequest{GroupName: "cg"}, nil))
	h.want(get("cg"), wire.CodeGroupNotExist, "cg")
	h.sameMeta()
}

// TestStats is codes 202 and 208, with times from memory and from disk.
func TestStats(t *testing.T) {
	for _, cold := range []bool{false, true} {
		h := newBench(t, benchOptions())
		h.topic("T", 2)
		for range 3 {
			h.ok(h.send("T", 0, "a", "m"))
			h.now.Wall += 1000
		}
		h.commit("cg", "T", 0, 2)
		h.pass(time.Second)
		if cold {
			h.cool()
		}
		f := h.ok(h.call(wire.ReqGetTopicStats, &wire.TopicRequest{Topic: "T"}, nil))
		want := `{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:{"lastUpdateTimestamp":1700000002000,"maxOffset":3,"minOffset":0},` +
			`{"brokerName":"broker-a","queueId":1,"topic":"T"}:{"lastUpdateTimestamp":0,"maxOffset":0,"minOffset":0}},"topicPutTps":0`
		if !strings.HasPrefix(string(f.Body), want) {
			t.Errorf("cold %v, code 202:\n%s\nwant\n%s", cold, f.Body, want)
		}
		f = h.ok(h.call(wire.ReqGetConsumeStats, &wire.ConsumeStatsRequest{ConsumerGroup: "cg"}, nil))
		if text := string(f.Body); !strings.Contains(text, `"brokerOffset":3,"consumerOffset":2,"lastTimestamp":1700000001000,"pullOffset":2`) {
			t.Errorf("cold %v, code 208: %s", cold, text)
		}
		h.want(h.call(wire.ReqGetTopicStats, &wire.TopicRequest{Topic: "None"}, nil), wire.CodeTopicNotExist, "")
		f = h.ok(h.call(wire.ReqGetConsumeStats, &wire.ConsumeStatsRequest{ConsumerGroup: "none"}, nil))
		if !strings.Contains(string(f.Body), `"offsetTable":{}`) {
			t.Errorf("unknown group: %s", f.Body)
		}
	}
}

// TestBrokerState is codes 26, 28, 43, 45, 402, and the codes nobody handles.
func TestBrokerState(t *testing.T) {
	h := newBench(t, benchOptions())
	h.topic("T", 1)
	h.ok(h.send("T", 0, "a", "m"))
	h.commit("cg", "T", 0, 1)
	f := h.ok(h.call(wire.ReqGetBrokerConfig, nil, nil))
	if !strings.Contains(string(f.Body), "brokerName=broker-a\n") || !strings.Contains(extInt(t, f, "version"), "counter") {
		t.Errorf("code 26: %s", f.Body)
	}
	var table wire.KVTable
	if err := wire.UnmarshalBody(h.ok(h.call(wire.ReqGetBrokerRuntimeInfo, nil, nil)).Body, &table); err != nil {
		t.Fatal(err)
	}
	if _, err := strconv.ParseInt(table.Table["earliestMessageTimeStamp"], 10, 64); err != nil {
		t.Error("earliestMessageTimeStamp:", err) // clusterList aborts (trap 47)
	}
	if _, err := strconv.ParseFloat(table.Table["commitLogDiskRatio"], 64); err != nil {
		t.Error("commitLogDiskRatio:", err)
	}
	for key, want := range map[string]string{"brokerVersionDesc": "V5_3_3", "putMessageTimesTotal": "1", "brokerActive": "true", "putTps": "0 0 0"} {
		if table.Table[key] != want {
			t.Errorf("%s is %q, want %q", key, table.Table[key], want)
		}
	}
	if f := h.ok(h.call(wire.ReqGetAllConsumerOffset, nil, nil)); !strings.Contains(string(f.Body), `"T@cg":{"0":1}`) {
		t.Errorf("code 43: %s", f.Body)
	}
	h.ok(h.call(wire.ReqGetAllDelayOffset, nil, nil))
	h.ok(h.call(wire.ReqGetAllMessageRequestMode, nil, nil))
	for _, code := range []int32{0, 13, 25, 324, 2001, 200050, -5, 1 << 30} {
		h.want(h.call(code, nil, nil), wire.CodeRequestCodeNotSupported, " request type "+strconv.Itoa(int(code))+" not supported")
	}
	oneway := h.request(9999, nil, nil)
	oneway.Head.Flag = wire.FlagOneway
	h.put(1, oneway)
	response := h.request(wire.ReqPull, nil, nil)
	response.Head.Flag = wire.FlagResponse
	h.put(1, response)
	h.run()
	if h.answer(1, oneway.Head.Opaque) != nil || h.answer(1, response.Head.Opaque) != nil {
		t.Error("a one-way request or a response was answered (trap 2)")
	}
}

// TestDeletedTopicStaysGone: a topic created again under the name of a deleted one
// goes on counting, shows nothing of the old one, and its groups start where it
// begins; also after a restart, and until retention has removed what was below.
func TestDeletedTopicStaysGone(t *testing.T) {
	o := benchOptions()
	o.MetaCheckpointBytes = 8 << 10
	h := newBench(t, o)
	h.topic("T", 2)
	for range 3 {
		h.ok(h.send("T", 0, "a", "old"))
	}
	h.ok(h.call(wire.ReqDeleteTopicInBroker, &wire.TopicRequest{Topic: "T"}, nil))
	h.topic("T", 2)
	check := func(what string, messages ...string) {
		t.Helper()
		if got := extInt(t, h.ok(h.query("new", "T", 0)), "offset"); got != "3" {
			t.Errorf("%s: a new group starts at %s, want 3", what, got)
		}
		f := h.pull("T", 0, 0, "*")
		h.want(f, wire.CodePullOffsetMoved, "OFFSET_TOO_SMALL")
		if r, _ := f.PullResponse(); r.NextBeginOffset != 3 || r.MinOffset != 3 {
			t.Errorf("%s: next %d min %d, want 3", what, r.NextBeginOffset, r.MinOffset)
		}
		if got := bodies(t, h.pull("T", 0, 3, "*")); strings.Join(got, " ") != strings.Join(messages, " ") {
			t.Errorf("%s: messages %q, want %q", what, got, messages)
		}
		if got := extInt(t, h.ok(h.call(wire.ReqSearchOffset, &wire.SearchOffsetRequest{Topic: "T", Timestamp: 1}, nil)), "offset"); len(messages) > 0 && got != "3" {
			t.Errorf("%s: search by time finds %s, want 3", what, got)
		}
	}
	check("empty")
	h.ok(h.send("T", 0, "a", "new"))
	check("with a message", "new")
	h.cool()
	check("on disk", "new")
	h.sameMeta()
	h.restart(false, o)
	h.lead()
	check("after a restart", "new")
	h.b.queueOf("T", 0).min = 3 // retention removed the old ones
	for range 12 {
		h.ok(h.send("T", 1, "a", strings.Repeat("x", 1<<10)))
	}
	if len(h.b.meta.floors) != 0 {
		t.Error("a floor below everything stored is kept for ever")
	}
	h.sameMeta()
}
