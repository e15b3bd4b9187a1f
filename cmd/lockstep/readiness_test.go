package main

import (
	"testing"
	"time"

	"lockstep/node"
)

// A wait is told once it is long, with what is awaited, then now and then, and so is
// its end. Short waits, and those of a node that stops, are nobody's business.
func TestReadiness(t *testing.T) {
	no := []node.Condition{
		{Name: "store", Ready: true, OK: true},
		{Name: "identity", Ready: true},
		{Name: "registered", Ready: true, Detail: "no controller answers"},
		{Name: "lease", Writable: true},
	}
	yes := []node.Condition{{Name: "store", Ready: true, OK: true}, {Name: "lease", Writable: true}}
	stopping := append([]node.Condition{{Name: "running", Ready: true}}, no...)
	const text = "identity; registered: no controller answers"
	var r readiness
	begun := time.Now()
	for _, c := range []struct {
		after      time.Duration
		conditions []node.Condition
		awaited    string
		over       bool
	}{
		{0, no, "", false},
		{waitLimit - 1, no, "", false},
		{waitLimit, yes, "", false}, // short: nothing was said
		{time.Minute, no, "", false},
		{time.Minute + waitLimit, no, text, false},
		{2 * time.Minute, no, "", false},
		{time.Minute + waitLimit + reminder, no, text, false},
		{time.Hour, stopping, "", false},
		{time.Hour + 1, yes, "", true},
		{time.Hour + 2, yes, "", false},
	} {
		if awaited, over := r.see(begun.Add(c.after), c.conditions); awaited != c.awaited || over != c.over {
			t.Errorf("after %v: %q %v, want %q %v", c.after, awaited, over, c.awaited, c.over)
		}
	}
}
