package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"lockstep/scenarios"
)

// TestWorkerAnswersEachJob: one report a line, twice-run hashes compared.
func TestWorkerAnswersEachJob(t *testing.T) {
	var out bytes.Buffer
	if err := work(strings.NewReader("S0\t3\ttrue\nS0\t3\tfalse\tgroups=1\n"), &out); err != nil {
		t.Fatal(err)
	}
	var reps []scenarios.Report
	for dec := json.NewDecoder(&out); dec.More(); {
		var r scenarios.Report
		if err := dec.Decode(&r); err != nil {
			t.Fatal(err)
		}
		reps = append(reps, r)
	}
	if len(reps) != 2 || reps[0].Verdict != scenarios.Pass || reps[1].Verdict != scenarios.Pass {
		t.Fatalf("reports %+v", reps)
	}
	if reps[0].Hash == reps[1].Hash || reps[0].Acknowledged == 0 {
		t.Errorf("hash %s with two groups and %s with one, %d acknowledged", reps[0].Hash, reps[1].Hash, reps[0].Acknowledged)
	}
	if err := work(strings.NewReader("A99\t1\tfalse\n"), &out); err == nil || !strings.Contains(err.Error(), "drill list") {
		t.Errorf("unknown drill: %v", err)
	}
}

// TestShardsCoverEverySeedOnce: N shards together make exactly the runs of one.
func TestShardsCoverEverySeedOnce(t *testing.T) {
	count := map[string]int{}
	for _, shard := range []string{"1/3", "2/3", "3/3"} {
		f := sweepFlags{seeds: "5..9", drill: []string{"A1", "A3"}, shard: shard}
		next, _, err := f.jobsOf()
		if err != nil {
			t.Fatal(err)
		}
		for j, ok := next(); ok; j, ok = next() {
			count[j.String()]++
		}
	}
	if len(count) != 10 {
		t.Errorf("%d runs, want 10", len(count))
	}
	for j, n := range count {
		if n != 1 {
			t.Errorf("%s is made %d times", j, n)
		}
	}
}

// TestBadArguments: each names the thing and the remedy.
func TestBadArguments(t *testing.T) {
	cases := []struct {
		f    sweepFlags
		want string
	}{
		{sweepFlags{}, "--seeds A..B or --for"},
		{sweepFlags{seeds: "9..5"}, "A ≤ B"},
		{sweepFlags{seeds: "x"}, "write A..B"},
		{sweepFlags{seeds: "1..2", shard: "4/3"}, "1 ≤ I ≤ N"},
		{sweepFlags{seeds: "1..2", drill: []string{"nope"}}, "drill list"},
		{sweepFlags{seeds: "1..2", set: []string{"min"}}, "name=value"},
		{sweepFlags{seeds: "1..2", set: []string{"foo=1"}}, `no option is called "foo"`},
		{sweepFlags{lasts: time.Hour, set: []string{"replicas=2", "minInSyncReplicas=3"}}, "no write could ever be admitted"},
		{sweepFlags{seeds: "1..99", drill: []string{"R"}, set: []string{"minInSyncReplicas=3"}}, "where options that are not set are drawn"},
	}
	for _, c := range cases {
		if _, _, err := c.f.jobsOf(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %q", c.f, err, c.want)
		}
	}
}

// TestSettingsAreCheckedFirst: run, live and replay refuse an option before any run
// and before a file is written.
func TestSettingsAreCheckedFirst(t *testing.T) {
	for _, c := range []struct {
		command *cobra.Command
		args    []string
	}{
		{runCommand(), []string{"A3", "S0"}}, {runCommand(), []string{"--all"}},
		{liveCommand(), []string{"S0"}}, {replayCommand(), []string{"S0:1"}},
	} {
		var out bytes.Buffer
		c.command.SetOut(&out)
		c.command.SetErr(&out)
		c.command.SilenceUsage, c.command.SilenceErrors = true, true
		file := filepath.Join(t.TempDir(), "out.jsonl")
		if c.command.Flags().Lookup("json") != nil {
			c.args = append(c.args, "--json", file)
		}
		c.command.SetArgs(append(c.args, "--set", "replicas=3", "--set", "minInSyncReplicas=4"))
		err := c.command.Execute()
		if err == nil || errors.Is(err, errFailed) || !strings.Contains(err.Error(), "no write could ever be admitted") || out.Len() > 0 {
			t.Errorf("%s %v: %v, printed %q", c.command.Name(), c.args, err, out.String())
		}
		if _, err := os.Stat(file); err == nil {
			t.Errorf("%s wrote %s", c.command.Name(), file)
		}
	}
}

