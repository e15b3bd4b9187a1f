package scenarios

import (
	"slices"
	"strings"
	"testing"

	"lockstep/internal/prng"
	"lockstep/sim"
)

// TestSomethingStrikes: each plan of the random world has a trouble that does not wait
// for a step of the protocol, so that "before the fault" has a meaning.
func TestSomethingStrikes(t *testing.T) {
	for seed := range uint64(20_000) {
		rnd := prng.New(seed)
		s := Draw(rnd)
		randomSetup(rnd, &s)
		s.clamp()
		faults := randomFaults(newCast(&s, rnd))
		if !slices.ContainsFunc(faults[:len(faults)-1], certain) {
			t.Fatalf("seed %d: %v", seed, faults)
		}
		for _, f := range faults {
			if f.Kind == sim.Action && !certain(f) && strings.HasPrefix(f.Text, actPrefix) {
				t.Fatalf("seed %d: %q is certain", seed, f.Text)
			}
			if err := f.Validate(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
	}
}

// TestPlansRepeatSeeds: a plan that was written and read again makes the run of its
// seed.
func TestPlansRepeatSeeds(t *testing.T) {
	for seed := uint64(1); seed <= 3; seed++ {
		r, rep, err := Execute(randomWorld, seed, RunOptions{})
		if err != nil {
			t.Fatal(err)
		}
		plan, err := sim.ParsePlan(r.Plan.Format())
		if err != nil {
			t.Fatal(err)
		}
		if _, again, err := Execute(randomWorld, seed, RunOptions{Plan: plan}); err != nil || again.Hash != rep.Hash {
			t.Errorf("seed %d: hash %s, as a plan %s, %v", seed, rep.Hash, again.Hash, err)
		}
	}
}
