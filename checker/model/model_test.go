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

// TestEachRuleIsNeeded removes one rule at a time and expects a loss. from is
// where the search starts: rules whose loss is rare begin at the walk that is
// known to show it, found by a search of 700,000 walks.
func TestEachRuleIsNeeded(t *testing.T) {
	received := func(f func(*Rules)) func(*Rules) {
		return func(r *Rules) { r.ClassReceived = true; f(r) }
	}
	cases := []struct {
		name string
		off  func(*Rules)
		from uint64
	}{
		{"min checked at acknowledgement", func(r *Rules) { r.MinAtAck = false }, 1},
		{"confirm frozen below min", func(r *Rules) { r.Freeze = false }, 1},
		{"join test", func(r *Rules) { r.JoinTest = false }, 1},
		{"store id bound to membership", func(r *Rules) { r.StoreID = false }, 1},
		{"restarted master gets a new epoch", func(r *Rules) { r.NewEpoch = false }, 1},
		{"received: unclean restart breaks the claim", received(func(r *Rules) { r.UncleanBroken = false }), 1},
		{"union of old and proposed set", func(r *Rules) { r.Union = false }, 5035},
		{"union ends only on a higher set epoch", func(r *Rules) { r.UnionByEpoch = false }, 682725},
		{"member incarnation in the proposal", func(r *Rules) { r.MemberBoot = false }, 26122},
		{"received: member incarnation in the proposal", received(func(r *Rules) { r.MemberBoot = false }), 3186},
		{"received: incarnation passed the join test", received(func(r *Rules) { r.ProvenBoot = false }), 26705},
		{"role change drops acks", func(r *Rules) { r.DropAcks = false }, 304767},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			rules := All()
			c.off(&rules)
			at, w, _, _ := walks(rules, c.from, c.from+5000)
			if at == 0 {
				t.Fatalf("nothing lost in 5000 walks without the rule")
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
