// Package toy is a small node for every workload of the stand-in, correct unless
// it is told to be wrong in one named way. It calibrates the checkers: each fault
// must be reported by exactly its name. Node n0 does the work, in order of arrival,
// and keeps a log in its working folder that brings it back after a kill; the
// others forward to it.
package toy

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// logFile holds the requests that changed something, in the working folder.
const logFile = "toy.log"

// gossipEvery is how often broadcast nodes tell each other what they have.
const gossipEvery = 50 * time.Millisecond

// body is a message body as the node handles it.
type body = map[string]any

// envelope is one line.
type envelope struct {
	Src  string `json:"src"`
	Dest string `json:"dest"`
	Body body   `json:"body"`
}

// node is the process.
type node struct {
	out   *bufio.Writer
	fault string

	mu    sync.Mutex
	id    string
	peers []string
	log   *os.File
	seen  map[string]bool // requests performed, by client and msg_id
	held  map[string][]request
	kafka *kafka
	store *store
}

// request is a client's request, and the node that forwarded it.
type request struct {
	client string
	via    string // empty: the client itself
	body   body
}

// Run is the node: it reads in until it ends and writes to out. fault is one of
// Faults, or empty.
func Run(in io.Reader, out io.Writer, fault string) error {
	if fault != "" && !Known(fault) {
		return fmt.Errorf("fault %q is not known: one of %s", fault, strings.Join(Faults, ", "))
	}
	n := &node{out: bufio.NewWriter(out), fault: fault, seen: map[string]bool{}, held: map[string][]request{}, kafka: newKafka(fault), store: newStore(fault)}
	lines := bufio.NewReaderSize(in, 1<<16)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read stdin: %w", err)
		}
		var e envelope
		d := json.NewDecoder(strings.NewReader(string(line)))
		d.UseNumber()
		if err := d.Decode(&e); err != nil {
			return fmt.Errorf("stdin: %w", err)
		}
		if err := n.handle(e); err != nil {
			return err
		}
	}
}

func (n *node) handle(e envelope) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.id == "" && e.Body["type"] != "init" {
		return nil // another node was started earlier; it must ask again
	}
	switch e.Body["type"] {
	case "init":
		if err := n.init(e); err != nil {
			return err
		}
		return n.reply(request{client: e.Src, body: e.Body}, body{"type": "init_ok"})
	case "forward":
		inner, _ := e.Body["request"].(body)
		client, _ := e.Body["client"].(string)
		return n.perform(request{client: client, via: e.Src, body: inner})
	case "forwarded":
		inner, _ := e.Body["reply"].(body)
		client, _ := e.Body["client"].(string)
		return n.send(client, inner)
	case "gossip":
		n.store.merge(e.Body["messages"])
		return nil
	}
	local := map[any]bool{"echo": true, "generate": true, "topology": true, "broadcast": true, "read": e.Body["key"] == nil}
	own := n.fault == "inconsistent-offsets" && (e.Body["type"] == "send" || e.Body["type"] == "poll")
	if n.id == n.peers[0] || local[e.Body["type"]] || own {
		return n.perform(request{client: e.Src, body: e.Body})
	}
	return n.send(n.peers[0], body{"type": "forward", "client": e.Src, "request": e.Body})
}

func (n *node) init(e envelope) error {
	n.id, _ = e.Body["node_id"].(string)
	names, _ := e.Body["node_ids"].([]any)
	for _, name := range names {
		s, _ := name.(string)
		n.peers = append(n.peers, s)
	}
	if err := n.recover(); err != nil {
		return err
	}
	go n.gossip()
	if n.fault == "bad-line" {
		fmt.Fprintln(n.out, "starting up")
	}
	if n.fault == "unknown-name" {
		return n.send("n99", body{"type": "hello"})
	}
	return nil
}

// recover performs the logged requests again.
func (n *node) recover() error {
	old, err := os.ReadFile(logFile)
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("log: %w", err)
	}
	for line := range strings.Lines(string(old)) {
		var e envelope
		d := json.NewDecoder(strings.NewReader(line))
		d.UseNumber()
		if d.Decode(&e) == nil && n.fault != "forgetful" {
			n.seen[key(request{client: e.Src, body: e.Body})] = true
			n.apply(request{client: e.Src, body: e.Body})
		}
	}
	n.log, err = os.OpenFile(logFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	return err
}

func key(r request) string { return fmt.Sprint(r.client, " ", r.body["msg_id"]) }

// changing are the requests that go to the log.
var changing = map[any]bool{"send": true, "commit_offsets": true, "write": true, "cas": true, "broadcast": true}

// perform does a request once and answers it. What a planted fault holds back is
// done when the node is told to go on.
func (n *node) perform(r request) error {
	if n.seen[key(r)] {
		return nil // the network gave it twice
	}
	if n.kafka.holds(r) {
		n.held[r.client] = append(n.held[r.client], r)
		return nil
	}
	n.seen[key(r)] = true
	if changing[r.body["type"]] {
		line, err := json.Marshal(envelope{Src: r.client, Body: r.body})
		if err != nil {
			return fmt.Errorf("log: %w", err)
		}
		if _, err := n.log.Write(append(line, '\n')); err != nil {
			return fmt.Errorf("log: %w", err)
		}
	}
	if err := n.reply(r, n.apply(r)); err != nil {
		return err
	}
	for _, released := range n.kafka.release() {
		waiting := n.held[released]
		delete(n.held, released)
		for _, w := range waiting {
			if err := n.perform(w); err != nil {
				return err
			}
		}
	}
	return nil
}

// apply is the state machine.
func (n *node) apply(r request) body {
	if n.fault == "exit" {
		fmt.Fprintln(os.Stderr, "toy: leaving as told")
		os.Exit(3)
	}
	if n.fault == "no-success" || n.fault == "unavailable" && n.store.every(10) {
		return failure(11, "not now")
	}
	switch r.body["type"] {
	case "send", "poll", "commit_offsets", "list_committed_offsets":
		return n.kafka.apply(r)
	case "generate":
		return body{"type": "generate_ok", "id": n.store.id(n.id)}
	}
	return n.store.apply(r)
}

func failure(code int, text string) body { return body{"type": "error", "code": code, "text": text} }

func (n *node) reply(r request, b body) error {
	b["in_reply_to"] = r.body["msg_id"]
	if n.fault == "extra-key" && b["type"] != "init_ok" {
		b["extra"] = true
	}
	if r.via != "" {
		return n.send(r.via, body{"type": "forwarded", "client": r.client, "reply": b})
	}
	return n.send(r.client, b)
}

func (n *node) send(dest string, b body) error {
	line, err := json.Marshal(envelope{Src: n.id, Dest: dest, Body: b})
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	if _, err := n.out.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write stdout: %w", err)
	}
	return n.out.Flush()
}

// gossip sends what is known to every other node, again and again, so that any
// message may be lost.
func (n *node) gossip() {
	for range time.Tick(gossipEvery) {
		n.mu.Lock()
		var err error
		if known := n.store.elements(); len(known) > 0 {
			for _, p := range n.peers {
				if p != n.id && err == nil {
					err = n.send(p, body{"type": "gossip", "messages": known})
				}
			}
		}
		n.mu.Unlock()
		if err != nil {
			return // the reader will see that the pipes are gone
		}
	}
}

// number reads an integer of a body; 0 when there is none.
func number(v any) int64 {
	if n, ok := v.(json.Number); ok {
		i, _ := n.Int64()
		return i
	}
	return 0
}
