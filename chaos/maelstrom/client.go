package maelstrom

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"lockstep/chaos/maelstrom/history"
)

// Client is a name on the network that asks one thing at a time.
type Client struct {
	name   string
	r      *router
	closed <-chan struct{}
	nextID int64
	starts bool // it initialises nodes

	mu      sync.Mutex
	waiting int64 // msg_id of the request in flight; 0: none
	reply   chan json.RawMessage
}

// open makes a client with a name that was never used before.
func (r *router) open(closed <-chan struct{}) *Client {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &Client{name: fmt.Sprintf("c%d", r.nextName), r: r, closed: closed, reply: make(chan json.RawMessage, 1)}
	r.nextName++
	r.clients[c.name] = c
	return c
}

// openFor is open for a thread of the generator.
func (r *router) openFor(thread int, closed <-chan struct{}) *Client {
	c := r.open(closed)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.threadOf[c.name] = thread
	return c
}

// Close takes the client off the network; late replies to it are dropped.
func (c *Client) Close() {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	delete(c.r.clients, c.name)
	c.r.former[c.name] = true
}

// receive takes the reply to the request in flight and drops everything else.
func (c *Client) receive(m *Message) {
	h, err := m.head()
	if err != nil || h.InReplyTo == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if *h.InReplyTo == c.waiting {
		c.waiting = 0
		c.reply <- m.Body // there is room: one reply for one request
	}
}

// Errors of a request beside a RemoteError.
var (
	ErrTimeout = errors.New("no answer in time")
	ErrClosed  = errors.New("the run has ended")
)

// RemoteError is an error that a node answered.
type RemoteError struct {
	Code int
	Text string
}

// Error tells the code and the node's text.
func (e *RemoteError) Error() string { return fmt.Sprintf("error %d: %s", e.Code, e.Text) }

// definite are the codes that promise that nothing happened and nothing will.
var definite = map[int]bool{1: true, 10: true, 11: true, 12: true, 14: true, 20: true, 21: true, 22: true, 30: true}

// BadReply is a reply that the protocol does not allow.
type BadReply struct{ Text string }

// Error tells what is wrong with it.
func (e *BadReply) Error() string { return "bad reply: " + e.Text }

// Call sends a request of that type and decodes the reply's fields into the
// pointers of want, all of which must be there, and no others.
func (c *Client) Call(dest string, timeout time.Duration, request map[string]any, want map[string]any) error {
	c.nextID++
	kind := request["type"].(string)
	request["msg_id"] = c.nextID
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("encode %s: %w", kind, err)
	}
	c.mu.Lock()
	c.waiting = c.nextID
	c.mu.Unlock()
	if err := c.r.send(&Message{Src: c.name, Dest: dest, Body: body, starts: c.starts}); err != nil {
		return err
	}
	t := time.NewTimer(timeout)
	defer t.Stop()
	select {
	case reply := <-c.reply:
		return decodeReply(kind, reply, want)
	case <-t.C:
		err = ErrTimeout
	case <-c.closed:
		err = ErrClosed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = 0
	select {
	case <-c.reply: // it came just now: too late
	default:
	}
	return err
}

// decodeReply is strict: type and fields must be exactly those of the protocol.
func decodeReply(kind string, reply json.RawMessage, want map[string]any) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(reply, &fields); err != nil {
		return &BadReply{fmt.Sprintf("to %s: %v", kind, err)}
	}
	var got string
	if err := json.Unmarshal(fields["type"], &got); err != nil {
		return &BadReply{fmt.Sprintf("to %s: type is missing or no string", kind)}
	}
	if got == "error" {
		return remoteError(kind, fields)
	}
	if got != kind+"_ok" {
		return &BadReply{fmt.Sprintf("to %s: type is %q, not %s_ok", kind, got, kind)}
	}
	for field := range fields {
		if _, ok := want[field]; !ok && field != "type" && field != "in_reply_to" && field != "msg_id" {
			return &BadReply{fmt.Sprintf("to %s: field %q does not belong", kind, field)}
		}
	}
	for field, into := range want {
		raw, ok := fields[field]
		if !ok {
			return &BadReply{fmt.Sprintf("to %s: field %q is missing", kind, field)}
		}
		if err := json.Unmarshal(raw, into); err != nil {
			return &BadReply{fmt.Sprintf("to %s: field %q: %v", kind, field, err)}
		}
	}
	return nil
}

func remoteError(kind string, fields map[string]json.RawMessage) error {
	e := &RemoteError{}
	if err := json.Unmarshal(fields["code"], &e.Code); err != nil {
		return &BadReply{fmt.Sprintf("to %s: an error without an integer code", kind)}
	}
	if raw, ok := fields["text"]; ok {
		if err := json.Unmarshal(raw, &e.Text); err != nil {
			return &BadReply{fmt.Sprintf("to %s: the text of an error is no string", kind)}
		}
	}
	return e
}

// settle ends an operation by the outcome of its request: a definite error means
// that it failed, anything else that nobody knows, unless the operation changes
// nothing.
func settle(op *history.Op, err error, idempotent bool) {
	op.Type = outcome(err, idempotent)
	if err != nil {
		op.Err = err.Error()
	}
}

func outcome(err error, idempotent bool) history.Outcome {
	var remote *RemoteError
	switch {
	case err == nil:
		return history.OK
	case idempotent, errors.As(err, &remote) && definite[remote.Code]:
		return history.Fail
	}
	return history.Info
}
