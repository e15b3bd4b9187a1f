package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lockstep/internal/ha"
)

var (
	anyText   = rapid.StringMatching(`[a-zA-Z0-9%|_é世\x01\x02"\\ \n]{0,12}`)
	anyWord   = rapid.StringMatching(`[a-zA-Z0-9_]{1,12}`)
	anyOffset = rapid.Custom(func(t *rapid.T) ha.LogOffset { return ha.LogOffset(rapid.Int64Range(0, 1<<50).Draw(t, "offset")) })
)

func drawSend(t *rapid.T) *SendMessageRequest {
	return &SendMessageRequest{
		ProducerGroup: anyText.Draw(t, "group"), Topic: anyText.Draw(t, "topic"), DefaultTopic: anyText.Draw(t, "default"),
		DefaultTopicQueueNums: rapid.Int32().Draw(t, "d"), QueueID: rapid.Int32().Draw(t, "e"), SysFlag: rapid.Int32().Draw(t, "f"),
		BornTimestamp: rapid.Int64Range(-1<<59, 1<<59).Draw(t, "g"), Flag: rapid.Int32().Draw(t, "h"), Properties: anyText.Draw(t, "i"),
		ReconsumeTimes: rapid.Int32().Draw(t, "j"), UnitMode: rapid.Bool().Draw(t, "k"), MaxReconsumeTimes: rapid.Int32().Draw(t, "l"),
		Batch: rapid.Bool().Draw(t, "m"), BrokerName: anyText.Draw(t, "n"),
	}
}

func drawPull(t *rapid.T) *PullRequest {
	return &PullRequest{
		ConsumerGroup: anyText.Draw(t, "group"), Topic: anyText.Draw(t, "topic"), QueueID: rapid.Int32().Draw(t, "q"),
		QueueOffset: rapid.Int64Range(0, 1<<59).Draw(t, "o"), MaxMsgNums: rapid.Int32().Draw(t, "n"), SysFlag: rapid.Int32().Draw(t, "f"),
		CommitOffset: rapid.Int64Range(-1, 1<<59).Draw(t, "c"), SuspendTimeoutMillis: 20000, Subscription: anyText.Draw(t, "s"),
		ExpressionType: anyText.Draw(t, "e"), MaxMsgBytes: rapid.Int32().Draw(t, "b"), BrokerName: anyText.Draw(t, "n"),
	}
}

// drawRemoting draws a frame in the form the decoder gives it.
func drawRemoting(t *rapid.T) Frame {
	f := Frame{Head: Head{
		Code: int32(rapid.Int16().Draw(t, "code")), Language: rapid.SampledFrom(languages[:]).Draw(t, "language"),
		Version: int32(rapid.Int16().Draw(t, "version")), Opaque: rapid.Int32().Draw(t, "opaque"),
		Flag: rapid.SampledFrom([]int32{0, 2}).Draw(t, "flag"), Remark: anyText.Draw(t, "remark"), Sealed: rapid.Bool().Draw(t, "sealed"),
	}}
	if body := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "body"); len(body) > 0 {
		f.Body = body
	}
	switch rapid.IntRange(0, 4).Draw(t, "form") {
	case 0:
		f.Head.Code = rapid.SampledFrom([]int32{ReqSendMessage, ReqSendMessageV2, ReqSendBatch}).Draw(t, "send")
		f.Send = drawSend(t)
	case 1:
		f.Head.Code, f.Pull = rapid.SampledFrom([]int32{ReqPull, ReqLitePull}).Draw(t, "pull"), drawPull(t)
	case 2:
		f.Head.Flag |= FlagResponse
		f.SendOK = &SendMessageResponse{MsgID: anyText.Draw(t, "id"), QueueID: 1, QueueOffset: rapid.Int64Range(0, 1<<59).Draw(t, "o"), TransactionID: anyText.Draw(t, "t"), Durability: anyText.Draw(t, "durability")}
	case 3:
		f.Head.Flag |= FlagResponse
		f.PullOK = &PullResponse{NextBeginOffset: 5, MaxOffset: rapid.Int64Range(0, 1<<59).Draw(t, "max"), ForbiddenType: rapid.Int32().Draw(t, "f")}
	case 4:
		f.Head.Code = ReqBrokerHeartbeat
		for _, k := range rapid.SliceOfNDistinct(anyWord, 0, 6, rapid.ID[string]).Draw(t, "keys") {
			f.Head.Ext.Set(k, anyText.Draw(t, "value"))
		}
	}
	return f
}

