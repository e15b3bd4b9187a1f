package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"lockstep/chaos/maelstrom"
	"lockstep/chaos/maelstrom/check"
	"lockstep/chaos/maelstrom/toy"
)

// Exit codes of Maelstrom beside those of its reports.
const (
	exitBadArguments = 254
	exitCrash        = 255
)

// exitError ends the command with a code of its own. An empty text says that
// everything has been printed.
type exitError struct {
	code int
	text string
}

// Error implements error.
func (e *exitError) Error() string { return e.text }

func badArguments(format string, args ...any) error {
	return &exitError{exitBadArguments, fmt.Sprintf("maelstrom: "+format+" (drill maelstrom --help)", args...)}
}

// maelstromFlags are options in the units of the command line.
type maelstromFlags struct {
	maelstrom.Options
	seconds, interval float64
	nemesis           string
	out               output
}

func maelstromCommand() *cobra.Command {
	f := &maelstromFlags{Options: maelstrom.Defaults()}
	c := &cobra.Command{
		Use:   "maelstrom -w WORKLOAD --bin PROGRAM [flags] [-- ARG…]",
		Short: "Test any node that speaks Maelstrom's protocol, with Maelstrom's rules and more faults",
		Long: `maelstrom starts nodes that speak Maelstrom's JSON lines on stdin and stdout, joins them by
a simulated network, sends the requests of a workload, breaks things and judges what the
clients saw. Options, delivery, strictness, timing, names of anomalies and exit codes are
Maelstrom's. Beyond it: kill -9 with restart, SIGSTOP, duplicated messages, checks of
committed offsets, a seed that repeats the schedule, and a space-time diagram.

Everything after -- goes to each node. A node runs in a folder of its own below --data and
is started again there after a kill, with a new init; its stderr is beside it.

Exit codes: 0 valid, 1 invalid, 2 unknown, 254 bad arguments, 255 a node crashed,
closed its stdout, wrote a line that is no message, or did not initialise.`,
		Example: `  drill maelstrom -w echo --bin ./node --time-limit 5
  drill maelstrom -w kafka --bin ./node --node-count 5 --rate 200 --latency 50 --latency-dist exponential --nemesis partition,kill
  drill maelstrom -w lin-kv --bin ./node --node-count 3 --concurrency 4n --nemesis partition --html run.html -- --verbose`,
		SilenceUsage: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if dash := cmd.ArgsLenAtDash(); len(args) > 0 && dash != 0 {
				return badArguments("%q is no option; arguments of the node come after --", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			defer func() {
				if p := recover(); p != nil {
					err = &exitError{exitCrash, fmt.Sprintf("maelstrom: %v\n%s", p, debug.Stack())}
				}
			}()
			f.Args = args
			return f.run(cmd)
		},
	}
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return badArguments("%v", err) })
	f.define(c)
	c.AddCommand(toyCommand())
	return c
}

func (f *maelstromFlags) define(c *cobra.Command) {
	fs := c.Flags()
	fs.StringVarP(&f.Workload, "workload", "w", "", "one of "+strings.Join(maelstrom.Workloads, ", "))
	fs.StringVar(&f.Bin, "bin", "", "the program of a node")
	fs.IntVar(&f.NodeCount, "node-count", f.NodeCount, "nodes, named n0, n1, …")
	fs.Float64Var(&f.Rate, "rate", f.Rate, "operations a second over all threads; 0: none but those of the final phase")
	fs.StringVar(&f.Concurrency, "concurrency", "", "threads: N, or Nn for N times the nodes (default 1n; lin-kv 2n, and multiples of it)")
	fs.Float64Var(&f.seconds, "time-limit", f.TimeLimit.Seconds(), "seconds of the main phase")
	fs.Float64Var(&f.Latency, "latency", 0, "mean latency between nodes and services, milliseconds; clients have none")
	fs.StringVar(&f.LatencyDist, "latency-dist", f.LatencyDist, "one of "+strings.Join(maelstrom.Dists, ", "))
	fs.StringVar(&f.nemesis, "nemesis", "", "any of "+strings.Join(maelstrom.Faults, ",")+"; only partition is Maelstrom's own")
	fs.Float64Var(&f.interval, "nemesis-interval", f.NemesisInterval.Seconds(), "mean seconds between starts and stops of a fault")
	fs.Uint64Var(&f.Seed, "seed", f.Seed, "repeats operations, latencies and acts of the nemesis")
	fs.StringVar(&f.Topology, "topology", f.Topology, "neighbours that broadcast nodes are told: "+strings.Join(maelstrom.Topologies, ", "))
	fs.IntVar(&f.KeyCount, "key-count", f.KeyCount, "kafka: active keys, each twice as likely as its neighbour")
	fs.IntVar(&f.MaxWritesPerKey, "max-writes-per-key", f.MaxWritesPerKey, "kafka: sends to a key before a fresh one replaces it")
	fs.StringVar(&f.Availability, "availability", "", "invalid below this share of operations that succeeded, or total")
	fs.BoolVar(&f.LogStderr, "log-stderr", false, "print what nodes write to stderr")
	fs.BoolVar(&f.LogNetSend, "log-net-send", false, "print every message when it is sent")
	fs.BoolVar(&f.LogNetRecv, "log-net-recv", false, "print every message when it is received")
	fs.IntVar(&f.TestCount, "test-count", f.TestCount, "tests, each with the next seed, until one is not valid")
	fs.StringVar(&f.Data, "data", "", "empty or new folder for the nodes' folders and logs (default: a temporary one, kept when the run is not valid)")
	fs.StringVar(&f.HTML, "html", "", "write the space-time diagram to this file")
	fs.StringVar(&f.out.file, "json", "", "write one report a line to this file")
}

