package checker

import (
	"strings"
	"testing"
	"time"
)

const q = "g/T/0"

func send(client int, key string, off, invoke, ret int64) Op {
	return Op{Client: client, Kind: Send, Key: key, Queue: q, Offset: off, Invoke: invoke, Return: ret, Status: Done}
}

func unknown(client int, key string, invoke int64) Op {
	return Op{Client: client, Kind: Send, Key: key, Queue: q, Invoke: invoke, Return: Open, Status: Unknown, UnknownTries: 1}
}

func refused(client int, key string, invoke, ret int64) Op {
	return Op{Client: client, Kind: Send, Key: key, Queue: q, Invoke: invoke, Return: ret, Status: Refused}
}

func read(client int, key string, off, invoke, ret int64) Op {
	return Op{Client: client, Kind: Read, Key: key, Queue: q, Offset: off, Invoke: invoke, Return: ret, Status: Done}
}

func final(keys ...string) map[string][]Entry {
	var es []Entry
	for i, k := range keys {
		es = append(es, Entry{int64(i), k})
	}
	return map[string][]Entry{q: es}
}

// TestQueueJudge has one history for every way the judge can be fooled.
func TestQueueJudge(t *testing.T) {
	cases := []struct {
		name  string
		h     History
		wants []string // names of findings; none = good
	}{
		{"good", History{Ops: []Op{send(1, "a", 0, 0, 5), send(2, "b", 1, 3, 8), read(3, "a", 0, 9, 10), read(3, "b", 1, 10, 11)}, Final: final("a", "b")}, nil},
		{"unknown that was stored", History{Ops: []Op{unknown(1, "a", 0), send(2, "b", 1, 3, 8)}, Final: final("a", "b")}, nil},
		{"unknown that was not", History{Ops: []Op{unknown(1, "a", 0), send(2, "b", 0, 3, 8)}, Final: final("b")}, nil},
		{"acknowledged message missing", History{Ops: []Op{send(1, "a", 0, 0, 5), send(2, "b", 1, 3, 8)}, Final: final("a")}, []string{"lost"}},
		{"unknown taken as failed", History{Ops: []Op{refused(1, "a", 0, 5)}, Final: final("a")}, []string{"refused-appears"}},
		{"refused is delivered", History{Ops: []Op{refused(1, "a", 0, 5), read(2, "a", 0, 6, 7), send(3, "b", 0, 8, 9)}, Final: final("b")},
			[]string{"value-changed", "refused-appears"}},
		{"empty history", History{}, []string{"vacuous"}},
		{"one client only", History{MinClients: 4, Ops: []Op{send(1, "a", 0, 0, 5)}, Final: final("a")}, []string{"vacuous"}},
		{"no overlap", History{MinOverlap: 1, Ops: []Op{send(1, "a", 0, 0, 5), send(2, "b", 1, 6, 7)}, Final: final("a", "b")}, []string{"vacuous"}},
		{"reads below the loss only", History{Ops: []Op{send(1, "a", 0, 0, 5), send(1, "b", 1, 6, 7), read(2, "a", 0, 8, 9)}, Final: final("a")}, []string{"lost"}},
		{"duplicate hides a loss", History{Ops: []Op{send(1, "a", 0, 0, 5), send(1, "b", 1, 6, 7)}, Final: final("a", "a")},
			[]string{"value-changed", "lost", "duplicated"}},
		{"truncated and sent again", History{Ops: []Op{send(1, "a", 0, 0, 5), send(2, "b", 1, 1, 6), read(3, "b", 1, 7, 8)}, Final: final("a", "c", "b")},
			[]string{"value-changed", "value-changed", "lost", "phantom"}},
		{"explained duplicate", History{Ops: []Op{{Client: 1, Kind: Send, Key: "a", Queue: q, Offset: 1, Invoke: 0, Return: 9, Status: Done, UnknownTries: 1}}, Final: final("a", "a")}, nil},
		{"reordered", History{Ops: []Op{send(1, "a", 1, 0, 5), send(2, "b", 0, 6, 9)}, Final: final("b", "a")}, []string{"reordered"}},
		{"reordered across a quiet point", History{Ops: []Op{send(1, "a", 2, 0, 5), send(2, "x", 1, 1, 900), send(2, "b", 0, 1000, 1001)}, Final: final("b", "x", "a")},
			[]string{"reordered", "reordered"}},
		{"skewed timestamps", History{Ops: []Op{send(1, "a", 0, 9, 5)}, Final: final("a")}, []string{"time"}},
		{"read before its send", History{Ops: []Op{send(1, "a", 0, 10, 15), read(2, "a", 0, 1, 2)}, Final: final("a")}, []string{"read-before-send"}},
		{"phantom", History{Ops: []Op{read(2, "z", 0, 1, 2)}, Final: final("z")}, []string{"phantom", "phantom"}},
		{"value changes between readers", History{Ops: []Op{send(1, "a", 0, 0, 3), unknown(2, "b", 0), read(3, "b", 0, 4, 5)}, Final: final("a")}, []string{"value-changed"}},
		{"gap", History{Ops: []Op{send(1, "a", 0, 0, 3), send(1, "b", 2, 4, 5)}, Final: map[string][]Entry{q: {{0, "a"}, {2, "b"}}}}, []string{"gap"}},
		{"read and gone with the tail", History{Ops: []Op{send(1, "a", 0, 0, 3), unknown(2, "b", 0), read(3, "b", 1, 4, 5), read(4, "b", 1, 5, 6)}, Final: final("a")}, []string{"read-lost"}},
		{"read and gone, allowed", History{Ops: []Op{send(1, "a", 0, 0, 3), unknown(2, "b", 0), read(3, "b", 1, 4, 5)}, Final: final("a"), LossAllowed: func(k string) bool { return k == "b" }}, nil},
		{"first entry gone", History{Ops: []Op{send(1, "a", 0, 0, 3), send(1, "b", 1, 4, 5)}, Final: map[string][]Entry{q: {{1, "b"}}}}, []string{"gap", "lost"}},
		{"first entry expired", History{Expires: true, Ops: []Op{send(1, "a", 0, 0, 3), send(1, "b", 1, 4, 5), read(2, "a", 0, 6, 7)}, Final: map[string][]Entry{q: {{1, "b"}}}}, nil},
		{"an allowed loss hides no other", History{Ops: []Op{send(1, "a", 0, 0, 3), send(1, "b", 0, 4, 5), read(2, "c", 0, 6, 7), unknown(3, "c", 0)}, Final: map[string][]Entry{}, LossAllowed: func(k string) bool { return k == "a" }},
			[]string{"value-changed", "lost"}},
		{"key used twice", History{Ops: []Op{send(1, "a", 0, 0, 3), send(2, "a", 0, 4, 5)}, Final: final("a")}, []string{"key-reused"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			found, _ := CheckQueues(&c.h)
			var got []string
			for _, f := range found {
				got = append(got, f.Name)
			}
			if strings.Join(got, " ") != strings.Join(c.wants, " ") {
				t.Errorf("got %v, want %v\n%v", got, c.wants, found)
			}
		})
	}
}

