package wire

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func seedFrames(f *testing.F, links ...Link) {
	for _, g := range golden {
		for _, l := range links {
			if g.frame.Link == l {
				wire, err := AppendFrame(nil, &g.frame, g.enc)
				if err != nil {
					f.Fatal(err)
				}
				f.Add(wire)
				f.Add(wire[:len(wire)/2])
			}
		}
	}
}

// reencode checks that a decoded frame is encoded again and decodes to itself.
func reencode(t *testing.T, f Frame, enc HeaderEncoding) []byte {
	t.Helper()
	wire, err := AppendFrame(nil, &f, enc)
	if err != nil {
		t.Fatalf("decoded but not encoded: %v", err)
	}
	back, n, err := Decode(f.Link, wire)
	if err != nil || n != len(wire) {
		t.Fatalf("own frame: took %d of %d, %v", n, len(wire), err)
	}
	if f.Head.Ext != nil && back.Head.Ext == nil {
		// A hot header with a field twice is read generically the first time. What
		// it says must still be the same.
		f.SetHeader(nil)
		f.Send, f.SendOK, f.Pull, f.PullOK = back.Send, back.SendOK, back.Pull, back.PullOK
	}
	if d := cmp.Diff(f, back); d != "" {
		t.Fatalf("(-first +second):\n%s", d)
	}
	return wire
}

// FuzzDecodeRemoting: no bytes make the decoder panic or take more than there
// is, and what decodes can be sent on without change.
func FuzzDecodeRemoting(f *testing.F) {
	seedFrames(f, Remoting)
	f.Add(jsonFrame(`{code:"10",extFields:{'topic':"T",queueId:1,x:null},}`, "body"))
	f.Add(jsonFrame(`{"code":310,"opaque":1,"extFields":{"a":"g","b":"T","c":"D","d":"4","e":"0","f":"0","g":"1","h":"0","i":"\u0001\ud83d\ude00"}}`, ""))
	f.Add(jsonFrame(`{"code":0,"flag":1,"extFields":{"msgId":"","queueId":"1","queueOffset":"2","queueId":"3"}}`, ""))
	f.Fuzz(func(t *testing.T, in []byte) {
		got, n, err := Decode(Remoting, bytes.Clone(in))
		if n > len(in) || err != nil && n != 0 {
			t.Fatalf("took %d of %d bytes, %v", n, len(in), err)
		}
		if n == 0 || n > MaxHeaderBytes/6 {
			return // escapes may make a header six times longer and pass its limit
		}
		enc := JSON
		if in[4] == byte(Binary) {
			enc = Binary
		}
		reencode(t, got, enc)
	})
}

// FuzzDecodeReplication: the same for the replication and raft streams, where
// every frame has exactly one spelling.
func FuzzDecodeReplication(f *testing.F) {
	seedFrames(f, Replication, Raft)
	f.Add([]byte("\x00\x00\x00\x01\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, link := range []Link{Replication, Raft} {
			got, n, err := Decode(link, bytes.Clone(in))
			if n > len(in) || err != nil && n != 0 {
				t.Fatalf("%v: took %d of %d bytes, %v", link, n, len(in), err)
			}
			if n > 0 {
				if again := reencode(t, got, JSON); !bytes.Equal(again, in[:n]) {
					t.Fatalf("%v: two spellings:\n%x\n%x", link, in[:n], again)
				}
			}
		}
		// The sum hides the header from the fuzzer; fix it and try once more.
		if len(in) > replicaPrefix+4 && bytes.HasPrefix(in, []byte(ReplicaMagic)) {
			d := Decoder{Link: Replication}
			if size, err := d.Size(in); err == nil && size > 4 && size <= len(in) {
				fixed := append(bytes.Clone(in[:size-4]), slowCRC(in[:size-4])...)
				if got, n, err := d.Decode(fixed); err == nil && n > 0 {
					if again := reencode(t, got, JSON); !bytes.Equal(again, fixed) {
						t.Fatalf("two spellings:\n%x\n%x", fixed, again)
					}
				}
			}
		}
	})
}

