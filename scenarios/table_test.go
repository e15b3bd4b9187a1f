package scenarios

import (
	"strings"
	"testing"
	"time"
)

// clause is one clause of "must be seen" of the table of drills, and the assertion
// that stands for it.
type clause struct{ words, assertion string }

// required is the table of drills: what each row demands beyond the common criteria.
var required = map[string][]clause{
	"A1": {
		{"waiting on the old set", "waits on the old set"},
		{"time-outs, unknown", "waiting sends end in unknown"},
		{"set shrunk and committed", "set shrunk and committed"},
		{"caught up past confirmOffset in the current epoch and back in", "back in the set"},
		{"epoch unchanged", "epoch unchanged"},
		{"writes resume or are refused exactly as the floor says", "writes as the floor says"},
		{"shrink time against checkSyncStateSetPeriod and haMaxTimeSlaveNotCatchup", "shrink in time"},
	},
	"A3": {
		{"no election before last heartbeat + time-out", "not before the heartbeat time-out"},
		{"committed with set = {new}", "set of the new epoch is its master"},
		{"committed at most one scan later", "elected within one scan"},
		{"role by T+18, route by T+20", "role and route in their windows"},
		{"first client success", "clients succeed again"},
		{"first client success by T+30", "first success in its window"},
		{"in-flight sends sorted into never appended / appended unproven / acknowledged", "in-flight sends are sorted"},
		{"old master returns fenced, follows", "old master returns fenced and follows"},
		{"truncates, catches up, re-enters", "old master re-enters"},
	},
	"A4": {
		{"not writable until a replica has re-entered", "not writable below the floor"},
		{"no election before last heartbeat + time-out", "not before the heartbeat time-out"},
		{"committed with set = {new}", "set of the new epoch is its master"},
		{"committed at most one scan later", "elected within one scan"},
		{"role and route as in A3", "role and route in their windows"},
		{"first client success", "clients succeed again"},
	},
	"A5": {
		{"heartbeat lost, election", "heartbeat lost, then election"},
		{"slaves leave", "slaves leave the old master"},
		{"all-ack: acks stop", "old master stops succeeding"},
		{"lease required: no ack after the fence", "no ack after the fence"},
		{"all-ack: no loss with or without lease", "no loss under all-ack"},
		{"count 1: loss counted and equal to the oracle's; count 2 of 3 with lease: none with one failure", "loss is the oracle's"},
	},
	"A6": {
		{"the longer log does not win", "the longer log does not win"},
		{"the rest on the other side leads", "the majority elects"},
		{"business keys reconcile", "business keys reconcile"},
		{"as A5: acks stop", "old master stops succeeding"},
		{"as A5: no ack after the fence", "no ack after the fence"},
		{"as A5: no loss under all-ack", "no loss under all-ack"},
		{"as A5: loss is the oracle's", "loss is the oracle's"},
	},
	"A7": {
		{"new leader", "new leader"},
		{"also at the moment of a master's death", "a master lost with it is replaced"},
		{"heartbeats of the interval count", "no needless election"},
		{"no broker demotes itself", "no broker demotes itself"},
		{"none is fenced, under required too", "none is fenced"},
		{"the uncommitted change is retried or known to have failed", "the change is retried or known to have failed"},
	},
	"A8": {
		{"two lost of five is normal service", "minority loss is normal service"},
		{"no promotion and no set change without quorum", "nothing committed without quorum"},
		{"lease off: writes go on", "lease off: writes go on"},
		{"required: writes end by the deadline", "required: writes end by the deadline"},
		{"minority's answer says why", "minority's answer says why"},
		{"all-ack with a dead slave ends in unknown", "lease off: all-ack with a dead slave ends in unknown"},
		{"operator asks the minority to elect", "the minority elects nobody"},
		{"recovers by itself", "recovers by itself"},
	},
	"A18": {
		{"no error", "no error in the other group"},
		{"p99 ≤ 1.5×", "latency stays"},
		{"no epoch change", "no epoch change"},
		{"lease kept", "lease kept"},
		{"clients move to it where the contract says so", "free sends move to the other group"},
		{"clients move: to the broken group's new master", "bound sends move to the new master"},
	},
	"B12": {
		{"ack at about max(F, R)", "about the longer of the two"},
		{"never F + R", "never the sum"},
		{"both are waited for", "not before both are done"},
		{"across groups", "across groups"},
	},
	"C1": {
		{"required: grants lost", "required: writes end by the deadline"},
		{"required: late and reordered grants", "nothing acknowledged without a lease"},
		{"off", "off: writes go on"},
		{"within the margin: service goes on", "writable again by the next grant"},
		{"drift and suspend within the margin", "one writable master at a time"},
	},
	"C1-beyond": { // the violation itself is what the drill expects to be found
		{"beyond: a successor is writable", "successor elected"},
		{"beyond: all-ack stays safe", "old master acknowledges nothing under all-ack"},
		{"beyond: no acknowledged all-in-sync loss in every clock run", noLoss.Name},
	},
	"C2": {
		{"role known but lease missing", "role known but lease missing"},
		{"lease but store not promotable", "lease but store not promotable"},
		{"handlers missing", "handlers refuse until ready"},
		{"readiness against writability at each step", "readiness against writability at each step"},
		{"common", noLoss.Name},
	},
	"C3": {
		{"against a brute-force oracle", clauseOracle},
		{"stale authority", clauseAuthority},
		{"duplicate", clauseDuplicate},
		{"leader's own id", clauseSelf},
		{"non-member, learner, removed", clauseStranger},
		{"beyond-sent", clauseBeyond},
		{"n above set size", clauseImpossible},
		{"the document's A/B/C example", clauseExample},
	},
	"C4": {
		{"every order of starting", "any order serves"},
		{"opt-in missing", "nothing without the opt-in"},
		{"two sides initialising: not while one is out of reach", "not while one cannot be asked"},
		{"two sides initialising: one cluster", "one cluster"},
		{"every order: each of them is a voter", "every controller counts"},
		{"restart never re-initialises", "restart never re-initialises"},
	},
	"C5": {
		{"crash at every write point", clauseEveryPoint},
		{"then the same state", clauseSameState},
		{"and usable", clauseUsable},
		{"Pebble", clausePebble},
		{"memory", clauseMemory},
	},
	"C6": {
		{"poll lost: converges by notices alone", "converges by notices alone"},
		{"1008 lost: converges by polls alone", "converges by polls alone"},
		{"late, twice, out of order", "late, repeated and reordered notices change nothing"},
		{"equal epoch with another master, lower epoch", "equal epoch with another master is refused"},
		{"nothing applied partly", "nothing applied in part"},
		{"common", noLoss.Name},
	},
	"C7": {
		{"every combination is refused", "only the exact request commits"},
		{"stale master, epoch, set epoch", "authority is compared first"},
		{"dead or unknown member", "dead, unknown and other lives are refused"},
		{"the right one is taken", "the right request is taken"},
		{"a refusal changes nothing", "refused requests change nothing"},
		{"late reply after demotion", "a late answer after demotion moves nobody"},
		{"common", noLoss.Name},
	},
	"P-last-standing": {
		{"members removed below the floor stay electable", "a retained member leads"},
		{"confirm does not move below minInSync", "confirm is frozen below the floor"},
		{"floor at acknowledgement", "nothing acknowledged below the floor"},
		{"no loss", noLoss.Name},
	},
	"P-idle-rejoin": {
		{"the verified prefix counts as acked", "joins without a write"},
		{"writes are not refused for ever", "writable before the first write"},
		{"idle", "idle sends nothing"},
		{"no loss", noLoss.Name},
	},
	"P-slow-commit-alter": {
		{"the union ends only on a higher set epoch", "union until the set epoch rises"},
		{"the call times out", "the call had timed out"},
		{"B elected", "B leads with everything"},
		{"no loss", noLoss.Name},
	},
	"P-incarnation": {
		{"that incarnation passed the join test", "a new life leads nothing"},
		{"the alter carries (id, store, boot) of every member", "the proposal names the life"},
		{"no loss", noLoss.Name},
	},
	"P-restored-backup": {
		{"not electable in the same committed command", "not electable in the same command"},
		{"until it joins again", "never leads before it joins"},
		{"a boot not above the recorded one", "its boot rises above every boot used"},
		{"no loss", noLoss.Name},
	},
	"P-blackout-async": {
		{"one missing: stay down", "down while one is missing"},
		{"and name it", "the missing are named"},
		{"elect the greatest (last epoch, end)", "longest log of all leads"},
		{"count and report the possible loss", "loss is what the power took"},
	},
	"P-controller-amnesia": {
		{"needs all totalReplicas", "no election before all are there"},
		{"next epoch > every reported one", "above every epoch seen"},
		{"best log", "the laggard does not lead"},
		{"registration is not a new identity", "identities are kept"},
		{"no loss", noLoss.Name},
	},
	"P-fsync-lie-restart": {
		{"fsync error ends the claim", "a failed sync ends the life"},
		{"suspect store not electable", "a suspect store leads nothing"},
		{"nothing above the floor counts before it is rewritten and fsynced", "durable means durable"},
		{"no loss", noLoss.Name},
	},
	"P-rot-then-crash": {
		{"nothing deleted", "nothing is deleted"},
		{"store not electable", "the rotten store leads nothing"},
		{"never served or replicated as good", "a damaged byte is never served or replicated"},
		{"rebuild from the master", "it rebuilds"},
		{"no loss", noLoss.Name},
	},
	"P-join-under-load": {
		{"joining succeeds under load", "joins within a bounded time"},
		{"stalls acks by milliseconds", "acks stall for milliseconds"},
		{"under load", "load never paused"},
		{"no loss", noLoss.Name},
	},
	"P-expired-prefix-bootstrap": {
		{"out of range is said", "told that it is out of range"},
		{"start at a segment boundary", "starts at a segment boundary"},
		{"a complete checkpoint starts behind what is deleted", "a checkpoint is kept"},
		{"bootstrap needs the log alone", "the rebuilt replica leads"},
		{"no loss", noLoss.Name},
	},
}

