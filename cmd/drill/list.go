package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/chaos/live"
	"lockstep/scenarios"
)

func listCommand() *cobra.Command {
	var verbose bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the drills; -v prints what must be seen in each",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := cmd.OutOrStdout()
			for _, d := range scenarios.Drills() {
				host := "sim"
				if live.NotLive(d) == "" {
					host += ", live"
				}
				if d.Real {
					host += ", real"
				}
				fmt.Fprintf(out, "%-24s %-28s %s\n", d.ID, d.Name, host)
				if !verbose {
					continue
				}
				fmt.Fprintf(out, "    %s\n", d.Story)
				for _, a := range d.Assertions {
					fmt.Fprintf(out, "    - %s: %s\n", a.Name, a.Text)
				}
				fmt.Fprintf(out, "    least activity: %d acknowledged before, %d in flight at, %d after the faults%s\n\n",
					d.Least.Before, d.Least.InFlight, d.Least.After, marksText(d.Least.Marks))
			}
			return nil
		},
	}
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "print story, assertions and least activity")
	return c
}

func marksText(marks []string) string {
	if len(marks) == 0 {
		return ""
	}
	return "; marks: " + strings.Join(marks, ", ")
}
