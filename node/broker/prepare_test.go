package broker

import (
	"bytes"
	"strings"
	"testing"

	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
)

// prepareBroker is a broker that can prepare, and nothing else.
func prepareBroker() *Broker {
	b := &Broker{o: DefaultOptions()}
	b.o.BrokerName, b.o.Address = "broker-a", "10.0.0.1:10911"
	b.storeHost = hostOf(b.o.Address)
	return b
}

// sendFrame is a code 10 request.
func sendFrame(topic, properties string, body []byte) *wire.Frame {
	f := wire.NewRequest(wire.ReqSendMessage, 7, &wire.SendMessageRequest{ProducerGroup: "pg", Topic: topic, DefaultTopic: templateTopic,
		DefaultTopicQueueNums: 4, QueueID: 1, BornTimestamp: 1700000000000, Properties: properties}, body)
	return &f
}

func prepare(b *Broker, f *wire.Frame) *preparedSend {
	b.Prepare(node.Now{Mono: 5, Wall: 1700000000123}, f, node.Peer{Addr: "10.0.0.9:41000"})
	return f.Prepared.(*preparedSend)
}

func props(pairs ...string) string {
	var out []byte
	for i := 0; i < len(pairs); i += 2 {
		out = storage.AppendProperty(out, pairs[i], pairs[i+1])
	}
	return string(out)
}

// TestPrepareSingle: the record holds what was sent, the broker's own properties
// replace what a client claimed for them, and hosts are those of the connection.
func TestPrepareSingle(t *testing.T) {
	b := prepareBroker()
	f := sendFrame("T", props("TAGS", "红", "UNIQ_KEY", "K1", "MSG_REGION", "liar", "POP_CK", "1 2", storage.PropCRC, "0000000000", "x", "y")+"junk", []byte("hello"))
	p := prepare(b, f)
	if p.illegal != nil || p.malformed != "" || len(p.messages) != 1 {
		t.Fatalf("refused: %+v %s", p.illegal, p.malformed)
	}
	p.messages[0].setQueue(3)
	record := make([]byte, p.messages[0].record.Size())
	p.messages[0].record.Place(record, 42, 4096, 1700000000200)
	r, reason := storage.DecodeRecord(record)
	if reason == "" {
		reason = r.Verify(4096, storage.PropCRCRequired)
	}
	if reason != "" {
		t.Fatal(reason)
	}
	if r.QueueID != 3 || r.QueueOffset != 42 || string(r.Topic) != "T" || string(r.Body) != "hello" || r.BornMillis != 1700000000000 {
		t.Errorf("record %+v", r)
	}
	if r.BornHost.String() != "10.0.0.9:41000" || r.StoreHost.String() != "10.0.0.1:10911" {
		t.Errorf("hosts %v %v", r.BornHost, r.StoreHost)
	}
	text := string(r.Properties)
	for name, want := range map[string]string{"TAGS": "红", "UNIQ_KEY": "K1", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "DefaultCluster", "x": "y"} {
		if got, _ := storage.Property(r.Properties, name); string(got) != want {
			t.Errorf("property %s is %q, want %q", name, got, want)
		}
	}
	if strings.Contains(text, "POP_CK") || strings.Contains(text, "liar") || strings.Contains(text, "junk") || strings.Count(text, storage.PropCRC) != 1 {
		t.Errorf("properties %q", text)
	}
	if p.messages[0].tag != storage.TagHash([]byte("红")) || p.uniqKey != "K1" || !p.wait {
		t.Errorf("tag %d, key %q, wait %v", p.messages[0].tag, p.uniqKey, p.wait)
	}
}

// TestPrepareUniqueKey: a message without UNIQ_KEY gets one, and two requests of
// one connection never get the same.
func TestPrepareUniqueKey(t *testing.T) {
	b := prepareBroker()
	seen := map[string]bool{}
	for opaque := range int32(200) {
		f := sendFrame("T", "", []byte("same"))
		f.Head.Opaque = opaque << 8
		p := prepare(b, f)
		if len(p.uniqKey) != 32 || seen[p.uniqKey] {
			t.Fatalf("key %q of opaque %d", p.uniqKey, f.Head.Opaque)
		}
		seen[p.uniqKey] = true
	}
}

