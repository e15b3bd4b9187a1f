package wire

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lockstep/internal/ha"
)

// fill draws a value for every field of a header that survives the wire.
func fill(t *rapid.T, v reflect.Value, tag string) {
	switch v.Interface().(type) {
	case ha.BrokerID:
		v.SetInt(rapid.SampledFrom([]int64{-1, 1, 2, 1 << 40}).Draw(t, "id"))
		return
	case ha.IDs:
		if ids := ha.NewIDs(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) ha.BrokerID { return ha.BrokerID(rapid.Int64().Draw(t, "id")) }), 0, 4).Draw(t, "ids")...); len(ids) > 0 {
			v.Set(reflect.ValueOf(ids))
		}
		return
	case Members:
		for range rapid.IntRange(0, 3).Draw(t, "members") {
			m := ha.Incarnation{Broker: ha.BrokerID(rapid.Int64().Draw(t, "id")), Store: ha.StoreID(rapid.StringMatching(`[0-9a-f]{0,32}`).Draw(t, "store")), Boot: ha.Boot(rapid.Uint32().Draw(t, "boot"))}
			v.Set(reflect.Append(v, reflect.ValueOf(m)))
		}
		return
	case ha.Claim, ha.AckClass, Readiness, Tristate:
		v.SetUint(rapid.Uint64Range(0, 2).Draw(t, "name"))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(anyText.Draw(t, "text"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Int32:
		v.SetInt(int64(rapid.Int32().Draw(t, "int")))
	case reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "int"))
	case reflect.Uint32:
		v.SetUint(uint64(rapid.Uint32().Draw(t, "uint")))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, "uint"))
	case reflect.Pointer:
		if rapid.Bool().Draw(t, "present") {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem(), tag)
		}
	default:
		t.Fatalf("no way to fill %v", v.Type())
	}
}

// TestEveryHeaderRoundTrips: all header types, in both encodings and, where they
// exist, in both spellings.
func TestEveryHeaderRoundTrips(t *testing.T) {
	for _, h := range headerTypes {
		typ := reflect.TypeOf(h)
		t.Run(typ.Name(), rapid.MakeCheck(func(t *rapid.T) {
			v := reflect.New(typ)
			for _, f := range planOf(typ).fields {
				fill(t, v.Elem().FieldByIndex(f.index), "")
			}
			f := NewRequest(rapid.SampledFrom([]int32{ReqSendReply, ReqSendReplyV2}).Draw(t, "code"), 1, nil, nil)
			if letters := letterCode(f.Head.Code); letters {
				f.Head.Ext = encodeExt(v.Interface(), true)
			} else {
				f.Head.Ext = EncodeExt(v.Interface())
			}
			wire, err := AppendFrame(nil, &f, HeaderEncoding(rapid.IntRange(0, 1).Draw(t, "encoding")))
			if err != nil {
				t.Fatal(err)
			}
			got, _, err := Decode(Remoting, wire)
			if err != nil {
				t.Fatal(err)
			}
			back := reflect.New(typ)
			if err := got.Header(back.Interface()); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(v.Elem().Interface(), back.Elem().Interface()); d != "" {
				t.Fatalf("(-want +have):\n%s", d)
			}
		}))
	}
}