// TestEveryClauseIsAsserted compares the table with the registry both ways.
func TestEveryClauseIsAsserted(t *testing.T) {
	for id, clauses := range required {
		d, err := Find(id)
		if err != nil {
			t.Errorf("%s is in the table: %v", id, err)
			continue
		}
		have := map[string]bool{}
		for _, a := range d.Assertions {
			have[a.Name] = true
		}
		for _, c := range clauses {
			if !have[c.assertion] {
				t.Errorf("%s: %q has no assertion %q", id, c.words, c.assertion)
			}
			delete(have, c.assertion)
		}
		for name := range have {
			t.Errorf("%s asserts %q, which no clause of the table asks for: add its words", id, name)
		}
	}
}

// TestDrillsAreWritten checks what every drill has to say of itself.
func TestDrillsAreWritten(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range Drills() {
		if seen[d.ID] {
			t.Errorf("two drills are called %s", d.ID)
		}
		seen[d.ID] = true
		if d.Story == "" || d.Name == "" || strings.Contains(d.Name, " ") {
			t.Errorf("%s: name %q, story %q", d.ID, d.Name, d.Story)
		}
		if strings.HasPrefix(d.ID, "P-") && required[d.ID] == nil {
			t.Errorf("%s is in no row of the table", d.ID)
		}
		names := map[string]bool{}
		for _, a := range d.Assertions {
			if a.Name == "" || a.Text == "" || names[a.Name] {
				t.Errorf("%s: clause %q: %q", d.ID, a.Name, a.Text)
			}
			if a.Check == nil && d.Pure == nil {
				t.Errorf("%s: clause %q is never checked", d.ID, a.Name)
			}
			names[a.Name] = true
		}
		least := d.Least
		if d.Pure == nil && d.ID != "S0" && least.Before+least.After+least.InFlight+len(least.Marks) == 0 {
			t.Errorf("%s states no least activity", d.ID)
		}
	}
}

