package check

import (
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/chaos/maelstrom/history"
)

// hist builds a history by hand. Operations that are not told to overlap follow
// each other.
type hist struct {
	place int
	ops   []*history.Op
}

func (h *hist) begin(process int, f string) *history.Op {
	op := &history.Op{Index: len(h.ops), Process: process, F: f, Begin: h.place, End: history.Never, Invoked: time.Duration(h.place) * time.Second}
	h.place++
	h.ops = append(h.ops, op)
	return op
}

func (h *hist) end(op *history.Op, t history.Outcome) *history.Op {
	op.Type, op.Completed = t, time.Duration(h.place)*time.Second
	if t != history.Info {
		op.End = h.place
	}
	h.place++
	return op
}

func (h *hist) send(process int, key string, msg, offset int64, t history.Outcome) *history.Op {
	op := h.begin(process, history.Send)
	op.Key, op.Msg, op.Offset = key, msg, offset
	return h.end(op, t)
}

// poll reads from a position of one key: offset, message, offset, message, …
func (h *hist) poll(process int, key string, from int64, om ...int64) *history.Op {
	op := h.begin(process, history.Poll)
	op.Positions = map[string]int64{key: from}
	op.Msgs = map[string][]history.Pair{}
	for i := 0; i < len(om); i += 2 {
		op.Msgs[key] = append(op.Msgs[key], history.Pair{Offset: om[i], Msg: om[i+1]})
	}
	return h.end(op, history.OK)
}

// commit is a poll whose commit ended so.
func (h *hist) commit(process int, key string, offset int64, t history.Outcome) *history.Op {
	op := h.begin(process, history.Poll)
	op.Msgs = map[string][]history.Pair{}
	op.Commit, op.CommitOK, op.CommitAt = map[string]int64{key: offset}, t, h.place
	h.place++
	return h.end(op, t)
}

// assign asks for the committed offset of a key; below 0 it was left out.
func (h *hist) assign(process int, key string, committed int64) *history.Op {
	op := h.begin(process, history.Assign)
	op.Keys, op.Committed = []string{key}, map[string]int64{}
	if committed >= 0 {
		op.Committed[key] = committed
	}
	return h.end(op, history.OK)
}

// three sends messages 1, 2, 3 to key a at offsets 0, 1, 2.
func three(h *hist) {
	for i := range int64(3) {
		h.send(0, "a", i+1, i, history.OK)
	}
}

