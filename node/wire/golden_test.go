package wire

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/internal/ha"
)

// golden holds frames as the contract spells them, byte by byte: hex groups,
// and quoted text as itself.
var golden = []struct {
	name  string
	enc   HeaderEncoding
	frame Frame
	wire  string
}{
	{
		name: "route request, JSON header",
		frame: Frame{Head: Head{Code: 105, Language: "GO", Version: 479, Opaque: 1,
			Ext: Ext{{"topic", "TestTopic"}}}},
		wire: `00000064 00 000060 '{"code":105,"language":"GO","version":479,"opaque":1,"flag":0,"extFields":{"topic":"TestTopic"}}'`,
	},
	{
		name: "one-way request without fields, with a body",
		frame: Frame{Head: Head{Code: 34, Language: "JAVA", Version: 401, Opaque: -2, Flag: FlagOneway},
			Body: []byte("{}")},
		wire: `00000046 00 000040 '{"code":34,"language":"JAVA","version":401,"opaque":-2,"flag":2}' '{}'`,
	},
	{
		name: "failure with a remark",
		frame: Frame{Head: Head{Code: 17, Language: "GO", Version: 479, Opaque: 7, Flag: FlagResponse,
			Remark: "No \"route\"\n\\é"}},
		wire: `00000063 00 00005f '{"code":17,"language":"GO","version":479,"opaque":7,"flag":1,"remark":"No \"route\"\u000a\\é"}'`,
	},
	{
		name: "route request, binary header",
		enc:  Binary,
		frame: Frame{Head: Head{Code: 105, Language: "GO", Version: 479, Opaque: 1,
			Ext: Ext{{"topic", "TestTopic"}}}},
		wire: `0000002d 01 000029  0069 09 01df 00000001 00000000 00000000  00000014 0005 'topic' 00000009 'TestTopic'`,
	},
	{
		name: "binary header with a remark and a body, no fields",
		enc:  Binary,
		frame: Frame{Head: Head{Code: -1, Language: "RUST", Version: 1, Opaque: 0x01020304, Flag: 1, Remark: "no"},
			Body: []byte{0xff}},
		wire: `0000001c 01 000017  ffff 0c 0001 01020304 00000001 00000002 'no' 00000000  ff`,
	},
	{
		name: "send, long names",
		frame: Frame{Head: Head{Code: ReqSendMessage, Language: "GO", Version: 317, Opaque: 5}, Send: &SendMessageRequest{
			ProducerGroup: "pg", Topic: "T", DefaultTopic: "TBW102", DefaultTopicQueueNums: 4, QueueID: -1,
			BornTimestamp: 1700000000000, Properties: "TAGS\x01a\x02", Batch: true}, Body: []byte("hi")},
		wire: `0000011e 00 000118 '{"code":10,"language":"GO","version":317,"opaque":5,"flag":0,"extFields":{"batch":"true",` +
			`"bornTimestamp":"1700000000000","defaultTopic":"TBW102","defaultTopicQueueNums":"4","flag":"0","producerGroup":"pg",` +
			`"properties":"TAGS\u0001a\u0002","queueId":"-1","sysFlag":"0","topic":"T"}}' 'hi'`,
	},
	{
		name: "send, letters, binary header",
		enc:  Binary,
		frame: Frame{Head: Head{Code: ReqSendMessageV2, Language: "JAVA", Version: 479, Opaque: 6}, Send: &SendMessageRequest{
			ProducerGroup: "p", Topic: "T", DefaultTopic: "D", DefaultTopicQueueNums: 8, QueueID: 3, SysFlag: 1, BornTimestamp: 9, Flag: 2,
			ReconsumeTimes: 1, UnitMode: true, MaxReconsumeTimes: 16, BrokerName: "b"}},
		wire: `0000007d 01 000079  0136 00 01df 00000006 00000000 00000000  00000064` +
			`0001 'a' 00000001 'p' 0001 'b' 00000001 'T' 0001 'c' 00000001 'D' 0001 'd' 00000001 '8'` +
			`0001 'e' 00000001 '3' 0001 'f' 00000001 '1' 0001 'g' 00000001 '9' 0001 'h' 00000001 '2'` +
			`0001 'j' 00000001 '1' 0001 'k' 00000004 'true' 0001 'l' 00000002 '16' 0001 'n' 00000001 'b'`,
	},
	{
		name: "stored send",
		frame: Frame{Head: Head{Code: CodeSuccess, Language: "GO", Version: 479, Opaque: 5, Flag: 1}, SendOK: &SendMessageResponse{
			MsgID: "7F00000100002A9F00000000000004D2", QueueID: 3, QueueOffset: 17, Region: "DefaultRegion", TraceOn: "true"}},
		wire: `000000c9 00 0000c5 '{"code":0,"language":"GO","version":479,"opaque":5,"flag":1,"extFields":{"MSG_REGION":"DefaultRegion",` +
			`"TRACE_ON":"true","msgId":"7F00000100002A9F00000000000004D2","queueId":"3","queueOffset":"17"}}'`,
	},
	{
		name: "stored send that says what it proves",
		frame: Frame{Head: Head{Code: CodeSuccess, Language: "GO", Version: 479, Opaque: 5, Flag: 1}, SendOK: &SendMessageResponse{
			MsgID: "7F00000100002A9F00000000000004D2", QueueID: 3, QueueOffset: 17, Durability: DurabilityReplicated}},
		wire: `000000b6 00 0000b2 '{"code":0,"language":"GO","version":479,"opaque":5,"flag":1,"extFields":{"lsDurability":"replicated",` +
			`"msgId":"7F00000100002A9F00000000000004D2","queueId":"3","queueOffset":"17"}}'`,
	},
	{
		name: "pull",
		frame: Frame{Head: Head{Code: ReqPull, Language: "GO", Version: 317, Opaque: 8}, Pull: &PullRequest{
			ConsumerGroup: "cg", Topic: "T", QueueID: 1, QueueOffset: 12, MaxMsgNums: 32, SysFlag: 2, CommitOffset: -1,
			SuspendTimeoutMillis: 20000, ExpressionType: "TAG"}},
		wire: `0000010c 00 000108 '{"code":11,"language":"GO","version":317,"opaque":8,"flag":0,"extFields":{"commitOffset":"-1",` +
			`"consumerGroup":"cg","expressionType":"TAG","maxMsgNums":"32","queueId":"1","queueOffset":"12","subVersion":"0",` +
			`"suspendTimeoutMillis":"20000","sysFlag":"2","topic":"T"}}'`,
	},
	{
		name: "pull answer",
		frame: Frame{Head: Head{Code: CodePullNotFound, Language: "GO", Version: 479, Opaque: 8, Flag: 1, Remark: "NO_MESSAGE_IN_QUEUE"},
			PullOK: &PullResponse{NextBeginOffset: 12, MinOffset: 0, MaxOffset: 12}},
		wire: `000000c1 00 0000bd '{"code":19,"language":"GO","version":479,"opaque":8,"flag":1,"remark":"NO_MESSAGE_IN_QUEUE",` +
			`"extFields":{"maxOffset":"12","minOffset":"0","nextBeginOffset":"12","suggestWhichBrokerId":"0"}}'`,
	},
	{
		name: "sealed request",
		frame: Frame{Head: Head{Code: 1004, Language: "GO", Version: 479, Opaque: 3, Sealed: true,
			Ext: Ext{{"brokerName", "b"}}}},
		// Sum over 000003ec 00000003 00000004 000001df, 00000000, 0000000a brokerName 00000001 b, 00000000.
		wire: `00000075 00 000071 '{"code":1004,"language":"GO","version":479,"opaque":3,"flag":4,"extFields":{"brokerName":"b","lsCrc":"SEAL"}}'`,
	},
	{
		name:  "raft",
		frame: Frame{Link: Raft, Body: []byte("raft")},
		wire:  `00000008 RAFTSUM 'raft'`,
	},
	{
		name: "replication append",
		frame: Frame{Link: Replication, Replica: &Replica{Kind: ReplicaAppend, Term: 3, Epoch: 2, EpochStart: 64, Offset: 100, Confirm: 90},
			Body: []byte("rec")},
		wire: `'LSR' 01 05 00000024 00000003  00000bc0 00000003 00000002 0000000000000040 0000000000000064 000000000000005a 'rec' CRC`,
	},
	{
		name:  "replication ack",
		frame: Frame{Link: Replication, Replica: &Replica{Kind: ReplicaAck, Term: 3, Offset: 103, Class: ha.ClassDurable}},
		wire:  `'LSR' 01 06 00000011 00000000  00001240 00000003 0000000000000067 02 CRC`,
	},
	{
		name: "replication hello",
		frame: Frame{Link: Replication, Replica: &Replica{Kind: ReplicaHello, Cluster: "c", Group: "bg",
			Self: ha.Incarnation{Broker: 2, Store: "0a", Boot: 7}, Nonce: 0xf000000000000001, Epoch: 1, Offset: 8, Min: 4,
			Class: ha.ClassReceived, Learner: true, PropCRC: true, SegmentBytes: 1 << 30,
			Epochs: ha.Epochs{{Epoch: 1, Start: 0}, {Epoch: 2, Start: 8, Unclean: true}}}},
		wire: `'LSR' 01 01 0000005a 00000000  000376bf 0001 'c' 0002 'bg' 0000000000000002 0002 '0a' 00000007 f000000000000001` +
			`00000001 0000000000000008 0000000000000004 01 0000000040000000 0002 00000001 0000000000000000 80000002 0000000000000008 CRC`,
	},
	{
		name:  "replication refuse",
		frame: Frame{Link: Replication, Replica: &Replica{Kind: ReplicaRefuse, OutOfRange: true, Min: 16, Reason: "below"}},
		wire:  `'LSR' 01 03 00000013 00000000  00048400 0000000000000010 0005 'below' CRC`,
	},
}

