package main

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"lockstep/scenarios"
)

// sweepFlags say which runs a sweep makes.
type sweepFlags struct {
	seeds string
	lasts time.Duration
	drill []string
	jobs  int
	shard string
	twice int
	first bool
	set   []string
	marks bool
	out   output
}

func sweepCommand() *cobra.Command {
	var f sweepFlags
	c := &cobra.Command{
		Use:   "sweep --seeds A..B | --for DURATION",
		Short: "Run drills over many seeds",
		Long: `sweep runs every drill (or those named with --drill) over a range of seeds, or for a
time, in worker processes. A share of the runs is made twice and must give the same hash.
A failure prints the command that brings it back; the table and what was drawn come last,
also after Ctrl-C.`,
		Example: `  drill sweep --seeds 1..200 --drill A3
  drill sweep --for 5m
  drill sweep --seeds 1..10000 --shard 2/8 --json out.jsonl`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return sweep(cmd, &f) },
	}
	c.Flags().StringVar(&f.seeds, "seeds", "", "first and last seed, A..B")
	c.Flags().DurationVar(&f.lasts, "for", 0, "go on for this long instead, from the first seed of --seeds (default 1)")
	c.Flags().StringArrayVar(&f.drill, "drill", nil, "only this drill (may be repeated)")
	c.Flags().IntVar(&f.jobs, "jobs", runtime.NumCPU(), "worker processes")
	c.Flags().StringVar(&f.shard, "shard", "", "I/N: only the I-th of N parts, 1 ≤ I ≤ N")
	c.Flags().IntVar(&f.twice, "twice", 20, "one run in this many is made twice and compared; 0 none")
	c.Flags().BoolVar(&f.first, "first", false, "stop at the first breach")
	c.Flags().BoolVar(&f.marks, "require-marks", false, "fail when no run put a clause to the test, or reached a rare state that its drill names")
	c.Flags().StringArrayVar(&f.set, "set", nil, "override a drawn option, name=value")
	c.Flags().StringVar(&f.out.file, "json", "", "write one report a line to this file")
	if err := c.RegisterFlagCompletionFunc("drill", completeDrills); err != nil {
		panic(err) // the flag was defined above
	}
	return c
}

func sweep(cmd *cobra.Command, f *sweepFlags) error {
	if err := errors.Join(atLeast("jobs", f.jobs, 1), atLeast("twice", f.twice, 0), f.notBackwards()); err != nil {
		return err
	}
	next, total, err := f.jobsOf()
	if err != nil {
		return err
	}
	if err := f.out.open(); err != nil {
		return err
	}
	ctx, stop := untilSignal(cmd)
	defer stop()
	t := newTable(cmd.OutOrStdout(), cmd.ErrOrStderr())
	progress := newProgress(cmd.ErrOrStderr(), total, f.lasts)
	var found atomic.Bool
	p := &pool{workers: f.jobs, report: func(r *scenarios.Report) {
		t.add(r, f.out.write(r))
		progress.step(len(t.failed))
		if f.first && r.Breach() {
			found.Store(true)
		}
	}}
	err = p.run(ctx, func() (job, bool) {
		if found.Load() {
			return job{}, false
		}
		return next()
	})
	if err != nil {
		return err
	}
	if err := f.out.close(); err != nil {
		return fmt.Errorf("--json: %w", err)
	}
	err = t.finish()
	t.histogram()
	if ctx.Err() != nil {
		return cutShort(t.runs())
	}
	if holes := t.holes(); err == nil && f.marks && len(holes) > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "%d clauses or rare states were never reached\n", len(holes))
		return errFailed
	}
	return err
}

func (f *sweepFlags) notBackwards() error {
	if f.lasts < 0 {
		return fmt.Errorf("--for %v: write a time above 0", f.lasts)
	}
	return nil
}

// jobsOf enumerates seeds, all drills of a seed before the next seed.
func (f *sweepFlags) jobsOf() (next func() (job, bool), total int, err error) {
	drills := scenarios.Drills()
	if len(f.drill) > 0 {
		if drills, err = chosen(f.drill, false); err != nil {
			return nil, 0, err
		}
	}
	settings, err := parseSettings(f.set)
	if err != nil {
		return nil, 0, err
	}
	from, to, err := f.rangeOf()
	if err != nil {
		return nil, 0, err
	}
	if err := checkSettings(drills, from, to, settings); err != nil {
		return nil, 0, err
	}
	part, parts, err := parseShard(f.shard)
	if err != nil {
		return nil, 0, err
	}
	end := time.Now().Add(f.lasts)
	seed, i, n := from, 0, uint64(0)
	next = func() (job, bool) {
		for {
			if i == len(drills) {
				seed, i = seed+1, 0
			}
			if seed > to || f.lasts > 0 && time.Now().After(end) {
				return job{}, false
			}
			d := drills[i]
			i++
			n++
			if n%parts != part {
				continue
			}
			return job{drill: d, seed: seed, twice: f.twice > 0 && n%uint64(f.twice) == 0, settings: settings}, true
		}
	}
	if f.lasts == 0 {
		total = int((to - from + 1) * uint64(len(drills)) / parts)
	}
	return next, total, nil
}

func (f *sweepFlags) rangeOf() (from, to uint64, err error) {
	if f.seeds == "" {
		if f.lasts <= 0 {
			return 0, 0, fmt.Errorf("say --seeds A..B or --for DURATION")
		}
		return 1, 1 << 62, nil
	}
	a, b, ok := strings.Cut(f.seeds, "..")
	if !ok {
		b = a
	}
	if from, err = strconv.ParseUint(a, 10, 64); err == nil {
		to, err = strconv.ParseUint(b, 10, 64)
	}
	if err != nil || to < from {
		return 0, 0, fmt.Errorf("--seeds %q: write A..B with A ≤ B", f.seeds)
	}
	return from, to, nil
}

func parseShard(s string) (part, parts uint64, err error) {
	if s == "" {
		return 0, 1, nil
	}
	a, b, _ := strings.Cut(s, "/")
	part, err1 := strconv.ParseUint(a, 10, 64)
	parts, err2 := strconv.ParseUint(b, 10, 64)
	if err1 != nil || err2 != nil || part < 1 || part > parts {
		return 0, 0, fmt.Errorf("--shard %q: write I/N with 1 ≤ I ≤ N", s)
	}
	return part % parts, parts, nil
}
