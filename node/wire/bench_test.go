package wire

import (
	"runtime"
	"strings"
	"testing"
)

// goSend is a send as RocketMQ's Go client writes it, with a body of 1 KiB.
var goSend = jsonFrame(`{"code":10,"language":"GO","version":317,"opaque":4711,"flag":0,"remark":"","extFields":{`+
	`"batch":"false","bname":"broker-a","bornTimestamp":"1700000000000","defaultTopic":"TBW102","defaultTopicQueueNums":"4","flag":"0",`+
	`"maxReconsumeTimes":"0","producerGroup":"bench","properties":"UNIQ_KEY\u00010A00000112670000000012345678\u0002WAIT\u0001true\u0002KEYS\u0001k-123456\u0002",`+
	`"queueId":"3","reconsumeTimes":"0","sysFlag":"0","topic":"bench-topic","unitMode":"false"}}`, strings.Repeat("x", 1024))

func stored() *Frame {
	return &Frame{Head: Head{Code: CodeSuccess, Language: LanguageGo, Version: Version, Opaque: 4711, Flag: FlagResponse},
		SendOK: &SendMessageResponse{Durability: DurabilityReplicated, Stored: OffsetMessageID{IP: [16]byte{127, 0, 0, 1}, IPLen: 4, Port: 10911, Offset: 1 << 33},
			QueueID: 3, QueueOffset: 123456, TransactionID: "0A00000112670000000012345678", Region: "DefaultRegion", TraceOn: "true"}}
}

// TestHotPathAllocations: a busy decoder allocates less than one object a send,
// and an answer allocates nothing.
func TestHotPathAllocations(t *testing.T) {
	var d Decoder
	if n := testing.AllocsPerRun(2000, func() {
		if f, _, err := d.Decode(goSend); err != nil || f.Send == nil {
			t.Fatalf("not hot: %v", err)
		}
	}); n >= 1 {
		t.Errorf("decoding a send: %v allocations", n)
	}
	f, room := stored(), make([]byte, 0, 4096)
	for _, sealed := range []bool{false, true} {
		f.Head.Sealed = sealed
		for _, enc := range []HeaderEncoding{JSON, Binary} {
			if n := testing.AllocsPerRun(1000, func() { _, _ = AppendFrame(room, f, enc) }); n != 0 {
				t.Errorf("encoding an answer, %v, sealed %v: %v allocations", enc, sealed, n)
			}
		}
	}
}

// TestDecodeAllocatesWithinInput: lengths in the input cannot make the decoder
// allocate more than a small multiple of the bytes that are there.
func TestDecodeAllocatesWithinInput(t *testing.T) {
	for name, in := range map[string][]byte{
		"frame length": {0, 0xff, 0xff, 0xf0, 0, 0, 0, 0},
		"epochs":       append([]byte("LSR\x01\x01\x00\x00\x00\x06\x00\x00\x00\x00\x00\x02\x00\x00\xff\xff"), slowCRC([]byte("LSR\x01\x01\x00\x00\x00\x06\x00\x00\x00\x00\x00\x02\x00\x00\xff\xff"))...),
		"binary field": binaryFrame(append(make([]byte, 17), 0, 0, 0, 7, 0, 1, 'a', 0x7f, 0xff, 0xff, 0xff)),
	} {
		link := Remoting
		if in[0] != 0 {
			link = Replication
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		const runs = 1000
		for range runs {
			_, _, _ = Decode(link, in)
		}
		runtime.ReadMemStats(&after)
		if each := (after.TotalAlloc - before.TotalAlloc) / runs; each > 4096 {
			t.Errorf("%s: %d bytes for an input of %d", name, each, len(in))
		}
	}
}

func BenchmarkDecodeSend(b *testing.B) {
	var d Decoder
	b.ReportAllocs()
	b.SetBytes(int64(len(goSend)))
	for b.Loop() {
		if _, _, err := d.Decode(goSend); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeSealedSend(b *testing.B) {
	f, _, err := Decode(Remoting, goSend)
	if err != nil {
		b.Fatal(err)
	}
	Seal(&f)
	wire, err := AppendFrame(nil, &f, JSON)
	if err != nil {
		b.Fatal(err)
	}
	var d Decoder
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := d.Decode(wire); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeSendOK(b *testing.B) {
	f, room := stored(), make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = AppendFrame(room, f, JSON)
	}
}

func BenchmarkEncodeSealedSendOK(b *testing.B) {
	f, room := stored(), make([]byte, 0, 4096)
	f.Head.Sealed = true
	b.ReportAllocs()
	for b.Loop() {
		_, _ = AppendFrame(room, f, JSON)
	}
}

func BenchmarkDecodeSendOK(b *testing.B) {
	wire, _ := AppendFrame(nil, stored(), JSON)
	var d Decoder
	b.ReportAllocs()
	for b.Loop() {
		if f, _, err := d.Decode(wire); err != nil || f.SendOK == nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReplicationAppend(b *testing.B) {
	f := Frame{Link: Replication, Replica: &Replica{Kind: ReplicaAppend, Term: 3, Epoch: 3, EpochStart: 1 << 30, Offset: 1 << 33, Confirm: 1 << 33}, Body: make([]byte, 64<<10)}
	room := make([]byte, 0, 128<<10)
	d := Decoder{Link: Replication}
	b.ReportAllocs()
	b.SetBytes(64 << 10)
	for b.Loop() {
		wire, _ := AppendFrame(room, &f, JSON)
		if _, _, err := d.Decode(wire); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHeartbeatHeader(b *testing.B) {
	h := BrokerHeartbeat{ClusterName: "c", BrokerAddr: "10.0.0.1:10911", BrokerName: "broker-a", BrokerID: 1, Epoch: 3, MaxOffset: 1 << 33}
	b.ReportAllocs()
	for b.Loop() {
		var back BrokerHeartbeat
		if err := DecodeExt(EncodeExt(&h), &back); err != nil {
			b.Fatal(err)
		}
	}
}
