package main

import (
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"lockstep/scenarios"
)

// output is where reports go beside the table.
type output struct {
	file string
	w    io.WriteCloser
}

func (o *output) open() error {
	if o.file == "" {
		return nil
	}
	f, err := os.Create(o.file)
	if err != nil {
		return fmt.Errorf("--json: %w", err)
	}
	o.w = f
	return nil
}

func (o *output) write(r *scenarios.Report) error {
	if o.w == nil {
		return nil
	}
	return r.WriteJSON(o.w)
}

func (o *output) close() error {
	if o.w == nil {
		return nil
	}
	return o.w.Close()
}

func runCommand() *cobra.Command {
	var all bool
	var seed uint64
	var jobs int
	var set []string
	var out output
	c := &cobra.Command{
		Use:   "run NAME… | --all",
		Short: "Run drills by name with one seed, or every drill",
		Example: `  drill run A3 --seed 17
  drill run --all
  drill run A3 --set minInSyncReplicas=2 --set writeLease=off`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := atLeast("jobs", jobs, 1); err != nil {
				return err
			}
			drills, err := chosen(args, all)
			if err != nil {
				return err
			}
			settings, err := parseSettings(set)
			if err != nil {
				return err
			}
			if err := checkSettings(drills, seed, seed, settings); err != nil {
				return err
			}
			if err := out.open(); err != nil {
				return err
			}
			ctx, stop := untilSignal(cmd)
			defer stop()
			t := newTable(cmd.OutOrStdout(), cmd.ErrOrStderr())
			i := 0
			p := &pool{workers: min(jobs, len(drills)), report: func(r *scenarios.Report) { t.add(r, out.write(r)) }}
			err = p.run(ctx, func() (job, bool) {
				if i == len(drills) {
					return job{}, false
				}
				i++
				return job{drill: drills[i-1], seed: seed, twice: all, settings: settings}, true
			})
			if err != nil {
				return err
			}
			if err := out.close(); err != nil {
				return fmt.Errorf("--json: %w", err)
			}
			err = t.finish()
			if ctx.Err() != nil {
				return cutShort(t.runs())
			}
			return err
		},
	}
	c.Flags().BoolVar(&all, "all", false, "every drill that exists")
	c.Flags().Uint64Var(&seed, "seed", 1, "the seed of the run")
	c.Flags().IntVar(&jobs, "jobs", runtime.NumCPU(), "worker processes")
	c.Flags().StringArrayVar(&set, "set", nil, "override a drawn option, name=value")
	c.Flags().StringVar(&out.file, "json", "", "write one report a line to this file")
	c.ValidArgsFunction = completeDrills
	return c
}

// chosen resolves names; --all takes every drill.
func chosen(names []string, all bool) ([]*scenarios.Drill, error) {
	if all {
		if len(names) > 0 {
			return nil, fmt.Errorf("give names or --all, not both")
		}
		return scenarios.Drills(), nil
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("name a drill, or --all; drill list shows them")
	}
	var out []*scenarios.Drill
	for _, n := range names {
		d, err := scenarios.Find(n)
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

func completeDrills(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, d := range scenarios.Drills() {
		out = append(out, d.ID+"\t"+d.Name)
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
