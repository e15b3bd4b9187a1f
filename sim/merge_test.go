package sim

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/node"
)

// told is a recorder of a world of five nodes that never ran, to which a script tells
// what happened.
type told struct {
	*Recorder
	w *World
}

func newTold() *told {
	w := New(DefaultOptions(), &Plan{Seed: 1})
	for _, name := range []string{"n1", "c1", "c2", "a1", "p1", "p2"} {
		w.Add(NodeSpec{Name: name, Boot: func(Life) (node.Machine, Doer, error) { return nil, nil, errors.New("never") }})
	}
	return &told{NewRecorder(w), w}
}

func (t *told) event(at int64, node string, e event.Event) {
	t.w.now, e.Node = at*ms, node
	t.OnEvent(e)
}

func (t *told) life(at int64, node string, p Phase, ordinal int) {
	t.w.now = at * ms
	t.OnLife(LifeChange{Node: node, Ordinal: ordinal, Phase: p})
}

func (t *told) fault(at int64, f *Fault, ended bool) {
	t.w.now = at * ms
	t.OnFault(f, ended)
}

// toldRun is a run in which everything that is merged occurs.
func toldRun() *told {
	t := newTold()
	for i, n := range []string{"n1", "c1", "c2", "a1", "p1", "p2"} {
		t.life(int64(10*i), n, Booting, 1)
		t.life(int64(10*i), n, Up, 1)
	}
	notReady := event.Event{Kind: event.RequestRefused, Count: 105, Code: 1, Text: "name server not ready"}
	for at := int64(100); at <= 900; at += 400 {
		t.event(at, "n1", notReady)
	}
	elected := event.Event{Kind: event.Elected, Group: "g", Broker: 1, Epoch: 1, SetEpoch: 1, Set: ha.NewIDs(1), Text: "first"}
	t.event(1000, "c1", elected)
	t.event(1001, "a1", event.Event{Kind: event.Serving, Epoch: 1})
	t.event(1002, "c2", elected)
	t.event(1003, "p1", event.Event{Kind: event.RouteLearned, Group: "g", Text: "a1:1"})
	t.event(1009, "p2", event.Event{Kind: event.RouteLearned, Group: "g", Text: "a1:1"})
	t.event(1500, "n1", notReady) // still the same line: no fault, no long silence
	down := &Fault{Kind: CrashExit, Nodes: []string{"a1"}, When: Trigger{At: 2 * sec}, For: 20 * sec}
	t.fault(2000, down, false)
	t.life(2000, "a1", Down, 1)
	for i := int64(0); i < 4; i++ {
		t.event(2001+300*i, []string{"p1", "p2"}[i%2], event.Event{Kind: event.ClientRetry, Group: "g", Count: 40 + i, Code: -1,
			Text: "send try " + string(rune('2'+i)) + " after silent at a1:1: reset"})
	}
	t.event(3500, "n1", notReady)                                                                // after a fault: another line
	t.event(9000, "n1", notReady)                                                                // after a silence too
	t.event(9100, "p1", event.Event{Kind: event.ClientRetry, Group: "g", Text: "no number"})     // as it is
	t.event(9200, "c1", event.Event{Kind: event.LeaseGranted, Group: "g", Broker: 1, Count: 71}) // grants run on
	t.event(9300, "c1", event.Event{Kind: event.LeaseGranted, Group: "g", Broker: 1, Count: 72})
	t.event(9400, "a1", event.Event{Kind: event.Demoted, Epoch: 1, Text: "twice"}) // not merged
	t.event(9400, "a1", event.Event{Kind: event.Demoted, Epoch: 1, Text: "twice"})
	t.life(12000, "c2", Booting, 2)
	t.life(12000, "c2", Up, 2)
	t.event(12001, "c2", elected) // applied again
	altered := event.Event{Kind: event.SetAltered, Group: "g", Broker: 1, Epoch: 1, SetEpoch: 2, Set: ha.NewIDs(1, 2)}
	t.event(12002, "c1", altered)
	t.event(12002, "c2", altered)
	t.fault(22000, down, true)
	return t
}