// shortTime is how long a drill may have taken to be run again for its hash.
const shortTime = 1500 * time.Millisecond

// TestDrillsPass runs every drill on two seeds; the quick ones twice, and both must
// give one hash. With -short only drills without a world and the steady one run.
func TestDrillsPass(t *testing.T) {
	for _, d := range Drills() {
		t.Run(d.ID, func(t *testing.T) {
			if testing.Short() && d.Pure == nil && d.ID != "S0" {
				t.Skip("a world takes a second or more")
			}
			for seed := uint64(101); seed <= 102; seed++ {
				began := time.Now()
				rep := passes(t, d, seed)
				if seed == 101 && time.Since(began) < shortTime {
					if again := passes(t, d, seed); again.Hash != rep.Hash {
						t.Errorf("seed %d: hash %s, the second time %s", seed, rep.Hash, again.Hash)
					}
				}
			}
		})
	}
}

// passes runs a drill once.
func passes(t *testing.T, d *Drill, seed uint64) *Report {
	t.Helper()
	_, rep, err := Execute(d, seed, RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if rep.Verdict != Pass {
		t.Errorf("seed %d: %s: %s\nagain: %s", seed, rep.Verdict, rep.Reason, rep.Repeat())
	}
	for _, a := range rep.Assertions {
		if !a.Holds && rep.Verdict == Pass {
			t.Errorf("seed %d passes although %q does not hold: %s", seed, a.Name, a.Detail)
		}
	}
	return rep
}
