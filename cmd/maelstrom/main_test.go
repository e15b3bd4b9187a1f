package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// run runs the command on lines of input.
func run(t *testing.T, in string, args ...string) (out, report string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	c := newCommand(strings.NewReader(in), &stdout, &stderr)
	c.SetArgs(args)
	c.SetOut(&stdout)
	c.SetErr(io.Discard)
	err = c.Execute()
	return stdout.String(), stderr.String(), err
}

// TestServes: messages on standard output and nothing else, the timers first on
// standard error, and the end of the input is the end.
func TestServes(t *testing.T) {
	out, report, err := run(t, `{"id":0,"src":"c0","dest":"n0","body":{"type":"init","msg_id":1,"node_id":"n0","node_ids":["n0"]}}
no JSON
{"id":1,"src":"c1","dest":"n0","body":{"type":"echo","msg_id":1,"echo":"hi"}}
`, "--data", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"src":"n0","dest":"c0","body":{"in_reply_to":1,"type":"init_ok"}}
{"src":"n0","dest":"c1","body":{"in_reply_to":1,"type":"echo_ok","echo":"hi"}}
`
	if out != want {
		t.Errorf("got\n%swant\n%s", out, want)
	}
	if !strings.HasPrefix(report, "timers: ") || !strings.Contains(report, "skipped a line") {
		t.Errorf("report %q", report)
	}
}

// TestNoFolder: a node whose folder cannot be made says so and answers init with
// an error.
func TestNoFolder(t *testing.T) {
	out, report, err := run(t, `{"src":"c0","dest":"n0","body":{"type":"init","msg_id":1,"node_id":"n0","node_ids":["n0"]}}
{"src":"c1","dest":"n0","body":{"type":"echo","msg_id":1,"echo":"hi"}}
`, "--data", "/dev/null/x")
	if err != nil || !strings.Contains(out, `"code":13`) || strings.Count(out, "\n") != 1 || !strings.Contains(report, "data folder") {
		t.Errorf("%q, %q, %v", out, report, err)
	}
}

// TestFlags: help teaches, and wrong flags are named.
func TestFlags(t *testing.T) {
	out, _, err := run(t, "", "--help")
	if err != nil || !strings.Contains(out, "./maelstrom test -w kafka") || !strings.Contains(out, "--data") {
		t.Errorf("%v\n%s", err, out)
	}
	for _, args := range [][]string{{"--scale", "0"}, {"--scale", "x"}, {"--log-level", "loud"}, {"--answer", "0s"}, {"extra"}, {"--fly"}} {
		if out, _, err := run(t, "", args...); err == nil || out != "" {
			t.Errorf("%v: %v, %q", args, err, out)
		}
	}
}
