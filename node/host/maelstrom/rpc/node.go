// Package rpc is a small library for nodes that speak Maelstrom's protocol: JSON
// messages, one a line, requests in on stdin, answers out on stdout. It is written
// from the protocol's description; its verbs are those that users of Maelstrom's
// own Go library know, so that a program can change the import and nothing else:
//
//	n := rpc.NewNode()
//	n.Handle("echo", func(m rpc.Message) error { … return n.Reply(m, body) })
//	log.Fatal(n.Run())
//
// What the protocol punishes is guarded here. Only whole messages reach stdout, one
// at a time. No message goes to a name that nobody is known to have. An answer has
// the keys it was given, in_reply_to and no others. Errors and answers are never
// answered. A line that is no message is skipped with a word on stderr.
package rpc

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"sync"
	"unicode/utf8"
)

// Limits of a node.
const (
	// MaxLineBytes bounds one line; a longer one is skipped.
	MaxLineBytes = 64 << 20
	// maxNames bounds the names remembered because they sent something.
	maxNames = 1 << 20
	// maxPending bounds the requests of this node that wait for an answer.
	maxPending = 1 << 16
)

// services are the names that Maelstrom itself serves.
var services = []string{LinKV, SeqKV, LWWKV, LinTSO}

// HandlerFunc takes one message. An error it returns is the answer: an *RPCError
// as it is, any other as Crash, which promises nothing.
type HandlerFunc func(msg Message) error

// Node is one process of a Maelstrom test.
type Node struct {
	// Stdin and Stdout are the process's; tests put others here before Run.
	Stdin  io.Reader
	Stdout io.Writer
	// Log takes what is wrong with the input; nil is the standard logger.
	Log *log.Logger

	handlers map[string]handler // fixed once Run has begun
	work     sync.WaitGroup     // handlers under way

	mu      sync.Mutex // guards all below, and Stdout
	id      string
	ids     []string
	names   map[string]bool // may be sent to
	nextID  int64
	pending map[int64]HandlerFunc
	out     []byte
	broken  error // stdout is gone
}

// handler is a HandlerFunc and how it is called.
type handler struct {
	fn  HandlerFunc
	now bool // on the reading goroutine
}

// NewNode returns a node on the process's stdin and stdout.
func NewNode() *Node {
	n := &Node{Stdin: os.Stdin, Stdout: os.Stdout, handlers: map[string]handler{}, names: map[string]bool{}, pending: map[int64]HandlerFunc{}}
	for _, s := range services {
		n.names[s] = true
	}
	return n
}

// Init sets the node's name and the names of all nodes, as the init message does.
func (n *Node) Init(id string, nodeIDs []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.id, n.ids = id, slices.Clone(nodeIDs)
	for _, name := range append([]string{id}, nodeIDs...) {
		if name != "" {
			n.names[name] = true
		}
	}
}

// forgetNames undoes an Init that failed.
func (n *Node) forgetNames(nodeIDs []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.id, n.ids = "", nil
	for _, name := range nodeIDs {
		delete(n.names, name)
	}
}

// ID is the node's name, "" before init.
func (n *Node) ID() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.id
}

// NodeIDs are the names of all nodes, this one included.
func (n *Node) NodeIDs() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.ids)
}

// Handle registers the handler of a message type, before Run. It is called on a
// goroutine of its own for each message. A handler of "init" is called after the
// node knows its name and before init_ok is sent.
func (n *Node) Handle(typ string, fn HandlerFunc) { n.register(typ, handler{fn: fn}) }

// HandleNow is Handle for a handler that never blocks: it is called on the reading
// goroutine, in the order of the lines.
func (n *Node) HandleNow(typ string, fn HandlerFunc) { n.register(typ, handler{fn, true}) }

func (n *Node) register(typ string, h handler) {
	if _, twice := n.handlers[typ]; twice {
		panic("rpc: two handlers for message type " + typ)
	}
	n.handlers[typ] = h
}

// Run reads and serves messages until stdin ends, waits for the handlers under
// way, and returns nil, or what went wrong with reading.
func (n *Node) Run() error {
	r := bufio.NewReaderSize(n.Stdin, 64<<10)
	for {
		line, err := readLine(r)
		if len(bytes.TrimSpace(line)) > 0 {
			n.take(line)
		}
		switch {
		case errors.Is(err, errLong):
			n.logf("skipped a line of more than %d bytes", MaxLineBytes)
		case errors.Is(err, io.EOF):
			n.work.Wait()
			return nil
		case err != nil:
			n.work.Wait()
			return fmt.Errorf("read stdin: %w", err)
		}
	}
}

var errLong = errors.New("the line is too long")

