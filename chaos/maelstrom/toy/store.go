package toy

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// store is everything but kafka: registers, a set, ids.
type store struct {
	fault  string
	values map[string]int64
	old    map[string]int64 // the value before the present one
	set    map[int64]bool
	began  int64
	ids    int64
	turns  int
	reads  int
}

func newStore(fault string) *store {
	return &store{fault: fault, values: map[string]int64{}, old: map[string]int64{}, set: map[int64]bool{}, began: time.Now().UnixNano()}
}

// every reports true once in n calls.
func (s *store) every(n int) bool {
	s.turns++
	return s.turns%n == 0
}

// id is unique across nodes and restarts: the node, its start and a counter.
func (s *store) id(node string) string {
	if s.fault == "duplicate-id" && s.every(10) {
		return "again"
	}
	s.ids++
	return fmt.Sprintf("%s-%d-%d", node, s.began, s.ids)
}

func (s *store) apply(r request) body {
	b := r.body
	switch b["type"] {
	case "echo":
		if s.fault == "echo-mismatch" && s.every(10) {
			return body{"type": "echo_ok", "echo": "something else"}
		}
		return body{"type": "echo_ok", "echo": b["echo"]}
	case "topology":
		return body{"type": "topology_ok"}
	case "broadcast":
		s.set[number(b["message"])] = true
		return body{"type": "broadcast_ok"}
	case "read":
		if b["key"] == nil {
			return body{"type": "read_ok", "messages": s.read()}
		}
		return s.register(b)
	case "write", "cas":
		return s.register(b)
	}
	return failure(10, fmt.Sprintf("unknown type %v", b["type"]))
}

func (s *store) register(b body) body {
	key := fmt.Sprint(b["key"])
	value, ok := s.values[key]
	switch {
	case b["type"] == "write":
		s.put(key, number(b["value"]))
		return body{"type": "write_ok"}
	case !ok:
		return failure(20, "no such key")
	case b["type"] == "read":
		if old, had := s.old[key]; s.fault == "nonlinearizable" && had && old != value && s.every(5) {
			value = old
		}
		return body{"type": "read_ok", "value": value}
	case value != number(b["from"]):
		return failure(22, fmt.Sprintf("it is %d", value))
	}
	s.put(key, number(b["to"]))
	return body{"type": "cas_ok"}
}

func (s *store) put(key string, value int64) {
	if now, ok := s.values[key]; ok && now != value {
		s.old[key] = now
	}
	s.values[key] = value
}

// elements of the set in order.
func (s *store) elements() []int64 { return slices.Sorted(maps.Keys(s.set)) }

func (s *store) merge(messages any) {
	list, _ := messages.([]any)
	for _, v := range list {
		if n, ok := v.(json.Number); ok {
			s.set[number(n)] = true
		}
	}
}

// read is the set as the node shows it.
func (s *store) read() []int64 {
	out := s.elements()
	if out == nil {
		out = []int64{}
	}
	s.reads++
	switch {
	case s.fault == "lost" && s.reads > 10:
		out = slices.DeleteFunc(out, func(v int64) bool { return v == 0 })
	case s.fault == "stale" && s.reads < 6:
		out = []int64{}
	case s.fault == "duplicated" && len(out) > 0:
		out = append(out, out[0])
	case s.fault == "unexpected":
		out = append(out, 1<<40)
	}
	return out
}
