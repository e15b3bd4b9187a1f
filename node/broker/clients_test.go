package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/node"
	"lockstep/node/wire"
)

// consumers are the ids of code 38.
func (h *bench) consumers(group string) []string {
	h.t.Helper()
	f := h.call(wire.ReqGetConsumerList, &wire.ConsumerGroupRequest{ConsumerGroup: group}, nil)
	if f.Head.Code != wire.CodeSuccess {
		h.want(f, wire.CodeSystemError, "no consumer for this group, "+group)
		return nil
	}
	var list wire.ConsumerList
	if err := wire.UnmarshalBody(f.Body, &list); err != nil {
		h.t.Fatal(err)
	}
	return list.ConsumerIDs
}

// TestHeartbeat: a consumer's first heartbeat registers it, creates its group and
// its retry topic in the log, and tells the group; a repeated one does neither.
func TestHeartbeat(t *testing.T) {
	h := newBench(t, benchOptions())
	f := h.ok(h.heartbeat(1, "c1", "cg", sub("T", "a", 1)))
	if extInt(t, f, "IS_SUPPORT_HEART_BEAT_V2") != "true" || extInt(t, f, "IS_SUB_CHANGE") != "true" || f.Head.Version < 479 {
		t.Errorf("answer %+v", f)
	}
	if got := h.consumers("cg"); !slices.Equal(got, []string{"c1"}) {
		t.Errorf("consumers %q", got)
	}
	if _, ok := h.b.meta.groups["cg"]; !ok {
		t.Error("the group is not in the replicated table")
	}
	if c, ok := h.b.meta.topics["%RETRY%cg"]; !ok || c.Perm != 6 || c.WriteQueueNums != 1 {
		t.Errorf("retry topic %+v", c)
	}
	if n := h.notices(1, wire.ReqConsumerIDsChanged); n != 1 {
		t.Errorf("%d notices to the new client, want 1", n)
	}
	records := h.metaRecords()
	h.ok(h.heartbeat(1, "c1", "cg", sub("T", "a", 1)))
	if h.notices(1, wire.ReqConsumerIDsChanged) != 0 || h.metaRecords() != records {
		t.Error("a repeated heartbeat told the group or wrote a record")
	}
	h.ok(h.heartbeat(2, "c2", "cg", sub("T", "a", 1)))
	if h.notices(1, wire.ReqConsumerIDsChanged) != 1 || h.notices(2, wire.ReqConsumerIDsChanged) != 1 {
		t.Error("not each client heard of the second one")
	}
	h.ok(h.heartbeat(1, "c1", "cg", sub("T", "b", 2)))
	if h.notices(2, wire.ReqConsumerIDsChanged) != 1 {
		t.Error("a changed subscription is not told (trap 39)")
	}
	if got := h.b.clients.consumers["cg"].subscription("T"); !got.filter.matches('b') || got.filter.matches('a') {
		t.Error("the newer subscription does not count")
	}
	h.ok(h.heartbeat(2, "c2", "cg", sub("T", "a", 1)))
	if got := h.b.clients.consumers["cg"].subscription("T"); !got.filter.matches('b') {
		t.Error("an older subscription replaced a newer one")
	}
	h.sameMeta()
}

