package maelstrom

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/chaos/maelstrom/history"
	"lockstep/internal/prng"
)

// asked performs the phases of a run and returns what was asked in which order,
// without what only the answers decide.
func asked(t *testing.T, o *Options) (ops []string, acts []string) {
	t.Helper()
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	r := newRunner(o, o.Data)
	err := r.phases()
	r.c.stop()
	if err == nil {
		err = r.c.failure()
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range r.rec.Ops() {
		if op.F != history.Crash && !op.Final {
			ops = append(ops, fmt.Sprintf("%s %s %d from %d %q", op.F, op.Key, op.Msg, op.From, op.Text))
		}
	}
	for _, a := range r.acts {
		acts = append(acts, a.String())
	}
	return ops, acts
}

// TestSeedRepeatsSchedule: the same seed gives the same operations in the same
// order and the same acts of the nemesis, another seed others.
func TestSeedRepeatsSchedule(t *testing.T) {
	t.Parallel()
	for _, workload := range []string{"kafka", "echo", "broadcast"} {
		t.Run(workload, func(t *testing.T) {
			t.Parallel()
			two := func(seed uint64) ([]string, []string) {
				o := short(t, workload, "")
				o.Seed, o.NodeCount, o.Nemesis, o.Concurrency, o.FinalLimit, o.RequestTimeout = seed, 3, []string{"partition", "pause"}, "9", time.Millisecond, 700*time.Millisecond
				return asked(t, o)
			}
			ops1, acts1 := two(7)
			ops2, acts2 := two(7)
			ops3, acts3 := two(8)
			// How far a run comes is the machine's; the way there is not.
			n := min(len(ops1), len(ops2))
			if n < 250 || !slices.Equal(ops1[:n], ops2[:n]) {
				t.Errorf("%d operations in common, and they differ", n)
			}
			if m := min(len(acts1), len(acts2)); m == 0 || !slices.Equal(acts1[:m], acts2[:m]) {
				t.Errorf("acts differ: %v, %v", acts1, acts2)
			}
			if n = min(n, len(ops3)); slices.Equal(ops1[:n], ops3[:n]) {
				t.Error("another seed asks the same")
			}
			if slices.Equal(acts1, acts3) {
				t.Error("another seed breaks the same")
			}
		})
	}
}

// TestDelay: a link's latencies depend on seed, link and number alone, and have
// the mean and the shape that was asked for.
func TestDelay(t *testing.T) {
	const n = 20000
	for _, dist := range Dists {
		o := Defaults()
		o.Latency, o.LatencyDist = 50, dist
		sum, least, most := 0.0, math.Inf(1), 0.0
		for k := range uint64(n) {
			d := o.delay("n0", "n1", k)
			if d != o.delay("n0", "n1", k) {
				t.Fatal("drawn twice, different")
			}
			ms := float64(d) / 1e6
			sum, least, most = sum+ms, min(least, ms), max(most, ms)
		}
		if mean := sum / n; mean < 48 || mean > 52 {
			t.Errorf("%s: mean %.1f ms", dist, mean)
		}
		want := map[string][2]float64{"constant": {50, 50}, "uniform": {0, 99}, "exponential": {0, 10000}}[dist]
		if least < want[0] || most > want[1] || dist == "uniform" && most < 99 || dist == "exponential" && most < 300 {
			t.Errorf("%s: from %.2f to %.2f ms", dist, least, most)
		}
		if dist != "constant" && o.delay("n0", "n1", 0) == o.delay("n1", "n0", 0) && o.delay("n0", "n1", 1) == o.delay("n1", "n0", 1) {
			t.Errorf("%s: both directions draw the same", dist)
		}
	}
	o := Defaults()
	if o.delay("n0", "n1", 0) != 0 {
		t.Error("latency without --latency")
	}
}

func TestGap(t *testing.T) {
	o := Defaults()
	o.Rate = 100
	sum := time.Duration(0)
	for i := range 10000 {
		g := o.gap(i)
		if g < 0 || g > 20*time.Millisecond {
			t.Fatalf("gap %v is outside 0 to 2/rate", g)
		}
		sum += g
	}
	if mean := sum / 10000; mean < 9800*time.Microsecond || mean > 10200*time.Microsecond {
		t.Errorf("mean gap %v, want 10ms", mean)
	}
}

// TestPlan: starts and stops alternate by kind, after 0 to two intervals each.
func TestPlan(t *testing.T) {
	o := Defaults()
	o.NodeCount, o.TimeLimit, o.Nemesis, o.NemesisInterval = 5, 2000*time.Second, Faults, 10*time.Second
	acts := Plan(&o)
	last := map[string]Act{}
	shapes := map[string]int{}
	for _, a := range acts {
		before, ok := last[a.Kind]
		if a.Start == (ok && before.Start) {
			t.Fatalf("%v after %v", a, before)
		}
		if gap := a.At - before.At; gap < 0 || gap > 20*time.Second+2 {
			t.Fatalf("%v comes %v after the last", a, gap)
		}
		last[a.Kind] = a
		if a.Start {
			shapes[a.Kind+" "+a.Shape]++
		}
	}
	for _, s := range []string{"partition one", "partition minority-third", "partition majority", "partition majorities-ring",
		"kill one", "kill minority", "kill majority", "kill all", "pause one", "pause all", "duplicate "} {
		if shapes[s] < 8 {
			t.Errorf("%q was drawn %d times", s, shapes[s])
		}
	}
	if n := len(acts); n < 600 || n > 1000 {
		t.Errorf("%d acts of 4 kinds in 200 intervals", n)
	}
	if again := Plan(&o); fmt.Sprint(again) != fmt.Sprint(acts) {
		t.Error("drawn twice, different")
	}
	for _, a := range acts {
		if a.Start && a.Kind == "kill" && len(a.Targets) != map[string]int{"one": 1, "minority": 2, "majority": 3, "all": 5}[a.Shape] {
			t.Errorf("%v has wrong targets", a)
		}
	}
}

func TestShapes(t *testing.T) {
	cuts := func(shape string, order ...int) string {
		var out []string
		for _, c := range cutsOf(shape, order) {
			out = append(out, fmt.Sprintf("%d<%d", c.Receiver, c.Source))
		}
		return strings.Join(out, " ")
	}
	cases := []struct {
		shape string
		order []int
		want  string
	}{
		{"one", []int{1, 0, 2}, "0<1 1<0 1<2 2<1"},
		{"minority-third", []int{2, 0, 1}, ""}, // nothing is strictly under a third of three
		{"minority-third", []int{3, 0, 1, 2, 4}, "0<3 1<3 2<3 3<0 3<1 3<2 3<4 4<3"},
		{"majority", []int{0, 1, 2}, "0<1 0<2 1<0 2<0"},
		{"majority", []int{0, 1, 2, 3}, "0<2 0<3 1<2 1<3 2<0 2<1 3<0 3<1"},
		{"majorities-ring", []int{0, 2, 1}, "0<2 1<0 2<1"}, // three one-way cuts
		{"majorities-ring", []int{0, 1, 2, 3, 4}, "0<2 0<3 1<3 1<4 2<0 2<4 3<0 3<1 4<1 4<2"},
		{"one", []int{0}, ""},
		{"majorities-ring", []int{0}, ""},
		{"majority", []int{0}, ""},
	}
	for _, c := range cases {
		if got := cuts(c.shape, c.order...); got != c.want {
			t.Errorf("%s of %v: %q, want %q", c.shape, c.order, got, c.want)
		}
	}
	// With any number of nodes each hears a majority, itself included.
	for n := 1; n <= 9; n++ {
		deaf := map[int]int{}
		for _, c := range ring(shuffled(prng.New(uint64(n)), n)) {
			deaf[c.Receiver]++
		}
		for i := range n {
			if heard := n - deaf[i]; heard != n/2+1 {
				t.Errorf("%d nodes: n%d hears %d", n, i, heard)
			}
		}
	}
}

func TestKafkaGenerator(t *testing.T) {
	o := Defaults()
	o.threads = 5
	k := newKafka(&o)
	counts, perKey := map[string]int{}, map[string]int64{}
	for i := range 20000 {
		op := k.next(i, 0)
		counts[op.F]++
		if op.F == history.Send {
			if perKey[op.Key]++; op.Msg != perKey[op.Key] {
				t.Fatalf("key %s: message %d is the %d-th", op.Key, op.Msg, perKey[op.Key])
			}
		}
	}
	if s, p, a := counts[history.Send], counts[history.Poll], counts[history.Assign]; s < 9300 || p < 9300 || a < 200 || a > 420 {
		t.Errorf("sends %d, polls %d, assigns %d of 20000", s, p, a)
	}
	full := 0
	for _, n := range perKey {
		if n > int64(o.MaxWritesPerKey) {
			t.Errorf("a key got %d messages", n)
		}
		if n == int64(o.MaxWritesPerKey) {
			full++
		}
	}
	if full < 500 {
		t.Errorf("%d keys were retired", full)
	}
	// The hottest of the first keys fills up while the coldest hardly begins.
	if perKey["9"] != 16 || perKey["0"] > 16 {
		t.Errorf("key 9 has %d, key 0 has %d", perKey["9"], perKey["0"])
	}
	crash := time.Duration(0)
	for range 1000 {
		crash = k.crash(crash)
	}
	if mean := crash / 1000; mean < 5500*time.Millisecond || mean > 6500*time.Millisecond {
		t.Errorf("a crash every %v of five threads, want 6s", mean)
	}
}

// TestKafkaAssignJoins: some assigns take every key with unpolled messages.
func TestKafkaAssignJoins(t *testing.T) {
	o := Defaults()
	o.threads = 5
	k := newKafka(&o)
	k.first = []string{"4", "2", "7"}
	k.observe(&history.Op{F: history.Send, Key: "4", Type: history.OK, Offset: 3})
	k.observe(&history.Op{F: history.Send, Key: "2", Type: history.OK, Offset: 3})
	k.observe(&history.Op{F: history.Poll, Msgs: map[string][]history.Pair{"2": {{Offset: 3, Msg: 1}}}})
	if got := k.assigned("1", true); !slices.Equal(got, []string{"1", "4"}) {
		t.Errorf("joined %v", got)
	}
	if got := k.assigned("1", false); !slices.Equal(got, []string{"1"}) {
		t.Errorf("alone %v", got)
	}
}

// TestKafkaFinal: the last polls go on until all that is known was read, and begin
// anew when the client was lost.
func TestKafkaFinal(t *testing.T) {
	o := Defaults()
	o.threads, o.FinalLimit = 1, time.Hour
	k := newKafka(&o)
	k.first = []string{"1"}
	k.observe(&history.Op{F: history.Send, Key: "1", Type: history.OK, Offset: 5})
	k.begin(time.Now())
	at := func(offsets ...int64) *history.Op {
		op := &history.Op{F: history.Poll, Type: history.OK, Positions: map[string]int64{"1": 0}, Msgs: map[string][]history.Pair{}}
		for _, off := range offsets {
			op.Msgs["1"] = append(op.Msgs["1"], history.Pair{Offset: off, Msg: off})
		}
		return op
	}
	cases := []struct {
		name string
		prev *history.Op
		want string
	}{
		{"at first", nil, history.Crash},
		{"after the crash", &history.Op{F: history.Crash, Type: history.Info}, history.Assign},
		{"after an assign that failed", &history.Op{F: history.Assign, Type: history.Fail}, history.Assign},
		{"after the assign", &history.Op{F: history.Assign, Type: history.OK}, history.Poll},
		{"nothing yet", at(), history.Poll},
		{"not all yet", at(0, 4), history.Poll},
		{"all", at(0, 5), ""},
		{"a poll that nobody answered", &history.Op{F: history.Poll, Type: history.Info}, history.Assign},
		{"a poll that was refused", &history.Op{F: history.Poll, Type: history.Fail}, history.Poll},
	}
	for _, c := range cases {
		got := ""
		if op := k.final(0, c.prev); op != nil {
			got = op.F
			if op.F == history.Assign && !op.Seek {
				t.Errorf("%s: the assign does not seek", c.name)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	k.begin(time.Now().Add(-2 * time.Hour))
	if op := k.final(0, at()); op != nil {
		t.Errorf("after the time limit: %s", op.F)
	}
}

// TestLinKVGenerator: half the threads of a group only read, and a key is left
// when 20 processes have touched it.
func TestLinKVGenerator(t *testing.T) {
	o := Defaults()
	o.NodeCount, o.threads = 2, 8
	l := newLinKV(&o)
	counts := map[string]int{}
	for i := range 8000 {
		op := l.next(i, i%8)
		op.Thread = i % 8
		if reader := i%4 < 2; reader != (op.F == history.Read) {
			t.Fatalf("thread %d does %s", i%8, op.F)
		}
		if want := fmt.Sprint(i % 8 / 4); op.Key != want {
			t.Fatalf("thread %d works key %s, want %s", i%8, op.Key, want)
		}
		if op.Msg < 0 || op.Msg > 4 || op.From < 0 || op.From > 4 {
			t.Fatalf("value outside 0 to 4: %+v", op)
		}
		counts[op.F]++
	}
	if w, c := counts[history.Write], counts[history.CAS]; counts[history.Read] != 4000 || c < 19*w/10 || c > 21*w/10 {
		t.Errorf("counts %v: writes to cas should be one to two", counts)
	}
	// Thread 3 loses its process again and again: with the 17th the key has seen 20.
	for i := range 17 {
		op := l.next(i, 3)
		op.Thread, op.Process, op.Type = 3, l.process[3], history.Info
		if want := "0"; op.Key != want && i < 17 {
			t.Fatalf("after %d processes key %s", i, op.Key)
		}
		l.observe(op)
	}
	if op := l.next(0, 3); op.Key != "2" {
		t.Errorf("a 21st process works key %s, want the fresh key 2", op.Key)
	}
	if op := l.next(0, 4); op.Key != "1" {
		t.Errorf("the other group moved to %s", op.Key)
	}
}

func TestNeighbours(t *testing.T) {
	cases := []struct {
		topology string
		n        int
		want     string
	}{
		{"line", 3, "map[n0:[n1] n1:[n0 n2] n2:[n1]]"},
		{"total", 3, "map[n0:[n1 n2] n1:[n0 n2] n2:[n0 n1]]"},
		{"grid", 5, "map[n0:[n1 n3] n1:[n0 n2 n4] n2:[n1] n3:[n0 n4] n4:[n1 n3]]"},
		{"tree2", 5, "map[n0:[n1 n2] n1:[n0 n3 n4] n2:[n0] n3:[n1] n4:[n1]]"},
		{"tree4", 6, "map[n0:[n1 n2 n3 n4] n1:[n0 n5] n2:[n0] n3:[n0] n4:[n0] n5:[n1]]"},
		{"grid", 1, "map[n0:[]]"},
	}
	for _, c := range cases {
		if got := fmt.Sprint(Neighbours(c.topology, c.n)); got != c.want {
			t.Errorf("%s of %d: %s, want %s", c.topology, c.n, got, c.want)
		}
	}
}
