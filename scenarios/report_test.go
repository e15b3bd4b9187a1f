package scenarios

import "testing"

// TestRepeat: the command that brings a run back says all that made the run.
func TestRepeat(t *testing.T) {
	set := []Option{{"minInSyncReplicas", "2"}, {"writeLease", "off"}}
	for _, c := range []struct {
		rep  Report
		want string
	}{
		{Report{Drill: "A3", Seed: 7, Host: "sim"}, "go run ./cmd/drill run A3 --seed 7"},
		{Report{Drill: "A3", Seed: 7, Host: "sim", Set: set}, "go run ./cmd/drill run A3 --seed 7 --set minInSyncReplicas=2 --set writeLease=off"},
		{Report{Drill: "A3", Seed: 7, Host: "live", Pace: 3, Set: set[:1]}, "go run ./cmd/drill live A3 --seed 7 --set minInSyncReplicas=2 --pace 3"},
		{Report{Drill: "A3", Seed: 7, Host: "sim", Unlike: true, Set: set[1:]}, "go run ./cmd/drill sweep --drill A3 --seeds 7..7 --twice 1 --set writeLease=off"},
		{Report{Drill: "A3", Seed: 7, Host: "process"}, "go run ./cmd/drill chaos --bin LOCKSTEP --client INTEROP --data EMPTY --seed 7"},
	} {
		if got := c.rep.Repeat(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestReportsKeepWhatWasSet: with and without a world.
func TestReportsKeepWhatWasSet(t *testing.T) {
	set := []Option{{"groups", "1"}}
	pure := false
	for _, d := range Drills() {
		if d.ID != "S0" && (d.Pure == nil || pure) {
			continue
		}
		pure = pure || d.Pure != nil
		_, rep, err := Execute(d, 1, RunOptions{Settings: set})
		if err != nil || len(rep.Set) != 1 || rep.Set[0] != set[0] {
			t.Errorf("%s: %v, set %v", d.ID, err, rep.Set)
		}
	}
}