// readLine reads up to the next line end, in memory of its own. A line that is too
// long is read and dropped.
func readLine(r *bufio.Reader) (line []byte, err error) {
	dropped := false
	for {
		part, err := r.ReadSlice('\n')
		if !dropped {
			line = append(line, part...)
		}
		if len(line) > MaxLineBytes {
			line, dropped = nil, true
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return line, err
		case dropped:
			return nil, errLong
		}
		return line, nil
	}
}

// take serves one line.
func (n *Node) take(line []byte) {
	if !utf8.Valid(line) {
		// What is no text would be echoed into lines that are no JSON.
		line = bytes.ToValidUTF8(line, []byte(string(utf8.RuneError)))
	}
	var m Message
	if err := json.Unmarshal(line, &m); err != nil {
		n.logf("skipped a line that is no message: %v: %.200q", err, line)
		return
	}
	if m.Src == "" || len(m.Body) == 0 {
		n.logf("skipped a message without src or body: %.200q", line)
		return
	}
	head, flaw := parseHead(m.Body)
	m.head = head
	n.learn(m.Src)
	switch {
	case head.answers || head.Type == "error":
		n.answered(m)
	case flaw != "":
		n.logf("%s, in a message of %s: %.200q", flaw, m.Src, line)
		n.refuse(m, MalformedRequest, flaw)
	case head.Type == "init":
		n.initialise(m)
	case n.ID() == "":
		n.logf("dropped a %q of %s that came before init", head.Type, m.Src)
	case m.Dest != "" && m.Dest != n.ID():
		n.refuse(m, NodeNotFound, "this is "+n.ID()+", not "+clip(m.Dest))
	default:
		n.dispatch(m)
	}
}

// learn remembers who may be sent to.
func (n *Node) learn(src string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.names) < maxNames {
		n.names[src] = true
	}
}

// answered hands an answer to whoever waits for it; one that comes late, or that
// nobody asked for, is dropped.
func (n *Node) answered(m Message) {
	n.mu.Lock()
	fn := n.pending[m.head.InReplyTo]
	delete(n.pending, m.head.InReplyTo)
	n.mu.Unlock()
	if fn != nil {
		n.work.Go(func() {
			if err := fn(m); err != nil {
				n.logf("the handler of an answer of %s: %v", m.Src, err)
			}
		})
	}
}

// initialise serves the first message.
func (n *Node) initialise(m Message) {
	var b struct {
		NodeID  string   `json:"node_id"`
		NodeIDs []string `json:"node_ids"`
	}
	err := m.Decode(&b)
	switch {
	case n.ID() != "":
		n.refuse(m, MalformedRequest, "this node is initialised already, as "+n.ID())
		return
	case err != nil:
	case b.NodeID == "":
		err = NewRPCError(MalformedRequest, "init has no node_id")
	case m.Dest != "" && m.Dest != b.NodeID:
		err = NewRPCError(MalformedRequest, "init for "+clip(b.NodeID)+" was sent to "+clip(m.Dest))
	}
	if h, ok := n.handlers["init"]; ok && err == nil {
		n.Init(b.NodeID, b.NodeIDs)
		err = h.fn(m)
	}
	if err != nil {
		n.Init(m.Dest, nil) // the name that it was sent to, for the answer alone
		n.fail(m, err)
		n.forgetNames(b.NodeIDs)
		return
	}
	n.Init(b.NodeID, b.NodeIDs)
	n.check(n.Reply(m, MessageBody{Type: "init_ok"}))
}

func (n *Node) dispatch(m Message) {
	h, ok := n.handlers[m.head.Type]
	switch {
	case !ok:
		n.refuse(m, NotSupported, "this node does not serve "+clip(m.head.Type))
	case h.now:
		n.call(h.fn, m)
	default:
		n.work.Go(func() { n.call(h.fn, m) })
	}
}

// clip keeps texts of others short in ours.
func clip(s string) string { return fmt.Sprintf("%.100q", s) }

func (n *Node) call(fn HandlerFunc, m Message) {
	if err := fn(m); err != nil {
		n.fail(m, err)
	}
}

// fail answers m with the error of its handler.
func (n *Node) fail(m Message, err error) {
	var e *RPCError
	if !errors.As(err, &e) {
		n.logf("the handler of %q failed: %v", m.head.Type, err)
		e = NewRPCError(Crash, err.Error())
	}
	n.refuse(m, e.Code, e.Text)
}

// refuse answers with an error, unless m cannot be answered.
func (n *Node) refuse(m Message, code int, text string) {
	if m.Asks() {
		n.check(n.Reply(m, NewRPCError(code, text)))
	}
}

func (n *Node) check(err error) {
	if err != nil {
		n.logf("%v", err)
	}
}

func (n *Node) logf(format string, args ...any) {
	if n.Log != nil {
		n.Log.Printf(format, args...)
		return
	}
	log.Printf(format, args...)
}

