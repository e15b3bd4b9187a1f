package rpc

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// serveLines runs a node over lines and returns what it wrote. setup registers
// handlers.
func serveLines(t *testing.T, setup func(n *Node), lines ...string) (out []string, report string) {
	t.Helper()
	n := NewNode()
	var stdout, stderr bytes.Buffer
	n.Stdin, n.Stdout, n.Log = strings.NewReader(strings.Join(lines, "\n")+"\n"), &stdout, log.New(&stderr, "", 0)
	if setup != nil {
		setup(n)
	}
	if err := n.Run(); err != nil {
		t.Fatal(err)
	}
	if !utf8.Valid(stdout.Bytes()) {
		t.Errorf("stdout is no text: %q", stdout.Bytes())
	}
	for line := range strings.SplitSeq(strings.TrimSpace(stdout.String()), "\n") {
		if line != "" {
			checkLine(t, line)
			out = append(out, line)
		}
	}
	return out, stderr.String()
}

// checkLine holds a line against the envelope's rules.
func checkLine(t *testing.T, line string) {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		t.Fatalf("no message: %q: %v", line, err)
	}
	for k := range m {
		if k != "src" && k != "dest" && k != "body" {
			t.Errorf("key %s in %q", k, line)
		}
	}
}

const initLine = `{"id":0,"src":"c0","dest":"n0","body":{"type":"init","msg_id":1,"node_id":"n0","node_ids":["n0","n1"]}}`

func echoing(n *Node) {
	n.HandleNow("echo", func(m Message) error {
		var b map[string]any
		if err := m.Decode(&b); err != nil {
			return err
		}
		return n.Reply(m, map[string]any{"type": "echo_ok", "echo": b["echo"]})
	})
}

// TestServes: init, a request, and the keys of an answer, exactly.
func TestServes(t *testing.T) {
	out, _ := serveLines(t, echoing, initLine, `{"id":1,"src":"c1","dest":"n0","body":{"type":"echo","msg_id":7,"echo":"hi"}}`)
	want := []string{
		`{"src":"n0","dest":"c0","body":{"in_reply_to":1,"type":"init_ok"}}`,
		`{"src":"n0","dest":"c1","body":{"in_reply_to":7,"echo":"hi","type":"echo_ok"}}`,
	}
	if strings.Join(out, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(out, "\n"), strings.Join(want, "\n"))
	}
}

