package main

import (
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"lockstep/chaos/bench"
)

// baselineCommands are the processes of the baseline that bench starts.
func baselineCommands() []*cobra.Command {
	var file, followers string
	follow := &cobra.Command{
		Use: bench.VerbFollow, Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return bench.Follow("127.0.0.1:0", file, cmd.OutOrStdout())
		},
	}
	lead := &cobra.Command{
		Use: bench.VerbLead, Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return bench.Lead(ctx, "127.0.0.1:0", file, strings.Split(followers, ","), cmd.OutOrStdout())
		},
	}
	for _, c := range []*cobra.Command{follow, lead} {
		c.Flags().StringVar(&file, "file", "", "file to write")
	}
	lead.Flags().StringVar(&followers, "followers", "", "addresses of the followers, with commas")
	return []*cobra.Command{follow, lead}
}
