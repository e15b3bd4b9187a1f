package main

import (
	"bytes"
	"strings"
	"testing"

	"lockstep/scenarios"
)

// TestHolesAreNamed: a clause that no run put to the test, and a rare state that no
// run reached, are told; one run that did is enough.
func TestHolesAreNamed(t *testing.T) {
	d, err := scenarios.Find("R")
	if err != nil {
		t.Fatal(err)
	}
	report := func(moot bool, marks ...string) *scenarios.Report {
		r := &scenarios.Report{Drill: d.ID, Verdict: scenarios.Pass, Marks: map[string]int{}}
		for i := range d.Assertions {
			r.Assertions = append(r.Assertions, scenarios.AssertionMade{Name: d.Assertions[i].Name, Holds: true, Moot: moot})
		}
		for _, m := range marks {
			r.Marks[m] = 1
		}
		return r
	}
	var out bytes.Buffer
	tab := newTable(&out, &out)
	tab.add(report(true), nil)
	if got, want := len(tab.holes()), len(d.Assertions)+len(d.Rare); got != want || len(d.Rare) == 0 {
		t.Errorf("%d holes, want %d: %v", got, want, tab.holes())
	}
	tab.add(report(false, d.Rare[1:]...), nil)
	holes := tab.holes()
	if len(holes) != 1 || !strings.Contains(holes[0], d.Rare[0]) {
		t.Errorf("holes %v, want %q alone", holes, d.Rare[0])
	}
	tab.histogram()
	if !strings.Contains(out.String(), holes[0]) {
		t.Errorf("the sweep does not print %q", holes[0])
	}
	tab.add(report(true, d.Rare[0]), nil)
	if holes := tab.holes(); len(holes) != 0 {
		t.Errorf("holes %v, want none", holes)
	}
}

// TestQuietAndStaleRunsFail: a run that showed nothing fails the table as one that
// found something does.
func TestQuietAndStaleRunsFail(t *testing.T) {
	for _, v := range []scenarios.Verdict{scenarios.Fail, scenarios.Vacuous, scenarios.Stale, scenarios.Broken} {
		var out bytes.Buffer
		tab := newTable(&out, &out)
		tab.add(&scenarios.Report{Drill: "A3", Verdict: scenarios.Pass}, nil)
		tab.add(&scenarios.Report{Drill: "A3", Verdict: v}, nil)
		if tab.finish() == nil {
			t.Errorf("a sweep with a %s run passes", v)
		}
	}
	var out bytes.Buffer
	if newTable(&out, &out).finish() == nil {
		t.Error("a sweep without a run passes")
	}
}

// TestDiffer: equal hashes do not hide that the judges said something else.
func TestDiffer(t *testing.T) {
	base := scenarios.Report{Drill: "A3", Seed: 1, Hash: "1", Verdict: scenarios.Pass, WallSeconds: 1, Acknowledged: 7}
	cases := []struct {
		name   string
		change func(r *scenarios.Report)
		want   bool
	}{
		{"wall time", func(r *scenarios.Report) { r.WallSeconds = 2 }, false},
		{"hash", func(r *scenarios.Report) { r.Hash = "2" }, true},
		{"verdict", func(r *scenarios.Report) { r.Verdict = scenarios.Fail }, true},
		{"reason", func(r *scenarios.Report) { r.Reason = "x" }, true},
		{"a count", func(r *scenarios.Report) { r.Acknowledged = 8 }, true},
		{"a clause", func(r *scenarios.Report) { r.Assertions = []scenarios.AssertionMade{{Name: "a"}} }, true},
	}
	for _, c := range cases {
		other := base
		c.change(&other)
		if got := differ(&base, &other); got != "" != c.want {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}
