package wire

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/internal/ha"
)

var bodyGolden = []struct {
	name string
	body any
	text string
}{
	{"route", RouteData{
		BrokerDatas: []BrokerData{{BrokerAddrs: map[int64]string{10: "c:3", 0: "10.0.0.1:10911", 2: "b:2"}, BrokerName: "broker-a", Cluster: "DefaultCluster"}},
		QueueDatas:  []QueueData{{BrokerName: "broker-a", Perm: 6, ReadQueueNums: 4, WriteQueueNums: 4}},
	}, `{"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.1:10911","2":"b:2","10":"c:3"},"brokerName":"broker-a","cluster":"DefaultCluster","enableActingMaster":false}],` +
		`"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}`},
	{"empty lists are present", RouteData{}, `{"brokerDatas":[],"filterServerTable":{},"queueDatas":[]}`},
	{"topic", TopicConfig{Perm: 6, ReadQueueNums: 8, WriteQueueNums: 8, TopicFilterType: "SINGLE_TAG", TopicName: "T", Attributes: map[string]string{"b": "1", "a": "<&>"}},
		`{"attributes":{"a":"<&>","b":"1"},"order":false,"perm":6,"readQueueNums":8,"topicFilterType":"SINGLE_TAG","topicName":"T","topicSysFlag":0,"writeQueueNums":8}`},
	{"group", NewSubscriptionGroup("g"),
		`{"groupName":"g","consumeEnable":true,"consumeFromMinEnable":true,"consumeBroadcastEnable":true,"consumeMessageOrderly":false,"retryQueueNums":1,"retryMaxTimes":16,` +
			`"groupRetryPolicy":{"type":"CUSTOMIZED"},"brokerId":0,"whichBrokerWhenConsumeSlowly":1,"notifyConsumerIdsChangedEnable":true,"groupSysFlag":0,"consumeTimeoutMinute":15,"attributes":{}}`},
	{"topic stats have object keys", TopicStats{OffsetTable: map[MessageQueue]TopicOffset{
		{"b", 10, "T"}: {1, 2, 3}, {"b", 1, "T"}: {}}},
		`{"offsetTable":{{"brokerName":"b","queueId":1,"topic":"T"}:{"lastUpdateTimestamp":0,"maxOffset":0,"minOffset":0},` +
			`{"brokerName":"b","queueId":10,"topic":"T"}:{"lastUpdateTimestamp":1,"maxOffset":2,"minOffset":3}},"topicPutTps":0}`},
	{"consume stats", ConsumeStats{ConsumeTPS: 1.5, OffsetTable: map[MessageQueue]ConsumeOffset{{"b", 0, "T"}: {BrokerOffset: 9, ConsumerOffset: 4, LastTimestamp: 7, PullOffset: 5}}},
		`{"consumeTps":1.5,"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:{"brokerOffset":9,"consumerOffset":4,"lastTimestamp":7,"pullOffset":5}}}`},
	{"consumer offsets", ConsumerOffsets{OffsetTable: map[string]map[int32]int64{"T@g": {0: 10, 1: 12}}},
		`{"dataVersion":{"counter":0,"stateVersion":0,"timestamp":0},"offsetTable":{"T@g":{"0":10,"1":12}}}`},
	{"set", SyncStateSetBody{SyncStateSet: ha.IDs{1, 2}, SyncStateSetEpoch: 3}, `{"syncStateSet":[1,2],"syncStateSetEpoch":3}`},
	{"elected", ElectMasterBody{Group: &BrokerMemberGroup{BrokerAddrs: map[int64]string{1: "a"}, BrokerName: "b", Cluster: "c"}, SyncStateSet: ha.IDs{1}},
		`{"brokerMemberGroup":{"brokerAddrs":{"1":"a"},"brokerName":"b","cluster":"c"},"syncStateSet":[1]}`},
	{"not elected", ElectMasterBody{}, `{"syncStateSet":[]}`},
	{"epochs", NewEpochCache(ha.Epochs{{Epoch: 1, Start: 0}, {Epoch: 3, Start: 50}}, 90),
		`{"brokerId":0,"brokerName":"","clusterName":"","epochList":[{"epoch":1,"startOffset":0,"endOffset":50},{"epoch":3,"startOffset":50,"endOffset":9223372036854775807}],"maxOffset":90}`},
	{"texts", KVTable{Table: map[string]string{"k\x01": "a\"b\\c\nd\u2028é"}}, "{\"table\":{\"k\\u0001\":\"a\\\"b\\\\c\\u000ad\u2028é\"}}"},
	{"consumers", ConsumerList{ConsumerIDs: []string{"a", "b"}}, `{"consumerIdList":["a","b"]}`},
	{"locks", LockBatchResponse{Locked: []MessageQueue{{"b", 3, "T"}}}, `{"lockOKMQSet":[{"brokerName":"b","queueId":3,"topic":"T"}]}`},
	{"no subscription", CheckClientRequest{ClientID: "c", Group: "g"}, `{"clientId":"c","group":"g"}`},
}

