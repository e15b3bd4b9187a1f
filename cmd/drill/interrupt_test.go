package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"lockstep/scenarios"
)

// asDrill makes the test binary the drill program.
const asDrill = "LOCKSTEP_TEST_AS_DRILL"

func TestMain(m *testing.M) {
	if os.Getenv(asDrill) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestInterruptedSweepPrintsItsTable: Ctrl-C goes to every process of a terminal; the
// runs that had ended are in the table, and none counts as broken.
func TestInterruptedSweepPrintsItsTable(t *testing.T) {
	for _, args := range [][]string{
		{"sweep", "--seeds", "1..1000000", "--drill", "S0"},
		{"run", "--all", "--jobs", "2"},
	} {
		var out bytes.Buffer
		c := exec.Command(os.Args[0], append(args, "--json", "/dev/stderr")...)
		c.Env = append(os.Environ(), asDrill+"=1")
		c.Stdout = &out
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		stderr, err := c.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		lines := bufio.NewScanner(stderr)
		lines.Buffer(nil, 1<<22)
		for n := 1; lines.Scan(); n++ {
			if !strings.HasPrefix(lines.Text(), "{") {
				said.WriteString(lines.Text() + "\n")
			}
			if n == 3 {
				if err := syscall.Kill(-c.Process.Pid, syscall.SIGINT); err != nil {
					t.Fatal(err)
				}
			}
		}
		var exit *exec.ExitError
		if err := c.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
			t.Errorf("%v: %v", args, err)
		}
		if !strings.HasPrefix(out.String(), "drill ") || !strings.Contains(out.String(), ", 0 failed") || strings.Contains(out.String(), "\n0 runs") {
			t.Errorf("%v: table %q", args, out.String())
		}
		if !strings.Contains(said.String(), "interrupted: the table is of the ") || strings.Contains(said.String(), "BROKEN") {
			t.Errorf("%v: it said %q", args, said.String())
		}
	}
}

// TestInterruptedLiveBeginsNoMore: the drill under way ends, the next does not begin.
func TestInterruptedLiveBeginsNoMore(t *testing.T) {
	var out bytes.Buffer
	ctx, cancel := context.WithCancel(context.Background())
	l := &liveRuns{table: newTable(&out, &out), out: &output{}, mapped: map[string]bool{}}
	err := l.run(ctx, scenarios.Drills(), 1, func(d *scenarios.Drill) (*scenarios.Report, error) {
		cancel()
		return &scenarios.Report{Drill: d.ID, Verdict: scenarios.Pass}, nil
	})
	if err != nil || l.runs() == 0 || l.runs() > 2 {
		t.Errorf("%d runs of %d, %v", l.runs(), len(scenarios.Drills()), err)
	}
}
