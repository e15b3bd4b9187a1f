package maelstrom

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestBadArguments: each wrong option is named, with what it may be.
func TestBadArguments(t *testing.T) {
	cases := []struct {
		set  func(o *Options)
		want string
	}{
		{func(o *Options) { o.Workload = "" }, "-w is missing: one of kafka"},
		{func(o *Options) { o.Workload = "txn" }, `-w "txn" is not known: one of kafka, lin-kv`},
		{func(o *Options) { o.Bin = "" }, "--bin is missing"},
		{func(o *Options) { o.Bin = "/does/not/exist" }, "--bin /does/not/exist cannot be run"},
		{func(o *Options) { o.Bin = t.TempDir() }, "cannot be run"},
		{func(o *Options) { o.NodeCount = 0 }, "--node-count 0 is out of range: 1 to 99"},
		{func(o *Options) { o.Rate = -1 }, "--rate -1 is out of range"},
		{func(o *Options) { o.TimeLimit = 0 }, "--time-limit 0 is out of range"},
		{func(o *Options) { o.Latency = -3 }, "--latency -3 is out of range"},
		{func(o *Options) { o.LatencyDist = "normal" }, `--latency-dist "normal" is not known: one of constant, uniform, exponential`},
		{func(o *Options) { o.Nemesis = []string{"clock"} }, `--nemesis "clock" is not known: any of partition,kill,pause,duplicate`},
		{func(o *Options) { o.Nemesis = []string{"kill", "kill"} }, `--nemesis names "kill" twice`},
		{func(o *Options) { o.NemesisInterval = 0 }, "--nemesis-interval 0 is out of range"},
		{func(o *Options) { o.Topology = "ring" }, `--topology "ring" is not known: one of grid`},
		{func(o *Options) { o.KeyCount = 0 }, "--key-count 0 is out of range"},
		{func(o *Options) { o.MaxWritesPerKey = 0 }, "--max-writes-per-key 0 is out of range"},
		{func(o *Options) { o.TestCount = 0 }, "--test-count 0 is out of range"},
		{func(o *Options) { o.Availability = "most" }, `--availability "most" is neither total nor a share`},
		{func(o *Options) { o.Availability = "1.5" }, `--availability "1.5" is neither`},
		{func(o *Options) { o.Concurrency = "x" }, `--concurrency "x" is not a number of threads`},
		{func(o *Options) { o.Concurrency = "0" }, `--concurrency "0" is not`},
		{func(o *Options) { o.Concurrency = "999n"; o.NodeCount = 9 }, "at most 1000 in all"},
		{func(o *Options) { o.Workload, o.NodeCount, o.Concurrency = "lin-kv", 3, "3n" }, "needs a multiple of 6 (2n, 4n, …)"},
	}
	for _, c := range cases {
		o := Defaults()
		o.Workload, o.Bin = "echo", os.Args[0]
		c.set(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

func TestThreadsAndTimeouts(t *testing.T) {
	cases := []struct {
		workload, concurrency string
		threads               int
		latency               float64
		timeout               time.Duration
	}{
		{"echo", "", 3, 0, 5 * time.Second},
		{"kafka", "4n", 12, 50, 5 * time.Second},
		{"kafka", "7", 7, 900, 5 * time.Second},
		{"lin-kv", "", 6, 50, time.Second},
		{"lin-kv", "4n", 12, 300, 3 * time.Second},
	}
	for _, c := range cases {
		o := Defaults()
		o.Workload, o.Bin, o.NodeCount, o.Concurrency, o.Latency = c.workload, os.Args[0], 3, c.concurrency, c.latency
		if err := o.Validate(); err != nil {
			t.Fatal(err)
		}
		if o.Threads() != c.threads || o.Timeout() != c.timeout {
			t.Errorf("%+v: %d threads, timeout %v", c, o.Threads(), o.Timeout())
		}
	}
}

// TestUsedFolder: state of another run is not taken for a fresh start.
func TestUsedFolder(t *testing.T) {
	o := short(t, "echo", "")
	if err := os.MkdirAll(filepath.Join(o.Data, "n0"), 0o755); err != nil {
		t.Fatal(err)
	}
	if rep, err := run(t, o); rep != nil || err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("error %v", err)
	}
}

func TestCommand(t *testing.T) {
	o := Defaults()
	o.Workload, o.Bin, o.Args = "kafka", "/bin/my node", []string{"--dir", "it's"}
	o.NodeCount, o.Rate, o.Nemesis, o.TimeLimit, o.Seed = 5, 200, []string{"partition", "kill"}, 20*time.Second, 9
	const want = `drill maelstrom -w kafka --bin '/bin/my node' --node-count 5 --rate 200 --time-limit 20 --nemesis partition,kill --seed 9 -- --dir 'it'\''s'`
	if got := o.Command(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
