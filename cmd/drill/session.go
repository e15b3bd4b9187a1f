package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"lockstep/chaos/session"
)

func sessionCommand() *cobra.Command {
	var client, write string
	c := &cobra.Command{
		Use:   "session --client INTEROP [--write FILE]",
		Short: "Record what a stock client says and tick off what it needs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := os.MkdirTemp("", "lockstep-session-")
			if err != nil {
				return fmt.Errorf("scratch directory: %w", err)
			}
			defer os.RemoveAll(dir)
			list, err := session.Record(client, dir)
			if err != nil {
				return fmt.Errorf("record: %w", err)
			}
			for _, e := range list {
				fmt.Fprintf(cmd.OutOrStdout(), "%-7s → %-8s %-32s %4d → %4d  ×%d\n", e.From, e.To, e.Name, e.Request, e.Response, e.Times)
			}
			if write != "" {
				f, err := os.Create(write)
				if err != nil {
					return err
				}
				if err := session.Write(f, list); err != nil {
					return err
				}
				if err := f.Close(); err != nil {
					return err
				}
			}
			why := session.Unticked(list)
			for _, w := range why {
				fmt.Fprintln(cmd.ErrOrStderr(), "not ticked:", w)
			}
			if len(why) > 0 {
				return errFailed
			}
			return nil
		},
	}
	c.Flags().StringVar(&client, "client", "", "the stock client, built from chaos/interop")
	c.Flags().StringVar(&write, "write", "", "keep the recording in this file")
	if err := c.MarkFlagRequired("client"); err != nil {
		panic(err) // the flag was defined above
	}
	return c
}
