package maelstrom

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Defaults are Maelstrom's, and what it has none for.
func Defaults() Options {
	return Options{NodeCount: 1, Rate: 5, TimeLimit: 60 * time.Second, LatencyDist: "constant", NemesisInterval: 10 * time.Second,
		Seed: 1, Topology: "grid", KeyCount: 10, MaxWritesPerKey: 16, TestCount: 1}
}

// Command is the command line that repeats the run.
func (o *Options) Command() string {
	d := Defaults()
	words := []string{"drill maelstrom -w", o.Workload, "--bin", shellWord(o.Bin)}
	add := func(flag, value, usual string) {
		if value != usual {
			words = append(words, flag, shellWord(value))
		}
	}
	add("--node-count", strconv.Itoa(o.NodeCount), strconv.Itoa(d.NodeCount))
	add("--rate", number(o.Rate), number(d.Rate))
	add("--concurrency", o.Concurrency, "")
	add("--time-limit", number(o.TimeLimit.Seconds()), number(d.TimeLimit.Seconds()))
	add("--latency", number(o.Latency), number(d.Latency))
	add("--latency-dist", o.LatencyDist, d.LatencyDist)
	add("--nemesis", strings.Join(o.Nemesis, ","), "")
	add("--nemesis-interval", number(o.NemesisInterval.Seconds()), number(d.NemesisInterval.Seconds()))
	add("--topology", o.Topology, d.Topology)
	add("--key-count", strconv.Itoa(o.KeyCount), strconv.Itoa(d.KeyCount))
	add("--max-writes-per-key", strconv.Itoa(o.MaxWritesPerKey), strconv.Itoa(d.MaxWritesPerKey))
	add("--availability", o.Availability, "")
	words = append(words, fmt.Sprintf("--seed %d", o.Seed))
	if len(o.Args) > 0 {
		words = append(words, "--")
	}
	for _, a := range o.Args {
		words = append(words, shellWord(a))
	}
	return strings.Join(words, " ")
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// shellWord quotes a word for a POSIX shell when it needs it.
func shellWord(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./,:=@%+") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
