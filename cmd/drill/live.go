package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"lockstep/chaos/live"
	"lockstep/scenarios"
)

func liveCommand() *cobra.Command {
	var all, verbose bool
	var seed uint64
	var jobs int
	var set []string
	var s live.Settings
	var out output
	c := &cobra.Command{
		Use:   "live NAME… | --all",
		Short: "Run drills in this process over real sockets, files and clock",
		Long: `live runs drills with the host of the daemons instead of the simulator: every node of the
cluster in this process, TCP on loopback, stores in files, the real clock at --pace times its
speed. Plans, judges and assertions are those of drill run; no two runs are alike.`,
		Example: "  drill live A3 --seed 17\n  drill live --all --json live.jsonl",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := atLeast("jobs", jobs, 1); err != nil {
				return err
			}
			drills, err := chosen(args, all)
			if err != nil {
				return err
			}
			if s.Settings, err = parseSettings(set); err != nil {
				return err
			}
			if err := checkSettings(drills, seed, seed, s.Settings); err != nil {
				return err
			}
			if verbose {
				s.Log = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
			}
			if err := out.open(); err != nil {
				return err
			}
			ctx, stop := untilSignal(cmd)
			defer stop()
			l := &liveRuns{table: newTable(cmd.OutOrStdout(), cmd.ErrOrStderr()), out: &out, mapped: map[string]bool{}}
			if err := l.run(ctx, drills, jobs, func(d *scenarios.Drill) (*scenarios.Report, error) { return live.Run(d, seed, s) }); err != nil {
				return err
			}
			if err := out.close(); err != nil {
				return fmt.Errorf("--json: %w", err)
			}
			err = l.finish()
			if ctx.Err() != nil {
				return cutShort(l.runs())
			}
			return err
		},
	}
	c.Flags().BoolVar(&all, "all", false, "every drill that exists")
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "print what the nodes log")
	c.Flags().Uint64Var(&seed, "seed", 1, "draws options and plan; what happens then is the machine's")
	c.Flags().Int64Var(&s.Pace, "pace", live.DefaultPace, "seconds of the nodes in a real one")
	c.Flags().IntVar(&jobs, "jobs", 1, "drills at once; they disturb each other's clocks")
	c.Flags().StringVar(&s.Dir, "data", "", "where the files of the nodes go (default: the system's temporary directory)")
	c.Flags().StringArrayVar(&set, "set", nil, "override a drawn option, name=value")
	c.Flags().StringVar(&out.file, "json", "", "write one report a line to this file")
	c.ValidArgsFunction = completeDrills
	return c
}

// liveRuns gathers the reports of live runs.
type liveRuns struct {
	*table
	out     *output
	mu      sync.Mutex
	notLive []string
	mapped  map[string]bool // how faults were carried out
}

// run runs the drills, so many at once, and begins none when ctx has ended. Those
// under way go on to their end, which removes their files.
func (l *liveRuns) run(ctx context.Context, drills []*scenarios.Drill, jobs int, run func(d *scenarios.Drill) (*scenarios.Report, error)) error {
	defer context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		fmt.Fprintln(l.errw, "stopping when the drills under way have ended; Ctrl-C again stops at once")
	})()
	var wg sync.WaitGroup
	var errs []error
	queue := make(chan *scenarios.Drill)
	for range jobs {
		wg.Go(func() {
			for d := range queue {
				rep, err := run(d)
				l.mu.Lock()
				if err != nil {
					errs = append(errs, err)
				} else {
					l.take(rep)
				}
				l.mu.Unlock()
			}
		})
	}
	for _, d := range drills {
		if ctx.Err() != nil {
			break
		}
		select {
		case queue <- d:
		case <-ctx.Done():
		}
	}
	close(queue)
	wg.Wait()
	return errors.Join(errs...)
}

// take files one report.
func (l *liveRuns) take(rep *scenarios.Report) {
	for _, text := range rep.Mapped {
		l.mapped[text] = true
	}
	for _, text := range rep.Disturbed {
		fmt.Fprintf(l.errw, "%s seed %d, %s\n", rep.Drill, rep.Seed, text)
	}
	if rep.Verdict != scenarios.NotLive {
		l.add(rep, l.out.write(rep))
		return
	}
	l.notLive = append(l.notLive, fmt.Sprintf("%-24s %s", rep.Drill, rep.Reason))
	if err := l.out.write(rep); err != nil && l.err == nil {
		l.err = err
	}
}

// finish prints how faults were carried out, what was not run, and the table.
func (l *liveRuns) finish() error {
	if len(l.mapped) > 0 {
		fmt.Fprintf(l.table.out, "how faults were carried out:\n  %s\n\n", strings.Join(sorted(l.mapped), "\n  "))
	}
	if len(l.notLive) > 0 {
		fmt.Fprintf(l.table.out, "not live:\n  %s\n\n", strings.Join(l.notLive, "\n  "))
		if len(l.rows) == 0 {
			return l.err
		}
	}
	return l.table.finish()
}