func TestMonthStart(t *testing.T) {
	for wall, want := range map[int64]int64{
		0:             0,             // 1970-01-01
		1700000000000: 1698796800000, // 2023-11-14 → 2023-11-01
		1709164800000: 1706745600000, // 2024-02-29 → 2024-02-01
		1709251200000: 1709251200000, // 2024-03-01 exactly
		1735689599999: 1733011200000, // 2024-12-31 23:59:59.999 → 2024-12-01
		-5:            0,
	} {
		if got := monthStart(wall); got != want {
			t.Errorf("month of %d starts at %d, want %d", wall, got, want)
		}
	}
}

// batchBody encodes entries as clients do.
func batchBody(entries ...wire.BatchEntry) []byte {
	var out []byte
	for _, e := range entries {
		var err error
		if out, err = wire.AppendBatchEntry(out, e); err != nil {
			panic(err)
		}
	}
	return out
}

func batchFrame(topic string, body []byte) *wire.Frame {
	f := wire.NewRequest(wire.ReqSendBatch, 8, &wire.SendMessageRequest{ProducerGroup: "pg", Topic: topic, DefaultTopic: templateTopic,
		DefaultTopicQueueNums: 4, BornTimestamp: 1700000000000, Batch: true, Properties: props("UNIQ_KEY", "dropped")}, body)
	return &f
}

// TestPrepareBatch: each entry becomes one record with its own flag, properties and
// tag; header properties are dropped (trap 22).
func TestPrepareBatch(t *testing.T) {
	b := prepareBroker()
	p := prepare(b, batchFrame("T", batchBody(
		wire.BatchEntry{Flag: 1, Body: []byte("one"), Properties: props("TAGS", "a")},
		wire.BatchEntry{Flag: 2, Body: []byte("two")})))
	if p.illegal != nil || len(p.messages) != 2 || p.uniqKey != "" {
		t.Fatalf("illegal %+v, %d messages, key %q", p.illegal, len(p.messages), p.uniqKey)
	}
	for i, want := range []struct {
		body  string
		flag  int32
		tag   int64
		props string
	}{{"one", 1, 'a', "TAGS"}, {"two", 2, 0, ""}} {
		m := p.messages[i]
		record := make([]byte, m.record.Size())
		m.record.Place(record, 0, 0, 0)
		r, reason := storage.DecodeRecord(record)
		if reason != "" || string(r.Body) != want.body || r.Flag != want.flag || m.tag != want.tag {
			t.Errorf("message %d: %s %q flag %d tag %d", i, reason, r.Body, r.Flag, m.tag)
		}
		if strings.Contains(string(r.Properties), "dropped") || !strings.Contains(string(r.Properties), want.props) {
			t.Errorf("message %d: properties %q", i, r.Properties)
		}
	}
}

