package scenarios

import (
	"strings"
	"testing"

	"lockstep/sim"
)

// TestDrawnSetupsAreValid: what a drill draws and pins, every daemon starts with.
func TestDrawnSetupsAreValid(t *testing.T) {
	for _, d := range Drills() {
		for seed := range uint64(100) {
			if err := Check(d, seed, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestSettingsThatNobodyTakes are refused before anything runs, by the name of the
// option and with what to write instead; also in a plan and for a drill without a world.
func TestSettingsThatNobodyTakes(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"foo", "1", `no option is called "foo"; there are groups, replicas, `},
		{"writeLease", "bogus", "writeLease=bogus: write one of [required off offered]"},
		{"writeLease", "offered", "use required or off"},
		{"skew", "maybe", "skew=maybe: write true or false"},
		{"rate", "fast", "rate=fast: write a whole number"},
		{"slaveTimeout", "5", "slaveTimeout=5: write a time with its unit"},
		{"minInSyncReplicas", "99", "no write could ever be admitted; lower the floor or add replicas"},
		{"inSyncReplicas", "0", "no write could ever be acknowledged"},
		{"controllers", "2", "an even number survives no more failures"},
		{"controllers", "0", "controllers 0 is not in 1..15"},
		{"replicas", "0", "replicas 0 is not in 1..16"},
		{"groups", "3", "groups 3 is not in 1..2"},
		{"namesrvs", "0", "namesrvs 0 is not in 1..8"},
		{"queues", "0", "queues 0 is not in 1..64"},
		{"clients", "3", "clients 3 is not in 4..64"},
		{"rate", "0", "rate 0 is not in 1..10000"},
		{"bodyBytes", "-1", "bodyBytes -1 is not in 1.."},
		{"bodyBytes", "9999999", "bodyBytes 9999999 is not in 1.."},
		{"mappedFileSizeCommitLog", "100", "mappedFileSizeCommitLog 100 is not in 4096.."},
		{"haTransferBatchSize", "1", "haTransferBatchSize 1 is not in 64.."},
		{"fileReservedTime", "-1s", "fileReservedTime -1s is negative"},
		{"writeLeaseDuration", "1s", "writeLeaseMillis 1s is too short"},
		{"scanNotActiveBrokerInterval", "2h", "scanNotActiveBrokerInterval is 2h0m0s"},
	} {
		for _, id := range []string{"A3", "R", "C1"} {
			d, err := Find(id)
			if err != nil {
				t.Fatal(err)
			}
			// Drills draw allAckInSyncStateSet, under which the count is without effect.
			base := []Option{{"writeLease", "required"}, {"allAckInSyncStateSet", "false"}}
			set := Option{c.name, c.value}
			if c.name == "writeLeaseDuration" { // a lease that is off may be as short as it likes
				if err := Check(d, 1, []Option{{"writeLease", "off"}, set}); err != nil {
					t.Errorf("%s with the lease off: %v", id, err)
				}
			}
			if err := Check(d, 1, append(base, set)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s --set %s=%s: %v, want %q", id, c.name, c.value, err, c.want)
			}
			if d.Pure != nil {
				continue
			}
			p := &sim.Plan{}
			for _, o := range append(base, set) {
				p.Settings = append(p.Settings, sim.Setting{Name: o.Name, Value: o.Value})
			}
			if _, _, err := Execute(d, 1, RunOptions{Plan: p}); err == nil || !strings.HasPrefix(err.Error(), "plan: ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, plan with %s %s: %v, want %q", id, c.name, c.value, err, c.want)
			}
		}
	}
	for _, d := range Drills() {
		if d.Pure == nil {
			continue
		}
		if _, _, err := Execute(d, 1, RunOptions{Settings: []Option{{"foo", "1"}}}); err == nil {
			t.Errorf("%s has no world and takes an option that does not exist", d.ID)
		}
	}
}

// TestDrawnValuesGiveWay: what was drawn fits what was set, which stays as it is.
func TestDrawnValuesGiveWay(t *testing.T) {
	d, err := Find("R")
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(50) {
		s, _, err := arrange(d, seed, RunOptions{Settings: []Option{{"replicas", "1"}, {"mappedFileSizeCommitLog", "4096"}}})
		if err != nil || s.Replicas != 1 || s.SegmentBytes != 4096 || s.Min != 1 || s.Count != 1 || s.BodyBytes > 1024 {
			t.Fatalf("seed %d: %+v, %v", seed, s, err)
		}
		s, _, err = arrange(d, seed, RunOptions{Settings: []Option{{"replicas", "3"}, {"minInSyncReplicas", "3"}}})
		if err != nil || s.Replicas != 3 || s.Min != 3 {
			t.Fatalf("seed %d: %+v, %v", seed, s, err)
		}
	}
}

// TestPlanWithoutFaults: a plan that brings no fault is run and judged by every drill,
// whose clauses about the fault are moot or fail by name.
func TestPlanWithoutFaults(t *testing.T) {
	for _, d := range Drills() {
		if d.Pure != nil {
			continue
		}
		if _, _, err := Execute(d, 1, RunOptions{Plan: &sim.Plan{}}); err != nil {
			t.Errorf("%s: %v", d.ID, err)
		}
	}
}