func (f *maelstromFlags) run(cmd *cobra.Command) error {
	f.TimeLimit, f.NemesisInterval = seconds(f.seconds), seconds(f.interval)
	f.Nemesis = nil
	if f.nemesis != "" {
		f.Nemesis = strings.Split(f.nemesis, ",")
	}
	f.Log = cmd.ErrOrStderr()
	if err := f.Validate(); err != nil {
		return badArguments("%v", err)
	}
	if err := f.out.open(); err != nil {
		return badArguments("%v", err)
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	for i := range f.TestCount {
		o := f.Options
		o.Seed += uint64(i)
		if o.Data != "" && f.TestCount > 1 {
			o.Data = filepath.Join(o.Data, strconv.Itoa(i))
		}
		rep, err := maelstrom.Run(ctx, &o)
		if rep == nil {
			return badArguments("%v", err)
		}
		if writeErr := f.show(cmd, rep); writeErr != nil {
			err = errors.Join(err, writeErr)
		}
		if err != nil {
			return &exitError{exitCrash, fmt.Sprintf("maelstrom: %v", err)}
		}
		if rep.Verdict != check.Valid {
			return errors.Join(f.out.close(), &exitError{code: rep.ExitCode()})
		}
	}
	if err := f.out.close(); err != nil {
		return &exitError{exitCrash, fmt.Sprintf("maelstrom: --json: %v", err)}
	}
	return nil
}

// seconds turns a flag into a duration; what does not fit is out of range anyway.
func seconds(s float64) time.Duration {
	const most = 1e9
	if !(s < most) {
		s = most
	}
	return time.Duration(max(s, -1) * float64(time.Second))
}

// show prints one report, and how to have the run again when it is not valid.
func (f *maelstromFlags) show(cmd *cobra.Command, rep *maelstrom.Report) error {
	rep.WriteTable(cmd.OutOrStdout())
	if rep.Verdict != check.Valid {
		for _, name := range rep.Names() {
			fmt.Fprintln(cmd.ErrOrStderr(), "maelstrom:", name)
		}
		fmt.Fprintln(cmd.ErrOrStderr(), "repeat with:", rep.Repeat)
	}
	if f.out.w == nil {
		return nil
	}
	if err := rep.WriteJSON(f.out.w); err != nil {
		return fmt.Errorf("--json: %w", err)
	}
	return nil
}

// toyCommand is the node that the stand-in is calibrated with.
func toyCommand() *cobra.Command {
	var fault string
	c := &cobra.Command{
		Use:   "toy",
		Short: "A small node for every workload, right or wrong in one named way; the program is this one",
		Example: `  drill maelstrom -w kafka --bin drill --node-count 3 --time-limit 5 -- maelstrom toy
  drill maelstrom -w kafka --bin drill --time-limit 5 --rate 200 -- maelstrom toy --fault poll-skip`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return toy.Run(os.Stdin, os.Stdout, fault) },
	}
	c.Flags().StringVar(&fault, "fault", "", "one of "+strings.Join(toy.Faults, ", "))
	return c
}
