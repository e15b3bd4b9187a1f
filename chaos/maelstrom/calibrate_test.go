package maelstrom

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/chaos/maelstrom/check"
	"lockstep/chaos/maelstrom/toy"
)

// toyFault tells a copy of the test binary to be a node, wrong in that way.
const toyFault = "LOCKSTEP_MAELSTROM_TOY"

// TestMain makes the test binary the node of its own tests.
func TestMain(m *testing.M) {
	if fault, ok := os.LookupEnv(toyFault); ok {
		if err := toy.Run(os.Stdin, os.Stdout, fault); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		return
	}
	// A run waits more than it computes: let many run beside each other.
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", "10"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	os.Exit(m.Run())
}

// short are options of a run of about a second with the toy node.
func short(t *testing.T, workload, fault string) *Options {
	t.Helper()
	bin, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o := Defaults()
	o.Workload, o.Bin, o.Env = workload, bin, []string{toyFault + "=" + fault}
	// Runs are measured in operations, so that a slow machine only takes longer.
	o.Rate, o.MaxOps, o.TimeLimit, o.Concurrency = 300, 300, time.Minute, "5"
	o.Quiet, o.FinalLimit = 50*time.Millisecond, 20*time.Second
	o.NemesisInterval = 300 * time.Millisecond
	o.Data = filepath.Join(t.TempDir(), "data")
	switch workload {
	case "lin-kv":
		o.Concurrency = "2n"
	case "broadcast":
		o.Quiet = time.Second // for what is gossiped to arrive
	}
	return &o
}

func run(t *testing.T, o *Options) (*Report, error) {
	t.Helper()
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	return Run(context.Background(), o)
}

// logs is what all nodes wrote to stderr.
func logs(t *testing.T, o *Options) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(o.Data, "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// hidden is for faults that hide something: the final polls never come to an end.
func hidden(o *Options) { o.FinalLimit = time.Second }

// few makes a longer run with few keys, which are assigned and polled often.
func few(set func(o *Options)) func(o *Options) {
	return func(o *Options) {
		o.KeyCount, o.MaxWritesPerKey, o.MaxOps = 3, 1000, 600
		set(o)
	}
}

func told(r *Report) string {
	var b strings.Builder
	r.WriteTable(&b)
	return b.String()
}

// TestCalibration: each planted fault is reported by its name, and by no other
// than those that follow from it.
func TestCalibration(t *testing.T) {
	t.Parallel()
	cases := []struct {
		workload, fault string
		also            string // names that the fault implies
		set             func(o *Options)
	}{
		{"kafka", "inconsistent-offsets", "", func(o *Options) { o.NodeCount, o.FinalLimit = 2, 3*time.Second }},
		{"kafka", "duplicate", "", nil},
		{"kafka", "lost-write", "unseen start-skip", func(o *Options) { o.FinalLimit = 3 * time.Second }},
		{"kafka", "unseen", "", hidden},
		{"kafka", "G1a", "", nil},
		{"kafka", "int-poll-skip", "", nil},
		{"kafka", "int-nonmonotonic-poll", "", nil},
		{"kafka", "poll-skip", "", nil},
		{"kafka", "nonmonotonic-poll", "", nil},
		{"kafka", "nonmonotonic-send", "", nil},
		{"kafka", "G1c-process", "", few(func(o *Options) { o.Concurrency = "1" })},
		{"kafka", "G1c-realtime", "", few(func(o *Options) { o.Concurrency, o.Rate = "10", 200 })},
		{"kafka", "start-skip", "", nil},
		{"kafka", "start-before", "", few(func(o *Options) { o.Rate = 600 })},
		{"kafka", "unknown-message", "", nil},
		{"kafka", "committed-above", "", nil},
		{"kafka", "committed-unknown", "", nil},
		{"kafka", "lost-commit", "", nil},
		{"kafka", "no-success", "", hidden},
		{"lin-kv", "nonlinearizable", "", nil},
		{"broadcast", "lost", "", nil},
		{"broadcast", "duplicated", "", nil},
		{"broadcast", "unexpected", "", nil},
		{"unique-ids", "duplicate-id", "", nil},
		{"echo", "echo-mismatch", "", nil},
		{"echo", "no-success", "", nil},
		{"echo", "unavailable", "", func(o *Options) { o.Availability = "total" }},
		{"echo", "extra-key", "no-success", nil},
	}
	for _, c := range cases {
		t.Run(c.workload+"/"+c.fault, func(t *testing.T) {
			t.Parallel()
			want := append(strings.Fields(c.also), c.fault)
			if c.fault == "extra-key" {
				want = []string{check.NoSuccess}
			}
			const tries = 8 // a fault may find its moment only with another seed
			for seed := uint64(1); ; seed++ {
				o := short(t, c.workload, c.fault)
				o.Seed = seed
				if c.set != nil {
					c.set(o)
				}
				rep, err := run(t, o)
				if err != nil {
					t.Fatal(err)
				}
				text := logs(t, o)
				if c.fault == check.G1cRealtime && seed < tries && (strings.Contains(text, toy.OwnSend) || !strings.Contains(text, toy.LaterSend)) {
					continue // the node says that it could not plant what was asked
				}
				got := rep.Names()
				slices.Sort(want)
				if !slices.Equal(got, want) || rep.Verdict != check.Invalid {
					t.Errorf("seed %d: reported %v, want %v\n%s", seed, got, want, told(rep))
				}
				return
			}
		})
	}
}

// TestCorrectNodeIsValid: a right node passes every workload, with every fault of
// the network and of processes.
func TestCorrectNodeIsValid(t *testing.T) {
	t.Parallel()
	for _, workload := range Workloads {
		for _, nemesis := range [][]string{nil, {"partition", "duplicate"}, {"kill", "pause"}} {
			t.Run(workload+"/"+strings.Join(nemesis, "+"), func(t *testing.T) {
				t.Parallel()
				o := short(t, workload, "")
				o.NodeCount, o.Nemesis = 3, nemesis
				o.Latency, o.LatencyDist = 2, "exponential"
				if nemesis != nil {
					// Requests that nobody answers occupy a thread for seconds.
					o.MaxOps, o.Concurrency, o.RequestTimeout = 600, "12", 700*time.Millisecond
				}
				rep, err := run(t, o)
				if err != nil {
					t.Fatal(err)
				}
				if rep.Verdict != check.Valid || len(rep.Exceptions) > 0 {
					t.Errorf("not valid:\n%s", told(rep))
				}
				if nemesis != nil && len(rep.Acts) == 0 {
					t.Error("the nemesis did nothing")
				}
			})
		}
	}
}

// TestForgetfulNode: only the kill fault shows that a node keeps nothing.
func TestForgetfulNode(t *testing.T) {
	t.Parallel()
	const tries = 4 // the kill may come before there is anything to forget
	for seed := uint64(1); ; seed++ {
		o := short(t, "kafka", "forgetful")
		o.Nemesis, o.NemesisInterval, o.MaxOps, o.Concurrency, o.Seed = []string{"kill"}, 600*time.Millisecond, 500, "20", seed
		o.RequestTimeout, o.FinalLimit = 700*time.Millisecond, time.Second
		rep, err := run(t, o)
		if err != nil {
			t.Fatal(err)
		}
		names := rep.Names()
		if rep.Verdict == check.Invalid && (slices.Contains(names, check.InconsistentOffsets) || slices.Contains(names, check.Unseen)) {
			return
		}
		if seed == tries {
			t.Fatalf("a node that forgets is %s: %v\n%s", rep.Verdict, names, told(rep))
		}
	}
}

// TestStaleIsAllowed: a late broadcast read is told and is no failure.
func TestStaleIsAllowed(t *testing.T) {
	t.Parallel()
	rep, err := run(t, short(t, "broadcast", "stale"))
	if err != nil {
		t.Fatal(err)
	}
	if rep.Verdict != check.Valid || !strings.Contains(told(rep), "stale ×") {
		t.Errorf("want valid with stale elements:\n%s", told(rep))
	}
}

// TestLoudFailures: what Maelstrom falls silent on ends the run with the reason.
func TestLoudFailures(t *testing.T) {
	t.Parallel()
	for fault, want := range map[string]string{
		"bad-line":     `n0 wrote a line that is no message (stdout must hold nothing else): invalid character 's' looking for beginning of value: "starting up"`,
		"unknown-name": `no node, service or client is named "n99"`,
		"exit":         "n0 crashed with exit status 3; its log ",
		"typing-error": "n0 crashed with exit status 2; its log ",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			o := short(t, "echo", fault)
			rep, err := run(t, o)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("error is %v, want %q", err, want)
			}
			if rep.Verdict != Crashed || rep.ExitCode() != 255 || !strings.Contains(rep.Error, want) {
				t.Errorf("verdict %s, exit %d, error %q", rep.Verdict, rep.ExitCode(), rep.Error)
			}
		})
	}
}

