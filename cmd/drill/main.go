// Command drill runs the drills: one by name, all, a sweep over seeds, or a
// replay of a seed or plan.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	exitFailed = 1 // a run failed, was vacuous, stale or undecided
	exitUsage  = 2 // the command line cannot be understood
)

// errFailed says that runs failed and everything about it has been printed.
var errFailed = errors.New("a run failed")

// gcPercent is how far the heap may grow before it is collected: worlds are small
// and short-lived, so that memory is cheap and collecting is not.
const gcPercent = 400

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	root := &cobra.Command{
		Use:   "drill",
		Short: "Run the high-availability drills in the simulator",
		Long: `drill replays the drills of high availability in a seeded simulator: the same broker,
controller, name server and client code as the daemons, under virtual time, with
simulated disks and networks. Every run is judged; the same seed gives the same run.

  drill list -v              what exists and what must be seen in each
  drill run A3               one drill, one seed
  drill run --all            every drill once: the table of verdicts
  drill sweep --seeds 1..200 many seeds
  drill replay A3:17         one run as a timeline`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(listCommand(), runCommand(), sweepCommand(), replayCommand(), mutantsCommand(), chaosCommand(), sessionCommand(), liveCommand(), workerCommand())
	root.AddCommand(append(baselineCommands(), benchCommand(), maelstromCommand())...)
	err := root.Execute()
	var exit *exitError
	switch {
	case err == nil:
	case errors.As(err, &exit):
		if exit.text != "" {
			fmt.Fprintln(os.Stderr, "drill:", exit.text)
		}
		os.Exit(exit.code)
	case errors.Is(err, errFailed):
		os.Exit(exitFailed)
	default:
		fmt.Fprintln(os.Stderr, "drill:", err)
		os.Exit(exitUsage)
	}
}