// goldenBytes reads the notation of golden. SEAL, RAFTSUM and CRC stand for sums
// computed here by a bitwise CRC-32C that shares nothing with the package.
func goldenBytes(t *testing.T, notation string) []byte {
	t.Helper()
	var out []byte
	for notation != "" {
		switch {
		case notation[0] == ' ':
			notation = notation[1:]
		case notation[0] == '\'':
			text, rest, _ := strings.Cut(notation[1:], "'")
			text = strings.Replace(text, "SEAL", hex.EncodeToString(slowCRC(mustHex(t,
				"000003ec 00000003 00000004 000001df 00000000 0000000a 62726f6b65724e616d65 00000001 62 00000000"))), 1)
			out, notation = append(out, text...), rest
		case strings.HasPrefix(notation, "RAFTSUM"):
			out, notation = append(out, slowCRC([]byte("\x00\x00\x00\x04raft"))...), notation[7:]
		case notation == "CRC":
			return append(out, slowCRC(out)...)
		default:
			out, notation = append(out, mustHex(t, notation[:2])...), notation[2:]
		}
	}
	return out
}

func mustHex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatalf("golden %q: %v", s, err)
	}
	return b
}

// slowCRC is CRC-32C bit by bit, big-endian.
func slowCRC(b []byte) []byte {
	crc := ^uint32(0)
	for _, c := range b {
		crc ^= uint32(c)
		for range 8 {
			crc = crc>>1 ^ 0x82f63b78*(crc&1)
		}
	}
	crc = ^crc
	return []byte{byte(crc >> 24), byte(crc >> 16), byte(crc >> 8), byte(crc)}
}