func drawReplication(t *rapid.T) Frame {
	r := &Replica{
		Kind: ReplicaKind(rapid.IntRange(1, 6).Draw(t, "kind")), Cluster: anyText.Draw(t, "cluster"), Group: anyText.Draw(t, "group"),
		Self:  ha.Incarnation{Broker: ha.BrokerID(rapid.Int64().Draw(t, "id")), Store: ha.StoreID(anyWord.Draw(t, "store")), Boot: ha.Boot(rapid.Uint32().Draw(t, "boot"))},
		Nonce: rapid.Uint64().Draw(t, "nonce"), Term: ha.MasterEpoch(rapid.Int32Min(0).Draw(t, "term")), Epoch: ha.MasterEpoch(rapid.Int32Min(0).Draw(t, "epoch")),
		EpochStart: anyOffset.Draw(t, "start"), Offset: anyOffset.Draw(t, "offset"), Min: anyOffset.Draw(t, "min"), Confirm: anyOffset.Draw(t, "confirm"),
		Class: ha.AckClass(rapid.IntRange(0, 2).Draw(t, "class")), Learner: rapid.Bool().Draw(t, "learner"), PropCRC: rapid.Bool().Draw(t, "crc"),
		OutOfRange: rapid.Bool().Draw(t, "range"), SegmentBytes: rapid.Int64Range(0, 1<<40).Draw(t, "segment"), Reason: anyText.Draw(t, "reason"),
		Member: rapid.Bool().Draw(t, "member"),
	}
	var last ha.EpochStart
	for range rapid.IntRange(0, 5).Draw(t, "epochs") {
		last = ha.EpochStart{Epoch: last.Epoch + 1 + ha.MasterEpoch(rapid.IntRange(0, 3).Draw(t, "gap")), Start: last.Start + ha.LogOffset(rapid.IntRange(0, 9).Draw(t, "bytes")), Unclean: rapid.Bool().Draw(t, "unclean")}
		r.Epochs = append(r.Epochs, last)
	}
	f := Frame{Link: Replication, Replica: r}
	if r.Kind == ReplicaAppend {
		f.Body = rapid.SliceOfN(rapid.Byte(), 1, 64).Draw(t, "body")
	}
	return f
}

// TestFrameRoundTrip: what is encoded is decoded, in any pieces, and nothing is
// taken before the frame is whole.
func TestFrameRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var f Frame
		enc := HeaderEncoding(rapid.IntRange(0, 1).Draw(t, "encoding"))
		switch rapid.IntRange(0, 5).Draw(t, "link") {
		case 0:
			f = Frame{Link: Raft, Body: rapid.SliceOfN(rapid.Byte(), 1, 50).Draw(t, "body")}
		case 1, 2:
			f = drawReplication(t)
		default:
			f = drawRemoting(t)
		}
		wire, err := AppendFrame(nil, &f, enc)
		if err != nil {
			t.Fatal(err)
		}
		d := Decoder{Link: f.Link}
		cut := rapid.IntRange(0, len(wire)-1).Draw(t, "cut")
		if _, n, err := d.Decode(wire[:cut]); n != 0 || err != nil {
			t.Fatalf("%d of %d bytes: took %d, %v", cut, len(wire), n, err)
		}
		have, n, err := d.DecodeCopy(append(wire, 0xee))
		if err != nil || n != len(wire) {
			t.Fatalf("took %d of %d bytes: %v", n, len(wire), err)
		}
		clear(wire) // the copy must not notice
		if diff := cmp.Diff(f, have); diff != "" {
			t.Fatalf("(-sent +received):\n%s", diff)
		}
	})
}