// TestClientsLeave: a closed session, an unregistration and silence all end a
// membership, and the rest of the group hears of it (trap 38).
func TestClientsLeave(t *testing.T) {
	h := newBench(t, benchOptions())
	join := func(s node.SessionID, id string) {
		h.ok(h.heartbeat(s, id, "cg", sub("T", "*", 1)))
		for s := range node.SessionID(5) {
			h.notices(s, wire.ReqConsumerIDsChanged)
		}
	}
	join(1, "c1")
	join(2, "c2")
	join(3, "c3")
	h.b.SessionDown(h.now, 3, "closed")
	h.run()
	if got := h.consumers("cg"); !slices.Equal(got, []string{"c1", "c2"}) || h.notices(1, wire.ReqConsumerIDsChanged) != 1 {
		t.Errorf("after a closed session: %q", got)
	}
	// A client that came back on another session does not leave with the old one.
	join(4, "c2")
	h.b.SessionDown(h.now, 2, "closed late")
	h.run()
	if got := h.consumers("cg"); !slices.Equal(got, []string{"c1", "c2"}) {
		t.Errorf("after a late close: %q", got)
	}
	h.ok(h.callOn(4, wire.ReqUnregisterClient, &wire.UnregisterClientRequest{ClientID: "c2", ConsumerGroup: "cg"}, nil))
	if got := h.consumers("cg"); !slices.Equal(got, []string{"c1"}) || h.notices(1, wire.ReqConsumerIDsChanged) != 1 {
		t.Errorf("after unregistering: %q", got)
	}
	join(4, "c2")
	h.pass(119 * time.Second)
	h.ok(h.heartbeat(1, "c1", "cg", sub("T", "*", 1)))
	h.pass(2 * time.Second)
	if got := h.consumers("cg"); !slices.Equal(got, []string{"c1"}) || h.notices(1, wire.ReqConsumerIDsChanged) != 1 {
		t.Errorf("after 120 s of silence: %q", got)
	}
	h.pass(200 * time.Second)
	if got := h.consumers("cg"); got != nil || h.b.clients.count != 0 || len(h.b.clients.sessions) != 0 {
		t.Errorf("at the end: %q, %d members, %d sessions", got, h.b.clients.count, len(h.b.clients.sessions))
	}
	if h.b.clients.nextScan != node.Never {
		t.Error("the broker wakes up for nobody")
	}
}

// TestBroadcastNotTold: members of a broadcasting group share nothing; nor is a
// group told that does not want to be.
func TestBroadcastNotTold(t *testing.T) {
	h := newBench(t, benchOptions())
	quiet := wire.NewSubscriptionGroup("quiet")
	quiet.NotifyConsumerIDsChangedEnable = false
	h.ok(h.call(wire.ReqUpdateGroup, nil, wire.MarshalBody(quiet)))
	for group, model := range map[string]string{"bg": wire.ModelBroadcasting, "quiet": wire.ModelClustering} {
		body := wire.MarshalBody(wire.HeartbeatData{ClientID: "c", ConsumerDataSet: []wire.ConsumerData{{GroupName: group, MessageModel: model}}})
		h.ok(h.call(wire.ReqHeartbeat, nil, body))
		if h.notices(1, wire.ReqConsumerIDsChanged) != 0 {
			t.Errorf("group %s was told", group)
		}
	}
}

// TestHeartbeatV2: a heartbeat without subscriptions keeps those the broker has, and
// asks for the full form when the broker does not have them.
func TestHeartbeatV2(t *testing.T) {
	h := newBench(t, benchOptions())
	beat := func(fingerprint int64, without bool) string {
		d := wire.HeartbeatData{ClientID: "c1", HeartbeatFingerprint: fingerprint, WithoutSub: without,
			ConsumerDataSet: []wire.ConsumerData{{GroupName: "cg", MessageModel: wire.ModelClustering}}}
		if !without {
			d.ConsumerDataSet[0].Subscriptions = []wire.SubscriptionData{sub("T", "a", 1)}
		}
		return extInt(t, h.ok(h.call(wire.ReqHeartbeat, nil, wire.MarshalBody(d))), "IS_SUB_CHANGE")
	}
	if beat(77, true) != "true" {
		t.Error("an unknown client need not send its subscriptions")
	}
	if beat(77, true) != "true" {
		t.Error("asked once, never answered, and taken as known")
	}
	if beat(77, false) != "false" || beat(77, true) != "false" {
		t.Error("the full form is not remembered")
	}
	if h.b.clients.consumers["cg"].subscription("T") == nil {
		t.Error("a heartbeat without subscriptions removed them")
	}
	if beat(78, true) != "true" {
		t.Error("another fingerprint is taken for the known one")
	}
}

