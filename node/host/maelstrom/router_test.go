package maelstrom

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/internal/prng"
	"lockstep/node"
	"lockstep/node/host/maelstrom/rpc"
)

// router is the network of a test: nodes run in this process, each on a pair of
// pipes. It holds every line against the protocol's rules, delays what goes between
// nodes, and drops what is cut.
type router struct {
	t       testing.TB
	latency time.Duration
	jitter  *prng.Source // nil: every message takes latency; else 0 to twice as long
	data    string

	mu      sync.Mutex
	nodes   map[string]*process
	names   []string
	clients map[string]chan rpcMessage
	cut     map[string]bool // "a>b"
	between atomic.Int64    // messages between nodes
	nextID  int64
}

type rpcMessage struct {
	Src  string          `json:"src"`
	Dest string          `json:"dest"`
	Body json.RawMessage `json:"body"`
}

// process is one life of one node.
type process struct {
	in     chan string
	stop   chan struct{}
	ended  chan error
	report *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// testClock is the time of package time, which is virtual in a bubble: there a group
// lives through minutes in a second, and a busy machine changes nothing.
func testClock() node.Now {
	return node.Now{Mono: node.Time(time.Now().UnixNano()), Wall: time.Now().UnixMilli()}
}

func newRouter(t testing.TB, n int) *router {
	r := &router{t: t, data: t.TempDir(), nodes: map[string]*process{}, clients: map[string]chan rpcMessage{}, cut: map[string]bool{}}
	for i := range n {
		r.names = append(r.names, fmt.Sprintf("n%d", i))
	}
	for _, name := range r.names {
		r.start(name)
	}
	t.Cleanup(func() {
		for _, name := range r.names {
			r.kill(name)
		}
	})
	return r
}

// start runs a node and initialises it.
func (r *router) start(name string) {
	r.t.Helper()
	p := &process{in: make(chan string, 1<<16), stop: make(chan struct{}), ended: make(chan error, 1), report: &lockedBuffer{}}
	in, feed := io.Pipe()
	lines, out := io.Pipe()
	n := rpc.NewNode()
	n.Stdin, n.Stdout, n.Log = in, out, log.New(p.report, "", 0)
	r.mu.Lock()
	r.nodes[name] = p
	r.mu.Unlock()
	go func() {
		err := Run(Options{Node: n, Data: r.data, Clock: testClock, Log: slog.New(slog.NewTextHandler(p.report, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		out.Close()
		p.ended <- err
	}()
	go func() {
		defer feed.Close()
		for {
			select {
			case line := <-p.in:
				if _, err := io.WriteString(feed, line); err != nil {
					return
				}
			case <-p.stop:
				return
			}
		}
	}()
	go r.read(name, lines)
	ids, _ := json.Marshal(r.names) // names always encode
	if b, err := r.ask(name, fmt.Sprintf(`"type":"init","node_id":%q,"node_ids":%s`, name, ids)); err != nil || b["type"] != "init_ok" {
		r.t.Fatalf("init of %s: %v, %v", name, b, err)
	}
}

// kill ends a node without a word to its machines.
func (r *router) kill(name string) {
	r.mu.Lock()
	p := r.nodes[name]
	delete(r.nodes, name)
	r.mu.Unlock()
	if p == nil {
		return
	}
	close(p.stop)
	if err := <-p.ended; err != nil {
		r.t.Errorf("%s: %v", name, err)
	}
	if text := p.report.String(); strings.Contains(text, "panic") || strings.Contains(text, "level=ERROR") {
		r.t.Errorf("%s reports\n%s", name, text)
	}
}

// read takes what a node writes.
func (r *router) read(name string, lines io.Reader) {
	s := bufio.NewReader(lines)
	for {
		line, err := s.ReadString('\n')
		if err != nil {
			return
		}
		var m map[string]json.RawMessage
		var msg rpcMessage
		if json.Unmarshal([]byte(line), &m) != nil || json.Unmarshal([]byte(line), &msg) != nil || len(m) != 3 || msg.Src != name || len(msg.Body) == 0 {
			r.t.Errorf("%s wrote a bad line: %.300q", name, line)
			continue
		}
		r.route(msg, line)
	}
}

func (r *router) route(m rpcMessage, line string) {
	r.mu.Lock()
	client := r.clients[m.Dest]
	_, node := r.nodes[m.Dest]
	r.mu.Unlock()
	switch {
	case client != nil:
		select {
		case client <- m:
		default:
			r.t.Errorf("%s got a second answer: %s", m.Dest, line)
		}
	case strings.HasPrefix(m.Dest, "n"):
		r.between.Add(1)
		if !node {
			return // killed: the network drops it
		}
		if r.latency == 0 {
			r.deliver(m, line)
			return
		}
		time.AfterFunc(r.delay(), func() { r.deliver(m, line) })
	default:
		r.t.Errorf("%s sent to %s, which nobody is", m.Src, m.Dest)
	}
}

// delay is how long the next message takes.
func (r *router) delay() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.jitter == nil {
		return r.latency
	}
	return time.Duration(r.jitter.Uint64() % uint64(2*r.latency))
}

func (r *router) deliver(m rpcMessage, line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.nodes[m.Dest]; p != nil && !r.cut[m.Src+">"+m.Dest] {
		select {
		case p.in <- line:
		default: // a full pipe loses it
		}
	}
}

// isolate cuts a node off from all others, both ways.
func (r *router) isolate(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.names {
		r.cut[n+">"+name], r.cut[name+">"+n] = true, true
	}
}

func (r *router) heal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.cut)
}

// ask sends one request as a new client and waits for its answer; body is the
// inside of the object without msg_id.
func (r *router) ask(node, body string) (map[string]any, error) {
	r.mu.Lock()
	r.nextID++
	id := r.nextID
	name := fmt.Sprintf("c%d", id)
	got := make(chan rpcMessage, 1)
	r.clients[name] = got
	p := r.nodes[node]
	r.mu.Unlock()
	if p == nil {
		return nil, fmt.Errorf("%s does not run", node)
	}
	p.in <- fmt.Sprintf(`{"id":%d,"src":%q,"dest":%q,"body":{"msg_id":%d,%s}}`+"\n", id, name, node, id, body)
	limit := time.NewTimer(30 * time.Second) // the race detector is slow on the longest line
	defer limit.Stop()
	select {
	case m := <-got:
		d := json.NewDecoder(bytes.NewReader(m.Body))
		d.UseNumber()
		var b map[string]any
		if err := d.Decode(&b); err != nil {
			return nil, err
		}
		if fmt.Sprint(b["in_reply_to"]) != fmt.Sprint(id) {
			r.t.Errorf("answer to %d: %s", id, m.Body)
		}
		delete(b, "in_reply_to")
		return b, nil
	case <-limit.C:
		return nil, fmt.Errorf("%s does not answer", node)
	}
}

// failures counts, in virtual time, answers in a row that came at the very instant of
// their question. A client that asks again after them would ask for ever: time stands
// still while anybody has something to do.
type failures int

// maxAtOnce bounds them. A node that cannot serve looks for one that can before it
// says so, and one that lost its right to write fails what it has taken, not more.
const maxAtOnce = 100

// note takes a failed answer into account and reports whether it is one too many.
func (n *failures) note(asked time.Time) bool {
	if *n++; time.Since(asked) > 0 {
		*n = 0
	}
	return *n > maxAtOnce
}

// must asks until the answer is of the wanted type, for at most limit.
func (r *router) must(node, body, want string, limit time.Duration) map[string]any {
	r.t.Helper()
	var hasty failures
	for end := time.Now().Add(limit); ; {
		asked := time.Now()
		b, err := r.ask(node, body)
		if err == nil && b["type"] == want {
			return b
		}
		if hasty.note(asked) || time.Now().After(end) {
			r.t.Fatalf("%s, asked {%s}: %v, %v, not %s\n%s", node, body, b, err, want, r.reports())
		}
	}
}

// reports are the last lines of what the nodes say, refusals of requests left out.
func (r *router) reports() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, n := range r.names {
		if p := r.nodes[n]; p != nil {
			lines := slices.DeleteFunc(strings.Split(p.report.String(), "\n"), func(l string) bool {
				return strings.Contains(l, "msg=RequestRefused") || strings.Contains(l, "msg=Lease")
			})
			out = append(out, lines[max(0, len(lines)-120):]...)
		}
	}
	return strings.Join(out, "\n")
}
