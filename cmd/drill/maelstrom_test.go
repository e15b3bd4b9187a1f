package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// maelstrom runs the command in a process of its own, with the command itself as
// the node, and returns what it printed and its exit code.
func runMaelstrom(t *testing.T, bin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.Command(bin, append([]string{"maelstrom"}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// TestMaelstrom: exit codes, the report for people and for programs, the diagram.
func TestMaelstrom(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the command")
	}
	dir := t.TempDir()
	bin := filepath.Join(dir, "drill")
	if text, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	cases := []struct {
		name           string
		args           []string
		code           int
		stdout, stderr string
	}{
		{"valid", []string{"-w", "lin-kv", "--bin", bin, "--time-limit", "3", "--rate", "50", "--json", file("ok.jsonl"), "--", "maelstrom", "toy"}, 0, "lin-kv, seed 1: valid", "lin-kv: starting 1 nodes"},
		{"invalid", []string{"-w", "unique-ids", "--bin", bin, "--time-limit", "2", "--rate", "100", "--seed", "4", "--html", file("bad.html"), "--", "maelstrom", "toy", "--fault", "duplicate-id"}, 1,
			"duplicate-id ×", "repeat with: drill maelstrom -w unique-ids --bin " + bin + " --rate 100 --time-limit 2 --seed 4 -- maelstrom toy --fault duplicate-id"},
		{"unknown", []string{"-w", "echo", "--bin", bin, "--time-limit", "0.2", "--rate", "0", "--", "maelstrom", "toy"}, 2, "nothing was shown", "repeat with"},
		{"several tests", []string{"-w", "echo", "--bin", bin, "--time-limit", "1", "--rate", "50", "--test-count", "2", "--data", file("two"), "--", "maelstrom", "toy"}, 0, "echo, seed 2: valid", ""},
		{"crash", []string{"-w", "echo", "--bin", bin, "--time-limit", "1", "--", "maelstrom", "toy", "--fault", "bad-line"}, 255, "echo, seed 1: crash", "n0 wrote a line that is no message"},
		{"no node at all", []string{"-w", "echo", "--bin", "false", "--time-limit", "1"}, 255, "crash", "n0 crashed with exit status 1"},
		{"logs", []string{"-w", "echo", "--bin", bin, "--time-limit", "1", "--rate", "30", "--log-net-send", "--log-net-recv", "--log-stderr", "--", "maelstrom", "toy"}, 0, "valid", `recv {"id":1,"src":"n0","dest":"c0","body":{"in_reply_to":1,"type":"init_ok"}}`},
		{"no workload", []string{"--bin", bin}, 254, "", "-w is missing"},
		{"unknown flag", []string{"--loss", "5"}, 254, "", "unknown flag: --loss"},
		{"bad value", []string{"-w", "echo", "--bin", bin, "--rate", "fast"}, 254, "", `invalid argument "fast" for "--rate"`},
		{"stray argument", []string{"-w", "echo", "--bin", bin, "node"}, 254, "", `"node" is no option; arguments of the node come after --`},
		{"concurrency", []string{"-w", "lin-kv", "--bin", bin, "--concurrency", "1n"}, 254, "", "needs a multiple of 2"},
		{"time limit", []string{"-w", "echo", "--bin", bin, "--time-limit", "1e300"}, 254, "", "--time-limit 1e+09 is out of range"},
		{"used folder", []string{"-w", "echo", "--bin", bin, "--data", dir}, 254, "", "is not empty"},
		{"no such folder for the diagram", []string{"-w", "echo", "--bin", bin, "--html", file("no/such/x.html")}, 254, "", "--html"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			stdout, stderr, code := runMaelstrom(t, bin, c.args...)
			if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) {
				t.Errorf("exit %d, want %d\n%s\n%s\nwant %q and %q", code, c.code, stdout, stderr, c.stdout, c.stderr)
			}
			switch c.name {
			case "valid":
				var rep struct{ Verdict, Workload, Repeat string }
				text, err := os.ReadFile(file("ok.jsonl"))
				if err == nil {
					err = json.Unmarshal(text, &rep)
				}
				if err != nil || rep.Verdict != "valid" || rep.Workload != "lin-kv" || rep.Repeat == "" {
					t.Errorf("report %+v, %v", rep, err)
				}
			case "invalid":
				text, err := os.ReadFile(file("bad.html"))
				if err != nil || !strings.Contains(string(text), "<svg") || !strings.Contains(string(text), "first anomaly") {
					t.Errorf("diagram: %v", err)
				}
			}
		})
	}
}