func TestBodyGolden(t *testing.T) {
	for _, g := range bodyGolden {
		text := string(MarshalBody(g.body))
		if d := cmp.Diff(g.text, text); d != "" {
			t.Errorf("%s (-want +have):\n%s", g.name, d)
		}
		if valid := json.Valid([]byte(text)); valid == strings.Contains(text, "{{") {
			t.Errorf("%s: standard JSON: %v", g.name, valid)
		}
	}
}

// roundTrip marshals v and reads it back into a value of the same type.
func roundTrip[T any](t *testing.T, v T) T {
	t.Helper()
	var back T
	if err := UnmarshalBody(MarshalBody(v), &back); err != nil {
		t.Fatalf("%T: %v", v, err)
	}
	return back
}

func TestBodyRoundTrip(t *testing.T) {
	stats := ConsumeStats{ConsumeTPS: 0.25, OffsetTable: map[MessageQueue]ConsumeOffset{{"b", 0, "%RETRY%g\"{"}: {1, 2, 3, 4}, {"b", 7, "T"}: {}}}
	if d := cmp.Diff(stats, roundTrip(t, stats)); d != "" {
		t.Error(d)
	}
	beat := HeartbeatData{ClientID: "c", ProducerDataSet: []ProducerData{{"p"}}, ConsumerDataSet: []ConsumerData{{
		GroupName: "g", ConsumeType: ConsumePassively, MessageModel: ModelClustering, ConsumeFromWhere: ConsumeFromLast,
		Subscriptions: []SubscriptionData{{Topic: "T", SubString: "a || b", TagsSet: []string{"a", "b"}, CodeSet: []int32{97, -98}, SubVersion: math.MaxInt64, ExpressionType: "TAG"}},
	}}}
	if d := cmp.Diff(beat, roundTrip(t, beat)); d != "" {
		t.Error(d)
	}
	modes := RequestModes{Modes: map[string]map[string]RequestMode{"T": {"g": {ConsumerGroup: "g", Mode: "PULL", Topic: "T"}}}}
	if d := cmp.Diff(modes, roundTrip(t, modes)); d != "" {
		t.Error(d)
	}
	names := []string{"a", "b"}
	if d := cmp.Diff(names, roundTrip(t, names)); d != "" {
		t.Error(d)
	}
	nan := TopicStats{TopicPutTPS: math.NaN(), OffsetTable: map[MessageQueue]TopicOffset{}}
	if back := roundTrip(t, nan); back.TopicPutTPS != 0 {
		t.Errorf("NaN came back as %v", back.TopicPutTPS)
	}
}