// Reply answers req with the keys of body and in_reply_to, no others. A request
// that cannot be answered, and one that is itself an answer or an error, is an
// error here and silence on the wire.
func (n *Node) Reply(req Message, body any) error {
	head := req.head
	if !head.asks {
		head, _ = parseHead(req.Body)
	}
	switch {
	case head.answers || head.Type == "error":
		return fmt.Errorf("a %q of %s is an answer: it is not answered", head.Type, req.Src)
	case !head.asks:
		return fmt.Errorf("a %q of %s has no msg_id: it cannot be answered", head.Type, req.Src)
	}
	text, err := with(body, "in_reply_to", head.MsgID)
	if err != nil {
		return err
	}
	return n.write(req.Src, text)
}

// Send sends body to a node, a service, or a client that has spoken.
func (n *Node) Send(dest string, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("message to %s: %w", dest, err)
	}
	return n.write(dest, text)
}

// RPC sends body with a msg_id of its own; fn is called with the answer, on a
// goroutine of its own, at most once.
func (n *Node) RPC(dest string, body any, fn HandlerFunc) error {
	_, err := n.ask(dest, body, fn)
	return err
}

func (n *Node) ask(dest string, body any, fn HandlerFunc) (id int64, err error) {
	n.mu.Lock()
	if len(n.pending) >= maxPending {
		n.mu.Unlock()
		return 0, fmt.Errorf("message to %s: %d requests wait for an answer already", dest, maxPending)
	}
	n.nextID++
	id = n.nextID
	n.pending[id] = fn
	n.mu.Unlock()
	text, err := with(body, "msg_id", id)
	if err == nil {
		err = n.write(dest, text)
	}
	if err != nil {
		n.forget(id)
	}
	return id, err
}

func (n *Node) forget(id int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.pending, id)
}

// SyncRPC sends body and waits for the answer or the end of ctx. An answer of type
// "error" is returned as an *RPCError.
func (n *Node) SyncRPC(ctx context.Context, dest string, body any) (Message, error) {
	got := make(chan Message, 1)
	id, err := n.ask(dest, body, func(m Message) error {
		got <- m
		return nil
	})
	if err != nil {
		return Message{}, err
	}
	select {
	case m := <-got:
		if e := m.RPCError(); e != nil {
			return m, e
		}
		return m, nil
	case <-ctx.Done():
		n.forget(id)
		return Message{}, fmt.Errorf("no answer of %s: %w", dest, ctx.Err())
	}
}

// with returns the object body with one more key, which replaces the body's own.
func with(body any, key string, value int64) ([]byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("body does not encode: %w", err)
	}
	text = bytes.TrimSpace(text)
	if len(text) < 2 || text[0] != '{' {
		return nil, fmt.Errorf("a body is an object, not %.50q", text)
	}
	if bytes.Contains(text, []byte(`"`+key+`"`)) {
		if text, err = without(text, key); err != nil {
			return nil, err
		}
	}
	out := fmt.Appendf(make([]byte, 0, len(text)+32), `{%q:%d`, key, value)
	if rest := bytes.TrimSpace(text[1:]); len(rest) > 1 {
		out = append(out, ',')
		return append(out, rest...), nil
	}
	return append(out, '}'), nil
}

// without removes a key of the object itself, not of what is inside.
func without(text []byte, key string) ([]byte, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("body does not decode: %w", err)
	}
	delete(all, key)
	return json.Marshal(all)
}

// write puts one line on stdout, whole and by itself.
func (n *Node) write(dest string, body []byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.broken != nil:
		return n.broken
	case n.id == "":
		return fmt.Errorf("message to %s before init: this node has no name yet", dest)
	case !n.names[dest]:
		// Maelstrom never reads again from a node that sends to a name it does not know.
		return fmt.Errorf("message to %q: no node, service or client of that name is known", dest)
	}
	n.out = append(n.out[:0], `{"src":`...)
	n.out = appendText(n.out, n.id)
	n.out = append(n.out, `,"dest":`...)
	n.out = appendText(n.out, dest)
	n.out = append(n.out, `,"body":`...)
	n.out = append(n.out, body...)
	n.out = append(n.out, "}\n"...)
	if _, err := n.Stdout.Write(n.out); err != nil {
		n.broken = fmt.Errorf("write stdout: %w", err)
		return n.broken
	}
	if cap(n.out) > keepBytes {
		n.out = nil
	}
	return nil
}

// keepBytes is the largest line whose memory is kept for the next.
const keepBytes = 1 << 20

func appendText(dst []byte, s string) []byte {
	text, err := json.Marshal(s)
	if err != nil { // a text always encodes
		panic(err)
	}
	return append(dst, text...)
}