// TestEveryDamagedByte: one changed byte of a sealed or summed frame is refused or
// asks for more bytes; it is never believed.
func TestEveryDamagedByte(t *testing.T) {
	for _, g := range golden {
		if g.frame.Link == Remoting && !g.frame.Head.Sealed {
			continue
		}
		wire := goldenBytes(t, g.wire)
		for at := range wire {
			for _, flip := range []byte{1, 0x20, 0x80} {
				bad := bytes.Clone(wire)
				bad[at] ^= flip
				f, n, err := Decode(g.frame.Link, bad)
				if err == nil && n > 0 && !cmp.Equal(sansLanguage(f), sansLanguage(g.frame)) {
					t.Errorf("%s: byte %d xor %02x was believed: %+v", g.name, at, flip, f)
				}
			}
		}
	}
}

// TestDamagedSealedFrame: the same for sealed frames of every form.
func TestDamagedSealedFrame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawRemoting(t)
		f.Head.Sealed = true
		wire, err := AppendFrame(nil, &f, HeaderEncoding(rapid.IntRange(0, 1).Draw(t, "encoding")))
		if err != nil {
			t.Fatal(err)
		}
		at := rapid.IntRange(0, len(wire)-1).Draw(t, "at")
		wire[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "flip"))
		got, n, err := Decode(Remoting, wire)
		if err == nil && n > 0 && !cmp.Equal(sansLanguage(f), sansLanguage(got)) {
			t.Fatalf("byte %d was believed (-sent +received):\n%s", at, cmp.Diff(f, got))
		}
	})
}

// sansLanguage leaves out the one member that the seal does not cover.
func sansLanguage(f Frame) Frame {
	f.Head.Language = ""
	return f
}

// TestSealSurvivesRelay: a relay that reorders fields and changes the encoding
// keeps the seal valid; one that changes a value does not.
func TestSealSurvivesRelay(t *testing.T) {
	f := NewRequest(ReqGetReplicaInfo, 9, &ReplicaInfoRequest{BrokerName: "b\xffé", ClusterName: "c"}, []byte("x"))
	Seal(&f)
	wire, err := AppendFrame(nil, &f, JSON)
	if err != nil {
		t.Fatal(err)
	}
	raw := string(wire[8 : len(wire)-1])
	i, j := strings.Index(raw, `"brokerName"`), strings.Index(raw, `,"lsCluster"`)
	relayed := raw[:i] + raw[j+1:len(raw)-2] + "," + raw[i:j] + "}}"
	got, _, err := Decode(Remoting, jsonFrame(relayed, "x"))
	if err != nil || !got.Head.Sealed {
		t.Fatalf("reordered: sealed %v, %v", got.Head.Sealed, err)
	}
	if _, _, err := Decode(Remoting, jsonFrame(relayed, "y")); !errors.Is(err, errSeal) {
		t.Errorf("another body: %v", err)
	}
	if _, _, err := Decode(Remoting, jsonFrame(strings.Replace(relayed, `:"c"`, `:"d"`, 1), "x")); !errors.Is(err, errSeal) {
		t.Errorf("another field: %v", err)
	}
	if len(got.Head.Ext) != 2 {
		t.Errorf("the seal is still among the fields: %v", got.Head.Ext)
	}
	if r := NewResponse(&got.Head, CodeSuccess, nil, nil); !r.Head.Sealed {
		t.Error("the answer to a sealed request is not sealed")
	}
}