// TestNumbersAndFilesAreCheckedFirst: before any run.
func TestNumbersAndFilesAreCheckedFirst(t *testing.T) {
	pure := scenarios.Drills()[slices.IndexFunc(scenarios.Drills(), func(d *scenarios.Drill) bool { return d.Pure != nil })].ID
	for _, c := range []struct {
		command *cobra.Command
		args    string
		want    string
	}{
		{runCommand(), "S0 --jobs -4", "--jobs -4: write 1 or more"},
		{liveCommand(), "S0 --jobs 0", "--jobs 0: write 1 or more"},
		{mutantsCommand(), "--jobs 0", "--jobs 0: write 1 or more"},
		{mutantsCommand(), "--seeds -1", "--seeds -1: write 0 or more"},
		{sweepCommand(), "--seeds 1..2 --drill S0 --jobs -4", "--jobs -4: write 1 or more"},
		{sweepCommand(), "--seeds 1..2 --drill S0 --twice -1", "--twice -1: write 0 or more"},
		{sweepCommand(), "--seeds 1..2 --drill S0 --for -1s", "--for -1s: write a time above 0"},
		{replayCommand(), "S0:1 --save /nonexist/x", "--save: open /nonexist/x"},
		{replayCommand(), pure + ":1 --save /nonexist/x", "has no world, and so no plan"},
	} {
		var out bytes.Buffer
		c.command.SetOut(&out)
		c.command.SetErr(&out)
		c.command.SilenceUsage, c.command.SilenceErrors = true, true
		c.command.SetArgs(strings.Fields(c.args))
		if err := c.command.Execute(); err == nil || !strings.Contains(err.Error(), c.want) || out.Len() > 0 {
			t.Errorf("%s %s: %v, printed %q", c.command.Name(), c.args, err, out.String())
		}
	}
}

// TestReplayOfSavedPlan: a plan file brings the same run back.
func TestReplayOfSavedPlan(t *testing.T) {
	plan := filepath.Join(t.TempDir(), "run.plan")
	var first, second bytes.Buffer
	if err := os.WriteFile(plan, bytes.Repeat([]byte("of another run\n"), 1000), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := replay(command(&first), "S0:5", replayOptions{save: plan}); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(plan); err != nil || !strings.Contains(string(text), "drill S0") {
		t.Fatalf("plan %q, %v", text, err)
	}
	bare := filepath.Join(t.TempDir(), "bare.plan")
	if err := os.WriteFile(bare, []byte("lockstep plan 1\nnoise seed 1\nend\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := replay(command(&second), bare, replayOptions{}); err == nil || !strings.Contains(err.Error(), "names no drill") {
		t.Errorf("a plan of no drill: %v", err)
	}
	if err := replay(command(&second), plan, replayOptions{}); err != nil {
		t.Fatal(err)
	}
	if a, b := lastLine(first.String()), lastLine(second.String()); a != b || !strings.Contains(a, "pass") {
		t.Errorf("the plan gives another run:\n%s\n%s", a, b)
	}
}

// TestFailureExits: a failing run fails the command and prints how to bring it back.
func TestFailureExits(t *testing.T) {
	var out, errs bytes.Buffer
	tab := newTable(&out, &errs)
	tab.add(&scenarios.Report{Drill: "A3", Seed: 7, Verdict: scenarios.Vacuous, Reason: "too quiet", Set: []scenarios.Option{{Name: "groups", Value: "1"}}}, nil)
	if err := tab.finish(); !errors.Is(err, errFailed) {
		t.Errorf("a vacuous run ends with %v", err)
	}
	if !strings.Contains(errs.String(), "go run ./cmd/drill run A3 --seed 7 --set groups=1") {
		t.Errorf("no command to repeat it: %s", errs.String())
	}
	if err := newTable(&out, &errs).finish(); !errors.Is(err, errFailed) {
		t.Errorf("no run at all ends with %v", err)
	}
}

func command(out *bytes.Buffer) *cobra.Command {
	c := &cobra.Command{}
	c.SetOut(out)
	c.SetErr(out)
	return c
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}