// TestBadInput: each bad line is answered with the code, or with silence ("").
func TestBadInput(t *testing.T) {
	for _, c := range []struct{ name, line, want string }{
		{"no JSON", `hello`, ""},
		{"an unfinished object", `{"src":"c1"`, ""},
		{"an array", `[1,2]`, ""},
		{"a number", `7`, ""},
		{"no src", `{"dest":"n0","body":{"type":"echo","msg_id":2}}`, ""},
		{"src is no text", `{"src":7,"dest":"n0","body":{"type":"echo","msg_id":2}}`, ""},
		{"no body", `{"src":"c1","dest":"n0"}`, ""},
		{"body is no object", `{"src":"c1","dest":"n0","body":[1]}`, ""},
		{"no type", `{"src":"c1","dest":"n0","body":{"msg_id":2}}`, `"code":12`},
		{"type is a number", `{"src":"c1","dest":"n0","body":{"type":5,"msg_id":2}}`, `"code":12`},
		{"type is null", `{"src":"c1","dest":"n0","body":{"type":null,"msg_id":2}}`, `"code":12`},
		{"unknown type", `{"src":"c1","dest":"n0","body":{"type":"fly","msg_id":2}}`, `"code":10`},
		{"unknown type, no msg_id", `{"src":"c1","dest":"n0","body":{"type":"fly"}}`, ""},
		{"msg_id is a text", `{"src":"c1","dest":"n0","body":{"type":"fly","msg_id":"2"}}`, ""},
		{"msg_id is huge", `{"src":"c1","dest":"n0","body":{"type":"fly","msg_id":1e400}}`, ""},
		{"msg_id beyond 64 bits", `{"src":"c1","dest":"n0","body":{"type":"fly","msg_id":18446744073709551617}}`, ""},
		{"msg_id of 63 bits", `{"src":"c1","dest":"n0","body":{"type":"fly","msg_id":9223372036854775807}}`, `"in_reply_to":9223372036854775807`},
		{"msg_id with a fraction", `{"src":"c1","dest":"n0","body":{"type":"fly","msg_id":1.5}}`, ""},
		{"an error", `{"src":"n1","dest":"n0","body":{"type":"error","msg_id":2,"code":13,"text":"x"}}`, ""},
		{"an error that answers nothing", `{"src":"n1","dest":"n0","body":{"type":"error","in_reply_to":99,"code":13}}`, ""},
		{"an answer to nothing", `{"src":"n1","dest":"n0","body":{"type":"echo_ok","in_reply_to":99,"msg_id":3}}`, ""},
		{"in_reply_to is a text", `{"src":"n1","dest":"n0","body":{"type":"echo","in_reply_to":"x","msg_id":3}}`, ""},
		{"a second init", `{"src":"c1","dest":"n0","body":{"type":"init","msg_id":2,"node_id":"n1","node_ids":["n1"]}}`, `"code":12`},
		{"a handler's own error", `{"src":"c1","dest":"n0","body":{"type":"refuse","msg_id":2}}`, `"code":22`},
		{"a handler's failure", `{"src":"c1","dest":"n0","body":{"type":"break","msg_id":2}}`, `"code":13`},
		{"another node's", `{"src":"c1","dest":"n7","body":{"type":"echo","msg_id":2,"echo":1}}`, `"code":1,`},
		{"another node's, no msg_id", `{"src":"c1","dest":"n7","body":{"type":"echo","echo":1}}`, ""},
		{"an unknown sender", `{"src":"zz","dest":"n0","body":{"type":"fly","msg_id":2}}`, `"dest":"zz"`},
		{"odd names", `{"src":"c\"\n1","dest":"n0","body":{"type":"fly","msg_id":2}}`, `"code":10`},
		{"a NUL in a text", "{\"src\":\"c1\",\"dest\":\"n0\",\"body\":{\"type\":\"raw\",\"msg_id\":2,\"x\":\"\x00\"}}", ""},
		{"a line of NULs", "\x00\x00", ""},
		{"nested too deep", `{"src":"c1","dest":"n0","body":{"type":"fly","msg_id":2,"x":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}}`, ""},
		{"invalid UTF-8 that is sent back", "{\"src\":\"c1\",\"dest\":\"n0\",\"body\":{\"type\":\"raw\",\"msg_id\":2,\"x\":\"a\xff\"}}", "a\ufffd"},
		{"invalid UTF-8", "{\"src\":\"c1\",\"dest\":\"n0\",\"body\":{\"type\":\"f\xff\",\"msg_id\":2}}", `"code":10`},
	} {
		out, _ := serveLines(t, func(n *Node) {
			echoing(n)
			n.Handle("refuse", func(Message) error { return NewRPCError(PreconditionFailed, "no") })
			n.Handle("raw", func(m Message) error {
				var b struct{ X json.RawMessage }
				if err := m.Decode(&b); err != nil {
					return err
				}
				return n.Reply(m, map[string]any{"type": "raw_ok", "x": b.X})
			})
			n.Handle("break", func(Message) error { return errors.New("broken") })
		}, initLine, c.line, `{"src":"c9","dest":"n0","body":{"type":"echo","msg_id":8,"echo":1}}`)
		got := ""
		for _, line := range out[1:] {
			if !strings.Contains(line, `"dest":"c9"`) {
				got += line
			}
		}
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q in it", c.name, got, c.want)
		}
		if !strings.Contains(strings.Join(out, ""), `"dest":"c9"`) {
			t.Errorf("%s: the node serves no more", c.name)
		}
	}
}

