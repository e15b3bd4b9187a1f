package namesrv

import (
	"strings"
	"testing"

	"lockstep/node"
	"lockstep/node/wire"
)

// two registers two groups of one cluster and one of another.
func two(t *testing.T, change func(*Options)) *rig {
	r := newRig(t, change)
	for s := node.SessionID(1); s <= 3; s++ {
		r.up(s)
	}
	r.mustRegister(1, broker{group: "b-1", addr: addrX, cluster: "C", topics: []string{"T", "U", "%RETRY%g"}})
	r.mustRegister(2, broker{group: "b-1", addr: addrY, cluster: "C", role: 1})
	r.mustRegister(3, broker{group: "a-2", addr: addrZ, cluster: "D", topics: []string{"T", "V"}, perm: 4})
	return r
}

// TestBodies pins the exact text of every body that clients and tools read: they
// are compact, keys quoted, in a fixed order (wire contracts 1.6, 5.4).
func TestBodies(t *testing.T) {
	for _, tc := range []struct {
		name   string
		code   int32
		header any
		ext    wire.Ext
		body   []byte
		want   string
	}{
		{"route", wire.ReqGetRoute, &wire.RouteRequest{Topic: "T"}, nil, nil,
			`{"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.3:10911"},"brokerName":"a-2","cluster":"D","enableActingMaster":false},` +
				`{"brokerAddrs":{"0":"10.0.0.1:10911","1":"10.0.0.2:10911"},"brokerName":"b-1","cluster":"C","enableActingMaster":false}],` +
				`"filterServerTable":{},"queueDatas":[{"brokerName":"a-2","perm":4,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4},` +
				`{"brokerName":"b-1","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}`},
		{"cluster info", wire.ReqGetClusterInfo, nil, nil, nil,
			`{"brokerAddrTable":{"a-2":{"brokerAddrs":{"0":"10.0.0.3:10911"},"brokerName":"a-2","cluster":"D","enableActingMaster":false},` +
				`"b-1":{"brokerAddrs":{"0":"10.0.0.1:10911","1":"10.0.0.2:10911"},"brokerName":"b-1","cluster":"C","enableActingMaster":false}},` +
				`"clusterAddrTable":{"C":["b-1"],"D":["a-2"]}}`},
		{"all topics", wire.ReqGetAllTopics, nil, nil, nil, `{"topicList":["%RETRY%g","T","U","V"]}`},
		{"topics of a cluster", wire.ReqTopicsByCluster, nil, wire.Ext{{Key: "cluster", Value: "D"}}, nil, `{"topicList":["T","V"]}`},
		{"topics of no cluster", wire.ReqTopicsByCluster, nil, wire.Ext{{Key: "cluster", Value: "E"}}, nil, `{"topicList":[]}`},
		{"system topics", wire.ReqNamesrvSystemTopics, nil, nil, nil, `{"brokerAddr":"10.0.0.3:10911","topicList":["C","D","a-2","b-1"]}`},
		{"member group", wire.ReqGetMemberGroup, &wire.MemberGroupRequest{ClusterName: "C", BrokerName: "b-1"}, nil, nil,
			`{"brokerMemberGroup":{"brokerAddrs":{"0":"10.0.0.1:10911","1":"10.0.0.2:10911"},"brokerName":"b-1","cluster":"C"}}`},
		{"unknown member group", wire.ReqGetMemberGroup, &wire.MemberGroupRequest{ClusterName: "C", BrokerName: "x"}, nil, nil,
			`{"brokerMemberGroup":{"brokerAddrs":{},"brokerName":"x","cluster":"C"}}`},
		{"data version", wire.ReqQueryDataVersion, &wire.DataVersionRequest{BrokerName: "b-1", BrokerAddr: addrX, ClusterName: "C"}, nil,
			[]byte(`{"counter":2}`), `{"counter":1,"stateVersion":0,"timestamp":1700000000000}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := two(t, nil)
			f := wire.NewRequest(tc.code, 900, tc.header, tc.body)
			if tc.ext != nil {
				f.Head.Ext = tc.ext
			}
			r.n.Receive(r.now, 1, &f)
			r.settle()
			got := r.sent[1][len(r.sent[1])-1]
			if got.Head.Code != 0 || string(got.Body) != tc.want {
				t.Errorf("code %d %q, body\n%s\nwant\n%s", got.Head.Code, got.Head.Remark, got.Body, tc.want)
			}
		})
	}
}

func TestDeleteTopic(t *testing.T) {
	r := two(t, nil)
	del := func(topic, cluster string) {
		t.Helper()
		f := r.call(1, wire.ReqDeleteTopicInNamesrv, &wire.DeleteTopicInNamesrvRequest{Topic: topic, ClusterName: cluster}, nil)
		if f.Head.Code != 0 {
			t.Fatalf("answer %+v", f.Head)
		}
	}
	del("T", "D")
	r.wantRoute("T", "a-2", "")
	r.wantRoute("T", "b-1", "0=10.0.0.1 1=10.0.0.2")
	del("T", "")
	r.wantRoute("T", "b-1", "")
	del("T", "") // absent: success all the same
	// It comes back only with a changed registration or as a missing entry.
	r.mustRegister(1, broker{group: "b-1", addr: addrX, cluster: "C"})
	r.wantRoute("T", "b-1", "0=10.0.0.1 1=10.0.0.2")
}

func TestTopicListsCanBeOff(t *testing.T) {
	r := two(t, func(o *Options) { o.EnableAllTopicList, o.EnableTopicList = false, false })
	for _, code := range []int32{wire.ReqGetAllTopics, wire.ReqTopicsByCluster} {
		f := wire.NewRequest(code, 900, nil, nil)
		f.Head.Ext = wire.Ext{{Key: "cluster", Value: "C"}}
		r.n.Receive(r.now, 1, &f)
		r.settle()
		got := r.sent[1][len(r.sent[1])-1].Head
		if got.Code != wire.CodeSystemError || !strings.Contains(got.Remark, "TopicList=false") {
			t.Errorf("code %d: answer %+v", code, got)
		}
	}
}

// TestKeyValues walks codes 100, 101, 102 and 219, and their use for ordered
// topics.
func TestKeyValues(t *testing.T) {
	r := newRig(t, func(o *Options) { o.OrderMessageEnable, o.MaxConfigEntries, o.MaxConfigBytes = true, 2, 40 })
	r.up(1)
	put := func(ns, key, value string) wire.Frame {
		return r.call(1, wire.ReqPutKV, &wire.KVRequest{Namespace: ns, Key: key, Value: value}, nil)
	}
	get := func(ns, key string) wire.Frame {
		return r.call(1, wire.ReqGetKV, &wire.KVRequest{Namespace: ns, Key: key}, nil)
	}
	if f := get("n", "k"); f.Head.Code != wire.CodeQueryNotFound {
		t.Fatalf("answer %+v", f.Head)
	}
	if f := put(orderTopicConfig, "T", "g:4"); f.Head.Code != 0 {
		t.Fatalf("answer %+v", f.Head)
	}
	put("n", "k", "v")
	var h wire.KVResponse
	if f := get("n", "k"); f.Head.Code != 0 || f.Header(&h) != nil || h.Value != "v" {
		t.Fatalf("answer %+v", f.Head)
	}
	if f := put("n", "k2", "v"); f.Head.Code != wire.CodeSystemError || !strings.Contains(f.Head.Remark, "maxConfigEntries") {
		t.Fatalf("answer %+v", f.Head)
	}
	if f := put("n", "k", strings.Repeat("v", 41)); f.Head.Code != wire.CodeInvalidParameter || !strings.Contains(f.Head.Remark, "maxConfigBytes") {
		t.Fatalf("answer %+v", f.Head)
	}
	if f := put("", "k", "v"); f.Head.Code == 0 {
		t.Fatal("an empty namespace was taken")
	}
	list := func(ns string) wire.Frame {
		return r.call(1, wire.ReqGetKVList, &wire.KVRequest{Namespace: ns}, nil)
	}
	if f := list(orderTopicConfig); string(f.Body) != `{"table":{"T":"g:4"}}` {
		t.Fatalf("list %s", f.Body)
	}
	// Ordered topics travel with routes and with the answers to registrations.
	if f := r.register(1, broker{group: "g", addr: addrX}); string(f.Body) != `{"table":{"T":"g:4"}}` {
		t.Fatalf("registration answer %s", f.Body)
	}
	if f := r.call(1, wire.ReqGetRoute, &wire.RouteRequest{Topic: "T"}, nil); !strings.Contains(string(f.Body), `"orderTopicConf":"g:4"`) {
		t.Fatalf("route %s", f.Body)
	}
	for range 2 { // the second time it is absent: success all the same
		if f := r.call(1, wire.ReqDeleteKV, &wire.KVRequest{Namespace: "n", Key: "k"}, nil); f.Head.Code != 0 {
			t.Fatalf("answer %+v", f.Head)
		}
	}
	if f := list("n"); f.Head.Code != wire.CodeQueryNotFound {
		t.Fatalf("answer %+v", f.Head)
	}
}

// TestBadRequests: the right code, a remark that says what was wrong, no change.
func TestBadRequests(t *testing.T) {
	for _, tc := range []struct {
		name string
		code int32
		ext  wire.Ext
		body string
		want int32
		text string
	}{
		{"unknown code", 4711, nil, "", wire.CodeRequestCodeNotSupported, " request type 4711 not supported"},
		{"config change", wire.ReqUpdateNamesrvConfig, nil, "rocketmqHome=/etc", wire.CodeRequestCodeNotSupported, "318"},
		{"route without topic", wire.ReqGetRoute, nil, "", wire.CodeSystemError, "topic"},
		{"route of an empty topic", wire.ReqGetRoute, wire.Ext{{Key: "topic", Value: ""}}, "", wire.CodeInvalidParameter, "empty"},
		{"route of a long topic", wire.ReqGetRoute, wire.Ext{{Key: "topic", Value: strings.Repeat("t", 300)}}, "", wire.CodeInvalidParameter, "255"},
		{"unregister without id", wire.ReqUnregisterBroker, wire.Ext{{Key: "brokerName", Value: "g"}, {Key: "brokerAddr", Value: addrX}, {Key: "clusterName", Value: "C"}}, "", wire.CodeSystemError, "brokerId"},
		{"unregister with a bad id", wire.ReqUnregisterBroker, wire.Ext{{Key: "brokerName", Value: "g"}, {Key: "brokerAddr", Value: addrX}, {Key: "clusterName", Value: "C"}, {Key: "brokerId", Value: "zero"}}, "", wire.CodeSystemError, "brokerId"},
		{"heartbeat without address", wire.ReqBrokerHeartbeat, wire.Ext{{Key: "brokerName", Value: "g"}, {Key: "clusterName", Value: "C"}}, "", wire.CodeSystemError, "brokerAddr"},
		{"data version without body", wire.ReqQueryDataVersion, wire.Ext{{Key: "brokerName", Value: "g"}, {Key: "brokerAddr", Value: addrX}, {Key: "clusterName", Value: "C"}, {Key: "brokerId", Value: "0"}}, "", wire.CodeSystemError, "body"},
		{"delete without topic", wire.ReqDeleteTopicInNamesrv, nil, "", wire.CodeSystemError, "topic"},
		{"group without cluster", wire.ReqGetMemberGroup, wire.Ext{{Key: "brokerName", Value: "g"}}, "", wire.CodeSystemError, "clusterName"},
		{"put without value's place", wire.ReqPutKV, wire.Ext{{Key: "key", Value: "k"}}, "", wire.CodeSystemError, "namespace"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := two(t, nil)
			before := r.n.digest()
			f := wire.NewRequest(tc.code, 900, nil, []byte(tc.body))
			f.Head.Ext = tc.ext
			r.n.Receive(r.now, 1, &f)
			r.settle()
			got := r.sent[1][len(r.sent[1])-1].Head
			if got.Code != tc.want || !strings.Contains(got.Remark, tc.text) {
				t.Errorf("answer %d %q, want %d with %q", got.Code, got.Remark, tc.want, tc.text)
			}
			if r.n.digest() != before {
				t.Error("the tables changed")
			}
			// The same one-way: no answer.
			n := len(r.sent[1])
			f.Head.Flag = wire.FlagOneway
			r.n.Receive(r.now, 1, &f)
			r.settle()
			if len(r.sent[1]) != n {
				t.Error("a one-way request was answered")
			}
		})
	}
}

// TestStrangersAreIgnored: frames of unknown sessions, and responses.
func TestStrangersAreIgnored(t *testing.T) {
	r := two(t, nil)
	f := wire.NewRequest(wire.ReqGetAllTopics, 1, nil, nil)
	r.n.Receive(r.now, 77, &f)
	f.Head.Flag = wire.FlagResponse
	before := len(r.sent[1])
	r.n.Receive(r.now, 1, &f)
	r.n.SessionDown(r.now, 77, "never was")
	r.settle()
	if len(r.sent[77]) != 0 || len(r.sent[1]) != before {
		t.Fatalf("sent %v", r.sent)
	}
}