func TestExtGolden(t *testing.T) {
	for _, c := range []struct {
		header any
		want   Ext
	}{
		{nil, nil},
		{(*RouteRequest)(nil), nil},
		{&RouteRequest{Topic: "T"}, Ext{{"topic", "T"}}},
		{QueueOffsetRequest{Topic: "T", QueueID: 2}, Ext{{"topic", "T"}, {"queueId", "2"}}},
		{QueueOffsetRequest{Topic: "T", Uncommitted: true}, Ext{{"topic", "T"}, {"queueId", "0"}, {"committed", "false"}}},
		{QueryOffsetRequest{KeepUnset: true}, Ext{{"consumerGroup", ""}, {"topic", ""}, {"queueId", "0"}, {"setZeroIfNotFound", "false"}}},
		{ElectMasterRequest{ClusterName: "c", BrokerName: "b", BrokerID: ha.NoBroker},
			Ext{{"clusterName", "c"}, {"brokerName", "b"}, {"brokerId", "-1"}, {"designateElect", "false"}}},
		{ElectMasterResponse{MasterBrokerID: 2, MasterAddress: "a:1", MasterEpoch: 3, SyncStateSetEpoch: 4,
			MasterView: MasterView{Store: "0a", Boot: 1, Members: Members{{Broker: 1, Store: "0b", Boot: 2}, {Broker: 2, Store: "0a", Boot: 1}}, Retained: ha.IDs{1, 3}}},
			Ext{{"masterBrokerId", "2"}, {"masterAddress", "a:1"}, {"masterEpoch", "3"}, {"syncStateSetEpoch", "4"},
				{"lsMasterStore", "0a"}, {"lsMasterBoot", "1"}, {"lsMembers", "1@0b/2,2@0a/1"}, {"lsRetained", "1,3"}}},
		{ReplicaInfoResponse{MasterBrokerID: ha.NoBroker}, Ext{{"masterEpoch", "0"}}},
		{ReplicaInfoResponse{}, Ext{{"masterEpoch", "0"}}}, // id 0 is no broker either
		{BrokerHeartbeat{ClusterName: "c", BrokerAddr: "a", BrokerName: "b", BrokerID: 1, HeartbeatTimeoutMillis: 10000,
			ReplicaReport: ReplicaReport{Identity: Identity{Store: "0a", Boot: 3, Nonce: 1 << 63}, Claim: ha.ClaimBroken, Ready: ReadyNo, Durable: 7, Class: ha.ClassDurable}},
			Ext{{"clusterName", "c"}, {"brokerAddr", "a"}, {"brokerName", "b"}, {"brokerId", "1"}, {"heartbeatTimeoutMills", "10000"},
				{"lsStore", "0a"}, {"lsBoot", "3"}, {"lsNonce", "9223372036854775808"}, {"lsClaim", "broken"}, {"lsReady", "no"}, {"lsDurable", "7"}, {"lsClass", "durable"}}},
		{HeartbeatResponse{LeaseGrant: LeaseGrant{Broker: 1, Boot: 3, Epoch: 2, Generation: 9, DurationMillis: 10000, MarginMillis: 500}, Sequence: 4},
			Ext{{"lsLeaseBroker", "1"}, {"lsLeaseBoot", "3"}, {"lsLeaseEpoch", "2"}, {"lsLeaseGeneration", "9"}, {"lsLeaseMillis", "10000"}, {"lsLeaseMarginMillis", "500"}, {"lsSequence", "4"}}},
		{RegisterBrokerRequest{BrokerName: "b", BrokerAddr: "a", ClusterName: "c", HAServerAddr: "h", EnableActingMaster: False},
			Ext{{"brokerName", "b"}, {"brokerAddr", "a"}, {"clusterName", "c"}, {"haServerAddr", "h"}, {"brokerId", "0"}, {"enableActingMaster", "false"}}},
		{SendBackRequest{Group: "g", MaxReconsumeTimes: new(int32)}, Ext{{"offset", "0"}, {"group", "g"}, {"delayLevel", "0"}, {"maxReconsumeTimes", "0"}}},
	} {
		if d := cmp.Diff(c.want, EncodeExt(c.header)); d != "" {
			t.Errorf("%T (-want +have):\n%s", c.header, d)
		}
	}
}

