package check

import (
	"slices"
	"testing"
	"time"

	"lockstep/chaos/maelstrom/history"
)

func value(v int64) *int64 { return &v }

func (h *hist) kv(process int, f string, from, msg int64, t history.Outcome) *history.Op {
	op := h.begin(process, f)
	op.Key, op.From, op.Msg = "0", from, msg
	if f == history.Read {
		op.Value = value(msg)
	}
	return h.end(op, t)
}

func TestLinKV(t *testing.T) {
	const ok, fail, info = history.OK, history.Fail, history.Info
	cases := []struct {
		name  string
		build func(h *hist)
		want  Verdict
	}{
		{"good", func(h *hist) {
			h.kv(0, history.Write, 0, 1, ok)
			h.kv(1, history.Read, 0, 1, ok)
			h.kv(0, history.CAS, 1, 2, ok)
			h.kv(1, history.Read, 0, 2, ok)
		}, Valid},
		{"stale read", func(h *hist) {
			h.kv(0, history.Write, 0, 1, ok)
			h.kv(0, history.Write, 0, 2, ok)
			h.kv(1, history.Read, 0, 1, ok)
		}, Invalid},
		{"read of nothing written", func(h *hist) { h.kv(1, history.Read, 0, 3, ok) }, Invalid},
		{"swap that cannot have fitted", func(h *hist) {
			h.kv(0, history.Write, 0, 1, ok)
			h.kv(1, history.CAS, 3, 4, ok)
		}, Invalid},
		{"two swaps from one value", func(h *hist) {
			h.kv(0, history.Write, 0, 1, ok)
			h.kv(1, history.CAS, 1, 2, ok)
			h.kv(2, history.CAS, 1, 3, ok)
		}, Invalid},
		{"unknown write that came later", func(h *hist) {
			h.kv(0, history.Write, 0, 1, ok)
			h.kv(2, history.Write, 0, 2, info)
			h.kv(1, history.Read, 0, 1, ok)
			h.kv(1, history.Read, 0, 2, ok)
		}, Valid},
		{"unknown write that came and went back", func(h *hist) {
			h.kv(0, history.Write, 0, 1, ok)
			h.kv(2, history.Write, 0, 2, info)
			h.kv(1, history.Read, 0, 2, ok)
			h.kv(1, history.Read, 0, 1, ok)
		}, Invalid},
		{"unknown swap that never fitted", func(h *hist) {
			h.kv(0, history.Write, 0, 1, ok)
			h.kv(2, history.CAS, 3, 4, info)
			h.kv(1, history.Read, 0, 1, ok)
		}, Valid},
		{"failed write that was read", func(h *hist) {
			h.kv(0, history.Write, 0, 1, ok)
			h.kv(2, history.Write, 0, 2, fail)
			h.kv(1, history.Read, 0, 2, ok)
		}, Invalid},
		{"failed read shows nothing", func(h *hist) {
			h.kv(0, history.Write, 0, 1, ok)
			h.kv(1, history.Read, 0, 4, fail)
		}, Valid},
		{"null fits everything", func(h *hist) {
			h.kv(0, history.Write, 0, 1, ok)
			h.kv(1, history.Read, 0, 1, ok).Value = nil
		}, Valid},
		{"concurrent writes in either order", func(h *hist) {
			a, b := h.begin(0, history.Write), h.begin(1, history.Write)
			a.Key, a.Msg, b.Key, b.Msg = "0", 1, "0", 2
			h.end(a, ok)
			h.end(b, ok)
			h.kv(2, history.Read, 0, 1, ok)
		}, Valid},
		{"nothing that happened", func(h *hist) { h.kv(0, history.Write, 0, 1, info) }, Unknown},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := &hist{}
			c.build(h)
			r := LinKV(h.ops, 5*time.Second)
			if r.Verdict != c.want {
				t.Errorf("verdict %s, want %s: %+v", r.Verdict, c.want, r)
			}
			if c.want == Invalid && !slices.Equal(r.Names(), []string{Nonlinearizable}) {
				t.Errorf("names %v", r.Names())
			}
		})
	}
}

// TestLinKVUndecided: a search that hits its limit is unknown, never valid.
func TestLinKVUndecided(t *testing.T) {
	h := &hist{}
	var open []*history.Op
	for i := range 40 { // concurrent writes, and one value that none of them wrote
		op := h.begin(i, history.Write)
		op.Key, op.Msg = "0", int64(i)
		open = append(open, op)
	}
	for _, op := range open {
		h.end(op, history.OK)
	}
	h.kv(99, history.Read, 0, 1000, history.OK)
	if r := LinKV(h.ops, time.Millisecond); r.Verdict != Unknown {
		t.Errorf("verdict %s: %+v", r.Verdict, r)
	}
}

// TestLinKVFirst: the example is the operation by which it went wrong.
func TestLinKVFirst(t *testing.T) {
	h := &hist{}
	h.kv(0, history.Write, 0, 1, history.OK)
	h.kv(0, history.Write, 0, 2, history.OK)
	h.kv(2, history.Write, 0, 3, history.Info)
	bad := h.kv(1, history.Read, 0, 1, history.OK)
	h.kv(0, history.Write, 0, 1, history.OK)
	h.kv(1, history.Read, 0, 1, history.OK)
	r := LinKV(h.ops, 5*time.Second)
	const want = "key 0: no order explains its first 4 operations, up to the end of op 3 (process 1, read on n0) of 1"
	if len(r.Anomalies) != 1 || r.Anomalies[0].Examples[0].Text != want {
		t.Errorf("got %+v", r.Anomalies)
	}
	if at, found := r.First(); !found || at != bad.Completed {
		t.Errorf("first anomaly at %v, want %v", at, bad.Completed)
	}
}