func TestKafkaNames(t *testing.T) {
	const ok, fail, info = history.OK, history.Fail, history.Info
	cases := []struct {
		name  string
		build func(h *hist)
		want  []string
	}{
		{"good", func(h *hist) { three(h); h.poll(1, "a", 0, 0, 1, 1, 2, 2, 3) }, nil},
		{"good: gaps between offsets", func(h *hist) {
			h.send(0, "a", 1, 10, ok)
			h.send(0, "a", 2, 400, ok)
			h.poll(1, "a", 0, 10, 1)
			h.poll(1, "a", 11, 400, 2)
		}, nil},
		{"good: stale polls", func(h *hist) {
			three(h)
			h.poll(1, "a", 0)
			h.poll(1, "a", 0, 0, 1)
			h.poll(2, "a", 0, 0, 1, 1, 2, 2, 3)
		}, nil},
		{"good: unknown send that came through", func(h *hist) {
			h.send(0, "a", 1, 0, info)
			h.poll(1, "a", 0, 0, 1)
		}, nil},
		{"good: failed send that stayed away", func(h *hist) {
			h.send(0, "a", 1, 0, fail)
			three(h)
			h.poll(1, "a", 0, 0, 1, 1, 2, 2, 3)
			h.ops[0].Msg = 9
		}, nil},
		{InconsistentOffsets, func(h *hist) {
			three(h)
			h.send(0, "a", 4, 3, ok)
			h.send(1, "a", 5, 3, ok)
			h.poll(1, "a", 0, 0, 1, 1, 2, 2, 3, 3, 4)
			h.poll(2, "a", 0, 0, 1, 1, 2, 2, 3, 3, 5)
		}, []string{InconsistentOffsets}},
		{Duplicate, func(h *hist) { three(h); h.poll(1, "a", 0, 0, 1, 1, 2, 2, 3, 3, 2) }, []string{Duplicate}},
		{LostWrite, func(h *hist) { three(h); h.poll(1, "a", 1, 1, 2, 2, 3) }, []string{LostWrite, Unseen}},
		{Unseen, func(h *hist) { three(h); h.poll(1, "a", 0, 0, 1, 1, 2) }, []string{Unseen}},
		{G1a, func(h *hist) { h.send(0, "a", 1, 0, fail); h.poll(1, "a", 0, 0, 1) }, []string{G1a}},
		{IntPollSkip, func(h *hist) { three(h); h.poll(2, "a", 0, 0, 1, 1, 2, 2, 3); h.poll(1, "a", 0, 0, 1, 2, 3) }, []string{IntPollSkip}},
		{IntNonmonotonicPoll + " repeats", func(h *hist) { three(h); h.poll(1, "a", 0, 0, 1, 1, 2, 1, 2, 2, 3) }, []string{IntNonmonotonicPoll}},
		{IntNonmonotonicPoll + " goes back", func(h *hist) { three(h); h.poll(1, "a", 0, 0, 1, 1, 2, 2, 3, 1, 2) }, []string{IntNonmonotonicPoll}},
		{PollSkip, func(h *hist) {
			three(h)
			h.poll(1, "a", 0, 0, 1)
			h.poll(1, "a", 1, 2, 3)
			h.poll(2, "a", 0, 0, 1, 1, 2)
		}, []string{PollSkip}},
		{NonmonotonicPoll, func(h *hist) {
			three(h)
			h.poll(1, "a", 0, 0, 1, 1, 2)
			h.poll(1, "a", 2, 1, 2, 2, 3)
		}, []string{NonmonotonicPoll}},
		{"good: going back after the key was given away", func(h *hist) {
			three(h)
			h.poll(1, "a", 0, 0, 1, 1, 2, 2, 3)
			h.assign(1, "b", -1)
			h.assign(1, "a", -1)
			h.poll(1, "a", 0, 0, 1)
		}, nil},
		{NonmonotonicPoll + " across an assign that keeps the key", func(h *hist) {
			three(h)
			h.poll(1, "a", 0, 0, 1, 1, 2, 2, 3)
			h.assign(1, "a", -1)
			h.poll(1, "a", 3, 0, 1)
		}, []string{NonmonotonicPoll}},
		{"good: another process goes back", func(h *hist) {
			three(h)
			h.poll(1, "a", 0, 0, 1, 1, 2, 2, 3)
			h.poll(6, "a", 0, 0, 1)
		}, nil},
		{NonmonotonicSend, func(h *hist) {
			h.send(0, "a", 1, 5, ok)
			h.send(0, "a", 2, 4, ok)
			h.poll(1, "a", 0, 4, 2, 5, 1)
		}, []string{NonmonotonicSend}},
		{NonmonotonicSend + " of an unknown send", func(h *hist) {
			h.send(0, "a", 1, 5, ok)
			h.send(0, "a", 2, 0, info)
			h.poll(1, "a", 0, 4, 2, 5, 1)
		}, []string{NonmonotonicSend}},
		{"good: two processes in any order", func(h *hist) {
			h.send(0, "a", 1, 5, ok)
			h.send(1, "a", 2, 4, ok)
			h.poll(1, "a", 0, 4, 2, 5, 1)
		}, nil},
		{G1cProcess + " of one process", func(h *hist) {
			h.poll(1, "a", 0, 0, 1)
			h.send(1, "a", 1, 0, ok)
		}, []string{G1cProcess}},
		{G1cProcess + " of two that overlap", func(h *hist) {
			p1, p2 := h.begin(1, history.Poll), h.begin(2, history.Poll)
			p1.Msgs = map[string][]history.Pair{"b": {{Offset: 0, Msg: 1}}}
			p2.Msgs = map[string][]history.Pair{"a": {{Offset: 0, Msg: 1}}}
			s1, s2 := *h.end(p1, ok), *h.end(p2, ok)
			_, _ = s1, s2
			h.send(1, "a", 1, 0, ok)
			h.send(2, "b", 1, 0, ok)
		}, []string{G1cProcess}},
		{G1cRealtime, func(h *hist) {
			h.poll(1, "a", 0, 0, 1)
			h.send(2, "a", 1, 0, ok)
		}, []string{G1cRealtime}},
		{G1cRealtime + " of an unknown send", func(h *hist) {
			h.poll(1, "a", 0, 0, 1)
			h.send(2, "a", 1, 0, info)
		}, []string{G1cRealtime}},
		{"good: read while the send runs", func(h *hist) {
			s := h.begin(2, history.Send)
			s.Key, s.Msg = "a", 1
			h.poll(1, "a", 0, 0, 1)
			h.end(s, ok)
		}, nil},
		{StartSkip, func(h *hist) { three(h); h.poll(1, "a", 0, 1, 2, 2, 3); h.poll(2, "a", 0, 0, 1) }, []string{StartSkip}},
		{StartBefore, func(h *hist) { three(h); h.poll(1, "a", 2, 1, 2, 2, 3); h.poll(2, "a", 0, 0, 1) }, []string{StartBefore}},
		{UnknownMessage, func(h *hist) { three(h); h.poll(1, "a", 0, 0, 1, 1, 2, 2, 3, 3, 77) }, []string{UnknownMessage}},
		{"good: committed", func(h *hist) {
			h.assign(2, "a", -1)
			h.commit(1, "a", 2, ok)
			h.assign(2, "a", 2)
			h.commit(1, "a", 4, info)
			h.assign(2, "a", 2)
			h.assign(2, "a", 4)
			h.commit(3, "a", 3, ok)
			h.assign(2, "a", 3) // the last wins
			h.assign(2, "a", 4) // or the highest
		}, nil},
		{CommittedAbove, func(h *hist) { h.commit(1, "a", 2, ok); h.assign(2, "a", 3) }, []string{CommittedAbove}},
		{CommittedAbove + " a commit that failed", func(h *hist) { h.commit(1, "a", 2, fail); h.assign(2, "a", 2) }, []string{CommittedAbove}},
		{CommittedUnknown, func(h *hist) { h.commit(1, "a", 2, ok); h.assign(2, "a", 1) }, []string{CommittedUnknown}},
		{LostCommit + " wholly", func(h *hist) { h.commit(1, "a", 2, ok); h.assign(2, "a", -1) }, []string{LostCommit}},
		{LostCommit + " back to an older one", func(h *hist) {
			h.commit(1, "a", 2, ok)
			h.commit(1, "a", 3, ok)
			h.assign(2, "a", 2)
		}, []string{LostCommit}},
		{"good: commit under way", func(h *hist) {
			c := h.begin(1, history.Poll)
			c.Msgs, c.Commit, c.CommitOK, c.CommitAt = map[string][]history.Pair{}, map[string]int64{"a": 2}, ok, h.place
			h.place++
			h.assign(2, "a", -1)
			h.end(c, ok)
		}, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := &hist{}
			c.build(h)
			r := Kafka(h.ops, false)
			if got := r.Names(); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v: %+v", got, c.want, r.Anomalies)
			}
			if (len(c.want) > 0) != (r.Verdict == Invalid) {
				t.Errorf("verdict %s with names %v", r.Verdict, c.want)
			}
			if strings.HasPrefix(c.name, "good") == (len(c.want) > 0) {
				t.Error("the case is named wrongly")
			}
		})
	}
}

