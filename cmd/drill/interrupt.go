package main

import (
	"context"
	"fmt"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// exitInterrupted is how a shell reports a program that ended at SIGINT.
const exitInterrupted = 130

// untilSignal returns a context that ends at the first SIGINT or SIGTERM. The next
// one ends the program at once.
func untilSignal(cmd *cobra.Command) (ctx context.Context, stop func()) {
	parent := cmd.Context()
	if parent == nil {
		parent = context.Background()
	}
	ctx, stop = signal.NotifyContext(parent, syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// cutShort is the verdict of a command that was told to stop: its table is of the
// runs that had ended.
func cutShort(runs int) error {
	return &exitError{exitInterrupted, fmt.Sprintf("interrupted: the table is of the %d runs that had ended", runs)}
}
