package maelstrom

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/chaos/maelstrom/history"
)

// wire is a network with receivers that keep what they get, under a virtual clock.
type wire struct {
	r      *router
	closed chan struct{}
	mu     sync.Mutex
	got    []string
}

func newWire(o *Options, names ...string) *wire {
	w := &wire{r: newRouter(o, history.NewRecorder()), closed: make(chan struct{})}
	for _, name := range names {
		b := w.r.attach(name)
		go w.r.drain(b, w.closed, func(m *Message, _ bool) bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			if m != nil {
				w.got = append(w.got, fmt.Sprintf("%s %s@%d", name, text(m.Body), w.r.clock.Now().Milliseconds()))
			}
			return true
		})
	}
	return w
}

func (w *wire) send(t *testing.T, src, dest, body string) {
	t.Helper()
	if err := w.r.send(&Message{Src: src, Dest: dest, Body: json.RawMessage(body)}); err != nil {
		t.Error(err)
	}
}

func (w *wire) close() {
	close(w.closed)
	w.r.close()
}

// put puts a message with a latency of its own into the inbox of a receiver.
func (w *wire) put(dest, body string, after time.Duration) {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	w.r.nextID++
	w.r.inboxes[dest].put(&Message{ID: w.r.nextID, Src: "n1", Dest: dest, Body: json.RawMessage(body), due: w.r.clock.Now() + after, record: -1})
}

func options(latency float64) *Options {
	o := Defaults()
	o.Latency = latency
	return &o
}

// TestHeadOfQueueSleeps: the receiver takes the earliest message and waits for it;
// one that comes meanwhile with an earlier time waits behind it.
func TestHeadOfQueueSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(options(0), "n0", "n1")
		w.put("n0", `"late"`, 100*time.Millisecond)
		synctest.Wait() // n0 has taken it and sleeps
		w.put("n0", `"c"`, 60*time.Millisecond)
		w.put("n0", `"a"`, 10*time.Millisecond)
		w.put("n0", `"b"`, 10*time.Millisecond)
		w.put("n0", `"d"`, 150*time.Millisecond)
		<-time.After(time.Second)
		synctest.Wait()
		if got := strings.Join(w.got, " "); got != "n0 late@100 n0 a@100 n0 b@100 n0 c@100 n0 d@150" {
			t.Errorf("delivered %s", got)
		}
		w.close()
	})
}

// TestCutIsCheckedWhenTaken: a message sent during a cut and taken after healing
// arrives; one taken while the cut is there is gone, and the other way is open.
func TestCutIsCheckedWhenTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(options(10), "n0", "n1")
		w.r.cut([]Cut{{Receiver: 0, Source: 1}})
		w.send(t, "n1", "n0", `"lost"`)
		w.send(t, "n0", "n1", `"other way"`)
		<-time.After(50 * time.Millisecond)
		w.r.cut(nil)
		w.send(t, "n1", "n0", `"holds"`) // n0 takes it and sleeps 10 ms
		synctest.Wait()
		w.send(t, "n1", "n0", `"behind"`) // waits in the queue
		w.r.cut([]Cut{{Receiver: 0, Source: 1}})
		<-time.After(5 * time.Millisecond)
		w.r.cut(nil) // healed before n0 takes the second
		<-time.After(50 * time.Millisecond)
		w.send(t, "n1", "n0", `"holds2"`)
		synctest.Wait()
		w.send(t, "n1", "n0", `"dies in flight"`)
		w.r.cut([]Cut{{Receiver: 0, Source: 1}}) // starts while both are on their way
		<-time.After(50 * time.Millisecond)
		synctest.Wait()
		if got := strings.Join(w.got, ", "); got != "n1 other way@10, n0 holds@60, n0 behind@60, n0 holds2@115" {
			t.Errorf("delivered %s", got)
		}
		if w.r.lost != 2 {
			t.Errorf("%d lost, want 2", w.r.lost)
		}
		w.close()
	})
}

// TestClientsHaveNoLatency, and services have the nodes' latency but no cuts.
func TestClientsHaveNoLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(options(30), "n0", "lin-kv")
		c := w.r.open(w.closed)
		w.r.cut([]Cut{{Receiver: 0, Source: 1}})
		w.send(t, c.name, "n0", `"from client"`)
		w.send(t, "n0", "lin-kv", `"to service"`)
		<-time.After(100 * time.Millisecond)
		synctest.Wait()
		if got := strings.Join(w.got, ", "); got != "n0 from client@0, lin-kv to service@30" {
			t.Errorf("delivered %s", got)
		}
		if w.r.servers.Sent != 1 || w.r.all.Sent != 2 {
			t.Errorf("counted %+v and %+v between servers", w.r.all, w.r.servers)
		}
		w.close()
	})
}