// TestPrepareRefuses lists every way a message itself is illegal, with its code.
func TestPrepareRefuses(t *testing.T) {
	long := strings.Repeat("v", storage.MaxProperties)
	withFlag := func(flags int32) *wire.Frame {
		f := sendFrame("T", "", []byte("b"))
		f.Send.SysFlag = flags
		return f
	}
	good := batchBody(wire.BatchEntry{Body: []byte("one")})
	for name, c := range map[string]struct {
		frame *wire.Frame
		code  int32
		say   string
	}{
		"no body":             {sendFrame("T", "", nil), 13, "no body"},
		"body too long":       {sendFrame("T", "", make([]byte, 4<<20+1)), 13, "maxMessageSize"},
		"properties too long": {sendFrame("T", props("k", long), []byte("b")), 13, "properties"},
		"too long once ours":  {sendFrame("T", props("k", long[:storage.MaxProperties-4]), []byte("b")), 13, "properties"},
		"delay":               {sendFrame("T", props("DELAY", "3"), []byte("b")), 13, "delayed"},
		"delay no number":     {sendFrame("T", props("DELAY", "soon"), []byte("b")), 13, "delayed"},
		"timer":               {sendFrame("T", props("TIMER_DELIVER_MS", "9"), []byte("b")), 13, "timer"},
		"half message":        {sendFrame("T", props("TRAN_MSG", "true", "PGROUP", "g"), []byte("b")), 16, "transactional"},
		"half by flag":        {withFlag(4), 16, "transactional"},
		"inner batch":         {withFlag(64 | 128), 13, "inner batch"},
		"batch cut short":     {batchFrame("T", good[:len(good)-1]), 13, "malformed"},
		"batch of nothing":    {batchFrame("T", batchBody(wire.BatchEntry{})), 13, "no body"},
		"batch with delay":    {batchFrame("T", batchBody(wire.BatchEntry{Body: []byte("x"), Properties: props("DELAY", "1")})), 13, "delayed"},
		"batch of too many":   {batchFrame("T", bytes.Repeat(good, maxBatch+1)), 13, "at most"},
		"illegal name":        {sendFrame("a.b", "", []byte("b")), 29, "illegal"},
		"batch, wrong size":   {batchFrame("T", append([]byte{0, 0, 0, 1}, good[4:]...)), 13, "malformed"},
		"batch, huge body":    {batchFrame("T", append(append([]byte(nil), good[:16]...), 0xff, 0xff, 0xff, 0xff, 1, 2, 3)), 13, "malformed"},
	} {
		p := prepare(prepareBroker(), c.frame)
		if p.illegal == nil || p.illegal.code != c.code || !strings.Contains(p.illegal.remark, c.say) {
			t.Errorf("%s: %+v, want code %d with %q", name, p.illegal, c.code, c.say)
		}
	}
	for name, f := range map[string]*wire.Frame{
		"delay 0":               sendFrame("T", props("DELAY", "0"), []byte("b")),
		"delay on retry topic":  sendFrame("%RETRY%g", props("DELAY", "3"), []byte("b")),
		"transaction not meant": sendFrame("T", props("TRAN_MSG", "false"), []byte("b")),
	} {
		if p := prepare(prepareBroker(), f); p.illegal != nil || len(p.messages) != 1 {
			t.Errorf("%s: refused with %+v", name, p.illegal)
		}
	}
	if p := prepare(prepareBroker(), sendFrame("T", props("WAIT", "false"), []byte("b"))); p.wait {
		t.Error("WAIT=false still waits")
	}
	bad := sendFrame("T", "", []byte("b"))
	bad.Send, bad.Head.Ext = nil, wire.Ext{{Key: "topic", Value: "T"}}
	if p := prepare(prepareBroker(), bad); p.malformed == "" {
		t.Error("a header without required fields was read")
	}
}

// FuzzPrepareBatch: no body makes the batch reader panic; what it accepts are whole
// records with a body.
func FuzzPrepareBatch(f *testing.F) {
	f.Add(batchBody(wire.BatchEntry{Flag: 1, Body: []byte("one"), Properties: props("TAGS", "a")}, wire.BatchEntry{Body: []byte("two")}))
	f.Add([]byte{0, 0, 0, 0})
	b := prepareBroker()
	f.Fuzz(func(t *testing.T, body []byte) {
		p := prepare(b, batchFrame("T", body))
		if p.illegal != nil {
			return
		}
		for _, m := range p.messages {
			record := make([]byte, m.record.Size())
			m.record.Place(record, 0, 0, 0)
			if r, reason := storage.DecodeRecord(record); reason != "" || len(r.Body) == 0 || r.Verify(0, storage.PropCRCRequired) != "" {
				t.Fatalf("accepted a message without a stored form: %s", reason)
			}
		}
	})
}
