package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"

	"pgregory.net/rapid"
)

func TestParseTags(t *testing.T) {
	hash := func(tags ...string) []int64 {
		var out []int64
		for _, s := range tags {
			out = append(out, storage.TagHash([]byte(s)))
		}
		slices.Sort(out)
		return out
	}
	for text, want := range map[string]tagFilter{
		"":                everything,
		"*":               everything,
		"a":               {tags: hash("a")},
		" a || b ":        {tags: hash("a", "b")},
		"a||a":            {tags: hash("a")},
		"红 || 绿":          {tags: hash("红", "绿")},
		"a || || b":       {tags: hash("a", "b")},
		"a b":             {tags: hash("a b")},
		"TagA||TagB||* x": {tags: hash("TagA", "TagB", "* x")},
	} {
		got, why := parseTags(text)
		if why != "" || got.all != want.all || !slices.Equal(got.tags, want.tags) {
			t.Errorf("%q: %+v %s, want %+v", text, got, why, want)
		}
	}
	for _, text := range []string{"||", " || ", strings.Repeat("x||", 0) + manyTags(maxTags+1)} {
		if _, why := parseTags(text); why == "" {
			t.Errorf("%.20q…: accepted", text)
		}
	}
	f, _ := parseTags("a")
	if f.matches(0) || !f.matches('a') || !everything.matches(0) {
		t.Error("an untagged message matches a tag, or a tag does not match itself")
	}
	// A Go client's code set for a non-ASCII tag is wrong; the text decides (trap 15).
	d := wire.SubscriptionData{SubString: "红", TagsSet: []string{"红"}, CodeSet: []int32{12345}}
	if f, _ := filterOf(&d); !f.matches(storage.TagHash([]byte("红"))) || f.matches(12345) {
		t.Error("the code set of the client was believed")
	}
}

func manyTags(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "t%d||", i)
	}
	return b.String()
}

func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"T": true, "a|b%c_d-e": true, strings.Repeat("t", 127): true, "%RETRY%" + strings.Repeat("g", 120): true,
		"": false, "a.b": false, "a b": false, "é": false, strings.Repeat("t", 128): false, "%RETRY%" + strings.Repeat("g", 249): false,
	} {
		if got := checkTopicName(name) == ""; got != ok {
			t.Errorf("topic %.30q legal: %v", name, got)
		}
	}
	if checkGroupName(strings.Repeat("g", 120)) != "" || checkGroupName(strings.Repeat("g", 121)) == "" {
		t.Error("the group name limit is not 120")
	}
	for _, name := range []string{scheduleTopic, halfTopic, opHalfTopic, storage.MetaTopic, storage.BarrierTopic, "rmq_sys_LOCKSTEP_X"} {
		if !sendForbidden(name) {
			t.Errorf("clients may send to %s", name)
		}
	}
	if sendForbidden("T") || sendForbidden("%RETRY%g") || sendForbidden(benchmarkTopic) {
		t.Error("clients may not send to an ordinary topic")
	}
}

func TestAttributes(t *testing.T) {
	old := map[string]string{"message.type": "NORMAL"}
	for _, c := range []struct {
		text   string
		create bool
		want   string // key=value joined, or "!" and a part of the complaint
	}{
		{"", false, "message.type=NORMAL"},
		{"+message.type=FIFO", false, "message.type=FIFO"},
		{"-message.type", false, ""},
		{"+reserve.time=1000,+message.type=NORMAL", true, "message.type=NORMAL,reserve.time=1000"},
		{"-message.type", true, "!neither"},
		{"message.type=FIFO", false, "!neither"},
		{"+nonsense=1", false, "!unknown"},
		{"+queue.type=BatchCQ", false, "!only one of SimpleCQ"},
		{"+cleanup.policy=COMPACTION", false, "!only one of DELETE"},
		{"+reserve.time=soon", false, "!no number"},
		{"+message.type", false, "!neither"},
	} {
		got, why := alterAttributes(old, c.text, c.create)
		if say, bad := strings.CutPrefix(c.want, "!"); bad {
			if !strings.Contains(why, say) {
				t.Errorf("%q: %q, want a complaint with %q", c.text, why, say)
			}
			continue
		}
		var pairs []string
		for _, k := range sortedKeys(got) {
			if !c.create || k != "message.type" || strings.Contains(c.text, k) {
				pairs = append(pairs, k+"="+got[k])
			}
		}
		if text := strings.Join(pairs, ","); why != "" || text != c.want {
			t.Errorf("%q: %q %s, want %q", c.text, text, why, c.want)
		}
	}
	if old["message.type"] != "NORMAL" || len(old) != 1 {
		t.Error("the old attributes were changed in place")
	}
}