// TestHeartbeatRefused: a heartbeat that breaks a limit registers nothing at all.
func TestHeartbeatRefused(t *testing.T) {
	o := benchOptions()
	o.MaxClients, o.MaxSubscriptions = 2, 2
	h := newBench(t, o)
	consumer := func(client, group string, subs ...wire.SubscriptionData) []byte {
		return wire.MarshalBody(wire.HeartbeatData{ClientID: client, ConsumerDataSet: []wire.ConsumerData{{GroupName: "fine"}, {GroupName: group, Subscriptions: subs}}})
	}
	for name, c := range map[string]struct {
		body []byte
		code int32
		say  string
	}{
		"no body":                {nil, 1, "empty"},
		"no JSON":                {[]byte("{]"), 1, "body"},
		"no client id":           {consumer("", "g"), 29, "clientID"},
		"illegal group":          {consumer("c", "a.b"), 29, "illegal"},
		"group too long":         {consumer("c", strings.Repeat("g", 121)), 29, "longer"},
		"too many subscriptions": {consumer("c", "g", sub("A", "*", 1), sub("B", "*", 1), sub("C", "*", 1)), 29, "maxSubscriptions"},
		"illegal topic":          {consumer("c", "g", sub("a.b", "*", 1)), 29, "illegal"},
	} {
		h.want(h.call(wire.ReqHeartbeat, nil, c.body), c.code, c.say)
		if h.b.clients.count != 0 {
			t.Fatalf("%s: something was registered", name)
		}
	}
	h.ok(h.call(wire.ReqHeartbeat, nil, consumer("c1", "g")))
	h.want(h.callOn(2, wire.ReqHeartbeat, nil, consumer("c2", "g")), wire.CodeSystemBusy, "maxClients")
	h.ok(h.call(wire.ReqHeartbeat, nil, consumer("c1", "g"))) // those who are in stay in
	o = benchOptions()
	o.AutoCreateSubscriptionGroup = false
	h = newBench(t, o)
	h.ok(h.heartbeat(1, "c1", "cg", sub("T", "*", 1)))
	if h.consumers("cg") != nil || len(h.b.meta.groups) != 0 {
		t.Error("a group that may not be created was registered (trap 40)")
	}
}

// TestGroupsWait: groups met while the log is not writable are written later (M6),
// and a slave writes none (M7).
func TestGroupsWait(t *testing.T) {
	h := newBench(t, benchOptions())
	h.b.o.MinInSyncReplicas = 2
	h.ok(h.heartbeat(1, "c1", "cg", sub("T", "*", 1)))
	if len(h.b.meta.groups) != 0 || h.consumers("cg") == nil {
		t.Fatal("the group was written below minInSyncReplicas, or does not live in memory")
	}
	h.b.o.MinInSyncReplicas = 1
	h.run()
	if _, ok := h.b.meta.topics["%RETRY%cg"]; !ok || len(h.b.meta.groups) != 1 {
		t.Error("the group was not written once the log was writable")
	}
	h.follow()
	h.ok(h.heartbeat(1, "c1", "other", sub("T", "*", 1)))
	if len(h.b.groups.names) != 0 || h.consumers("other") == nil {
		t.Error("a slave wants to create a group, or does not hold its members")
	}
}

// TestGroupLimit: beyond maxGroups groups work, and are not stored.
func TestGroupLimit(t *testing.T) {
	o := benchOptions()
	o.MaxGroups = 3
	h := newBench(t, o)
	for i := range 5 {
		h.ok(h.heartbeat(1, "c1", fmt.Sprint("g", i), sub("T", "*", 1)))
	}
	if len(h.b.meta.groups) != 3 || h.consumers("g4") == nil {
		t.Errorf("%d groups stored, limit 3", len(h.b.meta.groups))
	}
	h.want(h.call(wire.ReqUpdateGroup, nil, wire.MarshalBody(wire.NewSubscriptionGroup("g9"))), wire.CodeSystemBusy, "maxGroups")
}