// TestUnmarshalDialect: what fastjson and the Go client write.
func TestUnmarshalDialect(t *testing.T) {
	mq := MessageQueue{"b", 0, "T"}
	sub := SubscriptionData{Topic: "T", SubString: "*"}
	for _, c := range []struct {
		name, text string
		want       any
		into       any
	}{
		{"bare numeric keys", `{brokerAddrs:{0:"a:10911",1:'b:1'},brokerName:"b"}`, BrokerData{BrokerAddrs: map[int64]string{0: "a:10911", 1: "b:1"}, BrokerName: "b"}, &BrokerData{}},
		{"object keys", `{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:123}}`, ResetOffsets{map[MessageQueue]int64{mq: 123}}, &ResetOffsets{}},
		{"object keys as texts", `{"offsetTable":{"{\"brokerName\":\"b\",\"queueId\":0,\"topic\":\"T\"}":"123"}}`, ResetOffsets{map[MessageQueue]int64{mq: 123}}, &ResetOffsets{}},
		{"codes as texts", `{"topic":"T","codeSet":["97","-98"],"tagsSet":["a",5]}`, SubscriptionData{Topic: "T", CodeSet: []int32{97, -98}, TagsSet: []string{"a", "5"}}, &SubscriptionData{}},
		{"reference", `{"consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{"topic":"T","subString":"*"}]},{"groupName":"h","subscriptionDataSet":[{"$ref":"$.consumerDataSet[0].subscriptionDataSet[0]"}]}]}`,
			HeartbeatData{ConsumerDataSet: []ConsumerData{{GroupName: "g", Subscriptions: []SubscriptionData{sub}}, {GroupName: "h", Subscriptions: []SubscriptionData{sub}}}}, &HeartbeatData{}},
		{"reference to nothing", `{"subscriptionData":{"$ref":"$.x[3]"},"group":"g"}`, CheckClientRequest{Group: "g"}, &CheckClientRequest{}},
		{"reference to itself", `{"subscriptionData":{"$ref":"$.subscriptionData"},"group":"g"}`, CheckClientRequest{Group: "g"}, &CheckClientRequest{}},
		{"reference to the root", `{"subscriptionData":{"$ref":"$"},"group":"g"}`, CheckClientRequest{Group: "g"}, &CheckClientRequest{}},
		{"trailing commas, blanks", " {\"consumerIdList\" :\t[ 'a' , \"b\" , ] ,\n}\r\n", ConsumerList{[]string{"a", "b"}}, &ConsumerList{}},
		{"nulls", `{"consumerIdList":null,"other":null}`, ConsumerList{}, &ConsumerList{}},
		{"unknown members", `{"x":{"y":[1,{"z":null}]},"groupName":"p"}`, ProducerData{"p"}, &ProducerData{}},
		{"booleans", `{"withoutSub":"TRUE","clientID":1}`, HeartbeatData{WithoutSub: true, ClientID: "1"}, &HeartbeatData{}},
		{"boolean as a number", `{"withoutSub":1}`, HeartbeatData{WithoutSub: true}, &HeartbeatData{}},
		{"whole number with a point", `{"counter":3.00,"timestamp":""}`, DataVersion{Counter: 3}, &DataVersion{}},
		{"escapes", `{"groupName":"\u0061\uD83D\uDE00\x41\'\/\uD800"}`, ProducerData{"a😀A'/\ufffd"}, &ProducerData{}},
		{"no UTF-8", "{\"groupName\":\"a\xffb\"}", ProducerData{"a\ufffdb"}, &ProducerData{}},
		{"last one counts", `{"groupName":"a","groupName":"b"}`, ProducerData{"b"}, &ProducerData{}},
	} {
		if err := UnmarshalBody([]byte(c.text), c.into); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		want := c.want
		if d := cmp.Diff(want, indirect(c.into)); d != "" {
			t.Errorf("%s (-want +have):\n%s", c.name, d)
		}
	}
	group := NewSubscriptionGroup("g")
	if err := UnmarshalBody([]byte(`{"groupName":"h","retryMaxTimes":3,"consumeEnable":null}`), &group); err != nil || !group.ConsumeEnable || group.RetryMaxTimes != 3 || group.RetryQueueNums != 1 {
		t.Errorf("defaults: %+v, %v", group, err)
	}
}

func indirect(p any) any {
	switch p := p.(type) {
	case *BrokerData:
		return *p
	case *ResetOffsets:
		return *p
	case *SubscriptionData:
		return *p
	case *HeartbeatData:
		return *p
	case *CheckClientRequest:
		return *p
	case *ConsumerList:
		return *p
	case *ProducerData:
		return *p
	case *DataVersion:
		return *p
	}
	return nil
}

