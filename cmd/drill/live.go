package main

import (
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
			drills, err := chosen(args, all)
			if err != nil {
				return err
			}
			if s.Settings, err = parseSettings(set); err != nil {
				return err
			}
			if verbose {
				s.Log = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
			}
			if err := out.open(); err != nil {
				return err
			}
			t := newTable(cmd.OutOrStdout(), cmd.ErrOrStderr())
			notLive, err := runLive(t, &out, drills, jobs, func(d *scenarios.Drill) (*scenarios.Report, error) { return live.Run(d, seed, s) })
			if err != nil {
				return err
			}
			if err := out.close(); err != nil {
				return fmt.Errorf("--json: %w", err)
			}
			return finishLive(cmd, t, notLive, len(drills))
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

// runLive runs the drills, so many at once, and returns why some were not.
func runLive(t *table, out *output, drills []*scenarios.Drill, jobs int, run func(d *scenarios.Drill) (*scenarios.Report, error)) (notLive []string, err error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	queue := make(chan *scenarios.Drill)
	for range max(1, jobs) {
		wg.Go(func() {
			for d := range queue {
				rep, fault := run(d)
				mu.Lock()
				switch {
				case fault != nil && err == nil:
					err = fault
				case fault != nil:
				case rep.Verdict == scenarios.NotLive:
					notLive = append(notLive, fmt.Sprintf("%-24s %s", d.ID, rep.Reason))
					if fault := out.write(rep); fault != nil && err == nil {
						err = fault
					}
				default:
					t.add(rep, out.write(rep))
				}
				mu.Unlock()
			}
		})
	}
	for _, d := range drills {
		queue <- d
	}
	close(queue)
	wg.Wait()
	return notLive, err
}

// finishLive prints the table and lists what was not run.
func finishLive(cmd *cobra.Command, t *table, notLive []string, drills int) error {
	w := cmd.OutOrStdout()
	if len(notLive) > 0 {
		fmt.Fprintf(w, "not live:\n  %s\n\n", strings.Join(notLive, "\n  "))
	}
	if len(notLive) == drills {
		return nil
	}
	return t.finish()
}
