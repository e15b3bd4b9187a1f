package main

import (
	"fmt"
	"io"
	"sort"
	"strings"
	"time"

	"lockstep/checker"
	"lockstep/scenarios"
)

// row sums the runs of one drill.
type row struct {
	id       string
	runs     int
	verdicts map[scenarios.Verdict]int
	acked    int
	lost     int
	allowed  int
	rto      map[checker.Stage][]int64
	simSec   float64
	wallSec  float64
	tested   map[string]int // clause → runs that put it to the test
	marks    map[string]int // named state → how often it was reached
}

// table gathers reports by drill, prints failures as they come and a table at
// the end.
type table struct {
	out, errw io.Writer
	rows      map[string]*row
	failed    []*scenarios.Report
	draws     map[string]map[string]int // option → value → runs
	marks     map[string]int
	began     time.Time
	err       error
}

// maxFailuresPrinted bounds the failures told in full.
const maxFailuresPrinted = 20

func newTable(out, errw io.Writer) *table {
	return &table{out: out, errw: errw, rows: map[string]*row{}, draws: map[string]map[string]int{}, marks: map[string]int{}, began: time.Now()}
}

func (t *table) add(r *scenarios.Report, err error) {
	if err != nil && t.err == nil {
		t.err = err
	}
	x := t.rows[r.Drill]
	if x == nil {
		x = &row{id: r.Drill, verdicts: map[scenarios.Verdict]int{}, rto: map[checker.Stage][]int64{}, tested: map[string]int{}, marks: map[string]int{}}
		t.rows[r.Drill] = x
	}
	x.runs++
	x.verdicts[r.Verdict]++
	x.acked += r.Acknowledged
	x.lost += r.Lost
	x.allowed += r.LossAllowed
	x.simSec += r.SimulatedSeconds
	x.wallSec += r.WallSeconds
	for _, s := range checker.Stages {
		if ms, ok := r.RTOMillis[string(s)]; ok {
			x.rto[s] = append(x.rto[s], ms)
		}
	}
	for _, o := range r.Options {
		if t.draws[o.Name] == nil {
			t.draws[o.Name] = map[string]int{}
		}
		t.draws[o.Name][o.Value]++
	}
	for m, n := range r.Marks {
		t.marks[m] += n
		x.marks[m] += n
	}
	for i := range r.Assertions {
		if !r.Assertions[i].Moot {
			x.tested[r.Assertions[i].Name]++
		}
	}
	if r.Verdict != scenarios.Pass {
		t.fail(r)
	}
}

func (t *table) fail(r *scenarios.Report) {
	t.failed = append(t.failed, r)
	if len(t.failed) > maxFailuresPrinted {
		return
	}
	fmt.Fprintf(t.errw, "%s %s seed %d: %s\n    again: %s\n", strings.ToUpper(string(r.Verdict)), r.Drill, r.Seed, r.Reason, r.Repeat())
}

// finish prints the table and tells whether everything passed.
func (t *table) finish() error {
	ids := make([]string, 0, len(t.rows))
	for id := range t.rows {
		ids = append(ids, id)
	}
	order := map[string]int{}
	for i, d := range scenarios.Drills() {
		order[d.ID] = i
	}
	sort.Slice(ids, func(i, j int) bool { return order[ids[i]] < order[ids[j]] })
	fmt.Fprintf(t.out, "%-22s %5s %-9s %9s %9s  %-48s %9s\n", "drill", "runs", "verdict", "acked", "RPO", "RTO p50 by stage, s after the fault", "sim s/s")
	for _, id := range ids {
		x := t.rows[id]
		fmt.Fprintf(t.out, "%-22s %5d %-9s %9d %9s  %-48s %9.0f\n", x.id, x.runs, x.verdict(), x.acked, x.rpo(), x.recovery(), x.speed())
	}
	runs := t.runs()
	fmt.Fprintf(t.out, "\n%d runs in %.1fs, %d failed\n", runs, time.Since(t.began).Seconds(), len(t.failed))
	if t.err != nil {
		return t.err
	}
	if len(t.failed) > 0 || runs == 0 {
		return errFailed
	}
	return nil
}

// runs counts the runs in the table.
func (t *table) runs() (n int) {
	for _, x := range t.rows {
		n += x.runs
	}
	return n
}

func (x *row) verdict() string {
	if x.verdicts[scenarios.Pass] == x.runs {
		return "pass"
	}
	for _, v := range []scenarios.Verdict{scenarios.Broken, scenarios.Fail, scenarios.Stale, scenarios.Vacuous} {
		if n := x.verdicts[v]; n > 0 {
			return fmt.Sprintf("%s %d", v, n)
		}
	}
	return "?"
}

// rpo is acknowledged messages lost, and how many of them the policy allows.
func (x *row) rpo() string {
	if x.lost == 0 {
		return "0"
	}
	return fmt.Sprintf("%d/%d ok", x.lost, x.allowed)
}

// holes lists what no run of the table reached: clauses whose premise never came
// about, and rare states that a drill names. A handful of runs has holes by nature;
// in a large sweep each is something that the drills only seem to test.
func (t *table) holes() (out []string) {
	for _, d := range scenarios.Drills() {
		x := t.rows[d.ID]
		if x == nil {
			continue
		}
		for i := range d.Assertions {
			if name := d.Assertions[i].Name; x.tested[name] == 0 {
				out = append(out, fmt.Sprintf("%s: no run put %q to the test", d.ID, name))
			}
		}
		for _, m := range d.Rare {
			if x.marks[m] == 0 {
				out = append(out, fmt.Sprintf("%s: no run reached %q", d.ID, m))
			}
		}
	}
	return out
}

var stageShort = map[checker.Stage]string{checker.Detect: "det", checker.Elect: "elect", checker.ApplyRole: "role",
	checker.CatchUp: "catch", checker.Route: "route", checker.FirstSend: "send", checker.FirstConsume: "read"}

func (x *row) recovery() string {
	var parts []string
	for _, s := range checker.Stages {
		if v := x.rto[s]; len(v) > 0 {
			parts = append(parts, fmt.Sprintf("%s %.1f", stageShort[s], float64(checker.Percentile(v, 50))/1e3))
		}
	}
	return strings.Join(parts, " ")
}

func (x *row) speed() float64 {
	if x.wallSec == 0 {
		return 0
	}
	return x.simSec / x.wallSec
}

// histogram prints what a sweep drew, and the marks it reached.
func (t *table) histogram() {
	fmt.Fprintln(t.out, "\nwhat was drawn (runs):")
	for _, name := range sorted(t.draws) {
		var parts []string
		for _, v := range sorted(t.draws[name]) {
			parts = append(parts, fmt.Sprintf("%s×%d", v, t.draws[name][v]))
		}
		fmt.Fprintf(t.out, "  %-28s %s\n", name, strings.Join(parts, "  "))
	}
	fmt.Fprintln(t.out, "rare states reached:")
	for _, m := range sorted(t.marks) {
		fmt.Fprintf(t.out, "  %-44s %d\n", m, t.marks[m])
	}
	if holes := t.holes(); len(holes) > 0 {
		fmt.Fprintln(t.out, "never reached:")
		for _, h := range holes {
			fmt.Fprintln(t.out, "  "+h)
		}
	}
}

func sorted[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}
