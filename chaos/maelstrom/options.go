// Package maelstrom is a stand-in for Maelstrom: it starts nodes that speak its
// JSON protocol on stdin and stdout, joins them by a simulated network, sends the
// requests of a workload, breaks things and judges what the clients saw. It keeps
// to Maelstrom's rules of delivery, strictness, timing and exit codes, and adds
// kill -9, SIGSTOP, duplicated messages, checks of committed offsets, and a seed.
//
// What a seed repeats: which operation comes when and at which thread, each
// message's latency by its number on its link, every act of the nemesis with its
// targets, and what the services draw. What the processes make of their time is
// outside of it.
package maelstrom

import (
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits of what can be asked for.
const (
	MaxNodes       = 99
	MaxConcurrency = 1000
	MaxTestCount   = 10000
)

// Times of Maelstrom that options do not reach.
const (
	defaultQuiet      = 10 * time.Second       // between healing and the final phase
	defaultFinalLimit = 10 * time.Second       // of the final polls
	finalPollEvery    = 200 * time.Millisecond // between two final polls
	initTimeout       = 10 * time.Second
	defaultTimeout    = 5 * time.Second // of a request
	linKVTimeout      = time.Second     // of a lin-kv request, or ten mean latencies
)

// Options of a run, named as Maelstrom's. Validate fills in what is left out.
type Options struct {
	Workload          string   // kafka, lin-kv, broadcast, echo or unique-ids
	Bin               string   // the node's program
	Args              []string // its arguments
	NodeCount         int
	Rate              float64 // operations a second over all threads; 0 is none
	Concurrency       string  // threads: N, or Nn for N times the nodes
	TimeLimit         time.Duration
	Latency           float64 // mean, milliseconds
	LatencyDist       string  // constant, uniform or exponential
	Nemesis           []string
	NemesisInterval   time.Duration
	Seed              uint64
	Topology          string
	KeyCount          int
	MaxWritesPerKey   int
	Availability      string // "", total, or a share
	LogStderr         bool
	LogNetSend        bool
	LogNetRecv        bool
	TestCount         int
	Data              string // folder of the nodes' working folders and logs; empty: a temporary one
	HTML              string // file of the space-time diagram; empty: none
	Env               []string
	Log               io.Writer     // progress, and what the log options print
	Quiet             time.Duration // between healing and the final phase; below 0: none
	FinalLimit        time.Duration
	CheckLimit        time.Duration // of the search for an order, per key
	RequestTimeout    time.Duration // of a client; 0: Maelstrom's
	MaxOps            int           // the main phase ends after so many operations; 0: at the time limit
	threads           int
	availabilityLimit float64
}

// Names of what options can be.
var (
	Workloads  = []string{"kafka", "lin-kv", "broadcast", "echo", "unique-ids"}
	Dists      = []string{"constant", "uniform", "exponential"}
	Faults     = []string{"partition", "kill", "pause", "duplicate"}
	Topologies = []string{"grid", "line", "total", "tree2", "tree3", "tree4"}
)

// Validate checks the options, names the one that is wrong and says what it may
// be, and fills in defaults.
func (o *Options) Validate() error {
	for _, check := range []func() error{o.checkNames, o.checkNumbers, o.checkConcurrency, o.checkAvailability, o.checkBin, o.checkHTML} {
		if err := check(); err != nil {
			return err
		}
	}
	if o.Quiet == 0 {
		o.Quiet = defaultQuiet
	}
	if o.FinalLimit == 0 {
		o.FinalLimit = defaultFinalLimit
	}
	if o.CheckLimit == 0 {
		o.CheckLimit = time.Minute
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	return nil
}

func (o *Options) checkNames() error {
	if o.Workload == "" {
		return fmt.Errorf("-w is missing: one of %s", strings.Join(Workloads, ", "))
	}
	for _, c := range []struct {
		flag  string
		value string
		known []string
	}{{"-w", o.Workload, Workloads}, {"--latency-dist", o.LatencyDist, Dists}, {"--topology", o.Topology, Topologies}} {
		if !slices.Contains(c.known, c.value) {
			return fmt.Errorf("%s %q is not known: one of %s", c.flag, c.value, strings.Join(c.known, ", "))
		}
	}
	for i, f := range o.Nemesis {
		if !slices.Contains(Faults, f) {
			return fmt.Errorf("--nemesis %q is not known: any of %s, joined by commas", f, strings.Join(Faults, ","))
		}
		if slices.Contains(o.Nemesis[:i], f) {
			return fmt.Errorf("--nemesis names %q twice", f)
		}
	}
	return nil
}

func (o *Options) checkNumbers() error {
	const maxMillis = 3600 * 1000
	for _, c := range []struct {
		flag            string
		value, from, to float64
	}{
		{"--node-count", float64(o.NodeCount), 1, MaxNodes},
		{"--rate", o.Rate, 0, 1e6},
		{"--time-limit", o.TimeLimit.Seconds(), 0.001, 7 * 24 * 3600},
		{"--latency", o.Latency, 0, maxMillis},
		{"--nemesis-interval", o.NemesisInterval.Seconds(), 0.001, 24 * 3600},
		{"--key-count", float64(o.KeyCount), 1, 30},
		{"--max-writes-per-key", float64(o.MaxWritesPerKey), 1, 1e9},
		{"--test-count", float64(o.TestCount), 1, MaxTestCount},
	} {
		if math.IsNaN(c.value) || c.value < c.from || c.value > c.to {
			return fmt.Errorf("%s %v is out of range: %v to %v", c.flag, c.value, c.from, c.to)
		}
	}
	return nil
}

func (o *Options) checkConcurrency() error {
	text, per := o.Concurrency, 1
	if text == "" {
		text = "1n"
		if o.Workload == "lin-kv" {
			text = "2n"
		}
	}
	if n, ok := strings.CutSuffix(text, "n"); ok {
		text, per = n, o.NodeCount
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > MaxConcurrency || n*per > MaxConcurrency {
		return fmt.Errorf("--concurrency %q is not a number of threads: N, or Nn for N times the nodes, at most %d in all", o.Concurrency, MaxConcurrency)
	}
	o.threads = n * per
	if group := 2 * o.NodeCount; o.Workload == "lin-kv" && o.threads%group != 0 {
		return fmt.Errorf("--concurrency %s is %d threads: lin-kv works each key with 2 threads a node, so it needs a multiple of %d (2n, 4n, …)", o.Concurrency, o.threads, group)
	}
	return nil
}

func (o *Options) checkAvailability() error {
	switch o.Availability {
	case "":
		o.availabilityLimit = -1
		return nil
	case "total":
		o.availabilityLimit = 1
		return nil
	}
	share, err := strconv.ParseFloat(o.Availability, 64)
	if err != nil || math.IsNaN(share) || share < 0 || share > 1 {
		return fmt.Errorf("--availability %q is neither total nor a share from 0 to 1", o.Availability)
	}
	o.availabilityLimit = share
	return nil
}

// checkBin finds the program, since nodes run in folders of their own.
func (o *Options) checkBin() error {
	if o.Bin == "" {
		return fmt.Errorf("--bin is missing: the program of a node")
	}
	path, err := exec.LookPath(o.Bin)
	if err != nil {
		return fmt.Errorf("--bin %s cannot be run: %w", o.Bin, err)
	}
	if path, err = filepath.Abs(path); err != nil {
		return fmt.Errorf("--bin %s: %w", o.Bin, err)
	}
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return fmt.Errorf("--bin %s is not a program", o.Bin)
	}
	o.Bin = path
	return nil
}

// checkHTML finds out before the run that the diagram can be written.
func (o *Options) checkHTML() error {
	if o.HTML == "" {
		return nil
	}
	f, err := os.OpenFile(o.HTML, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	return f.Close()
}

// Threads is how many clients work at once. Validate sets it.
func (o *Options) Threads() int { return o.threads }

// has reports whether a fault was asked for.
func (o *Options) has(fault string) bool { return slices.Contains(o.Nemesis, fault) }

// Timeout of one request of a client.
func (o *Options) Timeout() time.Duration {
	switch {
	case o.RequestTimeout > 0:
		return o.RequestTimeout
	case o.Workload != "lin-kv":
		return defaultTimeout
	}
	return max(linKVTimeout, time.Duration(10*o.Latency*float64(time.Millisecond)))
}