// TestLinearAgrees runs the cross-check on small histories.
func TestLinearAgrees(t *testing.T) {
	good := History{Ops: []Op{send(1, "a", 0, 0, 5), unknown(2, "b", 1), send(3, "c", 2, 2, 9), read(4, "b", 1, 10, 11)}, Final: final("a", "b", "c")}
	if f := CheckLinear(q, &good, 5*time.Second); len(f) != 0 {
		t.Errorf("good history: %v", f)
	}
	bad := History{Ops: []Op{send(1, "a", 1, 0, 5), send(2, "b", 0, 6, 9)}, Final: final("b", "a")}
	if f := CheckLinear(q, &bad, 5*time.Second); len(f) != 1 || f[0].Name != "not-linearizable" {
		t.Errorf("reordered history: %v", f)
	}
	// A copy of an acknowledged send, left by a try that ended unknown, and one that
	// lies in another queue than its acknowledged copy.
	copied := History{Ops: []Op{{Client: 1, Kind: Send, Key: "a", Queue: q, Offset: 1, Invoke: 0, Return: 9, Status: Done, UnknownTries: 1},
		{Client: 2, Kind: Send, Key: "b", Queue: "g/T/1", Offset: 0, Invoke: 0, Return: 9, Status: Done, UnknownTries: 1}, read(3, "b", 2, 11, 12)}, Final: final("a", "a", "b")}
	if f := CheckLinear(q, &copied, 5*time.Second); len(f) != 0 {
		t.Errorf("explained copies: %v", f)
	}
	lost := History{Ops: []Op{send(1, "a", 0, 0, 5), send(2, "b", 1, 6, 9)}, Final: final("a")}
	if f := CheckLinear(q, &lost, 5*time.Second); len(f) != 1 {
		t.Errorf("lost message: %v", f)
	}
	early := History{Ops: []Op{send(1, "a", 0, 10, 15), read(2, "a", 0, 1, 2)}, Final: final("a")}
	if f := CheckLinear(q, &early, 5*time.Second); len(f) != 1 {
		t.Errorf("read before send: %v", f)
	}
}