// TestDuplicates: while the fault is on, about a quarter of the messages between
// nodes comes twice, none of a client's.
func TestDuplicates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(options(1), "n0", "n1")
		c := w.r.open(w.closed)
		w.r.double(true)
		for range 400 {
			w.send(t, "n0", "n1", `"x"`)
			w.send(t, c.name, "n0", `"y"`)
		}
		w.r.double(false)
		w.send(t, "n0", "n1", `"x"`)
		<-time.After(time.Second)
		synctest.Wait()
		twice := len(w.got) - 801
		if twice < 70 || twice > 130 || int(w.r.doubled) != twice {
			t.Errorf("%d of 400 came twice, %d counted", twice, w.r.doubled)
		}
		w.close()
	})
}

// TestCallAndLateReply: a reply after the time-out is dropped and does not answer
// the next request.
func TestCallAndLateReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{r: newRouter(options(0), history.NewRecorder()), closed: make(chan struct{})}
		b := w.r.attach("n0")
		go w.r.drain(b, w.closed, func(m *Message, _ bool) bool {
			h, err := m.head()
			if err != nil {
				t.Error(err)
			}
			go func() {
				if *h.MsgID == 1 {
					<-time.After(7 * time.Second)
				}
				w.send(t, "n0", m.Src, fmt.Sprintf(`{"type":"echo_ok","in_reply_to":%d,"echo":"%d"}`, *h.MsgID, *h.MsgID))
			}()
			return true
		})
		c := w.r.open(w.closed)
		var answer string
		ask := func() error {
			return c.Call("n0", 5*time.Second, map[string]any{"type": "echo", "echo": "x"}, map[string]any{"echo": &answer})
		}
		if err := ask(); err != ErrTimeout {
			t.Errorf("first: %v", err)
		}
		<-time.After(3 * time.Second) // the late reply arrives
		if err := ask(); err != nil || answer != "2" {
			t.Errorf("second: %v, %q", err, answer)
		}
		c.Close()
		w.send(t, "n0", c.name, `{"type":"echo_ok","in_reply_to":9,"echo":""}`) // late, to a former client
		w.close()
	})
}

// TestFullInbox: the limit of an inbox is an error, not memory without end.
func TestFullInbox(t *testing.T) {
	r := newRouter(options(0), history.NewRecorder())
	r.attach("n0")
	r.attach("n1")
	var err error
	for range MaxInbox + 1 {
		if err = r.send(&Message{Src: "n1", Dest: "n0", Body: json.RawMessage(`{}`)}); err != nil {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), "messages wait for n0") {
		t.Errorf("error %v", err)
	}
}