func TestUnmarshalErrors(t *testing.T) {
	refs := `{"a":` + strings.Repeat(`[`, 1) + strings.Repeat(`{"$ref":"$.b"},`, MaxReferences+1) + `],"b":[1]}`
	for _, c := range []struct {
		text string
		into any
		want string
	}{
		{``, &DataVersion{}, "body DataVersion: the body is empty"},
		{`{"counter":"x"}`, &DataVersion{}, `body DataVersion: $.counter: want a whole number, have "x"`},
		{`{"consumerDataSet":[{},{"subscriptionDataSet":[{"codeSet":[1,4294967296]}]}]}`, &HeartbeatData{},
			`body HeartbeatData: $.consumerDataSet[1].subscriptionDataSet[0].codeSet[1]: "4294967296" does not fit 32 bits`},
		{`[]`, &DataVersion{}, "body DataVersion: $: want an object, have an array"},
		{`{"brokerAddrs":{"x":"a"}}`, &BrokerData{}, `body BrokerData: $.brokerAddrs[x]: want a whole number, have "x"`},
		{`{"brokerAddrs":{{"a":1}:"a"}}`, &BrokerData{}, `want a plain key, have an object`},
		{`{"offsetTable":{"{":1}}`, &ResetOffsets{}, `JSON ends at byte 1`},
		{`{"consumerIdList":"a"}`, &ConsumerList{}, `body ConsumerList: $.consumerIdList: want an array, have a text "a"`},
		{`{"withoutSub":"maybe"}`, &HeartbeatData{}, `want true or false, have "maybe"`},
		{`{"groupName":["a"]}`, &ProducerData{}, `want a plain value, have an array`},
		{`{"consumeTps":"fast"}`, &ConsumeStats{}, `want a number, have "fast"`},
		{`{"counter":1e3}`, &DataVersion{}, `want a whole number, have "1e3"`},
		{`{"a":1`, &DataVersion{}, "JSON ends at byte 6, want a comma or }"},
		{`{"a"1}`, &DataVersion{}, "want a colon"},
		{`{"a":"\q"}`, &DataVersion{}, "want an escape sequence"},
		{`{"a":"\u12"}`, &DataVersion{}, "want an escape sequence"},
		{`{"a":tru}`, &DataVersion{}, `is "tru}", want a value`},
		{`{"a":1-2}`, &DataVersion{}, "want a number"},
		{`{"consumeTps":1e999}`, &ConsumeStats{}, "1e999"},
		{`{"counter":1e999}`, &DataVersion{}, "1e999"},
		{`{:1}`, &DataVersion{}, "want a key"},
		{`"abc`, &DataVersion{}, "want the end of a text"},
		{strings.Repeat("[", MaxJSONDepth+2), &[]string{}, "nested deeper than 64"},
		{"[" + strings.Repeat("1,", MaxJSONValues) + "]", &[]string{}, "more than 524288 values"},
		{refs, &struct {
			A [][]int32 `json:"a"`
		}{}, "more than 256 references"},
	} {
		err := UnmarshalBody([]byte(c.text), c.into)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60s: error %v\nwant %s", c.text, err, c.want)
		}
	}
	if err := UnmarshalBody(make([]byte, MaxJSONBytes+1), &DataVersion{}); err == nil || !strings.Contains(err.Error(), "the limit is") {
		t.Errorf("a huge text: %v", err)
	}
}

// TestReferenceBomb: references that multiply a large part end at the limit of
// values instead of in memory.
func TestReferenceBomb(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"a":[` + strings.Repeat("1,", 4096) + `],"b":[`)
	b.WriteString(strings.Repeat(`{"$ref":"$.a"},`, 200) + `]}`)
	var into struct {
		B [][]int32 `json:"b"`
	}
	if err := UnmarshalBody([]byte(b.String()), &into); err == nil || !strings.Contains(err.Error(), "with references resolved") {
		t.Errorf("error %v", err)
	}
}