// TestConnections is codes 203, 204 and 46.
func TestConnections(t *testing.T) {
	h := newBench(t, benchOptions())
	h.ok(h.heartbeat(3, "c3", "cg", sub("T", "a || b", 1)))
	h.ok(h.callOn(4, wire.ReqHeartbeat, nil, wire.MarshalBody(wire.HeartbeatData{ClientID: "p4", ProducerDataSet: []wire.ProducerData{{GroupName: "pg"}}})))
	var cc wire.ConsumerConnection
	f := h.ok(h.call(wire.ReqGetConsumerConnections, &wire.ConsumerGroupRequest{ConsumerGroup: "cg"}, nil))
	if err := wire.UnmarshalBody(f.Body, &cc); err != nil {
		t.Fatal(err)
	}
	if len(cc.ConnectionSet) != 1 || cc.ConnectionSet[0].ClientAddr != "10.0.1.3:40000" || cc.ConnectionSet[0].ClientID != "c3" ||
		cc.ConnectionSet[0].Language != "GO" || cc.SubscriptionTable["T"].SubString != "a || b" || cc.MessageModel != wire.ModelClustering {
		t.Errorf("consumer connections %+v", cc)
	}
	var pc wire.ProducerConnection
	f = h.ok(h.call(wire.ReqGetProducerConnections, &wire.ProducerGroupRequest{ProducerGroup: "pg"}, nil))
	if err := wire.UnmarshalBody(f.Body, &pc); err != nil || len(pc.ConnectionSet) != 1 || pc.ConnectionSet[0].ClientID != "p4" {
		t.Errorf("producer connections %+v %v", pc, err)
	}
	h.want(h.call(wire.ReqGetConsumerConnections, &wire.ConsumerGroupRequest{ConsumerGroup: "no"}, nil), wire.CodeConsumerNotOnline, "not online")
	h.want(h.call(wire.ReqGetProducerConnections, &wire.ProducerGroupRequest{ProducerGroup: "no"}, nil), wire.CodeSystemError, "not exist")
	check := func(d *wire.SubscriptionData) *wire.Frame {
		return h.call(wire.ReqCheckClientConfig, nil, wire.MarshalBody(wire.CheckClientRequest{ClientID: "c", Group: "cg", Subscription: d}))
	}
	h.ok(check(nil))
	h.ok(check(&wire.SubscriptionData{Topic: "T", SubString: "a"}))
	h.want(check(&wire.SubscriptionData{Topic: "T", SubString: "a > 1", ExpressionType: wire.ExpressionSQL92}), wire.CodeSystemError, "SQL92")
	h.want(check(&wire.SubscriptionData{Topic: "T", SubString: "a", ExpressionType: "XPATH"}), wire.CodeSubscriptionParseFailed, "XPATH")
}

// TestLocks is codes 41 and 42.
func TestLocks(t *testing.T) {
	h := newBench(t, benchOptions())
	body := func(client string, queues ...int32) []byte {
		r := wire.LockBatchRequest{ConsumerGroup: "cg", ClientID: client}
		for _, q := range queues {
			r.Queues = append(r.Queues, wire.MessageQueue{Topic: "T", BrokerName: "broker-a", QueueID: q})
		}
		return wire.MarshalBody(r)
	}
	lock := func(client string, queues ...int32) int {
		var out wire.LockBatchResponse
		if err := wire.UnmarshalBody(h.ok(h.call(wire.ReqLockBatch, nil, body(client, queues...))).Body, &out); err != nil {
			t.Fatal(err)
		}
		return len(out.Locked)
	}
	if lock("c1", 0, 1) != 2 || lock("c2", 0, 1, 2) != 1 || lock("c1", 0, 1) != 2 {
		t.Error("two clients hold one queue, or the owner lost it")
	}
	h.ok(h.call(wire.ReqUnlockBatch, nil, body("c1", 1)))
	if lock("c2", 0, 1) != 1 {
		t.Error("an unlocked queue cannot be locked")
	}
	h.want(h.call(wire.ReqLockBatch, nil, body("", 0)), wire.CodeInvalidParameter, "clientId")
	h.want(h.call(wire.ReqLockBatch, nil, body("c", -1)), wire.CodeInvalidParameter, "no queue")
	h.follow()
	h.want(h.call(wire.ReqLockBatch, nil, body("c1", 0)), wire.CodeSystemError, "no master")
	if h.b.locks.count != 0 {
		t.Error("locks outlive the role")
	}
}

// TestClientsMove: a client that comes back on another session leaves nothing behind on
// the old one, however often that happens.
func TestClientsMove(t *testing.T) {
	h := newBench(t, benchOptions())
	for i := range 50 {
		id := fmt.Sprintf("c%d", i)
		for s := node.SessionID(1); s <= 2; s++ {
			h.ok(h.heartbeat(s, id, "cg", sub("T", "a", 1)))
		}
		h.ok(h.callOn(2, wire.ReqUnregisterClient, &wire.UnregisterClientRequest{ClientID: id, ConsumerGroup: "cg"}, nil))
	}
	if n := len(h.b.clients.sessions); n != 0 || h.b.clients.count != 0 {
		t.Errorf("%d clients, and %d sessions still remember %d of them", h.b.clients.count, n, len(h.b.clients.sessions[1]))
	}
}