// TestBadInit: an init that makes no sense is refused, and a good one may follow.
func TestBadInit(t *testing.T) {
	out, report := serveLines(t, echoing,
		`{"src":"c1","dest":"n0","body":{"type":"echo","msg_id":2,"echo":1}}`,
		`{"src":"c0","dest":"n0","body":{"type":"init","msg_id":1,"node_id":7}}`,
		`{"src":"c0","dest":"n0","body":{"type":"init","msg_id":2}}`,
		`{"src":"c0","dest":"n0","body":{"type":"init","msg_id":3,"node_id":"n1","node_ids":["n1"]}}`,
		`{"src":"c0","body":{"type":"init","msg_id":4}}`,
		initLine)
	if len(out) != 4 || !strings.Contains(out[3], "init_ok") {
		t.Errorf("%q", out)
	}
	for i, line := range out[:len(out)-1] {
		if want := `{"src":"n0","dest":"c0","body":{"in_reply_to":` + jsonInt(int64(i+1)) + `,"type":"error","code":12,`; !strings.HasPrefix(line, want) {
			t.Errorf("%s, want %s", line, want)
		}
	}
	if !strings.Contains(report, "before init") {
		t.Errorf("report %q", report)
	}
}

// TestLongLines: a line far beyond a reader's buffer is served; one beyond the limit
// is skipped, and the next one served.
func TestLongLines(t *testing.T) {
	long := strings.Repeat("x", 3<<20)
	out, _ := serveLines(t, echoing, initLine, `{"src":"c1","dest":"n0","body":{"type":"echo","msg_id":7,"echo":"`+long+`"}}`)
	if len(out) != 2 || !strings.Contains(out[1], long) {
		t.Fatalf("%d lines", len(out))
	}
	r := bufio.NewReader(io.MultiReader(strings.NewReader(strings.Repeat("y", MaxLineBytes+5)+"\nshort\n"), strings.NewReader("end")))
	if line, err := readLine(r); !errors.Is(err, errLong) || line != nil {
		t.Errorf("%d bytes, %v", len(line), err)
	}
	if line, err := readLine(r); err != nil || string(line) != "short\n" {
		t.Errorf("%q, %v", line, err)
	}
	if line, err := readLine(r); !errors.Is(err, io.EOF) || string(line) != "end" {
		t.Errorf("%q, %v", line, err)
	}
}

// TestGuards: what Maelstrom would punish never reaches stdout.
func TestGuards(t *testing.T) {
	n := NewNode()
	var out bytes.Buffer
	n.Stdout = &out
	if err := n.Send("n1", MessageBody{Type: "x"}); err == nil {
		t.Error("sent before init")
	}
	n.Init("n0", []string{"n0", "n1"})
	answer := Message{Src: "n1", Body: []byte(`{"type":"echo_ok","in_reply_to":4,"msg_id":1}`)}
	for what, err := range map[string]error{
		"an unknown name": n.Send("n7", MessageBody{Type: "x"}), "a body that is no object": n.Reply(Message{Src: "n1", Body: []byte(`{"type":"a","msg_id":1}`)}, 7),
		"an answer to an answer": n.Reply(answer, MessageBody{Type: "x"}), "an answer to nothing": n.Reply(Message{Src: "n1", Body: []byte(`{"type":"a"}`)}, MessageBody{Type: "x"}),
		"what does not encode": n.Send("n1", map[string]any{"f": func() {}}),
	} {
		if err == nil {
			t.Errorf("%s was sent", what)
		}
	}
	if out.Len() > 0 {
		t.Errorf("stdout has %q", out.String())
	}
	// A body that has in_reply_to itself gets the right one, once.
	if err := n.Reply(Message{Src: "n1", Body: []byte(`{"type":"a","msg_id":5}`)}, json.RawMessage(` {"type":"b", "in_reply_to": 9} `)); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != `{"src":"n0","dest":"n1","body":{"in_reply_to":5,"type":"b"}}`+"\n" {
		t.Errorf("%q", got)
	}
}

