package service

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
)

// ask sends a request and tells the reply as type, value or code.
func ask(s Service, src, body string) string {
	r := s.Handle(src, json.RawMessage(body))
	switch {
	case r["type"] == "error":
		return fmt.Sprint("error ", r["code"])
	case r["value"] != nil:
		return fmt.Sprintf("%s %s", r["type"], r["value"])
	case r["ts"] != nil:
		return fmt.Sprintf("%s %v", r["type"], r["ts"])
	}
	return fmt.Sprint(r["type"])
}

func TestLinKV(t *testing.T) {
	s := New("lin-kv", 1)
	for _, c := range []struct{ body, want string }{
		{`{"type":"read","key":"a"}`, "error 20"},
		{`{"type":"cas","key":"a","from":1,"to":2}`, "error 20"},
		{`{"type":"cas","key":"a","from":1,"to":2,"create_if_not_exists":true}`, "cas_ok"},
		{`{"type":"read","key":"a"}`, "read_ok 2"},
		{`{"type":"cas","key":"a","from":1,"to":3}`, "error 22"},
		{`{"type":"cas","key":"a","from":2,"to":{"x": [1, null]}}`, "cas_ok"},
		{`{"type":"cas","key":"a","from":{"x":[1,null]},"to":4}`, "cas_ok"},
		{`{"type":"write","key":"a","value":5}`, "write_ok"},
		{`{"type":"read","key":"a"}`, "read_ok 5"},
		{`{"type":"read","key":["a"]}`, "error 20"},
		{`{"type":"read"}`, "error 12"},
		{`{"type":"write","key":1}`, "error 12"},
		{`{"type":"cas","key":1,"from":2}`, "error 12"},
		{`{"type":5}`, "error 12"},
		{`{"type":"delete","key":1}`, "error 10"},
	} {
		if got := ask(s, "n0", c.body); got != c.want {
			t.Errorf("%s: %s, want %s", c.body, got, c.want)
		}
	}
}

func TestLinTSO(t *testing.T) {
	s := New("lin-tso", 1)
	for i := range 3 {
		if got := ask(s, "n0", `{"type":"ts"}`); got != fmt.Sprint("ts_ok ", i) {
			t.Errorf("got %s", got)
		}
	}
	if got := ask(s, "n0", `{"type":"read"}`); got != "error 10" {
		t.Errorf("got %s", got)
	}
	if got := ask(s, "n0", `[]`); got != "error 12" {
		t.Errorf("got %s", got)
	}
}

// TestSeqKV: reads may be up to 31 states old and never go back for one caller;
// a change works on the newest state and shows it to whoever made it.
func TestSeqKV(t *testing.T) {
	s := New("seq-kv", 3)
	for i := range 100 {
		ask(s, "n0", fmt.Sprintf(`{"type":"write","key":"a","value":%d}`, i))
	}
	seen := map[int]bool{}
	for caller := range 100 {
		last := 0
		for range 200 {
			var v int
			if _, err := fmt.Sscanf(ask(s, fmt.Sprint("r", caller), `{"type":"read","key":"a"}`), "read_ok %d", &v); err != nil {
				t.Fatal(err)
			}
			if v < 68 || v > 99 || v < last {
				t.Fatalf("r%d read %d after %d", caller, v, last)
			}
			last = v
			seen[v] = true
		}
		if last != 99 {
			t.Errorf("r%d still reads %d after many reads", caller, last)
		}
	}
	if len(seen) < 30 {
		t.Errorf("only %d states of 32 were shown", len(seen))
	}
	if got := ask(s, "n0", `{"type":"read","key":"a"}`); got != "read_ok 99" {
		t.Errorf("the writer itself reads %s", got)
	}
	// A write that changes something makes its caller up to date.
	ask(s, "n2", `{"type":"write","key":"fresh","value":1}`)
	if got := ask(s, "n2", `{"type":"read","key":"a"}`); got != "read_ok 99" {
		t.Errorf("after a write of its own n2 reads %s", got)
	}
	// A cas that fits an old state is decided on the newest.
	for i := range 50 {
		if got := ask(s, fmt.Sprint("m", i), `{"type":"cas","key":"a","from":90,"to":1}`); got != "error 22" {
			t.Fatalf("a cas from an old value: %s", got)
		}
	}
}

// TestLwwKV: two replicas differ for a while, and the last write wins in the end.
func TestLwwKV(t *testing.T) {
	s := New("lww-kv", 1)
	seen := map[string]bool{}
	for i := range 200 {
		ask(s, "n0", fmt.Sprintf(`{"type":"write","key":"a","value":%d}`, i))
		seen[fmt.Sprint(ask(s, "n1", `{"type":"read","key":"a"}`) == fmt.Sprintf("read_ok %d", i))] = true
	}
	if len(seen) != 2 {
		t.Error("reads are all fresh or all stale")
	}
	var last []string
	for range 40 {
		last = append(last, ask(s, "n1", `{"type":"read","key":"a"}`))
	}
	if len(slices.Compact(last[20:])) != 1 {
		t.Errorf("replicas do not converge: %v", last)
	}
	if got := ask(s, "n0", `{"type":"cas","key":"new","from":1,"to":2,"create_if_not_exists":true}`); got != "error 20" {
		t.Errorf("lww-kv created by cas: %s", got)
	}
}

// TestSeed: a seed repeats what a service draws.
func TestSeed(t *testing.T) {
	run := func(seed uint64) string {
		s, out := New("seq-kv", seed), ""
		for i := range 60 {
			ask(s, "n0", fmt.Sprintf(`{"type":"write","key":"a","value":%d}`, i))
			out += ask(s, fmt.Sprint("n", i), `{"type":"read","key":"a"}`)
		}
		return out
	}
	if run(5) != run(5) {
		t.Error("same seed, other answers")
	}
	if run(5) == run(6) {
		t.Error("another seed, same answers")
	}
}