func TestDecodeExtErrors(t *testing.T) {
	for _, c := range []struct {
		ext  Ext
		to   any
		want string
	}{
		{nil, &RouteRequest{}, `header RouteRequest: required field "topic" is missing`},
		{Ext{{"topic", ""}, {"queueId", ""}}, &QueueOffsetRequest{}, `header QueueOffsetRequest: required field "queueId" is missing`},
		{Ext{{"topic", "T"}, {"queueId", "one"}}, &QueueOffsetRequest{}, `header QueueOffsetRequest: field "queueId" has value "one", want a whole number of 32 bits`},
		{Ext{{"topic", "T"}, {"queueId", "2147483648"}}, &QueueOffsetRequest{}, `header QueueOffsetRequest: field "queueId" has value "2147483648", want a whole number of 32 bits`},
		{Ext{{"topic", "T"}, {"queueId", "1"}, {"committed", "yes"}}, &QueueOffsetRequest{}, `header QueueOffsetRequest: field "committed" has value "yes", want true or false`},
		{Ext{{"lsBoot", "-1"}}, &Identity{}, `header Identity: field "lsBoot" has value "-1", want a whole number of 32 bits without sign`},
		{Ext{{"lsMembers", "1@a/1,2"}}, &MasterView{}, `header MasterView: field "lsMembers" has value "1@a/1,2", want id@store/boot joined with commas, at most 256`},
		{Ext{{"lsRetained", strings.Repeat("1,", MaxMembers) + "1"}}, &MasterView{}, `header MasterView: field "lsRetained" has value "` + strings.Repeat("1,", 40) + `…", want broker ids joined with commas, at most 256`},
	} {
		err := DecodeExt(c.ext, c.to)
		var field *FieldError
		if !errors.As(err, &field) || err.Error() != c.want {
			t.Errorf("have %v\nwant %s", err, c.want)
		}
	}
}

// TestDecodeExtTolerance: what Java sends or leaves out.
func TestDecodeExtTolerance(t *testing.T) {
	old := ReplicaInfoResponse{MasterBrokerID: 7, MasterAddress: "stale", MasterView: MasterView{Boot: 3}}
	if err := DecodeExt(Ext{{"masterEpoch", "2"}, {"unknown", "x"}, {"masterBrokerId", ""}}, &old); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(ReplicaInfoResponse{MasterBrokerID: ha.NoBroker, MasterEpoch: 2}, old); d != "" {
		t.Errorf("absent fields (-want +have):\n%s", d)
	}
	var q QueueOffsetRequest
	if err := DecodeExt(Ext{{"topic", "T"}, {"queueId", "+1"}, {"committed", "FALSE"}}, &q); err != nil || !q.Uncommitted || q.QueueID != 1 {
		t.Errorf("%+v, %v", q, err)
	}
	var r ReplicaReport
	if err := DecodeExt(Ext{{"lsReady", "perhaps"}, {"lsClaim", "holds"}}, &r); err != nil || r.Ready != ReadyUnknown || r.Claim != ha.ClaimHolds {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestHotFormsReadAlike: the typed accessors give the same for both forms.
func TestHotFormsReadAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawRemoting(t)
		if rapid.Bool().Draw(t, "stored") && f.SendOK != nil {
			f.SendOK.MsgID, f.SendOK.Stored = "", OffsetMessageID{IPLen: 4, IP: [16]byte{127, 0, 0, 1}, Port: 10911, Offset: 77}
		}
		g := f
		g.Head.Ext = f.ExtFields()
		g.Send, g.SendOK, g.Pull, g.PullOK = nil, nil, nil, nil
		if f.Send != nil {
			same(t, f.SendRequest, g.SendRequest)
		}
		if f.SendOK != nil {
			same(t, f.SendResponse, g.SendResponse)
		}
		if f.Pull != nil {
			same(t, f.PullRequest, g.PullRequest)
		}
		if f.PullOK != nil {
			same(t, f.PullResponse, g.PullResponse)
		}
	})
}

func same[T any](t *rapid.T, a, b func() (T, error)) {
	x, err := a()
	y, err2 := b()
	if d := cmp.Diff(x, y); d != "" || err != nil || err2 != nil {
		t.Fatalf("errors %v, %v; (-typed +generic):\n%s", err, err2, d)
	}
}

func TestHeaderOfAnotherForm(t *testing.T) {
	f := NewRequest(ReqSendMessageV2, 1, SendMessageRequest{Topic: "T", ProducerGroup: "g"}, nil)
	if f.Send == nil || f.Head.Ext != nil {
		t.Fatal("the hot header is not typed")
	}
	var h SendMessageRequest
	if err := f.Header(&h); err != nil || h.Topic != "T" {
		t.Errorf("%+v, %v", h, err)
	}
	bare := NewRequest(ReqSendMessage, 1, nil, nil)
	if _, err := bare.SendRequest(); err == nil || !strings.Contains(err.Error(), `"producerGroup" is missing`) {
		t.Errorf("no fields: %v", err)
	}
	if _, err := bare.PullRequest(); err == nil || !strings.Contains(err.Error(), `"consumerGroup" is missing`) {
		t.Errorf("no fields: %v", err)
	}
	letters := NewRequest(ReqSendBatch, 1, nil, nil)
	letters.Head.Ext = Ext{{"producerGroup", "g"}, {"topic", "T"}}
	if _, err := letters.SendRequest(); err == nil || !strings.Contains(err.Error(), `field "a" is missing`) {
		t.Errorf("long names under code 320: %v", err)
	}
}