func TestDecodeRefuses(t *testing.T) {
	big := func(n int) string { return strings.Repeat("x", n) }
	replica := func(change func(b []byte)) []byte {
		b := []byte("LSR\x01\x06\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x40\x00\x00\x00\x03")
		change(b)
		return append(b, slowCRC(b)...)
	}
	fields := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"k%d":""`, i)
		}
		return `{"code":1,"extFields":{` + strings.TrimPrefix(b.String(), ",") + `}}`
	}
	for _, c := range []struct {
		name string
		link Link
		in   []byte
		want string
	}{
		{"TLS", Remoting, []byte{TLSHandshake}, "TLS handshake on a plain stream"},
		{"HTTP", Remoting, []byte("GET / HTTP/1.1"), "does not speak remoting"},
		{"too short", Remoting, []byte{0, 0, 0, 3}, "the least is 4"},
		{"too long", Remoting, []byte{0, 0xff, 0xff, 0xff, 0, 0, 0, 0}, "the limit is 16777216"},
		{"encoding", Remoting, []byte{0, 0, 0, 9, 2, 0, 0, 0}, "encoding 2 is unknown"},
		{"header past the frame", Remoting, []byte{0, 0, 0, 9, 0, 0, 0, 6}, "header of 6 bytes in a frame of 13"},
		{"header limit", Remoting, []byte{0, 0x10, 0, 0, 0, 0x09, 0, 0}, "header of 589824 bytes"},
		{"empty header", Remoting, []byte{0, 0, 0, 4, 0, 0, 0, 0}, "JSON ends at byte 0"},
		{"no object", Remoting, jsonFrame(`[1]`, ""), "want an object"},
		{"no code", Remoting, jsonFrame(`{"opaque":1}`, ""), "no code"},
		{"code no number", Remoting, jsonFrame(`{"code":"ten"}`, ""), `member "code"`},
		{"code too large", Remoting, jsonFrame(`{"code":4294967297}`, ""), `member "code"`},
		{"opaque is an object", Remoting, jsonFrame(`{"code":1,"opaque":{}}`, ""), `member "opaque"`},
		{"remark is an array", Remoting, jsonFrame(`{"code":1,"remark":[]}`, ""), `member "remark"`},
		{"fields are a text", Remoting, jsonFrame(`{"code":1,"extFields":"a"}`, ""), `member "extFields"`},
		{"nested field", Remoting, jsonFrame(`{"code":1,"extFields":{"a":{}}}`, ""), `field "a"`},
		{"too many fields", Remoting, jsonFrame(fields(MaxExtFields+1), ""), "more than 128 fields"},
		{"cut header", Remoting, jsonFrame(`{"code":1`, ""), "want a comma"},
		{"more after the header", Remoting, jsonFrame(`{"code":1}x`, ""), "nothing more"},
		{"deep", Remoting, jsonFrame(`{"code":1,"x":`+strings.Repeat("[", MaxJSONDepth+1), ""), "nested deeper"},
		{"binary too short", Remoting, binaryFrame(make([]byte, 20)), "the least is 21"},
		{"binary remark", Remoting, binaryFrame(append(make([]byte, 13), 0, 0, 0, 9, 0, 0, 0, 0)), "remark's length"},
		{"binary fields", Remoting, binaryFrame(append(make([]byte, 17), 0, 0, 0, 1)), "fields' length"},
		{"binary field", Remoting, binaryFrame(append(make([]byte, 17), 0, 0, 0, 3, 0, 1, 'a')), "field 0"},
		{"binary nameless", Remoting, binaryFrame(append(make([]byte, 17), 0, 0, 0, 6, 0, 0, 0, 0, 0, 0)), "has no name"},
		{"Java's replication", Replication, []byte{0, 0, 0, 1}, "no Lockstep broker"},
		{"another version", Replication, []byte("LSR\x02"), "no Lockstep broker"},
		{"header limit", Replication, []byte("LSR\x01\x01\x00\x10\x00\x00\x00\x00\x00\x00"), "the limit is 262144"},
		{"body limit", Replication, []byte("LSR\x01\x05\x00\x00\x00\x00\x01\x00\x00\x00"), "the limit is 8388608"},
		{"kind", Replication, replica(func(b []byte) { b[4] = 7 }), "kind 7 is unknown"},
		{"negative term", Replication, replica(func(b []byte) { b[17] = 0x80 }), "neither can be negative"},
		{"unknown field", Replication, replica(func(b []byte) { b[13] = 0x80 }), "malformed"},
		{"missing field", Replication, replica(func(b []byte) { b[16] |= 1 }), "malformed"},
		{"zero field", Replication, replica(func(b []byte) { b[20] = 0 }), "malformed"},
		{"sum", Replication, append(replica(func([]byte) {})[:21], 0, 0, 0, 0), "damaged"},
		{"raft length", Raft, []byte{0xff, 0, 0, 0}, "want 4 to"},
		{"raft sum", Raft, []byte{0, 0, 0, 5, 0, 0, 0, 0, 1}, "damaged"},
		{"long text in an error", Remoting, jsonFrame(`{"code":"`+big(9000)+`"}`, ""), "…"},
	} {
		_, n, err := Decode(c.link, c.in)
		if err == nil || n != 0 || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: took %d, error %v, want %q", c.name, n, err, c.want)
		} else if len(err.Error()) > 300 {
			t.Errorf("%s: error of %d bytes", c.name, len(err.Error()))
		}
	}
}

func binaryFrame(header []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(4+len(header)))
	return append(binary.BigEndian.AppendUint32(b, 1<<24|uint32(len(header))), header...)
}

func TestEncodeRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		f    Frame
		enc  HeaderEncoding
		want string
	}{
		{"body", Frame{Body: make([]byte, MaxFrameBytes)}, JSON, "the limit is 16777216"},
		{"raft body", Frame{Link: Raft, Body: make([]byte, MaxFrameBytes)}, JSON, "the limit is 16777216"},
		{"header", Frame{Head: Head{Remark: strings.Repeat("x", MaxHeaderBytes)}}, JSON, "the limit is 524288"},
		{"fields", Frame{Head: Head{Ext: make(Ext, MaxExtFields+1)}}, JSON, "the limit is 128"},
		{"code", Frame{Head: Head{Code: ReqPop}}, Binary, "does not fit the binary header"},
		{"version", Frame{Head: Head{Version: 1 << 20}}, Binary, "does not fit the binary header"},
		{"key", Frame{Head: Head{Ext: Ext{{strings.Repeat("k", 40000), ""}}}}, Binary, "names of more than 32767"},
		{"encoding", Frame{}, 2, "encoding 2"},
		{"link", Frame{Link: 9}, JSON, "link 9"},
		{"no replica", Frame{Link: Replication}, JSON, "no header"},
		{"kind", Frame{Link: Replication, Replica: &Replica{}}, JSON, "kind 0"},
		{"body of an ack", Frame{Link: Replication, Replica: &Replica{Kind: ReplicaAck}, Body: []byte("x")}, JSON, "only appends"},
		{"body of an append", Frame{Link: Replication, Replica: &Replica{Kind: ReplicaAppend}, Body: make([]byte, MaxReplicaBodyBytes+1)}, JSON, "limit is 8388608"},
		{"negative", Frame{Link: Replication, Replica: &Replica{Kind: ReplicaAck, Offset: -1}}, JSON, "negative"},
		{"overflow", Frame{Link: Replication, Replica: &Replica{Kind: ReplicaAppend, Offset: 1<<63 - 1}, Body: []byte("x")}, JSON, "pass the largest"},
		{"class", Frame{Link: Replication, Replica: &Replica{Kind: ReplicaAck, Class: 3}}, JSON, "class 3"},
		{"epochs", Frame{Link: Replication, Replica: &Replica{Kind: ReplicaHello, Epochs: ha.Epochs{{Epoch: 2}, {Epoch: 1}}}}, JSON, "out of order"},
		{"too many epochs", Frame{Link: Replication, Replica: &Replica{Kind: ReplicaHello, Epochs: make(ha.Epochs, MaxEpochs+1)}}, JSON, "limit is 16384"},
		{"reason", Frame{Link: Replication, Replica: &Replica{Kind: ReplicaRefuse, Reason: strings.Repeat("r", 2000)}}, JSON, "limit is 1024"},
	} {
		dst, err := AppendFrame([]byte("kept"), &c.f, c.enc)
		if err == nil || !strings.Contains(err.Error(), c.want) || string(dst) != "kept" {
			t.Errorf("%s: %q, error %v, want %q", c.name, cutText(string(dst)), err, c.want)
		}
	}
}

// TestLargestFrames drives each size limit from below.
func TestLargestFrames(t *testing.T) {
	epochs := make(ha.Epochs, MaxEpochs)
	for i := range epochs {
		epochs[i].Epoch = ha.MasterEpoch(i + 1)
	}
	empty, err := AppendFrame(nil, &Frame{Head: Head{Language: LanguageGo}}, JSON)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []Frame{
		{Head: Head{Language: LanguageGo}, Body: make([]byte, MaxFrameBytes-len(empty))},
		{Head: Head{Language: LanguageGo, Remark: strings.Repeat("x", MaxHeaderBytes-200)}},
		{Link: Raft, Body: make([]byte, MaxFrameBytes-raftPrefix)},
		{Link: Replication, Replica: &Replica{Kind: ReplicaAppend}, Body: make([]byte, MaxReplicaBodyBytes)},
		{Link: Replication, Replica: &Replica{Kind: ReplicaHello, Epochs: epochs}},
	} {
		wire, err := AppendFrame(nil, &f, JSON)
		if err != nil {
			t.Fatal(err)
		}
		got, n, err := Decode(f.Link, wire)
		same := bytes.Equal(f.Body, got.Body)
		f.Body, got.Body = nil, nil // comparing 16 MiB by reflection takes seconds
		if err != nil || n != len(wire) || !same || !cmp.Equal(f, got) {
			t.Errorf("%v frame of %d bytes: took %d, %v", f.Link, len(wire), n, err)
		}
	}
	d := Decoder{MaxFrame: len(empty) - 1}
	if _, err := d.Size(empty); err == nil || !strings.Contains(err.Error(), "the limit is") {
		t.Errorf("a tighter limit: %v", err)
	}
}

// TestDecoderKeepsFramesApart: frames decoded by one decoder own their texts.
func TestDecoderKeepsFramesApart(t *testing.T) {
	d := Decoder{}
	var frames []Frame
	for i := range 100 {
		f := NewRequest(ReqSendMessage, int32(i), &SendMessageRequest{Topic: fmt.Sprint("t", i), Properties: fmt.Sprint("k\x01", i)}, nil)
		if i%7 == 0 {
			f.Head.Ext, f.Send = append(f.ExtFields(), Field{"other", "\x02"}), nil
		}
		wire, err := AppendFrame(nil, &f, HeaderEncoding(i%2))
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := d.Decode(wire)
		if err != nil {
			t.Fatal(err)
		}
		frames = append(frames, got)
	}
	for i := range frames {
		h, err := frames[i].SendRequest()
		if err != nil || h.Topic != fmt.Sprint("t", i) || h.Properties != fmt.Sprint("k\x01", i) || (frames[i].Send == nil) != (i%7 == 0) {
			t.Errorf("frame %d: %+v, %v", i, h, err)
		}
	}
}

func TestClone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, f := range []Frame{drawRemoting(t), drawReplication(t)} {
			c := f.Clone()
			if d := cmp.Diff(f, c); d != "" {
				t.Fatal(d)
			}
			if len(c.Body) > 0 && &c.Body[0] == &f.Body[0] || c.Send != nil && c.Send == f.Send || c.Replica != nil && c.Replica == f.Replica {
				t.Fatal("the clone shares memory")
			}
		}
	})
}