// TestRPC: calls to a service, an error as an answer, no answer, a late one.
func TestRPC(t *testing.T) {
	n := NewNode()
	in, feed := io.Pipe()
	lines, out := io.Pipe()
	n.Stdin, n.Stdout, n.Log = in, out, log.New(io.Discard, "", 0)
	ran := make(chan error, 1)
	go func() { ran <- n.Run() }()
	go func() { // the service
		r := bufio.NewScanner(lines)
		for r.Scan() {
			var m struct {
				Dest string
				Body struct {
					Type      string
					MsgID     int64 `json:"msg_id"`
					Key       string
					Value, To json.RawMessage
				}
			}
			if err := json.Unmarshal(r.Bytes(), &m); err != nil {
				t.Error(err)
			}
			say := func(body string) {
				io.WriteString(feed, strings.ReplaceAll(`{"src":"`+m.Dest+`","dest":"n0","body":{"in_reply_to":`+jsonInt(m.Body.MsgID)+`,`+body+"}}\n", "\t", ""))
			}
			switch {
			case m.Body.Key == "missing":
				say(`"type":"error","code":20,"text":"none"`)
			case m.Body.Key == "silent":
			case m.Body.Type == "read" && m.Dest == LinKV:
				say(`"type":"read_ok","value":9007199254740993`)
			case m.Body.Type == "read":
				say(`"type":"read_ok","value":{"a":[1]}`)
			case m.Body.Type == "write":
				say(`"type":"write_ok"`)
			case m.Body.Type == "cas":
				say(`"type":"error","code":22,"text":"differs"`)
			}
		}
	}()
	io.WriteString(feed, initLine+"\n")
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for n.ID() == "" && ctx.Err() == nil {
	}
	kv := NewLinKV(n)
	if v, err := kv.Read(ctx, "k"); err != nil || v != 9007199254740993 {
		t.Errorf("%v (%T), %v", v, v, err)
	}
	if v, err := kv.ReadInt(ctx, "k"); err != nil || v != 9007199254740993 {
		t.Errorf("%v, %v", v, err)
	}
	var into struct{ A []int }
	if err := NewSeqKV(n).ReadInto(ctx, "k", &into); err != nil || len(into.A) != 1 {
		t.Errorf("%v, %v", into, err)
	}
	if err := NewLWWKV(n).Write(ctx, "k", 5); err != nil {
		t.Error(err)
	}
	if _, err := kv.Read(ctx, "missing"); ErrorCode(err) != KeyDoesNotExist {
		t.Error(err)
	}
	if err := kv.CompareAndSwap(ctx, "k", 1, 2, true); ErrorCode(err) != PreconditionFailed || !strings.Contains(err.Error(), "PreconditionFailed") {
		t.Error(err)
	}
	short, stop := context.WithTimeout(ctx, 20*time.Millisecond)
	defer stop()
	if _, err := kv.Read(short, "silent"); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if len(n.pending) != 0 {
		t.Errorf("%d calls are still waited for", len(n.pending))
	}
	feed.Close()
	if err := <-ran; err != nil {
		t.Error(err)
	}
}

func jsonInt(n int64) string {
	b, _ := json.Marshal(n) // a number always encodes
	return string(b)
}

// TestErrors: names and definiteness of the codes.
func TestErrors(t *testing.T) {
	for code, definite := range map[int]bool{0: false, 1: true, 10: true, 11: true, 12: true, 13: false, 14: true, 20: true, 21: true, 22: true, 30: true, 1000: false, 99: false} {
		if Definite(code) != definite {
			t.Errorf("code %d: definite %t", code, Definite(code))
		}
	}
	if ErrorCodeText(1234) != "ErrorCode<1234>" || ErrorCode(io.EOF) != -1 {
		t.Error("unknown codes")
	}
	text, err := json.Marshal(NewRPCError(Timeout, "late"))
	if err != nil || string(text) != `{"type":"error","code":0,"text":"late"}` {
		t.Errorf("%s, %v", text, err)
	}
}

// FuzzNode: no line makes the node fail or write what is no message.
func FuzzNode(f *testing.F) {
	f.Add(`{"src":"c1","dest":"n0","body":{"type":"echo","msg_id":7,"echo":"hi"}}`)
	f.Add(`{"src":"c1","dest":"n0","body":{"type":"init","msg_id":7}}`)
	f.Add(`{"src":"n0","dest":"n0","body":{"type":"error","in_reply_to":7,"msg_id":-1}}`)
	f.Fuzz(func(t *testing.T, line string) {
		serveLines(t, echoing, initLine, line)
	})
}
