// Package service holds the services that Maelstrom offers to nodes: lin-kv,
// seq-kv, lww-kv and lin-tso. A service answers one request at a time; what it
// draws comes from its seed.
package service

import (
	"bytes"
	"encoding/json"
	"fmt"

	"lockstep/internal/prng"
)

// Error codes that services answer.
const (
	notSupported       = 10
	malformedRequest   = 12
	keyDoesNotExist    = 20
	preconditionFailed = 22
)

// Service answers requests of nodes.
type Service interface {
	// Handle returns the body of the reply without in_reply_to. A request is
	// never left without one.
	Handle(src string, body json.RawMessage) map[string]any
}

// Names are the services of every run.
var Names = []string{"lin-kv", "lin-tso", "lww-kv", "seq-kv"}

// New returns the service of that name; it panics for a name not in Names.
func New(name string, seed uint64) Service {
	src := prng.New(prng.Hash(seed, prng.HashString(name)))
	switch name {
	case "lin-kv":
		return &kv{newest: newLinear()}
	case "seq-kv":
		return &kv{newest: newSequential(src)}
	case "lww-kv":
		return &kv{newest: newLastWrite(src), noCreate: true}
	case "lin-tso":
		return &tso{}
	}
	panic("no service " + name)
}

func failure(code int, format string, args ...any) map[string]any {
	return map[string]any{"type": "error", "code": code, "text": fmt.Sprintf(format, args...)}
}

// tso gives numbers that only rise.
type tso struct{ next int64 }

func (t *tso) Handle(_ string, body json.RawMessage) map[string]any {
	var r struct{ Type string }
	if err := json.Unmarshal(body, &r); err != nil {
		return failure(malformedRequest, "lin-tso: %v", err)
	}
	if r.Type != "ts" {
		return failure(notSupported, "lin-tso knows ts, not %q", r.Type)
	}
	t.next++
	return map[string]any{"type": "ts_ok", "ts": t.next - 1}
}

// store is what the three key-value services differ in. Keys and values are
// canonical JSON.
type store interface {
	// view picks the state that a request of src sees.
	view(src string)
	get(key string) (value string, ok bool)
	// change is called when the request would change that state; it returns
	// whether the change is to be decided anew on what get then shows.
	change() bool
	set(key, value string)
	done(src string)
}

// kv is read, write and cas on a store.
type kv struct {
	newest   store
	noCreate bool
}

type request struct {
	Type   string          `json:"type"`
	Key    json.RawMessage `json:"key"`
	Value  json.RawMessage `json:"value"`
	From   json.RawMessage `json:"from"`
	To     json.RawMessage `json:"to"`
	Create bool            `json:"create_if_not_exists"`
}

func (s *kv) Handle(src string, body json.RawMessage) map[string]any {
	var r request
	if err := json.Unmarshal(body, &r); err != nil {
		return failure(malformedRequest, "request does not decode: %v", err)
	}
	need := map[string][]json.RawMessage{"read": {r.Key}, "write": {r.Key, r.Value}, "cas": {r.Key, r.From, r.To}}[r.Type]
	if need == nil {
		return failure(notSupported, "a key-value service knows read, write and cas, not %q", r.Type)
	}
	for _, field := range need {
		if field == nil {
			return failure(malformedRequest, "%s lacks a field: read needs key; write key, value; cas key, from, to", r.Type)
		}
	}
	s.newest.view(src)
	defer s.newest.done(src)
	reply, changes := s.decide(r)
	if changes && s.newest.change() {
		reply, changes = s.decide(r)
	}
	if changes {
		value := r.Value
		if r.Type == "cas" {
			value = r.To
		}
		s.newest.set(canonical(r.Key), canonical(value))
	}
	return reply
}

// decide is the answer in the present view, and whether it changes the store.
func (s *kv) decide(r request) (reply map[string]any, changes bool) {
	key := canonical(r.Key)
	value, ok := s.newest.get(key)
	switch {
	case r.Type == "read" && !ok:
		return failure(keyDoesNotExist, "key %s does not exist", key), false
	case r.Type == "read":
		return map[string]any{"type": "read_ok", "value": json.RawMessage(value)}, false
	case r.Type == "write":
		return map[string]any{"type": "write_ok"}, !ok || value != canonical(r.Value)
	case !ok && r.Create && !s.noCreate:
		return map[string]any{"type": "cas_ok"}, true
	case !ok:
		return failure(keyDoesNotExist, "key %s does not exist", key), false
	case value != canonical(r.From):
		return failure(preconditionFailed, "key %s is %s, not %s", key, value, canonical(r.From)), false
	}
	return map[string]any{"type": "cas_ok"}, value != canonical(r.To)
}

// canonical makes equal JSON values equal strings; encoding/json sorts keys.
func canonical(raw json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return string(raw)
	}
	out, err := json.Marshal(v)
	if err != nil {
		return string(raw)
	}
	return string(out)
}
