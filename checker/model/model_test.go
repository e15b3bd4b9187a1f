package model

import "testing"

const steps = 700

func walks(rules Rules, from, to uint64) (lostAt uint64, w *Walk, acks, elections int) {
	for seed := from; seed < to; seed++ {
		w = Run(seed, rules, steps)
		acks += w.Acks
		elections += w.Elected
		if w.Loss != "" {
			return seed, w, acks, elections
		}
	}
	return 0, w, acks, elections
}

// TestAllRulesLoseNothing walks the whole protocol in both ack classes.
func TestAllRulesLoseNothing(t *testing.T) {
	received, floor1 := All(), All()
	received.ClassReceived = true
	floor1.MinInSync = 1
	for name, rules := range map[string]Rules{"durable": All(), "received": received, "floor 1": floor1} {
		t.Run(name, func(t *testing.T) {
			n := uint64(8000)
			if testing.Short() {
				n = 1500
			}
			at, w, acks, elections := walks(rules, 1, n)
			if at != 0 {
				t.Fatalf("seed %d: %s\n%v", at, w.Loss, w.Trace)
			}
			if acks < int(n) || elections < int(n)/2 {
				t.Fatalf("vacuous: %d acknowledgements, %d elections in %d walks", acks, elections, n)
			}
		})
	}
}

// TestEachRuleIsNeeded removes one rule at a time and expects a loss. Rules that
// need hundreds of thousands of walks are left to -run with a higher bound.
func TestEachRuleIsNeeded(t *testing.T) {
	received := func(f func(*Rules)) func(*Rules) {
		return func(r *Rules) { r.ClassReceived = true; f(r) }
	}
	cases := []struct {
		name  string
		off   func(*Rules)
		bound uint64
	}{
		{"min checked at acknowledgement", func(r *Rules) { r.MinAtAck = false }, 20_000},
		{"confirm frozen below min", func(r *Rules) { r.Freeze = false }, 20_000},
		{"join test", func(r *Rules) { r.JoinTest = false }, 60_000},
		{"store id bound to membership", func(r *Rules) { r.StoreID = false }, 60_000},
		{"restarted master gets a new epoch", func(r *Rules) { r.NewEpoch = false }, 60_000},
		{"received: unclean restart breaks the claim", received(func(r *Rules) { r.UncleanBroken = false }), 20_000},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			rules := All()
			c.off(&rules)
			at, w, _, _ := walks(rules, 1, c.bound)
			if at == 0 {
				t.Fatalf("nothing lost in %d walks without the rule", c.bound)
			}
			t.Logf("lost at walk %d: %s", at, w.Loss)
		})
	}
}

// TestSameSeedSameWalk guards the walk's own determinism.
func TestSameSeedSameWalk(t *testing.T) {
	a, b := Run(42, All(), steps), Run(42, All(), steps)
	if len(a.Trace) == 0 || len(a.Trace) != len(b.Trace) || a.Trace[len(a.Trace)-1] != b.Trace[len(b.Trace)-1] {
		t.Fatalf("two runs of one seed differ: %d and %d steps", len(a.Trace), len(b.Trace))
	}
}
