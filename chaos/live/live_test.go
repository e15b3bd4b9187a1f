package live

import (
	"strings"
	"testing"

	"lockstep/checker"
	"lockstep/internal/prng"
	"lockstep/scenarios"
	"lockstep/sim"
)

// testPace keeps all drills of the tests within a minute on two cores.
const testPace = 8

func TestA1(t *testing.T)         { passes(t, "A1") }
func TestA3(t *testing.T)         { passes(t, "A3") }
func TestA4(t *testing.T)         { passes(t, "A4") }
func TestIdleRejoin(t *testing.T) { passes(t, "P-idle-rejoin") }

// passes runs a drill, which must end in the verdict it has in the simulator.
func passes(t *testing.T, name string) {
	t.Parallel()
	d, err := scenarios.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	rep, err := Run(d, 1, Settings{Dir: t.TempDir(), Pace: testPace})
	if err != nil {
		t.Fatal(err)
	}
	if rep.Verdict != scenarios.Pass {
		t.Errorf("verdict %s, the computer stood still for %d ms: %s", rep.Verdict, rep.StallMillis, strings.Join(rep.Findings, "\n"))
	}
	if rep.Host != "live" || rep.Pace != testPace || rep.Acknowledged == 0 || len(rep.Roles) == 0 || len(rep.Timeline) == 0 {
		t.Errorf("the report says host %q, pace %d, %d acknowledged, %d changes of roles, %d faults",
			rep.Host, rep.Pace, rep.Acknowledged, len(rep.Roles), len(rep.Timeline))
	}
	if want := "drill live " + name + " --seed 1"; !strings.Contains(rep.Repeat(), want) {
		t.Errorf("it is repeated by %q, want %q in it", rep.Repeat(), want)
	}
}

// TestAssertionsCanFail runs a drill whose clause does not hold and one whose plan
// cannot come true: neither may pass.
func TestAssertionsCanFail(t *testing.T) {
	base, err := scenarios.Find("S0")
	if err != nil {
		t.Fatal(err)
	}
	quiet := func(_ *prng.Source, s *scenarios.Setup) {
		*s = scenarios.StandardSetup()
		s.Groups, s.Replicas, s.Controllers, s.Namesrvs = 1, 2, 1, 1
	}
	for name, d := range map[string]*scenarios.Drill{
		"assertion": {ID: "T1", Pin: quiet, Chaos: 1e9, Assertions: []scenarios.Assertion{{Name: "never", Check: func(r *scenarios.Run) string {
			if len(r.Judge.AckLog) == 0 {
				return ""
			}
			return "there were acknowledgements"
		}}}},
		"loss": {ID: "T2", Pin: quiet, Chaos: 30e9, Assertions: base.Assertions[:1], Faults: func(*scenarios.Cast) []*sim.Fault {
			return []*sim.Fault{scenarios.Strike(sim.CrashExit, scenarios.At(1e9), 10e9, "@master/a")}
		}},
		"plan": {ID: "T3", Pin: quiet, Chaos: 1e9, Faults: func(*scenarios.Cast) []*sim.Fault {
			return []*sim.Fault{{Kind: sim.CrashExit, Nodes: []string{"nobody"}, When: scenarios.At(0)}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rep, err := Run(d, 1, Settings{Dir: t.TempDir(), Pace: testPace})
			if err != nil {
				t.Fatal(err)
			}
			if rep.Verdict != scenarios.Fail {
				t.Fatalf("verdict %s: %s", rep.Verdict, rep.Reason)
			}
		})
	}
}

func TestNotLive(t *testing.T) {
	d := &scenarios.Drill{ID: "T4", Pure: func(*prng.Source) (int, []checker.Finding) { return 1, nil }}
	rep, err := Run(d, 1, Settings{})
	if err != nil || rep.Verdict != scenarios.NotLive || rep.Reason == "" {
		t.Fatalf("%+v, %v", rep, err)
	}
}

func TestBadOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"no plan":      {Dir: "x"},
		"no directory": {Plan: &sim.Plan{}},
		"backwards":    {Dir: "x", Plan: &sim.Plan{}, Pace: -1},
		"too fast":     {Dir: "x", Plan: &sim.Plan{}, Pace: maxPace + 1},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
