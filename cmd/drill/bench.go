package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"lockstep/chaos/bench"
)

// benchFlags are the flags of drill bench.
type benchFlags struct {
	only      []string
	quick     bool
	full      bool
	bin, data string
	out       output
}

func benchCommand() *cobra.Command {
	var f benchFlags
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure the speed aims: simulator, three brokers as processes, recovery, memory",
		Long: `bench measures each aim of the product on this machine and prints one row an aim: what was
measured, the aim, the floor (a third of the aim; below it the command fails) and the ratio to
a minimal server of three processes that does the same writes, syncs and round trips in the
same run. Loads are sent by raw connections, 1 KiB a message, to the master of three brokers
that acknowledge when every member of the SyncStateSet holds the message.

"busy" is the share of the machine's processors in use during the row, by anybody: on a
machine that also does other things absolute figures mean little, ratios still say something.`,
		Example: `  drill bench --quick
  drill bench --only sim.standard
  drill bench --only sync --json bench.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return f.run(ctx, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	c.Flags().StringSliceVar(&f.only, "only", nil, "rows to measure, by name or by a name's beginning")
	c.Flags().BoolVar(&f.quick, "quick", false, "short loads: under three minutes in all")
	c.Flags().BoolVar(&f.full, "full", false, "recover a log of 10 GiB instead of 1 GiB")
	c.Flags().StringVar(&f.bin, "bin", "", "the lockstep binary (default: built into a temporary directory)")
	c.Flags().StringVar(&f.data, "data", "", "directory on the disk to measure (default: a temporary one, removed afterwards)")
	c.Flags().StringVar(&f.out.file, "json", "", "write one row a line to this file")
	return c
}

// benchNames are all rows in the order they are measured.
func benchNames() []string {
	return append(append([]string{simName}, bench.Names()...), bench.RecoveryName)
}

// wanted reports whether --only asks for a row.
func (f *benchFlags) wanted(name string) bool {
	return len(f.only) == 0 || slices.ContainsFunc(f.only, func(o string) bool { return strings.HasPrefix(name, o) })
}

func (f *benchFlags) run(ctx context.Context, out, errw io.Writer) error {
	for _, o := range f.only {
		if !slices.ContainsFunc(benchNames(), func(n string) bool { return strings.HasPrefix(n, o) }) {
			return fmt.Errorf("--only %s: no row begins so; there are %s", o, strings.Join(benchNames(), ", "))
		}
	}
	if err := f.out.open(); err != nil {
		return err
	}
	t := newBenchTable(out)
	var failed error
	report := func(r bench.Row) {
		t.add(&r)
		failed = errors.Join(failed, f.out.writeRow(&r))
	}
	err := f.measure(ctx, errw, report)
	if err := errors.Join(err, failed, f.out.close()); err != nil {
		return err
	}
	return t.finish()
}

// measure runs every wanted row; temporary files are gone afterwards.
func (f *benchFlags) measure(ctx context.Context, errw io.Writer, report func(bench.Row)) (err error) {
	if f.wanted(simName) {
		row, err := benchSim(f.quick)
		if err != nil {
			return err
		}
		report(row)
	}
	if !slices.ContainsFunc(benchNames()[1:], f.wanted) {
		return nil
	}
	dir, err := os.MkdirTemp(f.data, "lockstep-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := f.processes(ctx, dir, errw, report); err != nil || !f.wanted(bench.RecoveryName) {
		return err
	}
	return f.recovery(filepath.Join(dir, "log"), report)
}

// processes measures the daemons.
func (f *benchFlags) processes(ctx context.Context, dir string, errw io.Writer, report func(bench.Row)) error {
	if !slices.ContainsFunc(bench.Names(), f.wanted) {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	bin := f.bin
	if bin == "" {
		bin = filepath.Join(dir, "lockstep")
		build := exec.CommandContext(ctx, "go", "build", "-o", bin, "lockstep/cmd/lockstep")
		build.Stdout, build.Stderr = errw, errw
		if err := build.Run(); err != nil {
			return fmt.Errorf("build lockstep (or give --bin): %w", err)
		}
	}
	o := bench.Options{Bin: bin, Self: self, Data: dir, Warm: 2 * time.Second, Lasts: 8 * time.Second, Messages: 200_000, Sessions: 2000,
		Wanted: f.wanted, Report: report, Log: errw}
	if f.quick {
		o.Warm, o.Lasts, o.Messages = 500*time.Millisecond, 2500*time.Millisecond, 100_000 // more than maxTailBytes keeps
	}
	return bench.Run(ctx, o)
}

func (f *benchFlags) recovery(dir string, report func(bench.Row)) error {
	size := int64(1 << 30)
	if f.full {
		size *= 10
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	row, err := bench.Recovery(dir, size)
	if err != nil {
		return fmt.Errorf("recovery: %w", err)
	}
	report(row)
	return nil
}

// writeRow writes a row as a line of JSON.
func (o *output) writeRow(r *bench.Row) error {
	if o.w == nil {
		return nil
	}
	line, err := json.Marshal(struct {
		*bench.Row
		Floor  float64 `json:"floor"`
		Ratio  float64 `json:"ratio,omitempty"`
		Passed bool    `json:"passed"`
	}{r, r.Floor(), r.Ratio(), r.Passed()})
	if err != nil {
		return err
	}
	_, err = o.w.Write(append(line, '\n'))
	return err
}
