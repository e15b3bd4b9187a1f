package main

import (
	"fmt"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"lockstep/chaos"
	"lockstep/scenarios"
)

func chaosCommand() *cobra.Command {
	var o chaos.Options
	var out output
	c := &cobra.Command{
		Use:   "chaos --bin LOCKSTEP --client INTEROP --data DIR",
		Short: "Drill A3 on real processes under a stock RocketMQ client",
		Long: `chaos starts three brokers, three controllers and a name server as processes on loopback,
produces and consumes with a stock client, kills the master with SIGKILL (also while another
replica is catching up), stops one with SIGSTOP, and reconciles every key with the logs on disk.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			if err := out.open(); err != nil {
				return err
			}
			o.Log = cmd.ErrOrStderr()
			rep, err := chaos.MasterCrash(ctx, o)
			if err != nil {
				return fmt.Errorf("chaos: %w (logs and stores are in %s)", err, o.Data)
			}
			return finishChaos(cmd, rep, &out)
		},
	}
	c.Flags().StringVar(&o.Bin, "bin", "", "the lockstep binary")
	c.Flags().StringVar(&o.Client, "client", "", "the stock client, built from chaos/interop")
	c.Flags().StringVar(&o.Data, "data", "", "empty directory for stores, configurations and logs")
	c.Flags().IntVar(&o.Rounds, "rounds", 3, "masters to kill")
	c.Flags().IntVar(&o.Rate, "rate", 1200, "messages per second")
	c.Flags().Uint64Var(&o.Seed, "seed", 1, "draws the moments of the kills")
	c.Flags().StringVar(&o.Flush, "flush", "", "flushDiskType of the brokers (default SYNC_FLUSH)")
	c.Flags().StringVar(&out.file, "json", "", "write the report to this file")
	for _, f := range []string{"bin", "client", "data"} {
		if err := c.MarkFlagRequired(f); err != nil {
			panic(err) // the flag was defined above
		}
	}
	return c
}

func finishChaos(cmd *cobra.Command, rep *scenarios.Report, out *output) error {
	t := newTable(cmd.OutOrStdout(), cmd.ErrOrStderr())
	t.add(rep, out.write(rep))
	w := cmd.OutOrStdout()
	for _, e := range rep.Timeline {
		fmt.Fprintf(w, "T+%7.3f  %s\n", e.At, e.What)
	}
	for _, r := range rep.Roles {
		fmt.Fprintf(w, "T+%7.3f  %s epoch %d set %s (%s)\n", r.At, r.Group, r.Epoch, r.Set, r.Why)
	}
	for _, f := range rep.Findings {
		fmt.Fprintln(cmd.ErrOrStderr(), f)
	}
	fmt.Fprintf(w, "sent %d, acknowledged %d, unknown %d, lost %d, duplicates %d, consumed %d, longest write gap %.1fs, send p50 %.1f ms p99 %.1f ms\n\n",
		rep.Sent, rep.Acknowledged, rep.Unknown, rep.Lost, rep.Duplicates, rep.Consumed, float64(rep.WriteGapMillis)/1e3, rep.SendMillis.Before.P50, rep.SendMillis.Before.P99)
	if err := out.close(); err != nil {
		return err
	}
	return t.finish()
}