// TestLoudPrograms: programs that are no nodes at all end the run, each with a
// reason that names what it did.
func TestLoudPrograms(t *testing.T) {
	t.Parallel()
	const init = `read l; echo '{"src":"n0","dest":"c0","body":{"type":"init_ok","in_reply_to":1}}'; `
	for name, c := range map[string]struct{ script, want string }{
		"garbage":              {`head -c 100000 /dev/zero; echo; cat >/dev/null`, "n0 wrote a line that is no message"},
		"a torn line":          {`printf '{"src":"n0","dest":'; exit 0`, "n0 crashed with exit status 0"},
		"an exit":              {`echo oops >&2; exit 3`, "oops"},
		"an error for init":    {`read l; echo '{"src":"n0","dest":"c0","body":{"type":"error","code":13,"text":"no disk","in_reply_to":1}}'; cat >/dev/null`, "error 13: no disk"},
		"another node's name":  {`read l; echo '{"src":"n5","dest":"c0","body":{"type":"init_ok","in_reply_to":1}}'; cat >/dev/null`, `named "n5"`},
		"a body that is none":  {init + `echo '{"src":"n0","dest":"lin-kv","body":7}'; cat >/dev/null`, "body is not an object"},
		"a closed stdout":      {`exec 1>&-; cat >/dev/null`, "n0 closed its stdout and goes on"},
		"a stdout closed late": {init + `exec 1>&-; cat >/dev/null`, "n0 closed its stdout and goes on"},
		"death after init":     {init + `exit 0`, "n0 crashed with exit status 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := short(t, "echo", "")
			o.Bin = filepath.Join(t.TempDir(), "node.sh")
			if err := os.WriteFile(o.Bin, []byte("#!/bin/sh\n"+c.script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			rep, err := run(t, o)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error is %v, want %q", err, c.want)
			}
			if rep.ExitCode() != 255 {
				t.Errorf("exit %d", rep.ExitCode())
			}
		})
	}
}

// TestCancel: a run that is stopped ends at once and says so.
func TestCancel(t *testing.T) {
	t.Parallel()
	o := short(t, "echo", "")
	o.TimeLimit, o.MaxOps = time.Hour, 0
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	rep, err := Run(ctx, o)
	if err == nil || !strings.Contains(err.Error(), "stopped") || rep.Verdict != Crashed {
		t.Errorf("error %v, report %+v", err, rep)
	}
}