// TestKafkaStaleCommit: while faults are at work an old committed offset is legal,
// in the final phase it is not.
func TestKafkaStaleCommit(t *testing.T) {
	h := &hist{}
	h.commit(1, "a", 2, history.OK)
	op := h.assign(2, "a", -1)
	three(h)
	h.poll(3, "a", 0, 0, 1, 1, 2, 2, 3)
	r := Kafka(h.ops, true)
	if r.Verdict != Valid || len(r.Anomalies) != 1 || r.Anomalies[0].Name != StaleCommit {
		t.Errorf("got %s %+v", r.Verdict, r.Anomalies)
	}
	op.Final = true
	if r := Kafka(h.ops, true); !slices.Equal(r.Names(), []string{LostCommit}) {
		t.Errorf("in the final phase: %v", r.Names())
	}
}

// TestKafkaNothingPolled: no evidence is not a pass.
func TestKafkaNothingPolled(t *testing.T) {
	h := &hist{}
	h.send(0, "a", 1, 0, history.Info)
	if r := Kafka(h.ops, false); r.Verdict != Unknown {
		t.Errorf("verdict %s", r.Verdict)
	}
}

// TestKafkaLag: the lag is told and judges nothing.
func TestKafkaLag(t *testing.T) {
	h := &hist{}
	three(h) // places 0 to 5; message 1 is known at 1s
	h.poll(1, "a", 0)
	h.poll(1, "a", 0, 0, 1, 1, 2, 2, 3)
	r := Kafka(h.ops, false)
	if r.Verdict != Valid || !strings.Contains(strings.Join(r.Notes, "\n"), "worst realtime lag 5.000s (key a, op 3") {
		t.Errorf("%s %v", r.Verdict, r.Notes)
	}
}

// TestManyOperations: the search for cycles stays quick and within its own stack.
func TestManyOperations(t *testing.T) {
	h := &hist{}
	for i := range int64(100_000) {
		h.send(int(i%5), "a", i, i, history.OK)
	}
	h.poll(7, "a", 0, 0, 0)
	began := time.Now()
	k := newKafka(h.ops)
	k.cycles()
	if len(k.out) > 0 {
		t.Errorf("found %v", k.out)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
}