func TestGoldenFrames(t *testing.T) {
	for _, g := range golden {
		t.Run(g.name, func(t *testing.T) {
			want := goldenBytes(t, g.wire)
			have, err := AppendFrame([]byte("before"), &g.frame, g.enc)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), strings.TrimPrefix(string(have), "before")); d != "" {
				t.Errorf("encoded (-want +have):\n%s", d)
			}
			f, n, err := Decode(g.frame.Link, append(want, "next"...))
			if err != nil || n != len(want) {
				t.Fatalf("Decode took %d of %d bytes: %v", n, len(want), err)
			}
			if d := cmp.Diff(g.frame, f); d != "" {
				t.Errorf("decoded (-want +have):\n%s", d)
			}
		})
	}
}

// TestGoldenForeignHeaders decodes headers as other implementations write them.
func TestGoldenForeignHeaders(t *testing.T) {
	want := Head{Code: 105, Language: "GO", Version: 317, Opaque: 1, Ext: Ext{{"topic", "TestTopic"}}}
	for name, text := range map[string]string{
		"Go client":        `{"code":105,"language":"GO","version":317,"opaque":1,"flag":0,"remark":"","extFields":{"topic":"TestTopic"}}`,
		"null remark":      `{"code":105,"language":"GO","version":317,"opaque":1,"flag":0,"remark":null,"extFields":{"topic":"TestTopic"}}`,
		"Java":             `{"code":105,"extFields":{"topic":"TestTopic"},"flag":0,"language":"GO","opaque":1,"serializeTypeCurrentRPC":"JSON","version":317}`,
		"blanks":           "\n{ \"code\" : 105 ,\t\"language\":\"GO\",\"version\":317,\"opaque\":1, \"extFields\" : { \"topic\" : \"TestTopic\" } }\r\n",
		"bare keys":        `{code:105,language:"GO",version:317,opaque:1,extFields:{topic:'TestTopic'},}`,
		"numbers as texts": `{"code":"105","language":"GO","version":"317","opaque":"1","extFields":{"topic":"TestTopic"}}`,
		"unknown member":   `{"code":105,"suspended":[{"a":{}}],"language":"GO","version":317,"opaque":1,"extFields":{"topic":"TestTopic"}}`,
		"null field":       `{"code":105,"language":"GO","version":317,"opaque":1,"extFields":{"topic":"TestTopic","ns":null}}`,
		"field twice":      `{"code":105,"language":"GO","version":317,"opaque":1,"extFields":{"topic":"x","topic":"TestTopic"}}`,
		"escaped":          `{"code":105,"language":"GO","version":317,"opaque":1,"extFields":{"topic":"Test\u0054opic"}}`,
	} {
		f, n, err := Decode(Remoting, jsonFrame(text, ""))
		if err != nil || n == 0 {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d := cmp.Diff(want, f.Head); d != "" {
			t.Errorf("%s (-want +have):\n%s", name, d)
		}
	}
}

// jsonFrame puts a JSON header and a body into a frame.
func jsonFrame(header, body string) []byte {
	h, size := len(header), 4+len(header)+len(body)
	out := []byte{byte(size >> 24), byte(size >> 16), byte(size >> 8), byte(size), 0, byte(h >> 16), byte(h >> 8), byte(h)}
	return append(append(out, header...), body...)
}