// FuzzTolerantJSON: every standard JSON text is read, with the values that
// encoding/json sees; nothing makes the reader panic.
func FuzzTolerantJSON(f *testing.F) {
	for _, g := range bodyGolden {
		f.Add([]byte(g.text))
	}
	for _, s := range []string{`{a:'b',1:[,],}`, `"\ud800\udc00\x41"`, `[1.0e-3,-0,true,null]`, `{"epochList":[{"endOffset":922337203e854775807}]}`, `{"$ref":"$.a[0].b"}`, `{{"a":{"b":1}}:2}`, "\"\xff\""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		n, err := parseTolerant(in)
		if err != nil {
			if json.Valid(in) && nesting(in) <= MaxJSONDepth {
				t.Fatalf("standard JSON was refused: %v", err)
			}
			return
		}
		if json.Valid(in) {
			dec := json.NewDecoder(bytes.NewReader(in))
			dec.UseNumber()
			var want any
			if err := dec.Decode(&want); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, plain(&n)); d != "" {
				t.Fatalf("(-encoding/json +tolerant):\n%s", d)
			}
		}
		for _, into := range []any{&HeartbeatData{}, &RouteData{}, &ResetOffsets{}, &RegisterBrokerBody{}, &ConsumeStats{}} {
			if UnmarshalBody(in, into) == nil {
				MarshalBody(into)
			}
		}
	})
}

// nesting bounds the depth of a JSON text from above.
func nesting(in []byte) int { return bytes.Count(in, []byte("[")) + bytes.Count(in, []byte("{")) }

// plain is a tree in the form encoding/json gives it.
func plain(n *node) any {
	switch n.kind {
	case nodeBool:
		return n.text == "true"
	case nodeNumber:
		return json.Number(n.text)
	case nodeText:
		return n.text
	case nodeArray:
		out := make([]any, len(n.kids))
		for i := range n.kids {
			out[i] = plain(&n.kids[i])
		}
		return out
	case nodeObject:
		out := map[string]any{}
		for i := 0; i < len(n.kids); i += 2 {
			out[n.kids[i].text] = plain(&n.kids[i+1])
		}
		return out
	}
	return nil
}

// FuzzHotHeader: wherever the fast scanner reads a header, the tolerant reader
// reads the same; and the hot typed forms hold what the generic decoder finds.
func FuzzHotHeader(f *testing.F) {
	for _, g := range golden {
		if g.frame.Link == Remoting && g.enc == JSON {
			f.Add(appendJSONHeader(nil, &g.frame))
		}
	}
	f.Add([]byte(`{"code":10,"remark":null ,"opaque":-0,"extFields":{"queueId":"+1","topic":"\u00e9\/"}}`))
	f.Add([]byte(`{"code":11,"extFields":{"consumerGroup":"g","topic":"T","queueId":"1","queueOffset":"9223372036854775807","maxMsgNums":"1","sysFlag":"0","commitOffset":"0","suspendTimeoutMillis":"1","subVersion":"1700000000000000000"}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var fast, slow Decoder
		var h, g Head
		fields, ok := fast.scanHead(raw, &h)
		if !ok {
			return
		}
		want, err := slow.treeHead(raw, &g)
		if err != nil {
			t.Fatalf("the scanner read what the reader refuses: %v", err)
		}
		if d := cmp.Diff(g, h) + cmp.Diff([]Field(ownFields(want)), []Field(ownFields(fields))); d != "" {
			t.Fatalf("(-reader +scanner):\n%s", d)
		}
		checkTyped(t, h, fields)
	})
}

// checkTyped compares the hot form of a frame with the generic decoder's result.
func checkTyped(t *testing.T, h Head, fields []Field) {
	var d Decoder
	f := Frame{Head: h}
	if !d.typed(&f, fields) {
		return
	}
	g := Frame{Head: h}
	g.Head.Ext = ownFields(fields)
	check := func(a, b any, err, err2 error) {
		t.Helper()
		if diff := cmp.Diff(a, b); diff != "" || err != nil || err2 != nil {
			t.Fatalf("errors %v, %v; (-generic +typed):\n%s", err, err2, diff)
		}
	}
	switch {
	case f.Send != nil:
		a, err := g.SendRequest()
		b, err2 := f.SendRequest()
		check(a, b, err, err2)
	case f.SendOK != nil:
		a, err := g.SendResponse()
		b, err2 := f.SendResponse()
		check(a, b, err, err2)
	case f.Pull != nil:
		a, err := g.PullRequest()
		b, err2 := f.PullRequest()
		check(a, b, err, err2)
	case f.PullOK != nil:
		a, err := g.PullResponse()
		b, err2 := f.PullResponse()
		check(a, b, err, err2)
	default:
		t.Fatal("typed, but without a typed form")
	}
}
