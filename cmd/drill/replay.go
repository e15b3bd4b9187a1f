package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/scenarios"
	"lockstep/sim"
)

func replayCommand() *cobra.Command {
	var verbose bool
	var set []string
	var save string
	c := &cobra.Command{
		Use:   "replay DRILL:SEED | SEED | PLAN",
		Short: "Run one drill again and print it as a timeline",
		Long: `replay runs one seed of a drill, or a plan file, in this process and prints a readable
timeline: one line a transition, a column a node; what happened at several nodes at once, or again and again, is one line.
A bare seed means the random world. --verbose merges nothing and adds every frame and disk operation.`,
		Example: "  drill replay A3:17\n  drill replay --verbose A3:17 | less -S\n  drill replay scenarios/corpus/some.plan",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			settings, err := parseSettings(set)
			if err != nil {
				return err
			}
			return replay(cmd, args[0], replayOptions{verbose: verbose, settings: settings, save: save})
		},
	}
	c.Flags().BoolVar(&verbose, "verbose", false, "print each event by itself, and frames and disk operations too")
	c.Flags().StringArrayVar(&set, "set", nil, "override a drawn option, name=value")
	c.Flags().StringVar(&save, "save", "", "write the run's plan to this file")
	return c
}

type replayOptions struct {
	verbose  bool
	settings []scenarios.Option
	save     string
}

func replay(cmd *cobra.Command, what string, o replayOptions) error {
	d, seed, plan, err := subject(what)
	if err != nil {
		return err
	}
	save, err := saveTo(o.save, d)
	if err != nil {
		return err
	}
	if save != nil {
		defer save.Close() // closed before in every run that got that far
	}
	var rec *sim.Recorder
	run, rep, err := scenarios.Execute(d, seed, scenarios.RunOptions{Plan: plan, Settings: o.settings, Wall: wall, Observe: func(w *sim.World) {
		rec = sim.NewRecorder(w)
		rec.Frames, rec.Disk = o.verbose, o.verbose
	}})
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if rec == nil {
		fmt.Fprintf(out, "%s %s seed %d: %s, %d cases checked without a world\n", d.ID, d.Name, seed, rep.Verdict, rep.Acknowledged)
		return nil
	}
	for _, opt := range rep.Options {
		fmt.Fprintf(out, "%s=%s ", opt.Name, opt.Value)
	}
	timeline := rec.Timeline
	if o.verbose {
		timeline = rec.FullTimeline
	}
	fmt.Fprintf(out, "\n\n%s\n", timeline())
	for _, f := range rep.Findings {
		fmt.Fprintln(out, f)
	}
	for _, a := range rep.Assertions {
		fmt.Fprintf(out, "%-5v %s %s\n", a.Holds, a.Name, a.Detail)
	}
	fmt.Fprintf(out, "\n%s %s seed %d: %s, hash %s, %d acknowledged, %d unknown, %d lost (%d allowed)\n", d.ID, d.Name, seed, rep.Verdict, rep.Hash,
		rep.Acknowledged, rep.Unknown, rep.Lost, rep.LossAllowed)
	if save != nil {
		if err := write(save, run.Plan.Format()); err != nil {
			return fmt.Errorf("--save: %w", err)
		}
	}
	if rep.Verdict != scenarios.Pass {
		fmt.Fprintln(cmd.ErrOrStderr(), rep.Reason)
		return errFailed
	}
	return nil
}

// saveTo opens the file for the plan before the run, so that a name that cannot be
// written costs no run; what the file holds stays until there is a plan. nil without
// a name.
func saveTo(name string, d *scenarios.Drill) (*os.File, error) {
	if name == "" {
		return nil, nil
	}
	if d.Pure != nil {
		return nil, fmt.Errorf("--save: %s has no world, and so no plan: its seed is all there is", d.ID)
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("--save: %w", err)
	}
	return f, nil
}

// write makes text all that the file holds, and closes it.
func write(f *os.File, text string) error {
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() { // a pipe or terminal holds nothing
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteString(text)
	}
	return errors.Join(err, f.Close())
}

// randomWorld is the drill that a bare seed means.
const randomWorld = "R"

// subject reads DRILL:SEED, a seed of the random world, or the name of a plan file.
func subject(what string) (*scenarios.Drill, uint64, *sim.Plan, error) {
	if name, text, ok := strings.Cut(what, ":"); ok {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, 0, nil, fmt.Errorf("seed %q: %w", text, err)
		}
		d, err := scenarios.Find(name)
		return d, seed, nil, err
	}
	if seed, err := strconv.ParseUint(what, 10, 64); err == nil {
		d, err := scenarios.Find(randomWorld)
		return d, seed, nil, err
	}
	text, err := os.ReadFile(what)
	if err != nil {
		return nil, 0, nil, fmt.Errorf("%q is neither DRILL:SEED, nor a seed, nor a plan file: %w", what, err)
	}
	plan, err := sim.ParsePlan(string(text))
	if err != nil {
		return nil, 0, nil, fmt.Errorf("%s: %w", what, err)
	}
	if plan.Drill == "" {
		return nil, 0, nil, fmt.Errorf("%s: the plan names no drill: add the line, drill NAME; drill list shows the names", what)
	}
	d, err := scenarios.Find(plan.Drill)
	return d, plan.Seed, plan, err
}