// TestQueueLocks: a lock belongs to one client until it ends or is released.
func TestQueueLocks(t *testing.T) {
	b := &Broker{o: DefaultOptions()}
	b.o.MaxQueueLocks = 3
	l := newQueueLocks()
	at := func(seconds int64) node.Now { return node.Now{Mono: node.Time(seconds * 1e9)} }
	k := queueKey{"T", 0}
	if !l.lock(at(0), b, "g", k, "c1") || l.lock(at(59), b, "g", k, "c2") || !l.lock(at(59), b, "g", k, "c1") {
		t.Fatal("a living lock was taken, or its owner could not renew it")
	}
	if l.lock(at(118), b, "g", k, "c2") || !l.lock(at(119), b, "g", k, "c2") {
		t.Fatal("the renewed lock did not live for 60 s, or lives longer")
	}
	l.unlock("g", k, "c1")
	if l.lock(at(120), b, "g", k, "c1") {
		t.Fatal("a client released another client's lock")
	}
	l.unlock("g", k, "c2")
	if !l.lock(at(120), b, "g", k, "c1") || !l.holds(at(120), "g") || l.holds(at(120), "other") {
		t.Fatal("a released lock cannot be taken")
	}
	for q := range int32(5) {
		l.lock(at(121), b, "h", queueKey{"T", q}, "c")
	}
	if l.count != 3 {
		t.Fatalf("%d locks, limit 3", l.count)
	}
	if !l.lock(at(500), b, "h", queueKey{"U", 9}, "c") || l.count != 1 {
		t.Fatalf("ended locks keep the table full: %d", l.count)
	}
}

// TestHeldPullHeap: whatever is held, released and dropped, the earliest deadline
// is that of a living hold, and nothing is lost.
func TestHeldPullHeap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := &Broker{o: DefaultOptions()}
		b.o.MaxHeldPulls = 20
		h := newHeldPulls()
		var model []pullQuery
		for step := range rapid.Int32Range(1, 80).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0: // expire the earliest
				at := h.deadline()
				if slot, ok := h.expired(at); ok {
					q := h.release(slot)
					i := slices.IndexFunc(model, func(m pullQuery) bool { return m.opaque == q.opaque })
					if i < 0 || q.suspend != 0 {
						t.Fatalf("released %d, which is not held, or may be held again", q.opaque)
					}
					model = slices.Delete(model, i, i+1)
				}
			case 1:
				s := node.SessionID(rapid.IntRange(1, 3).Draw(t, "session"))
				h.dropSession(s)
				model = slices.DeleteFunc(model, func(m pullQuery) bool { return m.session == s })
			default:
				q := pullQuery{session: node.SessionID(rapid.IntRange(1, 3).Draw(t, "session")), opaque: step,
					key:      queueKey{"T", rapid.Int32Range(0, 3).Draw(t, "queue")},
					deadline: node.Time(rapid.Int64Range(1, 100).Draw(t, "deadline")), suspend: 1}
				if h.hold(b, &q) != (len(model) < 20) {
					t.Fatal("the limit on held pulls does not hold")
				}
				if len(model) < 20 {
					model = append(model, q)
				}
			}
			want := node.Never
			for _, m := range model {
				want = min(want, m.deadline)
			}
			if got := h.deadline(); got != want || h.live != len(model) {
				t.Fatalf("deadline %d, want %d; %d live, want %d", got, want, h.live, len(model))
			}
			listed := 0
			for q := range int32(4) {
				listed += len(h.byQueue[queueKey{"T", q}])
			}
			if listed != len(model) {
				t.Fatalf("%d pulls listed by queue, %d held", listed, len(model))
			}
		}
	})
}