func TestParseLine(t *testing.T) {
	good := []string{
		`{"src":"n0","dest":"c1","body":{"type":"x"}}`,
		`{"id":7,"src":"n0","dest":"c1","body":{}}`,
		` {"src":"n0", "dest":"n1", "body":{"anything":[1,2]} } `,
	}
	for _, line := range good {
		if _, err := parseLine([]byte(line + "\n")); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	bad := map[string]string{
		`hello`:                                "invalid character",
		``:                                     "EOF",
		`{"src":"n0","body":{}}`:               "dest is missing",
		`{"dest":"n0","body":{}}`:              "src is missing",
		`{"src":"n0","dest":"n1"}`:             "body is not an object",
		`{"src":"n0","dest":"n1","body":[1]}`:  "body is not an object",
		`{"src":"n0","dest":"n1","body":null}`: "body is not an object",
		`{"src":"n0","dest":"n1","body":{},"extra":1}`:       "unknown field",
		`{"src":1,"dest":"n1","body":{}}`:                    "cannot unmarshal",
		`{"src":"n0","dest":"n1","body":{}} {}`:              "more than one JSON value",
		`{"id":"seven","src":"n0","dest":"n1","body":{}}`:    "id \"seven\" is not an integer",
		`{"src":"n0","dest":"n1","body":{"type":"unfinished`: "unexpected EOF",
	}
	for line, want := range bad {
		if _, err := parseLine([]byte(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", line, err, want)
		}
	}
	m := &Message{ID: 3, Src: "c1", Dest: "n0", Body: json.RawMessage(`{"type":"init"}`)}
	if got := string(m.line(nil)); got != `{"id":3,"src":"c1","dest":"n0","body":{"type":"init"}}`+"\n" {
		t.Errorf("line is %s", got)
	}
}

func FuzzParseLine(f *testing.F) {
	f.Add([]byte(`{"id":1,"src":"n0","dest":"c1","body":{"type":"x"}}`))
	f.Add([]byte(`{"src":"n0","dest":"c1","body":{}} x`))
	f.Add([]byte(`{"src":"\u0001","dest":"\ud800","body":{}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := parseLine(line)
		if err == nil && !json.Valid(m.line(nil)) {
			t.Errorf("%q becomes %q", line, m.line(nil))
		}
	})
}

func TestReplies(t *testing.T) {
	cases := []struct {
		reply, want string
		outcome     history.Outcome
	}{
		{`{"type":"send_ok","in_reply_to":1,"offset":4}`, "", history.OK},
		{`{"type":"send_ok","in_reply_to":1,"msg_id":9,"offset":4}`, "", history.OK},
		{`{"type":"send_ok","in_reply_to":1}`, `field "offset" is missing`, history.Info},
		{`{"type":"send_ok","in_reply_to":1,"offset":4,"more":1}`, `field "more" does not belong`, history.Info},
		{`{"type":"send_ok","in_reply_to":1,"offset":"4"}`, `field "offset": json`, history.Info},
		{`{"type":"send_ok","in_reply_to":1,"offset":4.5}`, `field "offset": json`, history.Info},
		{`{"type":"poll_ok","in_reply_to":1,"offset":4}`, `type is "poll_ok", not send_ok`, history.Info},
		{`{"in_reply_to":1}`, "type is missing", history.Info},
		{`{"type":"error","in_reply_to":1,"code":11,"text":"later"}`, "error 11: later", history.Fail},
		{`{"type":"error","in_reply_to":1,"code":14,"text":"no"}`, "error 14: no", history.Fail},
		{`{"type":"error","in_reply_to":1,"code":0,"text":"slow"}`, "error 0: slow", history.Info},
		{`{"type":"error","in_reply_to":1,"code":13,"text":"who knows"}`, "error 13", history.Info},
		{`{"type":"error","in_reply_to":1,"code":1000,"text":"own"}`, "error 1000", history.Info},
		{`{"type":"error","in_reply_to":1,"text":"no code"}`, "an error without an integer code", history.Info},
		{`{"type":"error","in_reply_to":1,"code":11,"text":5}`, "text of an error is no string", history.Info},
	}
	for _, c := range cases {
		var offset int64
		err := decodeReply("send", json.RawMessage(c.reply), map[string]any{"offset": &offset})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.reply, err, c.want)
		}
		if got := outcome(err, false); got != c.outcome {
			t.Errorf("%s: %v, want %v", c.reply, got, c.outcome)
		}
		if err != nil && outcome(err, true) != history.Fail {
			t.Errorf("%s: what changes nothing fails", c.reply)
		}
	}
	for text, want := range map[string]string{
		`[[0,1],[1,2]]`: "", `[[0]]`: "no pair", `[[0,1,2]]`: "no pair", `[]`: "",
	} {
		var list [][]int64
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatal(err)
		}
		if _, err := pairs(map[string][][]int64{"a": list}); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestEarlyRequests: before a node is initialised clients' requests to it are
// dropped, and a dropped one does not hold back what was written before it.
func TestEarlyRequests(t *testing.T) {
	var out strings.Builder
	n := &node{name: "n0"}
	n.current = &process{in: bufio.NewWriter(&out)}
	start := &Message{Src: "c0", Dest: "n0", Body: json.RawMessage(`{"type":"init"}`), starts: true}
	request := &Message{Src: "c1", Dest: "n0", Body: json.RawMessage(`{"type":"echo"}`)}
	peer := &Message{Src: "n1", Dest: "n0", Body: json.RawMessage(`{"type":"hello"}`)}
	if !n.deliver(peer, false) || !n.deliver(start, false) || n.deliver(request, true) {
		t.Error("a peer and the starting client are heard, others are not")
	}
	if got := out.String(); strings.Count(got, "\n") != 2 || strings.Contains(got, "echo") {
		t.Errorf("written: %s", got)
	}
	n.ready.Store(true)
	if !n.deliver(request, true) || !strings.Contains(out.String(), "echo") {
		t.Errorf("an initialised node does not get the request: %s", out.String())
	}
	n.current = nil
	if n.deliver(peer, true) {
		t.Error("a dead node was heard")
	}
}

// TestServicesAnswer: services are peers on the network, and what cannot be
// answered is dropped.
func TestServicesAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options(0)
		o.NodeCount = 1
		c := newCluster(o, history.NewRecorder(), t.TempDir())
		client := c.r.open(c.closed)
		for _, name := range []string{"lin-kv", "seq-kv", "lww-kv"} {
			if err := client.Call(name, time.Second, map[string]any{"type": "write", "key": "a", "value": 3}, nil); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		var v, ts int
		if err := client.Call("lin-kv", time.Second, map[string]any{"type": "read", "key": "a"}, map[string]any{"value": &v}); err != nil || v != 3 {
			t.Errorf("read %d, %v", v, err)
		}
		var remote *RemoteError
		if err := client.Call("lin-kv", time.Second, map[string]any{"type": "read", "key": "b"}, map[string]any{"value": &v}); !errors.As(err, &remote) || remote.Code != 20 {
			t.Errorf("a missing key: %v", err)
		}
		if err := client.Call("lin-tso", time.Second, map[string]any{"type": "ts"}, map[string]any{"ts": &ts}); err != nil || ts != 0 {
			t.Errorf("ts %d, %v", ts, err)
		}
		for _, body := range []string{`{"type":"read","key":"a"}`, `{"type":"error","in_reply_to":1,"msg_id":2}`, `{"msg_id":"x"}`} {
			if err := c.r.send(&Message{Src: client.name, Dest: "lin-kv", Body: json.RawMessage(body)}); err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if c.failure() != nil || c.r.all.Sent != 15 {
			t.Errorf("%d messages, %v: six requests, six replies, and three that get none", c.r.all.Sent, c.failure())
		}
		c.stop()
	})
}