const timelineGolden = `
            T+ n1    c1    c2    a1    p1    p2
     0.000000s ^     ^     ^     ^     ^     ^     n1,c1,c2,a1,p1,p2 life 1 up
     0.100000s *                                   n1 RequestRefused count=105 code=1 text="name server not ready" (4 times until 1.500000s)
     1.000000s       *     *                       c1,c2 Elected group=g broker=1 epoch=1 set-epoch=1 set={1} text="first"
     1.001000s                   *                 a1 Serving epoch=1
     1.003000s                         *     *     p1,p2 RouteLearned group=g text="a1:1"
     2.000000s                   !                 world fault crash a1 at 2s for 20s
     2.000000s                   v                 a1 life 1 down
     2.001000s                         *     *     p1,p2 ClientRetry group=g code=-1 text="send again after silent at a1:1: reset" (4 times until 2.901000s)
     3.500000s *                                   n1 RequestRefused count=105 code=1 text="name server not ready"
     9.000000s *                                   n1 RequestRefused count=105 code=1 text="name server not ready"
     9.100000s                         *           p1 ClientRetry group=g text="no number"
     9.200000s       *                             c1 LeaseGranted group=g broker=1 (2 times until 9.300000s)
     9.400000s                   *                 a1 Demoted epoch=1 text="twice"
     9.400000s                   *                 a1 Demoted epoch=1 text="twice"
    12.000000s             ^                       c2 life 2 up
    12.001000s             *                       c2 applies what others have, the first: Elected group=g broker=1 epoch=1 set-epoch=1 set={1} text="first"
    12.002000s       *     *                       c1,c2 SetAltered group=g broker=1 epoch=1 set-epoch=2 set={1 2}
    22.000000s                   !                 world ended: fault crash a1 at 2s for 20s
`

// trimmed is a text without blanks at the ends of its lines.
func trimmed(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// TestTimelineIsReadable: what belongs together is one line, in the order in which it
// began; nothing else is merged.
func TestTimelineIsReadable(t *testing.T) {
	r := toldRun()
	defer r.w.Close()
	if diff := cmp.Diff(timelineGolden, "\n"+trimmed(r.Timeline())); diff != "" {
		t.Errorf("timeline (-want +got):\n%s", diff)
	}
}

// TestFullTimeline: nothing is merged and the trace is as it was.
func TestFullTimeline(t *testing.T) {
	r := toldRun()
	defer r.w.Close()
	before := len(r.Entries())
	r.Timeline()
	full := strings.Split(strings.TrimSpace(r.FullTimeline()), "\n")
	if len(full) != before+1 || len(r.Entries()) != before {
		t.Errorf("%d lines of %d entries, %d afterwards", len(full), before, len(r.Entries()))
	}
	for i, e := range r.Entries() {
		if !strings.Contains(full[i+1], e.Text) {
			t.Errorf("line %d: %q, want %q", i+1, full[i+1], e.Text)
		}
	}
	if strings.Contains(r.FullTimeline(), "times until") || !strings.Contains(r.FullTimeline(), "send try 5 after") {
		t.Error("the full timeline is merged")
	}
}

// TestMergeLosesNothing: every entry stands on exactly one line.
func TestMergeLosesNothing(t *testing.T) {
	r := toldRun()
	defer r.w.Close()
	n, starts := 0, 0
	for _, l := range merged(r.Entries()) {
		n += l.count
		if l.What == "life" && strings.HasSuffix(l.Text, " up") {
			starts += l.count // each stands for its "booting" too
		}
	}
	if n+starts != len(r.Entries()) {
		t.Errorf("%d of %d entries", n+starts, len(r.Entries()))
	}
}
