package scenarios

import (
	"os"
	"path/filepath"
	"testing"

	"lockstep/sim"
)

// TestCorpus runs each plan that once found a fault. Plans have few entries and small
// worlds: together they take seconds.
func TestCorpus(t *testing.T) {
	files, err := filepath.Glob("corpus/*.plan")
	if err != nil || len(files) == 0 {
		t.Fatalf("no plans: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			plan, err := sim.ParsePlan(string(text))
			if err != nil {
				t.Fatal(err)
			}
			d, err := Find(plan.Drill)
			if err != nil {
				t.Fatal(err)
			}
			_, rep, err := Execute(d, plan.Seed, RunOptions{Plan: plan})
			if err != nil {
				t.Fatal(err)
			}
			if rep.Verdict != Pass {
				t.Errorf("%s: %s\nagain: go run ./cmd/drill replay scenarios/%s", rep.Verdict, rep.Reason, file)
			}
		})
	}
}