func TestCodeNames(t *testing.T) {
	for _, names := range []map[int32]string{requestNames, responseNames} {
		seen := map[string]int32{}
		for code, name := range names {
			if other, ok := seen[name]; ok {
				t.Errorf("codes %d and %d are both %s", code, other, name)
			}
			seen[name] = code
		}
	}
	for have, want := range map[string]string{
		RequestName(310): "SEND_MESSAGE_V2", RequestName(1001): "CONTROLLER_ALTER_SYNC_STATE_SET", RequestName(9): "9",
		ResponseName(21): "PULL_OFFSET_MOVED", ResponseName(2011): "CONTROLLER_MASTER_STILL_EXIST", ResponseName(-7): "-7",
	} {
		if have != want {
			t.Errorf("have %s, want %s", have, want)
		}
	}
}

func TestOffsetMessageID(t *testing.T) {
	id := OffsetMessageID{IP: [16]byte{127, 0, 0, 1}, IPLen: 4, Port: 10911, Offset: 1234}
	if have := id.String(); have != "7F00000100002A9F00000000000004D2" {
		t.Error(have)
	}
	for _, text := range []string{id.String(), strings.ToLower(id.String())} {
		if back, err := ParseOffsetMessageID(text); err != nil || back != id {
			t.Errorf("%s: %+v, %v", text, back, err)
		}
	}
	six := OffsetMessageID{IP: [16]byte{0x20, 1, 15: 9}, IPLen: 16, Port: 1, Offset: 1 << 40}
	if back, err := ParseOffsetMessageID(six.String()); err != nil || back != six || len(six.String()) != 56 {
		t.Errorf("%+v, %v", back, err)
	}
	for _, bad := range []string{"", "7F", strings.Repeat("g", 32)} {
		if _, err := ParseOffsetMessageID(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestBatch(t *testing.T) {
	golden := "\x00\x00\x00\x1b\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x02hi\x00\x03a\x01b" +
		"\x00\x00\x00\x16\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00"
	want := []BatchEntry{{Flag: 7, Body: []byte("hi"), Properties: "a\x01b"}, {Flag: -1, Body: []byte{}}}
	have, err := SplitBatch([]byte(golden), nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, have); d != "" {
		t.Errorf("(-want +have):\n%s", d)
	}
	var back []byte
	for _, e := range have {
		if back, err = AppendBatchEntry(back, e); err != nil {
			t.Fatal(err)
		}
	}
	if string(back) != golden {
		t.Errorf("encoded %q", back)
	}
	for cut := 1; cut < len(golden); cut++ {
		if n, err := SplitBatch([]byte(golden[:cut]), nil); err == nil && cut != 27 {
			t.Errorf("%d of %d bytes were accepted as %d entries", cut, len(golden), len(n))
		}
	}
	for at, b := range map[int]byte{0: 0x80, 3: 21, 16: 0x80, 19: 9, 22: 0x80, 23: 4} {
		bad := []byte(golden)
		bad[at] = b
		if _, err := SplitBatch(bad, nil); err == nil || !strings.Contains(err.Error(), "message ") {
			t.Errorf("byte %d = %02x: %v", at, b, err)
		}
	}
	many := strings.Repeat(golden[27:], MaxBatchEntries)
	if all, err := SplitBatch([]byte(many), nil); err != nil || len(all) != MaxBatchEntries {
		t.Errorf("%d entries: %v", len(all), err)
	}
	if _, err := SplitBatch([]byte(many+golden[27:]), nil); err == nil || !strings.Contains(err.Error(), "more than 32768") {
		t.Errorf("one more: %v", err)
	}
	if _, err := AppendBatchEntry(nil, BatchEntry{Properties: strings.Repeat("p", 32768)}); err == nil {
		t.Error("long properties were accepted")
	}
}