func (h *hist) add(process int, v int64, t history.Outcome) {
	op := h.begin(process, history.Broadcast)
	op.Msg = v
	h.end(op, t)
}

func (h *hist) read(process int, vs ...int64) *history.Op {
	op := h.begin(process, history.Read)
	op.Elements = vs
	return h.end(op, history.OK)
}

func TestBroadcast(t *testing.T) {
	const ok, info = history.OK, history.Info
	cases := []struct {
		name    string
		build   func(h *hist)
		verdict Verdict
		names   []string
		allowed string
	}{
		{"good", func(h *hist) { h.add(0, 1, ok); h.add(0, 2, ok); h.read(1, 2, 1) }, Valid, nil, ""},
		{"lost", func(h *hist) { h.add(0, 1, ok); h.add(0, 2, ok); h.read(1, 1, 2); h.read(1, 2) }, Invalid, []string{Lost}, ""},
		{"lost, never there", func(h *hist) { h.add(0, 1, ok); h.add(0, 2, ok); h.read(1, 2) }, Invalid, []string{Lost}, ""},
		{"lost at one node in the end", func(h *hist) {
			h.add(0, 1, ok)
			h.read(1).Final = true
			h.read(2, 1).Final = true
		}, Invalid, []string{Lost}, ""},
		{"duplicated", func(h *hist) { h.add(0, 1, ok); h.read(1, 1, 1) }, Invalid, []string{Duplicated}, ""},
		{"unexpected", func(h *hist) { h.add(0, 1, ok); h.read(1, 1, 7) }, Invalid, []string{Unexpected}, ""},
		{"stale", func(h *hist) { h.add(0, 1, ok); h.read(1); h.read(1, 1) }, Valid, nil, Stale},
		{"never read", func(h *hist) { h.add(0, 1, ok); h.read(1, 1); h.add(0, 2, ok) }, Valid, nil, NeverRead},
		{"unknown and absent", func(h *hist) { h.add(0, 1, info); h.add(0, 2, ok); h.read(1, 2) }, Valid, nil, ""},
		{"unknown, seen and gone", func(h *hist) { h.add(0, 1, info); h.read(1, 1); h.read(1) }, Invalid, []string{Lost}, ""},
		{"nothing read", func(h *hist) { h.add(0, 1, ok) }, Unknown, nil, NeverRead},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := &hist{}
			c.build(h)
			r := Broadcast(h.ops)
			if r.Verdict != c.verdict || !slices.Equal(r.Names(), c.names) {
				t.Errorf("%s %v, want %s %v: %+v", r.Verdict, r.Names(), c.verdict, c.names, r)
			}
			if c.allowed != "" && !slices.ContainsFunc(r.Anomalies, func(a Anomaly) bool { return a.Allowed && a.Name == c.allowed }) {
				t.Errorf("%s is not told: %+v", c.allowed, r.Anomalies)
			}
		})
	}
}

func TestSimple(t *testing.T) {
	text := func(f, asked, answer string, ty history.Outcome) *history.Op {
		return &history.Op{F: f, Text: asked, Answer: answer, Type: ty}
	}
	cases := []struct {
		name string
		got  Result
		want []string
	}{
		{"echo", Echo([]*history.Op{text("echo", "a", "a", history.OK)}), nil},
		{"echo of something else", Echo([]*history.Op{text("echo", "a", "b", history.OK)}), []string{EchoMismatch}},
		{"echo that failed", Echo([]*history.Op{text("echo", "a", "", history.Info)}), nil},
		{"ids", UniqueIDs([]*history.Op{text("generate", "1", "", history.OK), text("generate", "2", "", history.OK)}), nil},
		{"an id twice", UniqueIDs([]*history.Op{text("generate", "1", "", history.OK), text("generate", "1", "", history.OK)}), []string{DuplicateID}},
		{"stats", Stats([]*history.Op{text("echo", "", "", history.OK), text("echo", "", "", history.Info), text("crash", "", "", history.Info)}), nil},
		{"stats without success", Stats([]*history.Op{text("echo", "", "", history.OK), text("poll", "", "", history.Fail)}), []string{NoSuccess}},
		{"available", Availability([]*history.Op{text("echo", "", "", history.OK), text("echo", "", "", history.Fail)}, 0.5), nil},
		{"not available", Availability([]*history.Op{text("echo", "", "", history.OK), text("echo", "", "", history.Fail)}, 1), []string{Unavailable}},
		{"not asked", Availability(nil, -1), nil},
	}
	for _, c := range cases {
		if got := c.got.Names(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if r := Stats(nil); r.Verdict != Unknown {
		t.Errorf("stats of nothing: %s", r.Verdict)
	}
	if Worst(Valid, Unknown, Valid) != Unknown || Worst(Unknown, Invalid) != Invalid || Worst() != Valid {
		t.Error("the order of verdicts is wrong")
	}
}

// TestExamplesAreBounded: all cases are counted, few are told.
func TestExamplesAreBounded(t *testing.T) {
	var ops []*history.Op
	for range 100 {
		ops = append(ops, &history.Op{F: history.Generate, Text: "1", Type: history.OK})
	}
	a := UniqueIDs(ops).Anomalies[0]
	if a.Count != 99 || len(a.Examples) != maxExamples {
		t.Errorf("%d counted, %d told", a.Count, len(a.Examples))
	}
}
