// Package session records what a stock client says to Lockstep and ticks off the
// checklist of what such a session needs (wire contracts 5.2). The recording is
// kept as test data, so that the checklist is checked with Go alone; CI records
// afresh with the real client and checks that too.
package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"sync"

	"lockstep/node"
	"lockstep/node/wire"
)

// Exchange is one kind of request with its answer, as often as it was seen alike.
type Exchange struct {
	From     string   `json:"from"` // "client" or "server"
	To       string   `json:"to"`   // "namesrv", "broker" or "client"
	Request  int32    `json:"request"`
	Name     string   `json:"name"`
	Flag     int32    `json:"flag"`
	Language string   `json:"language"`
	Ext      []string `json:"ext"`      // names of the request's ext fields
	Response int32    `json:"response"` // -1: none was sent
	Answer   []string `json:"answer"`   // names of the response's ext fields
	Body     bool     `json:"body"`     // the answer carries a body
	Times    int      `json:"times"`
}

func (e *Exchange) key() string {
	return fmt.Sprint(e.From, e.To, e.Request, e.Flag, e.Ext, e.Response, e.Answer, e.Body)
}

// Recorder collects the exchanges of a server's sessions with clients. Sessions
// that Lockstep's own nodes opened or that speak another language are left out.
type Recorder struct {
	Language string // the client's, "GO"

	mu   sync.Mutex
	open map[pendingID]*Exchange
	seen map[string]*Exchange
	list []*Exchange
}

type pendingID struct {
	server  string
	session node.SessionID
	opaque  int32
}

// NewRecorder records sessions of clients of one language.
func NewRecorder(language string) *Recorder {
	return &Recorder{Language: language, open: map[pendingID]*Exchange{}, seen: map[string]*Exchange{}}
}

// Watch returns the hooks of one server's host.
func (r *Recorder) Watch(server string) (deliver, send func(s node.SessionID, f *wire.Frame)) {
	return func(s node.SessionID, f *wire.Frame) { r.delivered(server, s, f) }, func(s node.SessionID, f *wire.Frame) { r.sent(server, s, f) }
}

func (r *Recorder) delivered(server string, s node.SessionID, f *wire.Frame) {
	if f.Link != wire.Remoting || s&node.Dialled != 0 || f.Head.Sealed || f.Head.Response() || f.Head.Language != r.Language {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open[pendingID{server, s, f.Head.Opaque}] = &Exchange{From: "client", To: server, Request: f.Head.Code, Name: wire.RequestName(f.Head.Code),
		Flag: f.Head.Flag, Language: f.Head.Language, Ext: names(f.ExtFields()), Response: -1}
}

func (r *Recorder) sent(server string, s node.SessionID, f *wire.Frame) {
	if f.Link != wire.Remoting || s&node.Dialled != 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !f.Head.Response() {
		r.keep(&Exchange{From: server, To: "client", Request: f.Head.Code, Name: wire.RequestName(f.Head.Code), Flag: f.Head.Flag,
			Language: f.Head.Language, Ext: names(f.ExtFields()), Response: -1})
		return
	}
	id := pendingID{server, s, f.Head.Opaque}
	e := r.open[id]
	if e == nil {
		return
	}
	delete(r.open, id)
	e.Response, e.Answer, e.Body = f.Head.Code, names(f.ExtFields()), len(f.Body) > 0
	r.keep(e)
}

func (r *Recorder) keep(e *Exchange) {
	if old := r.seen[e.key()]; old != nil {
		old.Times++
		return
	}
	e.Times = 1
	r.seen[e.key()] = e
	r.list = append(r.list, e)
}

// names are the keys of ext fields, sorted; Lockstep's own begin with "ls".
func names(ext wire.Ext) []string {
	out := make([]string, 0, len(ext))
	for _, f := range ext {
		if !strings.HasPrefix(f.Key, "ls") {
			out = append(out, f.Key)
		}
	}
	sort.Strings(out)
	return slices.Compact(out)
}

// Exchanges returns what was seen, in order of first sight.
func (r *Recorder) Exchanges() []Exchange {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Exchange, len(r.list))
	for i, e := range r.list {
		out[i] = *e
	}
	return out
}

// Write writes one exchange a line.
func Write(w io.Writer, list []Exchange) error {
	enc := json.NewEncoder(w)
	for i := range list {
		if err := enc.Encode(&list[i]); err != nil {
			return err
		}
	}
	return nil
}

// Read reads what Write wrote.
func Read(rd io.Reader) ([]Exchange, error) {
	var out []Exchange
	for dec := json.NewDecoder(rd); ; {
		var e Exchange
		if err := dec.Decode(&e); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, fmt.Errorf("recorded session: %w", err)
		}
		out = append(out, e)
	}
}
